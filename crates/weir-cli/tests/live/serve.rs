//! Tests the daemon on a bridge between two namespaces: its configuration takes effect at once and
//! without loss, and survives restarts. Also tests vanished interfaces, a full disk, the daemon's
//! privileges, and a loop that hangs.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use weir_control::api::{CommandRequest, HealthStatus};
use weir_control::client::ClientError;

use crate::common::{Done, Lab, Need, load, must, output_of, trial, weir};
use crate::daemon::{Daemon, LIMIT, OTHER_USER, Wire, send, serve_words, until};

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("ip")];
    vec![
        trial("a_daemon_shapes_what_crosses_its_bridge", needs, shapes),
        trial(
            "a_daemon_is_reconfigured_under_traffic_without_losing_a_packet",
            needs,
            reconfigured,
        ),
        trial("what_is_queued_stays_when_a_pipe_changes", needs, queued),
        trial("kill_9_of_a_daemon_loses_no_acknowledged_configuration", needs, killed),
        trial("an_interface_that_vanishes_is_taken_again", needs, vanishes),
        trial("a_daemon_serves_a_named_namespace", needs, named_namespace),
        trial("a_full_disk_refuses_a_change_and_keeps_what_is_in_force", needs, full_disk),
        trial("two_daemons_do_not_share_a_socket_or_a_state", needs, in_use),
        trial("sighup_reads_the_rules_again_and_sigterm_ends", needs, signals),
        trial("a_running_daemon_has_few_privileges", needs, privileges),
        trial(
            "a_short_soak_keeps_every_promise",
            &[Need::Root, Need::Program("ip"), Need::Program("setpriv"), Need::Program("python3")],
            soak,
        ),
        trial("a_daemon_of_another_user_works_with_few_rights", needs, other_user),
        trial("the_watchdog_is_not_notified_while_a_worker_hangs", needs, hangs),
        trial("an_interface_without_carrier_is_reported", needs, carrier),
        trial("an_interface_that_is_switched_off_is_down_and_not_gone", needs, switched_off),
        trial("sigterm_ends_a_daemon_of_which_the_loop_is_stuck", needs, stuck),
        trial("a_daemon_listens_where_the_environment_says", &[Need::Root], named_socket),
        trial("a_daemon_is_listed_shows_statistics_and_is_stopped", needs, session),
    ]
}

fn shapes(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config bw 2Mbit/s queue 100\nadd 100 pipe 1 udp from any to any 9000");
    // The stream offers twice the capacity for two seconds.
    let received = wire.stream(lab, 1_000, 500, 1_000);
    let off = received.bits_per_second / 2.0e6 - 1.0;
    assert!(off.abs() < 0.02, "{} bit/s instead of 2 Mbit/s", received.bits_per_second);
    let pipes = daemon.client.pipes().expect("pipes");
    assert_eq!(pipes[0].state.counters.packets_in, 1_000, "{:?}", pipes[0]);
    let rules = daemon.client.rules().expect("rules");
    assert_eq!(rules[0].counters.packets, 1_000);
    daemon.check_accounting();
}

/// The daemon and its clients agree on the socket that `WEIR_SOCKET` names.
fn named_socket(lab: &Lab) {
    let start = |words: &[&str]| {
        let mut command = Command::new(weir());
        command.args(words).env("WEIR_SOCKET", lab.path("named.sock"));
        lab.launch(&mut command)
    };
    let state = lab.path("state").display().to_string();
    let mut daemon = start(&["serve", "--state", &state, "--keep-privileges"]);
    until("the daemon listens", || daemon.alive() && lab.path("named.sock").exists());
    let done = start(&["pipe", "1", "config", "bw", "1Mbit/s"]).finish();
    assert_eq!(done.code, 0, "{done:?}");
    daemon.signal_group(Signal::SIGTERM);
    assert_eq!(daemon.finish().code, 0);
}

/// The commands about sessions know the daemon by the name `serve`.
fn session(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    let weir = |words: &[&str]| -> Done {
        let mut command = Command::new(weir());
        lab.launch(command.args(words).env("WEIR_SOCKET", lab.path("weir.sock"))).finish()
    };
    daemon.send("pipe 1 config delay 5ms\nadd 100 pipe 1 icmp from any to any");
    wire.ping(true);
    let listed = weir(&["ps", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let view = &listed["sessions"][0];
    assert_eq!((&view["name"], &view["kind"]), (&"serve".into(), &"serve".into()), "{view}");
    assert_eq!(view["pid"].as_i64(), Some(daemon.pid().as_raw().into()));
    assert_eq!(view["program"], "sl,sr");
    assert_eq!(weir(&["ps", "--names"]).stdout, "serve\n");
    let table = weir(&["stats", "serve"]);
    assert!(table.stdout.contains("  sl-sr "), "{table:?}");
    let result = crate::schema::document(weir(&["stats", "serve", "--json"]).stdout.as_bytes());
    crate::common::check_accounting(&result);
    assert!(crate::common::number(crate::common::link(&result, "sl-sr"), "packets_out") > 0);
    for words in ["pipe 1 config bw 1Mbit/s", "reset"] {
        let done = weir(&["change", "serve", words]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains("`weir pipe 1 config"), "{done:?}");
    }
    // These commands find the daemon only by its name.
    for words in [&["stop"][..], &["change", "loss 2%"], &["stats"]] {
        let done = weir(words);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains("no links run"), "{done:?}");
    }
    let watch = lab.launch(
        Command::new(crate::common::weir())
            .args(["stats", "serve", "--watch", "--json"])
            .env("WEIR_SOCKET", lab.path("weir.sock")),
    );
    std::thread::sleep(Duration::from_millis(1500));
    let done = weir(&["stop", "serve"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(daemon.finish().code, 0);
    let watched = watch.finish();
    assert_eq!(watched.code, 0, "{watched:?}");
    let second = watched.stdout.lines().next().expect("a second was watched");
    assert_eq!(crate::schema::document(second.as_bytes())["session"], "serve");
    assert_eq!(weir(&["ps"]).stdout, "");
    // The configuration is saved, as after SIGTERM.
    let daemon = Daemon::start(lab, &[]);
    assert_eq!(daemon.client.pipes().expect("pipes").len(), 1);
}

fn reconfigured(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send(
        "pipe 1 config bw 8Mbit/s queue 1000\nadd 100 pipe 1 udp from any to any 9000\n\
        table t create",
    );
    let (client, stop) = (daemon.client.clone(), Arc::new(AtomicBool::new(false)));
    let changing = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut changes = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let (mbit, delay) = (8 + changes % 5, changes % 7);
                send(
                    &client,
                    &format!(
                        "pipe 1 config bw {mbit}Mbit/s delay {delay}ms queue 1000\n\
                         table t add 10.0.{}.{} {changes}\n",
                        changes / 250 % 250,
                        changes % 250
                    ),
                );
                changes += 1;
            }
            changes
        }
    });
    let received = wire.stream(lab, 6_000, 1_500, 500);
    stop.store(true, Ordering::Relaxed);
    let changes = changing.join().expect("every change is acknowledged");
    assert_eq!(received.lost, 0, "{changes} changes, {received:?}");
    assert!(changes >= 20, "only {changes} changes in four seconds");
    daemon.check_accounting();
}

fn queued(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config bw 200kbit/s queue 1000\nadd 100 pipe 1 udp from any to any 9000");
    let client = daemon.client.clone();
    let faster = std::thread::spawn(move || {
        let waiting = || client.pipes().expect("pipes")[0].state.queue_packets;
        until("packets wait in the queue", || waiting() > 200);
        let before = waiting();
        send(&client, "pipe 1 config bw 50Mbit/s queue 1000");
        before
    });
    // The stream takes almost ten seconds at the first rate.
    let received = wire.stream(lab, 300, 3_000, 800);
    assert!(faster.join().expect("the pipe is changed") > 200);
    assert_eq!((received.lost, received.received), (0, 300), "{received:?}");
    daemon.check_accounting();
}

fn killed(lab: &Lab) {
    let wire = Wire::new();
    let mut traffic = wire.flood(lab);
    // The rate that was last acknowledged, and the rate that was last sent, in kbit/s. Each change
    // raises the rate by 1 kbit/s.
    let (acknowledged, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let rate = |daemon: &Daemon| {
        daemon.client.pipes().expect("pipes").first().and_then(|pipe| pipe.rate_bps).unwrap_or(0)
            / 1000
    };
    for round in 0..KILLS {
        let daemon = Daemon::start(lab, &[]);
        if round == 0 {
            daemon.send("add 100 pipe 1 udp from any to any");
        } else {
            let (found, last, most) =
                (rate(&daemon), acknowledged.load(Ordering::Relaxed), sent.load(Ordering::Relaxed));
            assert!(
                (last..=most).contains(&found),
                "round {round}: {found} kbit/s, acknowledged {last}, sent {most}"
            );
            assert!(
                !lab.path("state/.writing").exists(),
                "round {round}: a half-written file is left"
            );
        }
        daemon.check_accounting();
        let (client, acknowledged, sent) =
            (daemon.client.clone(), Arc::clone(&acknowledged), Arc::clone(&sent));
        let changing = std::thread::spawn(move || {
            loop {
                let next = sent.load(Ordering::Relaxed).max(10_000) + 1;
                sent.store(next, Ordering::Relaxed);
                let request = CommandRequest {
                    script: format!("pipe 1 config bw {next}kbit/s"),
                    ..CommandRequest::default()
                };
                match client.commands(&request) {
                    Ok(reply) if reply.applied => acknowledged.store(next, Ordering::Relaxed),
                    Ok(reply) => panic!("{reply:?}"),
                    Err(_) => return,
                }
            }
        });
        // The kills come at irregular moments, from the first change to well into the traffic.
        std::thread::sleep(Duration::from_millis(5 + round * 7 % 60 + round * round % 13 * 9));
        daemon.kill();
        changing.join().expect("changes are accepted until the end");
    }
    assert!(
        acknowledged.load(Ordering::Relaxed) > 10_000 + KILLS,
        "changes were made in every round"
    );
    let daemon = Daemon::start(lab, &[]);
    assert!(traffic.alive(), "the traffic has ended: {}", traffic.stderr());
    let before = daemon.lanes()[0].counters.packets_out;
    until("packets pass after the last restart", || {
        daemon.lanes()[0].counters.packets_out > before
    });
    daemon.check_accounting();
    drop(daemon);
    let left: Vec<_> = fs::read_dir(lab.path("state"))
        .expect("a state")
        .flatten()
        .map(|e| e.file_name())
        .filter(|name| !name.to_string_lossy().starts_with("revision-"))
        .collect();
    assert_eq!(left.len(), 3, "the configuration, its files and the lock: {left:?}");
}

fn vanishes(lab: &Lab) {
    for workers in ["1", "2"] {
        vanishes_with(lab, &["--workers", workers]);
    }
}

fn vanishes_with(lab: &Lab, options: &[&str]) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, options);
    daemon.send("pipe 1 config delay 5ms\nadd 100 pipe 1 icmp from any to any");
    wire.ping(true);
    must("ip link del sl");
    until("the loss of the interface is seen", || daemon.health().status == HealthStatus::Degraded);
    let reply = daemon.send("pipe 1 config delay 6ms");
    assert!(reply.notices.iter().any(|notice| notice.contains("sl")), "{reply:?}");
    wire.ping(false);
    Wire::left_side();
    until("the interface is taken again", || daemon.health().status == HealthStatus::Ok);
    wire.ping(true);
    let health = daemon.health();
    assert_eq!((health.bridges[0].vanished, health.bridges[0].attached), (1, [true, true]));
    daemon.check_accounting();
    // A daemon that starts while its interface is missing waits for the interface.
    daemon.kill();
    must("ip link del sr");
    let daemon = Daemon::start(lab, options);
    assert_eq!(daemon.health().status, HealthStatus::Degraded);
    Wire::right_side();
    until("the interface is taken when it appears", || daemon.health().status == HealthStatus::Ok);
    wire.ping(true);
}

fn named_namespace(lab: &Lab) {
    let wire = Wire::new();
    must("ip netns add wm && ip link set sl netns wm && ip link set sr netns wm");
    must("ip -n wm link set sl up && ip -n wm link set sr up");
    {
        let daemon = Daemon::start(lab, &["--netns", "wm"]);
        wire.ping(true);
        assert_eq!(daemon.health().bridges[0].netns.as_deref(), Some("wm"));
        must("ip -n wm link del sl");
        until("the loss of the interface is seen", || {
            daemon.health().status == HealthStatus::Degraded
        });
        Wire::left_side();
        must("ip link set sl netns wm && ip -n wm link set sl up");
        until("the interface is taken again", || daemon.health().status == HealthStatus::Ok);
        wire.ping(true);
    }
    must("ip netns del wm");
    let done = lab.weir(serve_words(lab, &["--netns", "there-is-none"]));
    assert!(done.code == 125 && done.stderr.contains("there-is-none"), "{done:?}");
}

fn full_disk(lab: &Lab) {
    let _wire = Wire::new();
    let state = lab.path("state").display().to_string();
    fs::create_dir_all(&state).expect("a directory");
    must(&format!("mount -t tmpfs -o size=64k weir-test {state}"));
    {
        let daemon = Daemon::start(lab, &[]);
        daemon.send("pipe 1 config bw 4Mbit/s");
        let before = daemon.client.configuration().expect("a configuration");
        must(&format!("head -c 1M /dev/zero > {state}/filler 2>/dev/null || true"));
        let request = CommandRequest {
            script: "pipe 2 config bw 8Mbit/s".into(),
            ..CommandRequest::default()
        };
        match daemon.client.commands(&request) {
            Err(ClientError::Refused { status: 507, message }) => {
                assert!(
                    message.contains(&state) && message.contains("nothing was changed"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(daemon.client.configuration().expect("a configuration"), before);
        fs::remove_file(format!("{state}/filler")).expect("the filler");
        daemon.send("pipe 2 config bw 8Mbit/s");
        daemon.kill();
        let daemon = Daemon::start(lab, &[]);
        assert_eq!(daemon.client.configuration().expect("a configuration").pipes, [1, 2]);
    }
    must(&format!("umount -l {state}"));
}

fn in_use(lab: &Lab) {
    let _wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    let socket = lab.path("weir.sock").display().to_string();
    let other_state = lab.path("other").display().to_string();
    let done = lab.weir(["serve", "--socket", &socket, "--state", &other_state]);
    assert!(done.code == 125 && done.stderr.contains("another daemon listens on"), "{done:?}");
    let other_socket = lab.path("other.sock").display().to_string();
    let done = lab.weir([
        "serve",
        "--socket",
        &other_socket,
        "--state",
        &lab.path("state").display().to_string(),
    ]);
    assert!(
        done.code == 125 && done.stderr.contains("another daemon uses the state directory"),
        "{done:?}"
    );
    assert_eq!(daemon.health().status, HealthStatus::Ok, "the first daemon is not disturbed");
    let done = lab.weir(["serve", "--bridge", "sl", "--state", &other_state]);
    assert!(done.code == 2 && done.stderr.contains("eth1,eth2"), "{done:?}");
}

fn signals(lab: &Lab) {
    let _wire = Wire::new();
    let rules = lab.file("rules", "pipe 1 config bw 1Mbit/s\nadd 100 pipe 1 ip from any to any\n");
    let daemon = Daemon::start(lab, &["--rules", &rules]);
    let spec = || daemon.client.pipes().expect("pipes").first().map(|pipe| pipe.spec.clone());
    assert_eq!(spec().as_deref(), Some("bw 1Mbit/s"));
    lab.file("rules", "pipe 1 config bw 2Mbit/s\n");
    kill(daemon.running.pid(), Signal::SIGHUP).expect("a signal");
    until("the rules are read again", || spec().as_deref() == Some("bw 2Mbit/s"));
    assert_eq!(
        daemon.client.rules().expect("rules").len(),
        1,
        "a rule that the file no longer has is gone"
    );
    lab.file("rules", "pipe 1 config bw fast\n");
    kill(daemon.running.pid(), Signal::SIGHUP).expect("a signal");
    until("the daemon reports the error", || daemon.running.stderr().contains("fast"));
    assert_eq!(spec().as_deref(), Some("bw 2Mbit/s"), "and changes nothing");
    kill(daemon.running.pid(), Signal::SIGTERM).expect("a signal");
    let done = daemon.running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!lab.path("weir.sock").exists());
}

fn privileges(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &["--workers", "2"]);
    daemon.send("pipe 1 config delay 1ms\nadd 100 pipe 1 ip from any to any");
    wire.ping(true);
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.running.pid())).expect("threads");
    let mut seen = Vec::new();
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).expect("a status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(':').trim().to_owned()
        };
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".into(), "2".into()), "{status}");
        let capabilities = u64::from_str_radix(&field("CapPrm"), 16).expect("a number");
        let allowed: u64 = match field("Name").as_str() {
            "weir-netns" => CAP_NET_ADMIN | CAP_NET_RAW,
            name if name.starts_with("weir-link") => CAP_SYS_NICE,
            _ => 0,
        };
        assert_eq!(capabilities & !allowed, 0, "{status}");
        seen.push(field("Name"));
    }
    for name in ["weir-link", "weir-config", "weir-control", "weir-netns"] {
        assert!(seen.iter().any(|thread| thread.starts_with(name)), "no thread {name}: {seen:?}");
    }
    assert_eq!(
        fs::metadata(lab.path("state"))
            .map(|m| std::os::unix::fs::PermissionsExt::mode(&m.permissions()) & 0o777)
            .ok(),
        Some(0o700)
    );
}

/// A short soak. `make soak` runs longer and also judges how memory and descriptors grow.
fn soak(lab: &Lab) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/soak/run");
    let mut command = Command::new(program);
    command.args(["--seconds", "6", "--pipes", "200", "--pps", "1000", "--seed", "1"]);
    command.args(["--weir", weir(), "--load", &load(), "--out"]).arg(lab.path("soak"));
    let done = lab.launch(&mut command).finish();
    assert!(done.code == 0 && done.stdout.ends_with("ok\n"), "{done:?}");
}

fn other_user(lab: &Lab) {
    let wire = Wire::new();
    let rules = lab.file("rules", "pipe 1 config bw 1Mbit/s\nadd 100 pipe 1 ip from any to any\n");
    let daemon = Daemon::start(
        lab,
        &["--user", &OTHER_USER.to_string(), "--rules", &rules, "--workers", "2"],
    );
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.running.pid())).expect("threads");
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).expect("a status");
        for (name, expected) in [
            ("Uid:", format!("{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}")),
            ("Gid:", format!("{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}\t{OTHER_USER}")),
            ("Groups:", String::new()),
        ] {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            assert_eq!(line.map(str::trim), Some(&*expected), "{status}");
        }
    }
    wire.ping(true);
    daemon.send("pipe 1 config bw 2Mbit/s\npipe 2 config delay 1ms");
    lab.file("rules", "pipe 1 config bw 3Mbit/s\n");
    kill(daemon.running.pid(), Signal::SIGHUP).expect("a signal");
    let spec = || daemon.client.pipes().expect("pipes").first().map(|pipe| pipe.spec.clone());
    until("the rules are read again", || spec().as_deref() == Some("bw 3Mbit/s"));
    must("ip link del sl");
    until("the loss of the interface is seen", || daemon.health().status == HealthStatus::Degraded);
    Wire::left_side();
    until("the interface is taken again", || daemon.health().status == HealthStatus::Ok);
    wire.ping(true);
    let owner = |name: &str| {
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(lab.path(name)).expect("a file"))
    };
    assert_eq!((owner("state"), owner("state/config.weir")), (OTHER_USER, OTHER_USER));
    daemon.kill();
    // Another user takes the state over.
    let other = (OTHER_USER - 1).to_string();
    let daemon = Daemon::start(lab, &["--user", &other]);
    daemon.send("pipe 2 config delay 1ms");
    assert_eq!((owner("state"), owner("state/config.weir")), (OTHER_USER - 1, OTHER_USER - 1));
    drop(daemon);
    let done = lab.weir(serve_words(lab, &["--user", "there-is-none"]));
    assert!(done.code == 2 && done.stderr.contains("useradd --system there-is-none"), "{done:?}");
}

fn hangs(lab: &Lab) {
    let _wire = Wire::new();
    let manager = UnixDatagram::bind(lab.path("notify")).expect("a socket");
    manager.set_nonblocking(true).expect("a socket");
    let mut command = Command::new(weir());
    command
        .args(serve_words(lab, &["--workers", "2"]))
        .env("NOTIFY_SOCKET", lab.path("notify"))
        .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let daemon = Daemon::started(lab, lab.launch(&mut command));
    let alive = || {
        let mut bytes = [0; 4096];
        let mut found = false;
        while let Ok(length) = manager.recv(&mut bytes) {
            found |= String::from_utf8_lossy(&bytes[..length]).contains("WATCHDOG=1");
        }
        found
    };
    for _ in 0..3 {
        until("the daemon reports that it is alive", alive);
    }
    let worker = daemon.thread("weir-link-1");
    ptrace::seize(worker, ptrace::Options::empty()).expect("root may trace it");
    ptrace::interrupt(worker).expect("it is traced");
    until("the daemon notices", || daemon.running.stderr().contains("worker 1 hangs"));
    // Discards the reports that have arrived so far.
    alive();
    std::thread::sleep(WATCHDOG);
    assert!(!alive(), "the daemon reports that it is alive while a worker hangs");
    ptrace::detach(worker, None).expect("it is stopped");
    until("the daemon reports again", alive);
    until("the daemon says that it forwards packets again", || {
        daemon.running.stderr().contains("forward packets again")
    });
}

fn carrier(lab: &Lab) {
    let _wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    until("both interfaces are up", || daemon.health().status == HealthStatus::Ok);
    must("ip -n wl link set e down");
    until("the missing carrier is seen", || daemon.health().status == HealthStatus::Degraded);
    let health = daemon.health();
    assert!(health.problems[0].contains("sl is down or has no carrier"), "{health:?}");
    let up = |value: u8| format!("weir_interface_up{{interface=\"sl\",netns=\"\"}} {value}");
    assert!(daemon.client.metrics().expect("metrics").contains(&up(0)));
    must("ip -n wl link set e up");
    until("the carrier is seen", || daemon.health().status == HealthStatus::Ok);
    assert!(daemon.client.metrics().expect("metrics").contains(&up(1)));
    assert_eq!(daemon.health().bridges[0].went_down, 1);
}

/// The daemon asks the kernel whether an interface is down or gone. The daemon's filter of system
/// calls must allow this.
fn switched_off(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    until("both interfaces are up", || daemon.health().status == HealthStatus::Ok);
    must("ip link set sl down");
    until("the interface is known to be down", || daemon.health().bridges[0].went_down == 1);
    // The echo requests reach the port of the interface that is down.
    output_of("ip netns exec wr ping -c3 -i0.2 -W1 10.77.0.1");
    let health = daemon.health();
    assert!(health.problems[0].contains("sl is down or has no carrier"), "{health:?}");
    assert_eq!((health.problems.len(), health.bridges[0].vanished), (1, 0), "{health:?}");
    must("ip link set sl up");
    until("the interface is up", || daemon.health().status == HealthStatus::Ok);
    wire.ping(true);
    let log = daemon.running.stderr();
    assert!(!log.contains("is gone"), "{log}");
}

fn stuck(lab: &Lab) {
    let _wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config bw 1Mbit/s");
    let thread = daemon.thread("weir-link");
    // A tracer stops one thread; a signal would stop all.
    ptrace::seize(thread, ptrace::Options::empty()).expect("the thread is traced");
    ptrace::interrupt(thread).expect("the thread stops");
    waitpid(thread, Some(WaitPidFlag::__WALL)).expect("the thread has stopped");
    let health = daemon.health();
    assert_eq!(health.status, HealthStatus::Stalled, "{health:?}");
    match daemon.client.pipes() {
        Err(ClientError::Refused { status: 503, message }) => {
            assert!(message.contains("did not answer within"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let reply = daemon.send("pipe 1 config bw 2Mbit/s");
    assert!(reply.notices.iter().any(|notice| notice.contains("not in force yet")), "{reply:?}");
    let reaper = std::thread::spawn(move || {
        // The process has not ended until its tracer has seen the end of the thread.
        while let Ok(status) = waitpid(thread, Some(WaitPidFlag::__WALL)) {
            if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                return;
            }
        }
    });
    let began = Instant::now();
    kill(daemon.running.pid(), Signal::SIGTERM).expect("a signal");
    let done = daemon.running.finish();
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    assert!(done.code == 125 && done.stderr.contains("did not end within"), "{done:?}");
    reaper.join().expect("the thread has ended");
}

/// The watchdog period of the service manager in `hangs`.
const WATCHDOG: Duration = Duration::from_secs(2);
/// How often the daemon is killed.
const KILLS: u64 = 50;
/// Bits of the capabilities in `/proc/PID/status`.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_SYS_NICE: u64 = 1 << 23;
