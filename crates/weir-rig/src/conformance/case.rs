//! A conformance case: arrivals, service and expectations.

use std::ops::RangeInclusive;

use weir_core::config::QueueLimit;
use weir_core::packet::Header;
use weir_rules::manager::Manager;

use super::expectation::Expectation;

/// A case, validated.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows, in a line.
    pub about: String,
    /// Where the expectations are from.
    pub source: String,
    /// What drops and marks.
    pub manager: Manager,
    /// The queue's limit.
    pub limit: QueueLimit,
    /// The link's rate in bit/s for the AQM; 0 for none.
    pub rate: u64,
    /// Seeds of the draws; the case is played for each.
    pub seeds: RangeInclusive<u64>,
    /// Packets by time.
    pub arrivals: Vec<Arrival>,
    /// When packets leave.
    pub service: Service,
    /// How far times may be off, in ns.
    pub within: u64,
    /// The expectations.
    pub expected: Vec<Expectation>,
}

/// A packet that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in ns.
    pub at: u64,
    /// Length in bytes.
    pub len: u32,
    /// Its flow, for counts.
    pub flow: u32,
    /// ECN field, DSCP, and hash of its flow.
    pub header: Header,
}

/// When packets leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// One at each of these times in ns, if there is one.
    Times(Vec<u64>),
    /// As a link sends them.
    Link {
        /// bit/s.
        rate: u64,
        /// Bytes that an idle link may owe.
        burst: u64,
        /// When it begins to send, in ns.
        from: u64,
        /// When it stops, in ns.
        until: u64,
    },
}
