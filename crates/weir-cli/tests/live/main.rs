//! Live acceptance tests: the real command, real programs and real packets, in network namespaces.
//!
//! Tests that measure the times of packets run one after another. Tests of whole scenarios run two
//! at a time. Tests that measure shares and rates under small loads run four at a time. Tests that
//! mostly wait, for processes to end and files to appear, run six at a time. Tests that run at the
//! same time do so in several processes. As root, each process first moves into its own network and
//! mount namespaces, so that a fault cannot affect the machine. As an ordinary user, the tests rely
//! on user namespaces, as `weir` itself does. A test that cannot run is reported as ignored, with
//! `SKIPPED: REASON` on stderr and in the file that `WEIR_SKIP_LOG` names. If a filter is given,
//! all matching tests run one after another.
//!
//! This program is also the traffic tool inside the namespaces: `live load …` is `weir-load …`.

mod aqm;
#[path = "../../../weir-measure/tests/check/mod.rs"]
mod check;
mod common;
mod ecn;
mod failures;
mod faults;
mod first_packet;
mod frames;
mod killed;
mod links;
mod nested;
mod outputs;
mod programs;
mod publish;
mod record;
mod reproduce;
mod rules;
mod scenario;
mod sched;
#[path = "../it/schema.rs"]
mod schema;
mod serve;
mod shaping;
mod talk;
mod verbs;
mod watch;

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};

/// Environment variable that tells a process of this program which part of which group to run:
/// `shaped 0/2`.
const SHARE: &str = "WEIR_LIVE_SHARE";

/// A group of tests that run in the same number of simultaneous processes.
struct Group {
    name: &'static str,
    /// Number of processes at the same time.
    processes: usize,
    tests: fn() -> Vec<Trial>,
}

const GROUPS: [Group; 4] = [
    Group { name: "timed", processes: 1, tests: timed },
    Group { name: "compared", processes: 2, tests: compared },
    Group { name: "shaped", processes: 4, tests: shaped },
    Group { name: "waiting", processes: 6, tests: waiting },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|a| a == "load") {
        return weir_load::main(arguments.into_iter().skip(1));
    }
    let mut options = Arguments::from_args();
    options.test_threads = Some(1);
    if common::is_root() && !options.list {
        withdraw();
    }
    if let Some((group, share)) = own_share() {
        let tests = (group.tests)().into_iter().skip(share).step_by(group.processes).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    if options.list || options.filter.is_some() || !options.skip.is_empty() || options.ignored {
        let tests = GROUPS.iter().flat_map(|group| (group.tests)()).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    // Every group runs, also after a failure.
    let failed = GROUPS.iter().map(side_by_side).filter(|passed| !passed).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests of delays and of the times of single packets. They need the whole machine.
fn timed() -> Vec<Trial> {
    let modules = [links::tests(), rules::tests(), aqm::tests()];
    modules.into_iter().flatten().collect()
}

/// Tests that compare repeated runs with simulated ones, by their intervals.
fn compared() -> Vec<Trial> {
    scenario::tests()
}

/// Tests of rates, shares and counts. Their loads are small for the machine.
fn shaped() -> Vec<Trial> {
    let modules = [
        shaping::tests(),
        links::counts(),
        first_packet::tests(),
        rules::counts(),
        sched::tests(),
        ecn::tests(),
        frames::tests(),
        programs::tests(),
        record::tests(),
        talk::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// Tests of behaviour, not of speed.
fn waiting() -> Vec<Trial> {
    let modules = [
        killed::tests(),
        serve::tests(),
        failures::tests(),
        nested::tests(),
        publish::tests(),
        faults::tests(),
        outputs::tests(),
        verbs::tests(),
        watch::tests(),
        reproduce::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// The group and share of this process, if it runs a part of a group.
fn own_share() -> Option<(&'static Group, usize)> {
    let value = std::env::var(SHARE).ok()?;
    let (name, share) = value.split_once(' ')?;
    let group = GROUPS.iter().find(|group| group.name == name)?;
    Some((group, share.parse().ok()?))
}

/// Runs the tests of a group in several processes, and prints the output of each process when it
/// has ended. Returns whether all tests passed.
fn side_by_side(group: &Group) -> bool {
    let program = std::env::current_exe().expect("this program has a path");
    let run = |share: usize| -> Output {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).env(SHARE, format!("{} {share}", group.name));
        command.output().expect("this program can be started")
    };
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..group.processes)
            .map(|share| {
                let run = &run;
                scope.spawn(move || run(share))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("waiting for a process does not fail"))
            .collect()
    });
    for output in &outputs {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
    outputs.iter().all(|output| output.status.success())
}

/// Moves into a new network namespace with a loopback interface, and into a new mount namespace, in
/// which mounts, named namespaces and sessions of other processes do not appear. Some tests compare
/// the state of the machine before and after a run.
fn withdraw() {
    use nix::sched::CloneFlags;
    if nix::sched::unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_ok() {
        common::must("ip link set lo up && mount --make-rprivate /");
        common::must(
            "for d in /run/netns /run/weir /run/weir-sessions; do mkdir -p $d && mount -t tmpfs \
             weir-live $d; done",
        );
    }
}
