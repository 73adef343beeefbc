//! A source that sends packets without a transport protocol, and the sink that counts them.

use std::fmt::Debug;

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint};
use crate::packet::{FlowId, Packet};
use crate::random::Draws;

/// A process, usually random, that determines the times and lengths of packets.
pub trait Process: Clone + Debug + Send + 'static {
    /// The time from the previous packet, or from the start, to the next packet, and the length of
    /// the next packet in network-layer bytes. `None` after the last packet.
    fn next(&mut self, draws: &mut Draws) -> Option<(Nanos, u32)>;
}

/// Sends packets at the times of a process.
#[derive(Debug)]
pub struct Source<P> {
    process: P,
    draws: Draws,
    /// The next packet to send.
    packet: Packet,
    /// When to send it.
    next: Nanos,
    /// The source sends no packet at this time or later.
    until: Nanos,
}

/// The common properties of a source's packets, and its start and end.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// A template for the packets, with flow, headers, ECN field and label.
    pub packet: Packet,
    /// Start of the process.
    pub from: Nanos,
    /// End of the process: no packet is sent at this time or later.
    pub until: Nanos,
}

impl<P: Process> Source<P> {
    /// A source with a process that draws from `draws`.
    pub fn of(mut process: P, mut draws: Draws, sending: Sending) -> Self {
        let Sending { mut packet, from, until } = sending;
        let (gap, len) = process.next(&mut draws).unwrap_or((Nanos::MAX, 0));
        packet.len = len;
        Self { process, draws, packet, next: from.saturating_add(gap), until }
    }
}

impl<P: Process> Endpoint for Source<P> {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        context.send(self.packet);
        self.packet.seq += 1;
        let (gap, len) = self.process.next(&mut self.draws).unwrap_or((Nanos::MAX, 0));
        self.packet.len = len;
        self.next = self.next.saturating_add(gap);
    }

    fn next_event(&self) -> Nanos {
        if self.next < self.until { self.next } else { Nanos::MAX }
    }
}

/// Counts the payload bytes of arriving packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Endpoint for Sink {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        context.count(packet.flow).goodput_bytes += u64::from(packet.payload());
    }
}

impl Sending {
    /// A flow that sends from the start to the end of the run; each packet has `header` bytes of
    /// headers.
    pub fn of(flow: FlowId, header: u8) -> Self {
        Self {
            packet: Packet { flow, header, ..Packet::default() },
            from: Nanos::ZERO,
            until: Nanos::MAX,
        }
    }
}
