//! A tally: a finer histogram for the delays of flows, which are compared with published results.
//!
//! A tally is log-linear like [`Histogram`](crate::histogram::Histogram), but has 512 equal bins in
//! each power of two (octave) instead of 32. Quantiles are within 0.1 % of the true value; mean,
//! minimum and maximum are exact. Memory is allocated only for the octaves that occur, 4 kB each;
//! the delays of a flow occupy a few octaves. The engine uses the coarser histogram, because it
//! needs one for every link.

use alloc::boxed::Box;
use core::fmt;

use crate::distribution::Distribution;
use crate::histogram::Bin;

/// A fine histogram of `u64` values. Counting takes a few instructions.
#[derive(Clone)]
pub struct Tally {
    /// The counts of the buckets of each octave; `None` until a value in the octave is recorded.
    octaves: [Option<Box<[u64; BUCKETS]>>; OCTAVES],
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { octaves: [const { None }; OCTAVES], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .finish_non_exhaustive()
    }
}

impl Tally {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let shift = (63 - SUB_BITS).saturating_sub((value | 1).leading_zeros());
        // Values below 512 have a bucket each in the first octave. In later octaves, the number of
        // the octave implies the leading one bit.
        let octave = shift as usize + usize::from(value >> SUB_BITS != 0);
        let bucket = (value >> shift) as usize & (BUCKETS - 1);
        match &mut self.octaves[octave] {
            Some(buckets) => buckets[bucket] += 1,
            empty => first(empty, bucket),
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The exact least value; 0 without values.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The exact greatest value; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The quantile `q` (0 to 1) of all values, to within 0.1 %; 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        self.distribution().quantile(q)
    }

    /// The content as plain data.
    pub fn distribution(&self) -> Distribution {
        let bin = |(octave, bucket, count): (usize, usize, u64)| {
            let shift = octave.saturating_sub(1);
            let low =
                if octave == 0 { bucket as u64 } else { (BUCKETS as u64 + bucket as u64) << shift };
            Bin { low, high: low + ((1 << shift) - 1), count }
        };
        let filled = self
            .octaves
            .iter()
            .enumerate()
            .filter_map(|(n, octave)| octave.as_ref().map(|buckets| (n, buckets)));
        let counts = filled.flat_map(|(n, buckets)| {
            buckets.iter().enumerate().map(move |(i, &count)| (n, i, count))
        });
        let bins = counts.filter(|&(_, _, count)| count > 0).map(bin).collect();
        Distribution { count: self.count, sum: self.sum, min: self.min(), max: self.max, bins }
    }
}

/// Counts the first value of an octave.
#[cold]
fn first(octave: &mut Option<Box<[u64; BUCKETS]>>, bucket: usize) {
    octave.insert(Box::new([0; BUCKETS]))[bucket] = 1;
}

/// Number of bits after the leading one bit that select the bucket within a power of two.
const SUB_BITS: u32 = 9;
/// Number of buckets in each power of two.
const BUCKETS: usize = 1 << SUB_BITS;
/// Number of octaves: one for single values, and one for each power of two above them.
const OCTAVES: usize = 64 - SUB_BITS as usize + 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth_and_moments_exact() {
        let mut tally = Tally::default();
        assert_eq!((tally.mean(), tally.min(), tally.max(), tally.quantile(0.5)), (0.0, 0, 0, 0));
        (1..=100_000u64).for_each(|value| tally.record(value * 1_000));
        for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = q * 1e8;
            assert!((tally.quantile(q) as f64 - exact).abs() <= exact / 1000.0 + 1000.0, "{q}");
        }
        assert_eq!((tally.min(), tally.max(), tally.mean()), (1_000, 100_000_000, 50_000_500.0));
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_merging_is_counting_together(
            left in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 0..60),
            right in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 0..60),
        ) {
            let tally = |values: &[u64]| {
                let mut tally = Tally::default();
                values.iter().for_each(|&v| tally.record(v));
                tally.distribution()
            };
            for &value in &left {
                let one = tally(&[value]);
                prop_assert!(
                    one.bins[0].low <= value && value <= one.bins[0].high,
                    "{value}: {:?}",
                    one.bins
                );
                prop_assert!(one.bins[0].high - one.bins[0].low <= value / 512);
            }
            let mut merged = tally(&left);
            merged.merge(&tally(&right));
            prop_assert_eq!(merged, tally(&[left, right].concat()));
        }
    }
}
