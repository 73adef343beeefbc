//! The rate, delay and loss of a link that change over time, as means over a span of time.

use core::ops::Range;

use super::{Capacity, Step};
use crate::config::LinkConfig;
use crate::units::Nanos;

/// The configured rate, propagation delay and loss of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfiguredMeans {
    /// The mean rate in bit/s; `None` if there is no limit, even for a part of the span.
    pub rate_bps: Option<u64>,
    /// The mean delay.
    pub delay: Nanos,
    /// The mean share of packets that the link loses; `None` without loss.
    pub loss: Option<f64>,
    /// Whether the rate changes, so that it is a mean.
    pub rate_varies: bool,
    /// Whether the delay changes, so that it is a mean.
    pub delay_varies: bool,
    /// Whether the loss changes, so that it is a mean over time. The share of lost packets differs
    /// from it if more packets are sent at one time than at another.
    pub loss_varies: bool,
}

impl LinkConfig {
    /// The mean rate, delay and loss of this link over a span of time, counted from its start. Each
    /// value is weighted by the time for which it applies. An empty span has the values that apply
    /// at its start.
    ///
    /// Without a span: over one period of a repeating schedule, otherwise over all its steps; the
    /// last step, which does not end, then counts as long as the step before it. The rate of a
    /// trace is always its mean over one period.
    #[must_use]
    pub fn means(&self, span: Option<Range<Nanos>>) -> ConfiguredMeans {
        let first =
            Values { rate_bps: bps(&self.capacity), delay: self.delay, loss: self.loss.mean() };
        let Some(schedule) = &self.schedule else {
            let mut sum = Sum::default();
            sum.add(first, 1, 1);
            return sum.means(self);
        };
        let steps = schedule.steps();
        // In a repeating schedule, each period begins with the values at the end of the period
        // before it.
        let again = steps.iter().fold(first, |values, (_, step)| values.after(step));
        let until = |end: Nanos| {
            let mut sum = Sum::default();
            match schedule.period() {
                Some(period) if end >= period => {
                    let (rounds, rest) = (end.0 / period.0, Nanos(end.0 % period.0));
                    sum.add_steps(first, steps, period, 1);
                    sum.add_steps(again, steps, period, rounds - 1);
                    sum.add_steps(again, steps, rest, 1);
                }
                _ => sum.add_steps(first, steps, end, 1),
            }
            sum
        };
        let sum = match (span, schedule.period()) {
            (Some(span), _) if span.start < span.end => until(span.end).less(&until(span.start)),
            (Some(span), _) => {
                let now = schedule.last_step_until(span.start);
                let now = now.map(|number| schedule.in_force_after(number));
                let mut sum = Sum::default();
                sum.add(now.map_or(first, |step| first.after(&step)), 1, 1);
                sum
            }
            (None, Some(period)) => {
                let mut sum = Sum::default();
                sum.add_steps(again, steps, period, 1);
                sum
            }
            (None, None) => {
                let at = |back: usize| {
                    steps.len().checked_sub(back).map_or(Nanos::ZERO, |number| steps[number].0)
                };
                let last = at(1);
                until(last.saturating_add(Nanos(last.since(at(2)).0.max(1))))
            }
        };
        sum.means(self)
    }
}

/// The values in force at a time.
#[derive(Clone, Copy, PartialEq)]
struct Values {
    rate_bps: Option<u64>,
    delay: Nanos,
    loss: Option<f64>,
}

impl Values {
    fn after(self, step: &Step) -> Self {
        Self {
            rate_bps: step.capacity.as_ref().map_or(self.rate_bps, bps),
            delay: step.delay.unwrap_or(self.delay),
            loss: step.loss.map_or(self.loss, |loss| loss.mean()),
        }
    }
}

/// Sums of values times the time for which they were in force, in ns.
#[derive(Default)]
struct Sum {
    bits: u128,
    delays: u128,
    losses: f64,
    lasts: u128,
    /// Time without a limit of the rate.
    unlimited: u128,
    /// The first values, to which the others are compared.
    first: Option<Values>,
    rate_varies: bool,
    delay_varies: bool,
    loss_varies: bool,
    has_loss: bool,
}

impl Sum {
    /// Adds values that were in force for `lasts` ns, `times` times.
    fn add(&mut self, values: Values, lasts: u64, times: u64) {
        let lasts = u128::from(lasts) * u128::from(times);
        if lasts == 0 {
            return;
        }
        let first = *self.first.get_or_insert(values);
        self.rate_varies |= first.rate_bps != values.rate_bps;
        self.delay_varies |= first.delay != values.delay;
        self.loss_varies |= first.loss != values.loss;
        self.has_loss |= values.loss.is_some();
        self.lasts += lasts;
        self.delays += u128::from(values.delay.0) * lasts;
        self.losses += values.loss.unwrap_or(0.0) * lasts as f64;
        match values.rate_bps {
            Some(rate) => self.bits += u128::from(rate) * lasts,
            None => self.unlimited += lasts,
        }
    }

    /// Adds the values of steps until `end`, `times` times. `values` are in force at the beginning.
    fn add_steps(&mut self, mut values: Values, steps: &[(Nanos, Step)], end: Nanos, times: u64) {
        let mut since = Nanos::ZERO;
        for (at, step) in steps.iter().take_while(|(at, _)| *at < end) {
            self.add(values, at.since(since).0, times);
            (since, values) = (*at, values.after(step));
        }
        self.add(values, end.since(since).0, times);
    }

    /// This sum without the beginning that `other` has summed up.
    fn less(mut self, other: &Self) -> Self {
        self.bits -= other.bits;
        self.delays -= other.delays;
        self.losses -= other.losses;
        self.lasts -= other.lasts;
        self.unlimited -= other.unlimited;
        self
    }

    /// The means over the time that was added, which is not zero.
    fn means(&self, link: &LinkConfig) -> ConfiguredMeans {
        let mean = |sum: u128| u64::try_from(sum / self.lasts.max(1)).unwrap_or(u64::MAX);
        ConfiguredMeans {
            rate_bps: (self.unlimited == 0).then(|| mean(self.bits)),
            delay: Nanos(mean(self.delays)),
            loss: self.has_loss.then(|| (self.losses / self.lasts.max(1) as f64).clamp(0.0, 1.0)),
            rate_varies: self.rate_varies || matches!(link.capacity, Capacity::Trace(_)),
            delay_varies: self.delay_varies,
            loss_varies: self.loss_varies,
        }
    }
}

/// The rate in bit/s, as the mean of a trace; `None` without a limit.
fn bps(capacity: &Capacity) -> Option<u64> {
    match capacity {
        Capacity::Unlimited => None,
        limited => Some(limited.mean_bps()),
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use super::*;
    use crate::link::{Loss, Schedule};
    use crate::units::{Probability, Rate};

    fn constant(mbit: u64) -> Capacity {
        Rate::new(mbit * 1_000_000).map_or(Capacity::Unlimited, Capacity::Constant)
    }

    /// A link of 8 Mbit/s with changes at these times in seconds to these rates in Mbit/s; 0 is
    /// unlimited.
    fn link(steps: &[(u64, u64)], period: Option<u64>) -> LinkConfig {
        let steps: Vec<_> = steps
            .iter()
            .map(|&(at, mbit)| {
                let delay = Some(Nanos::from_millis(mbit));
                (Nanos::from_secs(at), Step { capacity: Some(constant(mbit)), delay, loss: None })
            })
            .collect();
        let schedule = Schedule::new(steps, period.map(Nanos::from_secs)).unwrap();
        LinkConfig {
            capacity: constant(8),
            schedule: Some(Arc::new(schedule)),
            ..LinkConfig::default()
        }
    }

    /// The mean rate in kbit/s over these seconds.
    fn mean(link: &LinkConfig, from: u64, to: u64) -> Option<u64> {
        let means = link.means(Some(Nanos::from_secs(from)..Nanos::from_secs(to)));
        means.rate_bps.map(|bps| bps / 1000)
    }

    #[test]
    fn a_mean_is_over_the_span() {
        let once = link(&[(0, 10), (5, 1)], None);
        assert_eq!(mean(&once, 0, 20), Some(3250), "5 s of 10 and 15 s of 1 Mbit/s");
        assert_eq!(mean(&once, 0, 5), Some(10_000));
        assert_eq!(mean(&once, 4, 8), Some(3250));
        assert_eq!(mean(&once, 5, 5), Some(1000), "the value at this time");
        assert_eq!(mean(&link(&[(2, 4)], None), 0, 4), Some(6000));
        assert_eq!(mean(&link(&[(2, 0)], None), 0, 4), None, "unlimited for a part");
        assert_eq!(mean(&link(&[(2, 0)], None), 0, 2), Some(8000));
    }

    #[test]
    fn a_mean_counts_all_periods() {
        let repeated = link(&[(1, 2), (3, 6)], Some(4));
        // 8, 2, 2, 6; then 6, 2, 2, 6 in each further period.
        assert_eq!(mean(&repeated, 0, 4), Some(4500));
        assert_eq!(mean(&repeated, 0, 8), Some(4250));
        assert_eq!(mean(&repeated, 4, 10), Some(4000));
        assert_eq!(mean(&repeated, 0, 1_000_000_000), Some(4000));
        assert_eq!(repeated.means(None).rate_bps, Some(4_000_000));
    }

    #[test]
    fn a_loss_counts_as_long_as_it_is_in_force() {
        let loss = |share| Some(Loss::Bernoulli(Probability::new(share).unwrap()));
        let steps = [(0, None), (2, loss(0.5)), (3, Some(Loss::None))];
        let steps =
            steps.map(|(at, loss)| (Nanos::from_secs(at), Step { loss, ..Step::default() }));
        let schedule = Some(Arc::new(Schedule::new(steps.into(), None).unwrap()));
        let link = LinkConfig { schedule, ..LinkConfig::default() };
        let until = |end| link.means(Some(Nanos::ZERO..Nanos::from_secs(end)));
        assert_eq!((until(2).loss, until(2).loss_varies), (None, false));
        assert_eq!(until(4).loss.map(|share| (share * 1e6).round()), Some(125_000.0));
        assert!(until(4).loss_varies);
    }

    #[test]
    fn only_a_value_that_changes_is_a_mean() {
        let constant = LinkConfig { capacity: constant(8), ..LinkConfig::default() }.means(None);
        assert_eq!((constant.rate_bps, constant.rate_varies), (Some(8_000_000), false));
        let later = link(&[(5, 1)], None);
        let span = |end| later.means(Some(Nanos::ZERO..Nanos::from_secs(end)));
        assert!(!span(5).rate_varies && !span(5).delay_varies);
        assert!(span(6).rate_varies && span(6).delay_varies);
        assert_eq!(later.means(Some(Nanos::ZERO..Nanos::ZERO)).rate_bps, Some(8_000_000));
    }
}
