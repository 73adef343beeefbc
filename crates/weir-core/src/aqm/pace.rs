//! The rate at which a queue is served. Each measurement covers at least 16 KiB of departures, and
//! begins only while at least 16 KiB wait.

use crate::units::Nanos;

/// A queue's departure rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The weighted mean of the measurements in the unit of the [`Method`]; 0 before the first
    /// measurement has ended.
    mean: u64,
    /// The current measurement: whether there is one, when it began, and the bytes that have left
    /// since.
    measuring: bool,
    since: Nanos,
    bytes: u64,
}

/// The method of measurement: the packet at which the count of bytes begins, the weight of a
/// measurement in the mean, and the unit of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// RFC 8033: bytes count from the packet after the one that began the measurement. A
    /// measurement has a weight of one quarter, and its excess over 16 KiB is ignored. The mean is
    /// the time in ns in which 16 KiB leave.
    Rfc,
    /// Linux: bytes count from the packet that began the measurement. A measurement has a weight of
    /// one eighth. The mean is a rate. Its unit is 1/256 byte in 64 ns, or 0.49 Mbit/s; a lower
    /// rate is 0 and thus unknown.
    Linux,
}

impl Pace {
    /// A pace with a known mean.
    #[cfg(test)]
    pub(crate) fn of(mean: u64) -> Self {
        Self { mean, ..Self::default() }
    }

    /// Counts a packet of `len` bytes that leaves while `remaining` bytes stay. Returns the
    /// duration in ns of the measurement that this packet ends, or 0 if it ends none.
    pub(crate) fn leaves(&mut self, method: Method, now: Nanos, len: u32, remaining: u64) -> u64 {
        if method == Method::Linux {
            self.begin(now, remaining);
        }
        let mut took = 0;
        if self.measuring {
            self.bytes += u64::from(len);
            if self.bytes >= THRESHOLD {
                took = match method {
                    Method::Rfc => now.since(self.since).0,
                    Method::Linux => ((now.0 >> TICK) - (self.since.0 >> TICK)) << TICK,
                };
                self.end(method, took);
            }
        }
        self.begin(now, remaining);
        took
    }

    /// Begins a measurement if there is none and enough bytes wait.
    fn begin(&mut self, now: Nanos, remaining: u64) {
        if !self.measuring && remaining >= THRESHOLD {
            (self.measuring, self.since, self.bytes) = (true, now, 0);
        }
    }

    /// Ends the measurement, which took `took` ns, and adds it to the mean.
    fn end(&mut self, method: Method, took: u64) {
        let (value, bits) = match method {
            Method::Rfc => (took, 2),
            // In Linux, a measurement does not end in the tick in which it began, but continues.
            Method::Linux if took == 0 => return,
            Method::Linux => ((self.bytes << SCALE) / (took >> TICK), 3),
        };
        self.mean =
            if self.mean == 0 { value } else { self.mean - (self.mean >> bits) + (value >> bits) };
        self.measuring = false;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.mean > 0
    }

    /// The time in ns in which `bytes` bytes leave; 0 while the rate is unknown.
    pub(crate) fn delay(&self, method: Method, bytes: u64) -> u64 {
        let bytes = u128::from(bytes);
        let delay = match (method, u128::from(self.mean)) {
            (_, 0) => 0,
            (Method::Rfc, time) => (bytes * time) >> THRESHOLD.ilog2(),
            (Method::Linux, rate) => ((bytes << SCALE) / rate) << TICK,
        };
        u64::try_from(delay).unwrap_or(u64::MAX)
    }
}

/// Linux counts time in ticks of `2^TICK` ns, and bytes in parts of `2^SCALE`.
const TICK: u32 = 6;
const SCALE: u32 = 8;
/// The bytes of one measurement; a power of two.
const THRESHOLD: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_pace_is_measured_only_while_enough_bytes_wait() {
        // A packet of 1000 bytes leaves each microsecond. The packet that begins the measurement
        // does not count in `rfc`: 17 further packets, 17000 bytes, leave in 17 us. In Linux it
        // counts: 17000 bytes are this packet and 16 more, which leave in 16 us, or 250 ticks of
        // 64 ns.
        let linux = 17_000 * 256 / 250;
        for (method, counted, mean, delay) in [
            (Method::Rfc, 17_000, 17_000, 17_000),
            (Method::Linux, 16_000, linux, 16_384 * 256 / linux * 64),
        ] {
            let mut pace = Pace::default();
            let took: Vec<u64> = (1..=20)
                .map(|n| pace.leaves(method, Nanos(n * 1000), 1000, 40_000 - n * 1000))
                .collect();
            assert_eq!(took.iter().sum::<u64>(), counted, "{method:?}");
            assert_eq!((pace.mean, pace.delay(method, 16_384)), (mean, delay));
            for n in 21..40 {
                pace.leaves(method, Nanos(n * 5000), 1000, 40_000 - n * 1000);
            }
            assert!(pace.delay(method, 16_384) > delay, "{method:?}: a slower measurement counts");
            let kept = pace.mean;
            assert_eq!(pace.leaves(method, Nanos(1_000_000), 1000, 0), 0);
            assert_eq!(pace.mean, kept);
        }
    }

    #[test]
    fn linux_does_not_know_a_rate_below_one_unit() {
        let mut pace = Pace::default();
        // 1500 bytes each 30 ms are 0.4 Mbit/s.
        for n in 1..40 {
            pace.leaves(Method::Linux, Nanos(n * 30_000_000), 1500, 60_000);
        }
        assert!(!pace.is_known());
        assert_eq!(pace.delay(Method::Linux, 60_000), 0);
    }
}
