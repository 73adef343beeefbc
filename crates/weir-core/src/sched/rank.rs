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
//! state. A label is in the rank's own unit: nanoseconds of slack or of remaining time, an absolute
//! deadline in nanoseconds, or bytes.
//!
//! Slack and the deadline of `fifo+` shrink along the path. The driver that moves a packet to the
//! next hop must reduce the packet's label by the time that the packet waited at this hop, down to
//! 1, since 0 would mean no label. The source must set the label, since a packet without a label
//! gets the whole deadline of its flow again at each hop. With `edf` no driver changes labels,
//! because the deadline is a point in time, the same at every hop.
//!
//! # Virtual time
//! ```text
//! virtual times   63 .......................... 20 | 19 .......................... 0
//!                 bytes for each unit of weight    | fraction
//! ```
//! The remainder of each division by a weight is carried to the flow's next packet, so that shares
//! do not drift. When virtual time reaches half of its range, after 8 TB per unit of weight, the
//! scheduler reduces all ranks.

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
    summary: "time from arrival to deadline of packets without a label, for the ranks lstf, edf \
              and fifo+",
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
    /// The virtual finish of the flow's last packet.
    finish: u64,
    /// The remainder of the division by the weight for this finish.
    remainder: u64,
    /// The flow's bytes inside.
    backlog: u64,
    /// The bytes that have arrived since the flow was last empty.
    job: u64,
    /// The bytes of all arrivals.
    arrived: u64,
}

impl Standing {
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
    /// The latest virtual start of a served packet; after a rest, at least `latest`.
    virtual_time: u64,
    /// The latest virtual finish of an accepted packet.
    latest: u64,
}

impl Ranker {
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

    /// Takes a flow's newest packet, which has `rank`, out of the flow's state. The remainder of
    /// the last division by the weight is lost.
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
    pub(super) fn must_set_back(&self) -> bool {
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
/// earlier than the virtual time.
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

/// Shortest remaining time: the label, or the flow's bytes inside including this packet. The rank
/// of a waiting packet does not change when the flow's other packets arrive or leave.
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

fn prio(standing: &Standing) -> u64 {
    u64::from(standing.priority)
}

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
mod tests;
