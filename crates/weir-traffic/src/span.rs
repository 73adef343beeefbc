//! The times of a run: its start, the part of it that is measured, its end, and the intervals of
//! its time series.

use serde::{Deserialize, Serialize};

use crate::clock::SECOND;

/// The times of a run on the clock of [`crate::clock`], ns.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When the run starts.
    pub start: u64,
    /// Length of the warm-up, which is not measured.
    pub warmup: u64,
    /// Time from start to end.
    pub duration: u64,
    /// Length of the interval that each point of a time series covers.
    pub interval: u64,
}

impl Span {
    /// A run without a warm-up and without an end. Its time series have one point.
    pub fn open(start: u64) -> Self {
        Self { start, warmup: 0, duration: u64::MAX, interval: u64::MAX }
    }

    /// When the run ends.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// When receiving ends. A packet that has not arrived by then counts as lost.
    pub fn drained(&self) -> u64 {
        self.end().saturating_add(DRAIN_NS)
    }

    /// Whether `at` is between the start and the end of the run.
    pub fn is_running(&self, at: u64) -> bool {
        at >= self.start && at < self.end()
    }

    /// Whether `at` is between the end of the warm-up and the end of the run.
    pub fn is_measured(&self, at: u64) -> bool {
        at >= self.start.saturating_add(self.warmup) && at < self.end()
    }

    /// The point of `series` for the interval that contains `at`. Extends the series if necessary.
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

/// The packets that one end of a flow sent or received in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// Payload bytes of these packets.
    pub payload: u64,
    /// Packets that arrived with congestion experienced.
    pub marked: u64,
    /// Sum of the packets' delays, ns.
    pub delay_ns: u64,
}

/// How long receiving continues after the end of the run, ns.
const DRAIN_NS: u64 = SECOND;
/// The largest index of a point, which bounds memory. The point at this index covers the rest of
/// the run.
const MOST_POINTS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_measured_between_the_warm_up_and_the_end() {
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
