//! A conformance case: arrivals, service and expectations.

use std::fmt;
use std::ops::RangeInclusive;

use weir_core::config::QueueLimit;
use weir_core::packet::Header;
use weir_core::sched::{Discipline, FlowSpec};
use weir_rules::manager::Manager;
use weir_rules::{LinkSpec, canonical};

use super::expectation::Expectation;

/// A validated case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The purpose of the case, in one line.
    pub about: String,
    /// The source of the expected values.
    pub source: String,
    /// The reason why Weir does not do what the case expects; `None` for a case that must hold.
    pub differs: Option<String>,
    /// The recording of a kernel that gave the expectations; `None` if they have another source.
    pub kernel: Option<Recording>,
    /// The subject of the case.
    pub subject: Subject,
    /// The schedulers below the root.
    pub classes: Vec<Class>,
    /// The flows of the scheduler. When empty, all packets are in one queue.
    pub flows: Vec<Flow>,
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

/// The subject of a case.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A list, with an AQM or without one, or a scheduler.
    Manager(Manager),
    /// A pipe of the engine: queue, link and impairments.
    Pipe(Box<LinkSpec>),
    /// A discipline that Weir does not have, and why; such a case cannot be played.
    Missing(String),
}

/// The kernels that gave the expected values, and how they were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The releases that did what the case expects.
    pub releases: Vec<String>,
    /// The commands that created the discipline.
    pub setup: String,
    /// How often each kernel played the case.
    pub runs: u64,
}

/// A scheduler that is a flow of another scheduler.
#[derive(Clone, Debug)]
pub struct Class {
    /// The name by which flows and classes below this class refer to it.
    pub name: String,
    /// The scheduler.
    pub scheduler: Discipline,
    /// The index of the class above; `None` if the root is above.
    pub parent: Option<usize>,
    /// The class as a flow of the scheduler above.
    pub spec: FlowSpec,
}

/// A flow of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The flow's number in arrivals.
    pub number: u32,
    /// The index of the flow's class; `None` for a flow of the root.
    pub class: Option<usize>,
    /// The flow as its scheduler knows it.
    pub spec: FlowSpec,
    /// The limit of the flow's queue.
    pub limit: QueueLimit,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The arrival time in ns.
    pub at: u64,
    /// Length in bytes.
    pub len: u32,
    /// The flow's number, which selects the queue and the counters.
    pub flow: u32,
    /// The ECN field, the DSCP and the flow's hash.
    pub header: Header,
    /// The hashes of the source and destination address; 0 when the case names no sender.
    pub hosts: [u32; 2],
}

/// The times at which packets are dequeued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// One dequeue at each of these times in ns, whether or not a packet waits. If a case of a pipe
    /// has no times, each packet is taken when it departs.
    Times(Vec<u64>),
    /// A link that sends whenever it is free.
    Link {
        /// The rate in bit/s.
        rate: u64,
        /// Maximum credit in bytes that an idle link accumulates.
        burst: u64,
        /// The time at which the link begins to send, in ns.
        from: u64,
        /// The time at which the link stops, in ns.
        until: u64,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager(manager) => manager.fmt(f),
            Self::Pipe(spec) => write!(f, "pipe {}", canonical(spec)),
            Self::Missing(cause) => write!(f, "missing: {cause}"),
        }
    }
}
