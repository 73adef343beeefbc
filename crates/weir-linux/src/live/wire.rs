//! The bytes of a stored packet: in one piece as it is on the wire, or in the pieces that the
//! kernel accepts.

use weir_wire::{ChecksumMode, MAX_HEADER_LEN, Train, VnetHeader, invert_bit, set_ce};

use super::describe::ETHERNET_HEADER;
use super::item::Item;
use crate::arena::Frame;
use crate::port::Message;

/// Composes an item for sending: the frame as it is, or new headers (in `room`) and a part of the
/// train's payload. `None` when the frame's headers do not allow cutting.
pub(super) fn compose<'a>(
    frame: &'a Frame,
    item: &Item,
    room: &'a mut [u8; MAX_HEADER_LEN],
) -> Option<Message<'a>> {
    let is_unchanged = |train: &Train| item.count == train.segments() && item.mark.is_none();
    match &frame.train {
        Some(train) if !is_unchanged(train) => {
            let run = train
                .headers(
                    item.first..item.first + item.count,
                    frame.bytes(),
                    ChecksumMode::Partial,
                    room,
                )
                .ok()?;
            let headers = &mut room[..run.header_len];
            if item.mark.is_some() {
                set_ce(headers, frame.parsed.as_ref()?);
            }
            Some(Message {
                vnet: run.vnet.encode(),
                head: headers,
                payload: frame.bytes().get(run.payload)?,
            })
        }
        _ => Some(Message { vnet: frame.vnet.encode(), head: frame.bytes(), payload: &[] }),
    }
}

/// Writes one packet into `out` as it is on the wire; a train kept whole stays one frame. `mode`
/// decides whether the checksum of a segment is completed or stays partial.
pub(super) fn materialise(
    frame: &Frame,
    segment: u16,
    mode: ChecksumMode,
    out: &mut Vec<u8>,
) -> Option<()> {
    out.clear();
    let Some(train) = &frame.train else {
        out.extend_from_slice(frame.bytes());
        let mut vnet = frame.vnet;
        // The checksum of a train kept whole stays partial. The checksum of any other frame is
        // completed if its offsets are valid.
        let _ = vnet.complete(out);
        return Some(());
    };
    let mut headers = [0; MAX_HEADER_LEN];
    let run = train.headers(segment..segment + 1, frame.bytes(), mode, &mut headers).ok()?;
    out.extend_from_slice(&headers[..run.header_len]);
    out.extend_from_slice(frame.bytes().get(run.payload)?);
    Some(())
}

/// Marks a packet, inverts one of its bits, or both. The checksum of a single packet is completed
/// before the bit is inverted, so that the receiver detects the error.
pub(super) fn alter(frame: &mut Frame, mark: bool, corrupt: Option<u32>) {
    let mut vnet = frame.vnet;
    let parsed = frame.parsed;
    let bytes = frame.bytes_mut();
    if let (true, Some(parsed)) = (mark, &parsed) {
        set_ce(bytes, parsed);
    }
    if let Some(bit) = corrupt {
        // The checksum of a train kept whole cannot be completed here. The kernel completes it
        // after the inversion, so the receiver does not detect the error.
        let _ = vnet.complete(bytes);
        // The receiving stack must verify the checksum.
        vnet.flags &= !VnetHeader::DATA_VALID;
        match &parsed {
            Some(parsed) => {
                invert_bit(bytes, parsed, bit);
            }
            None => {
                let body = &mut bytes[ETHERNET_HEADER..];
                let bits = body.len() * 8;
                if bits > 0 {
                    let bit = bit as usize % bits;
                    body[bit / 8] ^= 0x80 >> (bit % 8);
                }
            }
        }
    }
    frame.vnet = vnet;
}

/// Bytes of a frame from the network layer on.
pub(super) fn network_bytes(frame: &Frame) -> u32 {
    frame.parsed.map_or((frame.len - ETHERNET_HEADER) as u32, |parsed| parsed.network_len)
}
