//! Live acceptance tests: the real command, real programs and real packets, in network namespaces.
//!
//! Those that measure run one after another. Those that wait more than they work, for processes to
//! end and files to be there, follow in two processes side by side. As root each process first
//! moves into a network and a mount namespace of its own, so that whatever goes wrong stays there;
//! an ordinary user's run relies on user namespaces, as `weir` itself does. What cannot run here is
//! reported as ignored, with `SKIPPED: why` on stderr and in the file that `WEIR_SKIP_LOG` names.
//! With a filter, all that fit run in one row.
//!
//! This program is also the traffic tool inside the namespaces: `live load …` is `weir-load …`.

mod aqm;
mod common;
mod ecn;
mod failures;
mod frames;
mod killed;
mod links;
mod outputs;
mod programs;
mod reproduce;
mod rules;
mod scenario;
mod sched;
mod serve;
mod shaping;
mod talk;
mod verbs;
mod watch;

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};

/// Says to a process of this program which of how many shares of the waiting tests is its own:
/// `0/2`.
const SHARE: &str = "WEIR_LIVE_SHARE";
/// How many such processes there are.
const SHARES: usize = 2;

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
    if let Some(share) = own_share() {
        let tests = waiting().into_iter().skip(share).step_by(SHARES).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    if options.list || options.filter.is_some() || !options.skip.is_empty() || options.ignored {
        let tests = measuring().into_iter().chain(waiting()).collect();
        return libtest_mimic::run(&options, tests).exit_code();
    }
    let measured = libtest_mimic::run(&options, measuring());
    let waited = side_by_side();
    if waited && !measured.has_failed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests whose figures need the machine for themselves.
fn measuring() -> Vec<Trial> {
    let modules = [
        links::tests(),
        shaping::tests(),
        ecn::tests(),
        frames::tests(),
        programs::tests(),
        rules::tests(),
        scenario::tests(),
        sched::tests(),
        aqm::tests(),
        talk::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// Tests of what happens, not of how fast.
fn waiting() -> Vec<Trial> {
    let modules = [
        killed::tests(),
        serve::tests(),
        failures::tests(),
        outputs::tests(),
        verbs::tests(),
        watch::tests(),
        reproduce::tests(),
    ];
    modules.into_iter().flatten().collect()
}

/// The share of this process, when it is one of several.
fn own_share() -> Option<usize> {
    std::env::var(SHARE).ok()?.parse().ok()
}

/// Runs the waiting tests in several processes at once, and prints what each has said when it has
/// ended. Whether all passed.
fn side_by_side() -> bool {
    let program = std::env::current_exe().expect("this program has a path");
    let run = |share: usize| -> Output {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).env(SHARE, share.to_string());
        command.output().expect("this program can be started")
    };
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SHARES)
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

/// Moves into a network namespace of its own, with loopback, and a mount namespace where nobody
/// else's mounts, named namespaces and sessions appear: some tests compare the machine before with
/// the machine after.
fn withdraw() {
    use nix::sched::CloneFlags;
    if nix::sched::unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_ok() {
        common::must("ip link set lo up && mount --make-rprivate /");
        common::must(
            "for d in /run/netns /run/weir; do mkdir -p $d && mount -t tmpfs weir-live $d; done",
        );
    }
}
