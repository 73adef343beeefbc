//! AFCD: approximated fairness and a controlled delay, in one queue.
//!
//! # Model
//! AFCD has one FIFO queue and keeps a small state for each flow: its rate, and a `CoDel`. A flow
//! that sends more than its share gets a lower delay target, so that its packets are dropped first.
//! A flow that sends less gets a higher target. Flows therefore get nearly equal rates without a
//! queue for each flow, and the delay stays near the target.
//!
//! **This is a reconstruction.** Only the abstract of the publication was available. It says that
//! the algorithm estimates the rates of flows with little state, and drops packets by the target
//! delay of their flow. The equations are our own.
//!
//! # Equations
//! A hash assigns each flow to one of `flows` places. Time is divided into periods of length
//! `period`; `b` is the number of bytes that arrive for a place in a period. The rate of a place,
//! in bytes per period, is
//!
//! ```text
//! r ← r / 2 + b / 2     at the end of a period in which the place had packets
//! r ← r / 2^k           after k periods in which the place had none
//! ```
//!
//! `R` is the same estimate for the whole queue, and `N` is the number of places that sent in the
//! last period. The fair rate is `R / N`. The target of a place in the next period is
//!
//! ```text
//! target · min(2, max(1/8, R / (N r)))
//! ```
//!
//! A place with `r` = 0 has twice the target. `CoDel` then drops packets, with the target of the
//! place and with `interval`. A place that sends twice its share has half the target, so that it
//! has drops while the other places have none.
//!
//! # Reference
//! Xue, Kumar, Kondikoppa, Chiu and Park, "AFCD: an approximated-fair and controlled-delay queuing
//! for high speed networks", ICCCN 2013 (the abstract).
//!
//! # Parameters
//! `target`, `interval`, `ecn`, `mtu`, `ce_threshold`, `ce_selector` and `arith` as for `codel`.
//! `flows` 1..65536, default 256: the number of places. Each takes 64 bytes of memory. `period`
//! 1ms..10s, default 50ms: long enough for several packets of each flow.
//!
//! # Complexity
//! O(1) for each packet, with one division for each place in each period.
//!
//! # Guarantees
//! No packet is dropped while packets wait for less than an eighth of `target`. No packet of a
//! place with at most half of the fair rate is dropped while its packets wait for less than twice
//! `target`. The last packet of the queue is not dropped.
//!
//! # Statistics
//! `flows`: the number of places that sent in the last period. `fair`: the fair rate in bytes per
//! period. `target`: the target for the packet that left last, in ns.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements AFCD.
//!
//! # Validation
//! Tests compare the estimates and targets of steady flows with exact values, and check that the
//! faster of two flows in one queue has more drops.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::codel::{self, Arith, CeSelector, Control, Law};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::settings;
use crate::settings::{Count, Time};
use crate::units::Nanos;

/// AFCD for one queue.
#[derive(Debug)]
pub struct Afcd {
    /// The settings of `CoDel`, with the target of the place that is served.
    law: Law,
    /// The target at the fair rate, in the law's ticks.
    target: u64,
    /// The target of the packet that left last, in the law's ticks.
    last_target: u64,
    /// The length of a period in ns.
    period: u64,
    /// The number of the current period, and the time in ns at which this period ends.
    current: u64,
    ends: u64,
    places: Box<[Place]>,
    /// `R`, and the bytes that have arrived in this period.
    all: Rate,
    /// The number of places that have sent in this period, and in the last period (`N`).
    senders: u32,
    last_senders: u32,
}

/// The rate of one place, its target in this period in ticks of the law, and the state of its
/// `CoDel`.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Place {
    rate: Rate,
    target: u64,
    control: Control,
}

const _: () = assert!(size_of::<Place>() == 64, "a place fills one cache line");

/// The estimate of a rate, in bytes per period.
#[derive(Clone, Debug, Default)]
struct Rate {
    /// `r` at the beginning of period `period`.
    before: u64,
    /// `b` of that period.
    bytes: u64,
    /// The number of the period to which `before` and `bytes` refer.
    period: u64,
}

impl Rate {
    /// Advances the estimate to period `now`.
    fn advance_to(&mut self, now: u64) {
        let periods = now.saturating_sub(self.period);
        if periods == 0 {
            return;
        }
        let ended = self.before / 2 + self.bytes / 2;
        let shift = u32::try_from(periods - 1).unwrap_or(u32::MAX);
        (self.before, self.bytes, self.period) = (ended.checked_shr(shift).unwrap_or(0), 0, now);
    }
}

settings! {
    /// Settings of AFCD: the settings of `CoDel`, the number of places and the period.
    struct Settings {
        target: Nanos = codel::TARGET,
        interval: Nanos = codel::INTERVAL,
        ecn: bool = codel::ECN,
        mtu: u64 = codel::MTU,
        ce_threshold: Nanos = codel::CE_THRESHOLD,
        ce_selector: CeSelector = codel::CE_SELECTOR,
        arith: Arith = codel::ARITH,
        flows: u32 = Count::new(1, 65_536, "", 256, "places that flows are hashed to"),
        period: Nanos = Time::new(
            1_000_000,
            10_000_000_000,
            50_000_000,
            "period over which rates are estimated",
        ),
    }
}

impl Afcd {
    /// A new AQM, before the first packet.
    pub fn new(policy: &Policy, _setup: &Setup) -> Self {
        let Settings {
            target,
            interval,
            ecn,
            mtu,
            ce_threshold,
            ce_selector,
            arith,
            flows,
            period,
        } = Settings::of(policy);
        let law = Law::new(&codel::Settings {
            target,
            interval,
            ecn,
            mtu,
            ce_threshold,
            ce_selector,
            arith,
        });
        let target = law.target();
        Self {
            law,
            target,
            last_target: target,
            period: period.0,
            current: 0,
            ends: 0,
            places: (0..flows).map(|_| Place::default()).collect(),
            all: Rate::default(),
            senders: 0,
            last_senders: 0,
        }
    }

    /// The index of the place of the packet's flow. Advances the place to the current period.
    #[inline]
    fn place(&mut self, now: Nanos, packet: &Seen) -> usize {
        if now.0 >= self.ends {
            self.advance_to(now);
        }
        let mixed = packet.header.hash.wrapping_mul(GOLDEN);
        let number = ((u64::from(mixed) * self.places.len() as u64) >> 32) as usize;
        if self.places[number].rate.period != self.current || self.places[number].target == 0 {
            let rate = &mut self.places[number].rate;
            rate.advance_to(self.current);
            let rate = rate.before;
            self.places[number].target = self.target_of(rate);
        }
        number
    }

    #[cold]
    fn advance_to(&mut self, now: Nanos) {
        let period = now.0 / self.period;
        if period > self.current {
            self.last_senders = if period == self.current + 1 { self.senders } else { 0 };
            self.senders = 0;
            self.current = period;
            self.all.advance_to(period);
        }
        self.ends = (period + 1).saturating_mul(self.period);
    }

    /// The target of a place that sends at `rate`.
    fn target_of(&self, rate: u64) -> u64 {
        let (least, most) = (self.target / 8, self.target * 2);
        let if_all_sent_alike = u128::from(rate) * u128::from(self.last_senders);
        let fair =
            (u128::from(self.target) * u128::from(self.all.before)).checked_div(if_all_sent_alike);
        let fair = fair.and_then(|fair| u64::try_from(fair).ok()).unwrap_or(most);
        fair.clamp(least, most).max(1)
    }
}

impl Aqm for Afcd {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, _queue: &QueueState) -> Verdict {
        let place = self.place(now, packet);
        let rate = &mut self.places[place].rate;
        self.senders += u32::from(rate.bytes == 0);
        let len = u64::from(packet.len.max(1));
        rate.bytes = rate.bytes.saturating_add(len);
        self.all.bytes = self.all.bytes.saturating_add(len);
        Verdict::Pass
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        let place = self.place(now, packet);
        let Place { target, control, .. } = &mut self.places[place];
        self.last_target = *target;
        self.law.set_target(*target);
        control.leave(&mut self.law, now, packet, queue.bytes)
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let fair = self.all.before / u64::from(self.last_senders.max(1));
        [
            ("flows", self.last_senders.into()),
            ("fair", fair),
            ("target", self.law.in_ns(self.last_target)),
        ]
        .into()
    }
}

/// A prime near 2^32 divided by the golden ratio: a multiplication by it spreads neighbouring
/// hashes far apart.
const GOLDEN: u32 = 0x9e37_79b1;

pub(super) const ROW: Row = Row {
    name: "afcd",
    aliases: &[],
    summary: "one queue in which flows above their share have a lower delay target",
    source: "Xue et al. 2013 (a reconstruction)",
    traits: Traits { marks: true, classifies: true },
    parameters: Settings::PARAMETERS,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Kind;
    use crate::packet::Header;
    use crate::rng::{Purpose, Stream};
    use crate::stats::DropReason;

    const MS: u64 = 1_000_000;

    fn afcd(settings: &[(&str, &str)]) -> Afcd {
        let mut policy = Policy::new(Kind::Afcd);
        settings.iter().for_each(|(name, value)| policy.set(name, value).unwrap());
        let stream = Stream::new(1, 1, Purpose::Aqm);
        Afcd::new(
            &policy,
            &Setup { rate: 0, limit_packets: u32::MAX, limit_bytes: u64::MAX, stream },
        )
    }

    fn seen(hash: u32, arrived: u64) -> Seen {
        Seen { len: 1000, arrived: Nanos(arrived), header: Header { hash, ..Header::default() } }
    }

    const WAITING: QueueState = QueueState { packets: 100, bytes: 100_000, full: false };

    /// For `until` ms, flow 1 sends three packets per ms and flow 2 one packet per ms; all packets
    /// wait for `delay` ns. Returns the AQM, and the drops of each flow.
    fn two_flows(delay: u64, until: u64) -> (Afcd, [u32; 2]) {
        let (mut afcd, mut drops) = (afcd(&[]), [0, 0]);
        for ms in 0..until {
            for hash in [1, 1, 1, 2] {
                afcd.arrive(Nanos(ms * MS), &seen(hash, ms * MS), &WAITING);
            }
            for hash in [1, 1, 1, 2] {
                let arrived = (ms * MS).saturating_sub(delay);
                let verdict = afcd.leave(Nanos(ms * MS), &seen(hash, arrived), &WAITING);
                drops[hash as usize - 1] += u32::from(verdict == Verdict::Drop(DropReason::Target));
            }
        }
        (afcd, drops)
    }

    #[test]
    fn estimates_converge_to_the_rates_and_determine_the_targets() {
        let (mut afcd, _) = two_flows(0, 2000);
        let now = Nanos(2000 * MS);
        let [fast, slow] = [1, 2].map(|hash| {
            let place = afcd.place(now, &seen(hash, 0));
            (afcd.places[place].rate.before, afcd.places[place].target)
        });
        // The flows send 3000 and 1000 bytes per ms for 50 ms. Each halving may lose one byte.
        assert!(fast.0.abs_diff(150_000) < 10 && slow.0.abs_diff(50_000) < 10, "{fast:?} {slow:?}");
        assert_eq!(afcd.last_senders, 2);
        // The fair rate is 100000 bytes: one flow gets two thirds of the target, the other twice
        // the target.
        assert!(
            (fast.1 * 3).abs_diff(afcd.target * 2) < 10 && slow.1.abs_diff(afcd.target * 2) < 10,
            "{fast:?} {slow:?}"
        );
        assert_eq!(
            (afcd.target_of(1 << 40), afcd.target_of(0)),
            (afcd.target / 8, afcd.target * 2)
        );
    }

    #[test]
    fn the_faster_flow_is_dropped_first() {
        assert_eq!(two_flows(3 * MS, 3000).1, [0, 0]);
        let (_, drops) = two_flows(6 * MS, 3000);
        assert!(drops[0] > 30 && drops[1] == 0, "{drops:?}");
        let (_, drops) = two_flows(20 * MS, 3000);
        assert!(drops[0] > 30 && drops[1] > 30, "{drops:?}");
    }

    #[test]
    fn an_estimate_decays_to_zero_in_a_long_idle_time() {
        let (mut afcd, _) = two_flows(0, 500);
        let place = afcd.place(Nanos(u64::MAX / 2), &seen(1, 0));
        assert_eq!((afcd.all.before, afcd.last_senders, afcd.places[place].rate.before), (0, 0, 0));
        assert_eq!(afcd.places[place].target, 2 * afcd.target);
    }
}
