//! Ranks: the numbers by which packets are ordered, the least first.
//!
//! The method that computes the rank determines the policy of a sorted queue. This file has one
//! function for each method, for all schedulers with ranks: the PIFO, trees of PIFOs and
//! approximations of a PIFO.
//!
//! | rank | the number | resulting policy |
//! |---|---|---|
//! | `stfq` | virtual start: bytes over weight, not before the virtual time | shares by weight |
//! | `lstf` | arrival + slack | least slack time first |
//! | `edf` | deadline | earliest deadline first |
//! | `srpt` | bytes that the flow still has to send | shortest remaining time first |
//! | `sjf` | bytes of the flow's job | shortest job first |
//! | `las` | bytes of all earlier arrivals of the flow | least attained service first |
//! | `fifo+` | the remaining time to a deadline that the source has set | FIFO+ over several hops |
//! | `prio` | priority of the flow | strict priority |
//! | `arrival` | arrival | first in, first out |
//!
//! # Labels
//! `lstf`, `edf`, `srpt`, `sjf` and `fifo+` read the packet's label
//! ([`crate::packet::LabelThenStart`]). A label of 0 means none; the rank then follows from local
//! state. A label is in the rank's own unit: nanoseconds of slack, an absolute deadline in
//! nanoseconds, bytes.
//!
//! Slack and the deadline of `fifo+` shrink along the path. The driver that moves a packet to the
//! next hop must subtract from its label the time that the packet waited at this one, down to 1,
//! since 0 would mean no label. The source must set the label, since a packet without one gets the
//! whole deadline of its flow again at each hop. With `edf` no driver changes labels: its deadline
//! is a point in time, the same at every hop.
//!
//! # Virtual time
//! ```text
//! virtual times   63 .......................... 20 | 19 .......................... 0
//!                 bytes for each unit of weight    | fraction
//! ```
//! The remainder of each division by a weight is carried to the flow's next packet, so that shares
//! do not drift. When virtual time reaches half of its range, after 8 TB per unit of weight without
//! a pause, the scheduler reduces all ranks.

use super::{Domain, FlowSpec, MAX_PRIORITY, MAX_WEIGHT, Parameter};
use crate::packet::{PacketId, Store};
use crate::settings::{Setting, Value};
use crate::units::Nanos;

/// A method to rank packets (see `weir algorithms`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ranking {
    /// Start-time fair queueing (Goyal, Vin and Cheng 1996).
    #[default]
    Stfq,
    /// Least slack time first (Leung 1989; Mittal et al. 2016).
    Lstf,
    /// Earliest deadline first (Liu and Layland 1973).
    Edf,
    /// Shortest remaining processing time first (Schrage 1968).
    Srpt,
    /// Shortest job first.
    Sjf,
    /// Least attained service first (Nuyens and Wierman 2008).
    Las,
    /// FIFO+ (Clark, Shenker and Zhang 1992), with deadlines.
    FifoPlus,
    /// Strict priority.
    Prio,
    /// First in, first out.
    Arrival,
}

impl Ranking {
    /// All ranks, in the order of [`Self::NAMES`].
    pub const ALL: [Self; 9] = [
        Self::Stfq,
        Self::Lstf,
        Self::Edf,
        Self::Srpt,
        Self::Sjf,
        Self::Las,
        Self::FifoPlus,
        Self::Prio,
        Self::Arrival,
    ];

    /// The names of the ranks.
    pub const NAMES: [&'static str; 9] =
        ["stfq", "lstf", "edf", "srpt", "sjf", "las", "fifo+", "prio", "arrival"];

    /// A setting that selects a rank.
    pub(super) const fn setting(default: Self, summary: &'static str) -> Setting<Self> {
        Setting::choice(&Self::NAMES, default as u64, summary)
    }
}

impl Value for Ranking {
    fn of(number: u64) -> Self {
        Self::ALL[number as usize]
    }
}

pub(super) const DEADLINE: Parameter = Parameter {
    name: "deadline",
    domain: Domain::Number { least: 0, most: MAX_DEADLINE, unit: "ns" },
    default: 0,
    summary: "deadline of packets without a label, after their arrival, for the ranks lstf, edf and fifo+",
};

/// The state of a flow, or of a class of flows, from which ranks are computed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// The weight. The weight of a class may be a sum, which exceeds the range of a flow's weight.
    /// 0 counts as 1.
    pub(super) weight: u64,
    pub(super) priority: u32,
    /// The time from a packet's arrival to its deadline, in ns.
    pub(super) deadline: u64,
    /// The virtual finish of the flow's last packet, and the remainder of its division by the
    /// weight.
    finish: u64,
    remainder: u64,
    /// The flow's bytes inside.
    backlog: u64,
    /// The bytes that have arrived since the flow was last empty.
    job: u64,
    /// The bytes of all arrivals.
    arrived: u64,
}

impl Standing {
    /// The state of a new flow.
    pub(super) fn new(spec: &FlowSpec) -> Self {
        let mut standing = Self::default();
        standing.change(spec);
        standing
    }

    /// Applies a flow's changed settings.
    pub(super) fn change(&mut self, spec: &FlowSpec) {
        self.set_weight(u64::from(spec.weight.clamp(1, MAX_WEIGHT)));
        self.priority = spec.priority.min(MAX_PRIORITY);
        self.deadline = spec.deadline.0.min(MAX_DEADLINE);
    }

    /// Changes the weight. Discards the remainder of the division by the old weight, which is less
    /// than a unit.
    pub(super) fn set_weight(&mut self, weight: u64) {
        if self.weight != weight {
            (self.weight, self.remainder) = (weight, 0);
        }
    }

    /// The facts about a packet of this flow that arrives at `now`.
    pub(super) fn facts<P: Store>(&self, now: Nanos, store: &P, packet: PacketId) -> Facts {
        Facts {
            packet,
            now: now.0,
            len: store.len(packet),
            label: store.label(packet),
            deadline: self.deadline,
        }
    }

    /// The facts about a packet that has no number yet.
    pub(super) fn facts_of_arrival(&self, now: Nanos, len: u32, label: u64) -> Facts {
        Facts { packet: PacketId(u32::MAX), now: now.0, len, label, deadline: self.deadline }
    }

    /// Reduces virtual times by `by`, as [`Ranker::set_back`] has done.
    pub(super) fn set_back(&mut self, by: u64) {
        self.finish = self.finish.saturating_sub(by);
    }
}

/// The facts about a packet from which its rank is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) packet: PacketId,
    /// The time of its arrival, in ns.
    pub(super) now: u64,
    pub(super) len: u32,
    pub(super) label: u64,
    /// The time from arrival to deadline that the flow sets, in ns.
    pub(super) deadline: u64,
}

impl Facts {
    /// The label, or `other` for a packet without one.
    fn label_or(&self, other: u64) -> u64 {
        if self.label == 0 { other } else { self.label }
    }
}

/// Computes ranks by one method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranker {
    ranking: Ranking,
    /// The latest virtual start of a served packet.
    virtual_time: u64,
    /// The latest virtual finish of an accepted packet.
    latest: u64,
}

impl Ranker {
    /// A ranker with the virtual time `epoch`.
    pub(super) fn new(ranking: Ranking, epoch: u64) -> Self {
        let epoch = if ranking == Ranking::Stfq { epoch } else { 0 };
        Self { ranking, virtual_time: epoch, latest: epoch }
    }

    /// The least rank that a future packet can have.
    pub(super) fn least(&self) -> u64 {
        self.virtual_time
    }

    /// The rank of a packet that arrives now.
    pub(super) fn rank(&self, standing: &Standing, facts: &Facts) -> u64 {
        match self.ranking {
            Ranking::Stfq => stfq(self.virtual_time, standing),
            Ranking::Lstf => lstf(facts),
            Ranking::Edf => edf(facts),
            Ranking::Srpt => srpt(standing, facts),
            Ranking::Sjf => sjf(standing, facts),
            Ranking::Las => las(standing),
            Ranking::FifoPlus => fifo_plus(facts),
            Ranking::Prio => prio(standing),
            Ranking::Arrival => arrival(facts),
        }
    }

    /// Records that a packet with `rank` enters the scheduler.
    pub(super) fn accept(&mut self, standing: &mut Standing, rank: u64, len: u32) {
        let bytes = u64::from(len);
        if standing.backlog == 0 {
            standing.job = 0;
        }
        standing.backlog += bytes;
        standing.job += bytes;
        standing.arrived += bytes;
        if self.ranking == Ranking::Stfq {
            let weight = standing.weight.max(1);
            let service = (bytes << FRACTION) + standing.remainder;
            standing.finish = rank.saturating_add(service / weight);
            standing.remainder = service % weight;
            self.latest = self.latest.max(standing.finish);
        }
    }

    /// Withdraws a flow's newest packet, as if it had not arrived.
    pub(super) fn withdraw(&self, standing: &mut Standing, rank: u64, len: u32) {
        let bytes = u64::from(len);
        standing.backlog = standing.backlog.saturating_sub(bytes);
        standing.job = standing.job.saturating_sub(bytes);
        standing.arrived = standing.arrived.saturating_sub(bytes);
        if self.ranking == Ranking::Stfq {
            (standing.finish, standing.remainder) = (rank, 0);
        }
    }

    /// Records the service of a packet with `rank`.
    pub(super) fn serve(&mut self, standing: &mut Standing, rank: u64, len: u32) {
        standing.backlog = standing.backlog.saturating_sub(u64::from(len));
        if self.ranking == Ranking::Stfq {
            self.virtual_time = self.virtual_time.max(rank);
        }
    }

    /// Records that no packet is inside: virtual time moves to the latest finish.
    pub(super) fn rest(&mut self) {
        self.virtual_time = self.virtual_time.max(self.latest);
    }

    /// Whether virtual time must be reduced before another packet gets a rank.
    pub(super) fn is_late(&self) -> bool {
        self.virtual_time >= HALF
    }

    /// Reduces virtual time and returns by how much. The caller must reduce all ranks and
    /// [`Standing`]s by the same amount.
    #[cold]
    pub(super) fn set_back(&mut self) -> u64 {
        let by = self.virtual_time - MARGIN;
        self.virtual_time = MARGIN;
        self.latest = self.latest.saturating_sub(by);
        by
    }
}

/// Start-time fair queueing: a packet starts at the finish of the flow's previous packet, but no
/// earlier than the virtual time. A packet takes half the virtual time with twice the weight.
fn stfq(virtual_time: u64, standing: &Standing) -> u64 {
    standing.finish.max(virtual_time)
}

/// Least slack: the latest time at which a packet may leave here. This gives the same order as the
/// remaining slack, since the slack of all waiting packets shrinks at the same rate. With equal
/// slack at all sources this is FIFO+ as originally published.
fn lstf(facts: &Facts) -> u64 {
    facts.now.saturating_add(facts.label_or(facts.deadline))
}

/// Earliest deadline: the label, or the arrival plus the flow's deadline.
fn edf(facts: &Facts) -> u64 {
    facts.label_or(facts.now.saturating_add(facts.deadline))
}

/// Shortest remaining time: the label, or the flow's bytes inside including this packet. Ranks of
/// waiting packets are not recomputed, so that the second is the amount at the packet's arrival.
fn srpt(standing: &Standing, facts: &Facts) -> u64 {
    facts.label_or(standing.backlog + u64::from(facts.len))
}

/// Shortest job: the label, or the bytes that have arrived since the flow was last empty, including
/// this packet and packets that have left meanwhile.
fn sjf(standing: &Standing, facts: &Facts) -> u64 {
    let job = if standing.backlog == 0 { 0 } else { standing.job };
    facts.label_or(job + u64::from(facts.len))
}

/// Least attained service: the bytes of the flow's earlier arrivals, which are the bytes that the
/// flow will have sent when this packet is served.
fn las(standing: &Standing) -> u64 {
    standing.arrived
}

/// FIFO+: the remaining time to the deadline. Unlike [`lstf`] it ignores the arrival: the packet
/// that waited longest at earlier hops is served first, no matter how late it arrives.
fn fifo_plus(facts: &Facts) -> u64 {
    facts.label_or(facts.deadline)
}

/// Strict priority.
fn prio(standing: &Standing) -> u64 {
    u64::from(standing.priority)
}

/// First in, first out.
fn arrival(facts: &Facts) -> u64 {
    facts.now
}

/// Fraction bits of a virtual time.
const FRACTION: u32 = 20;
/// Virtual time is reduced when it reaches this value.
const HALF: u64 = 1 << 63;
/// The value to which virtual time is reduced. It is not 0, since waiting packets may have lower
/// ranks.
const MARGIN: u64 = 1 << 62;
/// The largest deadline in ns: eleven days.
const MAX_DEADLINE: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(weight: u32, priority: u32, deadline: u64) -> Standing {
        Standing::new(&FlowSpec {
            weight,
            priority,
            deadline: Nanos(deadline),
            ..FlowSpec::default()
        })
    }

    fn packet(now: u64, len: u32, label: u64, of: &Standing) -> Facts {
        Facts { packet: PacketId(0), now, len, label, deadline: of.deadline }
    }

    /// The ranks of packets that arrive one after another and stay. Each packet has an arrival
    /// time, a length and a label.
    fn ranks(ranking: Ranking, mut flow: Standing, packets: &[(u64, u32, u64)]) -> Vec<u64> {
        let mut ranker = Ranker::new(ranking, 0);
        let take = |&(now, len, label): &(u64, u32, u64)| {
            let rank = ranker.rank(&flow, &packet(now, len, label, &flow));
            ranker.accept(&mut flow, rank, len);
            rank
        };
        packets.iter().map(take).collect()
    }

    use alloc::vec::Vec;

    const ONE: u64 = 1 << FRACTION;

    #[test]
    fn names_are_in_the_order_of_the_ranks() {
        assert_eq!(Ranking::ALL.map(|r| r as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Ranking::NAMES[Ranking::FifoPlus as usize], "fifo+");
    }

    #[test]
    fn stfq_starts_at_the_last_finish_and_not_before_virtual_time() {
        assert_eq!(
            ranks(Ranking::Stfq, flow(2, 0, 0), &[(0, 1000, 0), (0, 500, 0), (9, 1, 0)]),
            [0, 500 * ONE, 750 * ONE]
        );
        let (mut ranker, mut busy, mut late) =
            (Ranker::new(Ranking::Stfq, 0), flow(1, 0, 0), flow(1, 0, 0));
        ranker.accept(&mut busy, 0, 1500);
        ranker.accept(&mut busy, 1500 * ONE, 100);
        ranker.serve(&mut busy, 0, 1500);
        ranker.serve(&mut busy, 1500 * ONE, 100);
        // The packet served last started at 1500, so that a flow that arrives now starts there.
        assert_eq!(ranker.rank(&late, &packet(0, 40, 0, &late)), 1500 * ONE);
        // After a rest, every flow starts at the latest finish.
        ranker.rest();
        assert_eq!(ranker.rank(&late, &packet(0, 40, 0, &late)), 1600 * ONE);
        ranker.accept(&mut late, 1600 * ONE, 40);
        assert_eq!(ranker.rank(&busy, &packet(0, 40, 0, &busy)), 1600 * ONE);
    }

    #[test]
    fn stfq_carries_the_remainder_of_the_division() {
        // Three packets of 100 bytes at weight 3 take exactly 100 bytes per unit of weight.
        let ends = ranks(
            Ranking::Stfq,
            flow(3, 0, 0),
            &[(0, 100, 0), (0, 100, 0), (0, 100, 0), (0, 1, 0)],
        );
        assert_eq!(ends[3], 100 * ONE);
        // And 65,535 packets of one byte at weight 65,535 take one byte per unit.
        let mut all: Vec<_> = core::iter::repeat_n((0, 1, 0), 65_535).collect();
        all.push((0, 1, 0));
        assert_eq!(ranks(Ranking::Stfq, flow(65_535, 0, 0), &all).last(), Some(&ONE));
    }

    #[test]
    fn a_withdrawn_packet_does_not_change_shares() {
        let (mut ranker, mut one) = (Ranker::new(Ranking::Stfq, 0), flow(1, 0, 0));
        ranker.accept(&mut one, 0, 100);
        let rank = ranker.rank(&one, &packet(0, 900, 0, &one));
        ranker.accept(&mut one, rank, 900);
        ranker.withdraw(&mut one, rank, 900);
        assert_eq!(
            (ranker.rank(&one, &packet(0, 1, 0, &one)), one.backlog, one.arrived),
            (100 * ONE, 100, 100)
        );
    }

    #[test]
    fn lstf_is_the_latest_departure_time() {
        // The flow allows 50 ns; the label of the second packet says that 7 ns remain.
        assert_eq!(
            ranks(Ranking::Lstf, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 7), (30, 40, 0)]),
            [60, 27, 80]
        );
        assert_eq!(ranks(Ranking::Lstf, flow(1, 0, 50), &[(u64::MAX, 40, 0)]), [u64::MAX]);
    }

    #[test]
    fn edf_is_the_deadline_itself() {
        assert_eq!(
            ranks(Ranking::Edf, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 65), (30, 40, 0)]),
            [60, 65, 80]
        );
    }

    #[test]
    fn srpt_is_the_label_or_the_bytes_inside() {
        assert_eq!(
            ranks(Ranking::Srpt, flow(1, 0, 0), &[(0, 100, 0), (0, 200, 0), (0, 300, 12)]),
            [100, 300, 12]
        );
        let (mut ranker, mut one) = (Ranker::new(Ranking::Srpt, 0), flow(1, 0, 0));
        ranker.accept(&mut one, 100, 100);
        ranker.accept(&mut one, 300, 200);
        ranker.serve(&mut one, 100, 100);
        assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 250);
    }

    #[test]
    fn sjf_counts_bytes_until_the_flow_is_empty() {
        let (mut ranker, mut one) = (Ranker::new(Ranking::Sjf, 0), flow(1, 0, 0));
        ranker.accept(&mut one, 100, 100);
        ranker.accept(&mut one, 300, 200);
        ranker.serve(&mut one, 100, 100);
        assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 350);
        assert_eq!(ranker.rank(&one, &packet(0, 50, 9, &one)), 9);
        ranker.serve(&mut one, 300, 200);
        assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 50);
    }

    #[test]
    fn las_is_the_bytes_of_all_earlier_arrivals() {
        let (mut ranker, mut one) = (Ranker::new(Ranking::Las, 0), flow(1, 0, 0));
        assert_eq!(ranker.rank(&one, &packet(0, 100, 5, &one)), 0);
        ranker.accept(&mut one, 0, 100);
        ranker.serve(&mut one, 0, 100);
        ranker.rest();
        assert_eq!(ranker.rank(&one, &packet(9, 100, 5, &one)), 100);
    }

    #[test]
    fn fifo_plus_is_the_remaining_time_at_any_arrival() {
        assert_eq!(
            ranks(Ranking::FifoPlus, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 30), (30, 40, 0)]),
            [50, 30, 50]
        );
    }

    #[test]
    fn prio_and_arrival_are_the_priority_and_the_arrival() {
        assert_eq!(ranks(Ranking::Prio, flow(1, 7, 0), &[(3, 40, 1), (4, 40, 2)]), [7, 7]);
        assert_eq!(ranks(Ranking::Arrival, flow(1, 7, 0), &[(3, 40, 1), (4, 40, 2)]), [3, 4]);
    }

    #[test]
    fn setting_virtual_time_back_keeps_distances() {
        let (mut ranker, mut one) = (Ranker::new(Ranking::Stfq, HALF - 10), flow(1, 0, 0));
        let rank = ranker.rank(&one, &packet(0, 100, 0, &one));
        ranker.accept(&mut one, rank, 100);
        assert!(!ranker.is_late());
        ranker.rest();
        assert!(ranker.is_late());
        let ahead = ranker.rank(&one, &packet(0, 1, 0, &one)) - rank;
        let by = ranker.set_back();
        one.set_back(by);
        assert!(!ranker.is_late());
        assert_eq!(ranker.rank(&one, &packet(0, 1, 0, &one)) - (rank - by), ahead);
    }
}
