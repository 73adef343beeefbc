//! The traffic generator: it sends packets that carry a sequence number and the time of sending,
//! and measures what programs at both ends of a link observe.
//!
//! [`send`] sends bursts at the times of a [`schedule`], [`recv`] receives packets with the
//! kernel's times of arrival, and [`stats`] computes loss, delays and throughput.
//!
//! This library has two front ends: the command `weir-load`, which benches and live tests use, and
//! the process that sends all traffic of a host in a live scenario ([`host`]). Sender and receiver
//! run on one machine and read the same clock in every network namespace, so one-way delays need no
//! synchronisation.
//!
//! Sizes and rates are those of the network layer: they include IP header, UDP header and payload.

pub mod arrival;
pub mod capture;
pub mod clock;
pub mod echo;
pub mod host;
mod icmp;
pub mod payload;
pub mod recv;
pub mod schedule;
pub mod send;
pub mod span;
pub mod spray;
pub mod stats;

use std::io;

/// Why traffic could not be sent or measured.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The packet size is out of range.
    #[error(
        "packet size {given} is out of range: with IP and UDP headers, {least} to {most} bytes \
         are possible"
    )]
    Size {
        /// The requested size.
        given: usize,
        /// The smallest permitted size.
        least: usize,
        /// The largest permitted size.
        most: usize,
    },
    /// The interface does not exist.
    #[error("there is no interface `{0}` in this network namespace")]
    NoInterface(String),
    /// An order is not valid JSON, or a report cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The scenario in an order cannot be turned into traffic.
    #[error("{0}")]
    Scenario(String),
}

/// Adds the name of the failed operation to the error of a system call.
pub(crate) trait Context<T> {
    fn context(self, what: &'static str) -> Result<T, TrafficError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: &'static str) -> Result<T, TrafficError> {
        self.map_err(|source| TrafficError::System { what, source })
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn context(self, what: &'static str) -> Result<T, TrafficError> {
        self.map_err(|e| TrafficError::System { what, source: e.into() })
    }
}
