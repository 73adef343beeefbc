//! The rate at which a queue is served. Each measurement covers 16 KiB of departures and begins
//! only while at least 16 KiB wait.

use crate::units::Nanos;

/// A queue's departure rate, stored as the time in which [`THRESHOLD`] bytes leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The weighted mean of the measurements, in ns; 0 before the first measurement has ended.
    time: u64,
    /// The current measurement: whether there is one, when it began, and the bytes that have left
    /// since.
    measuring: bool,
    since: Nanos,
    bytes: u64,
}

/// The method of measurement: the packet with which a measurement begins, its length and its weight
/// in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// RFC 8033: bytes count from the packet after the one that began the measurement. A
    /// measurement has a weight of one quarter, and its excess over 16 KiB is ignored.
    Rfc,
    /// Linux: bytes count from the packet that began the measurement. A measurement has a weight of
    /// one eighth, and its time is scaled to 16 KiB.
    Linux,
}

impl Pace {
    /// A pace with a known mean.
    #[cfg(test)]
    pub(crate) fn of(time: u64) -> Self {
        Self { time, ..Self::default() }
    }

    /// Counts a packet of `len` bytes that leaves while `remaining` bytes stay. Returns the
    /// duration in ns of the measurement that this packet ends, else 0.
    pub(crate) fn leaves(&mut self, method: Method, now: Nanos, len: u32, remaining: u64) -> u64 {
        if method == Method::Linux {
            self.begin(now, remaining);
        }
        let mut took = 0;
        if self.measuring {
            self.bytes += u64::from(len);
            if self.bytes >= THRESHOLD {
                took = now.since(self.since).0;
                self.end(method, took);
            }
        }
        self.begin(now, remaining);
        took
    }

    fn begin(&mut self, now: Nanos, remaining: u64) {
        if !self.measuring && remaining >= THRESHOLD {
            (self.measuring, self.since, self.bytes) = (true, now, 0);
        }
    }

    fn end(&mut self, method: Method, took: u64) {
        let (time, bits) = match method {
            Method::Rfc => (took, 2),
            // Linux ignores a measurement in which all departures happened at one moment.
            Method::Linux if took == 0 => return,
            Method::Linux => {
                ((u128::from(took) * u128::from(THRESHOLD) / u128::from(self.bytes)) as u64, 3)
            }
        };
        self.time =
            if self.time == 0 { time } else { self.time - (self.time >> bits) + (time >> bits) };
        self.measuring = false;
    }

    /// Whether a measurement has ended.
    pub(crate) fn is_known(&self) -> bool {
        self.time > 0
    }

    /// The time in ns in which `bytes` bytes leave; 0 while the rate is unknown.
    pub(crate) fn delay(&self, bytes: u64) -> u64 {
        let delay = (u128::from(bytes) * u128::from(self.time)) >> THRESHOLD.ilog2();
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

/// The bytes of one measurement; a power of two.
const THRESHOLD: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_pace_is_measured_only_while_enough_bytes_wait() {
        for (method, counted, time) in
            [(Method::Rfc, 17_000, 17_000), (Method::Linux, 16_000, 16_000 * 16_384 / 17_000)]
        {
            let mut pace = Pace::default();
            // One packet of 1000 bytes leaves per us.
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
