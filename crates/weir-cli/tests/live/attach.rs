//! Tests `weir attach` and `weir host`: a running program is shaped, and its traffic is direct
//! again after every kind of end.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{
    Copies, Lab, NOBODY, Need, drops, link, load, must, number, output_of, trial, until,
};
use crate::world::{
    DIRECT, World, delay, delay_words, end, is_delayed, is_direct, ping, rate, start, transfer,
};

pub(crate) fn tests() -> Vec<Trial> {
    let iperf = &[Need::Root, Need::Program("iperf3"), Need::Program("ping")];
    let ping = &[Need::Root, Need::Program("ping")];
    let setpriv = &[Need::Root, Need::Program("setpriv")];
    vec![
        trial("attach_shapes_a_namespace_both_ways", iperf, shapes_both_ways),
        trial("attach_shapes_only_what_is_selected", ping, shapes_the_selected),
        trial("attach_killed_at_any_moment_restores_the_traffic", ping, killed),
        trial(
            "attach_killed_at_each_step_restores_the_traffic",
            &[Need::Root, Need::Program("ping"), Need::Program("strace")],
            killed_at_each_step,
        ),
        trial("attach_stopped_lets_the_traffic_pass", ping, stopped),
        trial("attach_counts_packets_that_it_does_not_read_in_time", ping, overflow),
        trial("attach_follows_a_namespace_that_returns", ping, returns),
        trial("attach_ends_with_its_process", ping, process_ends),
        trial("attach_to_a_process_that_dies_at_any_moment", ping, dies_meanwhile),
        trial("attach_to_a_namespace_that_vanishes_at_any_moment", ping, vanishes_meanwhile),
        trial("attach_refuses_a_second_attachment", ping, second_is_refused),
        trial("attach_names_the_existing_targets", &[Need::Root], unknown_targets),
        trial("attach_tells_a_user_without_rights_to_use_sudo", setpriv, without_rights),
        trial("host_ends_after_its_time_and_at_hangup", ping, dead_mans_switch),
    ]
}

fn shapes_both_ways(lab: &Lab) {
    let _world = World::make();
    let words = ["attach", "netns:wa", "--up", "8M/30ms", "--down", "12M/20ms"];
    let running = start(lab, &words, || ping("wa", "10.97.0.2"));
    for (from, to) in [("wa", "fd97::2"), ("wb", "10.97.0.1"), ("wb", "fd97::1")] {
        assert!(is_delayed(from, to), "from {from} to {to}");
    }
    for (to, more, most) in [("10.97.0.2", "", 8e6), ("fd97::2", "-R", 12e6)] {
        let rate = rate(&transfer("wb", "ip netns exec wa", to, &format!("-n 1M {more}")));
        assert!(rate < most * 1.05 && rate > most / 4.0, "{to} {more}: {rate} bit/s");
    }
    let result = end(lab, running);
    assert_eq!(link(&result, "up")["from"], "netns:wa");
    for name in ["up", "down"] {
        // A transfer of 1 MiB is more than 700 packets in its direction.
        assert!(number(link(&result, name), "packets_out") > 700, "{result}");
    }
    assert!(is_direct("wa", "10.97.0.2"));
    assert!(!output_of("ip -n wa -o link").contains("weir"), "the devices are gone");
}

fn shapes_the_selected(lab: &Lab) {
    let _world = World::make();
    let words = ["attach", "netns:wa", "--to", "10.97.0.3"];
    let running = delay(lab, &words, || ping("wa", "10.97.0.3"));
    assert!(is_direct("wa", "10.97.0.2"));
    assert!(is_direct("wa", "fd97::2"));
    let result = end(lab, running);
    let (up, down) = (link(&result, "up"), link(&result, "down"));
    // Each ping is one packet in each direction.
    assert_eq!(number(up, "packets_in"), number(down, "packets_in"));
}

fn killed(lab: &Lab) {
    let _world = World::make();
    for round in 0..kills() {
        let mut running = lab.start(["attach", "netns:wa", "--link", "delay 30ms", "--for", "30s"]);
        std::thread::sleep(Duration::from_millis(round * 23 % 150 + round * round % 7 * 30));
        assert!(running.alive(), "weir ended before its kill: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        check_restored(&format!("round {round}"));
        assert_eq!(running.finish().code, 128 + 9);
        nothing_remains();
    }
}

/// Weir is killed as it makes one of the system calls with which it attaches: those that enter a
/// namespace, make a device, and load and attach programs. At most [`kills`] of these calls are
/// tested, evenly spread.
fn killed_at_each_step(lab: &Lab) {
    let _world = World::make();
    let attach = |options: &[&str]| {
        let words = ["attach", "netns:wa", "--link", "delay 30ms", "--for", "30s"];
        let mut command = Command::new("strace");
        command.args(["-f", "--seccomp-bpf", "-o"]).arg(lab.path("calls")).args(options);
        lab.launch(command.arg(crate::common::weir()).args(words))
    };
    let trace = format!("trace={}", STEPS.join(","));
    let running = attach(&["-e", &trace]);
    until("the namespace is shaped", || ping("wa", "10.97.0.2").is_some_and(|ms| ms > DIRECT));
    running.signal_group(Signal::SIGKILL);
    running.finish();
    nothing_remains();
    let calls = std::fs::read_to_string(lab.path("calls")).expect("strace writes them");
    // strace counts the calls of each thread separately.
    let count = |call: &str| {
        let mut of_threads = BTreeMap::<&str, u64>::new();
        for line in calls.lines().filter(|line| line.contains(&format!(" {call}("))) {
            *of_threads.entry(line.split(' ').next().unwrap_or_default()).or_default() += 1;
        }
        of_threads.into_values().max().unwrap_or_default()
    };
    let steps: Vec<(&str, u64)> = STEPS
        .iter()
        .flat_map(|call| (1..=count(call)).map(move |number| (*call, number)))
        .collect();
    assert!(STEPS.iter().all(|call| count(call) > 0), "an attachment makes these calls: {calls}");
    let rounds = kills().min(steps.len() as u64);
    for round in 0..rounds {
        let (call, number) = steps[(round * steps.len() as u64 / rounds) as usize];
        let step = format!("{call} {number} of {}", count(call));
        let inject = format!("inject={call}:signal=SIGKILL:when={number}");
        let done = attach(&["-e", &inject]).finish();
        assert_eq!(done.code, 128 + 9, "{step}: {done:?}");
        check_restored(&step);
        nothing_remains();
    }
}

fn kills() -> u64 {
    let chosen = std::env::var("WEIR_LIVE_KILLS").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or(KILLS)
}

/// Checks that the namespace has its connectivity again within half a second.
fn check_restored(when: &str) {
    let begin = Instant::now();
    // Twenty echo requests within a second. All requests of the last half second must be answered.
    let text = output_of("ip netns exec wa ping -c20 -i0.05 -W1 10.97.0.2");
    let answered = |n: u32| text.contains(&format!("icmp_seq={n} "));
    assert!((11..=20).all(answered), "{when}, {:?}: {text}", begin.elapsed());
}

/// Waits until the namespace has no device of Weir.
fn nothing_remains() {
    until("the devices are gone", || !output_of("ip -n wa -o link").contains("weir"));
}

fn stopped(lab: &Lab) {
    let _world = World::make();
    let running = delay(lab, &["attach", "netns:wa"], || ping("wa", "10.97.0.2"));
    kill(running.pid(), Signal::SIGSTOP).expect("it is alive");
    std::thread::sleep(Duration::from_secs(1));
    assert!(is_direct("wa", "10.97.0.2"));
    kill(running.pid(), Signal::SIGCONT).expect("it is alive");
    until("the namespace is shaped again", || is_delayed("wa", "10.97.0.2"));
    let result = end(lab, running);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("passed unshaped"), "{warnings}");
}

/// Packets that are redirected while Weir does not read them fill the queue of a device. Packets
/// that do not fit count as drops of the link.
fn overflow(lab: &Lab) {
    let _world = World::make();
    let running = delay(lab, &["attach", "netns:wa"], || ping("wa", "10.97.0.2"));
    // The flood has far more than the 500 packets that fit, and must arrive within the half second
    // in which packets are still redirected.
    let flood = "send --to 10.97.0.2:9 -4 --count 5000 --flood --size 100 --after 0";
    let flood = format!("ip netns exec wa {} {flood} >/dev/null", load());
    let dropped = || {
        let counters = "awk '/weir/ {n += $13} END {print n}' /proc/net/dev";
        output_of(&format!("ip netns exec wa {counters}")).trim().parse().unwrap_or(0u64)
    };
    for _ in 0..FLOODS {
        kill(running.pid(), Signal::SIGSTOP).expect("it is alive");
        must(&flood);
        kill(running.pid(), Signal::SIGCONT).expect("it is alive");
        until("the namespace is shaped again", || is_delayed("wa", "10.97.0.2"));
        if dropped() > 0 {
            break;
        }
    }
    let all = dropped();
    let result = end(lab, running);
    let up = link(&result, "up");
    let (lost, warnings) = (drops(up, "no_memory"), result["warnings"].to_string());
    assert!(lost > 0 && lost == all && number(up, "packets_in") > lost, "{all} {result}");
    assert!(warnings.contains(&format!("link up: the kernel dropped {lost} frames")), "{warnings}");
    assert_eq!(drops(link(&result, "down"), "no_memory"), 0, "{result}");
}

fn returns(lab: &Lab) {
    let _world = World::make();
    let running = delay(lab, &["attach", "netns:wa"], || ping("wa", "10.97.0.2"));
    must("ip netns del wa");
    until("weir reports that the namespace is gone", || {
        running.stderr().contains("netns:wa is gone")
    });
    until("the interface of the namespace is gone", || {
        !output_of("ip -n wb -o link").contains("eth0")
    });
    World::make_left();
    until("weir reports that the namespace is back", || running.stderr().contains("shaped again"));
    until("the namespace is shaped again", || is_delayed("wa", "10.97.0.2"));
    let result = end(lab, running);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("went away and came back"), "{warnings}");
    assert!(is_direct("wa", "10.97.0.2"));
}

fn process_ends(lab: &Lab) {
    let _world = World::make();
    let process = lab.launch(Command::new("ip").args(["netns", "exec", "wa", "sleep", "100"]));
    let is_inside = || {
        let ns = |path: &str| output_of(&format!("stat -Lc %i {path}"));
        ns(&format!("/proc/{}/ns/net", process.pid())) == ns("/run/netns/wa")
    };
    until("the process is inside", is_inside);
    let target = format!("pid:{}", process.pid());
    let running = delay(lab, &["attach", &target], || ping("wa", "10.97.0.2"));
    drop(process);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    assert!(result["notes"].to_string().contains("ended with its target"), "{result}");
    assert!(is_direct("wa", "10.97.0.2"));
}

/// The process ends before, while or after Weir attaches to it. Weir ends, too, and says why.
fn dies_meanwhile(lab: &Lab) {
    let _world = World::make();
    for round in 0..DEATHS {
        let mut process = Command::new("nsenter")
            .args(["--net=/run/netns/wa", "sleep", "100"])
            .spawn()
            .expect("nsenter is installed");
        let target = format!("pid:{}", process.id());
        let running = lab.start(["attach", &target, "--interface", "eth0", "--link", "1M"]);
        std::thread::sleep(Duration::from_millis(round * 25));
        process.kill().expect("it is a child");
        process.wait().expect("it is a child");
        let done = running.finish();
        let words = match done.code {
            0 => "is gone",
            // `nsenter` had not entered the namespace yet.
            125 if done.stderr.contains("has no network of its own") => continue,
            _ => "there is no process",
        };
        assert!(done.stderr.contains(words), "round {round}: {done:?}");
        assert!(is_direct("wa", "10.97.0.2"), "round {round}");
        nothing_remains();
    }
}

/// The namespace is deleted before, while or after Weir attaches to it.
fn vanishes_meanwhile(lab: &Lab) {
    let _world = World::make();
    for round in 0..DEATHS {
        let words = ["attach", "netns:wa", "--link", "delay 10ms", "--for", "1500ms"];
        let running = lab.start(words);
        std::thread::sleep(Duration::from_millis(round * 25));
        must("ip netns del wa");
        let done = running.finish();
        let reasons = ["is gone", "there is no network namespace wa", "no interface", "no such"];
        let is_explained = reasons.iter().any(|part| done.stderr.to_lowercase().contains(part));
        assert!(is_explained && [0, 125].contains(&done.code), "round {round}: {done:?}");
        until("the interface of the namespace is gone", || {
            !output_of("ip -n wb -o link").contains("eth0")
        });
        World::make_left();
        assert!(is_direct("wa", "10.97.0.2"), "round {round}");
    }
}

fn second_is_refused(lab: &Lab) {
    let _world = World::make();
    let first = delay(lab, &["attach", "netns:wa"], || ping("wa", "10.97.0.2"));
    let second = lab.weir(delay_words(&["attach", "netns:wa"]));
    assert_eq!(second.code, 125, "{second:?}");
    let process = format!("process {}", first.pid());
    assert!(second.stderr.contains(&process), "{second:?}");
    assert!(is_delayed("wa", "10.97.0.2"), "the first one goes on");
}

fn unknown_targets(lab: &Lab) {
    let _world = World::make();
    for (words, code, part) in [
        (&["netns:nowhere"][..], 125, "ip netns` lists wa, wb"),
        (&["netns:wa", "--interface", "eth7"], 2, "it has lo, eth0"),
        (&["pid:4194304"], 125, "no process 4194304"),
        (&["unit:no-such-unit"], 125, "no running unit no-such-unit.service"),
        (&["user:no-such-user"], 125, "getent passwd"),
        (&["web"], 2, "docker:NAME"),
        (&["netns:wa", "--to", "10/8"], 2, "no range of addresses"),
        (&["netns:wa", "--port", "http"], 2, "no port"),
    ] {
        let done = lab.weir(["attach", "--link", "delay 10ms"].iter().chain(words));
        assert_eq!(done.code, code, "{words:?}: {done:?}");
        assert!(done.stderr.contains(part), "{words:?}: {done:?}");
    }
    let done = lab.weir(["attach", "netns:wa"]);
    assert!(done.code == 2 && done.stderr.contains("nothing to emulate"), "{done:?}");
    let absent = format!("unix://{}", lab.path("no.sock").display());
    for (engine, variable) in [("docker", "DOCKER_HOST"), ("podman", "CONTAINER_HOST")] {
        let mut command = Command::new(crate::common::weir());
        command.args(["attach", &format!("{engine}:web"), "--link", "delay 10ms"]);
        let done = lab.launch(command.env(variable, &absent)).finish();
        let words = format!("{engine} does not listen on");
        assert!(done.code == 125 && done.stderr.contains(&words), "{done:?}");
    }
}

fn without_rights(lab: &Lab) {
    let _world = World::make();
    let copies = Copies::make(lab);
    let sleeper = lab.launch(Command::new("ip").args(["netns", "exec", "wa", "sleep", "100"]));
    let process = format!("pid:{}", sleeper.pid());
    for target in ["netns:wa", "user:nobody", &process] {
        let mut command = Command::new(NOBODY[0]);
        command.args(&NOBODY[1..]).arg(&copies.weir);
        command.args(["attach", target, "--interface", "lo", "--link", "delay 10ms"]);
        let done = lab.launch(&mut command).finish();
        assert_eq!(done.code, 125, "{target}: {done:?}");
        assert!(done.stderr.contains("try sudo"), "{target}: {done:?}");
    }
    assert!(!output_of("ip -n wa -o link; ip -o link").contains("weir"));
}

fn dead_mans_switch(lab: &Lab) {
    let _world = World::with_the_machine();
    let fixed = ["host", "--interface", "wm"];
    let rtt = || ping("", "10.96.0.2");
    let running = delay(lab, &[&fixed[..], &["--for", "3s"]].concat(), rtt);
    let done = running.finish();
    assert!(done.code == 0 && done.stderr.contains("ended by --for"), "{done:?}");
    assert!(rtt().expect("an answer") < DIRECT);
    let running = delay(lab, &fixed, rtt);
    running.signal_group(Signal::SIGHUP);
    let done = running.finish();
    assert!(done.code == 0 && done.stderr.contains("ends in 600 s"), "{done:?}");
    assert!(rtt().expect("an answer") < DIRECT);
}

/// The number of times that an attachment is killed, unless the environment variable
/// `WEIR_LIVE_KILLS` sets another number.
const KILLS: u64 = 6;
/// The system calls by which an attachment changes something.
const STEPS: [&str; 3] = ["setns", "ioctl", "bpf"];
/// The number of times that a test ends a target: at the start of Weir, 25 ms after it, 50 ms after
/// it, and so on.
const DEATHS: u64 = 6;
/// Maximum number of floods. A loaded machine may send a flood too late.
const FLOODS: u32 = 20;
