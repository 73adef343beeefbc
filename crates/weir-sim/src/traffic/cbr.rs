//! A constant bit rate, and the sink for all traffic without a transport protocol.

use weir_core::Nanos;
use weir_core::packet::Ecn;

use crate::endpoint::{Context, Endpoint};
use crate::packet::{FlowId, Packet};

/// Sends packets of one size at equal distances.
#[derive(Debug)]
pub struct Cbr {
    flow: FlowId,
    len: u32,
    header: u8,
    ecn: Ecn,
    /// Distance of packets in ns, times 2^16.
    interval: u64,
    /// Fraction of a nanosecond that earlier packets left.
    carry: u64,
    next: Nanos,
    until: Nanos,
    seq: u64,
}

impl Cbr {
    /// Packets of `len` network-layer bytes, `header` of them headers, at `bps` network-layer bits/s from `from` until `until`.
    pub fn new(flow: FlowId, len: u32, header: u8, bps: u64, from: Nanos, until: Nanos) -> Self {
        let interval = u64::try_from((u128::from(len) * 8 * 1_000_000_000 << 16) / u128::from(bps.max(1))).unwrap_or(u64::MAX);
        Self { flow, len, header, ecn: Ecn::NotEct, interval, carry: 0, next: from, until, seq: 0 }
    }
}

impl Endpoint for Cbr {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        let Self { flow, len, header, ecn, seq, .. } = *self;
        context.send(Packet { flow, len, header, ecn, seq, ..Packet::default() });
        self.seq += 1;
        let step = self.interval.saturating_add(self.carry);
        self.carry = step & 0xffff;
        self.next = self.next.saturating_add(Nanos(step >> 16));
    }

    fn next_event(&self) -> Nanos {
        if self.next < self.until { self.next } else { Nanos::MAX }
    }
}

/// Counts what arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Endpoint for Sink {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        context.count(packet.flow).goodput_bytes += u64::from(packet.payload());
    }
}
