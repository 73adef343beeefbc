//! RACK: a segment counts as lost if a segment that was sent later has arrived and the time allowed
//! for reordering has passed.
//!
//! # Equations
//! `newest` is the segment with the latest transmission among all arrivals, and `rtt` is its
//! round-trip time. A segment that was sent before `newest` is lost at
//!
//! ```text
//! sent + rtt + window
//! window = 0                                       no reordering seen yet, and three segments reported or losses being repaired
//!        = min(multiplier · min_rtt / 4, srtt)     otherwise
//! ```
//!
//! The multiplier is initially 1. A reported duplicate means that a segment was retransmitted too
//! early: the multiplier then grows by 1, at most once per round trip and up to a limit. It returns
//! to 1 after 16 repairs without a duplicate.
//!
//! # Reference
//! RFC 8985.

use weir_core::Nanos;

use super::rtt::Rtt;
use super::scoreboard::Segment;

/// State of RACK for one connection.
#[derive(Debug)]
pub(super) struct Rack {
    /// Index of the transmission of the newest segment that has arrived.
    newest: u64,
    /// Round-trip time of the newest segment.
    rtt: Nanos,
    reordered: bool,
    multiplier: u64,
    /// The largest value of the multiplier.
    most: u64,
    /// Number of repairs until the multiplier returns to 1.
    persist: u32,
    /// The multiplier may grow again when this byte is acknowledged.
    round: u64,
}

impl Rack {
    pub(super) fn new(most: u32) -> Self {
        let most = u64::from(most).max(1);
        Self {
            newest: 0,
            rtt: Nanos::ZERO,
            reordered: false,
            multiplier: 1,
            most,
            persist: 0,
            round: 0,
        }
    }

    /// Records the newest segment that an acknowledgement reports.
    #[inline]
    pub(super) fn arrived(&mut self, now: Nanos, newest: &Segment) {
        if self.newest < newest.order {
            self.newest = newest.order;
            self.rtt = now.since(newest.sent);
        }
    }

    pub(super) fn saw_reordering(&mut self) {
        self.reordered = true;
    }

    /// Records that a segment was retransmitted too early.
    pub(super) fn saw_duplicate(&mut self, una: u64, next: u64) {
        if una >= self.round {
            self.round = next.max(una + 1);
            self.multiplier = (self.multiplier + 1).min(self.most);
        }
        self.persist = PERSIST;
    }

    /// Records that all losses of a window are repaired.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The time from the transmission of a segment until the segment counts as lost. `eager`: three
    /// segments are reported, or losses are being repaired.
    pub(super) fn patience(&self, rtt: &Rtt, eager: bool) -> Nanos {
        if !self.reordered && eager {
            return self.rtt;
        }
        let window = Nanos((rtt.min().0 / 4).saturating_mul(self.multiplier)).min(rtt.srtt());
        self.rtt.saturating_add(window)
    }
}

/// Number of repairs for which a larger reordering window remains in force.
const PERSIST: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt() -> Rtt {
        let mut rtt = Rtt::new(Nanos::from_millis(200), Nanos::from_secs(120));
        rtt.sample(Nanos::from_millis(40), Nanos::from_millis(40));
        rtt
    }

    #[test]
    fn the_reordering_window_is_a_quarter_of_the_round_trip_once_reordering_is_seen() {
        let mut rack = Rack::new(16);
        assert_eq!(rack.patience(&rtt(), true), Nanos::ZERO);
        assert_eq!(rack.patience(&rtt(), false), Nanos::from_millis(10));
        rack.saw_reordering();
        assert_eq!(rack.patience(&rtt(), true), Nanos::from_millis(10));
    }

    #[test]
    fn duplicates_widen_the_window_once_in_a_round_trip_and_sixteen_recoveries_narrow_it() {
        let mut rack = Rack::new(16);
        rack.saw_reordering();
        rack.saw_duplicate(0, 10);
        rack.saw_duplicate(5, 20);
        assert_eq!(rack.patience(&rtt(), true), Nanos::from_millis(20));
        for n in 1..10 {
            rack.saw_duplicate(10 * n, 10 * n + 10);
        }
        assert_eq!(rack.patience(&rtt(), true), Nanos::from_millis(40));
        for _ in 0..16 {
            rack.recovered();
        }
        assert_eq!(rack.patience(&rtt(), true), Nanos::from_millis(10));
    }
}
