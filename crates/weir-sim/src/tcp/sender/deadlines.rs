//! The timers of a TCP sender.

use weir_core::Nanos;

/// The times at which the sender acts next; [`Nanos::MAX`] for a timer that is not set.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// When the connection begins.
    pub(super) start: Nanos,
    /// When the application stops, so that no new data is sent.
    pub(super) stop: Nanos,
    /// When the retransmission timer expires.
    pub(super) rto: Nanos,
    /// When the tail loss probe is due; not later than `rto`.
    pub(super) probe: Nanos,
    /// When packets that may be reordered count as lost.
    pub(super) reorder: Nanos,
    /// When pacing permits the next packet.
    pub(super) pace: Nanos,
    /// When the closed window of the receiver is probed.
    pub(super) persist: Nanos,
    /// The next wake-up, not later than any of these times that has an effect. During the
    /// handshake, only `rto` has an effect.
    pub(super) wake_at: Nanos,
}

impl Deadlines {
    pub(super) fn new(start: Nanos, stop: Nanos) -> Self {
        let never = Nanos::MAX;
        Self {
            start,
            stop,
            rto: never,
            probe: never,
            reorder: never,
            pace: never,
            persist: never,
            wake_at: start,
        }
    }

    /// Moves the wake-up to the earliest of `rto`, `probe` and `pace`, if this is before the
    /// present wake-up.
    #[inline]
    pub(super) fn hurry(&mut self) {
        let next = self.rto.min(self.probe).min(self.pace);
        if next < self.wake_at {
            self.wake_at = next;
        }
    }

    /// Sets the wake-up to the earliest of all timers.
    pub(super) fn reschedule(&mut self) {
        let Self { start, stop, rto, probe, reorder, pace, persist, .. } = *self;
        self.wake_at = start.min(stop).min(rto).min(probe).min(reorder).min(pace).min(persist);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(Nanos::MAX, Nanos::MAX);
    }
}
