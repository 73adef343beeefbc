//! Tests of the library as a program uses it: sessions in namespaces that are changed and observed
//! from other threads while packets pass.
//!
//! The tests need root. Without root, each test is reported as ignored, with `SKIPPED: why` on
//! stderr and in the file that `WEIR_SKIP_LOG` names. This program is also the helper process that
//! holds namespaces, and, as `session traffic`, the generator on the hosts of a scenario.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Trial};
use rustix::io::Errno;
use weir_control::plane::Plane as _;
use weir_core::Nanos;
use weir_linux::live::{LiveEvent, NoAnswer, Observer, Sample, StopReason};
use weir_linux::port::{AbsentPort, AnyPort, Fault};
use weir_linux::process::Signals;
use weir_linux::resident::Resident;
use weir_linux::topology::{EndedBy, Neighbours, PairSetup, Side};
use weir_live::changes::Changes;
use weir_live::daemon::{Bridges, BridgesSetup, LivePlane, Watchdog};
use weir_live::rules::Where;
use weir_live::scenario::{LiveScenario, Ran, ScenarioSetup, check};
use weir_live::{
    Capture, ChangeError, Control, Emulation, Link, LiveSession, Observation, OpenPorts, Prepared,
    SessionConfig, Snapshot, StopError, Tuning,
};
use weir_measure::scenario::FlowOutcome;
use weir_measure::series::LinkPeriod;
use weir_rules::ruleset::Ruleset;
use weir_rules::{LinkSpec, NoFiles, check_spec, script};

fn main() -> ExitCode {
    if let Some(code) = weir_linux::helper::main_if_helper() {
        return code;
    }
    if std::env::args().nth(1).is_some_and(|word| word == "traffic") {
        let done = weir_traffic::host::run(&mut io::stdin().lock(), &mut io::stdout());
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    // One test at a time: parallel sessions would compete for the processors.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests: [(&str, fn()); 13] = [
        ("links_change_by_name_while_packets_are_inside", links_change_by_name),
        ("a_session_stops_from_another_thread", stops_from_another_thread),
        ("a_panic_of_the_loop_ends_the_session", a_panic_ends_the_session),
        ("a_panic_of_the_observer_ends_the_session", an_observers_panic_ends_the_session),
        ("a_worker_that_hangs_is_found", a_hanging_worker_is_found),
        ("a_stuck_loop_does_not_keep_a_session_from_ending", a_stuck_loop_is_left_behind),
        ("a_daemon_reports_a_port_that_failed", a_daemon_reports_a_failed_port),
        ("rules_are_replaced_and_their_counters_go_on", rules_are_replaced),
        ("two_sessions_of_one_process_are_independent", two_sessions),
        ("a_capture_has_every_packet", a_capture_has_every_packet),
        ("a_burst_shorter_than_a_period_is_in_the_series", a_burst_is_in_the_series),
        ("a_scenarios_links_change_by_name", a_scenarios_links_change),
        ("packets_inside_at_the_end_of_a_scenario_are_not_lost", packets_inside_are_not_lost),
    ];
    let trial = |(name, test): (&'static str, fn())| {
        Trial::ignorable_test(name, move || {
            if !rustix::process::geteuid().is_root() {
                return Ok(skipped(name, "needs root to make namespaces"));
            }
            test();
            Ok(Completion::Completed)
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

fn skipped(name: &str, why: &str) -> Completion {
    let line = format!("SKIPPED: weir-live {name}: {why}");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("WEIR_SKIP_LOG") {
        // If the log cannot be written, the line on stderr remains.
        let _ = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .and_then(|mut file| writeln!(file, "{line}"));
    }
    Completion::ignored_with(why)
}

fn links_change_by_name() {
    let (mut session, signals) = start(pair(["delay 20ms", "delay 20ms"]));
    session.spawn(Side::Right, &ping("-c 10 -i 0.2 left")).expect("ping starts");
    let control = session.control().clone();
    assert_eq!(control.links(), ["to-right", "to-left"]);
    let changer = std::thread::spawn(move || {
        until(&control, |now| now.links[0].counters.packets_out >= 2);
        control.set_link("to-right", &spec("delay 400ms")).expect("the link changes");
        assert_eq!(control.link("to-right"), Some(spec("delay 400ms")));
        let unknown = control.set_link("up", &spec("delay 1ms"));
        assert_eq!(
            unknown,
            Err(ChangeError::NoSuchLink { name: "up".into(), known: "to-right, to-left".into() })
        );
        let whole = control.set_link("to-left", &spec("gso whole"));
        assert_eq!(whole, Err(ChangeError::Offloads { name: "to-left".into() }));
        let halfway = control.snapshot().expect("the session runs");
        assert!(halfway.links.iter().all(|link| link.counters.balanced()), "{halfway:?}");
        // The result of the changed link is a mean over both configurations.
        let [changed, other] = &halfway.links[..] else { panic!("two directions") };
        assert!(changed.delay_varies && !changed.rate_varies && !other.delay_varies);
        assert!((20_000_001..400_000_000).contains(&changed.delay_ns), "{}", changed.delay_ns);
        assert_eq!(other.delay_ns, 20_000_000);
    });
    let ended = session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    changer.join().expect("every change is as expected");
    assert_eq!(ended.outcome.exit_code(), 0, "ping has all its answers: {ended:?}");
    let finished = session.stop().expect("the links worked");
    let [to_right, to_left] = &finished.results().links[..] else { panic!("two directions") };
    assert!(to_right.total_ns.min() < 50_000_000, "before the change: {}", to_right.total_ns.min());
    assert!(to_right.total_ns.max() >= 390_000_000, "after it: {}", to_right.total_ns.max());
    assert!(to_left.total_ns.max() < 400_000_000, "the other direction did not change");
    assert_eq!((to_right.counters.total_drops(), to_left.counters.total_drops()), (0, 0));
    assert!(to_right.counters.balanced() && to_left.counters.balanced());
    assert!(!to_right.series.is_empty(), "the series is recorded by default");
}

fn stops_from_another_thread() {
    let (mut session, signals) = start(pair(["", ""]));
    session.spawn(Side::Left, &["sleep".into(), "300".into()]).expect("sleep starts");
    let control = session.control().clone();
    let (began, other) = (Instant::now(), control.clone());
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        other.stop();
    });
    let ended = session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    stopper.join().expect("the other thread is done");
    assert_eq!(ended.outcome.ended_by, EndedBy::Stopped);
    assert!(began.elapsed() < PATIENCE);
    assert!(session.has_ended());
    let finished = session.stop().expect("the links worked");
    assert_eq!(finished.report().stopped, Some(StopReason::Asked));
    assert!(control.snapshot().is_err() && control.counters().is_err(), "the session is over");
    assert!(matches!(control.set_link("to-left", &spec("")), Err(ChangeError::NoAnswer(_))));
}

fn a_stuck_loop_is_left_behind() {
    let ports = ["none0", "none1"]
        .map(|name| AnyPort::Absent(AbsentPort::new(name).expect("a descriptor")));
    let links = Emulation::Links(Box::new([
        Link::new("to-right", spec("")),
        Link::new("to-left", spec("")),
    ]));
    let ports = OpenPorts::new(vec![Vec::from(ports)]);
    let config = SessionConfig::new(ports, links).outlives_ports();
    let session = LiveSession::build(config).expect("nothing to set up").start().expect("a loop");
    let engine = session.control().engine().within(Duration::from_millis(300));
    let (release, released) = channel::<()>();
    // The loop waits until the test ends.
    let stuck = engine.with_engine(move |_, _| released.recv().is_ok());
    assert_eq!(stuck, Err(NoAnswer::Late));
    assert_eq!(engine.brief_report().err(), Some(NoAnswer::Late));
    let began = Instant::now();
    let end = session.stop_within(Duration::from_millis(500));
    assert!(matches!(end, Err(StopError::Stuck { .. })), "the loop cannot have ended");
    assert!(began.elapsed() < PATIENCE);
    drop(release);
}

fn a_daemon_reports_a_failed_port() {
    let bridges = [["weir-no0".to_owned(), "weir-no1".to_owned()]].into();
    let setup = BridgesSetup { bridges, workers: 1, ..BridgesSetup::default() };
    let bridges = Bridges::open(&setup).expect("missing interfaces are waited for");
    let (events, _received) = channel();
    let plane = LivePlane::new(bridges, events);
    let starter = Resident::start(None).expect("a thread");
    plane.run(1, Tuning::default(), &starter).expect("the loop starts");
    let event =
        |fault| LiveEvent { at: Nanos::ZERO, port: 1, interface: "weir-no1".to_owned(), fault };
    let failed = plane.note(&event(Fault::System(Errno::IO))).expect("it is news");
    assert!(failed.contains("weir-no1 has failed"), "{failed}");
    let bridge = plane.bridges().remove(0);
    assert!(bridge.failed[0].is_none() && bridge.failed[1].is_some(), "{bridge:?}");
    assert_eq!((bridge.attached, bridge.up), ([false; 2], [false; 2]));
    assert_eq!(plane.lanes().expect("the loop answers").len(), 2);
    assert!(plane.snapshot().expect("the loop answers").links.is_empty());
    plane.stop().expect("the loop ends");
}

fn a_panic_ends_the_session() {
    let (mut session, signals) = start(pair(["", ""]));
    session.spawn(Side::Left, &["sleep".into(), "300".into()]).expect("sleep starts");
    let engine = session.control().engine().clone();
    assert!(engine.with_engine::<()>(|_, _| panic!("this test makes the loop panic")).is_err());
    let ended = session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    assert_eq!(ended.outcome.ended_by, EndedBy::Stopped, "the wait did not have to time out");
    assert!(matches!(session.stop(), Err(StopError::Panicked)));
}

fn an_observers_panic_ends_the_session() {
    struct Panics;

    impl Observer for Panics {
        fn on_sample(&mut self, _: &Sample<'_>) {
            panic!("this test makes the observer panic");
        }
    }

    let observed = pair(["", ""]).observation(Observation::Own(Box::new(Panics)));
    let (mut session, signals) = start(observed);
    session.spawn(Side::Left, &["sleep".into(), "300".into()]).expect("sleep starts");
    let ended = session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    assert_eq!(ended.outcome.ended_by, EndedBy::Stopped, "the wait did not have to time out");
    assert!(matches!(session.stop(), Err(StopError::Panicked)));
}

fn a_hanging_worker_is_found() {
    let (session, _) = start(pair(["", ""]));
    let engine = session.control().engine().clone();
    let mut watchdog = Watchdog::default();
    let mut until_hanging = |expected: &[usize]| {
        let deadline = Instant::now() + PATIENCE;
        while watchdog.check(&engine.turns()) != expected {
            assert!(Instant::now() < deadline, "the workers that hang are not {expected:?}");
            std::thread::sleep(Duration::from_millis(250));
        }
    };
    until_hanging(&[]);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let hanging = {
        let engine = engine.clone();
        std::thread::spawn(move || engine.with_engine(move |_, _| released.recv()))
    };
    until_hanging(&[0]);
    release.send(()).expect("the worker waits");
    assert_eq!(hanging.join().expect("no panic"), Ok(Ok(())));
    until_hanging(&[]);
    session.stop().expect("the links worked");
}

fn rules_are_replaced() {
    let ruleset = with(&Ruleset::default(), "add 100 count icmp from any to any\n");
    let directions = ["to-right".to_owned(), "to-left".to_owned()];
    let emulation =
        Emulation::Rules { directions, ruleset: Box::new(ruleset), place: Where::Machine };
    let (mut session, signals) = start(SessionConfig::new(PairSetup::default(), emulation));
    let script = "ping -4 -q -c 10 -i 0.2 -W 1 left >/dev/null";
    session.spawn(Side::Right, &shell(script)).expect("ping starts");
    let control = session.control().clone();
    assert!(control.links().is_empty(), "rules are not links");
    let changer = std::thread::spawn(move || {
        let now = until(&control, |now| now.rules[0].packets >= 2);
        let rules = control.rules().expect("the session has rules");
        let denying = with(&rules, "add 200 deny icmp from any to any\n");
        assert_eq!(control.set_rules(&Arc::new(denying.clone())), Ok(true));
        assert_eq!(control.set_rules(&Arc::new(denying)), Ok(false), "nothing differs");
        let later = until(&control, |now| now.rules[1].packets >= 1);
        assert!(later.rules[0].packets > now.rules[0].packets, "rule 100 goes on counting");
        // A reset leads back to the rules that were in force when the changes began.
        let changes = Changes::new(&control);
        let start = control.rules().expect("the session has rules");
        let words = "delete 100\nadd 300 deny tcp from any to any\npipe 7 config bw 1Mbit/s\n";
        changes.change(None, words, &NoFiles).expect("the commands are right");
        assert_ne!(control.rules().expect("rules").rules, start.rules);
        changes.reset(None).expect("rules can be reset");
        let back = control.rules().expect("the session has rules");
        assert_eq!((&back.rules, &back.pipes), (&start.rules, &start.pipes));
        assert!(back.next_id > start.next_id, "an identity is never used again");
        assert!(changes.reset(Some("to-right")).is_err(), "rules are no link");
        let end = until(&control, |now| now.rules[1].packets > 0);
        assert_eq!((end.rules.len(), end.pipes.len()), (3, 0), "{end:?}");
    });
    session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    changer.join().expect("every change is as expected");
    let finished = session.stop().expect("the links worked");
    let results = finished.results();
    let numbers: Vec<u16> = results.rules.iter().map(|rule| rule.number).collect();
    assert_eq!(numbers, [100, 200, 65_535]);
    let denied: u64 = results.links.iter().map(|link| link.counters.total_drops()).sum();
    assert_eq!(denied, results.rules[1].packets);
}

fn two_sessions() {
    let (mut slow, signals) = start(pair(["delay 150ms", "delay 150ms"]));
    let prepared = LiveSession::build(pair(["delay 1ms", "delay 1ms"]));
    let mut quick = prepared.expect("the session is built").start().expect("the session starts");
    slow.spawn(Side::Right, &ping("-c 2 -i 0.2 left")).expect("ping starts");
    quick.spawn(Side::Right, &ping("-c 2 -i 0.2 left")).expect("ping starts");
    for (session, range) in [(&mut slow, 150_000_000..u64::MAX), (&mut quick, 0..100_000_000)] {
        let ended = session.wait(&signals, Some(PATIENCE)).expect("waiting works");
        assert_eq!(ended.outcome.exit_code(), 0);
        let now = session.control().snapshot().expect("the links run until the stop");
        let times = &now.links[0].total_ns;
        assert!(range.contains(&times.min()) && range.contains(&times.max()), "{now:?}");
    }
    drop(slow);
    assert!(quick.stop().is_ok());
}

fn a_capture_has_every_packet() {
    let path = scratch("capture.pcapng");
    let capture = Some(Capture { path: path.clone(), snaplen: 0 });
    let config = pair(["", ""]).observation(Observation::Series { capture });
    let (mut session, signals) = start(config);
    session.spawn(Side::Right, &ping("-c 3 -i 0.2 left")).expect("ping starts");
    session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    let finished = session.stop().expect("the links worked");
    let capture = finished.capture().expect("there is a capture");
    assert!(capture.error.is_none() && capture.dropped == 0, "{capture:?}");
    let links = &finished.results().links;
    // The capture has a record of each packet's arrival and of its departure.
    let events: u64 =
        links.iter().map(|link| link.counters.packets_in + link.counters.packets_out).sum();
    assert_eq!(capture.written, events);
    assert!(finished.warnings().is_empty(), "{:?}", finished.warnings());
    let size = std::fs::metadata(&path).expect("the file is there").len();
    assert_eq!(size, capture.bytes);
    let _ = std::fs::remove_file(path);
}

/// Twenty echo requests of 84 bytes pass a link of 5 Mbit/s in 2.7 ms; a sample period lasts 10 ms.
fn a_burst_is_in_the_series() {
    let link = "bw 5Mbit/s delay 5ms";
    let (mut session, signals) = start(pair([link, link]));
    session.spawn(Side::Right, &ping("-4 -c 30 -i 0.05 -l 20 left")).expect("ping starts");
    session.wait(&signals, Some(PATIENCE)).expect("waiting works");
    let finished = session.stop().expect("the links worked");
    for link in &finished.results().links {
        let most = |of: fn(&LinkPeriod) -> u64| link.series.iter().map(|(_, p)| of(p)).max();
        let peak = link.counters.peak_queue_packets;
        assert_eq!(most(|p| p.queue_packets.max()), Some(peak), "{}", link.name);
        // Each packet has at least 28 bytes.
        assert!(most(|p| p.queue_bytes.max()) >= Some(28 * peak), "{}: {peak}", link.name);
    }
    let to_left = &finished.results().links[1];
    assert!(to_left.counters.peak_queue_packets >= 5, "{:?}", to_left.counters);
}

/// A packet counts as sent if it leaves before the end of the run. The flow therefore stops half a
/// second before the end: a sender that a loaded machine delays still sends its last packet in
/// time, and exactly 200 packets, one each 10 ms, are counted.
fn a_scenarios_links_change() {
    let text = r#"
        name = "two"
        duration = "2500ms"
        node = [{ name = "a" }, { name = "b" }]
        link = [{ between = ["a", "b"], spec = "bw 10Mbit/s delay 5ms" }]
        [[traffic]]
        name = "f"
        kind = "cbr"
        from = "a"
        to = "b"
        rate = "400kbit/s"
        size = "500B"
        stop = "2s"
    "#;
    let run = LiveScenario::build(scenario(text)).expect("the hosts are set up");
    let signals = Signals::take().expect("signals are taken");
    let mut changer = None;
    let ran = run.run(&signals, &mut |control: &Control| {
        let control = control.clone();
        changer = Some(std::thread::spawn(move || {
            let name = control.links().swap_remove(0);
            until(&control, |now| now.links.iter().any(|link| link.counters.packets_out >= 50));
            control.set_link(&name, &spec("bw 10Mbit/s delay 105ms")).expect("the link changes");
        }));
    });
    let changer = changer.expect("the run has started");
    changer.join().expect("the change is made");
    let Ran::Complete(results) = ran.expect("the run is made") else {
        panic!("no signal was sent")
    };
    let flow = &results.outcome.flows[0];
    assert_eq!(flow.lost, 0);
    assert_eq!((flow.lost, flow.sent), (0, 200), "{flow:?}");
    assert!(flow.delay_ns.min < 100_000_000 && flow.delay_ns.max >= 105_000_000, "{flow:?}");
}

/// At the end, the queue holds 300 packets, which the link would carry in 2.4 s. The link drops the
/// other packets that it cannot carry, and the flows lose the same packets.
fn packets_inside_are_not_lost() {
    let text = r#"
        name = "full"
        duration = "1500ms"
        warmup = "500ms"
        node = [{ name = "a" }, { name = "b" }]
        link = [{ between = ["a", "b"], spec = "bw 1Mbit/s delay 5ms queue 300" }]
        traffic = [
            { name = "f", kind = "cbr", from = "a", to = "b", rate = "4Mbit/s", size = "1000B" },
            { name = "g", kind = "cbr", from = "a", to = "b", rate = "2Mbit/s", size = "1000B" },
        ]
    "#;
    let run = LiveScenario::build(scenario(text)).expect("the hosts are set up");
    let signals = Signals::take().expect("signals are taken");
    let Ran::Complete(results) = run.run(&signals, &mut |_: &Control| {}).expect("the run is made")
    else {
        panic!("no signal was sent")
    };
    let outcome = &results.outcome;
    let sum = |of: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>();
    let (lost, inside) = (sum(|flow| flow.lost), sum(|flow| flow.inside));
    let link = &outcome.links[0].counters;
    let (dropped, backlog) = (link.total_drops(), link.backlog_packets);
    // The queue fills within half a second, so at the end it is full. The numbers differ by a few
    // packets: those between the link and the generators, and those that pass while the loop
    // notices the end.
    assert!(backlog >= 290, "{link:?}");
    assert!(lost.abs_diff(dropped) <= SLACK, "{lost} packets lost, {dropped} dropped");
    assert!(inside.abs_diff(backlog) <= SLACK, "{inside} packets inside, {backlog} in the link");
    assert!(sum(|flow| flow.carried) >= 290, "{:?}", outcome.flows);
    assert!(outcome.flows.iter().all(FlowOutcome::balanced), "{:?}", outcome.flows);
    let reasons = sum(|flow| flow.reasons.total_drops());
    assert!(reasons.abs_diff(lost) <= SLACK, "{reasons} of {lost} losses have a reason");
}

fn scenario(text: &str) -> ScenarioSetup {
    let checked = weir_sim::scenario::parse(text, "two.toml", &NoFiles);
    let scenario = checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics));
    assert!(!check(&scenario, text, "two.toml", 1500).has_errors());
    ScenarioSetup {
        scenario,
        text: text.into(),
        file: "two.toml".into(),
        mtu: 1500,
        neighbours: Neighbours::Static,
        tuning: Tuning::default(),
        name: String::new(),
        keep: false,
        generator: vec!["/proc/self/exe".into(), "traffic".into()],
    }
}

type PairConfig = SessionConfig<PairSetup>;

/// A pair with these links, the first to the right and the second to the left.
fn pair(specs: [&str; 2]) -> PairConfig {
    let [right, left] = specs.map(spec);
    let links = [Link::new("to-right", right), Link::new("to-left", left)];
    SessionConfig::new(PairSetup::default(), Emulation::Links(Box::new(links)))
}

fn start(config: PairConfig) -> (LiveSession, Signals) {
    let prepared: Prepared = LiveSession::build(config).expect("the surroundings are set up");
    let signals = Signals::take().expect("signals are taken");
    (prepared.start().expect("the links start"), signals)
}

fn spec(text: &str) -> LinkSpec {
    check_spec(text, &NoFiles).spec.expect("a specification without errors")
}

/// A copy of the rules with these commands applied.
fn with(rules: &Ruleset, commands: &str) -> Ruleset {
    let parsed = script::parse(commands, "test", &NoFiles);
    let mut rules = rules.clone();
    rules.apply_all(&parsed.commands).expect("commands without errors");
    rules
}

fn ping(options: &str) -> Vec<OsString> {
    shell(&format!("ping -q {options} >/dev/null"))
}

fn shell(script: &str) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), script.into()]
}

/// Waits until the results satisfy a condition, and returns the results.
fn until(control: &Control, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = control.snapshot().expect("the session runs");
        if wanted(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-live-{}-{name}", std::process::id()))
}

/// The most packets by which two counts of a run may differ if they end at slightly different
/// times. While the loop is 30 ms late on a busy machine, 22 packets arrive.
const SLACK: u64 = 40;
/// The longest wait for any condition, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
