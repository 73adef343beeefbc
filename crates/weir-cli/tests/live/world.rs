//! The environment for tests of attachments: namespaces, control groups, a link from the machine,
//! and measurements by programs in these namespaces and groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Lab, Running, check_accounting, link, must, number, output_of, until};

/// Two namespaces, `wa` and `wb`, joined by a link: 10.97.0.1 and 10.97.0.2, fd97::1 and fd97::2;
/// `wb` has a second address, 10.97.0.3. The namespaces are deleted when this value is dropped.
pub(crate) struct World;

impl World {
    pub(crate) fn make() -> Self {
        let world = Self;
        must("ip netns add wb");
        Self::make_left();
        world
    }

    /// Makes the namespaces, and in addition a link from the machine itself to `wb`: `wm`, with
    /// 10.96.0.1 on the machine and 10.96.0.2 in `wb`.
    pub(crate) fn with_the_machine() -> Self {
        let world = Self::make();
        must("ip link add wm type veth peer name wm netns wb");
        must("ip link set wm up && ip -n wb link set wm up");
        must("ip addr add 10.96.0.1/24 dev wm && ip -n wb addr add 10.96.0.2/24 dev wm");
        world
    }

    /// Creates `wa`, and the link to `wb`.
    pub(crate) fn make_left() {
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

/// A control group of version 2. When this value is dropped, the group's processes are killed and
/// the group is removed.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Makes a group with a name that ends in this word. If that is impossible, `Err` has the
    /// reason.
    pub(crate) fn make(name: &str) -> Result<Self, &'static str> {
        const WHY: &str = "control groups of version 2 cannot be made here";
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|_| WHY)?;
        let mount = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields.get(2) == Some(&"cgroup2")).then(|| fields[1].to_owned())
        });
        let name = format!("weir-live-{}-{name}", std::process::id());
        let path = PathBuf::from(mount.ok_or(WHY)?).join(name);
        fs::create_dir(&path).map_err(|_| WHY)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A prefix that runs a command in the group.
    pub(crate) fn prefix(&self, lab: &Lab) -> String {
        let lines = format!("echo $$ > {}/cgroup.procs\nexec \"$@\"\n", self.0.display());
        format!("sh {}", lab.file("inside", &lines))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let remove = format!("find {} -depth -type d -exec rmdir {{}} +", self.0.display());
        until("the group is removed", || {
            output_of(&remove);
            !self.0.exists()
        });
    }
}

/// A prefix for shell commands in a namespace; empty for the machine itself.
pub(crate) fn within(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("ip netns exec {namespace} ") }
}

/// The lowest round-trip time of some pings, in ms; `None` if no answer arrived.
pub(crate) fn ping(namespace: &str, to: &str) -> Option<f64> {
    let text = output_of(&format!("{}ping -c3 -i0.2 -W1 -q {to}", within(namespace)));
    let (_, times) = text.split_once("min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

/// Whether pings show that a path is direct.
pub(crate) fn is_direct(namespace: &str, to: &str) -> bool {
    ping(namespace, to).expect("an answer") < DIRECT
}

/// Whether pings show that a path has the delay of [`DELAYS`].
pub(crate) fn is_delayed(namespace: &str, to: &str) -> bool {
    ping(namespace, to).is_some_and(|ms| ms >= RTT)
}

/// Transfers some bytes over TCP. Returns the report of iperf3. `server` is the namespace of the
/// server, and `client` is the prefix of the client's command.
pub(crate) fn transfer(server: &str, client: &str, to: &str, more: &str) -> Value {
    // A server may still be ending when the next server begins, so each has a port of its own.
    static PORT: AtomicU16 = AtomicU16::new(5301);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    must(&format!("{}iperf3 -s -1 -D -p {port}", within(server)));
    let listens = format!("{}ss -Hltn 'sport = :{port}'", within(server));
    until("iperf3 listens", || !output_of(&listens).is_empty());
    let text = output_of(&format!("{client} iperf3 -c {to} -p {port} -J {more}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The rate of a transfer, in bit/s.
pub(crate) fn rate(transfer: &Value) -> f64 {
    transfer["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate")
}

/// The lowest round-trip time of a transfer, in ms.
pub(crate) fn least_rtt(transfer: &Value) -> f64 {
    let sender = &transfer["end"]["streams"][0]["sender"];
    sender["min_rtt"].as_f64().expect("a round-trip time") / 1000.0
}

/// These words with the options of [`DELAYS`].
pub(crate) fn delay_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &DELAYS].concat()
}

/// Starts `weir` with [`DELAYS`] and a file of results, and waits until it shapes what `probe`
/// measures.
pub(crate) fn delay(lab: &Lab, words: &[&str], probe: impl Fn() -> Option<f64>) -> Running {
    start(lab, &delay_words(words), probe)
}

/// Starts `weir` with a file of results, and waits until it shapes what `probe` measures.
pub(crate) fn start(lab: &Lab, words: &[&str], probe: impl Fn() -> Option<f64>) -> Running {
    let json = lab.path("out.json").display().to_string();
    let mut running = lab.start([words, &["--json", &json]].concat());
    until("the traffic is shaped", || {
        assert!(running.alive(), "it ended: {}", running.stderr());
        probe().is_some_and(|ms| ms >= RTT)
    });
    running
}

/// Ends `weir` as ^C does, and returns its results.
pub(crate) fn end(lab: &Lab, running: Running) -> Value {
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("out.json");
    check_accounting(&result);
    result
}

/// Checks that packets of a transfer have used both links.
pub(crate) fn check_used(result: &Value) {
    for name in ["up", "down"] {
        assert!(number(link(result, name), "packets_out") > 10, "{result}");
    }
}

/// The destination of the machine's shaped programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    /// To `wb`, over the link from the machine.
    Neighbour,
    /// To another program of the machine.
    Machine,
}

/// Checks that the programs that `prefix` starts are shaped, and no others.
pub(crate) fn check_owned(lab: &Lab, words: &[&str], prefix: &str, to: To) {
    let (server, address, interface) = match to {
        To::Neighbour => ("wb", "10.96.0.2", "wm"),
        To::Machine => ("", "127.0.0.1", "lo"),
    };
    let rtt = |prefix: &str| least_rtt(&transfer(server, prefix, address, "-n 50K"));
    let running = delay(lab, &[words, &["--interface", interface]].concat(), || Some(rtt(prefix)));
    assert!(rtt("") < DIRECT, "other programs are not shaped");
    check_used(&end(lab, running));
    assert!(rtt(prefix) < DIRECT);
}

/// Links that delay both directions.
pub(crate) const DELAYS: [&str; 4] = ["--up", "delay 30ms", "--down", "delay 20ms"];
/// The round-trip time that [`DELAYS`] add, in ms.
pub(crate) const RTT: f64 = 50.0;
/// A path is direct if the lowest round-trip time of several pings is below this, in ms. The bound
/// allows for a busy machine.
pub(crate) const DIRECT: f64 = 25.0;
/// The ports of the transfers.
pub(crate) const PORTS: &str = "5301-5499";
