//! What the web page shows of a live session, and of the daemon: the two implementations of
//! [`Source`](weir_control::dashboard::Source).

mod counts;
mod daemon;
mod editor;
mod members;
mod plan;
mod report;
mod session;
mod trace;

pub use daemon::DaemonDashboard;
pub use report::span_report;
pub use session::SessionDashboard;
