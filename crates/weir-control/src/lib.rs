//! Control of a running Weir: an HTTP API with which the command line, dashboards and scripts
//! change and observe it.
//!
//! * [`api`]: the wire types, with their OpenAPI description;
//! * [`server`]: the servers of the daemon and of sessions, on a Unix socket and optionally TCP;
//! * [`client`]: a blocking client, for the command line;
//! * [`owner`]: the one thread that owns the configuration, and checks, saves, applies and
//!   acknowledges changes;
//! * [`store`]: the state directory, in which a configuration survives any end of the daemon;
//! * [`plane`]: the interface between the daemon and the code that moves packets;
//! * [`session`]: the interface between a session's links and their control socket;
//! * [`session_client`]: a blocking client of a session;
//! * [`dashboard`]: what the web page shows and changes;
//! * [`directory`]: where the sockets of sessions are, and which sessions run.
//!
//! The crate moves no packets itself; an implementation of [`plane::Plane`] does.

pub mod api;
pub mod client;
pub mod dashboard;
pub mod directory;
pub mod owner;
pub mod plane;
pub mod server;
pub mod session;
pub mod session_client;
pub mod store;
#[cfg(test)]
mod testing;
