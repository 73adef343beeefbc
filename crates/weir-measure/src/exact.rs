//! Exact counts of values, for queue lengths: a histogram with a separate count for every value.
//!
//! A log-linear histogram would put lengths of 64 and 65 packets into one bin, but readings of a
//! queue must distinguish them. A queue has few different lengths, so each length has its own
//! count. With more than 7,168 different values above 1,023, the largest values are rounded: they
//! keep as many leading bits as the limit allows, at least 8, which is a precision of 1 in 128.
//! Total, sum, minimum and maximum stay exact.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::histogram::Bin;

/// A histogram of weighted values. The weight is a number of readings for a sampled queue, or a
/// time in ns for a queue with a record of every change.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    /// The weights of the values below [`SMALL`], indexed by value.
    small: Vec<u64>,
    /// The weights of the larger values; the key is the lowest of the values that share a count.
    large: BTreeMap<u64, u64>,
    /// Number of trailing bits that are rounded away for values of 64 bits. A value with `n` bits
    /// fewer loses `n` trailing bits fewer.
    rounded_bits: u32,
    total: u64,
    sum: u128,
    /// The least and the greatest value; `None` without values.
    range: Option<(u64, u64)>,
}

impl Exact {
    /// Adds a value with a weight. A weight of 0 affects only the minimum and the maximum.
    pub fn record(&mut self, value: u64, weight: u64) {
        self.range = Some(
            self.range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))),
        );
        if weight == 0 {
            return;
        }
        self.total += weight;
        self.sum += u128::from(value) * u128::from(weight);
        if value < SMALL {
            let index = value as usize;
            if self.small.len() <= index {
                self.small.resize(index + 1, 0);
            }
            self.small[index] += weight;
            return;
        }
        *self.large.entry(self.bin_low(value)).or_default() += weight;
        while self.large.len() > MOST {
            self.round(self.rounded_bits + 1);
        }
    }

    fn round(&mut self, rounded_bits: u32) {
        self.rounded_bits = rounded_bits;
        for (value, weight) in core::mem::take(&mut self.large) {
            *self.large.entry(self.bin_low(value)).or_default() += weight;
        }
    }

    /// The lowest of the values that share a count with `value`.
    fn bin_low(&self, value: u64) -> u64 {
        let shift = self.shift(value);
        (value >> shift) << shift
    }

    /// The number of trailing bits that are rounded away for a value.
    fn shift(&self, value: u64) -> u32 {
        (64 - value.leading_zeros()).saturating_sub(64 - self.rounded_bits)
    }

    /// The sum of all weights.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether every value has its own count.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.large.keys().all(|&value| self.shift(value) == 0)
    }

    /// The exact mean, 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The least value, 0 without values.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.range.map_or(0, |range| range.0)
    }

    /// The greatest value, 0 without values.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.range.map_or(0, |range| range.1)
    }

    /// The quantile `q` (0 to 1): the value that this fraction of all weight does not exceed, or,
    /// for rounded values, the middle of the values that share its count; 0 without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.total as f64) as u64).min(self.total - 1);
        let mut seen = 0;
        for (value, weight) in self.iter() {
            seen += weight;
            if seen > rank {
                let middle = value + ((1 << self.shift(value)) >> 1);
                return middle.clamp(self.min(), self.max());
            }
        }
        self.max()
    }

    /// The weight of a value. For a rounded value this is the weight of all values that share its
    /// count.
    #[must_use]
    pub fn weight_at(&self, value: u64) -> u64 {
        if value < SMALL {
            return self.small.get(value as usize).copied().unwrap_or(0);
        }
        self.large.get(&self.bin_low(value)).copied().unwrap_or(0)
    }

    /// The fraction of all weight at one value, 0 without values.
    #[must_use]
    pub fn share_at(&self, value: u64) -> f64 {
        self.weight_at(value) as f64 / self.total.max(1) as f64
    }

    /// The fraction of all weight above a value, 0 without values.
    #[must_use]
    pub fn share_above(&self, value: u64) -> f64 {
        let above: u64 = self.iter().filter(|&(v, _)| v > value).map(|(_, weight)| weight).sum();
        above as f64 / self.total.max(1) as f64
    }

    /// The filled bins, ascending. A bin without rounding holds one value.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        let high = |low: u64| low + ((1 << self.shift(low)) - 1);
        self.iter().map(move |(low, count)| Bin { low, high: high(low), count })
    }

    /// Values with their weights, ascending. A rounded value appears as the lowest of the values
    /// that share its count.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let small = (0u64..).zip(&self.small).filter(|&(_, &weight)| weight > 0);
        small
            .chain(self.large.iter().map(|(&value, weight)| (value, weight)))
            .map(|(value, &weight)| (value, weight))
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Exact) {
        // The values that `iter` returns may be rounded, so the sum and the extremes are taken from
        // the exact fields.
        let (sum, range) = (self.sum + other.sum, self.range);
        if self.rounded_bits < other.rounded_bits {
            self.round(other.rounded_bits);
        }
        for (value, weight) in other.iter() {
            self.record(value, weight);
        }
        (self.sum, self.range) = (sum, range);
        if let Some((least, most)) = other.range {
            self.record(least, 0);
            self.record(most, 0);
        }
    }
}

/// Values below this are counted in a list indexed by value, because most queues are shorter than
/// this.
const SMALL: u64 = 1024;
/// Maximum number of counts for the larger values.
const MOST: usize = 8192 - SMALL as usize;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_queues_lengths_are_exact() {
        let mut lengths = Exact::default();
        for (value, weight) in [(0, 90), (1, 5), (7, 4), (5000, 1)] {
            lengths.record(value, weight);
        }
        assert_eq!((lengths.total(), lengths.max(), lengths.mean()), (100, 5000, 50.33));
        assert_eq!([0.5, 0.9, 0.95, 0.99, 1.0].map(|q| lengths.quantile(q)), [0, 1, 7, 5000, 5000]);
        assert_eq!(
            (lengths.share_above(0), lengths.share_above(6), lengths.share_above(5000)),
            (0.1, 0.05, 0.0)
        );
        assert_eq!(
            (lengths.share_at(7), lengths.weight_at(5000), lengths.is_exact()),
            (0.04, 1, true)
        );
        assert_eq!(Exact::default().quantile(0.5), 0);
    }

    #[test]
    fn a_value_without_weight_is_still_the_greatest() {
        let mut held = Exact::default();
        held.record(3, 10);
        held.record(99, 0);
        assert_eq!((held.max(), held.quantile(0.99), held.total()), (99, 3, 10));
    }

    #[test]
    fn the_sum_and_the_extremes_of_rounded_values_stay_exact_when_they_are_added() {
        let (mut all, mut one) = (Exact::default(), Exact::default());
        (0..20_000).for_each(|i| one.record(1_000_001 + 99 * i, 1 + i % 3));
        assert!(!one.is_exact());
        (0..3).for_each(|_| all.merge(&one));
        assert_eq!((all.min(), all.max()), (1_000_001, 1_000_001 + 99 * 19_999));
        assert_eq!((all.total(), all.mean()), (3 * one.total(), one.mean()));
        assert!(!all.is_exact() && all.bins().any(|bin| bin.low < bin.high));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn many_values_are_rounded_a_little_and_memory_is_bounded(
            start in 0u64..1 << 31,
            step in 1u64..200_000,
            n in 1u64..20_000,
        ) {
            let mut all = Exact::default();
            (0..n).for_each(|i| all.record(start + i * step, 1));
            prop_assert!(all.large.len() <= MOST && all.total() == n);
            prop_assert_eq!((all.min(), all.max()), (start, start + (n - 1) * step));
            for q in [0.1, 0.5, 0.99] {
                let exact = start + ((q * n as f64) as u64).min(n - 1) * step;
                prop_assert!(
                    all.quantile(q).abs_diff(exact) <= exact / 128,
                    "{} for {exact}",
                    all.quantile(q)
                );
            }
        }

        #[test]
        fn merging_is_recording_both(
            a in prop::collection::vec(0u64..5000, 0..50),
            b in prop::collection::vec(0u64..5000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut all = Exact::default();
                values.iter().for_each(|&v| all.record(v, v % 3));
                all
            };
            let (mut left, both) = (of(&a), of(&[a.clone(), b.clone()].concat()));
            left.merge(&of(&b));
            prop_assert!(
                left.iter().eq(both.iter()) && left.range == both.range && left.sum == both.sum
            );
        }
    }
}
