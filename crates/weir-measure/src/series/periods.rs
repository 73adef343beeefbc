//! A quantity within a period, and periods of equal width in bounded memory.

use alloc::vec::Vec;
use core::mem;

use serde::Serialize;

/// A quantity within a period: its extremes and its weighted mean. The weight of a value is its
/// number of readings, or the time for which the quantity had this value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Envelope {
    /// `u64::MAX` before the first value.
    min: u64,
    max: u64,
    /// Exact below 2⁵³; above, each addition is rounded.
    sum: f64,
    weight: u64,
}

impl Default for Envelope {
    fn default() -> Self {
        Self { min: u64::MAX, max: 0, sum: 0.0, weight: 0 }
    }
}

impl Envelope {
    /// An envelope of one value.
    pub fn of(value: u64, weight: u64) -> Self {
        let mut one = Self::default();
        one.include(value, weight);
        one
    }

    /// Includes a value with a weight. A weight of 0 changes only the extremes.
    #[inline]
    pub fn include(&mut self, value: u64, weight: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value as f64 * weight as f64;
        self.weight += weight;
    }

    /// Raises the maximum to a value that was reached at an unknown time within the period.
    pub fn peak(&mut self, value: u64) {
        self.max = self.max.max(value);
    }

    /// Includes the values of another envelope.
    pub fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.weight += other.weight;
    }

    /// Whether no value was included.
    pub fn is_empty(&self) -> bool {
        self.min == u64::MAX
    }

    /// The least value; 0 without values.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The greatest value; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The weighted sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The sum of all weights.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The weighted mean; the least value if nothing had a weight.
    pub fn mean(&self) -> f64 {
        if self.weight == 0 { self.min() as f64 } else { self.sum / self.weight as f64 }
    }

    /// The same extremes and mean with another total weight. A caller can thus give all periods the
    /// same weight, regardless of the number of readings.
    #[must_use]
    pub fn weighing(self, weight: u64) -> Self {
        Self { sum: self.mean() * weight as f64, weight, ..self }
    }
}

/// The content of one of the [`Periods`].
pub trait Period: Clone + Default {
    /// Merges the following period into this one. Sums are added; extremes survive.
    fn merge(&mut self, next: &Self);
}

/// Consecutive periods of equal width, up to a maximum number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Periods<P> {
    origin_ns: u64,
    width_ns: u64,
    capacity: usize,
    periods: Vec<P>,
}

impl<P> Default for Periods<P> {
    fn default() -> Self {
        Self { origin_ns: 0, width_ns: 1, capacity: 2, periods: Vec::new() }
    }
}

impl<P: Period> Periods<P> {
    /// An empty sequence. The first period begins at `origin_ns`. The width is `width_ns` (at least
    /// 1); it doubles whenever there would be more than `capacity` (at least 2) periods.
    #[must_use]
    pub fn new(origin_ns: u64, width_ns: u64, capacity: usize) -> Self {
        let (width_ns, capacity) = (width_ns.max(1), capacity.max(2));
        Self { origin_ns, width_ns, capacity, periods: Vec::new() }
    }

    /// Start of the first period, ns.
    #[must_use]
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Width of a period, ns.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// All periods, without their times, as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[P] {
        &self.periods
    }

    /// All periods, without their times.
    #[must_use]
    pub fn into_vec(self) -> Vec<P> {
        self.periods
    }

    /// All periods, each with its start time in ns.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &P)> + ExactSizeIterator {
        let begins = |index: usize| self.origin_ns + index as u64 * self.width_ns;
        self.periods.iter().enumerate().map(move |(index, period)| (begins(index), period))
    }

    /// The period that contains a time in ns; a time before the origin belongs to the first period.
    pub fn at(&mut self, time_ns: u64) -> &mut P {
        let index = self.reach(time_ns.saturating_sub(self.origin_ns));
        &mut self.periods[index]
    }

    /// Spreads `weight` evenly over the time from `from_ns` to `to_ns` (both inclusive), and calls
    /// the function with each period and its share.
    pub fn spread(
        &mut self,
        (from_ns, to_ns): (u64, u64),
        weight: u64,
        mut give: impl FnMut(&mut P, u64),
    ) {
        let from = from_ns.saturating_sub(self.origin_ns);
        let to = to_ns.max(from_ns).saturating_sub(self.origin_ns);
        let last = self.reach(to);
        let first = (from / self.width_ns) as usize;
        if first == last {
            return give(&mut self.periods[last], weight);
        }
        let span = u128::from(to - from) + 1;
        let mut given = 0;
        for (index, period) in self.periods.iter_mut().enumerate().take(last + 1).skip(first) {
            let end = ((index as u64 + 1) * self.width_ns).min(to + 1) - from;
            let total = (u128::from(weight) * u128::from(end) / span) as u64;
            give(period, total - given);
            given = total;
        }
    }

    /// Sets the maximum number of periods to `capacity`, which is at least 2.
    pub fn limit(&mut self, capacity: usize) {
        self.capacity = capacity.max(2);
        while self.periods.len() > self.capacity {
            self.double();
        }
        self.periods.shrink_to_fit();
    }

    /// The same data with each group of this many periods merged into one.
    #[must_use]
    pub fn grouped(&self, group: usize) -> Self {
        let merged = |group: &[P]| {
            let (mut first, rest) = (group[0].clone(), &group[1..]);
            rest.iter().for_each(|next| first.merge(next));
            first
        };
        let group = group.max(1);
        Self {
            width_ns: self.width_ns.saturating_mul(group as u64),
            periods: self.periods.chunks(group).map(merged).collect(),
            ..*self
        }
    }

    /// The index of the period that contains `time`, in ns since the origin. Missing periods are
    /// added.
    fn reach(&mut self, time: u64) -> usize {
        while time / self.width_ns >= self.capacity as u64 {
            self.double();
        }
        let index = (time / self.width_ns) as usize;
        if self.periods.len() <= index {
            self.periods.resize(index + 1, P::default());
        }
        index
    }

    /// Doubles the width: merges the periods in pairs.
    fn double(&mut self) {
        self.width_ns *= 2;
        let half = self.periods.len().div_ceil(2);
        for index in 0..half {
            let mut first = mem::take(&mut self.periods[2 * index]);
            if let Some(next) = self.periods.get(2 * index + 1) {
                first.merge(next);
            }
            self.periods[index] = first;
        }
        self.periods.truncate(half);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Period for Envelope {
        fn merge(&mut self, next: &Self) {
            Envelope::merge(self, next);
        }
    }

    #[test]
    fn a_weight_is_spread_over_the_periods_of_its_time() {
        let mut periods = Periods::<Envelope>::new(1000, 100, 1024);
        periods.spread((1000, 1399), 400, |period, weight| period.include(3, weight));
        assert_eq!(periods.as_slice().iter().map(Envelope::weight).collect::<Vec<_>>(), [100; 4]);
        periods.at(1350).include(5, 100);
        let last = periods.as_slice()[3];
        assert_eq!((last.mean(), last.min(), last.max()), (4.0, 3, 5));
        assert_eq!(periods.iter().map(|(time, _)| time).next_back(), Some(1300));
    }

    #[test]
    fn a_period_without_values_is_empty_and_zero() {
        let mut none = Envelope::default();
        assert_eq!((none.is_empty(), none.min(), none.max(), none.mean()), (true, 0, 0, 0.0));
        none.peak(7);
        assert_eq!((none.min(), none.max(), none.mean()), (0, 7, 0.0));
        let seen = Envelope::of(7, 0);
        assert_eq!((seen.is_empty(), seen.min(), seen.mean()), (false, 7, 7.0));
    }

    proptest! {
        #[test]
        fn no_peak_or_weight_is_lost(
            runs in prop::collection::vec((0u64..1 << 40, 0u64..1 << 22, 1u64..1000, 0u64..50), 1..60),
            capacity in 2usize..200,
        ) {
            let mut all = Periods::<Envelope>::new(0, 1024, capacity);
            for &(from, span, weight, value) in &runs {
                all.spread((from, from + span), weight, |p, weight| p.include(value, weight));
            }
            all.limit(capacity / 2);
            prop_assert!(all.as_slice().len() <= (capacity / 2).max(2));
            let weight: u64 = all.as_slice().iter().map(Envelope::weight).sum();
            prop_assert_eq!(weight, runs.iter().map(|r| r.2).sum::<u64>());
            for &(from, span, _, value) in &runs {
                for time in [from, from + span] {
                    let period = all.at(time);
                    prop_assert!(period.min() <= value && value <= period.max());
                }
            }
        }
    }
}
