//! The application at both ends of a real stack: the data that it writes and expects, and the
//! packets that carry the stack's bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::Nanos;
use weir_core::packet::Ecn;

use super::{Load, Options};
use crate::endpoint::{Context, EndpointId, Notice};
use crate::packet::{Extra, FlowId, Packet};

/// The sending application: its position in the byte stream and the data still to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    pub(super) written: u64,
    /// Number of bytes to write in total; for a bulk transfer, more than can be sent.
    total: u64,
    /// Whether no more requests to write will arrive.
    pub(super) closed: bool,
}

impl Supply {
    pub(super) fn new(load: Load) -> Self {
        let (total, closed) = match load {
            Load::Bulk => (u64::MAX, false),
            Load::Bytes(bytes) => (bytes, true),
            Load::Written => (0, false),
        };
        Self { written: 0, total, closed }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
    }

    /// The next bytes to write, up to `room`.
    pub(super) fn next(&self, room: usize) -> &'static [u8] {
        let remaining = usize::try_from(self.total - self.written).unwrap_or(usize::MAX);
        let start = (self.written % PERIOD as u64) as usize;
        &PATTERN[start..start + remaining.min(room).min(PATTERN.len() - PERIOD)]
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Whether all data is written and the stream ends here.
    pub(super) fn ended(&self) -> bool {
        self.closed && self.written == self.total
    }
}

/// The lifetime of a connection, and the endpoint that is notified of its end. Both ends have a
/// copy.
///
/// A stack may still send packets after the end of a connection, to linger or to close. Because the
/// flow's number may be reused by then, both ends stop sending at once.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) flow: FlowId,
    pub(super) start: Nanos,
    stop: Nanos,
    owner: Option<EndpointId>,
    /// Whether the connection has ended.
    over: Arc<AtomicBool>,
}

impl Life {
    pub(super) fn new(flow: FlowId, options: &Options) -> Self {
        Self {
            flow,
            start: options.start,
            stop: options.stop,
            owner: options.owner,
            over: Arc::default(),
        }
    }

    /// Whether the connection must not send any more.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.stop || self.over.load(Ordering::Relaxed)
    }

    /// Reports that everything is acknowledged.
    pub(super) fn finish(&self, context: &mut Context<'_>) {
        self.over.store(true, Ordering::Relaxed);
        match self.owner {
            Some(owner) => context.tell(owner, self.flow, Notice::Done),
            None => {
                let took = context.now().since(self.start);
                let count = context.count(self.flow);
                count.completed += 1;
                count.completion_ns.record(took.0);
            }
        }
    }

    /// Reports that `bytes` more have arrived in order.
    pub(super) fn deliver(&self, bytes: u64, context: &mut Context<'_>) {
        if bytes == 0 {
            return;
        }
        context.count(self.flow).goodput_bytes += bytes;
        if let Some(owner) = self.owner {
            context.tell(owner, self.flow, Notice::Delivered(bytes));
        }
    }
}

/// Compares received bytes with those that the sender wrote.
///
/// # Panics
/// The bytes differ.
pub(super) fn check(mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let start = (offset % PERIOD as u64) as usize;
        let len = bytes.len().min(PATTERN.len() - start);
        assert!(
            bytes[..len] == PATTERN[start..start + len],
            "the stack delivered other bytes than were written, behind byte {offset}"
        );
        offset += len as u64;
        bytes = &bytes[len..];
    }
}

/// Sends a packet that carries the bytes of a stack.
pub(super) fn send_bytes(context: &mut Context<'_>, packet: Packet, bytes: Vec<u8>) {
    context.send_with(packet, Extra { bytes, ..Extra::default() });
}

/// The ECN field in the two lowest bits of an IP header's traffic class.
pub(super) fn ecn_from_bits(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

pub(super) fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

/// Length of the pattern: a prime, so that packets and buffers begin at varying positions.
const PERIOD: usize = 251;
/// The pattern, repeated. A slice as long as 64 repetitions can begin at each position of the first
/// repetition.
const PATTERN: [u8; PERIOD * 65] = {
    let mut pattern = [0; PERIOD * 65];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = (at % PERIOD) as u8;
        at += 1;
    }
    pattern
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_matches_wherever_it_is_cut() {
        let mut supply = Supply::new(Load::Bytes(100_000));
        for room in [1, 250, 251, 1448, 30_000, 65_536].into_iter().cycle() {
            let bytes = supply.next(room);
            check(supply.written, bytes);
            let len = bytes.len();
            supply.wrote(len);
            if supply.ended() {
                break;
            }
            assert!(len > 0);
        }
        assert_eq!(supply.written, 100_000);
    }

    #[test]
    #[should_panic(expected = "other bytes than were written")]
    fn a_missing_byte_is_detected() {
        let supply = Supply::new(Load::Bulk);
        check(0, &supply.next(100)[1..]);
    }

    #[test]
    fn ecn_bits_are_those_of_the_header() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(ecn_from_bits(0xfc | ecn_bits(ecn)), ecn);
        }
        assert_eq!(ecn_bits(Ecn::Ect0), 2);
    }
}
