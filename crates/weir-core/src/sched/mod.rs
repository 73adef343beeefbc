//! Schedulers: which flow's packet goes next.
//!
//! One discipline is one file and one row of [`TABLE`]. The row drives the command language, `weir algorithms`, the
//! documentation, the rig and the property tests.
//!
//! # Flows
//! A scheduler hears of a flow before its first packet ([`Scheduler::add_flow`]) and answers with the place it has for it. The
//! caller keeps that [`FlowSlot`] and hands it in with each packet, so that a scheduler finds a flow's state without a search,
//! and flows of any number of queues can feed one scheduler. Places are used again.

mod any;
mod fifo;
mod prio;
mod rr;
mod wf2qp;

pub(crate) use any::AnyScheduler;
pub use fifo::Fifo;
pub use prio::Prio;
pub use rr::RoundRobin;
pub use wf2qp::Wf2qPlus;

use crate::packet::{PacketId, PacketList, Pool};
use crate::units::Nanos;

/// What a scheduler is told of a flow. A value beyond a discipline's range counts as the nearest within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The flow's number, as its packets have it in [`crate::packet::Packet::flow`].
    pub flow: u32,
    /// Share of the link relative to other flows.
    pub weight: u32,
    /// Largest packet in bytes.
    pub max_packet: u32,
    /// Priority, 0 first.
    pub priority: u32,
}

/// A flow's place in a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowSlot(pub u32);

/// A scheduler shares one link among flows. It owns the order of the packets in it; the caller has already decided that
/// a packet is admitted, and counts.
///
/// Every scheduler keeps the order within a flow, whatever is changed while packets wait.
pub trait Scheduler {
    /// Makes a place for a flow that has none here.
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot;

    /// Changes what is known of a flow. Its packets stay, in order.
    fn change_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, spec: &FlowSpec);

    /// Forgets a flow, named by its place and its number, and gives back in order what it still had.
    fn remove_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, flow: u32) -> PacketList;

    /// Takes a packet of the flow that has the place `slot`.
    fn enqueue(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, packet: PacketId);

    /// Gives the packet that goes next, or `None` when nothing may go now. At [`Nanos::MAX`] everything may go.
    fn dequeue(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId>;

    /// Takes several packets; the same as one after the other.
    fn enqueue_batch(&mut self, now: Nanos, pool: &mut Pool, packets: &[(FlowSlot, PacketId)]) {
        for &(slot, packet) in packets {
            self.enqueue(now, pool, slot, packet);
        }
    }

    /// Gives up to `max` packets; the same as one after the other.
    fn dequeue_batch(&mut self, now: Nanos, pool: &mut Pool, max: usize, out: &mut alloc::vec::Vec<PacketId>) {
        out.extend(core::iter::from_fn(|| self.dequeue(now, pool)).take(max));
    }

    /// When a scheduler that holds packets but gives none will next give one; `None` for work-conserving ones.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Whether a packet that would be dequeued at once may go straight to the link: when the scheduler is empty and `enqueue`
    /// and `dequeue` would leave no trace in it.
    fn may_bypass(&self) -> bool {
        false
    }

    /// Packets inside.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Network-layer bytes inside.
    fn backlog(&self) -> u64;
}

/// A scheduler's row in [`TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the command language.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// One line that says what it does.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Cost of a packet.
    pub complexity: &'static str,
    /// Parameters.
    pub parameters: &'static [Parameter],
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Keyword.
    pub name: &'static str,
    /// Range and unit.
    pub range: &'static str,
    /// Default.
    pub default: &'static str,
    /// What it does.
    pub summary: &'static str,
}

/// A scheduler, by its place in [`TABLE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// First in, first out.
    Fifo,
    /// Deficit round robin.
    RoundRobin,
    /// Worst-case fair weighted fair queueing, dummynet's default.
    #[default]
    Wf2qPlus,
    /// Strict priority.
    Prio,
}

impl Kind {
    /// All kinds, in the order of [`TABLE`].
    pub const ALL: [Self; TABLE.len()] = [Self::Fifo, Self::RoundRobin, Self::Wf2qPlus, Self::Prio];

    /// The scheduler's row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The scheduler of this name or alias, in whatever case it is written.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_it = |row: &Row| core::iter::once(&row.name).chain(row.aliases).any(|known| known.eq_ignore_ascii_case(name));
        Self::ALL.into_iter().find(|kind| is_it(kind.row()))
    }

    /// A new scheduler of this kind.
    pub fn build(self) -> impl Scheduler + core::fmt::Debug {
        AnyScheduler::new(self)
    }
}

/// All schedulers, in the order of [`Kind`].
pub const TABLE: &[Row] = &[fifo::ROW, rr::ROW, wf2qp::ROW, prio::ROW];

/// Largest weight of a flow; the least is 1.
pub const MAX_WEIGHT: u32 = 65_536;
/// Largest number of a priority; 0 is the first.
pub const MAX_PRIORITY: u32 = 63;

const WEIGHT: Parameter = Parameter {
    name: "weight",
    range: "1..65536",
    default: "1",
    summary: "share of the link, in bytes, relative to the other flows that have packets waiting",
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn names_are_found_in_any_case_and_are_told_apart() {
        assert_eq!(Kind::from_name("WF2Q+"), Some(Kind::Wf2qPlus));
        assert_eq!(Kind::from_name("drr"), Some(Kind::RoundRobin));
        assert_eq!(Kind::from_name("fifo2"), None);
        let mut names: Vec<&str> = TABLE.iter().flat_map(|row| core::iter::once(row.name).chain(row.aliases.iter().copied())).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.row().name), Some(kind));
        }
    }
}
