//! Latency histograms with a bounded relative error, small enough for one per link.
//!
//! The bins are log-linear: each power of two is divided into 32 equal bins, so a value is known to
//! within 1/32 (3.1 %). Mean, minimum and maximum are exact. The histogram is our own because the
//! engine is `no_std` and the existing crates need `std`.

use alloc::boxed::Box;

/// A bin: a range of values with a common count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bin {
    /// The least value of the bin.
    pub low: u64,
    /// The greatest value of the bin.
    pub high: u64,
    /// Number of values.
    pub count: u64,
}

/// A histogram of `u64` values.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The counts of all bins, in this file called buckets; allocated when the first value is
    /// recorded.
    buckets: Option<Box<[u64; BUCKETS]>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let Some(buckets) = &mut self.buckets else { return self.record_first(value) };
        buckets[index(value)] += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Counts one value `times` times.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        let Some(more) = times.checked_sub(1) else { return };
        self.record(value);
        if let Some(buckets) = &mut self.buckets {
            buckets[index(value)] += more;
        }
        self.count += more;
        self.sum += u128::from(value) * u128::from(more);
    }

    /// Counts the first value, and allocates the buckets.
    #[cold]
    fn record_first(&mut self, value: u64) {
        self.buckets = Some(Box::new([0; BUCKETS]));
        self.min = value;
        self.record(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact mean, 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The exact least value, 0 without values.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The exact greatest value, 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The quantile `q` (0 to 1) of all values, to within 3.1 %; 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        let Some(buckets) = &self.buckets else {
            return 0;
        };
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64) as u64).min(self.count - 1);
        let mut seen = 0;
        for (i, &n) in buckets.iter().enumerate() {
            seen += n;
            if seen > rank {
                return middle(i).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.buckets else {
            return;
        };
        let ours = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (a, b) in ours.iter_mut().zip(theirs.iter()) {
            *a += b;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The filled bins, ascending.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        self.buckets
            .iter()
            .flat_map(|b| b.iter().enumerate())
            .filter(|&(_, &n)| n > 0)
            .map(|(i, &count)| Bin { low: lower(i), high: upper(i), count })
    }
}

/// The bucket of a value. Values below 32 have a bucket each. For larger values, the leading one
/// bit and the 5 bits after it select the bucket.
#[inline]
fn index(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    ((u64::from(shift) + 1) * SUB + ((value >> shift) - SUB)) as usize
}

/// The least value of a bucket.
fn lower(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB {
        return index;
    }
    (SUB + index % SUB) << (index / SUB - 1)
}

/// The greatest value of a bucket.
fn upper(index: usize) -> u64 {
    lower(index) + (width(index) - 1)
}

fn middle(index: usize) -> u64 {
    lower(index) + width(index) / 2
}

/// The number of values in a bucket.
fn width(index: usize) -> u64 {
    if (index as u64) < SUB { 1 } else { 1 << (index as u64 / SUB - 1) }
}

/// Number of bits after the leading one bit that select the bucket within a power of two.
const SUB_BITS: u32 = 5;
/// Number of buckets in each power of two.
const SUB: u64 = 1 << SUB_BITS;
/// Total number of buckets: 32 for single values, and 32 for each of 59 powers of two.
const BUCKETS: usize = (SUB as usize) * (64 - SUB_BITS as usize + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_without_gaps() {
        for value in (0..2000).chain([u64::MAX, u64::MAX / 3, 1 << 40, (1 << 40) - 1]) {
            let i = index(value);
            assert!(lower(i) <= value, "{value}");
            assert!(value <= upper(i), "{value}");
            assert!(i + 1 == BUCKETS || upper(i) + 1 == lower(i + 1), "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counting_many_equals_counting_one_by_one() {
        let (mut many, mut single) = (Histogram::default(), Histogram::default());
        for (value, times) in [(7, 0), (900, 3), (u64::MAX, 2), (31, 1), (900, 1000)] {
            many.record_many(value, times);
            (0..times).for_each(|_| single.record(value));
            let statistics = |h: &Histogram| {
                (h.count(), h.sum(), h.min(), h.max(), h.bins().collect::<alloc::vec::Vec<_>>())
            };
            assert_eq!(statistics(&many), statistics(&single));
        }
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut h = Histogram::default();
        for v in 1..=100_000u64 {
            h.record(v);
        }
        for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = q * 100_000.0;
            assert!((h.quantile(q) as f64 - exact).abs() <= exact / 32.0, "{q}");
        }
        assert_eq!((h.min(), h.max(), h.count()), (1, 100_000, 100_000));
        assert_eq!(h.mean(), 50_000.5);
    }

    #[test]
    fn merging_adds_and_an_empty_histogram_returns_zero() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        assert_eq!((a.quantile(0.5), a.mean()), (0, 0.0));
        a.record(10);
        b.record(1000);
        a.merge(&b);
        assert_eq!((a.count(), a.min(), a.max()), (2, 10, 1000));
        assert_eq!(a.bins().map(|bin| bin.count).sum::<u64>(), 2);
    }
}
