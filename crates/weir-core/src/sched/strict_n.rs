//! Strict slices: a PIFO approximated by strict-priority queues with fixed bounds.
//!
//! # Model
//! The ranks are cut into slices of one width. Each slice has a first-in first-out queue of a fixed
//! depth, and the non-empty queue of the lowest ranks is served. Ranks beyond the last slice go to
//! the last queue. A packet for a full queue is dropped even if others have room.
//!
//! # Reference
//! The plain capability of a switch with a P4 pipeline and eight priority queues: the ingress
//! computes the rank of a packet and selects its queue.
//!
//! # Parameters
//! `queues` 1..64, default 8. `depth` 0..1048576 packets in each, default 64; 0 for no bound.
//! `width` of a slice in units of the rank, default 1. `rank`, default `prio`, so that priorities 0
//! to 6 have a queue each and all others the last; with `weight`, `pri` and `deadline` of flows as
//! the rank needs them: see `pifo`. For `fifo+`, with ranks from 0 to a deadline, a width of the
//! deadline over the number of queues uses all of them. Ranks that grow with time, as those of
//! `stfq`, `edf`, `lstf` and `arrival`, end up in the last queue.
//!
//! # Complexity
//! O(1), and the logarithm of the number of packets inside to count inversions.
//!
//! # Guarantees
//! A packet waits for at most `depth − 1` packets of its own slice, and for those of lower slices.
//! Order within a flow: a packet that would overtake an older one of its flow goes to the end of
//! that one's queue.
//!
//! # Figures
//! `inversions`, `inverted`, `unpifoness`, `refused` and `held`, as in `sp-pifo`.
//!
//! # Differences from Linux/FreeBSD
//! Linux's `prio` has bands that filters select; each has its own queue, without ranks.
//!
//! # Validation
//! Slices, depth and order in an example worked by hand; inversions against counting them in a
//! plain list.

use super::levels::{Approximation, Mapping};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking};
use super::sp_pifo::{DEPTH, QUEUES};
use super::{Discipline, Row, Traits, WEIGHT};
use crate::settings;
use crate::settings::Number;

settings! {
    /// Settings of strict priorities by slices of a rank.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Prio, "what is cut into slices, the least first"),
        queues: u32 = QUEUES,
        depth: u64 = DEPTH.or(64),
        width: u64 = Number::new(1, 1 << 62, "", 1, "width of a slice, in units of the rank"),
    }
}

/// Strict-priority queues with fixed bounds.
pub type StrictSlices = Approximation<Slices>;

/// Slices of ranks, all of one width; the last queue has what is beyond.
#[derive(Debug)]
pub struct Slices {
    width: u64,
}

impl StrictSlices {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let ranker = Ranker::new(settings.rank, discipline.epoch());
        let mapping = Slices { width: settings.width };
        Self::with(mapping, ranker, settings.queues as usize, settings.depth)
    }
}

impl Mapping for Slices {
    fn choose(&mut self, rank: u64, _len: usize) -> Option<usize> {
        Some(usize::try_from(rank / self.width).unwrap_or(usize::MAX))
    }

    /// The bounds are fixed.
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
