//! Submits packets to this worker's emulator, or hands them over to the worker that owns their
//! instance.

use std::ops::Range;

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Emulator, Nanos};
use weir_wire::flow_key;

use super::describe::ETHERNET_HEADER;
use super::exchange::{Exchange, Parcel};
use super::item::Lost;
use super::packets::Packets;
use crate::arena::{Frame, handle, unpack};

/// The emulator, and the rings to other workers if there are any.
pub(super) struct Entry {
    emulator: Emulator,
    exchange: Option<Exchange>,
    /// Whether a mask, a scheduler, an AQM or a rule may read flow keys.
    needs_key: bool,
    /// Packets of a train that the engine refused, with the drop reasons. Empty between two calls;
    /// a field only to reuse the memory.
    refused: Vec<(u32, DropReason)>,
}

/// Packets of one stored frame that are submitted together.
pub(super) struct Batch {
    /// The slot of the frame in the arena.
    pub(super) slot: u32,
    /// The segments of the frame that are submitted.
    pub(super) segments: Range<u16>,
    /// Whether an earlier pipe marked the packets. The headers of a train do not show this.
    pub(super) marked: bool,
    pub(super) key: FlowKey,
    pub(super) action: Action,
    /// The time at which the engine receives the packets.
    pub(super) at: Nanos,
}

impl Entry {
    pub(super) fn new(emulator: Emulator, exchange: Option<Exchange>, needs_key: bool) -> Self {
        Self { emulator, exchange, needs_key, refused: Vec::new() }
    }

    pub(super) fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    pub(super) fn emulator_mut(&mut self) -> &mut Emulator {
        &mut self.emulator
    }

    pub(super) fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    pub(super) fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        self.exchange.as_mut()
    }

    /// Makes every following packet carry its flow key.
    pub(super) fn need_keys(&mut self) {
        self.needs_key = true;
    }

    /// The flow key of a frame; an empty key if nothing reads keys or the headers are malformed.
    #[inline]
    pub(super) fn key(&self, frame: &Frame) -> FlowKey {
        match &frame.parsed {
            Some(parsed) if self.needs_key => flow_key(frame.bytes(), parsed),
            _ => FlowKey::default(),
        }
    }

    /// Submits or hands over packets.
    pub(super) fn enter(&mut self, packets: &mut Packets, batch: Batch) {
        if let Some(exchange) = &self.exchange
            && let Some(hash) = self.emulator.instance_hash(&batch.key, batch.action)
            && let Some(owner) = exchange.other_owner(hash)
        {
            return self.hand_over(packets, owner, &batch);
        }
        let Batch { slot, segments, marked, key, action, at } = batch;
        let Some(frame) = packets.frame(slot) else { return };
        let (train, wire_len) = (frame.train, frame.wire_len);
        let arrival = Arrival {
            frame: 0,
            len: wire_len,
            link_header: frame.parsed.map_or(ETHERNET_HEADER as u8, |p| p.link_header),
            segments: frame.weight,
            ecn: if marked { Ecn::Ce } else { frame.parsed.map_or(Ecn::NotEct, |p| p.ecn) },
            label: 0,
        };
        let arrival_of = |segment| {
            let len = train.as_ref().map_or(wire_len, |t| t.segment_len(segment));
            Arrival { frame: handle(slot, segment), len, ..arrival }
        };
        if segments.len() == 1 {
            if let Err(rejected) =
                self.emulator.submit(at, arrival_of(segments.start), &key, action)
            {
                packets.lost(slot, segments.start, Lost::on_arrival(rejected.reason, at));
            }
            return;
        }
        let Self { emulator, refused, .. } = self;
        emulator.submit_train(at, segments.map(arrival_of), &key, action, |frame, rejected| {
            refused.push((frame, rejected.reason));
        });
        for (frame, reason) in refused.drain(..) {
            packets.lost(slot, unpack(frame).1, Lost::on_arrival(reason, at));
        }
    }

    /// Accepts parcels from other workers, at most [`PARCELS_AT_ONCE`] from each. Returns whether
    /// there were any.
    pub(super) fn collect(&mut self, packets: &mut Packets) -> bool {
        let mut any = false;
        for from in 0..self.exchange.as_ref().map_or(0, Exchange::workers) {
            for _ in 0..PARCELS_AT_ONCE {
                let exchange = self.exchange.as_mut();
                let Some(parcel) = exchange.and_then(|ring| ring.take(from, packets.pool())) else {
                    break;
                };
                any = true;
                self.unpack_parcel(packets, parcel);
            }
        }
        any
    }

    fn hand_over(&mut self, packets: &mut Packets, owner: usize, batch: &Batch) {
        let Batch { slot, ref segments, marked, key, action, at } = *batch;
        // The other worker submits all packets of a frame that it receives. A frame therefore
        // moves only if all its packets move.
        let whole = packets.frame(slot).is_some_and(|f| packets_of(f) == segments.len() as u16);
        if whole && packets.references(slot) == segments.len() as u32 {
            match packets.take(slot) {
                Some(frame) => self.post(packets, owner, Parcel { frame, key, action, at }),
                None => debug_assert!(false, "packets without a frame were handed over"),
            }
            return;
        }
        // Each packet that moves gets a frame of its own.
        for segment in segments.clone() {
            let journey = packets
                .frame(slot)
                .and_then(|frame| frame.journeys.get(usize::from(segment)).cloned());
            match packets.move_out(slot, segment, marked).and_then(|copy| packets.take(copy)) {
                Some(mut frame) => {
                    frame.journeys.extend(journey);
                    self.post(packets, owner, Parcel { frame, key, action, at });
                }
                None => packets.lost(slot, segment, Lost::on_arrival(DropReason::NoMemory, at)),
            }
        }
    }

    fn post(&mut self, packets: &mut Packets, owner: usize, parcel: Parcel) {
        let Some(exchange) = &mut self.exchange else { return };
        let Some(Parcel { frame, at, .. }) = exchange.post(owner, parcel) else { return };
        let count = packets_of(&frame);
        // The ring is full, so this worker counts the drop.
        match packets.adopt(frame, count) {
            Ok(slot) => {
                for segment in 0..count {
                    packets.lost(slot, segment, Lost::on_arrival(DropReason::HandOver, at));
                }
            }
            Err(_) => debug_assert!(false, "there was room for it a moment ago"),
        }
    }

    fn unpack_parcel(&mut self, packets: &mut Packets, parcel: Parcel) {
        let Parcel { frame, key, action, at } = parcel;
        let count = packets_of(&frame);
        let (lane, wire_packets) = (frame.lane, frame.weight * count);
        let bytes = (0..count).map(|segment| frame.packet_bytes(segment)).sum();
        let marked = frame.journeys.first().is_some_and(|journey| journey.mark.is_some());
        match packets.adopt(frame, count) {
            // If the configuration has changed meanwhile, `enter` hands the frame over to another
            // worker.
            Ok(slot) => {
                self.enter(packets, Batch { slot, segments: 0..count, marked, key, action, at });
            }
            Err(_) => packets.lane_mut(lane).dropped(DropReason::NoMemory, wire_packets, bytes),
        }
    }
}

/// The number of references to a frame that still has all its packets.
fn packets_of(frame: &Frame) -> u16 {
    frame.train.as_ref().map_or(1, |train| train.segments())
}

/// Maximum number of frames taken from one worker before other workers and due packets have their
/// turn.
const PARCELS_AT_ONCE: usize = 64;
