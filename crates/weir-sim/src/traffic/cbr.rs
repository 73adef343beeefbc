//! A constant bit rate.

use weir_core::Nanos;

use crate::packet::FlowId;
use crate::random::Draws;

use super::source::{Process, Sending, Source};

/// Packets of one size at equal intervals. The remainder of each interval, below a nanosecond, is
/// added to the next one, so that the rate is exact.
#[derive(Clone, Debug)]
pub struct Constant {
    len: u32,
    /// Interval between packets in ns, times 2^16.
    interval: u64,
    /// Remainder of the earlier intervals.
    carry: u64,
    begun: bool,
}

impl Constant {
    /// Packets of `len` network-layer bytes at `bps` network-layer bits/s.
    pub fn rate(len: u32, bps: u64) -> Self {
        let ns = u128::from(len) * 8 * 1_000_000_000;
        Self {
            len,
            interval: u64::try_from((ns << 16) / u128::from(bps.max(1))).unwrap_or(u64::MAX),
            carry: 0,
            begun: false,
        }
    }

    /// Packets of `len` network-layer bytes, `interval` apart.
    pub fn every(len: u32, interval: Nanos) -> Self {
        Self { len, interval: interval.0.saturating_mul(1 << 16), carry: 0, begun: false }
    }
}

impl Process for Constant {
    #[inline]
    fn next(&mut self, _draws: &mut Draws) -> Option<(Nanos, u32)> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some((Nanos::ZERO, self.len));
        }
        let step = self.interval.saturating_add(self.carry);
        self.carry = step & 0xffff;
        Some((Nanos(step >> 16), self.len))
    }
}

/// A source of packets at equal intervals.
pub type Cbr = Source<Constant>;

impl Cbr {
    /// A source of packets of `len` network-layer bytes, of which `header` are headers, at `bps`
    /// network-layer bits/s from `from` until `until`.
    pub fn new(flow: FlowId, len: u32, header: u8, bps: u64, from: Nanos, until: Nanos) -> Self {
        Self::of(
            Constant::rate(len, bps),
            Draws::new(0, 0, 0),
            Sending { from, until, ..Sending::of(flow, header) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_exact_over_any_time() {
        // 1000 bytes at 3 Mbit/s: 2666666.6… ns.
        let (mut process, mut draws) = (Constant::rate(1000, 3_000_000), Draws::new(1, 1, 0));
        let total: u64 = (0..=3_000_000).map(|_| process.next(&mut draws).unwrap().0.0).sum();
        assert!(total.abs_diff(8_000_000_000_000) <= 50, "{total}");
        assert_eq!(Constant::every(64, Nanos(7)).next(&mut draws), Some((Nanos::ZERO, 64)));
    }
}
