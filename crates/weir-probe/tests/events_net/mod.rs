//! Namespaces with traffic in them, and a sink that checks its input.

pub(crate) mod ends;
pub(crate) mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_probe::{
    Counters, Event, EventKind, Method, Namespace, PacketEvent, Plan, ProbeError, Queue, QueueId,
    Run, Sink, Source, Target,
};

/// A namespace that is removed when the value is dropped. Its device `x0` has the address 10.9.0.1
/// and a neighbour entry for 10.9.0.2, an address that no host has.
pub(crate) struct Place {
    pub(crate) name: String,
}

impl Place {
    /// Creates a namespace; `None`, with the reason on standard output, if this is not possible.
    pub(crate) fn new() -> Option<Place> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: needs root to make network namespaces");
            return None;
        }
        let name =
            format!("weirevents{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        if !run("ip", &["netns", "add", &name]) {
            println!("SKIPPED: `ip netns add` does not work here");
            return None;
        }
        let place = Place { name };
        place.ip("link set lo up");
        place.add_device();
        Some(place)
    }

    /// Creates `x0` and its peer `x1`.
    pub(crate) fn add_device(&self) {
        self.ip("link add x0 type veth peer name x1");
        self.within(|| {
            // Without IPv6 only the test itself sends packets.
            for device in ["x0", "x1"] {
                let _ =
                    std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1");
            }
        });
        self.ip("link set x1 up");
        self.ip("addr add 10.9.0.1/24 dev x0");
        self.ip("link set x0 up");
        self.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev x0 nud permanent");
    }

    pub(crate) fn ip(&self, words: &str) {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(words.split(' ')).collect();
        assert!(run("ip", &words), "ip {words:?}");
    }

    /// Runs `tc qdisc` in the namespace.
    pub(crate) fn discipline(&self, words: &str) {
        let words: Vec<&str> =
            ["-n", &self.name, "qdisc"].into_iter().chain(words.split(' ')).collect();
        assert!(run("tc", &words), "tc {words:?}");
    }

    /// Runs `nft` in the namespace. `None`, with the reason on standard output, if this is not
    /// possible.
    pub(crate) fn nft(&self, words: &str) -> Option<()> {
        let works = run("ip", &["netns", "exec", &self.name, "nft", words]);
        if !works {
            println!("SKIPPED: `nft` does not work here");
        }
        works.then_some(())
    }

    /// Queue length in packets, and counters, of the root discipline of `x0`, according to `tc`.
    pub(crate) fn truth(&self) -> (u64, Counters) {
        let output = Command::new("tc")
            .args(["-n", &self.name, "-s", "-j", "qdisc", "show", "dev", "x0", "root"])
            .output();
        let shown: Vec<serde_json::Value> =
            serde_json::from_slice(&output.expect("tc runs").stdout).expect("JSON");
        let field = |name: &str| shown[0][name].as_u64().expect("a number");
        let [packets, bytes, drops, requeues, overlimits] =
            ["packets", "bytes", "drops", "requeues", "overlimits"].map(field);
        (field("qlen"), Counters { packets, bytes, drops, requeues, overlimits })
    }

    /// Waits until the queue of `x0` is empty.
    pub(crate) fn drain(&self) {
        let end = Instant::now() + PATIENCE;
        while self.truth().0 > 0 {
            assert!(Instant::now() < end, "the queue does not drain: {:?}", self.truth());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs `work` on a thread in the namespace.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let place =
            File::open(format!("/run/netns/{}", self.name)).expect("the namespace was made");
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter it");
                work()
            });
            thread.join().expect("no panic in the namespace")
        })
    }

    pub(crate) fn has_link(&self, name: &str) -> bool {
        self.within(|| {
            std::fs::read_to_string("/proc/thread-self/net/dev")
                .expect("proc is mounted")
                .contains(name)
        })
    }

    /// Sends packets of 142 bytes through `x0` at full speed while `may_continue` allows it, and
    /// returns their number.
    pub(crate) fn send(&self, may_continue: impl Fn(u64) -> bool) -> u64 {
        let socket = self.within(|| UdpSocket::bind("10.9.0.1:0").expect("the address is there"));
        socket.set_nonblocking(true).expect("sockets can be non-blocking");
        let mut sent = 0;
        while may_continue(sent) {
            match socket.send_to(&[0; 100], "10.9.0.2:9") {
                // The packets in the queue use up the socket's buffer.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                _ => sent += 1,
            }
        }
        sent
    }

    pub(crate) fn plan(&self, device: &str, method: Method) -> Plan {
        let target =
            Target { device: device.into(), namespace: Namespace::Name(self.name.clone()) };
        let rate = (method == Method::Timer).then_some(1000);
        Plan {
            targets: vec![target],
            method: Some(method),
            rate,
            children: true,
            bands: false,
            packets: false,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .stderr(std::process::Stdio::null())
            .status();
    }
}

/// Opens the source of a plan of readings, calls [`Source::turn`] once, calls `work`, and finishes
/// the source. All this is on a new thread, because a source may move its thread into the namespace
/// that it watches. `None`, with the reason on standard output, if the method is not available.
pub(crate) fn watch(
    plan: &Plan,
    work: impl FnOnce(&mut dyn Source, &mut Log) + Send,
) -> Option<Log> {
    let name = plan.method.map_or("any", Method::name);
    let read = || match weir_probe::open(plan) {
        Ok(mut opened) => {
            let mut log = Log { remarks: opened.remarks, ..Log::default() };
            opened.source.turn(&mut log).expect("the device is there");
            work(opened.source.as_mut(), &mut log);
            opened.source.finish(&mut log).expect("the source finishes");
            Some(log)
        }
        Err(
            error @ (ProbeError::Rights { .. }
            | ProbeError::Load { .. }
            | ProbeError::Unavailable(_)),
        ) => {
            println!("SKIPPED: {name}: {error}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    };
    std::thread::scope(|scope| scope.spawn(read).join().expect("no panic while reading"))
}

/// Calls [`Source::turn`] until a condition holds; panics on a timeout.
pub(crate) fn turn_until(
    source: &mut dyn Source,
    log: &mut Log,
    what: &str,
    holds: impl Fn(&Log) -> bool,
) {
    let end = Instant::now() + PATIENCE;
    while !holds(log) {
        assert!(
            Instant::now() < end,
            "{}: {what} does not come: {:?} {:?}",
            source.method().name(),
            log.there(),
            log.remarks
        );
        source.turn(log).expect("a change is not an error");
    }
}

/// A sink that stores what the tests check.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Every queue that ever existed.
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    pub(crate) gone: BTreeSet<QueueId>,
    pub(crate) events: Vec<Event>,
    /// Every event of a packet, if the plan records packets.
    pub(crate) packets_seen: Vec<PacketEvent>,
    /// Readings of each queue.
    pub(crate) readings: BTreeMap<QueueId, u64>,
    /// The largest number of packets and the largest number of bytes in any reading or event.
    pub(crate) most: (u32, u32),
    pub(crate) counters: BTreeMap<QueueId, Counters>,
    /// The last time at which no packet waited.
    pub(crate) empty_at: Option<u64>,
    pub(crate) remarks: Vec<String>,
}

impl Log {
    /// Labels of the current queues.
    pub(crate) fn there(&self) -> BTreeSet<String> {
        self.queues
            .iter()
            .filter(|(id, _)| !self.gone.contains(id))
            .map(|(_, queue)| queue.label())
            .collect()
    }

    pub(crate) fn has_remark(&self, words: &str) -> bool {
        self.remarks.iter().any(|remark| remark.contains(words))
    }

    /// Number of packets in the events of a kind.
    pub(crate) fn packets(&self, kind: EventKind) -> u64 {
        self.events
            .iter()
            .filter(|event| event.kind == kind)
            .map(|event| u64::from(event.packets))
            .sum()
    }

    fn note_length(&mut self, id: QueueId, (qlen, backlog): (u32, u32)) {
        assert!(
            self.queues.contains_key(&id) && !self.gone.contains(&id),
            "a length of {id}, which is not there"
        );
        self.most = (self.most.0.max(qlen), self.most.1.max(backlog));
    }
}

impl Sink for Log {
    fn appeared(&mut self, _: u64, id: QueueId, queue: &Queue) {
        assert!(self.queues.insert(id, queue.clone()).is_none(), "{id} has appeared twice");
    }
    fn vanished(&mut self, _: u64, id: QueueId) {
        assert!(
            self.queues.contains_key(&id) && self.gone.insert(id),
            "{id} vanishes, and was not there"
        );
    }
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            assert!(run.count > 0 && run.first <= run.last, "{run:?}");
            self.note_length(run.queue, (run.qlen, run.backlog));
            *self.readings.entry(run.queue).or_default() += u64::from(run.count);
        }
    }
    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.note_length(event.queue, (event.qlen, event.backlog));
            self.events.push(*event);
        }
    }
    fn packets(&mut self, packets: &[PacketEvent]) {
        self.packets_seen.extend_from_slice(packets);
    }
    fn empty(&mut self, time: u64) {
        self.empty_at = Some(time);
    }
    fn counters(&mut self, _: u64, id: QueueId, counters: &Counters) {
        self.counters.insert(id, *counters);
    }
    fn remark(&mut self, _: u64, text: &str) {
        self.remarks.push(text.to_owned());
    }
}

pub(crate) fn run(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).status().is_ok_and(|status| status.success())
}

/// Time limit for changes that take effect quickly on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
