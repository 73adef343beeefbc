//! RED, random early detection: packets are dropped or marked with a probability that rises with
//! the average length of the queue.
//!
//! # Model
//! Each arriving packet moves an average of the queue's length. Below the lower threshold no packet
//! is selected. Between the thresholds, a packet is selected with a probability that rises from 0
//! to `max_p`. Above the upper threshold every packet is selected, or, if the algorithm is
//! *gentle*, a packet is selected with a probability that rises from `max_p` to 1 at twice the
//! threshold. Selected packets are dropped, or marked if `ecn` is on and the packet is ECN-capable.
//!
//! Selections are spaced evenly: the probability of a packet grows with the packets since the last
//! selection. With `wait`, no packet is selected in the first half of the interval that follows, so
//! that two selections are never close together.
//!
//! # Equations
//! ```text
//! avg <- (1-w)·avg + w·q                  for each packet that comes to a queue of length q
//! avg <- (1-w)^(m+1)·avg                  when it comes to an empty one; m mean packets could have been sent meanwhile
//! p_b  = max_p·x,  x = (avg-min)/(max-min)                   `curve quadratic`: 1.5·max_p·x²
//! p_b  = max_p + (1-max_p)·(avg-max)/max                     gentle, from max to 2·max
//! p_a  = p_b / (1 - count·p_b)                               count packets since the last choice
//! p_a  = 0 while count·p_b < 1, then p_b / (2 - count·p_b)   with `wait`
//! ```
//! In bytes, `count` is in mean packets and `p_a` is multiplied by the packet's length over the
//! mean. Averages are in parts of 2^40, probabilities in parts of 2^32; the power of an idle time
//! has a relative error below 2^-31.
//!
//! # Reference
//! Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993. Gentle: Floyd, "Recommendation on using the gentle
//! variant of RED", 2000. RFC 7567 on what to prefer to it.
//!
//! # Parameters
//! Defaults are those of ns-3: 5 and 15 packets, 0.002, 1/50. `max_p`, `w` and the thresholds fit
//! one rate and one load; `ared` finds them automatically. With `adapt` and `curve`, `red` becomes
//! another algorithm of the family, with thresholds of your choice.
//!
//! # Complexity
//! O(1), without division where lengths are in packets.
//!
//! # Guarantees
//! No packet is selected while the average is below `min`.
//!
//! # Differences from Linux/FreeBSD
//! `variant` selects the implementation that is followed:
//!
//! | | `ns3` | `linux` | `dummynet` |
//! |---|---|---|---|
//! | choice | one draw for each packet | one for each interval: `count·p_b` exceeds it | the same |
//! | first packet above `min`, or beside one other | never chosen | never chosen | never chosen |
//! | `wait`, `gentle` | both | neither | `gentle` |
//! | in bytes | `p_a` by length over the mean | by packet | `p_b` by length over 1500 |
//! | `w` | as given | the nearest power of 1/2 | as given |
//! | idle time | the power above | halvings by a table of 256 cells | 256 steps over 3/w packets, then 0 |
//!
//! An idle time begins when the last packet leaves the queue; in ns-3 and Linux it begins when that
//! packet's transmission has ended. Linux has lengths in whole bytes only. The dummynet variant has
//! its rules but not its 16-bit arithmetic, in which the average overflows at 32 KiB and idle times
//! count in ticks; nor does it mark every packet above `min` with ECN. ns-2 and ns-3 keep the
//! gentle part at the first `max_p` while another one adapts; here the gentle part follows `max_p`.
//! A link without a rate of its own, such as one with a trace, counts as one of 10 Mbit/s for idle
//! times.
//!
//! # Validation
//! Against the equations in floating point, packet by packet; counts of ns-3's own test of RED over
//! many seeds; and marks by the depth of a limited queue.

pub(super) mod adapt;
pub(super) mod average;
pub(super) mod core;
pub(super) mod parameters;

use alloc::vec::Vec;

use self::adapt::{Adapt, Rule};
use self::core::{Core, Curve, Lengths, Plan, Variant};
use self::parameters as p;
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings;
use crate::settings::Fraction;
use crate::units::Nanos;

settings! {
    /// Settings of RED.
    struct Settings {
        min: u32 = p::MIN,
        max: u32 = p::MAX,
        w: Fraction = p::W,
        max_p: Fraction = p::MAX_P,
        unit: Lengths = p::UNIT_OF_LENGTH,
        gentle: bool = p::GENTLE,
        wait: bool = p::WAIT,
        ecn: bool = p::ECN,
        harddrop: bool = p::HARDDROP,
        avpkt: u32 = p::AVPKT,
        curve: Curve = p::CURVE,
        adapt: Rule = p::ADAPT,
        variant: Variant = p::VARIANT,
    }
}

/// Random early detection.
#[derive(Debug)]
pub struct Red {
    core: Core,
    stream: Stream,
}

impl Red {
    /// A new AQM with an average of 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let plan = plan!(settings, setup);
        let adapt = Adapt::of(settings.adapt, plan.pace, plan.min, plan.max);
        let plan = Plan {
            adapt,
            quadratic: settings.curve == Curve::Quadratic,
            variant: settings.variant,
            ..plan
        };
        Self::planned(plan, setup)
    }

    /// A new AQM of the family.
    pub(super) fn planned(plan: Plan, setup: &Setup) -> Self {
        Self { core: Core::new(plan), stream: setup.stream.clone() }
    }
}

impl Aqm for Red {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.core.arrive(now, packet, queue, &mut self.stream)
    }

    #[inline]
    fn leave(&mut self, now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        self.core.leave(now, queue);
        Verdict::Pass
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.core.figures()
    }
}

/// The [`Plan`] for the settings of a row of the family, with the rules of ns-3 and a linear curve.
macro_rules! plan {
    ($settings:ident, $setup:ident) => {
        $crate::aqm::red::core::Plan {
            variant: $crate::aqm::red::core::Variant::Ns3,
            bytes: $settings.unit == $crate::aqm::red::core::Lengths::Bytes,
            min: u128::from($settings.min) << $crate::aqm::red::average::FRACTION,
            max: u128::from($settings.max) << $crate::aqm::red::average::FRACTION,
            weight: $crate::aqm::power::number($settings.w),
            max_p: $crate::aqm::power::parts($settings.max_p),
            gentle: $settings.gentle,
            wait: $settings.wait,
            ecn: $settings.ecn,
            harddrop: $settings.harddrop,
            quadratic: false,
            pace: $crate::aqm::power::PacketRate::of($setup, $settings.avpkt),
            adapt: $crate::aqm::red::adapt::Adapt::Off,
        }
    };
}
pub(super) use plan;

/// A row of the family that has the state of [`Red`].
macro_rules! of_family {
    ($(#[$doc:meta])* $name:ident, |$policy:ident, $setup:ident| $plan:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($crate::aqm::Red);

        impl $name {
            /// A new AQM with an average of 0.
            pub fn new($policy: &$crate::aqm::Policy, $setup: &$crate::aqm::Setup) -> Self {
                Self($crate::aqm::Red::planned($plan, $setup))
            }
        }

        impl $crate::aqm::Aqm for $name {
            #[inline]
            fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                self.0.arrive(now, packet, queue)
            }

            #[inline]
            fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
                self.0.leave(now, packet, queue)
            }

            fn figures(&self) -> Vec<(&'static str, u64)> {
                self.0.figures()
            }
        }
    };
}
pub(super) use of_family;

pub(super) const ROW: Row = Row {
    name: "red",
    aliases: &[],
    summary: "random early drops or marks by the average length of the queue",
    source: "Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
