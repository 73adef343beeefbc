//! Distributions: a tally that packets are counted into, and the plain data that comes out of it.
//!
//! A tally is log-linear, as the engine's histogram is, with 512 equal buckets in each power of
//! two: a value read from it is within 0.1 % of the true one, and mean, least and greatest value
//! are exact. Only the powers of two that occur take memory, 4 kB each; the delays of a flow lie in
//! a few.

use serde::{Deserialize, Serialize};
use weir_core::histogram::{Bin, Histogram};

/// Counts values, in a few instructions each.
#[derive(Clone)]
pub struct Tally {
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

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        // Values below 512 have a bucket each in the first octave; later ones keep their leading
        // bit in the octave's number.
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

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Their exact mean; 0 without values.
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

    /// The value below which a fraction `q` (0 to 1) of all values lies, to within 0.1 %; 0 without
    /// values.
    pub fn quantile(&self, q: f64) -> u64 {
        self.distribution().quantile(q)
    }

    /// What was counted, as plain data.
    pub fn distribution(&self) -> Distribution {
        let bucket = |(octave, bucket, count): (usize, usize, u64)| {
            let shift = octave.saturating_sub(1);
            let low =
                if octave == 0 { bucket as u64 } else { (BUCKETS as u64 + bucket as u64) << shift };
            Bucket { low, high: low + ((1 << shift) - 1), count }
        };
        let filled = self
            .octaves
            .iter()
            .enumerate()
            .filter_map(|(n, octave)| octave.as_ref().map(|buckets| (n, buckets)));
        let counts = filled.flat_map(|(n, buckets)| {
            buckets.iter().enumerate().map(move |(i, &count)| (n, i, count))
        });
        let buckets = counts.filter(|&(_, _, count)| count > 0).map(bucket).collect();
        Distribution { count: self.count, sum: self.sum, min: self.min(), max: self.max, buckets }
    }
}

/// Counts the first value of an octave.
#[cold]
fn first(octave: &mut Option<Box<[u64; BUCKETS]>>, bucket: usize) {
    octave.insert(Box::new([0; BUCKETS]))[bucket] = 1;
}

/// What values were counted, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their exact sum.
    pub sum: u128,
    /// The exact least; 0 without values.
    pub min: u64,
    /// The exact greatest; 0 without values.
    pub max: u64,
    /// The filled buckets, ascending.
    pub buckets: Vec<Bucket>,
}

/// Values that are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The least value that belongs to it.
    pub low: u64,
    /// The greatest.
    pub high: u64,
    /// How many values were counted.
    pub count: u64,
}

impl Distribution {
    /// The exact mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value below which a fraction `q` (0 to 1) of all values lies: the middle of its bucket;
    /// 0 without values. The ends are exact.
    pub fn quantile(&self, q: f64) -> u64 {
        if q >= 1.0 {
            return self.max;
        }
        let rank = ((q.max(0.0) * self.count as f64) as u64).min(self.count.saturating_sub(1));
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.count;
            if seen > rank {
                return (bucket.low + (bucket.high - bucket.low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Adds the values of another: those of another run, for instance.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        let mut all = std::mem::take(&mut self.buckets);
        all.extend_from_slice(&other.buckets);
        all.sort_by_key(|bucket| (bucket.low, bucket.high));
        for bucket in all {
            match self.buckets.last_mut() {
                Some(last) if (last.low, last.high) == (bucket.low, bucket.high) => {
                    last.count += bucket.count
                }
                _ => self.buckets.push(bucket),
            }
        }
    }
}

impl From<&Histogram> for Distribution {
    /// That of one of the engine's histograms, whose buckets are 1/32 of a power of two.
    fn from(histogram: &Histogram) -> Self {
        let bucket = |bin: Bin| Bucket { low: bin.low, high: bin.high, count: bin.count };
        let (count, buckets) = (histogram.count(), histogram.bins().map(bucket).collect());
        Self { count, sum: histogram.sum(), min: histogram.min(), max: histogram.max(), buckets }
    }
}

/// Bits of a value after its leading one that choose the bucket.
const SUB_BITS: u32 = 9;
/// Buckets in each power of two.
const BUCKETS: usize = 1 << SUB_BITS;
/// Single values, and each power of two above.
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

    #[test]
    fn an_engine_histogram_keeps_its_counts_sum_and_order() {
        let mut histogram = Histogram::default();
        [0, 31, 32, 63, 64, 1_000_003, u64::MAX].into_iter().for_each(|v| histogram.record(v));
        let plain = Distribution::from(&histogram);
        assert_eq!((plain.count, plain.min, plain.max, plain.buckets.len()), (7, 0, u64::MAX, 7));
        assert_eq!(plain.sum, 31 + 32 + 63 + 64 + 1_000_003 + u128::from(u64::MAX));
        assert_eq!(plain.buckets.last().unwrap().high, u64::MAX);
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
                prop_assert!(one.buckets[0].low <= value && value <= one.buckets[0].high, "{value}: {:?}", one.buckets);
                prop_assert!(one.buckets[0].high - one.buckets[0].low <= value / 512);
            }
            let mut merged = tally(&left);
            merged.merge(&tally(&right));
            prop_assert_eq!(merged, tally(&[left, right].concat()));
        }
    }
}
