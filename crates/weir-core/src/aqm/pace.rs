//! The rate at which a queue is served: measured over 16 KiB at a time, while at least as much
//! waits.

use crate::units::Nanos;

/// A queue's departure rate, as the time that [`THRESHOLD`] bytes take to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// A mean; 0 while it is unknown.
    time: u64,
    /// The current measurement: when it began, and the bytes that have left since.
    measuring: bool,
    since: Nanos,
    bytes: u64,
}

/// How measurements begin, end and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// RFC 8033: from the packet after the one that began it, a quarter of the mean, regardless of
    /// the excess over 16 KiB.
    Rfc,
    /// Linux: from the packet that began it, an eighth of the mean, in proportion to the bytes.
    Linux,
}

impl Pace {
    /// A pace that is known.
    #[cfg(test)]
    pub(crate) fn of(time: u64) -> Self {
        Self { time, ..Self::default() }
    }

    /// Counts a packet of `len` bytes that leaves while `left` bytes stay. Returns the time that a
    /// measurement took when it ends.
    pub(crate) fn leaves(&mut self, method: Method, now: Nanos, len: u32, left: u64) -> u64 {
        if method == Method::Linux {
            self.begin(now, left);
        }
        let mut took = 0;
        if self.measuring {
            self.bytes += u64::from(len);
            if self.bytes >= THRESHOLD {
                took = now.since(self.since).0;
                self.end(method, took);
            }
        }
        self.begin(now, left);
        took
    }

    fn begin(&mut self, now: Nanos, left: u64) {
        if !self.measuring && left >= THRESHOLD {
            (self.measuring, self.since, self.bytes) = (true, now, 0);
        }
    }

    fn end(&mut self, method: Method, took: u64) {
        let (time, bits) = match method {
            Method::Rfc => (took, 2),
            // Linux ignores departures at one moment.
            Method::Linux if took == 0 => return,
            Method::Linux => {
                ((u128::from(took) * u128::from(THRESHOLD) / u128::from(self.bytes)) as u64, 3)
            }
        };
        self.time =
            if self.time == 0 { time } else { self.time - (self.time >> bits) + (time >> bits) };
        self.measuring = false;
    }

    /// Whether it is known.
    pub(crate) fn is_known(&self) -> bool {
        self.time > 0
    }

    /// The time that `bytes` bytes take; 0 while that is not known.
    pub(crate) fn delay(&self, bytes: u64) -> u64 {
        let delay = (u128::from(bytes) * u128::from(self.time)) >> THRESHOLD.ilog2();
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

/// Bytes over which it is measured; a power of two.
const THRESHOLD: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_pace_is_measured_while_enough_waits_and_kept_when_not() {
        for (method, counted, time) in
            [(Method::Rfc, 17_000, 17_000), (Method::Linux, 16_000, 16_000 * 16_384 / 17_000)]
        {
            let mut pace = Pace::default();
            // 1000 bytes in 1 us each.
            let took: Vec<u64> = (1..=20)
                .map(|n| pace.leaves(method, Nanos(n * 1000), 1000, 40_000 - n * 1000))
                .collect();
            assert_eq!(took.iter().sum::<u64>(), counted, "{method:?}");
            assert_eq!((pace.time, pace.delay(16_384)), (time, time));
            for n in 21..40 {
                pace.leaves(method, Nanos(n * 5000), 1000, 40_000 - n * 1000);
            }
            assert!(pace.time > time, "{method:?}: a slower measurement counts");
            let kept = pace.time;
            assert_eq!(pace.leaves(method, Nanos(1_000_000), 1000, 0), 0);
            assert_eq!(pace.time, kept);
        }
    }
}
