//! PI2: a proportional-integral controller of the delay. Its output is squared for classic senders,
//! which respond to the square root of their loss.
//!
//! # Model
//! The rate of a classic TCP is proportional to one over the square root of its loss. When the drop
//! probability is the square of a value that changes linearly, the rate responds linearly to that
//! value. PI2 therefore does not need the tables with which PIE scales its steps. The rate of
//! senders of the L4S service (ECT(1)) is proportional to one over their mark probability. Their
//! packets are marked with the unsquared probability times a factor, so that both kinds of senders
//! get about the same rate through the one queue.
//!
//! # Equations
//! `d` is the delay. The first line applies at each update, the second to each arriving packet:
//!
//! ```text
//! p' ← p' + α (d − target) + β (d − d_old)       within 0 and 1
//! classic: p'²            scalable: k p', at most 1
//! ```
//!
//! # Reference
//! De Schepper, Bondarenko, Tsang and Briscoe, "PI²: A linearized AQM for both classic and scalable
//! TCP", CoNEXT 2016.
//!
//! # Parameters
//! Defaults are those of the same controller in Linux's `dualpi2`. `target`, 1us to 10s, default 15
//! ms. `tupdate`, 1us to 10s, default 16 ms. `alpha` and `beta`, 0 to 4096 in 1/s, default 0.16 and
//! 3.2; they suit round trips up to 100 ms. `coupling_factor` 1..255, default 2: `k`. `ecn` off|on,
//! default on: ECN-capable packets are marked. `scalable` off|on, default on: ECT(1) and CE packets
//! are scalable; off: all packets are classic.
//!
//! # Complexity
//! O(1). The updates since the last packet are computed in one step when a packet arrives or
//! leaves.
//!
//! # Guarantees
//! `p'` has the value of the equation at each update, to 13 digits. No packet is dropped or marked
//! while fewer than 3000 bytes wait.
//!
//! # Statistics
//! `base`: `p'`. `probability`: the probability of classic packets. `scalable`: the probability of
//! scalable packets. All three are in parts of 2^32. `delay`: the delay in ns.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements PI2 separately; `dualpi2` is the same controller with a second queue for the
//! L4S service. Here the delay is that of the packet that left last, or 0 if the queue was empty
//! after that departure. If all packets are ECN-capable, `p'` can reach 1.
//!
//! # Validation
//! Tests compare `p'` with floating point over random traffic, and check the squared and the
//! coupled probability by counts of drops and marks.

use alloc::vec::Vec;

use super::proportional::{Controller, ONE, Periods, coarse, happens};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::packet::Ecn;
use crate::rng::Stream;
use crate::settings;
use crate::settings::{Fraction, Number, Part, Switch, Time, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

settings! {
    /// Settings of PI2.
    struct Settings {
        target: Nanos = TARGET,
        tupdate: Nanos = TUPDATE,
        alpha: Fraction = ALPHA,
        beta: Fraction = BETA,
        coupling_factor: u64 = COUPLING_FACTOR,
        ecn: bool = Switch::new(true, "marks ECN-capable packets instead of dropping them"),
        scalable: bool = Switch::new(true, "treats L4S packets as scalable; off: all packets are \
                                            classic"),
    }
}

/// PI2.
#[derive(Debug)]
pub struct Pi2 {
    controller: Controller,
    periods: Periods,
    /// The time between updates, in ns.
    tupdate: u64,
    /// The delay of the packet that left last; 0 if the queue was empty after its departure.
    delay: Nanos,
    /// `k`.
    coupling: u64,
    ecn: bool,
    scalable: bool,
    stream: Stream,
}

impl Pi2 {
    /// A new AQM, before the first packet.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        Self {
            controller: Controller::new(settings.alpha, settings.beta, settings.target, ONE),
            periods: Periods::default(),
            tupdate: settings.tupdate.0,
            delay: Nanos::ZERO,
            coupling: settings.coupling_factor,
            ecn: settings.ecn,
            scalable: settings.scalable,
            stream: setup.stream.clone(),
        }
    }

    /// Computes the updates that are due.
    #[inline]
    fn catch_up(&mut self, now: Nanos) {
        let ended = self.periods.ended(now, self.tupdate);
        if ended > 0 {
            self.controller.hold(self.delay, ended);
        }
    }
}

impl Aqm for Pi2 {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.catch_up(now);
        if queue.full || queue.bytes < MIN_BYTES || self.controller.p == 0 {
            return Verdict::Pass;
        }
        let ecn = packet.header.ecn;
        let scalable = self.scalable && is_l4s(ecn);
        let p = if scalable {
            coupled(self.controller.p, self.coupling)
        } else {
            squared(self.controller.p)
        };
        match happens(p, self.stream.bits()) {
            false => Verdict::Pass,
            true if self.ecn && ecn.is_capable() => {
                Verdict::Mark(if scalable { MarkReason::Coupled } else { MarkReason::Early })
            }
            true => Verdict::Drop(DropReason::Early),
        }
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.catch_up(now);
        self.delay = if queue.packets == 0 { Nanos::ZERO } else { now.since(packet.arrived) };
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let p = self.controller.p;
        let of = |p| coarse(p);
        Vec::from([
            ("probability", of(squared(p))),
            ("base", of(p)),
            ("scalable", of(coupled(p, self.coupling))),
            ("delay", self.delay.0),
        ])
    }
}

/// Whether a packet belongs to the L4S service (RFC 9331): its ECN field is ECT(1) or CE.
#[inline]
pub(crate) fn is_l4s(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Ect1 | Ecn::Ce)
}

/// `p²`.
#[inline]
pub(crate) fn squared(p: u64) -> u64 {
    ((u128::from(p) * u128::from(p)) >> 56) as u64
}

/// `k p`, at most 1; `k` is up to 255.
#[inline]
pub(crate) fn coupled(p: u64, k: u64) -> u64 {
    p.saturating_mul(k).min(ONE)
}

/// While fewer bytes than two packets of 1500 bytes wait, no packet is dropped or marked.
pub(crate) const MIN_BYTES: u64 = 3000;

pub(crate) const TARGET: Time = Time::new(1_000, 10_000_000_000, 15_000_000, "target delay");
pub(crate) const TUPDATE: Time =
    Time::new(1_000, 10_000_000_000, 16_000_000, "time between updates of the probability");
pub(crate) const ALPHA: Part =
    Part::new(0, 4096 * UNIT, UNIT / 100 * 16, "gain of the delay's error, in 1/s");
pub(crate) const BETA: Part =
    Part::new(0, 4096 * UNIT, UNIT / 10 * 32, "gain of the delay's growth, in 1/s");
pub(crate) const COUPLING_FACTOR: Number = Number::new(
    1,
    255,
    "",
    2,
    "mark probability of scalable packets divided by the square root of the classic probability",
);

pub(super) const ROW: Row = Row {
    name: "pi2",
    aliases: &[],
    summary: "a proportional-integral controller of the delay, squared for classic senders, \
              linear for scalable ones",
    source: "De Schepper, Bondarenko, Tsang and Briscoe 2016",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Kind;
    use crate::packet::Header;
    use crate::rng::Purpose;

    fn pi2() -> Pi2 {
        let stream = Stream::new(3, 1, Purpose::Aqm);
        Pi2::new(
            &Policy::new(Kind::Pi2),
            &Setup { rate: 0, limit_packets: 1000, limit_bytes: u64::MAX, stream },
        )
    }

    #[test]
    fn classic_probability_is_squared_and_scalable_is_coupled() {
        let mut pi2 = pi2();
        pi2.controller.p = ONE / 5;
        let queue = QueueState { packets: 10, bytes: 10_000, full: false };
        for (ecn, part, verdict) in [
            (Ecn::NotEct, 0.04, Verdict::Drop(DropReason::Early)),
            (Ecn::Ect0, 0.04, Verdict::Mark(MarkReason::Early)),
            (Ecn::Ect1, 0.4, Verdict::Mark(MarkReason::Coupled)),
            (Ecn::Ce, 0.4, Verdict::Mark(MarkReason::Coupled)),
        ] {
            let seen = Seen {
                len: 1000,
                arrived: Nanos::ZERO,
                header: Header { ecn, ..Header::default() },
            };
            let hit = (0..40_000).filter(|_| pi2.arrive(Nanos(1), &seen, &queue) == verdict).count()
                as f64
                / 40_000.0;
            assert!((hit - part).abs() < 0.01, "{ecn:?}: {hit} of {part}");
            let short = QueueState { packets: 2, bytes: 2999, full: false };
            assert_eq!(pi2.arrive(Nanos(1), &seen, &short), Verdict::Pass);
        }
    }

    #[test]
    fn squared_and_coupled_are_exact_at_zero_and_one() {
        assert_eq!((squared(0), squared(ONE), squared(ONE / 4)), (0, ONE, ONE / 16));
        assert_eq!(
            (coupled(ONE / 4, 2), coupled(ONE, 255), coupled(ONE / 2 + 1, 2)),
            (ONE / 2, ONE, ONE)
        );
    }
}
