//! Compares a play of a case with the expectations of the case.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::expectation::{Bound, Column, Counter, Expectation, Wanted};
use super::record::{Counts, Event, Play, Snapshot};

/// An expectation, and the value found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CaseExpectation")]
pub struct Finding {
    /// The line of the expectation in the file.
    pub line: usize,
    /// The expectation's name in the file.
    pub name: String,
    /// Whether the expectation holds with every seed or, if it is about a mean, in the mean.
    pub passed: bool,
    /// The expected value.
    pub expected: String,
    /// The value found with the first seed that differs; with the first seed when none differs; for
    /// a mean, the mean over the seeds.
    pub found: String,
    #[serde(skip)]
    sample: Sample,
}

/// Sums over the values of all seeds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sample {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// The standard error of the mean; 0 for a single value.
    fn error(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        let variance = (self.squares - self.sum * self.mean()).max(0.0) / (self.count - 1.0);
        (variance / self.count).sqrt()
    }
}

impl Finding {
    pub(super) fn new(expected: &Expectation) -> Self {
        let words = match &expected.wanted {
            Wanted::After(_, values) => list(values.iter()),
            Wanted::Variable { values, times, .. } => {
                list(values.iter().map(|value| variable_text(*value, *times)))
            }
            Wanted::Times(_, times) => list(times.iter().map(|time| milliseconds(*time))),
            Wanted::Served(flows) => list(flows.iter()),
            Wanted::Taken(taken) => format!("{} dequeues", taken.len()),
            Wanted::Packets(_, packets) => format!("{} packets", packets.len()),
            Wanted::Total { bound, .. } => bound.to_string(),
        };
        Self {
            line: expected.line,
            name: expected.name.clone(),
            passed: true,
            expected: words,
            found: String::new(),
            sample: Sample::default(),
        }
    }

    pub(super) fn compare(&mut self, expected: &Expectation, play: &Play, within: u64) {
        let (holds, found) = match &expected.wanted {
            Wanted::After(column, values) => {
                let found: Vec<u64> = play
                    .after
                    .iter()
                    .map(|snapshot| value_of(*column, snapshot))
                    .take(values.len())
                    .collect();
                (found == *values, list(found.iter()))
            }
            Wanted::Variable { name, values, times } => {
                variable_as(name, values, *times, within, play)
            }
            Wanted::Times(column, times) => times_as(*column, times, within, play),
            Wanted::Served(flows) => {
                let served = play
                    .events
                    .iter()
                    .filter(|event| event.what == "dequeue")
                    .map(|event| event.flow);
                let found: Vec<u32> = served.take(flows.len()).collect();
                (found == *flows, list(found.iter()))
            }
            Wanted::Taken(taken) => taken_as(taken, play),
            Wanted::Packets(column, packets) => packets_as(*column, packets, play),
            Wanted::Total { flow, counter, bound } => {
                let none = Counts::default();
                let counts =
                    flow.map_or(&play.counts, |flow| play.flows.get(&flow).unwrap_or(&none));
                if *counter == Counter::MeanWait {
                    self.sample.add(counts.mean_wait_us());
                } else {
                    self.sample.add(count_of(*counter, counts) as f64);
                }
                let found = count_of(*counter, counts);
                let holds = match *bound {
                    Bound::Exactly(value) => found == value,
                    Bound::Between(least, most) => (least..=most).contains(&found),
                    Bound::Mean(..) | Bound::Sample { .. } => true,
                };
                (holds, found.to_string())
            }
        };
        if self.found.is_empty() || self.passed && !holds {
            self.found = found;
        }
        self.passed &= holds;
    }

    /// Judges the mean, after the plays with all seeds.
    pub(super) fn conclude(&mut self, expected: &Expectation) {
        let Wanted::Total { bound, .. } = expected.wanted else { return };
        let (found, own_error) = (self.sample.mean(), self.sample.error());
        match bound {
            Bound::Mean(mean, within) => {
                self.passed = (found - mean).abs() <= within;
                self.found = rounded(found);
            }
            Bound::Sample { mean, error } => {
                let allowed = STANDARD_ERRORS * error.hypot(own_error) + ROUNDING;
                self.passed = (found - mean).abs() <= allowed;
                self.found =
                    format!("{} with a standard error of {}", rounded(found), rounded(own_error));
            }
            Bound::Exactly(_) | Bound::Between(..) => {}
        }
    }
}

/// Compares the values of a state variable after each dequeue.
fn variable_as(
    name: &str,
    values: &[Option<u64>],
    times: bool,
    within: u64,
    play: &Play,
) -> (bool, String) {
    let of = |snapshot: &Snapshot| {
        snapshot.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    let found: Vec<Option<u64>> = play.after.iter().map(of).take(values.len()).collect();
    let near = |value: Option<u64>, found: &Option<u64>| match (value, found) {
        (None, _) => true,
        (Some(value), Some(found)) => value.abs_diff(*found) <= if times { within } else { 0 },
        (Some(_), None) => false,
    };
    let holds = found.len() == values.len()
        && values.iter().zip(&found).all(|(value, found)| near(*value, found));
    (holds, list(found.iter().map(|value| variable_text(*value, times))))
}

/// Compares the times of the first drops or marks.
fn times_as(column: Column, times: &[u64], within: u64, play: &Play) -> (bool, String) {
    let found: Vec<u64> = play
        .events
        .iter()
        .filter(|event| is_counted(column, event))
        .map(|event| event.at_ns)
        .take(times.len())
        .collect();
    let holds = found.len() == times.len()
        && found.iter().zip(times).all(|(found, time)| found.abs_diff(*time) <= within);
    (holds, list(found.iter().map(|time| milliseconds(*time))))
}

/// For the column of drops, whether an event is a drop; for any other column, whether it is a mark.
fn is_counted(column: Column, event: &Event) -> bool {
    match column {
        Column::Drops => event.what == "drop",
        _ => event.what == "dequeue" && event.reason.is_some(),
    }
}

/// Compares the packet of each dequeue, and describes the first difference.
fn taken_as(taken: &[Option<u32>], play: &Play) -> (bool, String) {
    let dequeues = play.events.iter().filter(|event| event.what != "drop");
    let found: Vec<(u64, Option<u32>)> = dequeues
        .map(|event| (event.at_ns, (event.what == "dequeue").then_some(event.packet)))
        .collect();
    let word = |packet: Option<u32>| packet.map_or("none".to_owned(), |number| number.to_string());
    let mut pairs = found.iter().zip(taken).zip(1..);
    match pairs.find(|(((_, found), taken), _)| found != *taken) {
        Some((((at, packet), taken), number)) => (
            false,
            format!(
                "dequeue {number} at {}: packet {}, not {}",
                milliseconds(*at),
                word(*packet),
                word(*taken)
            ),
        ),
        None => (found.len() >= taken.len(), format!("{} dequeues", found.len().min(taken.len()))),
    }
}

/// Compares the packets that were dropped or marked, and describes the first difference.
fn packets_as(column: Column, packets: &[u32], play: &Play) -> (bool, String) {
    let mut found: Vec<(u64, u32)> = play
        .events
        .iter()
        .filter(|event| is_counted(column, event))
        .map(|event| (event.at_ns, event.packet))
        .collect();
    found.sort_unstable();
    let mut pairs = found.iter().zip(packets).zip(1..);
    match pairs.find(|(((_, found), packet), _)| found != *packet) {
        Some((((at, found), packet), number)) => (
            false,
            format!("number {number} at {}: packet {found}, not {packet}", milliseconds(*at)),
        ),
        None => (found.len() == packets.len(), format!("{} packets", found.len())),
    }
}

fn rounded(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

fn list<T: fmt::Display>(values: impl Iterator<Item = T>) -> String {
    let words: Vec<String> = values.map(|value| value.to_string()).collect();
    words.join(" ")
}

fn variable_text(value: Option<u64>, time: bool) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if time => milliseconds(value),
        Some(value) => value.to_string(),
    }
}

fn value_of(column: Column, snapshot: &Snapshot) -> u64 {
    match column {
        Column::Backlog => snapshot.backlog,
        Column::Drops => snapshot.drops,
        Column::Marks => snapshot.marks,
    }
}

fn count_of(counter: Counter, counts: &Counts) -> u64 {
    match counter {
        Counter::Arrived => counts.arrived,
        Counter::Delivered => counts.delivered,
        Counter::DeliveredBytes => counts.delivered_bytes,
        Counter::Duplicates => counts.duplicates,
        Counter::Corrupted => counts.corrupted,
        Counter::OutOfOrder => counts.out_of_order,
        Counter::MeanWait => counts.mean_wait_us().round() as u64,
        Counter::Left => counts.remaining(),
        Counter::Drops(None) => counts.dropped(),
        Counter::Drops(Some(reason)) => counts.drops.get(reason),
        Counter::Marks(None) => counts.marked(),
        Counter::Marks(Some(reason)) => counts.marks.get(reason),
    }
}

/// A time as text in ms, without rounding.
pub(crate) fn milliseconds(ns: u64) -> String {
    let (whole, rest) = (ns / 1_000_000, ns % 1_000_000);
    let text = format!("{whole}.{rest:06}");
    format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The allowed difference of two means, in standard errors of this difference.
const STANDARD_ERRORS: f64 = 3.0;
/// The rounding error of a mean in a file with three decimal places.
const ROUNDING: f64 = 0.0005;
