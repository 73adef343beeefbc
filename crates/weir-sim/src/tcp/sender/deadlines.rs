//! Deadlines of a sender.

use weir_core::Nanos;

/// Deadlines; [`Nanos::MAX`] for none.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// The connection begins.
    pub(super) start: Nanos,
    /// No new data is sent from here on.
    pub(super) stop: Nanos,
    /// Retransmission timeout.
    pub(super) rto: Nanos,
    /// Tail loss probe; not later than `rto`.
    pub(super) probe: Nanos,
    /// Data that may be out of order counts as lost.
    pub(super) reorder: Nanos,
    /// Pacing allows the next packet.
    pub(super) pace: Nanos,
    /// A closed window is probed.
    pub(super) persist: Nanos,
    /// The next wake-up: never later than any of these.
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

    /// A deadline was set: the wake-up must not be later.
    #[inline]
    pub(super) fn hurry(&mut self) {
        let next = self.rto.min(self.probe).min(self.pace);
        if next < self.wake_at {
            self.wake_at = next;
        }
    }

    /// Computes the wake-up from all deadlines.
    pub(super) fn look(&mut self) {
        let Self { start, stop, rto, probe, reorder, pace, persist, .. } = *self;
        self.wake_at = start.min(stop).min(rto).min(probe).min(reorder).min(pace).min(persist);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(Nanos::MAX, Nanos::MAX);
    }
}
