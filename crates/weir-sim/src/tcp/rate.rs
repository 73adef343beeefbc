//! Samples of the delivery rate: the rate at which data arrives at the receiver.
//!
//! # Equations
//! Each transmission records a snapshot `P`: how much had been delivered, when the last of it was
//! delivered, and when the first segment of its flight was sent. The segment is sent at the time
//! `sent`. When it is reported as arrived, `delivered` bytes have been delivered in total:
//!
//! ```text
//! rate = (delivered − P.delivered) / max(now − P.delivered_at, sent − P.first_sent)
//! ```
//!
//! An acknowledgement gives the sample of the newest segment that it reports. A sample with an
//! interval shorter than the smallest round-trip time is invalid, because the acknowledgements
//! arrived together.
//!
//! # Reference
//! draft-cheng-iccrg-delivery-rate-estimation.

use weir_core::Nanos;

/// State of the connection at the transmission of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    /// Twice the bytes delivered, plus 1 if the application was the limit.
    delivered: u64,
    delivered_at: Nanos,
    first_sent: Nanos,
}

/// Counters of the connection.
#[derive(Debug, Default)]
pub(super) struct Rate {
    delivered: u64,
    delivered_at: Nanos,
    first_sent: Nanos,
    /// While `delivered` is at most this, samples are limited by the application; 0 for none.
    app_limited: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rated {
    /// The bytes that had been delivered when the segment was sent; for an acknowledgement without
    /// a newest segment, the bytes delivered until now.
    pub(super) prior_delivered: u64,
    /// The bytes delivered since the segment was sent.
    pub(super) delivered: u64,
    /// The divisor of the rate; zero if the sample is invalid.
    pub(super) interval: Nanos,
    pub(super) app_limited: bool,
}

impl Rate {
    #[inline]
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Takes a snapshot for a segment that is sent now. `idle`: nothing was in flight.
    #[inline]
    pub(super) fn send(&mut self, now: Nanos, idle: bool) -> Snapshot {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let delivered = self.delivered << 1 | u64::from(self.app_limited != 0);
        Snapshot { delivered, delivered_at: self.delivered_at, first_sent: self.first_sent }
    }

    /// Records that the application has no data although the window permits more, while `in_flight`
    /// bytes are in flight.
    #[inline]
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Takes a sample from an acknowledgement of `bytes`. `newest` is the snapshot and the
    /// transmission time of the newest segment that the acknowledgement reports.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        now: Nanos,
        bytes: u64,
        newest: Option<(Snapshot, Nanos)>,
        min_rtt: Nanos,
    ) -> Rated {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Some((snapshot, sent)) = newest else {
            return Rated { prior_delivered: self.delivered, ..Rated::default() };
        };
        self.first_sent = sent;
        let interval = now.since(snapshot.delivered_at).max(sent.since(snapshot.first_sent));
        let interval =
            if min_rtt != Nanos::MAX && interval < min_rtt { Nanos::ZERO } else { interval };
        Rated {
            prior_delivered: snapshot.delivered >> 1,
            delivered: self.delivered - (snapshot.delivered >> 1),
            interval,
            app_limited: snapshot.delivered & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    #[test]
    fn a_steady_stream_is_measured_exactly() {
        let mut rate = Rate::default();
        let mut flight = std::collections::VecDeque::new();
        // One segment per ms, acknowledged 10 ms later.
        for ms in 0..100u64 {
            let now = Nanos::from_millis(ms);
            if ms >= 10 {
                let (snapshot, sent) = flight.pop_front().unwrap();
                let rated =
                    rate.acknowledge(now, MSS, Some((snapshot, sent)), Nanos::from_millis(10));
                if ms >= 30 {
                    assert_eq!(
                        (rated.delivered, rated.interval),
                        (10 * MSS, Nanos::from_millis(10)),
                        "{ms}"
                    );
                }
            }
            flight.push_back((rate.send(now, flight.is_empty()), now));
        }
    }

    #[test]
    fn a_bunch_of_acknowledgements_gives_no_faster_rate_than_was_sent() {
        let mut rate = Rate::default();
        let sent: Vec<_> = (0..10)
            .map(|ms| (rate.send(Nanos::from_millis(ms), ms == 0), Nanos::from_millis(ms)))
            .collect();
        let newest = sent.last().copied();
        let rated =
            rate.acknowledge(Nanos::from_millis(10), 10 * MSS, newest, Nanos::from_millis(1));
        assert_eq!((rated.delivered, rated.interval), (10 * MSS, Nanos::from_millis(10)));
        // The interval of this sample is shorter than the smallest round-trip time of 20 ms, so the
        // sample is invalid.
        let short = rate.acknowledge(Nanos::from_millis(10), MSS, newest, Nanos::from_millis(20));
        assert_eq!(short.interval, Nanos::ZERO);
    }

    #[test]
    fn samples_report_whether_the_application_was_the_limit() {
        let mut rate = Rate::default();
        rate.limit(0);
        let (limited, now) = (rate.send(Nanos(1), true), Nanos(1));
        assert!(rate.acknowledge(Nanos(10), MSS, Some((limited, now)), Nanos::MAX).app_limited);
        assert_eq!(rate.send(Nanos(11), true).delivered & 1, 0);
    }
}
