//! What a conformance case may expect.

use std::fmt;

use weir_core::stats::{DropReason, MarkReason};

/// Something that a case expects.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What it is called there.
    pub name: String,
    /// The expected values.
    pub wanted: Wanted,
}

/// The expected values.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A number after each dequeue; where fewer are given, after the first ones.
    After(Column, Vec<u64>),
    /// A state variable of the algorithm after each dequeue; `None` where nothing is expected of
    /// it.
    Figure {
        /// Its name.
        name: String,
        /// Its values.
        values: Vec<Option<u64>>,
        /// The values are times, and may be off as times may.
        times: bool,
    },
    /// When the first ones were dropped or marked, in ns.
    Times(Column, Vec<u64>),
    /// Flows of the first packets that were delivered.
    Served(Vec<u32>),
    /// A count at the end.
    Total {
        /// Of one flow, or of all.
        flow: Option<u32>,
        /// The counter.
        counter: Counter,
        /// What it may be.
        bound: Bound,
    },
}

/// A running count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Packets inside.
    Backlog,
    /// Packets dropped.
    Drops,
    /// Packets marked.
    Marks,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Packets that came.
    Arrived,
    /// Packets that left.
    Delivered,
    /// Their bytes.
    DeliveredBytes,
    /// Packets that are still inside.
    Left,
    /// Dropped packets, all or those dropped for one reason.
    Drops(Option<DropReason>),
    /// Marked packets, all or those marked for one reason.
    Marks(Option<MarkReason>),
}

impl Counter {
    /// The counter of this name: `drops`, `drops_early`, …
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|counter| counter.to_string() == name)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [
            Self::Arrived,
            Self::Delivered,
            Self::DeliveredBytes,
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
            Self::Left => f.write_str("left"),
            Self::Drops(None) => f.write_str("drops"),
            Self::Drops(Some(reason)) => write!(f, "drops_{}", reason.name()),
            Self::Marks(None) => f.write_str("marks"),
            Self::Marks(Some(reason)) => write!(f, "marks_{}", reason.name()),
        }
    }
}

/// What a count may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This, with every seed.
    Exactly(u64),
    /// Within these, with every seed.
    Between(u64, u64),
    /// The mean over the seeds is this, give or take so much.
    Mean(f64, f64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value}"),
            Self::Between(least, u64::MAX) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Mean(mean, within) => write!(f, "{mean} ± {within} in the mean"),
        }
    }
}
