//! `weir ps`, `weir change`, `weir stats` and `weir stop`: commands about links that run. Each asks
//! the control socket of a session.

mod args;
mod change;
mod find;
mod ps;
mod stats;
mod stop;

pub(crate) use args::{ChangeArgs, PsArgs, StatsArgs, StopArgs};
pub(crate) use change::change;
pub(crate) use ps::ps;
pub(crate) use stats::stats;
pub(crate) use stop::stop;
