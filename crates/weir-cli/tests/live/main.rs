//! Live acceptance tests: the real command, real programs and real packets, in network namespaces.
//!
//! They run one after another, since they measure. As root they first move into a network namespace of their own, so that
//! whatever goes wrong stays there; an ordinary user's run relies on user namespaces, as `weir` itself does. What cannot run
//! here is reported as ignored, with `SKIPPED: why` on stderr and in the file that `WEIR_SKIP_LOG` names.
//!
//! This program is also the traffic tool inside the namespaces: `live load …` is `weir-load …`.

mod common;
mod failures;
mod links;
mod programs;

use std::process::{Command, ExitCode};

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
    let tests: Vec<Trial> = [links::tests(), programs::tests(), failures::tests()].into_iter().flatten().collect();
    libtest_mimic::run(&options, tests).exit_code()
}

/// Moves into a network namespace of its own, with loopback.
fn withdraw() {
    if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok() {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|s| s.success()), "`ip link set lo up` failed in a fresh network namespace: is iproute2 installed?");
    }
}
