//! The traffic generator: packets with sequence numbers and times of sending, which show what
//! programs on both sides of a link see.
//!
//! [`send`] sends bursts when a [`schedule`] says, [`recv`] receives them with the kernel's times
//! of arrival, and [`stats`] says what became of them.
//!
//! The command `weir-load` of benches and live tests, and the process that sends all traffic of a
//! host in a live scenario ([`host`]), are front ends of this library. Sender and receiver run on
//! one machine, so that both read the same clock in whatever network namespaces they are; one-way
//! delays are exact.
//!
//! Sizes and rates are those of the network layer: IP header, UDP header and payload.

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

/// Why traffic could not be made or measured.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A packet size outside what can be sent.
    #[error(
        "a packet has {least} to {most} bytes with its IP and UDP headers; {given} is not one of them"
    )]
    Size {
        /// The size asked for.
        given: usize,
        /// The least that holds the stamp.
        least: usize,
        /// The most that UDP takes.
        most: usize,
    },
    /// An interface that does not exist.
    #[error("there is no interface `{0}` in this network namespace")]
    NoInterface(String),
    /// An order that cannot be read, or a report that cannot be written, as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// An order with a scenario that cannot be made into traffic.
    #[error("{0}")]
    Scenario(String),
}

/// Adds what was tried to a system call's error.
pub(crate) trait Context<T> {
    fn when(self, what: &'static str) -> Result<T, TrafficError>;
}

impl<T> Context<T> for io::Result<T> {
    fn when(self, what: &'static str) -> Result<T, TrafficError> {
        self.map_err(|source| TrafficError::System { what, source })
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn when(self, what: &'static str) -> Result<T, TrafficError> {
        self.map_err(|e| TrafficError::System { what, source: e.into() })
    }
}
