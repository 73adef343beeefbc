//! When a run starts, from when on it is measured, and when it ends.

use super::order::Point;

/// The times of a run on the monotonic clock, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// When it starts.
    pub(crate) start: u64,
    /// Time that is not measured.
    pub(crate) warmup: u64,
    /// From start to end.
    pub(crate) duration: u64,
    /// Distance of the points of time series.
    pub(crate) interval: u64,
}

impl Span {
    /// When it ends.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// When what was on its way at the end has arrived, or will not.
    pub(crate) fn drained(&self) -> u64 {
        self.end().saturating_add(DRAIN_NS)
    }

    /// Whether `at` is between start and end.
    pub(crate) fn running(&self, at: u64) -> bool {
        at >= self.start && at < self.end()
    }

    /// Whether what happens at `at` counts.
    pub(crate) fn measured(&self, at: u64) -> bool {
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

/// How long what is on its way may take to arrive.
const DRAIN_NS: u64 = 1_000_000_000;
/// Points of a series at most, to bound memory; the last one has the rest.
const MOST_POINTS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_behind_the_warm_up_and_before_the_end() {
        let span = Span { start: 100, warmup: 10, duration: 50, interval: 20 };
        assert_eq!(
            [99, 100, 109, 110, 149, 150].map(|at| span.measured(at)),
            [false, false, false, true, true, false]
        );
        let mut series = Vec::new();
        [(100, 1), (119, 2), (140, 4)]
            .into_iter()
            .for_each(|(at, amount)| span.point(&mut series, at).packets += amount);
        assert_eq!(series.iter().map(|point| point.packets).collect::<Vec<_>>(), [3, 0, 4]);
    }
}
