//! Parameters that several rows of the RED family have, by the names that users of other
//! implementations know.

use super::adapt;
use super::core::Variant;
use crate::settings::{Domain, Parameter, SWITCH, Scope, UNIT};

/// A parameter of an AQM.
const fn of(name: &'static str, domain: Domain, default: u64, summary: &'static str) -> Parameter {
    Parameter { name, scope: Scope::Aqm, domain, default, summary }
}

/// The same parameter with another default.
pub(in super::super) const fn but(parameter: Parameter, default: u64) -> Parameter {
    Parameter { default, ..parameter }
}

/// The same parameter, said in other words.
pub(in super::super) const fn said(parameter: Parameter, summary: &'static str) -> Parameter {
    Parameter { summary, ..parameter }
}

/// A fraction of at most 1.
const PART: Domain = Domain::Fraction { least: 0, most: UNIT };
/// A length of a queue.
const LENGTH: Domain = Domain::Number { least: 0, most: u32::MAX as u64, unit: "" };

pub(in super::super) const MIN: Parameter = of(
    "min",
    LENGTH,
    5,
    "lower threshold of the average length, in packets or bytes as `unit` says",
);
pub(in super::super) const MAX: Parameter =
    of("max", LENGTH, 15, "upper threshold of the average length; at least `min`");
pub(in super::super) const W: Parameter = of(
    "w",
    Domain::Fraction { least: 1, most: UNIT },
    UNIT / 500,
    "weight of a packet in the average",
);
pub(in super::super) const MAX_P: Parameter =
    of("max_p", PART, UNIT / 50, "probability at the upper threshold");
pub(in super::super) const UNIT_OF_LENGTH: Parameter =
    of("unit", Domain::Choice(&["packets", "bytes"]), 0, "what lengths are counted in");
pub(in super::super) const GENTLE: Parameter = of(
    "gentle",
    SWITCH,
    1,
    "above `max` the probability rises to 1 at twice `max`, instead of at once",
);
pub(in super::super) const WAIT: Parameter = of(
    "wait",
    SWITCH,
    1,
    "after a choice, none while less than 1/p packets have come; for `variant` ns3",
);
pub(in super::super) const ECN: Parameter =
    of("ecn", SWITCH, 0, "packets of senders that understand ECN are marked instead of dropped");
pub(in super::super) const HARDDROP: Parameter =
    of("harddrop", SWITCH, 1, "with `ecn`, where every packet would be marked they are dropped");
pub(in super::super) const AVPKT: Parameter = of(
    "avpkt",
    Domain::Number { least: 1, most: 1 << 22, unit: "bytes" },
    500,
    "length of a mean packet",
);
pub(in super::super) const CURVE: Parameter = of(
    "curve",
    Domain::Choice(&["linear", "quadratic"]),
    0,
    "how the probability rises between the thresholds",
);
pub(in super::super) const VARIANT: Parameter = of(
    "variant",
    Domain::Choice(Variant::WORDS),
    0,
    "whose rules hold where implementations differ",
);
pub(in super::super) const ADAPT: Parameter =
    of("adapt", Domain::Choice(adapt::WORDS), 0, "how `max_p` follows the average");
pub(in super::super) const TARGET: Parameter = of(
    "target",
    Domain::Time { least: 1_000, most: 10_000_000_000 },
    5_000_000,
    "mean delay that automatic thresholds aim at",
);
pub(in super::super) const INTERVAL: Parameter = of(
    "interval",
    Domain::Time { least: 1_000, most: 3_600_000_000_000 },
    500_000_000,
    "least time between changes of `max_p`",
);
pub(in super::super) const ALPHA: Parameter =
    of("alpha", PART, UNIT / 100, "what is added to `max_p`, at most a quarter of it");
pub(in super::super) const BETA: Parameter =
    of("beta", PART, UNIT * 9 / 10, "what `max_p` is multiplied by downwards");
pub(in super::super) const BOTTOM: Parameter = of(
    "bottom",
    PART,
    0,
    "where `max_p` falls no further; 0: 0.01, or the part of a window over 100 ms that is a packet",
);
pub(in super::super) const TOP: Parameter =
    of("top", PART, UNIT / 2, "where `max_p` rises no further");
