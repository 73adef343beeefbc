//! Settings of the RED family, most of which several rows share. Other AQMs use some of them too.

pub(in super::super) use super::super::jiffies::HZ;
use super::adapt::Rule;
use super::core::{Curve, Lengths, Variant};
use crate::settings::{Count, Part, Setting, Switch, Time, UNIT};

/// A setting that is a length of the queue.
const fn length(default: u32, summary: &'static str) -> Count {
    Count::new(0, u32::MAX, "", default, summary)
}

/// A setting that is a fraction of at most 1.
const fn part(default: u64, summary: &'static str) -> Part {
    Part::new(0, UNIT, default, summary)
}

pub(in super::super) const MIN: Count =
    length(5, "lower threshold of the average length, in packets or bytes as `unit` says");
pub(in super::super) const MAX: Count =
    length(15, "upper threshold of the average length; at least `min`");
pub(in super::super) const W: Part =
    Part::new(1, UNIT, UNIT / 500, "weight of a packet in the average");
pub(in super::super) const MAX_P: Part = part(UNIT / 50, "probability at the upper threshold");
pub(in super::super) const UNIT_OF_LENGTH: Setting<Lengths> =
    Lengths::setting(Lengths::Packets, "unit of lengths");
pub(in super::super) const GENTLE: Switch =
    Switch::new(true, "above `max` the probability rises to 1 at twice `max`, instead of at once");
pub(in super::super) const WAIT: Switch = Switch::new(
    true,
    "selects no packet within 1/p packets of the last selection; for `variant` ns3",
);
pub(in super::super) const ECN: Switch =
    Switch::new(false, "marks ECN-capable packets instead of dropping them");
pub(in super::super) const HARDDROP: Switch =
    Switch::new(true, "with `ecn`, drops packets when every packet would be marked");
pub(in super::super) const AVPKT: Count =
    Count::new(1, 1 << 22, "bytes", 500, "length of a mean packet");
pub(in super::super) const CURVE: Setting<Curve> =
    Curve::setting(Curve::Linear, "how the probability rises between the thresholds");
pub(in super::super) const VARIANT: Setting<Variant> =
    Variant::setting(Variant::Ns3, "implementation to follow where implementations differ");
pub(in super::super) const ADAPT: Setting<Rule> =
    Rule::setting(Rule::Off, "how `max_p` follows the average");
pub(in super::super) const TARGET: Time =
    Time::new(1_000, 10_000_000_000, 5_000_000, "mean delay that automatic thresholds aim at");
pub(in super::super) const INTERVAL: Time =
    Time::new(1_000, 3_600_000_000_000, 500_000_000, "least time between changes of `max_p`");
pub(in super::super) const ALPHA: Part =
    part(UNIT / 100, "step by which `max_p` rises, at most a quarter of `max_p`");
pub(in super::super) const BETA: Part = part(UNIT * 9 / 10, "factor by which `max_p` falls");
pub(in super::super) const BOTTOM: Part = part(
    0,
    "least value of `max_p`; 0: 0.01, or one divided by the packets of 100 ms if that is less",
);
pub(in super::super) const TOP: Part = part(UNIT / 2, "largest value of `max_p`");
