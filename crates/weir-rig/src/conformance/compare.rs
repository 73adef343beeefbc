//! Compares a play of a case with the expectations of the case.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::expectation::{Bound, Column, Counter, Expectation, Wanted};
use super::play::{Counts, Event, Play, Snapshot};

/// An expectation, and the value found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CaseExpectation")]
pub struct Finding {
    /// The line of the expectation in the file.
    pub line: usize,
    /// The expectation's name in the file.
    pub name: String,
    /// Whether the expectation holds with every seed.
    pub passed: bool,
    /// The expected value.
    pub expected: String,
    /// The value found with the first seed that differs; with the first seed when none differs.
    pub found: String,
    #[serde(skip)]
    sum: f64,
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

    /// Compares one play.
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
                (holds, list(found.iter().map(|value| variable_text(*value, *times))))
            }
            Wanted::Times(column, times) => {
                let counts = |event: &&Event| match column {
                    Column::Drops => event.what == "drop",
                    _ => event.what == "dequeue" && event.reason.is_some(),
                };
                let found: Vec<u64> = play
                    .events
                    .iter()
                    .filter(counts)
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
                let found = count_of(*counter, counts);
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

    /// Concludes after the plays with all seeds.
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
        Counter::Left => counts.left(),
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
