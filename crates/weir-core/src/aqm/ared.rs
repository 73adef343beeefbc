//! Adaptive RED: RED that finds its parameters from the link's rate and a target for the delay.
//!
//! # Model
//! As gentle `red` with `wait`. `max_p` is moved so that the average stays in the middle fifth
//! between the thresholds: by addition upwards, by a factor downwards, both slowly against
//! round-trip times. What is not given is computed: the thresholds from the target delay, the
//! weight from the rate.
//!
//! # Equations
//! With `C` mean packets a second over the link:
//! ```text
//! w   = 1 - e^(-1/C)
//! min = max(5 packets, target·C/2),   max = 3·min
//! each `interval`:  avg > max - 0.4·(max-min) and max_p < top:     max_p <- max_p + min(alpha, max_p/4)
//!                   avg < min + 0.4·(max-min) and max_p > bottom:  max_p <- max_p·beta
//! ```
//! The interval counts from the last change, and changes are made when a packet comes.
//!
//! # Reference
//! Floyd, Gummadi and Shenker, "Adaptive RED: an algorithm for increasing the robustness of RED's
//! active queue management", 2001.
//!
//! # Parameters
//! `min`, `max` and `w` are automatic at 0. `max_p` is where it starts. `bottom 0` is 0.01, or on
//! faster links the part that one packet is of a window over 100 ms.
//!
//! # Complexity
//! O(1); a division at each interval.
//!
//! # Guarantees
//! As for `red`. `max_p` leaves the range from `bottom` to `top` by one step at most.
//!
//! # Differences from Linux/FreeBSD
//! Linux's RED has it as `adaptive`, with thresholds and weight from the user: `adapt linux` here.
//! It is then done every 500 ms whether packets come or not, with an average that idle time lowers,
//! between 0.01 and 0.5. FreeBSD does not have it. ns-3 computes the automatic `bottom` with the
//! round-trip time on the wrong side of the division, 100 times lower than ns-2, which is followed
//! here. On a link without a rate of its own, 10 Mbit/s are assumed.
//!
//! # Validation
//! Changes of `max_p` step by step; Linux's periods together against one by one; thresholds and
//! weight against the equations.

use alloc::vec::Vec;

use super::power::{PacketRate, number};
use super::red::adapt::{Adapt, Steps};
use super::red::average::FRACTION;
use super::red::core::{Plan, Variant};
use super::red::{of_family, parameters as p};
use super::{Policy, QueueState, Row, Seen, Setup, Verdict};
use crate::settings::{Domain, UNIT};
use crate::units::Nanos;

of_family! {
    /// Adaptive RED.
    Ared, |policy, setup| plan(policy, setup)
}

fn plan(policy: &Policy, setup: &Setup) -> Plan {
    let pace = PacketRate::of(setup, policy.get("avpkt") as u32);
    let PacketRate { rate, mean } = pace;
    let bytes = policy.is_on("unit");
    let given = |name| Some(u128::from(policy.get(name)) << FRACTION).filter(|&length| length > 0);
    let min = given("min").unwrap_or_else(|| {
        // target·C/2, with 8·10^9 bits and ns for each byte and second.
        let half = ((u128::from(policy.get("target")) * u128::from(rate)) << FRACTION)
            / (16_000_000_000 * u128::from(mean));
        half.max(5 << FRACTION) * if bytes { u128::from(mean) } else { 1 }
    });
    let max = given("max").unwrap_or(3 * min);
    let weight = match policy.get("w") {
        0 => -libm::expm1(-1.0 / pace.a_second()),
        given => number(given),
    };
    let adapt = if policy.is_on("adapt") {
        Adapt::linux(min, max)
    } else {
        Adapt::floyd(min, max, Steps::of(policy, pace))
    };
    // The row has neither of the last two settings.
    Plan {
        variant: Variant::Ns3,
        min,
        max,
        weight,
        pace,
        wait: true,
        adapt,
        quadratic: false,
        ..Plan::of(policy, setup)
    }
}

const AUTOMATIC: Domain = Domain::Fraction { least: 0, most: UNIT };

pub(super) const ROW: Row = Row {
    name: "ared",
    aliases: &["adaptive-red"],
    summary: "RED that finds its parameters from the rate and a target delay",
    source: "Floyd, Gummadi and Shenker, 2001",
    marks: true,
    classifies: false,
    parameters: &[
        p::TARGET,
        p::but(
            p::said(
                p::MIN,
                "lower threshold of the average length, in packets or bytes as `unit` says; 0: from `target`",
            ),
            0,
        ),
        p::but(p::said(p::MAX, "upper threshold of the average length; 0: three times `min`"), 0),
        crate::settings::Parameter {
            domain: AUTOMATIC,
            default: 0,
            summary: "weight of a packet in the average; 0: from the rate",
            ..p::W
        },
        p::said(p::MAX_P, "probability at the upper threshold, to start with"),
        p::UNIT_OF_LENGTH,
        p::GENTLE,
        p::ECN,
        p::HARDDROP,
        p::AVPKT,
        p::INTERVAL,
        p::ALPHA,
        p::BETA,
        p::BOTTOM,
        p::TOP,
        crate::settings::Parameter {
            domain: Domain::Choice(&["floyd", "linux"]),
            summary: "whose rule moves `max_p`",
            ..p::ADAPT
        },
    ],
};
