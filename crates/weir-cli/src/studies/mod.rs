//! Studies: what the web page computes beside the links. A spawner, which starts before the command
//! gives up rights or enters namespaces, forks a bounded process for each study
//! ([`weir_linux::process::Spawner`]).

mod client;
mod comparison;
mod curves;
mod frames;
mod kernel;
mod scenario;
mod task;
mod watches;

use std::process::ExitCode;

pub(crate) use client::Workshop;

/// Runs as the spawner of studies when the first argument says so.
pub(crate) fn main_if_spawner() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    (word == task::WORD).then(|| weir_linux::process::spawner_main(arguments, task::carry_out))
}
