//! Feng's adaptive RED: `max_p` is divided or multiplied when the average leaves the range between
//! the thresholds.
//!
//! # Model
//! As `red`. When the average falls below the lower threshold, packets were chosen too often:
//! `max_p` is divided by `decrease`. When it rises above the upper one, too rarely: it is
//! multiplied by `increase`. Nothing changes while the average stays on one side.
//!
//! # Reference
//! Feng, Kandlur, Saha and Shin, "A self-configuring RED gateway", IEEE INFOCOM 1999.
//!
//! # Parameters
//! As for `red`; factors 3 and 2 are those of the paper. `max_p` is where it starts.
//!
//! # Complexity
//! O(1); a division when `max_p` changes.
//!
//! # Guarantees
//! As for `red`. `max_p` stays between one part of 2^32 and 1.
//!
//! # Differences from Linux/FreeBSD
//! Neither has it. It starts as if the average had been below the lower threshold; in ns-3, as if
//! above the upper one, so that the first packet divides `max_p`.
//!
//! # Validation
//! By crossings of the thresholds, one by one.

use alloc::vec::Vec;

use super::red::adapt::Adapt;
use super::red::core::Plan;
use super::red::{of_family, parameters as p};
use super::{QueueState, Row, Seen, Verdict};
use crate::settings::{Domain, Parameter, Scope, UNIT};
use crate::units::Nanos;

of_family! {
    /// Feng's adaptive RED.
    FengAred, |policy, setup| {
        let plan = Plan::of(policy, setup);
        let adapt = Adapt::feng(plan.min, plan.max, policy.get("decrease"), policy.get("increase"));
        Plan { adapt, ..plan }
    }
}

const fn factor(name: &'static str, default: u64, summary: &'static str) -> Parameter {
    Parameter {
        name,
        scope: Scope::Aqm,
        domain: Domain::Fraction { least: UNIT, most: 1000 * UNIT },
        default,
        summary,
    }
}

pub(super) const ROW: Row = Row {
    name: "feng-ared",
    aliases: &["fengared"],
    summary: "RED whose probability changes by factors when the average crosses a threshold",
    source: "Feng, Kandlur, Saha and Shin, INFOCOM 1999",
    marks: true,
    classifies: false,
    parameters: &[
        p::MIN,
        p::MAX,
        p::W,
        p::said(p::MAX_P, "probability at the upper threshold, to start with"),
        p::UNIT_OF_LENGTH,
        p::GENTLE,
        p::WAIT,
        p::ECN,
        p::HARDDROP,
        p::AVPKT,
        factor(
            "decrease",
            3 * UNIT,
            "what `max_p` is divided by when the average falls below `min`",
        ),
        factor(
            "increase",
            2 * UNIT,
            "what `max_p` is multiplied by when the average rises above `max`",
        ),
    ],
};
