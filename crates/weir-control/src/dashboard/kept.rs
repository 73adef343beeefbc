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
    /// The merged points for each of the [`SPANS`], the shortest first.
    levels: [Level; SPANS.len()],
}

#[derive(Debug, Default)]
struct Level {
    /// The finished points, the oldest first.
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

    /// The points after the point with number `after`, and whether some of them are no longer kept.
    pub fn after(&self, after: u64) -> (impl Iterator<Item = &Point>, bool) {
        let first = self.added - self.recent.len() as u64;
        let skip = after.saturating_sub(first);
        (self.recent.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)), after < first)
    }

    /// All points since `from_ns`: merged points for the time before the recent points.
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

    /// The merged points of a level after `after_ns`. The point that is being merged is included
    /// only if `unfinished`.
    pub fn merged(
        &self,
        level: usize,
        after_ns: u64,
        unfinished: bool,
    ) -> impl Iterator<Item = &Point> {
        let level = self.levels.get(level);
        let whole = level.into_iter().flat_map(|level| &level.whole);
        let part = level.and_then(|level| level.part.as_ref()).filter(|_| unfinished);
        let skip = move |point: &&Point| point.at_ns <= after_ns;
        whole.chain(part).skip_while(skip)
    }

    /// Puts back a merged point of an earlier process. All such points must be added before the
    /// first point of this process.
    pub fn restore(&mut self, level: usize, point: Point) {
        if let (Some(level), Some(&(_, most))) = (self.levels.get_mut(level), SPANS.get(level)) {
            level.add(point, most);
        }
    }
}

impl Level {
    /// Merges a point into the unfinished point, which is finished when it spans `span_ns`.
    fn push(&mut self, point: &Point, span_ns: u64, most: usize) {
        let merged = match self.part.take() {
            Some(part) => part.merge(point),
            None => point.clone(),
        };
        if merged.span_ns < span_ns {
            self.part = Some(merged);
            return;
        }
        self.add(merged, most);
    }

    /// Adds a finished point, and removes the oldest point beyond `most`.
    fn add(&mut self, point: Point, most: usize) {
        self.whole.push_back(point);
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
/// Maximum number of points that are kept as they were read. At the shortest periods between
/// readings, these points cover less than [`RECENT_NS`].
const MOST_RECENT: usize = 2000;
/// The length of merged points in ns and the number of points kept, for each level. The levels
/// cover two hours and a day.
pub(super) const SPANS: [(u64, usize); 2] = [(10_000_000_000, 720), (60_000_000_000, 1440)];

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
    fn a_day_takes_a_bounded_number_of_points_without_overlaps_or_long_gaps() {
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
    fn points_of_an_earlier_process_come_first_and_leave_a_gap() {
        let earlier = filled(605);
        let mut kept = Kept::default();
        for level in 0..SPANS.len() {
            let points: Vec<Point> = earlier.merged(level, 0, true).cloned().collect();
            assert_eq!(points.last().unwrap().at_ns, 605 * SECOND, "the last one is unfinished");
            assert_eq!(earlier.merged(level, 595 * SECOND, false).count(), [1, 1][level]);
            points.into_iter().for_each(|point| kept.restore(level, point));
        }
        let counted = |kept: &Kept| kept.since(0).iter().map(|one| one.packets_in).sum::<u64>();
        assert_eq!(counted(&kept), 605);
        // An hour later.
        for at in 4205..=4300 {
            let point = Point { packets_in: 1, span_ns: SECOND, ..Point::default() };
            kept.push(Point { at_ns: at * SECOND, ..point });
        }
        assert_eq!(counted(&kept), 605 + 96);
        let all = kept.since(0);
        let begin = |point: &&Point| point.at_ns - point.span_ns;
        let gaps = all.windows(2).filter(|pair| begin(&pair[1]) > pair[0].at_ns).count();
        assert_eq!(gaps, 1);
    }

    #[test]
    fn thinned_points_keep_all_packets() {
        let kept = filled(100);
        let thin = thinned(kept.after(0).0, 30);
        assert!(thin.len() <= 30);
        assert_eq!(thin.iter().map(|point| point.packets_in).sum::<u64>(), 100);
    }
}
