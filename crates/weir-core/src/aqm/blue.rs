//! BLUE: the probability of a drop or mark rises when packets are lost and falls when the link is
//! idle.
//!
//! # Model
//! The length of the queue matters only when it overflows or empties. When a packet finds the queue
//! full, or longer than `limit`, the probability rises by `d1`; when the queue is empty, the link
//! is idle, and the probability falls by `d2`. After each change the probability stays constant for
//! at least `freeze`, so that one change takes effect before the next. Every arriving packet is
//! dropped, or marked, with that probability.
//!
//! # Equations
//! ```text
//! overflow, or q > limit:   if now - last > freeze:  p <- p + d1, last <- now
//! idle:                     if now - last > freeze:  p <- p - d2, last <- now
//! ```
//! `q` is the length of the queue, and `last` is the time of the last change of `p`. `p` is in
//! parts of 2^32, from 0 to 1. While the link stays idle, `p` falls once per `freeze`.
//!
//! # Reference
//! Feng, Shin, Kandlur and Saha, "The BLUE active queue management algorithms", IEEE/ACM
//! Transactions on Networking 10(4), 2002.
//!
//! # Parameters
//! The paper uses 10 and 100 ms for `freeze`, 0.02 and 0.0025 for `d1`, and a tenth of `d1` for
//! `d2`. A rise must be larger than a fall, so that BLUE reacts faster to the beginning of overload
//! than to its end.
//!
//! # Complexity
//! O(1).
//!
//! # Guarantees
//! `p` rises by at most `d1` within `freeze`.
//!
//! # Differences from Linux/FreeBSD
//! Linux uses BLUE in `sfb` and, with CoDel, in `cake`'s COBALT; FreeBSD does not implement BLUE.
//! The link counts as idle from the moment at which the last packet leaves the queue.
//!
//! # Validation
//! Tests compare the implementation with the equations, event by event. Tests also compare one step
//! over a long idle time with many steps of `freeze`.

use alloc::vec;
use alloc::vec::Vec;

use super::power::q32;
use super::red::core::{Lengths, ONE};
use super::red::parameters::{ECN, UNIT_OF_LENGTH};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings;
use crate::settings::{Count, Fraction, Part, Time, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

settings! {
    /// Settings of BLUE.
    struct Settings {
        d1: Fraction = Part::new(0, UNIT, UNIT / 50, "step by which the probability rises"),
        d2: Fraction = Part::new(0, UNIT, UNIT / 500, "step by which the probability falls"),
        freeze: Nanos = Time::new(
            1_000,
            3_600_000_000_000,
            100_000_000,
            "least time between changes of the probability",
        ),
        limit: u32 = Count::new(
            0,
            u32::MAX,
            "",
            0,
            "length of the queue above which the probability also rises; 0: only when the queue \
             is full",
        ),
        unit: Lengths = UNIT_OF_LENGTH,
        ecn: bool = ECN,
    }
}

/// BLUE.
#[derive(Debug)]
pub struct Blue {
    /// The probability, and the steps by which it rises and falls, in parts of 2^32.
    p: u64,
    d1: u64,
    d2: u64,
    /// The least time between changes of `p`, in ns.
    freeze: u64,
    /// The time of the last change of `p`, or of the first packet if `p` has not changed; `None`
    /// before the first packet.
    last: Option<Nanos>,
    /// The length of the queue above which `p` rises, in packets or bytes; [`u64::MAX`]: `p` rises
    /// only when the queue is full.
    limit: u64,
    /// Whether lengths are in bytes rather than packets.
    bytes: bool,
    ecn: bool,
    stream: Stream,
}

impl Blue {
    /// A new AQM with a probability of 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        Self {
            p: 0,
            d1: q32(settings.d1),
            d2: q32(settings.d2),
            freeze: settings.freeze.0,
            last: None,
            limit: match settings.limit {
                0 => u64::MAX,
                limit => limit.into(),
            },
            bytes: settings.unit == Lengths::Bytes,
            ecn: settings.ecn,
            stream: setup.stream.clone(),
        }
    }

    /// Applies the falls for an idle time that lasted until `now` and began at most `freeze` after
    /// the last change.
    fn idle(&mut self, now: Nanos) {
        let last = self.last.get_or_insert(now);
        let elapsed = now.since(*last).0;
        if elapsed > self.freeze {
            // Each fall is due when more than `freeze` has passed since the change before it. From
            // the last fall until `now`, at most `freeze` has passed.
            let falls = (elapsed - 1) / self.freeze;
            self.p = self.p.saturating_sub(self.d2.saturating_mul(falls));
            last.0 += falls * self.freeze;
        }
    }

    /// Notes that the link becomes idle now, which causes at most one fall.
    fn becomes_idle(&mut self, now: Nanos) {
        if self.thawed(now) {
            self.p = self.p.saturating_sub(self.d2);
            self.last = Some(now);
        }
    }

    /// Notes that a packet found the queue full or longer than `limit`, which causes at most one
    /// rise.
    fn overflows(&mut self, now: Nanos) {
        if self.thawed(now) {
            self.p = (self.p + self.d1).min(ONE);
            self.last = Some(now);
        }
    }

    /// Whether more than `freeze` has passed since the last change.
    fn thawed(&self, now: Nanos) -> bool {
        self.last.is_none_or(|last| now.since(last).0 > self.freeze)
    }
}

impl Aqm for Blue {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        if queue.packets == 0 {
            self.idle(now);
        }
        let length = if self.bytes { queue.bytes } else { u64::from(queue.packets) };
        if queue.full || length > self.limit {
            self.overflows(now);
        }
        if queue.full || u64::from(self.stream.bits32()) >= self.p {
            Verdict::Pass
        } else if self.ecn && packet.header.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    #[inline]
    fn leave(&mut self, now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        if queue.packets == 0 {
            self.becomes_idle(now);
        }
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        vec![("probability", self.p), ("changed", self.last.map_or(0, |last| last.0))]
    }
}

pub(super) const ROW: Row = Row {
    name: "blue",
    aliases: &[],
    summary: "a probability that rises with losses and falls while the link is idle",
    source: "Feng, Shin, Kandlur and Saha, IEEE/ACM Transactions on Networking 10(4), 2002",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
