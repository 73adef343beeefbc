//! Commands for running sessions. `weir ps` asks all sessions and the daemon; `weir change`,
//! `weir stats` and `weir stop` ask one session; `weir exec` uses a host of a lab.

mod args;
mod change;
mod exec;
mod find;
mod ps;
mod stats;
mod stop;

pub(crate) use args::{ChangeArgs, ExecArgs, PsArgs, StatsArgs, StopArgs};
pub(crate) use change::change;
pub(crate) use exec::exec;
pub(crate) use find::{agents, failure, has_ended, running_in_words, sockets};
pub(crate) use ps::ps;
pub(crate) use stats::stats;
pub(crate) use stop::stop;
