//! Feng's adaptive RED: `max_p` is divided or multiplied when the average queue length leaves the
//! range between the thresholds.
//!
//! # Model
//! This is `red` with a variable `max_p`. When the average falls below the lower threshold, `red`
//! selected too many packets, and `max_p` is divided by `decrease`. When the average rises above
//! the upper threshold, `red` selected too few packets, and `max_p` is multiplied by `increase`.
//! `max_p` changes only at these two crossings.
//!
//! # Reference
//! Feng, Kandlur, Saha and Shin, "A self-configuring RED gateway", IEEE INFOCOM 1999.
//!
//! # Parameters
//! As for `red`. The defaults of `decrease`, 3, and `increase`, 2, are those of the paper. The
//! parameter `max_p` is the value with which `max_p` starts.
//!
//! # Complexity
//! O(1); a division when `max_p` changes.
//!
//! # Guarantees
//! As for `red`. `max_p` stays between 2^-32 and 1.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements this algorithm. This implementation starts as if the average had been below
//! the lower threshold. ns-3 starts as if it had been above the upper threshold, so that the first
//! packet divides `max_p`.
//!
//! # Validation
//! A test checks `max_p` after each crossing of a threshold.

use alloc::vec::Vec;

use super::red::adapt::Adapt;
use super::red::core::{Lengths, Plan};
use super::red::{of_family, parameters as p, plan};
use super::{QueueState, Row, Seen, Traits, Verdict};
use crate::settings;
use crate::settings::{Fraction, Part, UNIT};
use crate::units::Nanos;

settings! {
    /// Settings of Feng's adaptive RED.
    struct Settings {
        min: u32 = p::MIN,
        max: u32 = p::MAX,
        w: Fraction = p::W,
        max_p: Fraction =
            p::MAX_P.described("initial probability at the upper threshold"),
        unit: Lengths = p::UNIT_OF_LENGTH,
        gentle: bool = p::GENTLE,
        wait: bool = p::WAIT,
        ecn: bool = p::ECN,
        harddrop: bool = p::HARDDROP,
        avpkt: u32 = p::AVPKT,
        decrease: Fraction =
            factor(3, "divisor of `max_p` when the average falls below `min`"),
        increase: Fraction =
            factor(2, "factor of `max_p` when the average rises above `max`"),
    }
}

of_family! {
    /// Feng's adaptive RED.
    FengAred, |policy, setup| {
        let settings = Settings::of(policy);
        let plan = plan!(settings, setup);
        let adapt = Adapt::feng(plan.min, plan.max, settings.decrease, settings.increase);
        Plan { adapt, ..plan }
    }
}

/// A setting from 1 to 1000 by which `max_p` is multiplied or divided.
const fn factor(default: u64, summary: &'static str) -> Part {
    Part::new(UNIT, 1000 * UNIT, default * UNIT, summary)
}

pub(super) const ROW: Row = Row {
    name: "feng-ared",
    aliases: &["fengared"],
    summary: "RED with a probability that changes by factors when the average crosses a threshold",
    source: "Feng, Kandlur, Saha and Shin, INFOCOM 1999",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
