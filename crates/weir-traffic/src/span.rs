//! When a run starts, from when on it is measured, when it ends, and its time series.

use serde::{Deserialize, Serialize};

use crate::clock::SECOND;

/// The times of a run on the clock of [`crate::clock`], in ns.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When it starts.
    pub start: u64,
    /// Time at the start that is not measured.
    pub warmup: u64,
    /// From start to end.
    pub duration: u64,
    /// Distance of the points of time series.
    pub interval: u64,
}

impl Span {
    /// A run without an end and without a warm-up; its series has one point.
    pub fn open(start: u64) -> Self {
        Self { start, warmup: 0, duration: u64::MAX, interval: u64::MAX }
    }

    /// When the run ends.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// When every packet that was inside at the end has arrived or never will.
    pub fn drained(&self) -> u64 {
        self.end().saturating_add(DRAIN_NS)
    }

    /// Whether `at` is between start and end.
    pub fn is_running(&self, at: u64) -> bool {
        at >= self.start && at < self.end()
    }

    /// Whether `at` is between the end of the warm-up and the end of the run.
    pub fn is_measured(&self, at: u64) -> bool {
        at >= self.start.saturating_add(self.warmup) && at < self.end()
    }

    /// The point of a series that `at` belongs to.
    pub(crate) fn point<'a>(&self, series: &'a mut Vec<Point>, at: u64) -> &'a mut Point {
        let index = usize::try_from(at.saturating_sub(self.start) / self.interval.max(1))
            .unwrap_or(usize::MAX)
            .min(MOST_POINTS);
        if series.len() <= index {
            series.resize(index + 1, Point::default());
        }
        &mut series[index]
    }
}

/// The packets that one end of a flow sent, or received, in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Packets.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// Their payload bytes.
    pub payload: u64,
    /// Packets with congestion experienced.
    pub marked: u64,
    /// Sum of the packets' delays, in ns.
    pub delay_ns: u64,
}

/// How long packets that are inside at the end may take to arrive.
const DRAIN_NS: u64 = SECOND;
/// Points of a series at most, to bound memory; the last one holds the rest.
const MOST_POINTS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_behind_the_warm_up_and_before_the_end() {
        let span = Span { start: 100, warmup: 10, duration: 50, interval: 20 };
        assert_eq!(
            [99, 100, 109, 110, 149, 150].map(|at| span.is_measured(at)),
            [false, false, false, true, true, false]
        );
        let mut series = Vec::new();
        [(100, 1), (119, 2), (140, 4)]
            .into_iter()
            .for_each(|(at, amount)| span.point(&mut series, at).packets += amount);
        assert_eq!(series.iter().map(|point| point.packets).collect::<Vec<_>>(), [3, 0, 4]);
    }
}
