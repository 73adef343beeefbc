//! AIFO: a PIFO approximated by one FIFO queue and an admission rule.
//!
//! # Model
//! A PIFO serves packets of low rank first and, when it is full, drops packets of high rank. AIFO
//! does only the second: it has one first-in first-out queue, and admits a packet if its rank is
//! low among recent arrivals. The longer the queue, the lower the rank must be.
//!
//! Let `C` be the limit of the queue, `c` its length, `k` the headroom, and `q` the fraction of the
//! last `window` packets that have a lower rank than the arriving packet. The packet is admitted
//! when
//!
//! ```text
//! c < C   and   q ≤ (C − c) / (C (1 − k))
//! ```
//!
//! so that the first part `k` of the queue admits every packet. The window contains every arrival,
//! including the current packet and refused packets.
//!
//! # Reference
//! Yu et al., "Programmable packet scheduling with a single queue", SIGCOMM 2021. The rule of
//! admission is the published one. The analysis was not available. The abstract states only that
//! the distance from a PIFO is bounded, without the bound.
//!
//! # Parameters
//! `limit` 1..1048576 packets, default 64: `C`. `k` 0..99 %, default 10: the headroom, for bursts.
//! `window` 1..65536 packets, default 20: the number of ranks in the window; a short window follows
//! changes quickly, a long window distinguishes ranks more finely. `rank`, default `stfq`, and the
//! flow settings that the rank uses (`weight`, `pri`, `deadline`): see `pifo`.
//!
//! # Complexity
//! O(log window + log N) for each packet, with N packets inside.
//!
//! # Guarantees
//! Packets of all flows leave in the order of their arrival. The set of admitted packets
//! approximates that of a PIFO. The departure times do not, since a packet waits for all packets
//! before it.
//!
//! # Statistics
//! `refused`: packets that were not admitted. `inversions`, `inverted` and `unpifoness` as in
//! `sp-pifo`; `held` is always 0, since there is only one queue.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements AIFO. The published switch program adds only a sample of the packets to its
//! window; here every packet counts.
//!
//! # Validation
//! Tests check the admission in an example worked by hand, and against the formula in floating
//! point. At twice the capacity, with uniform ranks, AIFO admits nearly the same packets as a PIFO
//! serves.

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
            Ranking::setting(Ranking::Stfq, "rank by which packets are admitted; lower ranks are \
                                             preferred"),
        limit: u64 = Number::new(1, 1 << 20, "packets", 64, "largest number of packets inside"),
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
            "number of recent ranks with which a new rank is compared",
        ),
    }
}

/// One queue that admits by rank.
pub type Aifo = Approximation<Admission>;

/// The recent ranks, and the parameters of the admission rule.
#[derive(Debug)]
pub struct Admission {
    /// The recent ranks, from the oldest to the newest.
    recent: VecDeque<u64>,
    /// The recent ranks, sorted.
    sorted: Ranks,
    /// The largest number of recent ranks.
    window: usize,
    /// `C`.
    limit: u64,
    /// `k`, in percent.
    headroom: u64,
}

impl Aifo {
    /// An empty scheduler.
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

    /// Adds a rank to the recent ranks, in place of the oldest rank if the window is full.
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

    /// Always `None`, because AIFO may refuse a packet for its rank.
    fn would_choose(&self, _rank: u64) -> Option<usize> {
        None
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
    fn a_longer_queue_admits_only_lower_ranks() {
        let mut a = admission(10, 20, 4);
        for rank in [10, 20, 30, 40] {
            assert_eq!(a.choose(rank, 0), Some(0));
        }
        // Six places are free, and C (1 − k) is 8, so up to 6/8 of the window may have lower ranks.
        // In 20 30 40 35, only 20 and 30 are lower than 35.
        assert_eq!(a.choose(35, 4), Some(0));
        // In 30 40 35 50, three of four ranks are lower, which is just 6/8.
        assert_eq!(a.choose(50, 4), Some(0));
        // In 40 35 50 60, three of four ranks are lower, which is more than 5/8.
        assert_eq!(a.choose(60, 5), None);
        // In 35 50 60 36, one of four ranks is lower, which is more than 1/8. In a window that
        // contains only 36, no rank is lower.
        assert_eq!(a.choose(36, 9), None);
        assert_eq!(admission(10, 20, 4).choose(36, 9), Some(0));
        // In 50 60 36 36, no rank is lower. A full queue still admits no packet.
        assert_eq!(a.choose(36, 9), Some(0));
        assert_eq!(a.choose(1, 10), None);
    }

    #[test]
    fn the_headroom_admits_every_packet() {
        let mut a = admission(10, 20, 100);
        for rank in 0..100 {
            // Each packet has the highest rank so far.
            assert_eq!(a.choose(rank, 2), Some(0));
        }
        assert_eq!(a.choose(1000, 3), None);
    }

    proptest! {
        #[test]
        fn admission_follows_the_formula(
            limit in 1u64..40,
            headroom in 0u64..100,
            window in 1usize..12,
            packets in proptest::collection::vec((0u64..30, 0usize..45), 1..60),
        ) {
            let mut a = admission(limit, headroom, window);
            for n in 0..packets.len() {
                let (rank, len) = packets[n];
                let recent = &packets[(n + 1).saturating_sub(window)..=n];
                let lower =
                    recent.iter().filter(|p| p.0 < rank).count() as f64 / recent.len() as f64;
                let free = limit as f64 - len as f64;
                let bound = free / limit as f64 / (1.0 - headroom as f64 / 100.0);
                let answer = a.choose(rank, len).is_some();
                // If the fractions are equal, rounding errors decide the comparison in floating
                // point.
                if (lower - bound).abs() > 1e-9 {
                    prop_assert_eq!(answer, free > 0.0 && lower < bound);
                }
            }
        }
    }
}
