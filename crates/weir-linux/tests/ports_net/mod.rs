//! Namespaces for the tests of ports and loop: A, B, and the emulator's namespace E. Each test
//! creates its own namespaces and removes them.

mod faults;
mod rules;
mod workers;

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_core::config::PipeConfig;
use weir_linux::live::{Gso, LaneConfig, Live, LiveConfig, LiveHandle, LiveReport, Realtime};
use weir_linux::port::{AnyPort, PacketPort, TapPort};
use weir_rules::classify::{Classifier, Pass, Place, PlaceInterface};
use weir_rules::ruleset::{Changes, Ruleset};

/// How A and B are attached to the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A veth pair to E on each side, with packet sockets in E.
    Packet,
    /// A TAP device on each side.
    Tap,
}

/// Two namespaces, which the loop joins. A has 10.77.0.1 and fd77::1, B has 10.77.0.2 and fd77::2,
/// both on interface `x0`.
pub(crate) struct Net {
    tag: String,
    /// The loop's ports: index 0 leads to A, 1 to B.
    ports: Vec<AnyPort>,
    /// The ports of each worker after the first.
    more: Vec<Vec<AnyPort>>,
}

impl Net {
    /// Creates the namespaces; `None`, with a message on stderr, where that is impossible.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root to make network namespaces");
            return None;
        }
        let tag =
            format!("weirtest{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut net = Self { tag, ports: Vec::new(), more: Vec::new() };
        for side in ["a", "e", "b"] {
            if !run(&["netns", "add", &net.name(side)]) {
                eprintln!("SKIPPED: `ip netns add` does not work here");
                return None;
            }
        }
        for side in ["a", "b"] {
            let place = net.name(side);
            let port = match kind {
                Kind::Packet => {
                    let (outer, elsewhere) = (format!("e{side}"), net.name("e"));
                    ip(&[
                        "link", "add", "x0", "netns", &place, "type", "veth", "peer", "name",
                        &outer, "netns", &elsewhere,
                    ]);
                    ip(&["-n", &elsewhere, "link", "set", &outer, "up"]);
                    net.within("e", move || {
                        AnyPort::from(
                            PacketPort::open(&outer).expect("the interface was just made"),
                        )
                    })
                }
                Kind::Tap
                    if File::options().read(true).write(true).open("/dev/net/tun").is_err() =>
                {
                    eprintln!("SKIPPED: /dev/net/tun cannot be opened");
                    return None;
                }
                Kind::Tap => net.within(side, || {
                    AnyPort::from(TapPort::create("x0").expect("root may make TAP devices"))
                }),
            };
            net.ports.push(port);
            let host = if side == "a" { 1 } else { 2 };
            ip(&["-n", &place, "addr", "add", &format!("10.77.0.{host}/24"), "dev", "x0"]);
            ip(&["-n", &place, "addr", "add", &format!("fd77::{host}/64"), "dev", "x0", "nodad"]);
            ip(&["-n", &place, "link", "set", "lo", "up"]);
            ip(&["-n", &place, "link", "set", "x0", "up"]);
        }
        Some(net)
    }

    fn add_worker(&mut self) {
        self.more.push(
            self.ports
                .iter_mut()
                .map(|port| port.share().expect("packet sockets can be shared"))
                .collect(),
        );
    }

    pub(crate) fn name(&self, side: &str) -> String {
        format!("{}{side}", self.tag)
    }

    pub(crate) fn ip(&self, side: &str, words: &[&str]) {
        let place = self.name(side);
        ip(&[&["-n", &place], words].concat());
    }

    /// Starts `work` on a thread that is in a namespace.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        side: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let place =
            File::open(format!("/run/netns/{}", self.name(side))).expect("the namespace was made");
        std::thread::spawn(move || {
            move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            work()
        })
    }

    pub(crate) fn within<T: Send + 'static>(
        &self,
        side: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.spawn(side, work).join().expect("no panic in the namespace")
    }

    /// Starts the loop with a pipe for each direction.
    pub(crate) fn start(
        &mut self,
        pipe: &PipeConfig,
        change: impl FnOnce(&mut LiveConfig),
    ) -> Running {
        let lane = |name: &str, from, to, pipe| LaneConfig {
            name: name.into(),
            from,
            to,
            pipe,
            passes: Vec::new(),
            gso: Gso::Split,
        };
        let mut config = LiveConfig::new(
            std::mem::take(&mut self.ports),
            vec![lane("up", 0, 1, 1), lane("down", 1, 0, 2)],
        );
        config.pipes = vec![(1, pipe.clone()), (2, pipe.clone())];
        config.realtime = Realtime::Off;
        config.more_workers = std::mem::take(&mut self.more);
        change(&mut config);
        launch(Live::new(config).expect("the configuration is right"))
    }

    /// Starts the loop with rules in which A is the machine: `out` matches packets that A sends,
    /// and `in` packets that A receives.
    pub(crate) fn start_ruled(
        &mut self,
        script: &str,
        change: impl FnOnce(&mut LiveConfig),
    ) -> Running {
        let passes = [A_SENDS, A_RECEIVES];
        let lane = |name: &str, from, to, pass| LaneConfig {
            name: name.into(),
            from,
            to,
            pipe: 0,
            passes: vec![pass],
            gso: Gso::Split,
        };
        let lanes = vec![lane("up", 0, 1, passes[0]), lane("down", 1, 0, passes[1])];
        let mut config = LiveConfig::new(std::mem::take(&mut self.ports), lanes);
        config.realtime = Realtime::Off;
        config.more_workers = std::mem::take(&mut self.more);
        let ruleset = read(script);
        config.rules = Some(compiled(&ruleset));
        change(&mut config);
        let mut live = Live::new(config).expect("the configuration is right");
        let changes = Changes::between(&Ruleset::default(), &ruleset);
        live.configure(|engine, now| {
            changes.engine.iter().for_each(|change| change.apply(now, engine));
        });
        launch(live)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for side in ["a", "e", "b"] {
            let place = self.name(side);
            if std::path::Path::new("/run/netns").join(&place).exists() {
                run(&["netns", "del", &place]);
            }
        }
    }
}

/// The configuration that a script creates.
pub(crate) fn read(script: &str) -> Ruleset {
    let parsed = weir_rules::script::parse(script, "test", &weir_rules::NoFiles);
    assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics.render(false));
    let mut ruleset = Ruleset::default();
    ruleset.apply_all(&parsed.commands).expect("the commands fit together");
    ruleset
}

/// Rules compiled for A, which has the interface `x0`.
pub(crate) fn compiled(ruleset: &Ruleset) -> Arc<Classifier> {
    let interface =
        PlaceInterface { number: 0, name: "x0".into(), v4: vec![0x0a4d_0001], v6: Vec::new() };
    Arc::new(Classifier::compile(
        ruleset,
        &Place {
            interfaces: vec![interface],
            passes: vec![A_SENDS, A_RECEIVES],
            ..Place::default()
        },
    ))
}

const A_SENDS: Pass = Pass { out: true, bridged: false, recv: None, xmit: Some(0) };
const A_RECEIVES: Pass = Pass { out: false, bridged: false, recv: Some(0), xmit: None };

fn launch(mut live: Live) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handle = live.handle();
    let (sender, thread_id) = channel();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid()).expect("the test waits for it");
        live.run(&flag).expect("waiting works")
    });
    let thread_id = thread_id.recv().expect("the thread sends its id first");
    Running { handle, stop, thread_id, thread: Some(thread) }
}

/// A running loop, which ends when this is dropped.
pub(crate) struct Running {
    pub(crate) handle: LiveHandle,
    stop: Arc<AtomicBool>,
    /// The kernel's id of the first worker's thread.
    thread_id: i32,
    thread: Option<JoinHandle<LiveReport>>,
}

impl Running {
    pub(crate) fn stop(self) -> LiveReport {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }

    pub(crate) fn wait(mut self) -> LiveReport {
        let thread = self.thread.take().expect("the loop is joined only once");
        let report = thread.join().expect("the loop does not panic");
        for lane in &report.lanes {
            assert!(lane.counters.balanced(), "{lane:?}");
        }
        report
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the test is already being reported, so the thread's own panic is ignored.
            let _ = thread.join();
        }
    }
}

fn ip(words: &[&str]) {
    assert!(run(words), "ip {}", words.join(" "));
}

fn run(words: &[&str]) -> bool {
    Command::new("ip").args(words).status().is_ok_and(|status| status.success())
}
