//! Traces of delivery opportunities, in Mahimahi's form.
//!
//! # Model
//! A trace is a list of times, at each of which the link may deliver [`OPPORTUNITY_BYTES`]. Several
//! small packets share an opportunity, a packet larger than the rest of an opportunity continues in
//! the next one, and an opportunity without packets is lost. The trace repeats; its period is the
//! time of its last entry.
//!
//! # Reference
//! Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::fingerprint::Fingerprint;
use crate::units::{NANOS_PER_SEC, Nanos};

/// The times at which a link may deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    fingerprint: Fingerprint,
    /// Ascending. Equal times are several opportunities at one time.
    opportunities: Vec<Nanos>,
    period: Nanos,
}

impl Hash for Trace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// Why times do not form a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The trace has no opportunities.
    #[error("the trace has no delivery opportunity")]
    Empty,
    /// The times descend at this entry (counted from 0).
    #[error("entry {0} is earlier than the one before it")]
    Backwards(usize),
    /// The last entry is at time zero, so the trace has no duration.
    #[error("the trace lasts no time: its last entry is at 0")]
    NoDuration,
}

impl Trace {
    /// Makes a trace from ascending times.
    ///
    /// # Errors
    /// No entry, times that go backwards, or a trace without duration.
    pub fn new(opportunities: Vec<Nanos>) -> Result<Self, TraceError> {
        let Some(&period) = opportunities.last() else {
            return Err(TraceError::Empty);
        };
        if let Some(i) = opportunities.windows(2).position(|w| w[1] < w[0]) {
            return Err(TraceError::Backwards(i + 1));
        }
        if period == Nanos::ZERO {
            return Err(TraceError::NoDuration);
        }
        Ok(Self { fingerprint: Fingerprint::of(&opportunities), opportunities, period })
    }

    /// The time after which the trace repeats.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The opportunities of one period.
    pub fn opportunities(&self) -> &[Nanos] {
        &self.opportunities
    }

    /// The bytes that the opportunities take in memory.
    pub fn memory(&self) -> usize {
        size_of_val(self.opportunities.as_slice())
    }

    /// Mean rate over one period in bits per second.
    pub fn mean_bps(&self) -> u64 {
        let bits = self.opportunities.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        u64::try_from(bits * u128::from(NANOS_PER_SEC) / u128::from(self.period.0))
            .unwrap_or(u64::MAX)
    }
}

/// A link's position in its trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceCursor {
    /// Time at which the trace began.
    origin: Nanos,
    /// Number of complete periods before the current entry.
    round: u64,
    /// Index of the current entry.
    index: usize,
    /// Bytes of the current entry that are used.
    used: u64,
}

impl TraceCursor {
    /// A cursor at the start of a trace that begins at `origin`.
    pub fn new(origin: Nanos) -> Self {
        Self { origin, round: 0, index: 0, used: 0 }
    }

    /// Uses `bytes` of the opportunities at or after `now`. Returns the time of the last
    /// opportunity used.
    pub fn take(&mut self, trace: &Trace, now: Nanos, bytes: u64) -> Nanos {
        self.skip_to(trace, now);
        let mut left = bytes;
        loop {
            let room = OPPORTUNITY_BYTES - self.used;
            if left <= room {
                self.used += left;
                return self.time(trace);
            }
            left -= room;
            self.advance(trace);
        }
    }

    fn time(&self, trace: &Trace) -> Nanos {
        let rounds = Nanos(self.round.saturating_mul(trace.period.0));
        self.origin.saturating_add(rounds).saturating_add(trace.opportunities[self.index])
    }

    fn advance(&mut self, trace: &Trace) {
        self.used = 0;
        self.index += 1;
        if self.index == trace.opportunities.len() {
            self.index = 0;
            self.round += 1;
        }
    }

    /// Skips the entries before `now`: unused opportunities are lost.
    fn skip_to(&mut self, trace: &Trace, now: Nanos) {
        if self.time(trace) >= now {
            if self.used == OPPORTUNITY_BYTES {
                self.advance(trace);
            }
            return;
        }
        let elapsed = now.since(self.origin).0;
        let (mut round, mut offset) = (elapsed / trace.period.0, elapsed % trace.period.0);
        if offset == 0 && round > 0 {
            // The end of one period is the start of the next. The last entry of the earlier period
            // is still due.
            (round, offset) = (round - 1, trace.period.0);
        }
        let index = trace.opportunities.partition_point(|t| t.0 < offset);
        (self.round, self.index, self.used) = (round, index, 0);
    }
}

/// Bytes that one opportunity delivers: Mahimahi's packet of 1500 bytes and the 4-byte header of
/// its tunnel device.
pub const OPPORTUNITY_BYTES: u64 = 1504;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ms(times: &[u64]) -> Trace {
        Trace::new(times.iter().map(|&t| Nanos::from_millis(t)).collect()).unwrap()
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_span_several() {
        let trace = ms(&[1, 2, 3]);
        let mut cursor = TraceCursor::new(Nanos::ZERO);
        assert_eq!(cursor.take(&trace, Nanos::ZERO, 700), Nanos::from_millis(1));
        assert_eq!(cursor.take(&trace, Nanos::ZERO, 700), Nanos::from_millis(1));
        assert_eq!(cursor.take(&trace, Nanos::ZERO, 1504), Nanos::from_millis(2));
        assert_eq!(cursor.take(&trace, Nanos::ZERO, 1504 + 200), Nanos::from_millis(4));
    }

    #[test]
    fn an_unused_opportunity_is_lost_and_the_trace_repeats() {
        let trace = ms(&[5, 10]);
        let mut cursor = TraceCursor::new(Nanos::ZERO);
        assert_eq!(cursor.take(&trace, Nanos::from_millis(6), 1504), Nanos::from_millis(10));
        assert_eq!(cursor.take(&trace, Nanos::from_millis(11), 1504), Nanos::from_millis(15));
        assert_eq!(
            cursor.take(&trace, Nanos::from_millis(1_000_000), 1504),
            Nanos::from_millis(1_000_000)
        );
        assert_eq!(
            cursor.take(&trace, Nanos::from_millis(1_000_000), 1504),
            Nanos::from_millis(1_000_005)
        );
    }

    #[test]
    fn bad_traces_are_refused() {
        assert_eq!(Trace::new(vec![]), Err(TraceError::Empty));
        assert_eq!(Trace::new(vec![Nanos(2), Nanos(1)]), Err(TraceError::Backwards(1)));
        assert_eq!(Trace::new(vec![Nanos(0)]), Err(TraceError::NoDuration));
    }
}
