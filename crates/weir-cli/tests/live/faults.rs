//! Tests faults of the machine: no descriptors, no memory, a daemon that is stopped for a while,
//! and a loop without processor time.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use weir_control::api::{CommandRequest, HealthStatus};

use crate::common::{Lab, Need, Stream, must, number, output_of, skipped, trial, weir};
use crate::daemon::{Daemon, Wire, until};

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("ip")];
    vec![
        trial("without_descriptors_a_run_fails_with_the_reason", needs, run_without_descriptors),
        trial("a_daemon_without_descriptors_forwards_and_recovers", needs, without_descriptors),
        trial("a_stopped_daemon_loses_no_packet_that_the_kernel_keeps", needs, stopped),
        trial("a_daemon_that_runs_out_of_memory_leaves_its_configuration", needs, out_of_memory),
        trial(
            "a_loop_that_busy_programs_starve_names_the_overload",
            &[Need::Root, Need::Program("taskset"), Need::Program("timeout")],
            starved,
        ),
    ]
}

fn run_without_descriptors(lab: &Lab) {
    let interfaces = || output_of("ip -o link | cut -d: -f2");
    let before = interfaces();
    // With these limits, descriptors run out at different steps of the set-up.
    for limit in [8, 12, 14, 16, 18] {
        let script = format!("ulimit -n {limit}; exec '{}' run --link 1M/1ms -- true", weir());
        let done = lab.launch(Command::new("sh").args(["-c", &script])).finish();
        // The limits above 14 may suffice for a run, which then ends as usual.
        let complete = done.code == 0 && done.stderr.contains("exit 0");
        let refused = done.code == 125 && done.stderr.contains("Too many open files");
        assert!(complete || refused, "{limit} descriptors: {done:?}");
        assert!(refused || limit > 14, "{limit} descriptors cannot be enough: {done:?}");
        until("the run's interfaces are gone", || interfaces() == before);
    }
}

fn without_descriptors(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start_after("ulimit -n 32", lab, &[]);
    daemon.send("pipe 1 config delay 5ms\nadd 100 pipe 1 icmp from any to any");
    // The kernel accepts these connections; the daemon has no descriptor left for most of them.
    let clients: Vec<_> =
        (0..64).map(|_| UnixStream::connect(lab.path("weir.sock")).expect("a backlog")).collect();
    until("the daemon has used all its descriptors", || daemon.descriptors_below(32) == 32);
    wire.ping(true);
    // The daemon may have no descriptor to open the interface until other descriptors are free.
    must("ip link del sl");
    Wire::left_side();
    std::thread::sleep(Duration::from_millis(500));
    drop(clients);
    until("the daemon answers and has its interface", || {
        daemon.try_health().is_some_and(|health| health.status == HealthStatus::Ok)
    });
    wire.ping(true);
    daemon.check_accounting();
}

/// While the daemon is stopped, packets wait in the kernel's buffer. All of them arrive afterwards,
/// late.
fn stopped(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config delay 50ms queue 5000\nadd 100 pipe 1 udp from any to any 9000");
    let (pid, client) = (daemon.pid(), daemon.client.clone());
    let stopping = std::thread::spawn(move || {
        let arrived = || client.pipes().expect("pipes")[0].state.counters.packets_in;
        until("the stream has begun", || arrived() >= 20);
        kill(pid, Signal::SIGSTOP).expect("it is alive");
        std::thread::sleep(STOPPED);
        kill(pid, Signal::SIGCONT).expect("it is alive");
    });
    // The receiver waits for two seconds without a packet, which is longer than the stop.
    let received = wire.stream(lab, 400, 200, 200);
    stopping.join().expect("signals are sent");
    assert_eq!((received.lost, received.received), (0, 400), "{received:?}");
    let health = daemon.try_health().expect("the daemon answers after the stop");
    assert_eq!(health.status, HealthStatus::Ok);
    let lanes: Vec<_> = health.bridges.iter().flat_map(|bridge| &bridge.lanes).collect();
    let latest = lanes.iter().map(|lane| lane.lateness_ns.max).max().unwrap_or_default();
    assert!(latest as u128 >= STOPPED.as_nanos() / 2, "the stop shows as lateness: {latest} ns");
    daemon.check_accounting();
}

fn out_of_memory(lab: &Lab) {
    let _wire = Wire::new();
    let Some(group) = MemoryGroup::make() else {
        let name = "a_daemon_that_runs_out_of_memory_leaves_its_configuration";
        let _ = skipped(name, "no writable memory control group");
        return;
    };
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config bw 4Mbit/s\ntable t create");
    group.confine(daemon.pid().as_raw(), SPARE);
    // The table grows until the kernel ends the daemon.
    let mut acknowledged = 0u32;
    let client = &daemon.client;
    loop {
        let entries = (0..ENTRIES).map(|n| {
            let [_, a, b, c] = (acknowledged * ENTRIES + n).to_be_bytes();
            format!("table t add 10.{a}.{b}.{c} 1\n")
        });
        let script = format!(
            "{}pipe 1 config bw {}kbit/s",
            entries.collect::<String>(),
            5000 + acknowledged
        );
        match client.commands(&CommandRequest { script, ..CommandRequest::default() }) {
            Ok(reply) if reply.applied => acknowledged += 1,
            Ok(reply) => panic!("{reply:?}"),
            Err(_) => break,
        }
        assert!(acknowledged < 1000, "the memory limit has no effect");
    }
    assert_eq!(daemon.finish().code, 128 + 9, "the kernel kills it as with kill -9");
    let daemon = Daemon::start(lab, &[]);
    let pipes = daemon.client.pipes().expect("pipes");
    let found = pipes[0].rate_bps.unwrap_or_default() / 1000;
    // The change that was not acknowledged may already be on disk.
    let last = u64::from(acknowledged);
    let expected = if last == 0 { [4000, 5000] } else { [4999 + last, 5000 + last] };
    assert!(expected.contains(&found), "{found} kbit/s after {acknowledged} changes");
    daemon.check_accounting();
}

/// Programs with a higher priority occupy the loop's only processor.
fn starved(lab: &Lab) {
    let hog = "exec taskset -c 0 nice -n -10 timeout 30 sh -c 'while :; do :; done'";
    let stream = Stream { count: 600, pps: 200, size: 200, idle: 3, ..Stream::default() };
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let hogs: Vec<_> =
            (0..HOGS).map(|_| lab.launch(Command::new("sh").args(["-c", hog]))).collect();
        let options = ["--no-realtime", "--cpu", "0", "--to-right", "delay 5ms"];
        let (_, result) = lab.stream_through(&options, 7, &stream);
        hogs.iter().for_each(|hog| hog.signal_group(Signal::SIGKILL));
        let causes = result["late_causes"].as_array().cloned().unwrap_or_default();
        let overload = causes.iter().find(|cause| cause["cause"] == "overload");
        let warnings = result["warnings"].to_string();
        if overload
            .is_some_and(|cause| number(cause, "periods") > 0 && number(cause, "time_ns") > 0)
            && warnings.contains("why packets left late")
            && warnings.contains("other programs had the processor")
        {
            assert!(number(&result, "late_span_ns") > 0);
            return;
        }
        seen.push(format!("{causes:?} {warnings}"));
    }
    panic!("the overload is not named: {seen:#?}");
}

/// A control group with a memory limit; removed when dropped.
struct MemoryGroup {
    path: PathBuf,
    /// The name of the file with the limit.
    limit: &'static str,
}

impl MemoryGroup {
    /// Makes a group in the hierarchy of cgroup version 1 or 2; `None` where neither is possible.
    fn make() -> Option<Self> {
        let name = format!("weir-test-{}", std::process::id());
        let version_1 = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let version_2 = ("/sys/fs/cgroup", "memory.max");
        [version_1, version_2].into_iter().find_map(|(root, limit)| {
            let group = Self { path: PathBuf::from(root).join(&name), limit };
            fs::create_dir(&group.path).ok()?;
            group.path.join(limit).exists().then_some(group)
        })
    }

    /// Moves a process into the group, and limits it to `spare` bytes more than it has.
    fn confine(&self, pid: i32, spare: u64) {
        let write = |name: &str, text: String| {
            fs::write(self.path.join(name), text).unwrap_or_else(|e| panic!("{name}: {e}"));
        };
        // Memory that was allocated before the move is charged to the old group.
        write(self.limit, spare.to_string());
        write("cgroup.procs", pid.to_string());
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel keeps the group for a moment, until its last process has ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Number of programs that occupy a processor.
const HOGS: usize = 4;
/// Maximum number of attempts to starve the loop.
const ATTEMPTS: usize = 4;
/// How long the daemon is stopped.
const STOPPED: Duration = Duration::from_millis(1200);
/// Bytes that a daemon may allocate before the kernel ends it.
const SPARE: u64 = 16 << 20;
/// Entries that a change adds to a table.
const ENTRIES: u32 = 5000;
