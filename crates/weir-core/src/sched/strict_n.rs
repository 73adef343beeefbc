//! Strict slices: a PIFO approximated by strict-priority queues with fixed bounds.
//!
//! # Model
//! The ranks are divided into slices of equal width. Each slice has a first-in first-out queue of a
//! fixed depth, and the non-empty queue with the lowest ranks is served. Packets with ranks beyond
//! the last slice enter the last queue. A packet for a full queue is dropped even if other queues
//! have room.
//!
//! # Reference
//! A basic capability of switches with a P4 pipeline and eight priority queues: the ingress
//! computes the rank of a packet and selects its queue.
//!
//! # Parameters
//! `queues` 1..64, default 8. `depth` 0..1048576 packets in each queue, default 64; 0 for no limit.
//! `width`, default 1: the width of a slice in units of the rank. `rank`, default `prio`, so that
//! priorities 0 to 6 have a queue each and all other priorities share the last queue. The flow
//! settings are those that the rank uses (`weight`, `pri`, `deadline`): see `pifo`. For `fifo+`,
//! ranks lie between 0 and a deadline; a width of the deadline divided by the number of queues uses
//! all queues. With ranks that grow with time, such as `stfq`, `edf`, `lstf` and `arrival`, all
//! packets eventually enter the last queue.
//!
//! # Complexity
//! O(1) for each packet to select a queue, and O(log N) to count inversions, with N packets inside.
//!
//! # Guarantees
//! A packet waits for at most `depth − 1` packets of its own slice, and for all packets of lower
//! slices. Packets of a flow leave in order: a packet that would overtake an older packet of its
//! flow is appended to the queue of that packet.
//!
//! # Statistics
//! `inversions`, `inverted`, `unpifoness`, `refused` and `held`, as in `sp-pifo`.
//!
//! # Differences from Linux/FreeBSD
//! Linux's `prio` has bands that filters select; each band has its own queue, without ranks.
//!
//! # Validation
//! Tests check slices, depth and order in an example worked by hand, and compare inversions with a
//! count over a plain list.

use super::levels::{Approximation, Mapping};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking};
use super::sp_pifo::{DEPTH, QUEUES};
use super::{Discipline, Row, Traits, WEIGHT};
use crate::settings;
use crate::settings::Number;

settings! {
    /// Settings of strict slices.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Prio, "rank that is divided into slices; the least is served \
                                             first"),
        queues: u32 = QUEUES,
        depth: u64 = DEPTH.or(64),
        width: u64 = Number::new(1, 1 << 62, "", 1, "width of a slice, in units of the rank"),
    }
}

/// Strict-priority queues with fixed bounds.
pub type StrictSlices = Approximation<Slices>;

/// Slices of ranks of equal width. Ranks beyond the last slice belong to the last queue.
#[derive(Debug)]
pub struct Slices {
    width: u64,
}

impl StrictSlices {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let ranker = Ranker::new(settings.rank, discipline.epoch());
        let mapping = Slices { width: settings.width };
        Self::with(mapping, ranker, settings.queues as usize, settings.depth)
    }
}

impl Mapping for Slices {
    fn choose(&mut self, rank: u64, _len: usize) -> Option<usize> {
        self.would_choose(rank)
    }

    fn would_choose(&self, rank: u64) -> Option<usize> {
        Some(usize::try_from(rank / self.width).unwrap_or(usize::MAX))
    }

    /// Does nothing, because the bounds are fixed.
    fn set_back(&mut self, _by: u64) {}
}

pub(super) const ROW: Row = Row {
    name: "strict-n",
    aliases: &["strict"],
    summary: "a PIFO approximated by strict-priority queues, each with a fixed slice of the ranks",
    source: "practice of switches with P4 pipelines",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log packets)",
        weighted: false,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, PRIORITY, DEADLINE],
    },
};
