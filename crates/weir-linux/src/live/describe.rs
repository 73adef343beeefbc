//! The description of a received frame: its headers, its size on a wire, and, for a train, the plan
//! to cut it into packets.

use weir_wire::{Parsed, Train, VnetHeader, parse};

use super::config::Gso;
use crate::arena::{Frame, MAX_SEGMENTS};
use crate::port::Ingress;

/// Bytes of an Ethernet header without tags.
pub(super) const ETHERNET_HEADER: usize = 14;

#[derive(Debug)]
pub(super) struct Described {
    pub(super) frame: Frame,
    /// Number of wire packets in the frame.
    pub(super) packets: u16,
    /// Network-layer bytes of these packets.
    pub(super) bytes: u32,
}

/// Describes a frame of lane `lane`.
///
/// # Errors
/// Gives the frame back if it is truncated, shorter than an Ethernet header, or a train of more
/// than [`MAX_SEGMENTS`] packets.
pub(super) fn describe(lane: u16, gso: Gso, ingress: Ingress) -> Result<Described, Ingress> {
    if ingress.truncated || ingress.len < ETHERNET_HEADER {
        return Err(ingress);
    }
    let bytes = &ingress.buffer.bytes()[ingress.start..ingress.start + ingress.len];
    let vnet = VnetHeader::decode(&ingress.vnet);
    let parsed = parse(bytes).ok();
    let train = plan(bytes, &vnet, parsed.as_ref());
    let packets = train.as_ref().map_or(1, Train::segments);
    if usize::from(packets) > MAX_SEGMENTS {
        return Err(ingress);
    }
    let single_len = parsed.map_or((ingress.len - ETHERNET_HEADER) as u32, |p| p.network_len);
    let (train, weight, bytes) = match (gso, train) {
        (Gso::Split, Some(train)) => (Some(train), 1, bytes_on_wire(&train)),
        // The engine handles the train as one unit, with the bytes that its packets have on a wire.
        (Gso::Whole, Some(train)) => (None, packets, bytes_on_wire(&train)),
        (_, None) => (None, 1, single_len),
    };
    let Ingress { buffer, start, len, .. } = ingress;
    let frame = Frame {
        buffer,
        start,
        len,
        vnet,
        parsed,
        train,
        lane,
        weight,
        wire_len: bytes,
        journeys: Vec::new(),
    };
    Ok(Described { frame, packets, bytes })
}

/// Network-layer bytes of a train's packets, each with its own headers.
fn bytes_on_wire(train: &Train) -> u32 {
    (0..train.segments()).map(|i| train.segment_len(i)).sum()
}

/// The plan to cut a train; `None` for ordinary frames, and for trains that cannot be cut and
/// therefore pass whole.
fn plan(frame: &[u8], vnet: &VnetHeader, parsed: Option<&Parsed>) -> Option<Train> {
    if vnet.gso_type == 0 {
        return None;
    }
    Train::plan(frame, vnet, parsed?).ok()
}
