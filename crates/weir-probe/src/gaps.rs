//! How long after each other readings were taken: exact to 1 ns below 8 us, to 1 us below 8 ms.

const FINE: usize = 8192;
const COARSE: usize = 8192;

/// A histogram of gaps between readings, in ns.
#[derive(Clone, Debug)]
pub struct Gaps {
    fine: Vec<u64>,
    coarse: Vec<u64>,
    count: u64,
    longest: u64,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { fine: vec![0; FINE], coarse: vec![0; COARSE], count: 0, longest: 0 }
    }
}

impl Gaps {
    /// From counts that were kept elsewhere: of gaps of 0 to 8191 ns, and of gaps of 0 to 8191 times 1024 ns, the last place for all
    /// longer ones.
    ///
    /// # Panics
    /// When there are other numbers of counts.
    #[must_use]
    pub fn from_counts(fine: Vec<u64>, coarse: Vec<u64>, longest: u64) -> Gaps {
        assert!(fine.len() == FINE && coarse.len() == COARSE, "counts of another histogram");
        let count = fine.iter().chain(&coarse).sum();
        Gaps { fine, coarse, count, longest }
    }

    /// Counts one gap.
    pub fn record(&mut self, gap: u64) {
        let place = usize::try_from(gap).unwrap_or(usize::MAX);
        if place < FINE {
            self.fine[place] += 1;
        } else {
            self.coarse[(place >> 10).min(COARSE - 1)] += 1;
        }
        self.count += 1;
        self.longest = self.longest.max(gap);
    }

    /// How many gaps were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in ns.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The gap that a fraction `q` (0 to 1) of all does not exceed, in ns; 0 without gaps.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64) as u64).min(self.count - 1);
        let places = (0u64..).zip(&self.fine).chain((0u64..).map(|i| (i << 10) + 512).zip(&self.coarse));
        let mut seen = 0;
        for (value, &n) in places {
            seen += n;
            if seen > rank {
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
    fn quantiles_are_exact_below_8_us_and_near_above() {
        let mut gaps = Gaps::default();
        for gap in (1..=98).chain([5_000_000, 60_000_000_000]) {
            gaps.record(gap);
        }
        assert_eq!((gaps.quantile(0.5), gaps.quantile(0.97)), (51, 98));
        assert!(gaps.quantile(0.98).abs_diff(5_000_000) <= 512, "{}", gaps.quantile(0.98));
        assert_eq!((gaps.longest(), gaps.count()), (60_000_000_000, 100));
        assert_eq!(Gaps::default().quantile(0.5), 0);
    }
}
