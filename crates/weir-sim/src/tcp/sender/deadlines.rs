//! The timers of a TCP sender.

use weir_core::Nanos;

/// The moments at which the sender acts next; [`Nanos::MAX`] where a timer is not set.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// The connection begins.
    pub(super) start: Nanos,
    /// The application stops: no new data is sent.
    pub(super) stop: Nanos,
    /// Retransmission timeout.
    pub(super) rto: Nanos,
    /// Tail loss probe; not later than `rto`.
    pub(super) probe: Nanos,
    /// Packets that may merely be reordered count as lost.
    pub(super) reorder: Nanos,
    /// Pacing permits the next packet.
    pub(super) pace: Nanos,
    /// The receiver's closed window is probed.
    pub(super) persist: Nanos,
    /// The next wake-up: at the earliest of these moments or before it.
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

    /// Moves the wake-up forward after `rto`, `probe` or `pace` was set to an earlier moment.
    #[inline]
    pub(super) fn hurry(&mut self) {
        let next = self.rto.min(self.probe).min(self.pace);
        if next < self.wake_at {
            self.wake_at = next;
        }
    }

    /// Sets the wake-up to the earliest of all moments.
    pub(super) fn look(&mut self) {
        let Self { start, stop, rto, probe, reorder, pace, persist, .. } = *self;
        self.wake_at = start.min(stop).min(rto).min(probe).min(reorder).min(pace).min(persist);
    }

    /// Removes all timers.
    pub(super) fn clear(&mut self) {
        *self = Self::new(Nanos::MAX, Nanos::MAX);
    }
}
