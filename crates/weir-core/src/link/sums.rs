//! Sums of the values that a link's schedule sets, weighted by the time for which they apply.

use core::ops::Range;

use super::{Capacity, Loss, Step};
use crate::units::Nanos;

/// The configured rate, propagation delay and loss of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfiguredMeans {
    /// The mean rate in bit/s; `None` if the rate is unlimited during at least a part of the
    /// span.
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
    /// from this mean if more packets are sent at one time than at another.
    pub loss_varies: bool,
}

/// The values in force at a time; `None` for a value that the schedule has not set before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values {
    /// The inner `None` is an unlimited rate.
    pub(super) rate_bps: Option<Option<u64>>,
    pub(super) delay: Option<Nanos>,
    /// The inner `None` is no loss.
    pub(super) loss: Option<Option<f64>>,
}

impl Values {
    pub(super) fn after(self, step: &Step) -> Self {
        Self {
            rate_bps: step.capacity.as_ref().map(bps).or(self.rate_bps),
            delay: step.delay.or(self.delay),
            loss: step.loss.map(Loss::mean).or(self.loss),
        }
    }

    pub(super) fn or(self, others: Self) -> Self {
        Self {
            rate_bps: self.rate_bps.or(others.rate_bps),
            delay: self.delay.or(others.delay),
            loss: self.loss.or(others.loss),
        }
    }
}

/// The steps of a whole schedule, summed up once.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    /// The sum over one period. Without a period, the last step counts as long as the step before
    /// it.
    pub(super) sum: Sum,
    /// The values that the last steps have set.
    pub(super) last: Values,
}

impl Totals {
    /// The sum of the steps of a schedule with this period.
    pub(super) fn of(steps: &[(Nanos, Step)], period: Option<Nanos>) -> Self {
        let at = |back: usize| {
            steps.len().checked_sub(back).map_or(Nanos::ZERO, |number| steps[number].0)
        };
        let end = period.unwrap_or_else(|| {
            let last = at(1);
            last.saturating_add(Nanos(last.since(at(2)).0.max(1)))
        });
        let mut sum = Sum::default();
        sum.add_steps(Values::default(), steps, Nanos::ZERO..end, 1);
        let last = steps.iter().fold(Values::default(), |values, (_, step)| values.after(step));
        Self { sum, last }
    }
}

/// One value over a span of time: whether it changes, and how long the schedule does not set it.
#[derive(Clone, Debug, Default)]
struct Seen<T> {
    /// The first known value.
    first: Option<T>,
    /// Whether there was another value.
    varies: bool,
    /// The time in ns before the schedule sets the value.
    unset: u128,
}

impl<T: Copy + PartialEq> Seen<T> {
    fn add(&mut self, value: Option<T>, lasts: u128) {
        match value {
            Some(value) => self.varies |= *self.first.get_or_insert(value) != value,
            None => self.unset += lasts,
        }
    }

    /// Uses `initial` for the time in which the schedule did not set the value; returns that time.
    fn resolve(&mut self, initial: Option<T>) -> u128 {
        let unset = core::mem::take(&mut self.unset);
        if unset > 0 {
            self.add(initial, 0);
        }
        unset
    }

    fn merge(&mut self, other: &Self) {
        self.unset += other.unset;
        self.varies |= other.varies;
        if other.first.is_some() {
            self.add(other.first, 0);
        }
    }
}

/// Sums of values times the time for which they were in force, in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    lasts: u128,
    rate: Seen<Option<u64>>,
    delay: Seen<Nanos>,
    loss: Seen<Option<f64>>,
    bits: u128,
    /// Time without a limit of the rate.
    unlimited: u128,
    delays: u128,
    losses: f64,
    has_loss: bool,
}

impl Sum {
    /// The values at one moment.
    pub(super) fn of(values: Values) -> Self {
        let mut sum = Self::default();
        sum.add(values, 1, 1);
        sum
    }

    /// Adds values that were in force for `lasts` ns, `times` times.
    fn add(&mut self, values: Values, lasts: u64, times: u64) {
        let lasts = u128::from(lasts) * u128::from(times);
        if lasts == 0 {
            return;
        }
        self.lasts += lasts;
        self.rate.add(values.rate_bps, lasts);
        self.delay.add(values.delay, lasts);
        self.loss.add(values.loss, lasts);
        self.weigh(values, lasts);
    }

    /// Adds each value that is set, multiplied by `lasts`.
    fn weigh(&mut self, values: Values, lasts: u128) {
        match values.rate_bps {
            Some(Some(rate)) => self.bits += u128::from(rate) * lasts,
            Some(None) => self.unlimited += lasts,
            None => {}
        }
        self.delays += u128::from(values.delay.unwrap_or(Nanos::ZERO).0) * lasts;
        if let Some(Some(loss)) = values.loss {
            self.has_loss = true;
            self.losses += loss * lasts as f64;
        }
    }

    /// Adds the values within a span of a period, `times` times. `values` are in force when the
    /// span begins. Returns the values at its end.
    pub(super) fn add_steps(
        &mut self,
        mut values: Values,
        steps: &[(Nanos, Step)],
        span: Range<Nanos>,
        times: u64,
    ) -> Values {
        let mut since = span.start;
        for (at, step) in steps.iter().take_while(|(at, _)| *at < span.end) {
            self.add(values, at.since(since).0, times);
            (since, values) = (since.max(*at), values.after(step));
        }
        self.add(values, span.end.since(since).0, times);
        values
    }

    /// The same sum, with `initial` for the values that the schedule does not set.
    pub(super) fn resolved(mut self, initial: Values) -> Self {
        let (rate_bps, delay, loss) = (initial.rate_bps, initial.delay, initial.loss);
        for (values, unset) in [
            (Values { rate_bps, ..Values::default() }, self.rate.resolve(rate_bps)),
            (Values { delay, ..Values::default() }, self.delay.resolve(delay)),
            (Values { loss, ..Values::default() }, self.loss.resolve(loss)),
        ] {
            if unset > 0 {
                self.weigh(values, unset);
            }
        }
        self
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.lasts += other.lasts;
        self.rate.merge(&other.rate);
        self.delay.merge(&other.delay);
        self.loss.merge(&other.loss);
        self.bits += other.bits;
        self.unlimited += other.unlimited;
        self.delays += other.delays;
        self.losses += other.losses;
        self.has_loss |= other.has_loss;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lasts == 0
    }

    /// The means over the time that was added, which is not zero. The sum is
    /// [resolved](Self::resolved).
    pub(super) fn means(&self) -> ConfiguredMeans {
        let mean = |sum: u128| u64::try_from(sum / self.lasts.max(1)).unwrap_or(u64::MAX);
        ConfiguredMeans {
            rate_bps: (self.unlimited == 0).then(|| mean(self.bits)),
            delay: Nanos(mean(self.delays)),
            loss: self.has_loss.then(|| (self.losses / self.lasts.max(1) as f64).clamp(0.0, 1.0)),
            rate_varies: self.rate.varies,
            delay_varies: self.delay.varies,
            loss_varies: self.loss.varies,
        }
    }
}

/// The rate in bit/s, as the mean of a trace; `None` without a limit.
pub(super) fn bps(capacity: &Capacity) -> Option<u64> {
    match capacity {
        Capacity::Unlimited => None,
        limited => Some(limited.mean_bps()),
    }
}
