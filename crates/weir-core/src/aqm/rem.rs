//! REM: a price rises while arrivals exceed the link's capacity, and packets are selected with a
//! probability exponential in the price.
//!
//! # Model
//! At fixed times the algorithm computes a price from two differences: the arrivals less the link's
//! capacity, and the queue's length less a target. For any number of flows, the price is stable
//! only when both are 0: the rates match and the queue is at its target. Along a path the
//! probabilities combine, so that the receiver can derive the sum of the prices.
//!
//! # Equations
//! Each `interval` T:
//! ```text
//! x     <- (1-weight)·x + weight·(packets that arrived in T)
//! price <- max(0, price + gamma·(x + alpha·(q - target) - C·T))
//! p      = 1 - phi^(-price)
//! ```
//! `q` is the length of the queue, and `C` the link's capacity. The price is in parts of 2^32. It
//! does not rise above the price at which `p` differs from 1 by less than 2^-32. `p` has an error
//! below 2^-31.
//!
//! # Reference
//! Athuraliya, Low, Li and Yin, "REM: active queue management", IEEE Network 15(3), 2001.
//!
//! # Parameters
//! The defaults are those of ns-2. With `unit bytes`, lengths are in bytes divided by `avpkt`, and
//! a packet's probability is proportional to its length.
//!
//! # Complexity
//! O(1) for each packet, and a few divisions for each interval. Intervals without arrivals are
//! computed together once the filtered rate has decayed.
//!
//! # Guarantees
//! No packet is selected while the price is 0.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements REM. ns-2 marks packets when they leave the queue and drops them when they
//! arrive; here both happen at the arrival. For a link without a configured rate the algorithm
//! assumes 10 Mbit/s.
//!
//! # Validation
//! A test compares the implementation with the equations in floating point, interval by interval.

use alloc::vec;
use alloc::vec::Vec;

use super::power::{Factor, PacketRate, as_f64, exp2_neg, q32};
use super::red::core::Lengths;
use super::red::core::ONE;
use super::red::parameters::{AVPKT, ECN, UNIT_OF_LENGTH};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings;
use crate::settings::{Count, Fraction, Part, Time, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// Random exponential marking.
#[derive(Debug)]
pub struct Rem {
    /// The price in parts of 2^32. The fields below are also in parts of 2^32 unless their comments
    /// say otherwise.
    price: i128,
    /// The largest value of the price.
    most: i128,
    /// The probability of a selection.
    p: u64,
    gamma: i128,
    alpha: i128,
    weight: i128,
    /// The filtered number of arrivals per interval, in units of 2^-20 packets.
    rate: i128,
    /// The link's capacity per interval, and the target of the queue, in units of 2^-20 packets.
    carried: i128,
    target: i128,
    /// The logarithm of phi to the base 2.
    logarithm: Factor,
    /// The length of an interval in ns.
    interval: u64,
    /// The time at which the last interval ended; `None` before the first packet.
    ended: Option<Nanos>,
    /// The packets or bytes that have arrived since the last interval ended.
    arrivals: u64,
    /// The mean length of a packet in bytes.
    mean: u32,
    /// Whether lengths are in bytes rather than packets.
    bytes: bool,
    ecn: bool,
    stream: Stream,
}

settings! {
    /// Settings of REM.
    struct Settings {
        gamma: Fraction = Part::new(
            0,
            UNIT,
            UNIT / 1000,
            "rise of the price for an excess of one packet in an interval",
        ),
        phi: Fraction = Part::new(
            UNIT + UNIT / 1_000_000,
            1000 * UNIT,
            UNIT + UNIT / 1000,
            "base of the exponential that gives the probability",
        ),
        interval: Nanos =
            Time::new(1_000, 10_000_000_000, 2_000_000, "time between computations of the price"),
        target: u32 = Count::new(0, u32::MAX, "packets", 20, "target length of the queue"),
        alpha: Fraction =
            Part::new(0, UNIT, UNIT / 10, "weight of the queue's length against the rate"),
        weight: Fraction = Part::new(
            UNIT / 100,
            UNIT,
            UNIT,
            "weight of an interval in the filtered rate; 1: no filter",
        ),
        avpkt: u32 = AVPKT.or(1000),
        unit: Lengths = UNIT_OF_LENGTH,
        ecn: bool = ECN,
    }
}

impl Rem {
    /// A new AQM with a price of 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let (mean, interval) = (settings.avpkt, settings.interval.0);
        let logarithm = libm::log2(as_f64(settings.phi));
        let carried = PacketRate::of(setup, mean).per_second() * interval as f64 / 1e9
            * libm::exp2(f64::from(FRACTION));
        Self {
            price: 0,
            most: libm::ceil(33.0 / logarithm * 4_294_967_296.0) as i128,
            p: 0,
            gamma: i128::from(q32(settings.gamma)),
            alpha: i128::from(q32(settings.alpha)),
            weight: i128::from(q32(settings.weight)),
            rate: 0,
            carried: libm::round(carried) as i128,
            target: i128::from(settings.target) << FRACTION,
            logarithm: Factor::of(logarithm),
            interval,
            ended: None,
            arrivals: 0,
            mean,
            bytes: settings.unit == Lengths::Bytes,
            ecn: settings.ecn,
            stream: setup.stream.clone(),
        }
    }

    /// Computes the price for each interval that has ended. The queue has held `packets` packets of
    /// `bytes` bytes in total since the last arrival or departure.
    #[inline]
    fn catch_up(&mut self, now: Nanos, packets: u32, bytes: u64) {
        let ended = self.ended.get_or_insert(now);
        if now.since(*ended).0 >= self.interval {
            let (intervals, last) = super::power::periods(now, *ended, self.interval);
            *ended = last;
            self.update_price(intervals, packets, bytes);
        }
    }

    /// Computes the price for `intervals` intervals, between which the queue does not change.
    #[cold]
    #[inline(never)]
    fn update_price(&mut self, intervals: u64, packets: u32, bytes: u64) {
        let parts = |count: u64| {
            let wide = i128::from(count) << FRACTION;
            if self.bytes { wide / i128::from(self.mean) } else { wide }
        };
        let queue = parts(if self.bytes { bytes } else { u64::from(packets) });
        let mut arrivals = parts(core::mem::take(&mut self.arrivals));
        let excess = ((self.alpha * (queue - self.target)) >> 32) - self.carried;
        let mut remaining = intervals;
        while remaining > 0 {
            self.rate += (self.weight * (arrivals - self.rate)) >> 32;
            let change = (self.gamma * (self.rate + excess)) >> FRACTION;
            // Once there are no arrivals and the filtered rate is 0, each interval has the same
            // effect.
            let settled = arrivals == 0 && self.rate == 0;
            let alike = if settled { remaining } else { 1 };
            self.price = self
                .price
                .saturating_add(change.saturating_mul(i128::from(alike)))
                .clamp(0, self.most);
            remaining -= alike;
            arrivals = 0;
        }
        self.p = ONE - exp2_neg(self.logarithm.times(self.price as u64));
    }

    /// Whether a packet of `len` bytes is selected for a drop or mark.
    #[inline]
    fn is_selected(&mut self, len: u32) -> bool {
        let draw = u64::from(self.stream.bits32());
        if self.bytes {
            u128::from(draw) * u128::from(self.mean) < u128::from(self.p) * u128::from(len)
        } else {
            draw < self.p
        }
    }
}

impl Aqm for Rem {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.catch_up(now, queue.packets, queue.bytes);
        self.arrivals =
            self.arrivals.saturating_add(if self.bytes { u64::from(packet.len) } else { 1 });
        if self.p == 0 || queue.full || !self.is_selected(packet.len) {
            Verdict::Pass
        } else if self.ecn && packet.header.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.catch_up(now, queue.packets.saturating_add(1), queue.bytes + u64::from(packet.len));
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("probability", self.p),
            ("price_millionths", u64::try_from((self.price * 1_000_000) >> 32).unwrap_or(u64::MAX)),
            ("rate", u64::try_from(self.rate >> FRACTION).unwrap_or(0)),
        ]
    }
}

/// Fraction bits of a number of packets.
const FRACTION: u32 = 20;

pub(super) const ROW: Row = Row {
    name: "rem",
    aliases: &[],
    summary: "a price for the excess of load and backlog, and a probability exponential in the \
              price",
    source: "Athuraliya, Low, Li and Yin, IEEE Network 15(3), 2001",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
