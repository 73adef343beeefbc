//! The simulator's TCP: senders, receivers and congestion control.
//!
//! A connection is one flow, with a [`Sender`] at its source and a [`Receiver`] at its sink.
//! `docs/tcp.md` describes the model and its differences from Linux.

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
