//! A model for the tests of congestion controls: a sender at one bottleneck with an unlimited
//! buffer. There are no losses, every segment is acknowledged, and segments that find a long queue
//! are marked.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::rng::{Purpose, Stream};

use super::{AnyControl, Control, Path, Sample, Setup, Signal};

pub(super) fn setup(mss: u64) -> Setup {
    Setup {
        mss: mss as u32,
        initial_window: 10 * mss,
        stream: Stream::new(1, 1, Purpose::Generator),
    }
}

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    sent: Nanos,
    /// When the acknowledgement of the segment arrives.
    back: Nanos,
    marked: bool,
    /// Time in the queue and on the link, plus half of the propagation time.
    one_way: Nanos,
    /// For the sample of the delivery rate, the state at the transmission: bytes delivered, the
    /// time of the last delivery, and when the first segment of the flight was sent.
    prior_delivered: u64,
    prior_delivered_time: Nanos,
    first_sent: Nanos,
}

/// The sender, and the link with its queue.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) control: AnyControl,
    mss: u64,
    rate: u64,
    /// Propagation time of a round trip.
    propagation: Nanos,
    /// A segment that finds a longer queue than this, in bytes, is marked.
    pub(super) mark_above: u64,
    now: Nanos,
    segments: VecDeque<Segment>,
    /// When the link has transmitted all segments.
    busy_until: Nanos,
    /// When pacing permits the next segment.
    pace_until: Nanos,
    next: u64,
    una: u64,
    delivered: u64,
    delivered_time: Nanos,
    first_sent: Nanos,
    srtt: Nanos,
    min_rtt: Nanos,
    reducing_until: Option<u64>,
    /// The time and the delivered bytes when the measurement was last restarted.
    since: (Nanos, u64),
    longest: u64,
}

impl Model {
    pub(super) fn new(control: AnyControl, rate: u64, propagation: Nanos) -> Self {
        Self {
            control,
            mss: MSS,
            rate,
            propagation,
            mark_above: u64::MAX,
            now: Nanos::ZERO,
            segments: VecDeque::new(),
            busy_until: Nanos::ZERO,
            pace_until: Nanos::ZERO,
            next: 0,
            una: 0,
            delivered: 0,
            delivered_time: Nanos::ZERO,
            first_sent: Nanos::ZERO,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            reducing_until: None,
            since: (Nanos::ZERO, 0),
            longest: 0,
        }
    }

    pub(super) fn run(&mut self, end: Nanos) {
        self.run_with(end, |_| ());
    }

    /// Runs until `end`, and calls `look` after each acknowledgement.
    pub(super) fn run_with(&mut self, end: Nanos, mut look: impl FnMut(&mut Self)) {
        loop {
            let may_send = self.next - self.una + self.mss <= self.control.window();
            let back = self.segments.front().map_or(Nanos::MAX, |segment| segment.back);
            let send = if may_send { self.pace_until.max(self.now) } else { Nanos::MAX };
            if send.min(back) > end {
                self.now = end;
                return;
            }
            if send < back {
                self.now = send;
                self.send();
            } else {
                self.now = back;
                self.acknowledge();
                look(self);
            }
        }
    }

    /// Restarts the measurement. Returns the longest queue since the last restart, in bytes.
    pub(super) fn forget(&mut self) -> u64 {
        self.since = (self.now, self.delivered);
        std::mem::take(&mut self.longest)
    }

    /// Share of the link's capacity that was used since [`Self::forget`].
    pub(super) fn utilisation(&self) -> f64 {
        let bits = (self.delivered - self.since.1) * 8;
        bits as f64 * 1e9 / self.now.since(self.since.0).0 as f64 / self.rate as f64
    }

    /// The longest queue since [`Self::forget`], in bytes.
    pub(super) fn longest_queue(&self) -> u64 {
        self.longest
    }

    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    pub(super) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    fn time_of(&self, bytes: u64, rate: u64) -> Nanos {
        Nanos(bytes * 8 * 1_000_000_000 / rate)
    }

    fn send(&mut self) {
        if self.next == self.una {
            (self.first_sent, self.delivered_time) = (self.now, self.now);
        }
        let wait = self.busy_until.saturating_sub(self.now);
        let queue = (u128::from(wait.0) * u128::from(self.rate) / 8_000_000_000) as u64;
        self.longest = self.longest.max(queue);
        self.busy_until =
            self.now.max(self.busy_until).saturating_add(self.time_of(self.mss, self.rate));
        self.next += self.mss;
        self.segments.push_back(Segment {
            end: self.next,
            sent: self.now,
            back: self.busy_until.saturating_add(self.propagation),
            marked: queue > self.mark_above,
            one_way: self.busy_until.since(self.now).saturating_add(Nanos(self.propagation.0 / 2)),
            prior_delivered: self.delivered,
            prior_delivered_time: self.delivered_time,
            first_sent: self.first_sent,
        });
        if let Some(rate) = self.control.pacing_rate() {
            self.pace_until =
                self.now.max(self.pace_until).saturating_add(self.time_of(self.mss, rate.max(1)));
        }
    }

    fn acknowledge(&mut self) {
        let Some(segment) = self.segments.pop_front() else { return };
        let prior_in_flight = self.next - self.una;
        self.una = segment.end;
        self.delivered += self.mss;
        self.delivered_time = self.now;
        self.first_sent = segment.sent;
        let rtt = self.now.since(segment.sent);
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt =
            if self.srtt == Nanos::ZERO { rtt } else { Nanos(self.srtt.0 / 8 * 7 + rtt.0 / 8) };
        let send_time = segment.sent.since(segment.first_sent);
        let interval = send_time.max(self.now.since(segment.prior_delivered_time));
        let path = Path {
            now: self.now,
            mss: self.mss as u32,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            in_flight: self.next - self.una,
            delivered: self.delivered,
            una: self.una,
            next: self.next,
        };
        if self.reducing_until.is_some_and(|end| self.una >= end) {
            self.reducing_until = None;
            self.control.recovered(&path);
        }
        if segment.marked && self.reducing_until.is_none() {
            self.reducing_until = Some(self.next);
            self.control.reduce(&path, Signal::Marks);
        }
        let sample = Sample {
            acked: self.mss,
            prior_in_flight,
            rtt: Some(rtt),
            one_way: Some(segment.one_way),
            ce: if segment.marked { self.mss } else { 0 },
            prior_delivered: segment.prior_delivered,
            interval_delivered: self.delivered - segment.prior_delivered,
            interval,
            window_limited: true,
            reducing: self.reducing_until.is_some(),
            ..Sample::default()
        };
        self.control.acked(&path, &sample);
    }
}

/// Payload of a segment in bytes. The model has no headers.
const MSS: u64 = 1000;
