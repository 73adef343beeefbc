//! Nonlinear RED: `red` with a probability that rises with the square of the distance of the
//! average queue length from the lower threshold.
//!
//! # Model
//! Compared with RED, fewer packets are dropped while the average is short and more while the
//! average is long, so the choice of `max_p` and of the thresholds matters less. With the factor
//! 1.5, the mean probability over all averages between the thresholds equals that of RED.
//!
//! # Equations
//! ```text
//! p_b = 1.5·max_p·((avg-min)/(max-min))²
//! ```
//! `avg` is the average length of the queue, between the thresholds `min` and `max`. The selection
//! of packets by `p_b`, and everything else, is as in `red`.
//!
//! # Reference
//! Zhou, Yeung and Li, "Nonlinear RED: a simple yet efficient active queue management scheme",
//! Computer Networks 50(18), 2006.
//!
//! # Parameters
//! As for `red`. `gentle` is off, as in the paper; when it is on, the probability rises from
//! 1.5·`max_p` at `max` to 1 at twice `max`.
//!
//! # Complexity
//! O(1).
//!
//! # Guarantees
//! As for `red`.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements nonlinear RED. In ns-3 `gentle` is on, and the probability falls back to
//! `max_p` where the average passes `max`.
//!
//! # Validation
//! A test compares the implementation with the equation in floating point, packet by packet.

use alloc::vec::Vec;

use super::red::core::{Lengths, Plan};
use super::red::{of_family, parameters as p, plan};
use super::{QueueState, Row, Seen, Traits, Verdict};
use crate::settings;
use crate::settings::Fraction;
use crate::units::Nanos;

settings! {
    /// Settings of nonlinear RED.
    struct Settings {
        min: u32 = p::MIN,
        max: u32 = p::MAX,
        w: Fraction = p::W,
        max_p: Fraction = p::MAX_P,
        unit: Lengths = p::UNIT_OF_LENGTH,
        gentle: bool = p::GENTLE.or(false),
        wait: bool = p::WAIT,
        ecn: bool = p::ECN,
        harddrop: bool = p::HARDDROP,
        avpkt: u32 = p::AVPKT,
    }
}

of_family! {
    /// Nonlinear RED.
    NlRed, |policy, setup| {
        let settings = Settings::of(policy);
        Plan { quadratic: true, ..plan!(settings, setup) }
    }
}

pub(super) const ROW: Row = Row {
    name: "nlred",
    aliases: &["nonlinear-red"],
    summary: "RED with a probability that rises with the square of the average's distance from \
              the lower threshold",
    source: "Zhou, Yeung and Li, Computer Networks 50(18), 2006",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
