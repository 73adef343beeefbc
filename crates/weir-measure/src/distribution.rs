//! A distribution as plain data: the content of any histogram, in a form that can be merged, shown
//! and stored.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::histogram::{Bin, Histogram};

/// Counts of values by bins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// The exact sum of the values.
    pub sum: u128,
    /// The exact least value; 0 without values.
    pub min: u64,
    /// The exact greatest value; 0 without values.
    pub max: u64,
    /// The filled bins, ascending.
    pub bins: Vec<Bin>,
}

impl Distribution {
    /// The exact mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The quantile `q` (0 to 1) of all values: the middle of its bin, clamped to the exact minimum
    /// and maximum. If `q` is 1, the exact maximum; 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        if q >= 1.0 {
            return self.max;
        }
        let rank = ((q.max(0.0) * self.count as f64) as u64).min(self.count.saturating_sub(1));
        let mut seen = 0;
        for bin in &self.bins {
            seen += bin.count;
            if seen > rank {
                return (bin.low + (bin.high - bin.low) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Adds the values of another distribution, such as that of another run.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        let mut all = core::mem::take(&mut self.bins);
        all.extend_from_slice(&other.bins);
        all.sort_by_key(|bin| (bin.low, bin.high));
        for bin in all {
            match self.bins.last_mut() {
                Some(last) if (last.low, last.high) == (bin.low, bin.high) => {
                    last.count += bin.count;
                }
                _ => self.bins.push(bin),
            }
        }
    }
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            sum: histogram.sum(),
            min: histogram.min(),
            max: histogram.max(),
            bins: histogram.bins().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_histogram_keeps_its_counts_sum_and_order() {
        let mut histogram = Histogram::default();
        [0, 31, 32, 63, 64, 1_000_003, u64::MAX].into_iter().for_each(|v| histogram.record(v));
        let plain = Distribution::from(&histogram);
        assert_eq!((plain.count, plain.min, plain.max, plain.bins.len()), (7, 0, u64::MAX, 7));
        assert_eq!(plain.sum, 31 + 32 + 63 + 64 + 1_000_003 + u128::from(u64::MAX));
        assert_eq!(plain.bins.last().unwrap().high, u64::MAX);
    }
}
