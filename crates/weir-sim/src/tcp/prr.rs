//! Proportional rate reduction: the sender reduces the window over one round trip, in which it
//! sends less than arrives.
//!
//! # Equations
//! `flight` bytes were in flight when the reduction began. Since then, `arrived` bytes have arrived
//! and `out` bytes were sent. For an acknowledgement of `a` bytes with `pipe` bytes in flight:
//!
//! ```text
//! pipe > threshold:  send = ⌈arrived · threshold / flight⌉ − out
//! otherwise:         send = min(threshold − pipe, max(arrived − out, a) + mss)   while the left edge moves and nothing new is lost
//!                           min(threshold − pipe, arrived − out)                 otherwise
//! ```
//!
//! The window is `pipe + send`. When the reduction begins, `send` is at least one segment, for the
//! first retransmission.
//!
//! # Reference
//! RFC 6937, with the choice between its two bounds from draft-ietf-tcpm-prr-rfc6937bis.

/// A reduction in progress.
#[derive(Debug, Default)]
pub(super) struct Prr {
    flight: u64,
    arrived: u64,
    out: u64,
    window: u64,
}

impl Prr {
    pub(super) fn begin(&mut self, flight: u64) {
        *self = Self { flight: flight.max(1), arrived: 0, out: 0, window: 0 };
    }

    #[inline]
    pub(super) fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// Computes the window after an acknowledgement of `bytes`, with `pipe` bytes in flight.
    /// `safe`: the left edge has moved and no new loss was found.
    pub(super) fn acknowledge(
        &mut self,
        bytes: u64,
        pipe: u64,
        threshold: u64,
        mss: u64,
        safe: bool,
    ) {
        let first = self.arrived == 0 && self.out == 0;
        self.arrived += bytes;
        let send = if pipe > threshold {
            let share = (u128::from(self.arrived) * u128::from(threshold))
                .div_ceil(u128::from(self.flight));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let owed = self.arrived.saturating_sub(self.out);
            (threshold - pipe).min(if safe { owed.max(bytes) + mss } else { owed })
        };
        self.window = pipe + send.max(if first { mss } else { 0 });
    }

    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Loses the first `lost` of a hundred segments and lets the other segments arrive one by one.
    /// Returns the number of segments sent and the number in flight at the end.
    fn reduce(lost: u64, threshold: u64) -> (u64, u64) {
        let (mut prr, mut pipe, mut sent) = (Prr::default(), (100 - lost) * MSS, 0);
        prr.begin(100 * MSS);
        for _ in lost..100 {
            pipe -= MSS;
            prr.acknowledge(MSS, pipe, threshold * MSS, MSS, false);
            while pipe + MSS <= prr.window() {
                pipe += MSS;
                sent += 1;
                prr.sent(MSS);
            }
        }
        (sent, pipe / MSS)
    }

    #[test]
    fn the_reduction_after_one_loss_ends_at_the_threshold_and_spreads_its_transmissions() {
        let (sent, pipe) = reduce(1, 70);
        assert_eq!(pipe, 70);
        assert_eq!(sent, 70);
    }

    #[test]
    fn many_losses_send_no_more_than_has_arrived() {
        let (sent, pipe) = reduce(60, 70);
        // 40 arrivals cause 40 transmissions. The first of these is the immediate retransmission.
        assert_eq!((sent, pipe), (40, 40));
    }
}
