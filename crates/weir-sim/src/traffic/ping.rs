//! Echo requests, and the endpoint that sends them back.

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint};
use crate::packet::{Flags, Packet};

use super::source::Sending;

/// Sends requests at equal intervals and counts the answers. Round-trip times are the completion
/// times of the group.
#[derive(Debug)]
pub struct Ping {
    packet: Packet,
    interval: Nanos,
    next: Nanos,
    until: Nanos,
}

impl Ping {
    /// A sender of requests of `len` network-layer bytes, `interval` apart.
    pub fn new(len: u32, interval: Nanos, sending: Sending) -> Self {
        let Sending { packet, from, until } = sending;
        Self { packet: Packet { len, ..packet }, interval, next: from, until }
    }
}

impl Endpoint for Ping {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let round_trip = context.now().since(packet.stamp);
        let count = context.count(packet.flow);
        count.completed += 1;
        count.completion_ns.record(round_trip.0);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.packet.stamp = context.now();
        context.count(self.packet.flow).opened += 1;
        context.send(self.packet);
        self.packet.seq += 1;
        self.next = self.next.saturating_add(self.interval);
    }

    fn next_event(&self) -> Nanos {
        if self.next < self.until { self.next } else { Nanos::MAX }
    }
}

/// Sends every packet back with the same length, number, label and timestamp.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Endpoint for Echo {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        context.count(packet.flow).goodput_bytes += u64::from(packet.payload());
        let Packet { flow, len, header, seq, label, stamp, .. } = *packet;
        context.send(Packet {
            flow,
            len,
            header,
            seq,
            label,
            stamp,
            flags: Flags::BACK,
            ..Packet::default()
        });
    }
}
