//! Round-trip times and the retransmission timeout, RFC 6298.
//!
//! ```text
//! first sample r:  srtt = r,  rttvar = r / 2
//! later:           rttvar += (|srtt − r| − rttvar) / 4,  srtt += (r − srtt) / 8
//! timeout:         max(min_rto, srtt + max(1 ms, 4 rttvar)) · 2^backoff, at most max_rto
//! ```
//!
//! `srtt` is stored times 8 and `rttvar` times 4, so that the divisions lose no precision.

use weir_core::Nanos;

/// The sender's estimates of the round-trip time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    srtt8: u64,
    var4: u64,
    min: Nanos,
    /// Number of consecutive timeouts.
    backoff: u32,
    min_rto: Nanos,
    max_rto: Nanos,
}

impl Rtt {
    pub(super) fn new(min_rto: Nanos, max_rto: Nanos) -> Self {
        Self { srtt8: 0, var4: 0, min: Nanos::MAX, backoff: 0, min_rto, max_rto }
    }

    /// Takes two samples: `rtt` for the timeout, and `prompt`, without the receiver's delay, for
    /// the minimum.
    #[inline]
    pub(super) fn sample(&mut self, rtt: Nanos, prompt: Nanos) {
        let r = rtt.0.max(1);
        if self.srtt8 == 0 {
            (self.srtt8, self.var4) = (r * 8, r * 2);
        } else {
            let error = (self.srtt8 >> 3).abs_diff(r);
            self.var4 = self.var4 - (self.var4 >> 2) + error;
            self.srtt8 = self.srtt8 - (self.srtt8 >> 3) + r;
        }
        self.min = self.min.min(prompt.max(Nanos(1)));
    }

    /// The smoothed round-trip time; zero before the first sample.
    #[inline]
    pub(super) fn srtt(&self) -> Nanos {
        Nanos(self.srtt8 >> 3)
    }

    /// The smallest round-trip time; [`Nanos::MAX`] before the first sample.
    #[inline]
    pub(super) fn min(&self) -> Nanos {
        self.min
    }

    /// The retransmission timeout, including its backoff.
    #[inline]
    pub(super) fn timeout(&self) -> Nanos {
        let once = if self.srtt8 == 0 {
            INITIAL.max(self.min_rto)
        } else {
            Nanos((self.srtt8 >> 3) + self.var4.max(GRANULARITY)).max(self.min_rto)
        };
        if self.backoff == 0 {
            return once.min(self.max_rto);
        }
        Nanos(once.0.saturating_mul(1 << self.backoff.min(30))).min(self.max_rto)
    }

    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Ends the backoff.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.backoff = 0;
    }

    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }
}

/// The timeout before the first sample, RFC 6298 2.1.
const INITIAL: Nanos = Nanos::from_secs(1);

/// The smallest difference between timeout and smoothed round-trip time, ns.
const GRANULARITY: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut rtt = Rtt::new(ms(200), Nanos::from_secs(120));
        assert_eq!(rtt.timeout(), Nanos::from_secs(1));
        rtt.sample(ms(100), ms(90));
        // 100 + 4 · 50.
        assert_eq!(rtt.timeout(), ms(300));
        rtt.sample(ms(180), ms(180));
        // rttvar = 50 + (80 − 50) / 4 = 57.5, srtt = 110.
        assert_eq!((rtt.srtt(), rtt.timeout()), (ms(110), ms(340)));
        assert_eq!(rtt.min(), ms(90));
    }

    #[test]
    fn the_timeout_doubles_from_its_minimum_to_its_maximum() {
        let mut rtt = Rtt::new(ms(200), ms(1500));
        for _ in 0..100 {
            rtt.sample(ms(10), ms(10));
        }
        let mut timeouts = Vec::new();
        for _ in 0..5 {
            timeouts.push(rtt.timeout().0 / 1_000_000);
            rtt.back_off();
        }
        assert_eq!(timeouts, [200, 400, 800, 1500, 1500]);
        rtt.progress();
        assert_eq!(rtt.timeout(), ms(200));
    }
}
