//! Packets at independent random intervals: Poisson arrivals, Pareto-distributed gaps, and packets
//! of several sizes.
//!
//! # Reference
//! Published tests of queues use Pareto-distributed gaps with shape 2 and scale 4 ms. Their mean is
//! 2 · 4 ms / (2 − 1) = 8 ms. With a shape up to 2 the variance is infinite, and long silences
//! separate bursts on every time scale.

use weir_core::Nanos;

use crate::random::{Draws, Variable, nanos};

use super::source::Process;

/// Packets of one size at random intervals; the first is sent one interval after the start.
#[derive(Clone, Debug)]
pub struct Renewal {
    len: u32,
    gap: Variable,
}

impl Renewal {
    /// Packets of `len` network-layer bytes; `gap` is the interval in nanoseconds.
    pub fn new(len: u32, gap: Variable) -> Self {
        Self { len, gap }
    }
}

impl Process for Renewal {
    fn next(&mut self, draws: &mut Draws) -> Option<(Nanos, u32)> {
        Some((self.gap.span(draws), self.len))
    }
}

/// Packets of several sizes, drawn by weight. Intervals do not depend on the size.
#[derive(Clone, Debug)]
pub struct Mix {
    sizes: Vec<u32>,
    weights: Vec<f64>,
    gap: Variable,
    /// Fraction of a nanosecond carried from earlier packets.
    carry: f64,
}

impl Mix {
    /// A mix of packet sizes in network-layer bytes, with their weights, at a mean rate of `bps`
    /// network-layer bits/s.
    pub fn new(mix: &[(u32, f64)], bps: u64, exponential: bool) -> Self {
        let total: f64 = mix.iter().map(|&(_, weight)| weight).sum();
        let mean = mix.iter().map(|&(len, weight)| f64::from(len) * weight).sum::<f64>() / total;
        let gap = mean * 8e9 / bps as f64;
        Self {
            sizes: mix.iter().map(|&(len, _)| len).collect(),
            weights: mix.iter().map(|&(_, weight)| weight).collect(),
            gap: if exponential {
                Variable::Exponential { mean: gap }
            } else {
                Variable::Fixed(gap)
            },
            carry: 0.0,
        }
    }
}

impl Process for Mix {
    fn next(&mut self, draws: &mut Draws) -> Option<(Nanos, u32)> {
        let exact = self.gap.draw(draws) + self.carry;
        let gap = nanos(exact);
        self.carry = exact - gap.0 as f64;
        Some((gap, self.sizes[draws.weighted(&self.weights)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean rates over many packets: packets per second and bits per second.
    fn rates(mut process: impl Process) -> (f64, f64) {
        let mut draws = Draws::new(11, 5, 1);
        let (mut time, mut bits) = (0u64, 0u64);
        for _ in 0..1_000_000 {
            let (gap, len) = process.next(&mut draws).unwrap();
            time += gap.0;
            bits += u64::from(len) * 8;
        }
        (1e15 / time as f64, bits as f64 * 1e9 / time as f64)
    }

    #[test]
    fn the_mean_rate_of_poisson_arrivals_is_the_configured_rate() {
        let (packets, bits) = rates(Renewal::new(1000, Variable::Exponential { mean: 8e6 }));
        // One standard deviation of a mean of 10^6 exponential gaps is 0.1 %.
        assert!((packets / 125.0 - 1.0).abs() < 0.004, "{packets}");
        assert!((bits / 1e6 - 1.0).abs() < 0.004, "{bits}");
    }

    #[test]
    fn pareto_gaps_have_the_published_mean_and_never_fall_below_their_scale() {
        let gap = Variable::Pareto { shape: 2.0, scale: 4e6 };
        assert_eq!(gap.mean(), Some(8e6));
        let mut process = Renewal::new(1000, gap);
        let mut draws = Draws::new(11, 5, 1);
        assert!((0..100_000).all(|_| process.next(&mut draws).unwrap().0 >= Nanos(4_000_000)));
        // The variance is infinite, so the mean converges slowly.
        let (packets, _) = rates(process);
        assert!((packets / 125.0 - 1.0).abs() < 0.03, "{packets}");
    }

    #[test]
    fn a_mix_has_its_rate_and_its_shares() {
        for exponential in [false, true] {
            let mix = Mix::new(&[(40, 7.0), (576, 4.0), (1500, 1.0)], 10_000_000, exponential);
            let (packets, bits) = rates(mix.clone());
            assert!((bits / 1e7 - 1.0).abs() < 0.006, "{bits}");
            let mean = (7.0 * 40.0 + 4.0 * 576.0 + 1500.0) / 12.0;
            assert!((packets / (1e7 / 8.0 / mean) - 1.0).abs() < 0.004, "{packets}");
            let (mut mix, mut draws) = (mix, Draws::new(2, 2, 1));
            let small =
                (0..120_000).filter(|_| mix.next(&mut draws).unwrap().1 == 40).count() as f64;
            assert!(
                (small - 70_000.0).abs() < 4.0 * libm::sqrt(120_000.0 * 7.0 / 12.0 * 5.0 / 12.0),
                "{small}"
            );
        }
    }
}
