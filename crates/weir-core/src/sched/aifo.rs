//! AIFO: a PIFO approximated by one queue and its admission.
//!
//! # Model
//! A full PIFO sends packets of low ranks and loses those of high ranks. AIFO does only the latter:
//! it has one first-in first-out queue, and admits a packet whose rank is low among recent
//! arrivals. The fuller the queue, the lower the rank must be.
//!
//! Let `C` be the limit of the queue, `c` its length, `k` the headroom, and `q` the fraction of the
//! last `window` packets with a lower rank. A packet is admitted when
//!
//! ```text
//! c < C   and   q ≤ (C − c) / (C (1 − k))
//! ```
//!
//! so that the part `k` of the queue takes every packet. The window contains every arrival,
//! including this one and refused ones.
//!
//! # Reference
//! Yu et al., "Programmable packet scheduling with a single queue", SIGCOMM 2021.
//!
//! # Parameters
//! `limit` 1..1048576 packets, default 64: `C`. `k` 0..99 %, default 10: the headroom, for bursts.
//! `window` 1..65536 packets, default 20: how many ranks are remembered; a short window follows
//! changes quickly, a long one distinguishes ranks more finely. `rank`, default `stfq`, with
//! `weight`, `pri` and `deadline` of flows as the rank needs them: see `pifo`.
//!
//! # Complexity
//! The logarithm of the window and of the packets inside.
//!
//! # Guarantees
//! Order over all flows. The set of packets that leave approximates a PIFO's; their times do not: a
//! packet waits for all packets before it.
//!
//! # Figures
//! `refused`: packets that were not admitted. `inversions`, `inverted` and `unpifoness` as in
//! `sp-pifo`; `held` is 0, since there is only one queue.
//!
//! # Differences from Linux/FreeBSD
//! Neither has one. The published switch program samples packets into its window; here every packet
//! counts.
//!
//! # Validation
//! Admission in an example worked by hand, and against the formula in fractions.

use alloc::collections::VecDeque;

use super::inversions::Ranks;
use super::levels::{Approximation, Mapping};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking};
use super::{Discipline, Row, Traits, WEIGHT};
use crate::settings;
use crate::settings::{Count, Number};

settings! {
    /// Settings of AIFO.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "what packets are admitted by, the least first"),
        limit: u64 = Number::new(1, 1 << 20, "packets", 64, "most packets inside"),
        k: u64 = Number::new(
            0,
            99,
            "%",
            10,
            "headroom: the part of the queue that takes every packet",
        ),
        window: u32 = Count::new(
            1,
            65_536,
            "packets",
            20,
            "how many of the latest ranks a new one is compared with",
        ),
    }
}

/// One queue that admits by rank.
pub type Aifo = Approximation<Admission>;

/// The recent ranks, and the admission by them.
#[derive(Debug)]
pub struct Admission {
    /// From the oldest to the newest, and sorted.
    recent: VecDeque<u64>,
    sorted: Ranks,
    window: usize,
    /// `C`.
    limit: u64,
    /// `k`, in hundredths.
    headroom: u64,
}

impl Aifo {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let ranker = Ranker::new(settings.rank, discipline.epoch());
        Self::with(Admission::new(&settings), ranker, 1, 0)
    }
}

impl Admission {
    fn new(settings: &Settings) -> Self {
        Self {
            recent: VecDeque::new(),
            sorted: Ranks::default(),
            window: settings.window as usize,
            limit: settings.limit,
            headroom: settings.k,
        }
    }

    fn remember(&mut self, rank: u64) {
        if self.recent.len() == self.window
            && let Some(oldest) = self.recent.pop_front()
        {
            self.sorted.remove(oldest);
        }
        self.recent.push_back(rank);
        self.sorted.insert(rank);
    }
}

impl Mapping for Admission {
    fn choose(&mut self, rank: u64, len: usize) -> Option<usize> {
        self.remember(rank);
        let free = self.limit.saturating_sub(len as u64);
        let (lower, _) = self.sorted.below(rank);
        let fits =
            lower * self.limit * (100 - self.headroom) <= 100 * free * self.recent.len() as u64;
        (free > 0 && fits).then_some(0)
    }

    fn set_back(&mut self, by: u64) {
        self.sorted.set_back(by);
        for rank in &mut self.recent {
            *rank = rank.saturating_sub(by);
        }
    }
}

pub(super) const ROW: Row = Row {
    name: "aifo",
    aliases: &[],
    summary: "a PIFO approximated by one queue, which admits packets by their rank",
    source: "Yu et al. 2021",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log window + log packets)",
        weighted: false,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, PRIORITY, DEADLINE],
    },
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn admission(limit: u64, headroom: u64, window: usize) -> Admission {
        Admission { recent: VecDeque::new(), sorted: Ranks::default(), window, limit, headroom }
    }

    #[test]
    fn the_fuller_the_queue_the_lower_a_rank_must_be() {
        let mut a = admission(10, 20, 4);
        for rank in [10, 20, 30, 40] {
            assert_eq!(a.choose(rank, 0), Some(0));
        }
        // Six of ten are free, over 0.8: three quarters of the window may be lower, and of 35 only
        // 20 and 30 are, in 20 30 40 35.
        assert_eq!(a.choose(35, 4), Some(0));
        // 30 40 35 50: three of four are lower, and six of eight parts are free.
        assert_eq!(a.choose(50, 4), Some(0));
        // 40 35 50 60: the same with five of eight.
        assert_eq!(a.choose(60, 5), None);
        // 35 50 60 36: one of four is lower; one of eight is not enough, two of eight are.
        assert_eq!(a.choose(36, 9), None);
        assert_eq!(admission(10, 20, 4).choose(36, 9), Some(0));
        // 50 60 36 36, nothing is lower; a full queue takes nobody.
        assert_eq!(a.choose(36, 9), Some(0));
        assert_eq!(a.choose(1, 10), None);
    }

    #[test]
    fn the_headroom_takes_everyone() {
        let mut a = admission(10, 20, 100);
        for rank in 0..100 {
            // Always the highest that ever came.
            assert_eq!(a.choose(rank, 2), Some(0));
        }
        assert_eq!(a.choose(1000, 3), None);
    }

    proptest! {
        #[test]
        fn admission_is_the_formula(
            limit in 1u64..40, headroom in 0u64..100, window in 1usize..12, packets in proptest::collection::vec((0u64..30, 0usize..45), 1..60),
        ) {
            let mut a = admission(limit, headroom, window);
            for n in 0..packets.len() {
                let (rank, len) = packets[n];
                let recent = &packets[(n + 1).saturating_sub(window)..=n];
                let lower = recent.iter().filter(|p| p.0 < rank).count() as f64 / recent.len() as f64;
                let free = limit as f64 - len as f64;
                let bound = free / limit as f64 / (1.0 - headroom as f64 / 100.0);
                let answer = a.choose(rank, len).is_some();
                // Where the fractions are equal, floats decide by chance.
                if (lower - bound).abs() > 1e-9 {
                    prop_assert_eq!(answer, free > 0.0 && lower < bound);
                }
            }
        }
    }
}
