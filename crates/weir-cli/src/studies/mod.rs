//! Studies: the computations that the web page starts. A spawner forks a process with bounded
//! resources for each study ([`weir_linux::process::Spawner`]). The spawner itself starts before
//! the command gives up rights or enters namespaces.

mod client;
mod comparison;
mod curves;
mod kernel;
mod messages;
mod scenario;
mod task;
mod watches;

use std::process::ExitCode;

pub(crate) use client::Workshop;

/// Runs as the spawner of studies if the first argument is [`task::WORD`]; else returns `None`.
pub(crate) fn main_if_spawner() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    (word == task::WORD).then(|| weir_linux::process::spawner_main(arguments, task::carry_out))
}
