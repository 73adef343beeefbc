//! Tests `kill -9` of `weir run` and `weir pair` at any moment, as root and as an ordinary user.
//! Afterwards the machine must be as it was before. Also tests that no interface is left when
//! `weir run` returns as usual.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{Copies, Lab, NOBODY, Need, output_of, trial, until};

pub(crate) fn tests() -> Vec<Trial> {
    let as_user = &[Need::Root, Need::Program("setpriv")];
    vec![
        trial("kill_9_of_run_leaves_nothing", &[Need::Root], |lab| killed(lab, &[], &RUN)),
        trial("kill_9_of_pair_leaves_nothing", &[Need::Root], |lab| killed(lab, &[], &PAIR)),
        trial("kill_9_of_run_without_root_leaves_nothing", as_user, |lab| {
            killed(lab, &NOBODY, &RUN);
        }),
        trial("kill_9_of_pair_without_root_leaves_nothing", as_user, |lab| {
            killed(lab, &NOBODY, &PAIR);
        }),
        trial("no_interface_is_left_when_run_returns", &[Need::Root], no_interface_is_left),
    ]
}

/// The next command of a script must not see interfaces of the run.
fn no_interface_is_left(lab: &Lab) {
    for round in 0..ROUNDS {
        let done = lab.weir(["run", "--link", "10M/5ms", "--", "ping", "-c1", "host"]);
        let links = output_of("ip -o link");
        assert_eq!(done.code, 0, "{done:?}");
        assert!(!links.contains("weir"), "round {round}: {links}");
    }
}

/// `weir run`, up to the script that the shell executes.
const RUN: [&str; 6] = ["run", "--link", "10M/5ms", "--", "sh", "-c"];
/// `weir pair`, up to the program on the right.
const PAIR: [&str; 6] = ["pair", "--link", "10M/5ms", "--left", "exec sleep 100", "--right"];

fn killed(lab: &Lab, user: &[&str], arguments: &[&str]) {
    let copies = Copies::make(lab);
    let peer = if arguments[0] == "run" { "host" } else { "left" };
    // Continuous traffic, and a process that has left its session, like a daemon.
    let inside = format!("setsid sleep 100 & exec ping -q -i 0.01 {peer} >/dev/null");
    let words: Vec<&str> = user.iter().copied().chain([copies.weir.as_str()]).collect();
    // A first run may have permanent effects, such as the sysctls of a kernel module that it loads.
    // They must exist before the comparison.
    let mut first = Command::new(words[0]);
    first.args(&words[1..]).args(arguments).arg("true");
    let done = lab.launch(&mut first).finish();
    assert_eq!(done.code, 0, "{done:?}");
    // The kernel removes interfaces some time after it has removed their namespace.
    until("the first run's interfaces are gone", || !output_of("ip -o link").contains("weir"));
    let before = machine();
    for round in 0..ROUNDS {
        // Every process of the run inherits this mark, by which the test finds it.
        let mark = format!("WEIR_LIVE_ROUND={}-{round}", lab.path("").display());
        let (name, value) = mark.split_once('=').expect("a variable");
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(arguments)
            .arg(&inside)
            .env(name, value)
            .current_dir(&copies.home);
        let mut running = lab.launch(&mut command);
        // The kills come at irregular moments, from the start of the set-up to well into the
        // traffic.
        std::thread::sleep(Duration::from_millis(round * 7 + round * round % 11 * 25));
        assert!(running.alive(), "weir ended before its kill: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until("every process is gone", || processes_with(&mark).is_empty());
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Some(difference) = difference(&before, &machine()) {
            assert!(
                Instant::now() < deadline,
                "round {round}: ten seconds later the machine is not as before: {difference}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let left: Vec<_> =
        fs::read_dir(&copies.home).expect("a directory").flatten().map(|e| e.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The state of those parts of the machine that a run may change, as text.
fn machine() -> String {
    [
        "ip -o link | sed 's/qlen.*//'",
        "ip -o address | sed 's/ *valid_lft.*//'",
        "ip route; ip -6 route; ip rule",
        "nft list ruleset 2>/dev/null",
        "ls -A /run/netns /run/weir /run/weir-sessions 2>/dev/null",
        "sysctl -a 2>/dev/null | grep -E 'forwarding|ip_forward|rp_filter|ping_group' | sort",
        "mount | sort",
    ]
    .iter()
    .map(|line| format!("{line}:\n{}\n", output_of(line)))
    .collect()
}

/// The lines that are in only one of two texts; `None` if the texts are equal.
fn difference(before: &str, now: &str) -> Option<String> {
    let only = |a: &str, b: &str| {
        a.lines()
            .filter(|line| !b.lines().any(|other| other == *line))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    (before != now).then(|| format!("gone {:?}, new {:?}", only(before, now), only(now, before)))
}

/// The command lines of the processes with this mark in their environment. A process that ends
/// during the search is omitted, or has an empty command line.
fn processes_with(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("/proc").flatten().map(|e| e.path());
    let marked = all.filter(|p| {
        fs::read(p.join("environ"))
            .is_ok_and(|e| e.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
    });
    marked
        .map(|p| fs::read_to_string(p.join("cmdline")).unwrap_or_default().replace('\0', " "))
        .collect()
}

/// The number of rounds of each test: kills of one command, or runs that end as usual.
const ROUNDS: u64 = 20;
