//! SP-PIFO: a PIFO approximated by strict-priority queues whose bounds adapt.
//!
//! # Model
//! A few first-in first-out queues, the first of them served first. Each has a bound; bounds grow
//! from the first queue to the last. A packet goes to the last queue whose bound is not above its
//! rank, and that bound becomes its rank (push-up): later packets with lower ranks go to an earlier
//! queue and do not wait behind it. A packet whose rank is below all bounds goes to the first
//! queue, where it is behind packets of higher rank; then all bounds fall by the amount by which
//! the first was too high (push-down).
//!
//! # Reference
//! Alcoz, Dietmüller and Vanbever, "SP-PIFO: approximating push-in first-out behaviors using
//! strict-priority queues", NSDI 2020.
//!
//! # Parameters
//! `queues` 1..64, default 8: as many as most switches have. More come nearer to a PIFO. `depth`
//! 0..1048576 packets, default 0: the most in each queue; a packet for a full queue is refused. 0
//! means no bound. `rank`, default `stfq`, with `weight`, `pri` and `deadline` of flows as the rank
//! needs them: see `pifo`.
//!
//! # Complexity
//! O(number of queues) to choose one, and the logarithm of the number of packets inside to count
//! inversions.
//!
//! # Guarantees
//! Order within a flow: a packet that would overtake an older one of its flow goes to the end of
//! that one's queue. Bounds move as they would have without this rule. Inversions are not bounded;
//! they are counted exactly.
//!
//! # Figures
//! `inversions`: pairs of a packet that was served and one of lower rank that was inside.
//! `inverted`: services with at least one such pair. `unpifoness`: the differences of ranks, summed
//! over all pairs. `refused`: packets for which a queue was full. `held`: packets kept behind older
//! ones of their flow.
//!
//! # Differences from Linux/FreeBSD
//! Neither has one. The published switch program lets packets of a flow overtake each other.
//!
//! # Validation
//! Bounds and order in an example worked by hand; inversions against counting them in a plain list.

use alloc::vec::Vec;

use super::levels::{Approximation, MOST_QUEUES, Mapping};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking};
use super::{Discipline, Row, Traits, WEIGHT};
use crate::settings;
use crate::settings::{Count, Number};

settings! {
    /// Settings of SP-PIFO.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "what packets are sorted by, the least first"),
        queues: u32 = QUEUES,
        depth: u64 = DEPTH,
    }
}

/// Strict-priority queues whose bounds adapt.
pub type SpPifo = Approximation<Adaptive>;

/// The bounds, from the queue that is served first.
#[derive(Debug)]
pub struct Adaptive {
    bounds: Vec<u64>,
}

impl SpPifo {
    /// An empty one.
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

    fn set_back(&mut self, by: u64) {
        for bound in &mut self.bounds {
            *bound = bound.saturating_sub(by);
        }
    }
}

pub(super) const QUEUES: Count = Count::new(1, MOST_QUEUES as u32, "", 8, "strict-priority queues");

pub(super) const DEPTH: Number =
    Number::new(0, 1 << 20, "packets", 0, "most packets in each queue; 0 for no bound");

pub(super) const ROW: Row = Row {
    name: "sp-pifo",
    aliases: &["sppifo"],
    summary: "a PIFO approximated by strict-priority queues whose bounds adapt to the ranks that come",
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
    fn bounds_are_pushed_up_by_what_a_queue_takes_and_down_by_what_comes_too_late() {
        let mut mapping = Adaptive { bounds: alloc::vec![0, 0] };
        let mut step = |rank| {
            let queue = mapping.choose(rank, 0);
            (queue, mapping.bounds.clone())
        };
        assert_eq!(step(3), (Some(1), alloc::vec![0, 3]));
        assert_eq!(step(2), (Some(0), alloc::vec![2, 3]));
        assert_eq!(step(5), (Some(1), alloc::vec![2, 5]));
        assert_eq!(step(4), (Some(0), alloc::vec![4, 5]));
        // Below all bounds, by 3.
        assert_eq!(step(1), (Some(0), alloc::vec![1, 2]));
        assert_eq!(step(2), (Some(1), alloc::vec![1, 2]));
        assert_eq!(step(0), (Some(0), alloc::vec![0, 1]));
    }
}
