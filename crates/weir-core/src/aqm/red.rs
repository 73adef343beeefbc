//! RED, random early detection: packets are dropped or marked with a probability that rises with
//! the average length of the queue.
//!
//! # Model
//! Each arriving packet moves an average of the queue's length. Below the lower threshold no packet
//! is selected. Between the thresholds, a packet is selected with a probability that rises from 0
//! to `max_p`. Above the upper threshold every packet is selected. In *gentle* mode, the
//! probability instead rises from `max_p` at the upper threshold to 1 at twice that threshold.
//! Selected packets are dropped, or marked if `ecn` is on and the packet is ECN-capable. Where
//! every packet is selected, packets are marked only with `harddrop off`; by default they are
//! dropped.
//!
//! Selections are spaced evenly: the probability of a packet grows with the number of packets since
//! the last selection. With `wait`, no packet is selected until `1/p_b` packets have arrived since
//! the last selection, so that two selections are never close together.
//!
//! # Equations
//! ```text
//! avg <- (1-w)·avg + w·q                  for each packet that arrives at a queue of length q
//! avg <- (1-w)^(m+1)·avg                  for an arrival at an empty queue; m: see below
//! p_b  = max_p·x,  x = (avg-min)/(max-min)                   `curve quadratic`: 1.5·max_p·x²
//! p_b  = max_p + (1-max_p)·(avg-max)/max                     gentle, from max to 2·max
//! p_a  = p_b / (1 - count·p_b)               count: packets since the last selection
//! p_a  = 0 while count·p_b < 1, then p_b / (2 - count·p_b)   with `wait`
//! ```
//! `m` is the number of packets of mean length that the link could have sent while the queue was
//! empty. With `curve quadratic`, the gentle part begins at 1.5·`max_p`. With lengths in bytes,
//! `count` is in mean packets, and `p_a` is multiplied by the packet's length divided by the mean
//! length. Averages are in parts of 2^40, probabilities in parts of 2^32; the power in the decay
//! has a relative error below 2^-31.
//!
//! # Reference
//! Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993. Gentle: Floyd, "Recommendation on using the gentle
//! variant of RED", 2000. RFC 7567 recommends newer AQMs instead.
//!
//! # Parameters
//! The defaults are those of ns-3: `min` 5 packets, `max` 15 packets, `w` 0.002, `max_p` 1/50. A
//! choice of `max_p`, `w` and thresholds suits one rate and one load; `ared` computes them
//! automatically. `hz`, 100 to 1000, default 250: Linux's ticks per second, for `adapt linux`. With
//! `adapt` and `curve`, `red` becomes another algorithm of the family, with thresholds that the
//! user chooses.
//!
//! # Complexity
//! O(1), without division where lengths are in packets.
//!
//! # Guarantees
//! No packet is selected while the average is below `min`.
//!
//! # Differences from Linux/FreeBSD
//! `variant` selects the implementation that this one follows:
//!
//! | | `ns3` | `linux` | `dummynet` |
//! |---|---|---|---|
//! | selection | one draw for each packet | one draw after each selection: the next selection is the packet at which `count·p_b` exceeds the draw | as `linux` |
//! | first packet above `min` | never selected | never selected | never selected |
//! | packet that arrives while `q` ≤ 1 | never selected | as any other | as any other |
//! | `wait`, `gentle` | both | neither | `gentle` |
//! | lengths in bytes | `p_a` · length / `avpkt` | no effect of the length | `p_b` · length / 1500 |
//! | `w` | as given | the nearest power of 1/2 | as given |
//! | average of bytes | exact | up to a byte more, from coarse rounding | exact |
//! | decay while idle | the power above | halvings by a table of 256 cells | 256 steps over 3/w packets, then 0 |
//!
//! `adapt linux` changes `max_p` by a timer of 500 ms, in whole ticks. Linux's timer wheel
//! lengthens the period: to 512 ms at 250 ticks per second, to 504 ms at 1000.
//!
//! An idle time begins when the last packet leaves the queue; in ns-3 and Linux it begins when that
//! packet's transmission has ended. Linux counts lengths only in bytes. The dummynet variant
//! follows dummynet's rules with two exceptions: it does not use dummynet's 16-bit arithmetic, in
//! which the average overflows at 32 KiB and idle times count in ticks, and it does not mark every
//! ECN-capable packet above `min`. ns-2 and ns-3 compute the gentle part with the initial `max_p`
//! even when `max_p` adapts; here the gentle part follows `max_p`. For a link without a configured
//! rate, such as a link with a trace, idle times are computed for 10 Mbit/s.
//!
//! # Validation
//! Tests compare the implementation with the equations in floating point, packet by packet. Tests
//! also compare counts with ns-3's own test of RED over many seeds, and check that packets are
//! marked above the threshold and not below.

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
        hz: u32 = p::HZ,
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
        let adapt = Adapt::of(settings.adapt, plan.pace, settings.hz, plan.min, plan.max);
        let plan = Plan {
            adapt,
            quadratic: settings.curve == Curve::Quadratic,
            variant: settings.variant,
            ..plan
        };
        Self::planned(plan, setup)
    }

    /// A new AQM with the parameters `plan`, which may be those of another algorithm of the family.
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

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.core.variables()
    }
}

/// The [`Plan`] for the settings of an AQM of the RED family: the variant of ns-3, a linear curve
/// and a constant `max_p`.
macro_rules! plan {
    ($settings:ident, $setup:ident) => {
        $crate::aqm::red::core::Plan {
            variant: $crate::aqm::red::core::Variant::Ns3,
            bytes: $settings.unit == $crate::aqm::red::core::Lengths::Bytes,
            min: u128::from($settings.min) << $crate::aqm::red::average::FRACTION,
            max: u128::from($settings.max) << $crate::aqm::red::average::FRACTION,
            weight: $crate::aqm::power::as_f64($settings.w),
            max_p: $crate::aqm::power::q32($settings.max_p),
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

/// Defines an AQM of the family that wraps [`Red`].
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

            fn variables(&self) -> Vec<(&'static str, u64)> {
                self.0.variables()
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
