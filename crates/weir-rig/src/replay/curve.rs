//! Queue length and delay over time, in bounded memory.

/// Maxima of queue length and delay over time, in periods of equal length. When there are too many
/// periods, adjacent periods are merged in pairs, so maxima are never lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    period: u64,
    points: Vec<Point>,
}

/// A period of a [`Curve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The greatest number of queued packets.
    pub queued: u64,
    /// The greatest delay of a packet that departed in the period, ns.
    pub delay_ns: u64,
}

impl Default for Curve {
    fn default() -> Self {
        Self { period: FINEST, points: Vec::new() }
    }
}

impl Curve {
    /// Start of each period in ns, and its maxima.
    pub fn points(&self) -> impl Iterator<Item = (u64, Point)> + '_ {
        (0u64..).zip(&self.points).map(|(n, point)| (n * self.period, *point))
    }

    /// Length of a period in ns.
    pub fn period_ns(&self) -> u64 {
        self.period
    }

    /// Records the length of the queue between two times.
    pub(super) fn length(&mut self, from: u64, to: u64, queued: u64) {
        let to = to.min(LATEST);
        self.at(to);
        let first = (from / self.period) as usize;
        for point in self.points.iter_mut().skip(first) {
            point.queued = point.queued.max(queued);
        }
    }

    pub(super) fn delay(&mut self, at: u64, delay: u64) {
        let point = self.at(at);
        point.delay_ns = point.delay_ns.max(delay);
    }

    /// The period that contains a time. Merges periods if the time is too late for their present
    /// length.
    fn at(&mut self, at: u64) -> &mut Point {
        let at = at.min(LATEST);
        while at / self.period >= MAX_POINTS as u64 {
            self.period *= 2;
            let merge = |pair: &[Point]| Point {
                queued: pair.iter().map(|point| point.queued).max().unwrap_or(0),
                delay_ns: pair.iter().map(|point| point.delay_ns).max().unwrap_or(0),
            };
            self.points = self.points.chunks(2).map(merge).collect();
        }
        let index = (at / self.period) as usize;
        if self.points.len() <= index {
            self.points.resize(index + 1, Point::default());
        }
        &mut self.points[index]
    }
}

/// Later times count as this time, ns.
const LATEST: u64 = 1 << 60;
/// The initial length of a period, ns.
const FINEST: u64 = 1_000_000;
/// Maximum number of periods.
const MAX_POINTS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_keeps_maxima_in_bounded_memory() {
        let mut curve = Curve::default();
        for n in 0..10_000 {
            curve.length(n * FINEST, n * FINEST + 1, if n == 7001 { 99 } else { n % 3 });
        }
        assert!(curve.points.len() <= MAX_POINTS);
        assert_eq!(curve.points().map(|(_, point)| point.queued).max(), Some(99));
        let (at, _) = curve.points().find(|(_, point)| point.queued == 99).unwrap();
        assert!(at <= 7_001_000_000 && 7_001_000_000 < at + curve.period_ns());
    }
}
