//! Token buckets with exact arithmetic, for schedulers that limit rates.
//!
//! A bucket is filled at its rate and holds at most `depth` bytes. The tokens are a number of whole
//! bytes and a rest, which is in parts of a byte. A byte has 8 · 10⁹ parts, so that a rate of 1
//! bit/s adds one part per nanosecond. Filling adds `rate × time` parts. No rounding occurs, and
//! the rate does not drift, however often the bucket is filled.

use crate::units::{NANOS_PER_SEC, Nanos};

/// A bucket of tokens. One token lets one byte pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Whole bytes; negative after a packet with more bytes than there were tokens.
    bytes: i64,
    /// The rest in parts of a byte, less than [`PARTS`].
    rest: u64,
    /// The time at which the bucket was last filled.
    filled: Nanos,
    /// The rate in bit/s, at least 1.
    rate: u64,
    /// The largest number of tokens, in bytes.
    depth: i64,
}

impl Bucket {
    /// A full bucket. `rate` is in bit/s and at least 1, `depth` is in bytes.
    pub(super) fn new(now: Nanos, rate: u64, depth: u64) -> Self {
        let depth = depth.min(MAX_DEPTH) as i64;
        Self { bytes: depth, rest: 0, filled: now, rate: rate.max(1), depth }
    }

    /// Changes the rate and the depth. The bucket keeps its tokens, up to the new depth.
    pub(super) fn configure(&mut self, now: Nanos, rate: u64, depth: u64) {
        self.fill(now);
        self.rate = rate.max(1);
        self.depth = depth.min(MAX_DEPTH) as i64;
        self.cap();
    }

    /// Adds the tokens for the time until `now`.
    pub(super) fn fill(&mut self, now: Nanos) {
        let span = now.since(self.filled).0;
        if span == 0 {
            return;
        }
        self.filled = now;
        let parts = self.rate.checked_mul(span).and_then(|parts| parts.checked_add(self.rest));
        let (bytes, rest) = match parts {
            Some(parts) => ((parts / PARTS) as i64, parts % PARTS),
            None => {
                let parts = u128::from(self.rate) * u128::from(span) + u128::from(self.rest);
                let bytes = i64::try_from(parts / u128::from(PARTS)).unwrap_or(i64::MAX);
                (bytes, (parts % u128::from(PARTS)) as u64)
            }
        };
        (self.bytes, self.rest) = (self.bytes.saturating_add(bytes), rest);
        self.cap();
    }

    fn cap(&mut self) {
        if self.bytes >= self.depth {
            (self.bytes, self.rest) = (self.depth, 0);
        }
    }

    /// Whether a packet of `len` bytes may pass: the bucket has `len` tokens, or is full.
    pub(super) fn allows(&self, len: u32) -> bool {
        self.bytes >= self.needed(len)
    }

    pub(super) fn take(&mut self, len: u32) {
        self.bytes -= i64::from(len);
    }

    /// The time from which a packet of `len` bytes may pass; at most [`Nanos::MAX`].
    pub(super) fn allows_at(&self, len: u32) -> Nanos {
        let missing = self.needed(len) - self.bytes;
        if missing <= 0 {
            return self.filled;
        }
        let parts = missing as u128 * u128::from(PARTS) - u128::from(self.rest);
        let span = match u64::try_from(parts) {
            Ok(parts) => parts.div_ceil(self.rate),
            Err(_) => u64::try_from(parts.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX),
        };
        self.filled.saturating_add(Nanos(span))
    }

    /// The tokens that a packet of `len` bytes needs, at most those of a full bucket.
    fn needed(&self, len: u32) -> i64 {
        i64::from(len).min(self.depth)
    }
}

/// The number of parts of a byte.
const PARTS: u64 = 8 * NANOS_PER_SEC;
/// The largest depth, in bytes.
const MAX_DEPTH: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A bucket that is filled often has the same tokens as one that is filled once, and a
        /// packet may pass exactly from the time that `allows_at` returns.
        #[test]
        fn nothing_drifts_and_times_are_exact(
            rate in prop_oneof![1u64..1000, 1u64..400_000_000_000],
            depth in 64u64..1_000_000,
            len in 40u32..70_000,
            spans in proptest::collection::vec(1u64..5_000_000_000, 1..40),
        ) {
            let mut often = Bucket::new(Nanos::ZERO, rate, depth);
            often.take(len.max(1500));
            often.take(1500);
            let mut once = often;
            let at = once.allows_at(len);
            let mut now = 0;
            for span in spans {
                now += span;
                often.fill(Nanos(now));
                prop_assert_eq!(often.allows(len), Nanos(now) >= at);
            }
            once.fill(Nanos(now));
            prop_assert_eq!((once.bytes, once.rest), (often.bytes, often.rest));
        }
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let mut bucket = Bucket::new(Nanos::ZERO, u64::MAX, u64::MAX);
        bucket.take(u32::MAX);
        bucket.fill(Nanos::MAX);
        assert!(bucket.allows(u32::MAX));
        let mut slow = Bucket::new(Nanos::ZERO, 1, 64);
        for _ in 0..8 {
            slow.take(u32::MAX);
        }
        assert_eq!(slow.allows_at(1), Nanos::MAX);
    }
}
