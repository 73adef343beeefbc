//! Tests `weir attach` and `weir host`: what runs already is shaped, and its traffic is direct
//! again after every kind of end.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::{
    Lab, Need, Running, check_accounting, link, must, number, output_of, skipped, trial, until,
};

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    let iperf = &[Need::Root, Need::Program("iperf3"), Need::Program("ping")];
    let ping = &[Need::Root, Need::Program("ping")];
    vec![
        trial("attach_shapes_a_namespace_both_ways", iperf, shapes_both_ways),
        trial("attach_shapes_only_what_is_selected", ping, shapes_the_selected),
        trial("attach_killed_at_any_moment_restores_the_traffic", ping, killed),
        trial("attach_stopped_lets_the_traffic_pass", ping, stopped),
        trial("attach_follows_a_namespace_that_returns", ping, returns),
        trial("attach_ends_with_its_process", ping, process_ends),
        trial("attach_refuses_a_second_one", ping, second_is_refused),
        trial("attach_names_what_there_is", &[Need::Root], unknown_targets),
        trial("attach_shapes_lo_between_two_programs", iperf, loopback),
        trial("attach_shapes_a_control_group_alone", iperf, control_group),
        trial("attach_finds_the_control_group_of_a_unit", &[Need::Root], unit),
        trial("attach_shapes_a_user_alone", iperf, user),
        trial("host_ends_after_its_time_and_at_hangup", ping, dead_mans_switch),
    ]
}

/// Two namespaces, `wa` and `wb`, joined by a link: 10.97.0.1 and 10.97.0.2, fd97::1 and fd97::2;
/// `wb` has a second address, 10.97.0.3. They are deleted when this is dropped.
struct World;

impl World {
    fn make() -> Self {
        let world = Self;
        must("ip netns add wb");
        Self::make_left();
        world
    }

    /// Creates `wa`, and the link to `wb`.
    fn make_left() {
        must("ip netns add wa && ip -n wa link set lo up && ip -n wb link set lo up");
        must("ip -n wa link add eth0 type veth peer name eth0 netns wb");
        must("ip -n wa link set eth0 up && ip -n wb link set eth0 up");
        must("ip -n wa addr add 10.97.0.1/24 dev eth0");
        must("ip -n wb addr add 10.97.0.2/24 dev eth0 && ip -n wb addr add 10.97.0.3/24 dev eth0");
        must("ip -n wa addr add fd97::1/64 dev eth0 nodad");
        must("ip -n wb addr add fd97::2/64 dev eth0 nodad");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = output_of("ip netns del wa; ip netns del wb; ip link del wm");
    }
}

/// A link from the machine itself, `wm` with 10.96.0.1, to `wb` with 10.96.0.2.
fn link_the_machine() {
    must("ip link add wm type veth peer name wm netns wb");
    must("ip link set wm up && ip -n wb link set wm up");
    must("ip addr add 10.96.0.1/24 dev wm && ip -n wb addr add 10.96.0.2/24 dev wm");
}

/// The least round-trip time of some pings, in ms; `None` if no answer arrived.
pub(crate) fn ping(namespace: &str, to: &str) -> Option<f64> {
    let prefix =
        if namespace.is_empty() { String::new() } else { format!("ip netns exec {namespace} ") };
    let text = output_of(&format!("{prefix}ping -c3 -i0.2 -W1 -q {to}"));
    let (_, times) = text.split_once("min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

/// A prefix for shell commands in a namespace; empty for the machine itself.
fn within(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("ip netns exec {namespace} ") }
}

/// Starts `weir` and waits until it shapes what `probe` measures.
fn start(lab: &Lab, words: &[&str], probe: impl Fn() -> Option<f64>) -> Running {
    let running = lab.start(words);
    until("the traffic is shaped", || probe().is_some_and(|ms| ms >= RTT));
    running
}

/// Ends `weir` as ^C does, and returns its results.
fn end(lab: &Lab, running: Running) -> Value {
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    check_accounting(&result);
    result
}

/// Transfers some bytes over TCP between the namespaces, as iperf3 reports it.
fn transfer(server: &str, client: &str, to: &str, more: &str) -> Value {
    // A server may still be ending when the next one begins.
    static PORT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(5301);
    let port = PORT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    must(&format!("{}iperf3 -s -1 -D -p {port}", within(server)));
    let listens = format!("{}ss -Hltn 'sport = :{port}'", within(server));
    until("iperf3 listens", || !output_of(&listens).is_empty());
    let text = output_of(&format!("{client} iperf3 -c {to} -p {port} -J {more}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The rate of a transfer, in bit/s.
fn rate(transfer: &Value) -> f64 {
    transfer["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate")
}

/// The least round-trip time of a transfer, in ms.
fn least_rtt(transfer: &Value) -> f64 {
    let sender = &transfer["end"]["streams"][0]["sender"];
    sender["min_rtt"].as_f64().expect("a round-trip time") / 1000.0
}

fn shapes_both_ways(lab: &Lab) {
    let _world = World::make();
    let json = lab.path("out.json").display().to_string();
    let words = ["attach", "netns:wa", "--up", "8M/30ms", "--down", "12M/20ms", "--json", &json];
    let running = start(lab, &words, || ping("wa", "10.97.0.2"));
    for (from, to) in [("wa", "fd97::2"), ("wb", "10.97.0.1"), ("wb", "fd97::1")] {
        assert!(ping(from, to).expect("an answer") >= RTT, "from {from} to {to}");
    }
    for (to, more, most) in [("10.97.0.2", "", 8e6), ("fd97::2", "-R", 12e6)] {
        let rate = rate(&transfer("wb", "ip netns exec wa", to, &format!("-n 1M {more}")));
        assert!(rate < most * 1.05 && rate > most / 4.0, "{to} {more}: {rate} bit/s");
    }
    let result = end(lab, running);
    assert_eq!(link(&result, "up")["from"], "netns:wa");
    for name in ["up", "down"] {
        // A transfer of 1 MB is some 700 packets in its direction.
        assert!(number(link(&result, name), "packets_out") > 700, "{result}");
    }
    assert!(ping("wa", "10.97.0.2").expect("an answer") < DIRECT);
    assert!(!output_of("ip -n wa -o link").contains("weir"), "the devices are gone");
}

fn shapes_the_selected(lab: &Lab) {
    let _world = World::make();
    let json = lab.path("out.json").display().to_string();
    let words = [
        "attach",
        "netns:wa",
        "--up",
        "delay 30ms",
        "--down",
        "delay 20ms",
        "--to",
        "10.97.0.3",
        "--json",
        &json,
    ];
    let running = start(lab, &words, || ping("wa", "10.97.0.3"));
    assert!(ping("wa", "10.97.0.2").expect("an answer") < DIRECT);
    assert!(ping("wa", "fd97::2").expect("an answer") < DIRECT);
    let result = end(lab, running);
    let (up, down) = (link(&result, "up"), link(&result, "down"));
    // Each ping is one packet in each direction.
    assert_eq!(number(up, "packets_in"), number(down, "packets_in"));
}

fn killed(lab: &Lab) {
    let _world = World::make();
    for round in 0..KILLS {
        let mut running = lab.start(["attach", "netns:wa", "--link", "delay 30ms", "--for", "30s"]);
        std::thread::sleep(Duration::from_millis(round * 23 + round * round % 7 * 30));
        assert!(running.alive(), "it ended by itself: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        let begin = Instant::now();
        // Twenty echo requests within a second. Those of its second half must all be answered.
        let text = output_of("ip netns exec wa ping -c20 -i0.05 -W1 10.97.0.2");
        let answered = |n: u32| text.contains(&format!("icmp_seq={n} "));
        assert!((11..=20).all(answered), "round {round}, {:?}: {text}", begin.elapsed());
        assert_eq!(running.finish().code, 128 + 9);
        until("the devices are gone", || !output_of("ip -n wa -o link").contains("weir"));
    }
}

fn stopped(lab: &Lab) {
    let _world = World::make();
    let json = lab.path("out.json").display().to_string();
    let words =
        ["attach", "netns:wa", "--up", "delay 30ms", "--down", "delay 20ms", "--json", &json];
    let running = start(lab, &words, || ping("wa", "10.97.0.2"));
    kill(running.pid(), Signal::SIGSTOP).expect("it is alive");
    std::thread::sleep(Duration::from_secs(1));
    assert!(ping("wa", "10.97.0.2").expect("an answer") < DIRECT);
    kill(running.pid(), Signal::SIGCONT).expect("it is alive");
    until("it is shaped again", || ping("wa", "10.97.0.2").is_some_and(|ms| ms >= RTT));
    let result = end(lab, running);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("passed unshaped"), "{warnings}");
}

fn returns(lab: &Lab) {
    let _world = World::make();
    let json = lab.path("out.json").display().to_string();
    let words =
        ["attach", "netns:wa", "--up", "delay 30ms", "--down", "delay 20ms", "--json", &json];
    let running = start(lab, &words, || ping("wa", "10.97.0.2"));
    must("ip netns del wa");
    until("it is gone", || running.stderr().contains("netns:wa is gone"));
    until("its interface is gone", || !output_of("ip -n wb -o link").contains("eth0"));
    World::make_left();
    until("it is back", || running.stderr().contains("shaped again"));
    until("it is shaped again", || ping("wa", "10.97.0.2").is_some_and(|ms| ms >= RTT));
    let result = end(lab, running);
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("went away and came back"), "{warnings}");
    assert!(ping("wa", "10.97.0.2").expect("an answer") < DIRECT);
}

fn process_ends(lab: &Lab) {
    let _world = World::make();
    let json = lab.path("out.json").display().to_string();
    let process = lab.launch(Command::new("ip").args(["netns", "exec", "wa", "sleep", "100"]));
    let is_inside = || {
        let ns = |path: &str| output_of(&format!("stat -Lc %i {path}"));
        ns(&format!("/proc/{}/ns/net", process.pid())) == ns("/run/netns/wa")
    };
    until("the process is inside", is_inside);
    let target = format!("pid:{}", process.pid());
    let words = ["attach", &target, "--up", "delay 30ms", "--down", "delay 20ms", "--json", &json];
    let running = start(lab, &words, || ping("wa", "10.97.0.2"));
    drop(process);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    assert!(result["notes"].to_string().contains("ended with its target"), "{result}");
    assert!(ping("wa", "10.97.0.2").expect("an answer") < DIRECT);
}

fn second_is_refused(lab: &Lab) {
    let _world = World::make();
    let words = ["attach", "netns:wa", "--up", "delay 30ms", "--down", "delay 20ms"];
    let first = start(lab, &words, || ping("wa", "10.97.0.2"));
    let second = lab.weir(words);
    assert_eq!(second.code, 125, "{second:?}");
    let process = format!("process {}", first.pid());
    assert!(second.stderr.contains(&process), "{second:?}");
    assert!(ping("wa", "10.97.0.2").is_some_and(|ms| ms >= RTT), "the first one goes on");
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
    let absent = lab.path("no.sock").display().to_string();
    let mut command = Command::new(crate::common::weir());
    command.args(["attach", "docker:web", "--link", "delay 10ms"]);
    let done = lab.launch(command.env("DOCKER_HOST", format!("unix://{absent}"))).finish();
    assert!(done.code == 125 && done.stderr.contains("does not listen on"), "{done:?}");
}

fn loopback(lab: &Lab) {
    let json = lab.path("out.json").display().to_string();
    let rtt = |to: &str| least_rtt(&transfer("", "", to, "-n 50K"));
    let words = [
        "host",
        "--interface",
        "lo",
        "--port",
        PORTS,
        "--up",
        "delay 30ms",
        "--down",
        "delay 20ms",
        "--json",
        &json,
    ];
    let running = start(lab, &words, || Some(rtt("127.0.0.1")));
    assert!(rtt("::1") >= RTT);
    assert!(ping("", "127.0.0.1").expect("an answer") < DIRECT, "it has no port");
    let result = end(lab, running);
    for name in ["up", "down"] {
        assert!(number(link(&result, name), "packets_out") > 10, "{result}");
    }
    assert!(rtt("127.0.0.1") < DIRECT);
}

/// A control group that is removed when this is dropped.
struct Group(PathBuf);

impl Group {
    /// `None` where groups of version 2 cannot be made.
    fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields.get(2) == Some(&"cgroup2")).then(|| fields[1].to_owned())
        })?;
        let path = PathBuf::from(mount).join(format!("weir-live-{}.service", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, at the latest with the namespaces.
        until("the group is removed", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

fn control_group(lab: &Lab) {
    let Some(group) = Group::make() else {
        let why = "control groups of version 2 cannot be made here";
        let _ = skipped("attach_shapes_a_control_group_alone", why);
        return;
    };
    let path = group.0.display().to_string();
    let json = lab.path("out.json").display().to_string();
    let target = format!("cgroup:{path}");
    let inside = lab.file("inside", &format!("echo $$ > {path}/cgroup.procs\nexec \"$@\"\n"));
    let words = [
        "attach",
        &target,
        "--interface",
        "wm",
        "--up",
        "delay 30ms",
        "--down",
        "delay 20ms",
        "--json",
        &json,
    ];
    owned(lab, &words, &format!("sh {inside}"));
    drop(group);
}

/// A unit is found by the name of its control group. Nothing runs in this one.
fn unit(lab: &Lab) {
    let Some(group) = Group::make() else {
        let why = "control groups of version 2 cannot be made here";
        let _ = skipped("attach_finds_the_control_group_of_a_unit", why);
        return;
    };
    let name = format!("unit:weir-live-{}", std::process::id());
    let words = ["attach", &name, "--interface", "lo", "--link", "1M", "--for", "200ms"];
    let done = lab.weir(words);
    let shown = format!("shaping lo of {name}.service");
    assert!(done.code == 0 && done.stderr.contains(&shown), "{done:?}");
    drop(group);
}

fn user(lab: &Lab) {
    let json = lab.path("out.json").display().to_string();
    let words = [
        "host",
        "--user",
        "nobody",
        "--interface",
        "wm",
        "--up",
        "delay 30ms",
        "--down",
        "delay 20ms",
        "--json",
        &json,
    ];
    owned(lab, &words, "setpriv --reuid=65534 --clear-groups");
}

/// Shapes the programs that `prefix` starts, and no others.
fn owned(lab: &Lab, words: &[&str], prefix: &str) {
    let _world = World::make();
    link_the_machine();
    let rtt = |prefix: &str| least_rtt(&transfer("wb", prefix, "10.96.0.2", "-n 50K"));
    let running = start(lab, words, || Some(rtt(prefix)));
    assert!(rtt("") < DIRECT, "other programs are not shaped");
    let result = end(lab, running);
    for name in ["up", "down"] {
        assert!(number(link(&result, name), "packets_out") > 10, "{result}");
    }
    assert!(rtt(prefix) < DIRECT);
}

fn dead_mans_switch(lab: &Lab) {
    let _world = World::make();
    link_the_machine();
    let fixed = ["host", "--interface", "wm", "--up", "delay 30ms", "--down", "delay 20ms"];
    let rtt = || ping("", "10.96.0.2");
    let running = start(lab, &[&fixed[..], &["--for", "3s"]].concat(), rtt);
    let done = running.finish();
    assert!(done.code == 0 && done.stderr.contains("ended by --for"), "{done:?}");
    assert!(rtt().expect("an answer") < DIRECT);
    let running = start(lab, &fixed, rtt);
    running.signal_group(Signal::SIGHUP);
    let done = running.finish();
    assert!(done.code == 0 && done.stderr.contains("ends in 600 s"), "{done:?}");
    assert!(rtt().expect("an answer") < DIRECT);
}

/// The round-trip time that the links of these tests add at least, in ms.
pub(crate) const RTT: f64 = 50.0;
/// Round-trip times below this are direct, in ms: the least of several on a busy machine.
pub(crate) const DIRECT: f64 = 25.0;
/// How often an attachment is killed.
const KILLS: u64 = 6;
/// The ports of the transfers.
const PORTS: &str = "5301-5499";
