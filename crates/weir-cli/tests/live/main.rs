//! Live acceptance tests: the real command, real programs and real packets, in network namespaces.
//!
//! They run one after another, since they measure. As root they first move into a network and a mount namespace of their own,
//! so that whatever goes wrong stays there; an ordinary user's run relies on user namespaces, as `weir` itself does. What cannot
//! run here is reported as ignored, with `SKIPPED: why` on stderr and in the file that `WEIR_SKIP_LOG` names.
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
mod rules;
mod scenario;
mod sched;
mod serve;
mod shaping;
mod talk;
mod verbs;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|a| a == "load") {
        return weir_load::cli::main(arguments.into_iter().skip(1));
    }
    let mut options = Arguments::from_args();
    options.test_threads = Some(1);
    if common::is_root() && !options.list {
        withdraw();
    }
    let tests: Vec<Trial> = [
        links::tests(),
        shaping::tests(),
        ecn::tests(),
        frames::tests(),
        outputs::tests(),
        programs::tests(),
        rules::tests(),
        scenario::tests(),
        sched::tests(),
        aqm::tests(),
        failures::tests(),
        killed::tests(),
        talk::tests(),
        serve::tests(),
        verbs::tests(),
    ]
    .into_iter()
    .flatten()
    .collect();
    libtest_mimic::run(&options, tests).exit_code()
}

/// Moves into a network namespace of its own, with loopback, and a mount namespace where nobody else's mounts, named namespaces
/// and sessions appear: some tests compare the machine before with the machine after.
fn withdraw() {
    use nix::sched::CloneFlags;
    if nix::sched::unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).is_ok() {
        common::must("ip link set lo up && mount --make-rprivate /");
        common::must("for d in /run/netns /run/weir; do mkdir -p $d && mount -t tmpfs weir-live $d; done");
    }
}
