//! Proportional rate reduction: a reduced window is reached by the end of a round trip, by sending
//! less for each arrival.
//!
//! # Equations
//! `flight` was in flight when the reduction began; `arrived` and `out` bytes have arrived and were
//! sent since. For an acknowledgement of `a` bytes with `pipe` in flight:
//!
//! ```text
//! pipe > threshold:  send = ⌈arrived · threshold / flight⌉ − out
//! otherwise:         send = min(threshold − pipe, max(arrived − out, a) + mss)   while the left edge moves and nothing new is lost
//!                           min(threshold − pipe, arrived − out)                 otherwise
//! ```
//!
//! The window is `pipe + send`, and `send` is a segment at least when the reduction begins, for the
//! first retransmission.
//!
//! # Reference
//! RFC 6937, with the choice between its two bounds of draft-ietf-tcpm-prr-rfc6937bis.

/// A reduction in progress.
#[derive(Debug, Default)]
pub(super) struct Prr {
    flight: u64,
    arrived: u64,
    out: u64,
    /// The window for now.
    window: u64,
}

impl Prr {
    pub(super) fn begin(&mut self, flight: u64) {
        *self = Self { flight: flight.max(1), arrived: 0, out: 0, window: 0 };
    }

    /// Bytes were sent.
    #[inline]
    pub(super) fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// An acknowledgement has reported `bytes`, and `pipe` are in flight now. `safe`: the left edge
    /// has moved and no new loss was found.
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

    /// Loses the first `lost` of a hundred segments, and lets the others arrive one by one; returns
    /// what was sent.
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
    fn one_loss_ends_at_the_threshold_with_evenly_spread_sending() {
        let (sent, pipe) = reduce(1, 70);
        assert_eq!(pipe, 70);
        assert_eq!(sent, 70);
    }

    #[test]
    fn many_losses_send_no_more_than_has_arrived() {
        let (sent, pipe) = reduce(60, 70);
        // 40 arrive and clock out 40; the first of them is the retransmission that goes at once.
        assert_eq!((sent, pipe), (40, 40));
    }
}
