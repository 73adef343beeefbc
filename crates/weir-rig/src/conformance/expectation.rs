//! The expectations that a conformance case can state.

use std::fmt;

use weir_core::stats::{DropReason, MarkReason};

/// One expectation of a case.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The line of the expectation in the file, from 1.
    pub line: usize,
    /// The name of the expectation in the file.
    pub name: String,
    /// The expected values.
    pub wanted: Wanted,
}

/// The expected values.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A count after each dequeue. A list that is shorter than the number of dequeues applies to
    /// the first dequeues.
    After(Column, Vec<u64>),
    /// A state variable of the algorithm after each dequeue; `None` expects no particular value.
    Variable {
        /// The variable's name.
        name: String,
        /// The expected values.
        values: Vec<Option<u64>>,
        /// Whether the values are times, to which the tolerance of times applies.
        times: bool,
    },
    /// The times of the first drops or marks, in ns.
    Times(Column, Vec<u64>),
    /// The flows of the first packets that were delivered.
    Served(Vec<u32>),
    /// For each dequeue the packet that was delivered; `None` for no packet.
    Taken(Vec<Option<u32>>),
    /// The packets that were dropped or marked, ordered by time and then by number.
    Packets(Column, Vec<u32>),
    /// A total at the end.
    Total {
        /// The flow that is counted; `None` for all flows.
        flow: Option<u32>,
        /// The counter.
        counter: Counter,
        /// The values that the counter may have.
        bound: Bound,
    },
}

/// A running count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Packets in the queue.
    Backlog,
    /// Packets dropped.
    Drops,
    /// Packets marked.
    Marks,
}

/// A counter of a whole play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Packets that arrived.
    Arrived,
    /// Packets that departed.
    Delivered,
    /// Bytes of the packets that departed.
    DeliveredBytes,
    /// Packets that departed a second time.
    Duplicates,
    /// Packets that departed with an inverted bit.
    Corrupted,
    /// Packets that departed directly after a packet that had arrived later.
    OutOfOrder,
    /// The mean sojourn time of the packets that departed, in us.
    MeanWait,
    /// Packets that neither departed nor were dropped.
    Left,
    /// Dropped packets: all of them, or those with one drop reason.
    Drops(Option<DropReason>),
    /// Marked packets: all of them, or those with one mark reason.
    Marks(Option<MarkReason>),
}

impl Counter {
    /// The counter of this name: `drops`, `drops_early`, …
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|counter| counter.to_string() == name)
    }

    /// All counters.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [
            Self::Arrived,
            Self::Delivered,
            Self::DeliveredBytes,
            Self::Duplicates,
            Self::Corrupted,
            Self::OutOfOrder,
            Self::MeanWait,
            Self::Left,
            Self::Drops(None),
            Self::Marks(None),
        ];
        let drops = DropReason::ALL.into_iter().map(|reason| Self::Drops(Some(reason)));
        plain
            .into_iter()
            .chain(drops)
            .chain(MarkReason::ALL.into_iter().map(|reason| Self::Marks(Some(reason))))
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrived => f.write_str("arrived"),
            Self::Delivered => f.write_str("delivered"),
            Self::DeliveredBytes => f.write_str("delivered_bytes"),
            Self::Duplicates => f.write_str("duplicates"),
            Self::Corrupted => f.write_str("corrupted"),
            Self::OutOfOrder => f.write_str("out_of_order"),
            Self::MeanWait => f.write_str("mean_wait_us"),
            Self::Left => f.write_str("left"),
            Self::Drops(None) => f.write_str("drops"),
            Self::Drops(Some(reason)) => write!(f, "drops_{}", reason.name()),
            Self::Marks(None) => f.write_str("marks"),
            Self::Marks(Some(reason)) => write!(f, "marks_{}", reason.name()),
        }
    }
}

/// The values that a counter may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This value, with every seed.
    Exactly(u64),
    /// A value in this range, ends included, with every seed.
    Between(u64, u64),
    /// The mean over the seeds: its value and its tolerance.
    Mean(f64, f64),
    /// The mean of another sample and its standard error. The mean over the seeds may differ from
    /// it by three standard errors of the difference.
    Sample {
        /// The mean.
        mean: f64,
        /// Its standard error.
        error: f64,
    },
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value}"),
            Self::Between(least, u64::MAX) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Mean(mean, within) => write!(f, "{mean} ± {within} in the mean"),
            Self::Sample { mean, error } => {
                write!(f, "{mean} in the mean, with a standard error of {error}")
            }
        }
    }
}
