//! A daemon on a bridge between two namespaces, for all tests that need one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_control::api::{CommandReply, CommandRequest, Health, LaneView};
use weir_control::client::Client;

use crate::common::{Done, Lab, Running, load, must, output_of, weir};

/// Two namespaces, each connected by a veth pair: `sl` leads to 10.77.0.1 in `wl`, `sr` to
/// 10.77.0.2 in `wr`.
pub(crate) struct Wire;

impl Wire {
    pub(crate) fn new() -> Self {
        must("ip netns add wl && ip netns add wr");
        let wire = Self;
        Self::left_side();
        Self::right_side();
        wire
    }

    pub(crate) fn left_side() {
        Self::side("l", 1);
    }

    pub(crate) fn right_side() {
        Self::side("r", 2);
    }

    fn side(side: &str, number: u8) {
        must(&format!("ip link add s{side} type veth peer name e netns w{side}"));
        must(&format!(
            "ip link set s{side} up && ip -n w{side} addr add 10.77.0.{number}/24 dev e && ip -n \
             w{side} link set e up"
        ));
        // The interfaces of a recreated veth pair have new Ethernet addresses, which differ from
        // those that the other side has cached.
        let _ = output_of("ip -n wl neigh flush dev e; ip -n wr neigh flush dev e");
    }

    /// Waits until the right side answers a ping from the left side, or, if `answered` is false,
    /// until it does not answer.
    pub(crate) fn ping(&self, answered: bool) {
        let ping = "ip netns exec wl ping -c 1 -W 1 10.77.0.2 | grep -c 'bytes from'";
        let deadline = Instant::now() + LIMIT;
        // The first packet may be lost during address resolution.
        while output_of(ping).trim() != if answered { "1" } else { "0" } {
            assert!(
                Instant::now() < deadline,
                "after {LIMIT:?}, pings are answered: {}",
                !answered
            );
        }
    }

    /// Sends numbered packets from left to right and returns the reception.
    pub(crate) fn stream(
        &self,
        lab: &Lab,
        count: u64,
        pps: u64,
        size: u64,
    ) -> weir_traffic::stats::Reception {
        self.ping(true);
        let (load, out) = (load(), lab.path("recv.json").display().to_string());
        let recv = format!(
            "exec ip netns exec wr {load} recv --bind 0.0.0.0:9000 --sent {count} --idle 2 --json \
             --out {out}"
        );
        let receiver = lab.launch(Command::new("sh").args(["-c", &recv]));
        std::thread::sleep(Duration::from_millis(300));
        let send = format!(
            "exec ip netns exec wl {load} send --to 10.77.0.2:9000 --count {count} --pps {pps} \
             --size {size} --json"
        );
        let sent = lab.launch(Command::new("sh").args(["-c", &send])).finish();
        assert_eq!(sent.code, 0, "{sent:?}");
        let done = receiver.finish();
        assert_eq!(done.code, 0, "{done:?}");
        lab.reception("recv.json")
    }

    /// Sends packets from left to right until the returned value is dropped.
    pub(crate) fn flood(&self, lab: &Lab) -> Running {
        let send = format!(
            "exec ip netns exec wl {} send --to 10.77.0.2:9000 --pps 2000 --size 500 --seconds 600",
            load()
        );
        // Until the neighbour's address is known, the kernel queues only a few packets.
        must("ip -n wl neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev e");
        lab.launch(Command::new("sh").args(["-c", &send]))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Deleting a namespace also deletes its interfaces and the other ends of its veth pairs.
        for name in ["wl", "wr", "wm"] {
            let _ = output_of(&format!("ip netns del {name}"));
        }
        let _ = output_of("ip link del sl; ip link del sr");
        until("the veth pairs are gone", || {
            !Path::new("/sys/class/net/sl").exists() && !output_of("ip -o link").contains(" sl@")
        });
    }
}

pub(crate) struct Daemon {
    pub(crate) running: Running,
    pub(crate) client: Client,
}

impl Daemon {
    pub(crate) fn start(lab: &Lab, options: &[&str]) -> Self {
        Self::started(lab, lab.start(serve_words(lab, options)))
    }

    /// Starts a daemon from a shell that has executed `first`.
    pub(crate) fn start_after(first: &str, lab: &Lab, options: &[&str]) -> Self {
        let script = format!("{first}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", weir()]).args(serve_words(lab, options));
        Self::started(lab, lab.launch(&mut command))
    }

    /// Waits until the daemon of this command answers.
    pub(crate) fn started(lab: &Lab, mut running: Running) -> Self {
        let client = Client::new(lab.path("weir.sock"));
        let deadline = Instant::now() + LIMIT;
        while client.health().is_err() {
            assert!(running.alive(), "the daemon ended: {}", running.stderr());
            assert!(Instant::now() < deadline, "the daemon does not answer: {}", running.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { running, client }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// Number of the daemon's open descriptors below `limit`. The others may be inherited.
    pub(crate) fn descriptors_below(&self, limit: u32) -> usize {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it is alive");
        let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        numbers.filter(|&number| number < limit).count()
    }

    /// The daemon's health; `None` if the daemon does not answer.
    pub(crate) fn try_health(&self) -> Option<Health> {
        self.client.health().ok()
    }

    pub(crate) fn finish(self) -> Done {
        self.running.finish()
    }

    /// The id of the daemon's thread with this name.
    pub(crate) fn thread(&self, name: &str) -> Pid {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.running.pid())).expect("threads");
        let found = tasks.flatten().find(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        let number = found.and_then(|task| task.file_name().to_str()?.parse().ok());
        Pid::from_raw(number.unwrap_or_else(|| panic!("there is no thread {name}")))
    }

    pub(crate) fn send(&self, script: &str) -> CommandReply {
        send(&self.client, script)
    }

    /// The number of packets in the queue of the first pipe.
    pub(crate) fn waiting(&self) -> u64 {
        self.client.pipes().expect("pipes")[0].state.queue_packets
    }

    pub(crate) fn health(&self) -> Health {
        self.client.health().expect("the daemon answers")
    }

    pub(crate) fn lanes(&self) -> Vec<LaneView> {
        self.health().bridges.into_iter().flat_map(|bridge| bridge.lanes).collect()
    }

    /// Checks that every packet of every lane and pipe is accounted for.
    pub(crate) fn check_accounting(&self) {
        let pipes = self.client.pipes().expect("pipes");
        let lanes = self.lanes();
        for counters in lanes
            .iter()
            .map(|lane| &lane.counters)
            .chain(pipes.iter().map(|pipe| &pipe.state.counters))
        {
            let accounted =
                counters.packets_out + counters.total_drops() + counters.backlog_packets;
            assert_eq!(counters.packets_in + counters.duplicated, accounted, "{counters:?}");
        }
    }

    /// Kills the daemon, as the kernel does when memory is short.
    pub(crate) fn kill(self) {
        kill(self.running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(self.running.finish().code, 128 + 9);
    }
}

/// The words that start a daemon in the directory of a test.
pub(crate) fn serve_words(lab: &Lab, options: &[&str]) -> Vec<String> {
    let path = |name: &str| lab.path(name).display().to_string();
    let (socket, state) = (path("weir.sock"), path("state"));
    let fixed =
        ["serve", "--bridge", "sl,sr", "--socket", &socket, "--state", &state, "--no-realtime"];
    fixed.iter().chain(options).map(|word| (*word).to_owned()).collect()
}

pub(crate) fn send(client: &Client, script: &str) -> CommandReply {
    let reply = client
        .commands(&CommandRequest { script: script.to_owned(), ..CommandRequest::default() })
        .expect("the daemon answers");
    assert!(reply.applied, "{script}: {reply:?}");
    reply
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The id of a user without an account.
pub(crate) const OTHER_USER: u32 = 64_999;
/// Time limit of a wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
