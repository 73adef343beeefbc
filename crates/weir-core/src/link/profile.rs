//! Air-time profiles: a distribution of the additional time for which each packet occupies the
//! link.
//!
//! # Model
//! A profile gives the time that framing, contention and retransmission add to a packet's
//! serialisation. A profile reduces throughput and never reorders packets. If a draw is above the
//! loss level, the packet is lost after its air-time.
//!
//! # Reference
//! dummynet's `profile` files. The points of the cumulative curve are sorted and interpolated into
//! equally likely samples. With the time on the horizontal axis, samples are equal where the curve
//! is vertical, and jump where the curve is horizontal.
//!
//! # Differences from FreeBSD
//! Samples are in nanoseconds, not truncated to whole milliseconds. The additional time does not
//! depend on the link's rate, and also applies to a link without a rate.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::fingerprint::Fingerprint;
use crate::units::{Nanos, Probability};

/// A distribution of additional air-time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    fingerprint: Fingerprint,
    name: String,
    samples: Vec<Nanos>,
    /// A packet is lost if it draws a sample with this index or a higher index.
    loss_from: usize,
    loss_level: Probability,
}

impl Hash for Profile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// Why points do not form a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Fewer than two points.
    #[error("a profile needs at least two points, found {0}")]
    TooFewPoints(usize),
    /// The number of samples is out of range.
    #[error("the number of samples must be 2 to {MAX_SAMPLES}, found {0}")]
    Samples(usize),
}

impl Profile {
    /// Makes a profile from points (probability, delay) of the cumulative curve, in any order.
    ///
    /// `samples` quantiles are taken at equal steps of probability; `loss_level` is the quantile
    /// above which the packet is lost.
    ///
    /// # Errors
    /// Fewer than two points, or `samples` outside 2..=[`MAX_SAMPLES`].
    pub fn new(
        name: String,
        mut points: Vec<(Probability, Nanos)>,
        samples: usize,
        loss_level: Probability,
    ) -> Result<Self, ProfileError> {
        if points.len() < 2 {
            return Err(ProfileError::TooFewPoints(points.len()));
        }
        if !(2..=MAX_SAMPLES).contains(&samples) {
            return Err(ProfileError::Samples(samples));
        }
        points.sort_unstable();
        let quantile =
            |i: usize| interpolate(&points, Probability::ONE.raw() / samples as u64 * i as u64);
        let samples: Vec<Nanos> = (0..samples).map(quantile).collect();
        let one = u128::from(Probability::ONE.raw());
        let loss_from =
            ((u128::from(loss_level.raw()) * samples.len() as u128 + one / 2) / one) as usize;
        let fingerprint = Fingerprint::of(&samples);
        Ok(Self { fingerprint, name, samples, loss_from, loss_level })
    }

    /// The name of the profile in its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The samples, ascending.
    pub fn samples(&self) -> &[Nanos] {
        &self.samples
    }

    /// The bytes that the samples take in memory.
    pub fn memory(&self) -> usize {
        size_of_val(self.samples.as_slice())
    }

    /// The quantile above which a packet is lost.
    pub fn loss_level(&self) -> Probability {
        self.loss_level
    }

    /// The additional air-time for a draw, and whether the packet is lost. `draw` is uniform over
    /// all values of the type.
    pub fn draw(&self, draw: u32) -> (Nanos, bool) {
        let index = ((u64::from(draw) * self.samples.len() as u64) >> 32) as usize;
        (self.samples[index], index >= self.loss_from)
    }
}

/// The additional time at probability `p` (63-bit fixed point) on the curve through the sorted
/// `points`.
fn interpolate(points: &[(Probability, Nanos)], p: u64) -> Nanos {
    let upper = points.partition_point(|&(x, _)| x.raw() <= p);
    let Some(&(x1, y1)) = points.get(upper) else {
        return points[points.len() - 1].1;
    };
    let Some(&(x0, y0)) = upper.checked_sub(1).and_then(|i| points.get(i)) else {
        return y1;
    };
    let rise = u128::from(y1.0.saturating_sub(y0.0)) * u128::from(p - x0.raw())
        / u128::from(x1.raw() - x0.raw());
    if y1 >= y0 { Nanos(y0.0 + rise as u64) } else { y0 }
}

/// Maximum number of samples of a profile.
pub const MAX_SAMPLES: usize = 1_000_000;
/// Number of samples if the file does not specify it.
pub const DEFAULT_SAMPLES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn p(x: f64) -> Probability {
        Probability::new(x).unwrap()
    }

    #[test]
    fn samples_interpolate_between_points_without_truncation() {
        let profile = Profile::new(
            "t".into(),
            vec![(p(1.0), Nanos(1_500_000)), (p(0.0), Nanos(500_000))],
            4,
            p(1.0),
        )
        .unwrap();
        assert_eq!(
            profile.samples(),
            [Nanos(500_000), Nanos(750_000), Nanos(1_000_000), Nanos(1_250_000)]
        );
        assert_eq!(profile.draw(u32::MAX), (Nanos(1_250_000), false));
    }

    #[test]
    fn a_horizontal_step_jumps_to_the_larger_delay() {
        let points = vec![
            (p(0.0), Nanos(0)),
            (p(0.5), Nanos(0)),
            (p(0.5), Nanos(100)),
            (p(1.0), Nanos(100)),
        ];
        let profile = Profile::new("t".into(), points, 4, p(1.0)).unwrap();
        assert_eq!(profile.samples(), [Nanos(0), Nanos(0), Nanos(100), Nanos(100)]);
    }

    #[test]
    fn draws_above_the_loss_level_are_lost() {
        let profile =
            Profile::new("t".into(), vec![(p(0.0), Nanos(0)), (p(1.0), Nanos(10))], 10, p(0.8))
                .unwrap();
        let lost = (0..10)
            .filter(|i| profile.draw((u64::from(u32::MAX) * (2 * i + 1) / 20) as u32).1)
            .count();
        assert_eq!(lost, 2);
    }

    #[test]
    fn too_few_points_and_too_few_samples_are_refused() {
        assert_eq!(
            Profile::new("t".into(), vec![(p(0.0), Nanos(0))], 10, p(1.0)),
            Err(ProfileError::TooFewPoints(1))
        );
        let two = vec![(p(0.0), Nanos(0)), (p(1.0), Nanos(0))];
        assert_eq!(Profile::new("t".into(), two, 1, p(1.0)), Err(ProfileError::Samples(1)));
    }
}
