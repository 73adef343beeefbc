//! The rate, delay and loss of a link that change over time, as means over a span of time.

use core::ops::Range;

use super::sums::{ConfiguredMeans, Sum, Values, Whole, bps};
use super::{Capacity, Schedule};
use crate::config::LinkConfig;
use crate::units::Nanos;

impl LinkConfig {
    /// The mean rate, delay and loss of this link over a span of time, counted from its start. Each
    /// value is weighted by the time for which it applies. An empty span has the values that apply
    /// at its start.
    ///
    /// Without a span: over one period of a repeating schedule, otherwise over all its steps; the
    /// last step, which does not end, then counts as long as the step before it. These means do not
    /// visit the steps. The rate of a trace is always its mean over one period.
    #[must_use]
    pub fn means(&self, span: Option<Range<Nanos>>) -> ConfiguredMeans {
        let constant = Values {
            rate_bps: Some(bps(&self.capacity)),
            delay: Some(self.delay),
            loss: Some(self.loss.mean()),
        };
        let (sum, initial) = match (&self.schedule, span) {
            (Some(schedule), None) => {
                let Whole { sum, last } = schedule.whole();
                // Each period begins with the values at the end of the period before it.
                let before = if schedule.period().is_some() { *last } else { Values::default() };
                (sum.clone(), before.or(constant))
            }
            (Some(schedule), Some(span)) if span.start < span.end => {
                (between(schedule, span.start, span.end), constant)
            }
            (Some(schedule), Some(span)) => {
                let now = schedule.last_step_until(span.start);
                let now = now.map(|number| schedule.in_force_after(number));
                let values = now.map_or(Values::default(), |step| Values::default().after(&step));
                (Sum::of(values), constant)
            }
            (None, _) => (Sum::of(constant), constant),
        };
        let means = sum.means(initial);
        let varies = means.rate_varies || matches!(self.capacity, Capacity::Trace(_));
        ConfiguredMeans { rate_varies: varies, ..means }
    }
}

/// The values of a schedule from `start` to the later time `end`.
fn between(schedule: &Schedule, start: Nanos, end: Nanos) -> Sum {
    let (steps, mut sum) = (schedule.steps(), Sum::default());
    let Some(period) = schedule.period() else {
        sum.add_steps(Values::default(), steps, start..end, 1);
        return sum;
    };
    let values_in = |round: u64| if round == 0 { Values::default() } else { schedule.whole().last };
    let split = |at: Nanos| (at.0 / period.0, Nanos(at.0 % period.0));
    let ((first, from), (last, until)) = (split(start), split(end));
    if first == last {
        sum.add_steps(values_in(first), steps, from..until, 1);
    } else {
        sum.add_steps(values_in(first), steps, from..period, 1);
        sum.add_steps(values_in(1), steps, Nanos::ZERO..period, last - first - 1);
        sum.add_steps(values_in(1), steps, Nanos::ZERO..until, 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use super::*;
    use crate::link::{Loss, Step};
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
    fn a_mean_over_all_steps_is_that_of_the_steps() {
        for period in [None, Some(7), Some(9)] {
            for steps in [&[(2, 4)][..], &[(0, 1), (3, 6)], &[(1, 2), (3, 0), (6, 5)]] {
                let link = link(steps, period);
                let (last, before) = (steps[steps.len() - 1].0, steps.len().checked_sub(2));
                let gap = last - before.map_or(0, |number| steps[number].0);
                let span = match period {
                    // The values before the first step are those at the end of the first period.
                    Some(period) => period..2 * period,
                    None => 0..last + gap,
                };
                let span = Nanos::from_secs(span.start)..Nanos::from_secs(span.end);
                assert_eq!(link.means(None), link.means(Some(span)), "{steps:?} {period:?}");
            }
        }
    }

    #[test]
    fn values_before_and_after_the_span_do_not_count() {
        let once = link(&[(0, 10), (5, 1), (9, 3)], None);
        let means = |from, to| once.means(Some(Nanos::from_secs(from)..Nanos::from_secs(to)));
        assert!(!means(5, 9).rate_varies && !means(6, 8).delay_varies);
        assert!(means(4, 6).rate_varies && means(8, 10).rate_varies);
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
