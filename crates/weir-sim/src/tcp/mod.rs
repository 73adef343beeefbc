//! TCP of the simulator: senders, receivers, congestion control.
//!
//! A connection is one flow: a [`Sender`] at its source, a [`Receiver`] at its sink. `docs/tcp.md`
//! describes the model and how it differs from Linux.

pub mod cc;
mod config;
mod intervals;
mod prr;
mod rack;
mod rate;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{Config, Data};
pub use receiver::Receiver;
pub use sender::{Sender, State};

use crate::endpoint::Endpoint;
use crate::packet::FlowId;

/// The two ends of a connection: source and sink of `flow`.
pub fn ends(flow: FlowId, config: &Config) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
    (Box::new(Sender::new(flow, config)), Box::new(Receiver::new(flow, config)))
}
