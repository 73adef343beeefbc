//! Dynamic queue limits: limits the bytes in a transmission ring, based on its completions.
//!
//! # Model
//! A ring should hold enough bytes to keep the wire busy until the processor can fill it again, and
//! no more. That amount is not known in advance, but two observations show that the limit is wrong.
//! An *interval* is the time between two completions. If the ring became empty although the limit
//! had kept packets out, the limit is too small and grows by the bytes sent in that interval. If
//! the ring was busy for a whole interval and never needed some of its contents, the bytes that
//! were not needed are *slack*, and the limit decreases by the least slack within the hold time.
//!
//! All counts are in bytes, 32 bits wide, and wrap; only differences matter:
//! ```text
//!            prev_num_queued
//!                   │
//!   ────┬───────────┼───────────────┬─────────────────►  total bytes
//!       │                           │
//! num_completed                 num_queued ≤ adj_limit + one object
//!       └──── limit ────────► adj_limit
//! ```
//! A ring is closed while `adj_limit − num_queued` is negative. The check happens before an object
//! (a packet or a train) is added, so one object may exceed the limit; `ovlimit` is the excess.
//!
//! # Reference
//! T. Herbert, "bql: Byte Queue Limits", 2011; the behaviour is that of Linux's
//! `lib/dynamic_queue_limits.c` since 3.4.
//!
//! # Parameters
//! [`DqlConfig`]: `least` (0), `most` (1,879,048,192) and `hold` (1 s), as in Linux. Equal bounds
//! fix the limit.
//!
//! # Differences from Linux
//! Time is in nanoseconds instead of ticks. There is no other difference.

use crate::units::Nanos;

/// Bounds of the limit, and the hold time before it decreases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlConfig {
    /// Least limit in bytes.
    pub least: u32,
    /// Greatest limit in bytes, at most [`DQL_MAX`].
    pub most: u32,
    /// Time for which slack must persist before the limit decreases by it.
    pub hold: Nanos,
}

impl Default for DqlConfig {
    fn default() -> Self {
        Self { least: 0, most: DQL_MAX, hold: DQL_HOLD }
    }
}

/// The limit of one ring, and the counts on which it is based. The code that holds the ring reports
/// additions with [`Dql::queued`] and completions with [`Dql::completed`].
#[derive(Clone, Debug)]
pub struct Dql {
    config: DqlConfig,
    /// Total bytes added.
    num_queued: u32,
    /// Total bytes completed.
    num_completed: u32,
    /// The current limit in bytes.
    limit: u32,
    /// `limit + num_completed`.
    adj_limit: u32,
    /// Bytes of the object that was added last.
    last_obj_cnt: u32,
    /// `num_queued` at the previous completion.
    prev_num_queued: u32,
    /// The excess over the limit at the previous completion.
    prev_ovlimit: u32,
    /// `last_obj_cnt` at the previous completion.
    prev_last_obj_cnt: u32,
    /// Least slack since `slack_start`.
    lowest_slack: u32,
    /// Start of the current search for the least slack.
    slack_start: Nanos,
}

impl Dql {
    /// An empty ring at `now`, with the least limit.
    pub fn new(now: Nanos, config: DqlConfig) -> Self {
        let limit = config.least.min(config.most);
        Self {
            config,
            num_queued: 0,
            num_completed: 0,
            limit,
            adj_limit: limit,
            last_obj_cnt: 0,
            prev_num_queued: 0,
            prev_ovlimit: 0,
            prev_last_obj_cnt: 0,
            lowest_slack: u32::MAX,
            slack_start: now,
        }
    }

    /// Counts an object of `bytes` that is added to the ring.
    pub fn queued(&mut self, bytes: u32) {
        self.last_obj_cnt = bytes;
        self.num_queued = self.num_queued.wrapping_add(bytes);
    }

    /// Bytes until the limit is reached. The ring is closed while this is negative.
    #[inline]
    pub fn avail(&self) -> i32 {
        self.adj_limit.wrapping_sub(self.num_queued) as i32
    }

    /// Counts `bytes` as completed at `now`, and adjusts the limit. `bytes` must not exceed the
    /// bytes in flight.
    pub fn completed(&mut self, now: Nanos, bytes: u32) {
        debug_assert!(bytes <= self.in_flight(), "{bytes} bytes done of {}", self.in_flight());
        let completed = self.num_completed.wrapping_add(bytes);
        let over_limit = excess(self.in_flight(), self.limit);
        let incomplete = self.num_queued != completed;
        let incomplete_before = self.prev_num_queued != self.num_completed;
        // Whether all bytes that were in the ring at the previous completion are now complete.
        let turned_over = completed.wrapping_sub(self.prev_num_queued) as i32 >= 0;
        let mut limit = self.limit;
        if over_limit > 0 && !incomplete || self.prev_ovlimit > 0 && turned_over {
            limit = limit
                .wrapping_add(excess(completed, self.prev_num_queued))
                .wrapping_add(self.prev_ovlimit);
            self.expect_slack(now);
        } else if incomplete && incomplete_before && !turned_over {
            self.lowest_slack = self.lowest_slack.min(self.slack(bytes));
            if now > self.slack_start.saturating_add(self.config.hold) {
                limit = excess(limit, self.lowest_slack);
                self.expect_slack(now);
            }
        }
        let limit = limit.min(self.config.most).max(self.config.least.min(self.config.most));
        // The excess over the old limit has no meaning for a new limit.
        self.prev_ovlimit = if limit == self.limit { over_limit } else { 0 };
        self.limit = limit;
        self.adj_limit = limit.wrapping_add(completed);
        self.num_completed = completed;
        self.prev_num_queued = self.num_queued;
        self.prev_last_obj_cnt = self.last_obj_cnt;
    }

    /// Applies new bounds. A limit outside the new bounds moves to the nearest bound.
    pub fn configure(&mut self, config: DqlConfig) {
        self.config = config;
        self.limit = self.limit.min(config.most).max(config.least.min(config.most));
        self.adj_limit = self.limit.wrapping_add(self.num_completed);
    }

    /// The current limit in bytes.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes in the ring that are not complete.
    pub fn in_flight(&self) -> u32 {
        self.num_queued.wrapping_sub(self.num_completed)
    }

    /// The slack of the interval that a completion of `bytes` ends: the larger of two values. The
    /// ring needs at most twice the bytes of an interval; what the limit allows beyond them is
    /// slack. If the last object exceeded the limit, the part of it below the limit is slack.
    fn slack(&self, bytes: u32) -> u32 {
        let above_need = excess(self.limit.wrapping_add(self.prev_ovlimit), bytes.wrapping_mul(2));
        let last_object = if self.prev_ovlimit > 0 {
            excess(self.prev_last_obj_cnt, self.prev_ovlimit)
        } else {
            0
        };
        above_need.max(last_object)
    }

    /// Restarts the search for the least slack.
    fn expect_slack(&mut self, now: Nanos) {
        (self.lowest_slack, self.slack_start) = (u32::MAX, now);
    }
}

/// `a − b` if `a` is ahead of `b` in 32-bit modular arithmetic, otherwise 0.
fn excess(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    if difference as i32 > 0 { difference } else { 0 }
}

/// Linux's greatest limit: half of the 32-bit range, less a margin for one object.
pub const DQL_MAX: u32 = 1_879_048_192;
/// Linux's hold time.
const DQL_HOLD: Nanos = Nanos::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MTU: u32 = 1500;

    fn with(least: u32, most: u32) -> Dql {
        Dql::new(Nanos::ZERO, DqlConfig { least, most, ..DqlConfig::default() })
    }

    /// Adds objects of `bytes` while the ring is open, and returns their number.
    fn fill(dql: &mut Dql, bytes: u32) -> u32 {
        let mut taken = 0;
        while dql.avail() >= 0 {
            dql.queued(bytes);
            taken += 1;
        }
        taken
    }

    #[test]
    fn the_first_object_exceeds_a_limit_of_zero_and_its_completion_raises_the_limit() {
        let mut dql = with(0, DQL_MAX);
        assert_eq!(fill(&mut dql, MTU), 1);
        assert_eq!((dql.avail(), dql.limit()), (-1500, 0));
        dql.completed(Nanos(1), MTU);
        assert_eq!((dql.avail(), dql.limit()), (1500, 1500));
    }

    #[test]
    fn a_limit_that_kept_no_packet_out_of_a_dry_ring_does_not_grow() {
        let mut dql = with(10_000, DQL_MAX);
        dql.queued(MTU);
        dql.completed(Nanos(1), MTU);
        assert_eq!(dql.limit(), 10_000, "the limit kept no packet out");
    }

    #[test]
    fn a_limit_that_kept_packets_out_of_a_dry_ring_grows_by_the_bytes_of_the_interval() {
        let mut dql = with(0, DQL_MAX);
        fill(&mut dql, MTU);
        dql.completed(Nanos(1), MTU);
        // The limit is 1500 bytes: one object within it, and one above it.
        assert_eq!(fill(&mut dql, MTU), 2);
        dql.completed(Nanos(2), 2 * MTU);
        assert_eq!(dql.limit(), 1500 + 3000);
        assert_eq!(fill(&mut dql, MTU), 4);
        dql.completed(Nanos(3), 4 * MTU);
        assert_eq!(dql.limit(), 4500 + 6000);
    }

    #[test]
    fn a_limit_also_grows_by_the_excess_over_it_at_the_previous_completion() {
        let mut dql = with(3000, DQL_MAX);
        assert_eq!(fill(&mut dql, MTU), 3);
        dql.completed(Nanos(1), MTU);
        assert_eq!(
            dql.limit(),
            3000,
            "3000 bytes are incomplete, and none exceeded the limit before"
        );
        assert_eq!(fill(&mut dql, MTU), 1);
        // All 4500 bytes that had been added before the last completion are now complete, including
        // 1500 above the limit.
        dql.completed(Nanos(2), 3 * MTU);
        assert_eq!(dql.limit(), 3000 + 1500 + 1500);
    }

    #[test]
    fn slack_reduces_the_limit_only_after_the_hold_time() {
        let mut dql = with(0, DQL_MAX);
        fill(&mut dql, 60_000);
        dql.completed(Nanos(0), 60_000);
        assert_eq!(dql.limit(), 60_000);
        // Each completion admits one packet, so at most 3000 of 60000 bytes are needed.
        let mut now = Nanos(0);
        fill(&mut dql, MTU);
        while now <= Nanos::from_millis(1_000) {
            dql.completed(now, MTU);
            fill(&mut dql, MTU);
            assert_eq!(dql.limit(), 60_000, "at {now}");
            now += Nanos::from_millis(1);
        }
        dql.completed(now, MTU);
        assert_eq!(
            dql.limit(),
            3000 - MTU,
            "the limit and the object above it, less what was needed, are slack"
        );
        assert!(dql.avail() < 0, "closed until the objects inside are complete");
    }

    #[test]
    fn the_part_of_the_last_object_below_the_limit_is_slack() {
        // The limit and the excess over it are 400 more than twice the bytes of the interval, but
        // the slack of the last object is 800.
        let mut dql = Dql::new(Nanos::ZERO, DqlConfig { least: 0, most: DQL_MAX, hold: Nanos(10) });
        fill(&mut dql, 2000);
        dql.completed(Nanos(0), 2000);
        assert_eq!(dql.limit(), 2000);
        dql.queued(1200);
        dql.queued(1200);
        dql.completed(Nanos(1), 1200);
        // 400 of the last 1200 bytes were above the limit.
        dql.queued(1200);
        dql.completed(Nanos(12), 1000);
        assert_eq!(dql.limit(), 2000 - 800);
    }

    #[test]
    fn the_least_slack_of_the_hold_time_counts() {
        let mut dql = with(0, DQL_MAX);
        fill(&mut dql, 60_000);
        dql.completed(Nanos(0), 60_000);
        for packets in [1, 1, 20, 1] {
            fill(&mut dql, MTU);
            dql.completed(Nanos(1), packets * MTU);
        }
        fill(&mut dql, MTU);
        dql.completed(Nanos::from_millis(1_001), MTU);
        assert_eq!(
            dql.limit(),
            58_500,
            "20 packets in one interval: 40 may be needed, and one was above the limit"
        );
    }

    #[test]
    fn the_limit_stays_within_its_bounds() {
        let mut dql = with(4000, 9000);
        assert_eq!(dql.limit(), 4000);
        for n in 1..20 {
            fill(&mut dql, MTU);
            dql.completed(Nanos(n), dql.in_flight());
        }
        assert_eq!(dql.limit(), 9000);
        fill(&mut dql, MTU);
        for n in 0..3_000 {
            dql.completed(Nanos::from_millis(n), 100);
            fill(&mut dql, 100);
        }
        assert_eq!(dql.limit(), 4000);
    }

    #[test]
    fn bounds_change_under_traffic() {
        let mut dql = with(0, DQL_MAX);
        fill(&mut dql, MTU);
        dql.configure(DqlConfig { least: 10_000, most: 10_000, ..DqlConfig::default() });
        assert_eq!((dql.limit(), dql.avail()), (10_000, 8_500));
        dql.configure(DqlConfig { least: 0, most: 1_000, ..DqlConfig::default() });
        assert_eq!((dql.limit(), dql.avail()), (1_000, -500));
    }

    proptest! {
        /// The wrapping of the counters has no effect, and after an addition the ring holds at most
        /// the limit and one object.
        #[test]
        fn only_differences_count(
            start: u32,
            steps in proptest::collection::vec(
                (1u32..65_000, 0u32..100, 0u64..400_000_000),
                1..200,
            ),
        ) {
            let mut plain = with(0, DQL_MAX);
            let mut moved = with(0, DQL_MAX);
            for count in [
                &mut moved.num_queued,
                &mut moved.num_completed,
                &mut moved.adj_limit,
                &mut moved.prev_num_queued,
            ] {
                *count = count.wrapping_add(start);
            }
            let mut now = Nanos::ZERO;
            for (object, percent, wait) in steps {
                let taken = fill(&mut plain, object);
                prop_assert_eq!(taken, fill(&mut moved, object));
                prop_assert!(taken == 0 || plain.in_flight() <= plain.limit() + object);
                now += Nanos(wait);
                let done = (u64::from(plain.in_flight()) * u64::from(percent) / 99) as u32;
                plain.completed(now, done);
                moved.completed(now, done);
                prop_assert_eq!((plain.limit(), plain.avail()), (moved.limit(), moved.avail()));
            }
        }
    }
}
