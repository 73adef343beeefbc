//! What goes wrong: wrong words, full disks, vanished interfaces, killed processes. Nothing may be left behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{Lab, Need, check_books, find, must, output_of, trial, until};

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("a_wrong_specification_is_misuse_and_the_message_has_the_word", &[], wrong_words),
        trial("a_daemon_ends_with_its_namespace", &[], daemon),
        trial("kill_9_leaves_nothing", &[Need::Root], killed),
        trial("a_killed_program_ends_the_run", &[], child_killed),
        trial("a_full_disk_is_named_and_leaves_no_half_file", &[Need::Root], full_disk),
        trial("a_missing_directory_is_named", &[], missing_directory),
        trial("a_vanished_interface_ends_the_bridge_with_its_books_in_order", &[Need::Root], vanished),
    ]
}

fn wrong_words(lab: &Lab) {
    for (spec, word) in [
        ("bw 4Mbit/s delya 20ms", "delya"),
        ("delay 20parsecs", "20parsecs"),
        ("bw 500Gbit/s", "500Gbit/s"),
        ("loss 150%", "150%"),
        ("delay 2h", "2h"),
        ("queue 0", "0"),
        ("trace /no/such/file", "/no/such/file"),
        ("bw 1e999", "1e999"),
    ] {
        let done = lab.weir(["run", "--link", spec, "--", "true"]);
        assert_eq!(done.code, 2, "{spec}: {done:?}");
        assert!(done.stderr.contains(word), "{spec}: the message must show {word}: {done:?}");
        assert_eq!(done.stdout, "", "{spec}: complaints go to stderr");
    }
    let done = lab.weir(["run", "--preset", "dssl", "--", "true"]);
    assert!(done.code == 2 && done.stderr.contains("dssl") && done.stderr.contains("dsl"), "{done:?}");
    let done = lab.weir(["run", "--lnk", "4M", "--", "true"]);
    assert!(done.code == 2 && done.stderr.contains("--lnk"), "{done:?}");
    assert_eq!(lab.weir(["run", "--link", "4M"]).code, 2, "a command is missing");
}

/// What of the machine a run may touch, as text.
fn machine() -> String {
    [
        "ip -o link | sed 's/qlen.*//'",
        "ip -o address | sed 's/ *valid_lft.*//'",
        "ip route; ip -6 route; ip rule",
        "nft list ruleset 2>/dev/null",
        "ls -A /run/netns /run/weir 2>/dev/null",
        "sysctl -a 2>/dev/null | grep -E 'forwarding|ip_forward|rp_filter|ping_group' | sort",
        "mount | sort",
    ]
    .iter()
    .map(|line| format!("{line}:\n{}\n", output_of(line)))
    .collect()
}

fn killed(lab: &Lab) {
    // What a first run leaves for good, such as a loaded kernel module's sysctls, is there before the comparison.
    assert_eq!(lab.weir(["run", "--link", "1G/1ms", "--", "true"]).code, 0);
    let before = machine();
    for round in 0u64..20 {
        let marker = format!("4711.{:03}", round + u64::from(std::process::id() % 100));
        let inside = format!("setsid sleep {marker} & ping -q -i 0.01 host >/dev/null & exec sleep {marker}");
        let mut running = lab.start(["run", "--link", "10M/5ms", "--", "sh", "-c", &inside]);
        // From the first moments of the set-up to well into the traffic.
        std::thread::sleep(Duration::from_millis(round * 25));
        assert!(running.alive(), "it ended by itself: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until("every process is gone", || output_of(&format!("pgrep -xf 'sleep {marker}|ping -q -i 0.01 host'")).is_empty());
        until("the machine is as before", || machine() == before);
    }
}

fn daemon(lab: &Lab) {
    let marker = format!("4712.{}", std::process::id());
    let ready = lab.path("ready").display().to_string();
    // Twice forked and in a session of its own, as daemons are.
    let inside =
        format!("(setsid sh -c 'sleep {marker} & echo > {ready}; wait' >/dev/null 2>&1 &) ; while [ ! -s {ready} ]; do sleep 0.01; done");
    let done = lab.weir(["run", "--link", "10M/1ms", "--", "sh", "-c", &inside]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(lab.path("ready").exists(), "the daemon never started");
    assert_eq!(output_of(&format!("pgrep -xf 'sleep {marker}'")), "", "the daemon must end with its namespace");
}

fn child_killed(lab: &Lab) {
    let done = lab.weir(["run", "--link", "10M/1ms", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(done.code, 128 + 9, "{done:?}");
}

/// A file system of 64 KiB; unmounted when dropped.
struct Small(String);

impl Small {
    fn mount(lab: &Lab) -> Self {
        let dir = lab.path("small").display().to_string();
        fs::create_dir(&dir).expect("a mount point");
        must(&format!("mount -t tmpfs -o size=64k,mode=777 weir-test {dir}"));
        Self(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        must(&format!("umount -l {}", self.0));
    }
}

fn full_disk(lab: &Lab) {
    let small = Small::mount(lab);
    must(&format!("head -c 1M /dev/zero > {}/filler || true", small.0));
    for (option, name) in [("--json", "r.json"), ("--report", "r.html"), ("--pcap", "r.pcapng")] {
        let path = format!("{}/{name}", small.0);
        // Enough traffic for a capture to need more room than there is.
        let inside = "ping -c 200 -i 0.002 -s 1000 -q host >/dev/null; exit 5";
        let done = lab.weir(["run", "--link", "1G/1ms", option, &path, "--", "sh", "-c", inside]);
        assert_ne!(done.code, 101, "{option}: a full disk is no reason to panic: {done:?}");
        assert_ne!(done.code, 0, "{option}: {done:?}");
        assert!(done.stderr.contains(name) && done.stderr.contains("No space left"), "{option}: name the file and the cause: {done:?}");
        let left: Vec<_> = fs::read_dir(&small.0).expect("a directory").flatten().map(|e| e.file_name()).collect();
        let half = left.iter().any(|n| n != "filler" && n.to_string_lossy() != "r.pcapng");
        assert!(!half, "{option}: no half file may stay: {left:?}");
    }
}

fn missing_directory(lab: &Lab) {
    let path = lab.path("nowhere/r.json").display().to_string();
    let done = lab.weir(["run", "--link", "1G/1ms", "--json", &path, "--", "true"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("nowhere"), "{done:?}");
}

/// Two veth pairs with an address on each outer end; deleted when dropped.
struct Pairs;

impl Pairs {
    fn make() -> Self {
        let pairs = Self;
        must("ip netns list >/dev/null; ip link add wla type veth peer name wlb && ip link add wra type veth peer name wrb");
        must("for i in wla wlb wra wrb; do ip link set $i up; done");
        pairs
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // One of them is gone already.
        let _ = output_of("ip link del wla; ip link del wra");
    }
}

fn vanished(lab: &Lab) {
    assert!(find("ip").is_some());
    let _pairs = Pairs::make();
    let json = lab.path("weir.json").display().to_string();
    let mut running = lab.start(["bridge", "wlb", "wrb", "--link", "10M/5ms", "--json", &json]);
    // Traffic that needs no addresses: broadcasts out of one outer end.
    let mut flood = Command::new("sh");
    flood.args(["-c", "ip addr add 10.77.0.1/24 dev wla; exec ping -q -b -i 0.005 10.77.0.255"]);
    let _flood = lab.launch(&mut flood);
    let received = || output_of("cat /proc/net/dev | awk '$1 == \"wra:\" {print $3}'").trim().parse::<u64>().unwrap_or(0);
    let at_start = received();
    until("frames cross the bridge", || received() > at_start + 20);
    assert!(running.alive(), "{}", running.stderr());
    must("ip link del wrb");
    let done = running.finish();
    assert_ne!(done.code, 0, "a bridge that lost an end has failed: {done:?}");
    assert!(done.stderr.contains("wrb"), "the message must name the interface: {done:?}");
    check_books(&lab.json("weir.json"));
}
