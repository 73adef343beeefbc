//! Control of a running Weir: one API over HTTP, by which the command line, dashboards and scripts
//! change and watch it.
//!
//! * [`api`]: what goes over the wire, with its OpenAPI description;
//! * [`server`]: the daemon's side, on a Unix socket and optionally TCP;
//! * [`client`]: the other side, blocking, for the command line;
//! * [`owner`]: the one thread that owns the configuration: checks, saves, puts in force,
//!   acknowledges;
//! * [`store`]: the state directory, so that a configuration survives whatever ends the daemon;
//! * [`plane`]: what the daemon asks of whatever moves packets.
//!
//! The crate moves no packet itself, and does not know who does: whoever implements
//! [`plane::Plane`].

pub mod api;
pub mod client;
pub mod owner;
pub mod plane;
pub mod server;
pub mod store;
#[cfg(test)]
mod testing;
