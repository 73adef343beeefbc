//! Rules by which RED's `max_p` follows the average, so that users need not configure it.

use super::super::jiffies;
use super::super::power::{PacketRate, periods};
use super::average::Average;
use crate::choice;
use crate::settings::{Fraction, UNIT};
use crate::units::Nanos;

choice! {
    /// The rule by which `max_p` changes; [`Adapt`] describes the rules.
    pub(in super::super) enum Rule {
        Off = "off",
        Floyd = "floyd",
        Linux = "linux",
        Feng = "feng",
    }
}

/// A rule for `max_p` with its state.
#[derive(Debug)]
pub(in super::super) enum Adapt {
    /// `max_p` is constant.
    Off,
    /// Floyd, Gummadi and Shenker: `max_p` rises by addition and falls by a factor. It changes when
    /// a packet arrives, and at most once per `interval`.
    Floyd { aims: Aims, steps: Steps, changed: Option<Nanos> },
    /// The rule `Floyd` as Linux implements it: by a timer of about 500 ms, even while the link is
    /// idle. `period` is in ns.
    Linux { aims: Aims, period: u64, ticked: Option<Nanos> },
    /// Feng et al.: when the average leaves the range between the thresholds, `max_p` is divided by
    /// `down` or multiplied by `up`, both in billionths.
    Feng { min: u128, max: u128, down: u64, up: u64, place: Place },
}

/// The range in which the average should stay, in the unit of the average.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Aims {
    low: u128,
    high: u128,
}

/// The steps by which `max_p` changes, and its range. Probabilities and factors are in parts of
/// 2^32.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Steps {
    /// The least time between changes, in ns.
    pub(in super::super) interval: u64,
    /// The largest step by which `max_p` rises. A step is at most a quarter of `max_p`.
    pub(in super::super) alpha: u64,
    /// The factor by which `max_p` falls.
    pub(in super::super) beta: u64,
    /// `max_p` falls only while it is above this value.
    pub(in super::super) bottom: u64,
    /// `max_p` rises only while it is below this value.
    pub(in super::super) top: u64,
}

/// The position of the average at the last packet, relative to the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Place {
    Below,
    Between,
    Above,
}

impl Aims {
    /// The middle fifth of the range between two thresholds.
    fn between(min: u128, max: u128) -> Self {
        let part = max.saturating_sub(min) * 2 / 5;
        Self { low: min + part, high: (min + part).max(max.saturating_sub(part)) }
    }
}

impl Steps {
    /// The steps of the paper, with [`least`] as `bottom`.
    pub(in super::super) fn usual(pace: PacketRate) -> Self {
        Self {
            interval: 500_000_000,
            alpha: ONE / 100,
            beta: ONE * 9 / 10,
            bottom: automatic_bottom(pace),
            top: ONE / 2,
        }
    }
}

/// The value of `bottom 0`: the lower of 0.01 and 1/N, where N is the number of packets that the
/// link carries in 100 ms, the assumed round-trip time.
pub(in super::super) fn automatic_bottom(pace: PacketRate) -> u64 {
    let one_of_window = u128::from(ONE) * 80 * u128::from(pace.mean) / u128::from(pace.rate.max(1));
    (ONE / 100).min(u64::try_from(one_of_window).unwrap_or(u64::MAX))
}

impl Adapt {
    /// The state for `rule` with its usual steps.
    pub(in super::super) fn of(
        rule: Rule,
        pace: PacketRate,
        hz: u32,
        min: u128,
        max: u128,
    ) -> Self {
        match rule {
            Rule::Off => Self::Off,
            Rule::Floyd => Self::floyd(min, max, Steps::usual(pace)),
            Rule::Linux => Self::linux(min, max, hz),
            Rule::Feng => Self::feng(min, max, Fraction(3 * UNIT), Fraction(2 * UNIT)),
        }
    }

    /// The state for the rule of Floyd et al. with these steps.
    pub(in super::super) fn floyd(min: u128, max: u128, steps: Steps) -> Self {
        Self::Floyd { aims: Aims::between(min, max), steps, changed: None }
    }

    /// The state for Linux's rule with `hz` ticks per second.
    pub(in super::super) fn linux(min: u128, max: u128, hz: u32) -> Self {
        let period = jiffies::period(jiffies::span(u64::from(hz / 2), hz), hz);
        Self::Linux { aims: Aims::between(min, max), period, ticked: None }
    }

    /// The state for the rule of Feng et al.: `max_p` is divided by `down` and multiplied by `up`.
    pub(in super::super) fn feng(min: u128, max: u128, down: Fraction, up: Fraction) -> Self {
        Self::Feng { min, max: max.max(min), down: down.0, up: up.0, place: Place::Below }
    }

    /// Applies the changes of `max_p` that were due before this arrival. Each change uses the
    /// average at its due time.
    #[inline]
    pub(in super::super) fn catch_up(
        &mut self,
        now: Nanos,
        average: &Average,
        empty: bool,
        max_p: &mut u64,
    ) {
        if let Self::Linux { aims, period, ticked } = self {
            let (since, period) = (*ticked.get_or_insert(now), *period);
            if now.since(since).0 >= period {
                let (ended, last) = periods(now, since, period);
                *ticked = Some(last);
                let at = |n: u64| {
                    if empty {
                        average.after_idling(Nanos(since.0 + n * period))
                    } else {
                        average.value()
                    }
                };
                tick(*aims, ended, at, max_p);
            }
        }
    }

    /// Applies the change of `max_p` that follows from the average after this arrival.
    #[inline]
    pub(in super::super) fn follow(&mut self, now: Nanos, average: u128, max_p: &mut u64) {
        match self {
            Self::Off | Self::Linux { .. } => {}
            Self::Floyd { aims, steps, changed } => {
                let since = *changed.get_or_insert(now);
                if now.since(since).0 > steps.interval
                    && follow_floyd(*aims, *steps, average, max_p)
                {
                    *changed = Some(now);
                }
            }
            Self::Feng { min, max, down, up, place } => {
                let found = match average {
                    a if a < *min => Place::Below,
                    a if a > *max => Place::Above,
                    a if a > *min && a < *max => Place::Between,
                    _ => *place,
                };
                if found != *place {
                    *max_p = match found {
                        Place::Below => scaled(*max_p, UNIT, *down),
                        Place::Above => scaled(*max_p, *up, UNIT),
                        Place::Between => *max_p,
                    };
                    *place = found;
                }
            }
        }
    }
}

/// Moves `max_p` so that the average returns to the range `aims`; returns whether `max_p` changed.
fn follow_floyd(aims: Aims, steps: Steps, average: u128, max_p: &mut u64) -> bool {
    if average < aims.low && *max_p > steps.bottom {
        *max_p = scaled(*max_p, steps.beta, ONE);
    } else if average > aims.high && *max_p < steps.top {
        *max_p = (*max_p + steps.alpha.min(*max_p / 4)).min(ONE);
    } else {
        return false;
    }
    true
}

/// Applies the `ended` periods of Linux's timer, numbered from 1. `at` gives the average at the end
/// of each period. These averages never grow, so that averages above the range `aims` come first
/// and averages below it come last.
fn tick(aims: Aims, ended: u64, at: impl Fn(u64) -> u128, max_p: &mut u64) {
    let above = leading(ended, |n| at(n) > aims.high);
    let below = ended - leading(ended, |n| at(n) >= aims.low);
    for _ in 0..above {
        let step = (ONE / 100).min(*max_p / 4);
        if step == 0 || *max_p > LINUX_MAX {
            break;
        }
        *max_p += step;
    }
    for _ in 0..below {
        if *max_p < LINUX_MIN {
            break;
        }
        *max_p = *max_p / 10 * 9;
    }
}

/// The number of values from 1 to `most` that satisfy `holds`. They must precede the values that do
/// not satisfy it.
fn leading(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut known, mut open) = (0, most);
    while known < open {
        let middle = known + (open - known).div_ceil(2);
        if holds(middle) { known = middle } else { open = middle - 1 }
    }
    known
}

/// `p · numerator / denominator`, at most the probability 1 and at least one part of 2^32, from
/// which `p` can grow again.
fn scaled(p: u64, numerator: u64, denominator: u64) -> u64 {
    let quotient = u128::from(p) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(quotient).unwrap_or(ONE).clamp(1, ONE)
}

/// The probability 1, in parts of 2^32.
pub(in super::super) const ONE: u64 = 1 << 32;
/// The probability above which Linux does not raise `max_p`.
const LINUX_MAX: u64 = ONE / 2;
/// The probability below which Linux does not lower `max_p`.
const LINUX_MIN: u64 = ONE / 100;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: PacketRate = PacketRate { rate: 10_000_000, mean: 500 };

    proptest! {
        #[test]
        fn many_ticks_in_one_step_equal_single_ticks(
            ended in 0u64..3000,
            start in 0u64..1000,
            fall in 1u64..400,
            p in 1u64..ONE,
        ) {
            let aims = Aims { low: 200, high: 400 };
            let at = |n: u64| u128::from((start * 10).saturating_sub(n * fall / 10) / 10);
            let (mut together, mut single) = (p, p);
            tick(aims, ended, at, &mut together);
            for n in 1..=ended {
                tick(aims, 1, |_| at(n), &mut single);
            }
            prop_assert_eq!(together, single);
        }
    }

    #[test]
    fn floyd_rises_by_addition_and_falls_by_a_factor_within_the_bounds() {
        let steps = Steps::usual(PACE);
        let aims = Aims::between(5 << 40, 15 << 40);
        assert_eq!((aims.low >> 40, aims.high >> 40), (9, 11));
        let mut p = ONE / 50;
        assert!(follow_floyd(aims, steps, 12 << 40, &mut p));
        assert_eq!(p, ONE / 50 + ONE / 200);
        assert!(!follow_floyd(aims, steps, 10 << 40, &mut p));
        assert!(follow_floyd(aims, steps, 8 << 40, &mut p));
        assert_eq!(p, (ONE / 50 + ONE / 200) * (ONE * 9 / 10) / ONE);
        while follow_floyd(aims, steps, 12 << 40, &mut p) {}
        assert!((ONE / 2..ONE / 2 + ONE / 100).contains(&p));
        while follow_floyd(aims, steps, 8 << 40, &mut p) {}
        assert!(p <= steps.bottom && p > steps.bottom * 8 / 10);
    }

    #[test]
    fn the_bottom_on_fast_links_is_one_packet_in_a_window_of_100_ms() {
        assert_eq!(automatic_bottom(PACE), ONE / 250);
        assert_eq!(automatic_bottom(PacketRate { rate: 1_000_000, ..PACE }), ONE / 100);
    }

    #[test]
    fn feng_changes_max_p_only_when_the_average_leaves_the_range() {
        let mut adapt = Adapt::feng(10, 20, Fraction(3 * UNIT), Fraction(2 * UNIT));
        let mut p = 900;
        let mut at = |average, expected| {
            adapt.follow(Nanos(0), average, &mut p);
            assert_eq!(p, expected, "{average}");
        };
        at(5, 900);
        at(15, 900);
        at(21, 1800);
        at(25, 1800);
        at(15, 1800);
        at(5, 600);
        at(4, 600);
        at(30, 1200);
    }
}
