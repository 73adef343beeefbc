//! A conformance case: arrivals, service and expectations.

use std::ops::RangeInclusive;

use weir_core::config::QueueLimit;
use weir_core::packet::Header;
use weir_rules::manager::Manager;

use super::expectation::Expectation;

/// A validated case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the case shows, in one line.
    pub about: String,
    /// The source of the expected values.
    pub source: String,
    /// The AQM, or the scheduler that contains one.
    pub manager: Manager,
    /// The queue's limit.
    pub limit: QueueLimit,
    /// The link's rate in bit/s, as the AQM knows it; 0 when the rate is unknown.
    pub rate: u64,
    /// The seeds of the random numbers; the case is played once for each.
    pub seeds: RangeInclusive<u64>,
    /// The packets, ordered by time.
    pub arrivals: Vec<Arrival>,
    /// The times at which packets are dequeued.
    pub service: Service,
    /// The tolerance of times in ns.
    pub within: u64,
    /// The expectations.
    pub expected: Vec<Expectation>,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The arrival time in ns.
    pub at: u64,
    /// Length in bytes.
    pub len: u32,
    /// The flow's number, for counts by flow.
    pub flow: u32,
    /// The ECN field, the DSCP and the flow's hash.
    pub header: Header,
}

/// The times at which packets are dequeued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// One dequeue at each of these times in ns, whether or not a packet waits.
    Times(Vec<u64>),
    /// A link that sends whenever it is free.
    Link {
        /// The rate in bit/s.
        rate: u64,
        /// The most bytes of credit that an idle link accumulates.
        burst: u64,
        /// The time at which the link begins to send, in ns.
        from: u64,
        /// The time at which the link stops, in ns.
        until: u64,
    },
}
