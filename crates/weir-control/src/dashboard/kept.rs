//! The past of an object: the last minutes as they were read, and a day in longer points. All of it
//! has a bounded size.

use std::collections::VecDeque;

use super::Point;

/// The points of an object, oldest first.
#[derive(Debug, Default)]
pub struct Kept {
    /// Points as they were read.
    recent: VecDeque<Point>,
    /// The number of points that were ever added; the last one has this number.
    added: u64,
    /// Merged points of at least [`SPANS`], the shortest first.
    levels: [Level; SPANS.len()],
}

/// Merged points.
#[derive(Debug, Default)]
struct Level {
    whole: VecDeque<Point>,
    /// The point that is being merged.
    part: Option<Point>,
}

impl Kept {
    /// Adds the newest point.
    pub fn push(&mut self, point: Point) {
        for (level, (span, most)) in self.levels.iter_mut().zip(SPANS) {
            level.push(&point, span, most);
        }
        let oldest = point.at_ns.saturating_sub(RECENT_NS);
        self.recent.push_back(point);
        self.added += 1;
        while self.recent.len() > MOST_RECENT
            || self.recent.front().is_some_and(|first| first.at_ns < oldest)
        {
            self.recent.pop_front();
        }
    }

    /// The number of the newest point, for [`Self::after`].
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.added
    }

    /// The newest point.
    #[must_use]
    pub fn last(&self) -> Option<&Point> {
        self.recent.back()
    }

    /// The points after the point with number `after`, and whether some between are gone.
    pub fn after(&self, after: u64) -> (impl Iterator<Item = &Point>, bool) {
        let first = self.added - self.recent.len() as u64;
        let skip = after.saturating_sub(first);
        (self.recent.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)), after < first)
    }

    /// All points since `from_ns`: merged ones for the time before the recent ones.
    #[must_use]
    pub fn since(&self, from_ns: u64) -> Vec<&Point> {
        let mut parts: Vec<Vec<&Point>> = Vec::new();
        let mut before = u64::MAX;
        let finer = [&self.recent].into_iter().chain(self.levels.iter().map(|level| &level.whole));
        for points in finer {
            let part: Vec<&Point> = points
                .iter()
                .filter(|point| point.at_ns > from_ns && point.at_ns <= before)
                .collect();
            if let Some(first) = part.first() {
                before = first.at_ns.saturating_sub(first.span_ns);
            }
            parts.push(part);
        }
        parts.into_iter().rev().flatten().collect()
    }

    /// Puts back points of an earlier process, which end before all others.
    pub fn restore(&mut self, points: impl IntoIterator<Item = Point>) {
        let (_, most) = SPANS[SPANS.len() - 1];
        let Some(last) = self.levels.last_mut() else { return };
        for point in points {
            last.whole.push_back(point);
            if last.whole.len() > most {
                last.whole.pop_front();
            }
        }
    }
}

impl Level {
    fn push(&mut self, point: &Point, span_ns: u64, most: usize) {
        let merged = match self.part.take() {
            Some(part) => part.merge(point),
            None => point.clone(),
        };
        if merged.span_ns < span_ns {
            self.part = Some(merged);
            return;
        }
        self.whole.push_back(merged);
        if self.whole.len() > most {
            self.whole.pop_front();
        }
    }
}

/// Merges points into at most `most` points.
pub fn thinned<'a>(points: impl Iterator<Item = &'a Point>, most: usize) -> Vec<Point> {
    let all: Vec<&Point> = points.collect();
    let each = all.len().div_ceil(most.max(1)).max(1);
    let merge = |group: &[&Point]| {
        let (first, rest) = group.split_first()?;
        Some(rest.iter().fold((*first).clone(), |sum, next| sum.merge(next)))
    };
    all.chunks(each).filter_map(merge).collect()
}

/// The time for which points are kept as they were read: three minutes.
pub const RECENT_NS: u64 = 180_000_000_000;
/// Maximum number of these points. At the shortest periods they last for a shorter time.
const MOST_RECENT: usize = 2000;
/// The lengths of merged points in ns, with the number that is kept: two hours and a day.
const SPANS: [(u64, usize); 2] = [(10_000_000_000, 720), (60_000_000_000, 1440)];

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn filled(seconds: u64) -> Kept {
        let mut kept = Kept::default();
        for at in 1..=seconds {
            let point = Point { packets_in: 1, ..Point::default() };
            kept.push(Point { at_ns: at * SECOND, span_ns: SECOND, ..point });
        }
        kept
    }

    #[test]
    fn a_day_takes_a_bounded_number_of_points_and_no_second_is_missing_or_twice() {
        let kept = filled(100_000);
        let all = kept.since(0);
        assert!(all.len() <= 180 + 720 + 1440 + 1, "{}", all.len());
        for (one, next) in all.iter().zip(&all[1..]) {
            assert!(one.at_ns <= next.at_ns - next.span_ns, "{one:?} {next:?}");
            assert!(next.at_ns - next.span_ns - one.at_ns <= 60 * SECOND, "{one:?} {next:?}");
        }
        let covered: u64 = all.iter().map(|point| point.packets_in).sum();
        assert!(covered >= 24 * 3600 - 120, "{covered}");
        assert!(kept.since(99_990 * SECOND).iter().all(|point| point.span_ns == SECOND));
    }

    #[test]
    fn readers_get_each_point_once_and_learn_of_a_gap() {
        let mut kept = filled(10);
        let (points, gap) = kept.after(7);
        assert_eq!((points.count(), gap), (3, false));
        assert_eq!(kept.after(10).0.count(), 0);
        kept = filled(1000);
        let (points, gap) = kept.after(10);
        assert_eq!((points.count(), gap), (181, true));
    }

    #[test]
    fn thinned_points_keep_all_packets() {
        let kept = filled(100);
        let thin = thinned(kept.after(0).0, 30);
        assert!(thin.len() <= 30);
        assert_eq!(thin.iter().map(|point| point.packets_in).sum::<u64>(), 100);
    }
}
