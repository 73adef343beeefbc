//! `weir ps`, `weir change`, `weir stats`, `weir exec` and `weir stop`: commands about running
//! links. Each command asks the control socket of a session.

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
pub(crate) use find::{agents, failure, has_ended, sockets, which_run};
pub(crate) use ps::ps;
pub(crate) use stats::stats;
pub(crate) use stop::stop;
