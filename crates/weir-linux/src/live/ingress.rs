//! From a received frame to the engine: parse, cut a train, classify, store, submit.

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Nanos};
use weir_wire::{Parsed, Train, VnetHeader, flow_key, parse};

use super::config::Gso;
use super::egress::{Engine, Lost};
use super::observe::ArrivalEvent;
use crate::arena::{Frame, MAX_SEGMENTS, handle};
use crate::port::Ingress;

impl Engine {
    /// Takes a frame of lane `lane` that came in at `now`; gives how many packets it was.
    pub(super) fn accept(&mut self, now: Nanos, lane: u16, ingress: Ingress) -> u16 {
        let (mut frame, packets, bytes) = match describe(lane, self.lanes[usize::from(lane)].config.gso, ingress) {
            Ok(described) => described,
            Err(ingress) => {
                let books = &mut self.lanes[usize::from(lane)];
                books.arrived(1, ingress.len as u32);
                books.dropped(DropReason::BadFrame, 1);
                self.arena.pool.give(ingress.buffer);
                return 1;
            }
        };
        self.lanes[usize::from(lane)].arrived(packets, bytes);
        if self.watching
            && let Some(observer) = &mut self.observer
        {
            observer.on_arrival(&ArrivalEvent { lane, at: now, frame: frame.bytes(), segments: packets });
        }
        let parsed = frame.parsed;
        let key = self.key(&frame);
        let action = match &mut self.classifier {
            Some(classifier) => classifier.classify(lane, frame.bytes(), parsed.as_ref(), &key),
            None => Action::Pipe(self.lanes[usize::from(lane)].config.pipe),
        };
        let train = frame.train;
        let references = if train.is_some() { packets } else { 1 };
        let arrival = Arrival {
            frame: 0,
            len: bytes,
            link_header: parsed.map_or(ETHERNET_HEADER as u8, |p| p.link_header),
            segments: frame.weight,
            ecn: parsed.map_or(Ecn::NotEct, |p| p.ecn),
        };
        frame.lane = lane;
        let Ok(slot) = self.arena.store(frame, u32::from(references)) else {
            self.lanes[usize::from(lane)].dropped(DropReason::NoMemory, packets);
            return packets;
        };
        for segment in 0..references {
            let len = train.as_ref().map_or(bytes, |t| t.segment_len(segment));
            let arrival = Arrival { frame: handle(slot, segment), len, ..arrival };
            if let Err(rejected) = self.emulator.submit(now, arrival, &key, action) {
                self.lost(slot, segment, Lost { reason: rejected.reason, at: now, due: now, arrived: now, dequeued: now });
            }
        }
        packets
    }

    /// The flow key where someone reads it, else an empty one.
    fn key(&self, frame: &Frame) -> FlowKey {
        match &frame.parsed {
            Some(parsed) if self.needs_key => flow_key(frame.bytes(), parsed),
            _ => FlowKey::default(),
        }
    }
}

/// What a received frame is: the frame with its headers and cutting plan, its wire packets, and their network-layer bytes.
/// Gives it back when it is no frame, or a train of more packets than handles can name.
fn describe(lane: u16, gso: Gso, ingress: Ingress) -> Result<(Frame, u16, u32), Ingress> {
    if ingress.truncated || ingress.len < ETHERNET_HEADER {
        return Err(ingress);
    }
    let bytes = &ingress.buffer.bytes()[ingress.start..ingress.start + ingress.len];
    let vnet = VnetHeader::decode(&ingress.vnet);
    let parsed = parse(bytes).ok();
    let train = plan(bytes, &vnet, parsed.as_ref());
    let segments = train.as_ref().map_or(1, Train::segments);
    if usize::from(segments) > MAX_SEGMENTS {
        return Err(ingress);
    }
    let whole = parsed.map_or((ingress.len - ETHERNET_HEADER) as u32, |p| p.network_len);
    let (train, packets_each, len) = match (gso, train) {
        (Gso::Split, Some(train)) => (Some(train), 1, bytes_on_wire(&train)),
        // One unit to the engine, but its packets take what they take on a wire.
        (Gso::Whole, Some(train)) => (None, segments, bytes_on_wire(&train)),
        (_, None) => (None, 1, whole),
    };
    let Ingress { buffer, start, len: frame_len, .. } = ingress;
    Ok((Frame { buffer, start, len: frame_len, vnet, parsed, train, lane, weight: packets_each, wire_len: len }, segments, len))
}

/// Network-layer bytes of a train's packets, each with headers of its own.
fn bytes_on_wire(train: &Train) -> u32 {
    (0..train.segments()).map(|i| train.segment_len(i)).sum()
}

/// The plan to cut a train; `None` for ordinary frames, and for trains of a kind that is not cut, which pass whole.
fn plan(frame: &[u8], vnet: &VnetHeader, parsed: Option<&Parsed>) -> Option<Train> {
    if vnet.gso_type == 0 {
        return None;
    }
    Train::plan(frame, vnet, parsed?).ok()
}

/// Bytes of an Ethernet header without tags.
pub(super) const ETHERNET_HEADER: usize = 14;
