//! A histogram of the gaps between readings: exact to 1 ns below 8 us, to about 1 us below 8 ms,
//! and to about 1 ms below 8 s.

use alloc::vec;
use alloc::vec::Vec;
/// Number of bins in each part.
const BINS: usize = 8192;
/// The base-2 logarithm of the width of a bin in ns, for each part.
const PARTS: [u32; 3] = [0, 10, 20];

/// A histogram of gaps between readings, in ns.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// The bins of all parts, in the order of the parts.
    counts: Vec<u64>,
    count: u64,
    longest: u64,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { counts: vec![0; BINS * PARTS.len()], count: 0, longest: 0 }
    }
}

impl Gaps {
    /// Total number of bins.
    pub const LENGTH: usize = BINS * PARTS.len();

    /// A histogram from existing counts: of gaps of 0 to 8191 ns, then of 0 to 8191 times 2^10 ns,
    /// then of 0 to 8191 times 2^20 ns. The last bin also counts all longer gaps.
    ///
    /// # Panics
    /// If the number of counts is not [`Gaps::LENGTH`].
    #[must_use]
    pub fn from_counts(counts: Vec<u64>, longest: u64) -> Gaps {
        assert_eq!(counts.len(), Gaps::LENGTH, "counts of another histogram");
        let count = counts.iter().sum();
        Gaps { counts, count, longest }
    }

    /// Counts one gap, in ns.
    pub fn record(&mut self, gap: u64) {
        let part =
            PARTS.iter().position(|shift| gap >> shift < BINS as u64).unwrap_or(PARTS.len() - 1);
        let index = (gap >> PARTS[part]).min(BINS as u64 - 1) as usize;
        self.counts[part * BINS + index] += 1;
        self.count += 1;
        self.longest = self.longest.max(gap);
    }

    /// Number of gaps.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest gap, in ns.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The quantile `q` (0 to 1) of all gaps, ns; 0 without gaps.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64) as u64).min(self.count - 1);
        let mut seen = 0;
        for (index, &n) in self.counts.iter().enumerate() {
            seen += n;
            if seen > rank {
                let shift = PARTS[index / BINS];
                // The middle of the bin.
                let value = ((index % BINS) as u64) << shift | (1 << shift) >> 1;
                return value.min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::Gaps;

    #[test]
    fn quantiles_are_exact_below_8_us_and_approximate_above() {
        let mut gaps = Gaps::default();
        for gap in (1..=97).chain([5_000_000, 10_000_000, 60_000_000_000]) {
            gaps.record(gap);
        }
        assert_eq!((gaps.quantile(0.5), gaps.quantile(0.96)), (51, 97));
        assert!(gaps.quantile(0.97).abs_diff(5_000_000) <= 512, "{}", gaps.quantile(0.97));
        assert!(gaps.quantile(0.98).abs_diff(10_000_000) <= 1 << 19, "{}", gaps.quantile(0.98));
        assert_eq!((gaps.longest(), gaps.count()), (60_000_000_000, 100));
        assert_eq!(Gaps::default().quantile(0.5), 0);
    }
}
