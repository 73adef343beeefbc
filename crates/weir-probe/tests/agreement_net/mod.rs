//! A network namespace with devices, for tests in which queues do not change while they are read;
//! and the state of these queues according to `tc` and according to each method of the probe.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_probe::{
    Counters, Handle, Method, Namespace, Plan, ProbeError, Queue, QueueId, Run, Sink, Source,
    Target, Transmission,
};

/// A namespace that is removed when the value is dropped. Its device `x0` has the address 10.9.0.1
/// and a neighbour 10.9.0.2 that does not exist.
pub(crate) struct Place {
    name: String,
}

/// A discipline: its kind, handle, parent, and whether it is the root.
pub(crate) type Key = (String, Handle, Handle, bool);
/// The packets and bytes in a discipline, and its counters.
pub(crate) type State = (u32, u32, Counters);

impl Place {
    /// Creates a namespace; `None`, with the reason on standard output, if this is not possible.
    pub(crate) fn new() -> Option<Place> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: needs root to make network namespaces");
            return None;
        }
        let name =
            format!("weirprobe{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        if !run("ip", &["netns", "add", &name]) {
            println!("SKIPPED: `ip netns add` does not work here");
            return None;
        }
        let place = Place { name };
        place.ip("link add x0 type veth peer name x1");
        for device in ["x0", "x1"] {
            // Without IPv6 only the test itself sends packets.
            place.within(|| {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1")
                    .unwrap_or_default();
            });
            place.ip(&format!("link set {device} up"));
        }
        place.ip("addr add 10.9.0.1/24 dev x0");
        place.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev x0 nud permanent");
        Some(place)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn ip(&self, words: &str) {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(words.split(' ')).collect();
        assert!(run("ip", &words), "ip {words:?}");
    }

    /// Runs all lines in one `tc` process.
    pub(crate) fn tc(&self, lines: &str) {
        let mut child = Command::new("tc")
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("tc comes with ip");
        child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("tc reads");
        assert!(child.wait().expect("tc was started").success(), "tc: {lines}");
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

    /// Sends packets of 142 bytes through `x0`, one after the other, with a priority: a class of
    /// `htb`, or the key by which `pfifo_fast` sorts.
    pub(crate) fn send(&self, packets: u32, priority: i32) {
        // Each call uses a new socket: waiting packets fill its buffer, and with a full buffer the
        // send would block.
        let socket = self.within(|| UdpSocket::bind("10.9.0.1:0").expect("the address is there"));
        setsockopt(&socket, sockopt::Priority, &priority).expect("root may set any priority");
        for _ in 0..packets {
            // Some kernels report a full queue, which some tests provoke.
            let _ = socket.send_to(&[0; 100], "10.9.0.2:9");
        }
    }

    /// The state according to `tc`, parsed here and not by the code under test.
    pub(crate) fn truth(&self, device: &str) -> BTreeMap<Key, State> {
        let words = ["-n", &self.name, "-s", "-j", "qdisc", "show", "dev", device, "invisible"];
        let output = Command::new("tc").args(words).output().expect("tc runs");
        assert!(output.status.success(), "{output:?}");
        let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let number = |text: &str| {
            let (major, minor) = text.split_once(':').expect("a handle");
            let part = |text: &str| {
                if text.is_empty() {
                    0
                } else {
                    u32::from_str_radix(text, 16).expect("hexadecimal")
                }
            };
            Handle(part(major) << 16 | part(minor))
        };
        let one = |shown: &serde_json::Value| {
            let field = |name: &str| shown[name].as_u64().expect("a number");
            let small = |name: &str| u32::try_from(field(name)).expect("the number has 32 bits");
            let parent = shown["parent"].as_str().map_or(Handle::ROOT, number);
            let is_root = shown["root"].as_bool().unwrap_or(false);
            let key = (
                shown["kind"].as_str().expect("a name").to_owned(),
                number(shown["handle"].as_str().expect("a handle")),
                parent,
                is_root,
            );
            let [packets, bytes, drops, requeues, overlimits] =
                ["packets", "bytes", "drops", "requeues", "overlimits"].map(field);
            (
                key,
                (
                    small("qlen"),
                    small("backlog"),
                    Counters { packets, bytes, drops, requeues, overlimits },
                ),
            )
        };
        all.iter().map(one).collect()
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
            bands: true,
            packets: false,
        }
    }

    /// The state according to a method after some turns; `None`, with the reason on standard
    /// output, if the method is not available.
    pub(crate) fn seen(&self, plan: &Plan) -> Option<Seen> {
        watch(plan, |source, seen| {
            for _ in 0..TURNS {
                source.turn(seen).expect("the device is there");
            }
        })
    }
}

/// Opens a plan and lets `work` read. Both happen on a new thread, since a source may move its
/// thread into the namespace that it reads.
pub(crate) fn watch(
    plan: &Plan,
    work: impl FnOnce(&mut dyn Source, &mut Seen) + Send,
) -> Option<Seen> {
    let name = plan.method.map_or("any", Method::name);
    let read = || match weir_probe::open(plan) {
        Ok(mut opened) => {
            let mut seen = Seen::default();
            work(opened.source.as_mut(), &mut seen);
            seen.readings = opened.source.pace().readings;
            seen.remarks.extend(opened.remarks);
            Some(seen)
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

impl Drop for Place {
    fn drop(&mut self) {
        run("ip", &["netns", "del", &self.name]);
    }
}

/// A sink that stores what the tests check.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Every queue that ever existed.
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    /// The last length of each queue.
    pub(crate) lengths: BTreeMap<QueueId, (u32, u32)>,
    /// Number of readings of each queue.
    pub(crate) counts: BTreeMap<QueueId, u64>,
    pub(crate) counters: BTreeMap<QueueId, Counters>,
    pub(crate) gone: Vec<QueueId>,
    pub(crate) remarks: Vec<String>,
    /// Transmission queues: device, number, limit.
    pub(crate) transmission: Vec<(String, u32, u64)>,
    /// Readings according to the source.
    pub(crate) readings: u64,
}

impl Seen {
    /// The current disciplines, as `tc` would show them.
    pub(crate) fn disciplines(&self) -> BTreeMap<Key, State> {
        let there = self
            .queues
            .iter()
            .filter(|(id, queue)| queue.band.is_none() && !self.gone.contains(id));
        there
            .map(|(id, queue)| {
                let (qlen, backlog) = self.lengths[id];
                (
                    (queue.kind.clone(), queue.handle, queue.parent, queue.root),
                    (qlen, backlog, self.counters[id]),
                )
            })
            .collect()
    }

    /// Packets in the bands of `pfifo_fast`.
    pub(crate) fn bands(&self) -> Vec<u32> {
        let mut bands: Vec<_> = self
            .queues
            .iter()
            .filter_map(|(id, queue)| Some((queue.band?, self.lengths[id].0)))
            .collect();
        bands.sort_unstable();
        bands.into_iter().map(|(_, packets)| packets).collect()
    }
}

impl Sink for Seen {
    fn appeared(&mut self, _: u64, id: QueueId, queue: &Queue) {
        assert!(self.queues.insert(id, queue.clone()).is_none(), "{id} has appeared twice");
    }
    fn vanished(&mut self, _: u64, id: QueueId) {
        self.gone.push(id);
    }
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            assert!(
                run.count > 0 && run.first <= run.last && !self.gone.contains(&run.queue),
                "{run:?}"
            );
            self.lengths.insert(run.queue, (run.qlen, run.backlog));
            *self.counts.entry(run.queue).or_default() += u64::from(run.count);
        }
    }
    fn counters(&mut self, _: u64, id: QueueId, counters: &Counters) {
        self.counters.insert(id, *counters);
    }
    fn transmission(&mut self, _: u64, queues: &[Transmission]) {
        self.transmission
            .extend(queues.iter().map(|queue| (queue.device.clone(), queue.queue, queue.limit)));
    }
    fn remark(&mut self, _: u64, text: &str) {
        self.remarks.push(text.to_owned());
    }
}

fn run(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).status().is_ok_and(|status| status.success())
}

const TURNS: u32 = 5;
