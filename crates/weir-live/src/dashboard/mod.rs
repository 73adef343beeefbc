//! The two implementations of [`Source`](weir_control::dashboard::Source): for the web page of a
//! live session, and for the web page of the daemon.

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
