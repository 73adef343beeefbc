//! Schedulers: algorithms that choose the flow that the link serves next.
//!
//! Each discipline has a file and a row of [`TABLE`]. The row drives the command language,
//! `weir algorithms`, the documentation, the rig and the property tests.
//!
//! # Flows
//! The caller adds a flow to a scheduler before the flow's first packet ([`Scheduler::add_flow`]),
//! and the scheduler returns the flow's slot. The caller stores this [`FlowSlot`] and passes it
//! with each packet, so that the scheduler finds the flow's state without a search. The slots of
//! removed flows are reused.
//!
//! # Inlining
//! Small functions that a scheduler calls for each packet are `inline(always)`. All of them were
//! measured together: with plain `inline` and 1,000 flows, a packet takes 98.8 instructions instead
//! of 97.8 under `drr`, 316.8 instead of 307.8 under `wf2q+`, and 195.0 instead of 182.5 under
//! `qfq` in batches of 32. `pifo`, `wfq`, `scfq` and `htb` take the same number with either
//! attribute (the rig's loop under callgrind, with thin link-time optimisation).

use alloc::vec::Vec;

mod added;
mod aggregate;
mod aifo;
mod batch;
mod bucket;
pub(crate) mod cake;
mod chains;
mod dcf;
mod dcf_settings;
mod discipline;
mod drr;
mod dualpi2;
mod ets;
mod fair_queue;
mod fifo;
mod flow_queues;
mod fluid_clocked;
mod fq_codel;
mod fq_pie;
mod gps;
mod groups;
mod htb;
pub mod inversions;
mod kps;
mod levels;
mod lwf2q;
mod pifo;
mod pifo_bounds;
mod pifo_node;
mod pifo_spec;
mod pifo_tree;
mod prio;
mod qfq;
mod qfqp;
mod rank;
mod row;
mod scfq;
mod self_clocked;
mod sfq;
mod sp_pifo;
mod stamp;
mod stfq;
mod strict_n;
mod sums;
mod tournament;
mod tree;
mod turns;
mod waiting;
mod wf2qp;
mod wfq;
mod wheel_slots;
pub mod wifi;

pub use crate::settings::{Domain, Parameter, SettingError};
pub use added::{AddedScheduler, External, ExternalFactory};
pub use dcf_settings::{Access, Edca, Misfit, Preamble, Settings as DcfSettings};
pub use discipline::Discipline;
pub use pifo_spec::{NodeId, NodeSpec, TreeSpec};
pub use rank::Ranking;
pub use row::{Row, Traits};
pub(crate) use tree::NodeName;
pub use tree::{Tree, TreeNode};

use crate::packet::{PacketId, PacketList, Store};
use crate::stats::DropReason;
use crate::units::Nanos;

/// The description of a flow for its scheduler. A value outside a discipline's range counts as the
/// nearest value within the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The flow's number, which its packets carry in [`crate::packet::Packet::flow`].
    pub flow: u32,
    /// The share of the link relative to other flows.
    pub weight: u32,
    /// The largest packet in bytes.
    pub max_packet: u32,
    /// The priority; 0 is served first. Under [`Kind::Dcf`], a user priority of 802.11.
    pub priority: u32,
    /// The guaranteed rate in bit/s; 0 for none. Under [`Kind::Dcf`], the data rate of the station.
    pub rate: u64,
    /// The rate in bit/s that the flow may not exceed; 0 for no bound.
    pub ceil: u64,
    /// Number of bytes that the flow may send in one burst above its rates; 0 for the scheduler's
    /// default.
    pub burst: u32,
    /// The time from a packet's arrival to its deadline.
    pub deadline: Nanos,
    /// The largest number of packets in the flow's queue; [`u32::MAX`] if it is unknown.
    pub limit: u32,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            flow: 0,
            weight: 1,
            max_packet: 1500,
            priority: 0,
            rate: 0,
            ceil: 0,
            burst: 0,
            deadline: Nanos::ZERO,
            limit: u32::MAX,
        }
    }
}

/// The index of a flow in a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowSlot(pub u32);

/// A scheduler shares one link among flows. It determines the order of the packets inside. The
/// caller admits each packet before it enqueues the packet, and does the accounting.
///
/// Unless a scheduler classifies packets itself, it keeps the packets of each flow in order, even
/// if flows are changed while packets wait.
pub trait Scheduler {
    /// Adds a flow and returns its slot.
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot;

    /// Changes a flow's settings. Its packets stay in the scheduler, in order.
    fn change_flow<P: Store>(&mut self, now: Nanos, store: &mut P, slot: FlowSlot, spec: &FlowSpec);

    /// Removes the flow with this slot and number, and returns its waiting packets in order.
    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList;

    /// Adds a packet of the flow at `slot`. Returns the packet that must be dropped for lack of
    /// room, if any: this packet or another one. Only schedulers with limits of their own return a
    /// packet.
    #[must_use]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId>;

    /// Removes and returns the next packet, or `None` when no packet may leave at `now`. At
    /// [`Nanos::MAX`] every packet may leave.
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId>;

    /// Adds several packets, with the same result as single calls. Appends the packets that must be
    /// dropped to `refused`.
    #[inline]
    fn enqueue_batch<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        packets: &[(FlowSlot, PacketId)],
        refused: &mut Vec<PacketId>,
    ) {
        for &(slot, packet) in packets {
            refused.extend(self.enqueue(now, store, slot, packet));
        }
    }

    /// Removes up to `max` packets and appends them to `out`, with the same result as single calls.
    #[inline]
    fn dequeue_batch<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        max: usize,
        out: &mut Vec<PacketId>,
    ) {
        out.extend(core::iter::from_fn(|| self.dequeue(now, store)).take(max));
    }

    /// Returns a packet that the scheduler has dropped since the last call, with the reason.
    /// Packets that [`Self::enqueue`] returned are not among them. Only schedulers with AQMs, or
    /// with limits of lengths or retries, drop packets.
    #[inline]
    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        None
    }

    /// The earliest time at which a scheduler that holds packets back may release the next one;
    /// `None` for work-conserving schedulers.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Whether a packet that would be dequeued immediately may go straight to the link: the
    /// scheduler is empty, and `enqueue` followed by `dequeue` would not change its state.
    fn may_bypass(&self) -> bool {
        false
    }

    /// Whether the scheduler accepts every packet, so that [`Self::enqueue`] never returns one.
    fn accepts_all(&self) -> bool {
        true
    }

    /// Whether [`Self::enqueue`] would accept a packet of the flow at `slot`, with `len` bytes and
    /// this label, without dropping any packet. The state does not change. Schedulers that may
    /// refuse packets for reasons other than the lengths of their queues always return `false`;
    /// [`Discipline::knows_room`] is `false` for these schedulers.
    fn has_room(&self, _now: Nanos, _slot: FlowSlot, _len: u32, _label: u64) -> bool {
        self.accepts_all()
    }

    /// The number of packets inside.
    fn len(&self) -> usize;

    /// Whether there are no packets inside.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the network-layer bytes of the packets inside.
    fn backlog(&self) -> u64;

    /// The scheduler's own counters, by name.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Code that runs with a scheduler of any type. It is compiled for each type, so that only calls of
/// an added scheduler are virtual.
pub trait Visitor {
    /// The result.
    type Output;

    /// Runs the code.
    fn visit<S: Scheduler + core::fmt::Debug>(self, scheduler: S) -> Self::Output;
}

/// Defines the function that creates a scheduler of a discipline's type, and the enum of all types.
macro_rules! types {
    ($($kind:ident: $type:ident),+) => {
        impl Discipline {
            /// Creates a scheduler of this discipline and passes it to `visitor`, which is compiled
            /// for each type.
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match implementation(self) {
                    $(Kind::$kind => visitor.visit($type::new(self)),)+
                    Kind::Added(_) => visitor.visit(AddedScheduler::new(self)),
                }
            }
        }

        any::any! { $($kind: $type),+ }
    };
}

mod any;

crate::table! {
    noun "scheduler", traits Traits, added dyn ExternalFactory, with types;
    /// First in, first out.
    Fifo: fifo::Fifo,
    /// Deficit round robin.
    RoundRobin: drr::RoundRobin,
    /// Worst-case fair weighted fair queueing, dummynet's default.
    Wf2qPlus: wf2qp::Wf2qPlus,
    /// Strict priority.
    Prio: prio::Prio,
    /// Hierarchical token buckets.
    Htb: htb::Htb,
    /// The 802.11 medium.
    Dcf: dcf::Dcf,
    /// A queue sorted exactly by a rank.
    Pifo: pifo::Pifo,
    /// A tree of PIFOs.
    PifoTree: pifo_tree::PifoTree,
    /// A PIFO approximated by strict-priority queues with bounds that adapt.
    SpPifo: sp_pifo::SpPifo,
    /// A PIFO approximated by one queue and an admission rule.
    Aifo: aifo::Aifo,
    /// A PIFO approximated by strict-priority queues with fixed bounds.
    StrictSlices: strict_n::StrictSlices,
    /// Quick fair queueing.
    Qfq: qfq::Qfq,
    /// Quick fair queueing of aggregates.
    QfqPlus: qfqp::QfqPlus,
    /// Start-time fair queueing.
    StartTime: stfq::StartTime,
    /// Self-clocked fair queueing.
    SelfClocked: scfq::FinishTime,
    /// Weighted fair queueing with an exact fluid.
    Wfq: wfq::Wfq,
    /// Worst-case fair weighted fair queueing with an exact fluid.
    LWf2q: lwf2q::LWf2q,
    /// Interleaved stratified timer wheels.
    Kps: kps::Kps,
    /// Fair queueing of hashed flows, each with `CoDel`.
    FqCodel: fq_codel::FqCodel,
    /// Flow queues with COBALT, grouped into tins.
    Cake: cake::Cake,
    /// Two queues coupled by one controller.
    DualPi2: dualpi2::DualPi2,
    /// Fair queueing of hashed flows, each with PIE.
    FqPie: fq_pie::FqPie,
    /// Stochastic fairness queueing.
    Stochastic: sfq::Stochastic,
    /// Strict priorities before deficit round robin.
    Ets: ets::Ets,
}

#[expect(clippy::derivable_impls, reason = "the macro writes the enum")]
impl Default for Kind {
    fn default() -> Self {
        Self::Wf2qPlus
    }
}

/// The kind of the scheduler that implements a discipline: the discipline's own kind, or `qfq` for
/// `qfq+` with `m` 1.
fn implementation(discipline: &Discipline) -> Kind {
    if qfqp::is_single(discipline) { Kind::Qfq } else { discipline.kind() }
}

impl Kind {
    /// A new scheduler of this kind, with its default settings.
    pub fn build(self) -> impl Scheduler + core::fmt::Debug {
        AnyScheduler::new(&Discipline::new(self))
    }
}

/// Checks that the settings of a scheduler fit together, beyond the range of each.
///
/// # Errors
/// Two settings contradict each other.
pub fn check(discipline: &Discipline) -> Result<(), Misfit> {
    match discipline.kind() {
        Kind::Dcf => DcfSettings::of(discipline).check(),
        _ => Ok(()),
    }
}

/// Checks that a flow's rate in bit/s, 0 for none, and its priority suit a scheduler.
///
/// # Errors
/// The scheduler has no such rate or priority.
pub fn check_flow(discipline: &Discipline, rate: u64, priority: u32) -> Result<(), Misfit> {
    match discipline.kind() {
        Kind::Dcf => DcfSettings::of(discipline).check_station(rate, priority),
        _ => Ok(()),
    }
}

/// The largest weight of a flow; the least is 1.
pub const MAX_WEIGHT: u32 = 65_536;
/// The largest number of a priority; 0 is served first.
pub const MAX_PRIORITY: u32 = 63;
/// The largest `lmax` in bytes: the length of the longest offload train.
pub const MAX_PACKET: u32 = 65_536;
/// The least `lmax` in bytes.
pub const MIN_PACKET: u32 = 64;

const WEIGHT: Parameter = Parameter {
    name: "weight",
    domain: Domain::Number { least: 1, most: MAX_WEIGHT as u64, unit: "" },
    default: 1,
    summary: "share of the link, in bytes, relative to the other flows that have packets waiting",
};

const LMAX: Parameter = Parameter {
    name: "lmax",
    domain: Domain::Number { least: MIN_PACKET as u64, most: MAX_PACKET as u64, unit: "bytes" },
    default: 1500,
    summary: "the flow's largest packet",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_are_distinct() {
        assert_eq!(Kind::from_name("WF2Q+"), Some(Kind::Wf2qPlus));
        assert_eq!(Kind::from_name("drr"), Some(Kind::RoundRobin));
        assert_eq!(Kind::from_name("fifo2"), None);
        let mut names: Vec<&str> = TABLE
            .iter()
            .flat_map(|row| core::iter::once(row.name).chain(row.aliases.iter().copied()))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.row().name), Some(kind));
        }
    }
}
