//! The means of a link's rate, delay and loss over a span of time in which a schedule or new
//! configurations change them.

use core::ops::Range;

use super::sums::{ConfiguredMeans, Sum, Totals, Values, bps};
use super::{Capacity, Schedule};
use crate::config::LinkConfig;
use crate::units::Nanos;

impl LinkConfig {
    /// The mean rate, delay and loss of this link over `span`, in time since the start of the link.
    /// Each value is weighted by the time for which it applies. An empty span has the values that
    /// apply at its start.
    ///
    /// Without a span, the means are over one period of the schedule. For a schedule that does not
    /// repeat, they are over all its steps, and the last step counts as long as the step before it.
    /// These means are stored with the schedule. The rate of a trace is always its mean over one
    /// period.
    #[must_use]
    pub fn means(&self, span: Option<Range<Nanos>>) -> ConfiguredMeans {
        let (sum, initial) = match (&self.schedule, span) {
            (Some(schedule), None) => {
                let Totals { sum, last } = schedule.totals();
                // Each period begins with the values at the end of the period before it.
                let before = if schedule.period().is_some() { *last } else { Values::default() };
                (sum.clone(), before)
            }
            (Some(schedule), Some(span)) if span.start < span.end => {
                (between(schedule, span.start, span.end, None).0, Values::default())
            }
            (Some(schedule), Some(span)) => {
                let number = schedule.last_step_until(span.start);
                let step = number.map(|number| schedule.in_force_after(number));
                let values = step.map_or(Values::default(), |step| Values::default().after(&step));
                (Sum::of(values), Values::default())
            }
            (None, _) => (Sum::of(self.constant()), Values::default()),
        };
        self.marked(sum.resolved(initial.or(self.constant())).means())
    }

    /// The values without the schedule.
    fn constant(&self) -> Values {
        Values {
            rate_bps: Some(bps(&self.capacity)),
            delay: Some(self.delay),
            loss: Some(self.loss.mean()),
        }
    }

    /// The same means, with a rate that varies if the capacity is a trace.
    fn marked(&self, means: ConfiguredMeans) -> ConfiguredMeans {
        let varies = means.rate_varies || matches!(self.capacity, Capacity::Trace(_));
        ConfiguredMeans { rate_varies: varies, ..means }
    }
}

/// The configurations that a link has had, one after another, for means over all of them. Times
/// count from the start of the link.
#[derive(Clone, Debug, Default)]
pub struct LinkHistory {
    /// The sum over the earlier configurations.
    past: Sum,
    /// Whether an earlier configuration had a trace.
    had_trace: bool,
    /// When the current configuration came into force.
    since: Nanos,
    /// When the current schedule began.
    origin: Nanos,
    /// The values in force at `since`; `None` if the schedule began at that time.
    inherited: Option<Values>,
}

impl LinkHistory {
    /// Records that `new` replaces `old` at time `at`, or at the last change if that is later. As
    /// in the engine, an unchanged schedule continues, and its values stay in force, except those
    /// that `new` changes.
    pub fn change(&mut self, at: Nanos, old: &LinkConfig, new: &LinkConfig) {
        let at = at.max(self.since);
        let (sum, last) = self.span(old, at);
        self.past.merge(&sum);
        self.had_trace |= matches!(old.capacity, Capacity::Trace(_));
        self.since = at;
        if old.schedule == new.schedule {
            let values = new.constant();
            let changed = Values {
                rate_bps: values.rate_bps.filter(|_| new.capacity != old.capacity),
                delay: values.delay.filter(|_| new.delay != old.delay),
                loss: values.loss.filter(|_| new.loss != old.loss),
            };
            self.inherited = Some(changed.or(last));
        } else {
            (self.origin, self.inherited) = (at, None);
        }
    }

    /// The means from the start of the link to `until`. `current` is the current configuration. If
    /// no time has passed, these are the values of `current`.
    #[must_use]
    pub fn means(&self, current: &LinkConfig, until: Nanos) -> ConfiguredMeans {
        let mut sum = self.span(current, until.max(self.since)).0;
        sum.merge(&self.past);
        if sum.is_empty() {
            return current.means(Some(Nanos::ZERO..Nanos::ZERO));
        }
        let means = current.marked(sum.means());
        ConfiguredMeans { rate_varies: means.rate_varies || self.had_trace, ..means }
    }

    /// The sum from the last change to `until`, and the values in force at `until`. No value is
    /// unset.
    fn span(&self, config: &LinkConfig, until: Nanos) -> (Sum, Values) {
        let (start, end) = (self.since.since(self.origin), until.since(self.origin));
        let initial = self.inherited.unwrap_or_default().or(config.constant());
        let (sum, last) = match &config.schedule {
            Some(schedule) => between(schedule, start, end, self.inherited),
            None => {
                let mut sum = Sum::default();
                let last = sum.add_steps(initial, &[], start..end, 1);
                (sum, last)
            }
        };
        (sum.resolved(initial), last.or(initial))
    }
}

/// The sum of a schedule's values from `start` to `end`, and the values at `end`. `inherited` are
/// the values in force at `start`; `None` means those that the schedule has set until then.
fn between(
    schedule: &Schedule,
    start: Nanos,
    end: Nanos,
    inherited: Option<Values>,
) -> (Sum, Values) {
    let (steps, mut sum) = (schedule.steps(), Sum::default());
    let later = |from: Nanos| match inherited {
        Some(_) => &steps[steps.partition_point(|(at, _)| *at < from)..],
        None => steps,
    };
    let Some(period) = schedule.period() else {
        let values = inherited.unwrap_or_default();
        let last = sum.add_steps(values, later(start), start..end, 1);
        return (sum, last);
    };
    let values_in =
        |round: u64| if round == 0 { Values::default() } else { schedule.totals().last };
    let split = |at: Nanos| (at.0 / period.0, Nanos(at.0 % period.0));
    let ((first, from), (last, until)) = (split(start), split(end));
    let values = inherited.unwrap_or_else(|| values_in(first));
    if first == last {
        let values = sum.add_steps(values, later(from), from..until, 1);
        return (sum, values);
    }
    sum.add_steps(values, later(from), from..period, 1);
    sum.add_steps(values_in(1), steps, Nanos::ZERO..period, last - first - 1);
    let values = sum.add_steps(values_in(1), steps, Nanos::ZERO..until, 1);
    (sum, values)
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

    fn history(changes: &[(u64, LinkConfig)], first: &LinkConfig) -> (LinkHistory, LinkConfig) {
        let (mut history, mut now) = (LinkHistory::default(), first.clone());
        for (at, new) in changes {
            history.change(Nanos::from_secs(*at), &now, new);
            now = new.clone();
        }
        (history, now)
    }

    /// The mean rate in kbit/s over the first `until` seconds.
    fn mean_of(changes: &[(u64, LinkConfig)], first: &LinkConfig, until: u64) -> Option<u64> {
        let (history, now) = history(changes, first);
        history.means(&now, Nanos::from_secs(until)).rate_bps.map(|bps| bps / 1000)
    }

    fn plain(mbit: u64) -> LinkConfig {
        LinkConfig { capacity: constant(mbit), ..LinkConfig::default() }
    }

    fn with_loss(link: &LinkConfig) -> LinkConfig {
        LinkConfig { loss: Loss::Bernoulli(Probability::new(0.5).unwrap()), ..link.clone() }
    }

    #[test]
    fn each_configuration_counts_as_long_as_it_was_in_force() {
        let changes = [(5, plain(2)), (15, plain(5))];
        assert_eq!(mean_of(&changes, &plain(8), 20), Some(4250), "5 s of 8, 10 of 2, 5 of 5");
        assert_eq!(mean_of(&changes[..1], &plain(8), 5), Some(8000), "just changed");
        assert_eq!(mean_of(&changes[..1], &plain(8), 0), Some(8000), "not before the change");
        assert_eq!(mean_of(&[(0, plain(2))], &plain(8), 0), Some(2000), "no time has passed");
        assert_eq!(mean_of(&[(5, plain(0))], &plain(8), 6), None, "unlimited for a part");

        let (never, now) = history(&[], &plain(8));
        assert!(!never.means(&now, Nanos::from_secs(9)).rate_varies);
        let (same, now) = history(&[(5, plain(8))], &plain(8));
        assert!(!same.means(&now, Nanos::from_secs(9)).rate_varies);
        let (other, now) = history(&[(5, plain(2)), (6, plain(8))], &plain(8));
        let means = other.means(&now, Nanos::from_secs(9));
        assert!(means.rate_varies && !means.delay_varies && !means.loss_varies);
    }

    #[test]
    fn a_schedule_continues_after_a_change_of_something_else() {
        let scheduled = link(&[(0, 10), (5, 1)], None);
        let lossy = with_loss(&scheduled);
        for at in [1, 5, 7, 20] {
            let mean = mean_of(&[(at, lossy.clone())], &scheduled, 20);
            assert_eq!(mean, Some(3250), "changed after {at} s");
        }
        let repeated = link(&[(1, 2), (3, 6)], Some(4));
        let lossy = with_loss(&repeated);
        for at in [0, 2, 3, 4, 6, 9, 10] {
            let mean = mean_of(&[(at, lossy.clone())], &repeated, 10);
            assert_eq!(mean, mean_of(&[], &repeated, 10), "changed after {at} s");
        }
    }

    #[test]
    fn a_changed_rate_is_in_force_until_the_schedule_sets_the_next_one() {
        let scheduled = link(&[(0, 10), (5, 1)], None);
        let changed = LinkConfig { capacity: constant(4), ..scheduled.clone() };
        // 10 Mbit/s for 2 s, 4 for 3 s and 1 for 5 s.
        assert_eq!(mean_of(&[(2, changed)], &scheduled, 10), Some(3700));
    }

    #[test]
    fn another_schedule_begins_at_the_change() {
        let later = link(&[(0, 10), (5, 1)], None);
        // 2 Mbit/s for 4 s, 10 for 5 s and 1 for 1 s.
        assert_eq!(mean_of(&[(4, later.clone())], &plain(2), 10), Some(5900));
        // After the change, the link has no schedule and the rate of the new configuration.
        assert_eq!(mean_of(&[(6, plain(4))], &later, 10), Some((50 + 1 + 16) * 100));
    }
}
