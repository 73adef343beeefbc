//! Impairments on the link other than loss: duplication, corruption, jitter and reordering.
//!
//! Each impairment has its own seeded stream, so that another impairment does not change its draws.
//! A link without impairments does not allocate this state.

use alloc::boxed::Box;

use crate::config::{Jitter, LinkConfig, Reorder};
use crate::dist::{CorrelatedUniform, NormalTables};
use crate::packet::Corruption;
use crate::rng::{Purpose, Stream};
use crate::units::{Nanos, Probability};

#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    duplicate: Probability,
    duplicate_stream: Stream,
    corrupt: Probability,
    corrupt_stream: Stream,
    jitter: Option<Jitter>,
    jitter_stream: Stream,
    /// The correlated numbers from which jitter follows.
    jitter_source: CorrelatedUniform,
    reorder: Option<Reorder>,
    reorder_stream: Stream,
    /// The correlated numbers that decide about reordering.
    reorder_source: CorrelatedUniform,
    /// Number of packets since the last packet that skipped the delay line, counted only up to
    /// [`Reorder::gap`] − 1.
    since_reordered: u32,
}

/// How a packet crosses the delay line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The time from the end of the wire to the end of the link.
    pub(crate) delay: Nanos,
    /// Whether the packet may overtake packets in the delay line.
    pub(crate) may_overtake: bool,
    /// Whether the packet skips the delay line.
    pub(crate) reordered: bool,
}

impl Impairments {
    /// The state for a configuration; `None` if it contains no impairment.
    pub(crate) fn new(config: &LinkConfig, seed: u64, path: u64) -> Option<Box<Self>> {
        let nothing = config.duplicate.is_zero()
            && config.corrupt.is_zero()
            && config.jitter.is_none()
            && config.reorder.is_none();
        if nothing {
            return None;
        }
        let stream = |purpose| Stream::new(seed, path, purpose);
        Some(Box::new(Self {
            duplicate: config.duplicate,
            duplicate_stream: stream(Purpose::Duplicate),
            corrupt: config.corrupt,
            corrupt_stream: stream(Purpose::Corrupt),
            jitter_source: CorrelatedUniform::new(
                config.jitter.as_ref().map_or(Probability::ZERO, |j| j.correlation),
            ),
            jitter: config.jitter.clone(),
            jitter_stream: stream(Purpose::Jitter),
            reorder_source: CorrelatedUniform::new(
                config.reorder.map_or(Probability::ZERO, |r| r.correlation),
            ),
            reorder: config.reorder,
            reorder_stream: stream(Purpose::Reorder),
            since_reordered: 0,
        }))
    }

    /// Whether a configuration needs [`NormalTables`].
    pub(crate) fn is_correlated(config: &LinkConfig) -> bool {
        config.jitter.as_ref().is_some_and(|j| !j.correlation.is_zero())
            || config.reorder.is_some_and(|r| !r.correlation.is_zero())
    }

    /// Applies another configuration; the random streams continue.
    pub(crate) fn reconfigure(
        old: Option<Box<Self>>,
        config: &LinkConfig,
        seed: u64,
        path: u64,
    ) -> Option<Box<Self>> {
        let mut new = Self::new(config, seed, path)?;
        if let Some(old) = old {
            new.duplicate_stream = old.duplicate_stream;
            new.corrupt_stream = old.corrupt_stream;
            new.jitter_stream = old.jitter_stream;
            new.reorder_stream = old.reorder_stream;
        }
        Some(new)
    }

    pub(crate) fn next_is_duplicated(&mut self) -> bool {
        !self.duplicate.is_zero() && self.duplicate_stream.happens(self.duplicate)
    }

    /// The bit that the link inverts in the next packet, or none.
    pub(crate) fn next_corruption(&mut self) -> Corruption {
        if self.corrupt.is_zero() || !self.corrupt_stream.happens(self.corrupt) {
            return Corruption::NONE;
        }
        // The top bit is cleared, because the largest number means "none".
        Corruption::of_bit(self.corrupt_stream.bits32() >> 1)
    }

    /// How the next packet crosses a delay line with this `delay`.
    pub(crate) fn next_crossing(
        &mut self,
        delay: Nanos,
        tables: Option<&NormalTables>,
    ) -> Crossing {
        if self.skips_the_line(tables) {
            return Crossing { delay: Nanos::ZERO, may_overtake: true, reordered: true };
        }
        let Some(jitter) = &self.jitter else {
            return Crossing { delay, may_overtake: false, reordered: false };
        };
        let uniform = self.jitter_source.next(&mut self.jitter_stream, tables);
        let deviation = jitter.distribution.deviation(uniform, jitter.amount);
        Crossing {
            delay: Nanos(delay.0.saturating_add_signed(deviation)),
            may_overtake: jitter.may_reorder,
            reordered: false,
        }
    }

    fn skips_the_line(&mut self, tables: Option<&NormalTables>) -> bool {
        let Some(reorder) = self.reorder else { return false };
        if self.since_reordered + 1 < reorder.gap {
            self.since_reordered += 1;
            return false;
        }
        // The draw has 63 bits, like the probability, so that a probability of 1 is certain.
        let draw = u64::from(self.reorder_source.next(&mut self.reorder_stream, tables)) << 31;
        let skips = draw < reorder.probability.raw();
        if skips {
            self.since_reordered = 0;
        }
        skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Distribution;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    fn p(x: f64) -> Probability {
        Probability::new(x).unwrap()
    }

    #[test]
    fn nothing_configured_costs_nothing() {
        assert!(Impairments::new(&LinkConfig::default(), 1, 1).is_none());
    }

    #[test]
    fn one_impairment_does_not_disturb_another() {
        let only = LinkConfig { corrupt: p(0.1), ..LinkConfig::default() };
        let both = LinkConfig { duplicate: p(0.5), ..only.clone() };
        let draws = |config: &LinkConfig| -> Vec<_> {
            let mut state = Impairments::new(config, 5, 5).unwrap();
            (0..1000).map(|_| (state.next_is_duplicated(), state.next_corruption()).1).collect()
        };
        assert_eq!(draws(&only), draws(&both));
    }

    #[test]
    fn every_gap_th_packet_is_the_candidate() {
        let config = LinkConfig {
            reorder: Some(Reorder { probability: Probability::ONE, gap: 5, correlation: p(0.0) }),
            ..LinkConfig::default()
        };
        let mut state = Impairments::new(&config, 1, 1).unwrap();
        let skipped: Vec<bool> =
            (0..10).map(|_| state.next_crossing(Nanos(1), None).reordered).collect();
        assert_eq!(skipped, [false, false, false, false, true, false, false, false, false, true]);
    }

    #[test]
    fn jitter_is_around_the_delay_and_never_negative() {
        let jitter = Jitter {
            amount: Nanos(1000),
            distribution: Arc::new(Distribution::uniform()),
            correlation: p(0.0),
            may_reorder: true,
        };
        let config = LinkConfig { jitter: Some(jitter), ..LinkConfig::default() };
        let mut state = Impairments::new(&config, 1, 1).unwrap();
        let delays: Vec<u64> =
            (0..10_000).map(|_| state.next_crossing(Nanos(2000), None).delay.0).collect();
        let mean = delays.iter().sum::<u64>() / 10_000;
        assert!((1980..=2020).contains(&mean), "{mean}");
        assert!(delays.iter().all(|d| (1000..=3000).contains(d)));
        assert!((0..1000).any(|_| state.next_crossing(Nanos(0), None).delay == Nanos(0)));
    }
}
