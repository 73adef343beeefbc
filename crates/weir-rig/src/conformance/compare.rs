//! Compares what was played with what a case expects.

use std::fmt;

use serde::Serialize;
use weir_core::stats::{DropReason, MarkReason};

use super::play::{Counts, Play, Snapshot};

/// Something that a case expects.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The line of the file where it stands, from 1.
    pub line: usize,
    /// What it is called there.
    pub name: String,
    /// What is expected.
    pub wanted: Wanted,
}

/// What is expected.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A number after each dequeue; where fewer are given, after the first ones.
    After(Column, Vec<u64>),
    /// A figure of the algorithm after each dequeue; `None` where nothing is said of it.
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
        /// What is counted.
        counter: Counter,
        /// What it may be.
        bound: Bound,
    },
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Packets inside.
    Backlog,
    /// Packets dropped.
    Drops,
    /// Packets marked.
    Marks,
}

impl Column {
    fn of(self, snapshot: &Snapshot) -> u64 {
        match self {
            Self::Backlog => snapshot.backlog,
            Self::Drops => snapshot.drops,
            Self::Marks => snapshot.marks,
        }
    }
}

/// What is counted.
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

    fn of(self, counts: &Counts) -> u64 {
        match self {
            Self::Arrived => counts.arrived,
            Self::Delivered => counts.delivered,
            Self::DeliveredBytes => counts.delivered_bytes,
            Self::Left => counts.left(),
            Self::Drops(None) => counts.dropped(),
            Self::Drops(Some(reason)) => counts.drops[reason as usize],
            Self::Marks(None) => counts.marked(),
            Self::Marks(Some(reason)) => counts.marks[reason as usize],
        }
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

/// An expectation, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The line of the file where the expectation stands.
    pub line: usize,
    /// What it is called there.
    pub name: String,
    /// Whether it holds with every seed.
    pub passed: bool,
    /// What was expected.
    pub expected: String,
    /// What was found, with the first seed that differs or else with the first.
    pub found: String,
    #[serde(skip)]
    sum: f64,
}

impl Finding {
    pub(super) fn new(expected: &Expectation) -> Self {
        let words = match &expected.wanted {
            Wanted::After(_, values) => list(values.iter()),
            Wanted::Figure { values, times, .. } => {
                list(values.iter().map(|value| figure(*value, *times)))
            }
            Wanted::Times(_, times) => list(times.iter().map(|time| milliseconds(*time))),
            Wanted::Served(flows) => list(flows.iter()),
            Wanted::Total { bound, .. } => bound.to_string(),
        };
        Self {
            line: expected.line,
            name: expected.name.clone(),
            passed: true,
            expected: words,
            found: String::new(),
            sum: 0.0,
        }
    }

    /// Looks at one play.
    pub(super) fn compare(&mut self, expected: &Expectation, play: &Play, within: u64) {
        let (holds, found) = match &expected.wanted {
            Wanted::After(column, values) => {
                let found: Vec<u64> = play
                    .after
                    .iter()
                    .map(|snapshot| column.of(snapshot))
                    .take(values.len())
                    .collect();
                (found == *values, list(found.iter()))
            }
            Wanted::Figure { name, values, times } => {
                let of = |snapshot: &Snapshot| {
                    snapshot
                        .figures
                        .iter()
                        .find(|(known, _)| known == name)
                        .map(|(_, value)| *value)
                };
                let found: Vec<Option<u64>> =
                    play.after.iter().map(of).take(values.len()).collect();
                let near = |value: Option<u64>, found: &Option<u64>| match (value, found) {
                    (None, _) => true,
                    (Some(value), Some(found)) => {
                        value.abs_diff(*found) <= if *times { within } else { 0 }
                    }
                    (Some(_), None) => false,
                };
                let holds = found.len() == values.len()
                    && values.iter().zip(&found).all(|(value, found)| near(*value, found));
                (holds, list(found.iter().map(|value| figure(*value, *times))))
            }
            Wanted::Times(column, times) => {
                let is_it = |event: &&super::Event| match column {
                    Column::Drops => event.what == "drop",
                    _ => event.what == "dequeue" && event.reason.is_some(),
                };
                let found: Vec<u64> = play
                    .events
                    .iter()
                    .filter(is_it)
                    .map(|event| event.at_ns)
                    .take(times.len())
                    .collect();
                let holds = found.len() == times.len()
                    && found.iter().zip(times).all(|(found, time)| found.abs_diff(*time) <= within);
                (holds, list(found.iter().map(|time| milliseconds(*time))))
            }
            Wanted::Served(flows) => {
                let served = play
                    .events
                    .iter()
                    .filter(|event| event.what == "dequeue")
                    .map(|event| event.flow);
                let found: Vec<u32> = served.take(flows.len()).collect();
                (found == *flows, list(found.iter()))
            }
            Wanted::Total { flow, counter, bound } => {
                let none = Counts::default();
                let counts =
                    flow.map_or(&play.counts, |flow| play.flows.get(&flow).unwrap_or(&none));
                let found = counter.of(counts);
                self.sum += found as f64;
                let holds = match *bound {
                    Bound::Exactly(value) => found == value,
                    Bound::Between(least, most) => (least..=most).contains(&found),
                    Bound::Mean(..) => true,
                };
                (holds, found.to_string())
            }
        };
        if self.found.is_empty() || self.passed && !holds {
            self.found = found;
        }
        self.passed &= holds;
    }

    /// When all seeds have been looked at.
    pub(super) fn conclude(&mut self, expected: &Expectation, plays: usize) {
        if let Wanted::Total { bound: Bound::Mean(mean, within), .. } = expected.wanted {
            let found = self.sum / plays.max(1) as f64;
            self.passed = (found - mean).abs() <= within;
            self.found = format!("{}", (found * 1000.0).round() / 1000.0);
        }
    }
}

fn list<T: fmt::Display>(values: impl Iterator<Item = T>) -> String {
    let words: Vec<String> = values.map(|value| value.to_string()).collect();
    words.join(" ")
}

fn figure(value: Option<u64>, time: bool) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if time => milliseconds(value),
        Some(value) => value.to_string(),
    }
}

/// A time in ms, exactly.
pub(crate) fn milliseconds(ns: u64) -> String {
    let (whole, rest) = (ns / 1_000_000, ns % 1_000_000);
    let text = format!("{whole}.{rest:06}");
    format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
}
