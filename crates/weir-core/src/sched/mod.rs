//! Schedulers: which flow's packet goes next.
//!
//! One discipline is one file and one row of [`TABLE`]. The row drives the command language, `weir algorithms`, the
//! documentation, the rig and the property tests.

mod fifo;

pub use fifo::Fifo;

use crate::packet::{PacketId, Pool};
use crate::units::Nanos;

/// A scheduler shares one link among flows. It owns the order of the packets in it; the caller has already decided that
/// a packet is admitted, and counts.
pub trait Scheduler {
    /// Takes a packet of the flow named in its descriptor.
    fn enqueue(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId);

    /// Gives the packet that goes next, or `None` when nothing may go now.
    fn dequeue(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId>;

    /// Takes several packets; the same as one after the other.
    fn enqueue_batch(&mut self, now: Nanos, pool: &mut Pool, packets: &[PacketId]) {
        for &packet in packets {
            self.enqueue(now, pool, packet);
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
    #[default]
    Fifo,
}

impl Kind {
    /// The scheduler's row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// A new scheduler of this kind.
    pub(crate) fn build(self) -> AnyScheduler {
        match self {
            Self::Fifo => AnyScheduler::Fifo(Fifo::default()),
        }
    }
}

/// All schedulers, in the order of [`Kind`].
pub const TABLE: &[Row] = &[fifo::ROW];

/// Any scheduler of the table, without a virtual call.
#[derive(Debug)]
pub(crate) enum AnyScheduler {
    Fifo(Fifo),
}

impl Scheduler for AnyScheduler {
    #[inline]
    fn enqueue(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId) {
        match self {
            Self::Fifo(s) => s.enqueue(now, pool, packet),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId> {
        match self {
            Self::Fifo(s) => s.dequeue(now, pool),
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Fifo(s) => s.next_event(),
        }
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        match self {
            Self::Fifo(s) => s.may_bypass(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Fifo(s) => s.len(),
        }
    }

    fn backlog(&self) -> u64 {
        match self {
            Self::Fifo(s) => s.backlog(),
        }
    }
}
