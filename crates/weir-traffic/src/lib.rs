//! Traffic that shows what programs on both sides of an emulated link see: sequence numbers,
//! clocks, and the sums behind them.
//!
//! The command `weir-load` of benches and live tests, and the process that sends all traffic of a
//! host in a live scenario ([`host`]), are front ends of this library. Sender and receiver run on
//! one machine, so that both read the same clock in whatever network namespaces they are; one-way
//! delays are exact.
//!
//! Sizes and rates are those of the network layer: IP header, UDP header and payload.

pub mod capture;
pub mod clock;
pub mod echo;
pub mod host;
mod icmp;
pub mod payload;
pub mod recv;
pub mod send;
pub mod spray;
pub mod stats;

use std::io;

/// Why traffic could not be made or measured.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A packet size outside what the tool can send.
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
    /// An interface that is not there.
    #[error("there is no interface `{0}` in this network namespace")]
    NoInterface(String),
    /// The result cannot be written as JSON.
    #[error("cannot write the result: {0}")]
    Json(#[from] serde_json::Error),
}

/// Adds what was tried to a system call's error.
pub(crate) trait Context<T> {
    fn when(self, what: &'static str) -> Result<T, LoadError>;
}

impl<T> Context<T> for io::Result<T> {
    fn when(self, what: &'static str) -> Result<T, LoadError> {
        self.map_err(|source| LoadError::System { what, source })
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn when(self, what: &'static str) -> Result<T, LoadError> {
        self.map_err(|e| LoadError::System { what, source: e.into() })
    }
}
