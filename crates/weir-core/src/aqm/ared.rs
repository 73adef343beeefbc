//! Adaptive RED: RED that computes its parameters from the link's rate and a target delay.
//!
//! # Model
//! The algorithm is `red` with `wait` and, by default, `gentle`. It adapts `max_p` so that the
//! average length of the queue stays in the middle fifth of the range between the thresholds:
//! `max_p` rises by addition and falls by a factor, both slowly compared with round-trip times. The
//! algorithm computes the settings that the user does not give: the thresholds from the target
//! delay, the weight from the rate.
//!
//! # Equations
//! `C` is the link's rate in packets per second, at the mean packet length:
//! ```text
//! w   = 1 - e^(-1/C)
//! min = the larger of 5 packets and target·C/2,   max = 3·min
//! if avg > max - 0.4·(max-min) and max_p < top:     max_p <- max_p + step
//! if avg < min + 0.4·(max-min) and max_p > bottom:  max_p <- max_p·beta
//! ```
//! `step` is the smaller of `alpha` and `max_p`/4. `avg` is the average length of the queue, `w` the
//! weight of a packet in this average, and `min` and `max` are the thresholds. `max_p` changes only
//! when a packet arrives more than `interval` after the previous change.
//!
//! # Reference
//! Floyd, Gummadi and Shenker, "Adaptive RED: an algorithm for increasing the robustness of RED's
//! active queue management", 2001.
//!
//! # Parameters
//! The value 0 makes `min`, `max` and `w` automatic. The parameter `max_p` is the value with
//! which `max_p` starts. `bottom 0` means the lower of 0.01 and 1/N, where N is the number of packets
//! that the link carries in 100 ms, the assumed round-trip time. `hz`, 100 to 1000, default 250:
//! Linux's ticks per second, for `adapt linux`.
//!
//! # Complexity
//! O(1); a division at each interval.
//!
//! # Guarantees
//! As for `red`. With `adapt floyd`, `max_p` leaves the range from `bottom` to `top` by at most one
//! step.
//!
//! # Differences from Linux/FreeBSD
//! Linux's RED implements adaptive RED as `adaptive`, with thresholds and weight from the user;
//! `adapt linux` selects the same rule here. Linux changes `max_p` by a timer, whether packets
//! arrive or not. The timer is set to 500 ms; at 250 ticks per second it runs every 512 ms (see
//! `red`). In Linux the average decays while the link is idle, and `max_p` leaves the range from
//! 0.01 to 0.5 by at most one step. FreeBSD does not implement adaptive RED. ns-3 computes the
//! automatic `bottom` with the round-trip time on the wrong side of the division, so that it is 100
//! times lower than in ns-2; this implementation follows ns-2. For a link without a configured rate
//! the algorithm assumes 10 Mbit/s.
//!
//! # Validation
//! Tests check each change of `max_p`, and the thresholds and the weight against the equations.
//! Tests also compare several periods of Linux's timer, computed in one step, with the same periods
//! computed one by one.

use alloc::vec::Vec;

use super::power::{PacketRate, as_f64, q32};
use super::red::adapt::{Adapt, Steps, automatic_bottom};
use super::red::average::FRACTION;
use super::red::core::{Lengths, Plan, Variant};
use super::red::{of_family, parameters as p};
use super::{QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::settings::{Fraction, Part, UNIT};
use crate::units::Nanos;
use crate::{choice, settings};

of_family! {
    /// Adaptive RED.
    Ared, |policy, setup| plan(&Settings::of(policy), setup)
}

settings! {
    /// Settings of adaptive RED.
    struct Settings {
        target: Nanos = p::TARGET,
        min: u32 = p::MIN.or(0).described(
            "lower threshold of the average length, in packets or bytes as `unit` says; 0: from \
             `target`",
        ),
        max: u32 =
            p::MAX.or(0).described("upper threshold of the average length; 0: three times `min`"),
        w: Fraction =
            Part::new(0, UNIT, 0, "weight of a packet in the average; 0: from the rate"),
        max_p: Fraction =
            p::MAX_P.described("initial probability at the upper threshold"),
        unit: Lengths = p::UNIT_OF_LENGTH,
        gentle: bool = p::GENTLE,
        ecn: bool = p::ECN,
        harddrop: bool = p::HARDDROP,
        avpkt: u32 = p::AVPKT,
        interval: Nanos = p::INTERVAL,
        alpha: Fraction = p::ALPHA,
        beta: Fraction = p::BETA,
        bottom: Fraction = p::BOTTOM,
        top: Fraction = p::TOP,
        adapt: Rule = Rule::setting(Rule::Floyd, "rule by which `max_p` changes"),
        hz: u32 = p::HZ,
    }
}

choice! {
    /// The rule by which `max_p` changes.
    enum Rule {
        /// `max_p` changes when a packet arrives, at most once per `interval`.
        Floyd = "floyd",
        /// A timer of about 500 ms changes `max_p`, as in Linux.
        Linux = "linux",
    }
}

/// The parameters of RED for these settings; `min`, `max`, `w` and `bottom` are computed if they
/// are 0.
fn plan(settings: &Settings, setup: &Setup) -> Plan {
    let pace = PacketRate::of(setup, settings.avpkt);
    let PacketRate { rate, mean } = pace;
    let bytes = settings.unit == Lengths::Bytes;
    let given = |length: u32| Some(u128::from(length) << FRACTION).filter(|&length| length > 0);
    let min = given(settings.min).unwrap_or_else(|| {
        // target·C/2. The number in the divisor is 2 times 8·10^9, which converts bits and
        // nanoseconds to bytes and seconds.
        let half = ((u128::from(settings.target.0) * u128::from(rate)) << FRACTION)
            / (16_000_000_000 * u128::from(mean));
        half.max(5 << FRACTION) * if bytes { u128::from(mean) } else { 1 }
    });
    let max = given(settings.max).unwrap_or(3 * min);
    Plan {
        variant: Variant::Ns3,
        bytes,
        min,
        max,
        weight: match settings.w {
            Fraction(0) => -libm::expm1(-1.0 / pace.per_second()),
            given => as_f64(given),
        },
        max_p: q32(settings.max_p),
        gentle: settings.gentle,
        wait: true,
        ecn: settings.ecn,
        harddrop: settings.harddrop,
        quadratic: false,
        pace,
        adapt: match settings.adapt {
            Rule::Floyd => Adapt::floyd(min, max, steps(settings, pace)),
            Rule::Linux => Adapt::linux(min, max, settings.hz),
        },
    }
}

/// The steps by which `max_p` changes, for the rule `Floyd`.
fn steps(settings: &Settings, pace: PacketRate) -> Steps {
    Steps {
        interval: settings.interval.0,
        alpha: q32(settings.alpha),
        beta: q32(settings.beta),
        bottom: match settings.bottom {
            Fraction(0) => automatic_bottom(pace),
            given => q32(given),
        },
        top: q32(settings.top),
    }
}

pub(super) const ROW: Row = Row {
    name: "ared",
    aliases: &["adaptive-red"],
    summary: "RED that computes its parameters from the rate and a target delay",
    source: "Floyd, Gummadi and Shenker, 2001",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
