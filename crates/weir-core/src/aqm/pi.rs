//! PI: a proportional-integral controller of the queue's length.
//!
//! # Model
//! The queue's length is sampled at a fixed frequency. Arriving packets are dropped, or marked,
//! with a probability that changes at each sample. A queue longer than its reference raises the
//! probability, and so does a growing queue; a shorter or a shrinking queue lowers it. With RED, a
//! higher load needs a longer queue, because only a longer queue makes RED drop more packets; PI
//! holds the same length at any load.
//!
//! # Equations
//! With `q` the number of packets that wait at a sample and `q_old` that number at the previous
//! sample:
//!
//! ```text
//! p ← p + a (q − q_ref) − b (q_old − q_ref)      within 0 and 1
//! ```
//!
//! The gains `a` and `b` suit one number of flows, one capacity and one round-trip time; Hollot et
//! al. explain how to compute the gains. With `a > b` the length settles at `q_ref`.
//!
//! # Reference
//! Hollot, Misra, Towsley and Gong, "On designing improved controllers for AQM routers supporting
//! TCP flows", INFOCOM 2001.
//!
//! # Parameters
//! Defaults are those of ns-2. `a` and `b` are the gains of the equation, 0 to 1 per packet; their
//! defaults, 0.00001822 and 0.00001816, are those of the paper's design for 15 Mbit/s, 60 flows and
//! round trips up to 246 ms. `w` 1..100000 Hz, default 170: the sampling frequency.
//! `q_ref` 0..10000000 packets, default 50. `ecn` off|on, default off: ECN-capable packets are
//! marked. `bytemode` off|on, default off: `p` is multiplied by a packet's length and divided by
//! `mean_pkt`, 1..65536 bytes, default 500.
//!
//! # Complexity
//! O(1). At each arrival or departure, all samples since the previous arrival or departure are
//! computed in one step.
//!
//! # Guarantees
//! `p` has the value of the equation at each sample, to 10 digits.
//!
//! # Statistics
//! `probability`: `p` in parts of 2^32.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements PI. In ns-2 the samples begin with the simulation; here they begin with the
//! first packet.
//!
//! # Validation
//! Tests compare the probability with the equation in floating point, sample by sample, for random
//! queue lengths and random times between packets.

use alloc::vec::Vec;

use super::pie_settings as pie;
use super::proportional::{ONE, Periods, coarse, happens, moved};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings;
use crate::settings::{Count, Fraction, Number, Part, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::{NANOS_PER_SEC, Nanos};

/// PI.
#[derive(Debug)]
pub struct Pi {
    /// The probability, in parts of 2^56.
    p: u64,
    /// The number of packets at the last sample, less the reference.
    old: i128,
    /// The gains, in parts of 2^56 for each packet.
    a: i128,
    b: i128,
    q_ref: i128,
    /// The time between samples in ns.
    period: u64,
    periods: Periods,
    ecn: bool,
    /// The factor of `p` for each byte of a packet, in parts of 2^32; 0 when the length is ignored.
    per_byte: u64,
    stream: Stream,
}

settings! {
    /// Settings of PI.
    struct Settings {
        a: Fraction =
            Part::new(0, UNIT, 18_220, "gain of the error, the queue's length less `q_ref`"),
        b: Fraction = Part::new(0, UNIT, 18_160, "gain of the error at the previous sample"),
        w: u64 = Number::new(1, 100_000, "Hz", 170, "samples per second"),
        q_ref: u32 = Count::new(0, 10_000_000, "packets", 50, "target length of the queue"),
        ecn: bool = pie::ECN,
        bytemode: bool = pie::BYTEMODE,
        mean_pkt: u64 =
            Number::new(1, 65_536, "bytes", 500, "packet length for which the probability is p in \
                                                  byte mode"),
    }
}

impl Pi {
    /// A new AQM, before the first packet.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let gain = |gain: Fraction| ((u128::from(gain.0) << 56) / u128::from(UNIT)) as i128;
        Self {
            p: 0,
            old: -i128::from(settings.q_ref),
            a: gain(settings.a),
            b: gain(settings.b),
            q_ref: i128::from(settings.q_ref),
            period: NANOS_PER_SEC / settings.w,
            periods: Periods::default(),
            ecn: settings.ecn,
            per_byte: if settings.bytemode { (1 << 32) / settings.mean_pkt } else { 0 },
            stream: setup.stream.clone(),
        }
    }

    /// Computes the samples that are due; the queue held `packets` packets at each of them.
    #[inline]
    fn sample(&mut self, now: Nanos, packets: u64) {
        let ended = self.periods.ended(now, self.period);
        if ended > 0 {
            let error = i128::from(packets) - self.q_ref;
            self.p = moved(self.p, self.a * error - self.b * self.old, ONE);
            self.p = moved(
                self.p,
                ((self.a - self.b) * error).saturating_mul(i128::from(ended - 1)),
                ONE,
            );
            self.old = error;
        }
    }
}

impl Aqm for Pi {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.sample(now, u64::from(queue.packets));
        if queue.full || self.p == 0 {
            return Verdict::Pass;
        }
        let p = match self.per_byte {
            0 => self.p,
            per_byte => ((u128::from(self.p) * u128::from(per_byte * u64::from(packet.len))) >> 32)
                .min(u128::from(ONE)) as u64,
        };
        match happens(p, self.stream.bits()) {
            false => Verdict::Pass,
            true if self.ecn && packet.header.ecn.is_capable() => Verdict::Mark(MarkReason::Early),
            true => Verdict::Drop(DropReason::Early),
        }
    }

    #[inline]
    fn leave(&mut self, now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        // `queue` does not count the current packet, which was in the queue until now.
        self.sample(now, u64::from(queue.packets) + 1);
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::from([("probability", coarse(self.p))])
    }
}

pub(super) const ROW: Row = Row {
    name: "pi",
    aliases: &[],
    summary: "a proportional-integral controller of the queue's length",
    source: "Hollot, Misra, Towsley and Gong 2001",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Kind;
    use crate::packet::{Ecn, Header};
    use crate::rng::Purpose;
    use proptest::prelude::*;

    fn pi(settings: &[(&str, &str)]) -> Pi {
        let mut policy = Policy::new(Kind::Pi);
        for (name, value) in settings {
            policy.set(name, value).unwrap();
        }
        let stream = Stream::new(1, 1, Purpose::Aqm);
        Pi::new(&policy, &Setup { rate: 0, limit_packets: 1000, limit_bytes: u64::MAX, stream })
    }

    fn seen(len: u32, ecn: Ecn) -> Seen {
        Seen { len, arrived: Nanos::ZERO, header: Header { ecn, ..Header::default() } }
    }

    proptest! {
        #[test]
        fn samples_follow_the_equation(
            queues in proptest::collection::vec((0u32..100_000, 1u64..2000), 1..200),
        ) {
            let mut pi = pi(&[]);
            let (mut now, mut p, mut old) = (Nanos(77), 0f64, -50f64);
            let mut waiting = 0;
            pi.arrive(now, &seen(1000, Ecn::NotEct), &QueueState::default());
            for (packets, periods) in queues {
                now += Nanos(periods * (NANOS_PER_SEC / 170));
                for _ in 0..periods {
                    let error = f64::from(waiting) - 50.0;
                    p = (p + 1.822e-5 * error - 1.816e-5 * old).clamp(0.0, 1.0);
                    old = error;
                }
                pi.arrive(
                    now,
                    &seen(1000, Ecn::NotEct),
                    &QueueState { packets: waiting, ..QueueState::default() },
                );
                prop_assert!(
                    (pi.p as f64 / ONE as f64 - p).abs() < 1e-9,
                    "{} {}",
                    pi.p as f64 / ONE as f64,
                    p
                );
                waiting = packets;
            }
        }
    }

    #[test]
    fn the_probability_is_p_and_in_byte_mode_p_times_the_length() {
        for (settings, len, part) in
            [(&[][..], 1500, 0.2), (&[("bytemode", "on"), ("mean_pkt", "1000")], 500, 0.1)]
        {
            let mut pi = pi(&[settings, &[("ecn", "on")]].concat());
            (pi.p, pi.period, pi.q_ref, pi.old) = (ONE / 5, u64::MAX, 0, 0);
            let mut count = |ecn| {
                (0..20_000)
                    .filter(|_| {
                        pi.arrive(Nanos(5), &seen(len, ecn), &QueueState::default())
                            != Verdict::Pass
                    })
                    .count()
            };
            for ecn in [Ecn::NotEct, Ecn::Ect0] {
                let got = count(ecn) as f64 / 20_000.0;
                assert!((got - part).abs() < 0.01, "{got} of {part}");
            }
            pi.p = ONE;
            pi.per_byte = 0;
            assert_eq!(
                pi.arrive(Nanos(5), &seen(len, Ecn::Ect1), &QueueState::default()),
                Verdict::Mark(MarkReason::Early)
            );
            assert_eq!(
                pi.arrive(Nanos(5), &seen(len, Ecn::NotEct), &QueueState::default()),
                Verdict::Drop(DropReason::Early)
            );
        }
    }
}
