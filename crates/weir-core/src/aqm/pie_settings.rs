//! Settings of PIE, which the AQM `pie` and the scheduler `fq_pie` share.

use super::jiffies::HZ;
use crate::settings::{Count, Fraction, Part, Setting, Switch, Time, UNIT};
use crate::units::Nanos;
use crate::{choice, settings};

choice! {
    /// The implementation of PIE that this one follows.
    pub(crate) enum Variant {
        Rfc = "rfc",
        Linux = "linux",
        Dummynet = "dummynet",
    }
}

choice! {
    /// Whether drops are spaced more evenly than independent random draws would space them.
    pub(crate) enum Derand {
        /// As in the implementation that `variant` selects.
        Auto = "auto",
        Off = "off",
        On = "on",
    }
}

choice! {
    /// How the delay of the queue is measured.
    pub(crate) enum Qdelay {
        /// As in the implementation that `variant` selects.
        Auto = "auto",
        /// The sojourn time of the packet that left last.
        Timestamp = "ts",
        /// The queue's length divided by its departure rate.
        DepartureRate = "dre",
    }
}

settings! {
    /// Settings of PIE.
    pub(crate) struct Settings {
        variant: Variant = VARIANT,
        target: Nanos = TARGET,
        tupdate: Nanos = TUPDATE,
        hz: u32 = HZ,
        alpha: Fraction = ALPHA,
        beta: Fraction = BETA,
        max_burst: Nanos = MAX_BURST,
        max_ecnth: Fraction = MAX_ECNTH,
        ecn: bool = ECN,
        capdrop: bool = CAPDROP,
        derand: Derand = DERAND,
        qdelay: Qdelay = Qdelay::setting(Qdelay::Auto, QDELAY),
        onoff: bool = ONOFF,
        bytemode: bool = BYTEMODE,
        mean_pkt: u32 = Count::new(
            0,
            65_536,
            "bytes",
            0,
            "mean packet length: no packet is dropped while fewer than two packets of this \
             length wait; 0 selects the variant's length",
        ),
    }
}

/// A time between 1 µs and 10 s; 15 ms by default.
const fn short_time(summary: &'static str) -> Time {
    Time::new(1_000, 10_000_000_000, 15_000_000, summary)
}

/// A gain of at most 32. Like all fractions, it is in billionths.
const fn gain(default: u64, summary: &'static str) -> Part {
    Part::new(0, 32 * UNIT, default, summary)
}

pub(crate) const VARIANT: Setting<Variant> =
    Variant::setting(Variant::Rfc, "implementation of PIE to follow");
pub(crate) const TARGET: Time = short_time("target delay");
pub(crate) const TUPDATE: Time = short_time("time between updates of the probability");
pub(crate) const ALPHA: Part = gain(UNIT / 8, "gain of the delay's error, in 1/s");
pub(crate) const BETA: Part = gain(UNIT / 4 * 5, "gain of the delay's growth, in 1/s");
pub(crate) const MAX_BURST: Time = Time::new(
    0,
    10_000_000_000,
    150_000_000,
    "burst allowance: time for which no packet is dropped when a queue begins to grow",
);
pub(crate) const MAX_ECNTH: Part = Part::new(
    0,
    UNIT,
    UNIT / 10,
    "from this probability on, ECN-capable packets are dropped instead of marked",
);
pub(crate) const ECN: Switch =
    Switch::new(false, "marks ECN-capable packets instead of dropping them");
pub(crate) const CAPDROP: Switch = Switch::new(
    true,
    "from a probability of 0.1 on, the probability rises by at most 0.02 per update",
);
pub(crate) const DERAND: Setting<Derand> =
    Derand::setting(Derand::Auto, "spaces drops more evenly than random draws");
/// The description of `qdelay`.
pub(crate) const QDELAY: &str = "how the delay is measured: sojourn time of the last departure, or \
                                 length divided by departure rate";
pub(crate) const ONOFF: Switch = Switch::new(
    false,
    "PIE becomes active when the queue is a third full, and inactive when the queue is idle",
);
pub(crate) const BYTEMODE: Switch =
    Switch::new(false, "long packets are dropped more often than short ones");
