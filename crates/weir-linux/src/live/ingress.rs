//! From a received frame to the engine: parse, cut a train, classify, store, submit.

use weir_core::key::FlowKey;
use weir_core::stats::DropReason;
use weir_core::{Action, Nanos};
use weir_wire::{Parsed, Train, VnetHeader, flow_key, parse};

use super::config::Gso;
use super::egress::Engine;
use super::observe::ArrivalEvent;
use crate::arena::{Frame, MAX_SEGMENTS};
use crate::port::Ingress;

impl Engine {
    /// Takes a frame of lane `lane` that came in at `now`; gives how many packets it was.
    pub(super) fn accept(&mut self, now: Nanos, lane: u16, ingress: Ingress) -> u16 {
        let (mut frame, packets, bytes) =
            match describe(lane, self.lanes[usize::from(lane)].config.gso, ingress) {
                Ok(described) => described,
                Err(ingress) => {
                    let books = &mut self.lanes[usize::from(lane)];
                    books.arrived(1, ingress.len as u32);
                    books.dropped(DropReason::BadFrame, 1, ingress.len as u32);
                    self.arena.pool.give(ingress.buffer);
                    return 1;
                }
            };
        self.lanes[usize::from(lane)].arrived(packets, bytes);
        if self.watching
            && let Some(observer) = &mut self.observer
        {
            observer.on_arrival(&ArrivalEvent {
                lane,
                at: now,
                frame: frame.bytes(),
                segments: packets,
            });
        }
        let key = if self.rules.is_none() { self.key(&frame) } else { FlowKey::default() };
        let action = Action::Pipe(self.lanes[usize::from(lane)].config.pipe);
        let references = if frame.train.is_some() { packets } else { 1 };
        frame.lane = lane;
        let Ok(slot) = self.arena.store(frame, u32::from(references)) else {
            self.lanes[usize::from(lane)].dropped(DropReason::NoMemory, packets, bytes);
            return packets;
        };
        if self.rules.is_some() {
            self.judge_arrival(slot, references, now);
        } else {
            self.enter(slot, 0..references, false, &key, action, now);
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

/// What a received frame is: the frame with its headers and cutting plan, its wire packets, and
/// their network-layer bytes. Gives it back when it is no frame, or a train of more packets than
/// handles can name.
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
    Ok((
        Frame {
            buffer,
            start,
            len: frame_len,
            vnet,
            parsed,
            train,
            lane,
            weight: packets_each,
            wire_len: len,
            journeys: Vec::new(),
        },
        segments,
        len,
    ))
}

/// Network-layer bytes of a train's packets, each with headers of its own.
fn bytes_on_wire(train: &Train) -> u32 {
    (0..train.segments()).map(|i| train.segment_len(i)).sum()
}

/// The plan to cut a train; `None` for ordinary frames, and for trains of a kind that is not cut,
/// which pass whole.
fn plan(frame: &[u8], vnet: &VnetHeader, parsed: Option<&Parsed>) -> Option<Train> {
    if vnet.gso_type == 0 {
        return None;
    }
    Train::plan(frame, vnet, parsed?).ok()
}

/// Bytes of an Ethernet header without tags.
pub(super) const ETHERNET_HEADER: usize = 14;
