//! SP-PIFO: a PIFO approximated by strict-priority queues with bounds that adapt.
//!
//! # Model
//! SP-PIFO has a few first-in first-out queues in strict priority. Each queue has a bound, and
//! bounds grow from the first queue to the last. A packet enters the last queue with a bound that
//! is not above the packet's rank, and the bound of this queue is set to the rank (push-up). Later
//! packets with lower ranks then enter an earlier queue and do not wait behind this packet. A
//! packet with a rank below all bounds enters the first queue, behind packets of higher rank, and
//! all bounds fall by the difference between the first bound and the rank (push-down).
//!
//! # Reference
//! Alcoz, Dietmüller and Vanbever, "SP-PIFO: approximating push-in first-out behaviors using
//! strict-priority queues", NSDI 2020. The adaptation of the bounds is the published one. The
//! evaluation was not available, except for a statement in the abstract: 8 queues come close to a
//! PIFO.
//!
//! # Parameters
//! `queues` 1..64, default 8, the number in most switches. More queues approximate a PIFO better.
//! `depth` 0..1048576 packets, default 0 for no limit: the largest number of packets in each queue;
//! a packet for a full queue is refused. `rank`, default `stfq`, and the flow settings that the
//! rank uses (`weight`, `pri`, `deadline`): see `pifo`.
//!
//! # Complexity
//! O(queues) for each packet to select a queue, and O(log N) to count inversions, with N packets
//! inside.
//!
//! # Guarantees
//! Packets of a flow leave in order: a packet that would overtake an older packet of its flow is
//! appended to the queue of that packet. This rule does not affect the bounds. The number of
//! inversions has no bound, but all inversions are counted.
//!
//! # Statistics
//! `inversions`: pairs of a served packet and a packet of lower rank that was inside at that time.
//! `inverted`: services with at least one such pair. `unpifoness`: the differences of ranks, summed
//! over all pairs. `refused`: packets that found their queue full. `held`: packets that entered a
//! later queue, behind older packets of their flow.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements SP-PIFO. In the published switch program, packets of a flow can overtake each
//! other.
//!
//! # Validation
//! Tests check bounds and order in an example worked by hand, and compare inversions with a count
//! over a plain list. With uniform ranks, 8 queues remove most of the errors of a FIFO, and more
//! queues remove more errors.

use alloc::vec::Vec;

use super::levels::{Approximation, MAX_QUEUES, Mapping};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking};
use super::{Discipline, Row, Traits, WEIGHT};
use crate::settings;
use crate::settings::{Count, Number};

settings! {
    /// Settings of SP-PIFO.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "rank of packets; the least is served first"),
        queues: u32 = QUEUES,
        depth: u64 = DEPTH,
    }
}

/// Strict-priority queues with bounds that adapt.
pub type SpPifo = Approximation<Adaptive>;

/// The bounds of the queues, starting with the queue that is served first.
#[derive(Debug)]
pub struct Adaptive {
    bounds: Vec<u64>,
}

impl SpPifo {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let queues = settings.queues as usize;
        let ranker = Ranker::new(settings.rank, discipline.epoch());
        Self::with(
            Adaptive { bounds: alloc::vec![ranker.least(); queues] },
            ranker,
            queues,
            settings.depth,
        )
    }
}

impl Mapping for Adaptive {
    fn choose(&mut self, rank: u64, _len: usize) -> Option<usize> {
        if let Some(queue) = self.bounds.iter().rposition(|&bound| bound <= rank) {
            self.bounds[queue] = rank;
            return Some(queue);
        }
        let cost = self.bounds.first()? - rank;
        self.set_back(cost);
        Some(0)
    }

    fn would_choose(&self, rank: u64) -> Option<usize> {
        Some(self.bounds.iter().rposition(|&bound| bound <= rank).unwrap_or(0))
    }

    fn set_back(&mut self, by: u64) {
        for bound in &mut self.bounds {
            *bound = bound.saturating_sub(by);
        }
    }
}

pub(super) const QUEUES: Count =
    Count::new(1, MAX_QUEUES as u32, "", 8, "number of strict-priority queues");

pub(super) const DEPTH: Number = Number::new(
    0,
    1 << 20,
    "packets",
    0,
    "largest number of packets in each queue; 0 for no limit",
);

pub(super) const ROW: Row = Row {
    name: "sp-pifo",
    aliases: &["sppifo"],
    summary: "a PIFO approximated by strict-priority queues with bounds that adapt to the ranks \
              of arrivals",
    source: "Alcoz, Dietmüller and Vanbever 2020",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(queues + log packets)",
        weighted: false,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, PRIORITY, DEADLINE],
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_pushed_up_by_accepted_ranks_and_down_by_lower_ones() {
        let mut mapping = Adaptive { bounds: alloc::vec![0, 0] };
        let mut step = |rank| {
            let queue = mapping.choose(rank, 0);
            (queue, mapping.bounds.clone())
        };
        assert_eq!(step(3), (Some(1), alloc::vec![0, 3]));
        assert_eq!(step(2), (Some(0), alloc::vec![2, 3]));
        assert_eq!(step(5), (Some(1), alloc::vec![2, 5]));
        assert_eq!(step(4), (Some(0), alloc::vec![4, 5]));
        // The rank is below all bounds, by 3.
        assert_eq!(step(1), (Some(0), alloc::vec![1, 2]));
        assert_eq!(step(2), (Some(1), alloc::vec![1, 2]));
        assert_eq!(step(0), (Some(0), alloc::vec![0, 1]));
    }
}
