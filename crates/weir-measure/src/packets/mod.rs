//! Recordings of packets: the arrival, length and flow of every packet at a queue of the kernel,
//! and its departure or drop. `weir watch --record` writes them; `weir rig --replay` reads them.
//!
//! # Format
//! A recording is a line of JSON, the [`Head`], and then entries of 32 bytes in the order of
//! arrival. All numbers are little-endian. The last entry has the kind `end`; a recording without
//! this entry is incomplete.
//!
//! ```text
//! byte   0        8       16      20      24     25     26     27     28      32
//!        +--------+-------+-------+-------+------+------+------+------+-------+
//! packet | time   | wait  | flow  | bytes | kind | tos  | bits | 0    | 0     |
//! lost   | time   | count | 0     | 0     | 0x10 | 0    | 0    | 0    | 0     |
//! change | time   | 0     | 0     | 0     | 0x11 | 0    | 0    | 0    | 0     |
//! end    | time   | count | check | stray | 0xff | 0    | 0    | 0    | drops |
//!        +--------+-------+-------+-------+------+------+------+------+-------+
//! ```
//!
//! Times are nanoseconds since the beginning of the recording. `wait` is the time from arrival to
//! departure or drop; all bits are set if neither was seen. `flow` is a hash with a key that exists
//! only during the recording, so it identifies a flow within one recording and reveals no address.
//! The kinds of a packet are those of [`Fate`]. `tos` is the traffic class on arrival: DSCP and ECN
//! field. `bits` is a sum: 1 for a packet of the same offload train as the previous packet, and 2
//! for a packet that departed with a congestion mark that it did not have on arrival. `check` is a
//! hash (FNV-1a, 32 bits) of the whole recording, computed with zeros in place of `check`. `stray`
//! counts departures and drops without a recorded arrival, and `drops` is the increase of the
//! kernel's own counter of drops.

mod read;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use read::{Decoder, FormatError};

/// Name and version of the format.
pub const FORMAT: &str = "weir.packets/1";
/// Bytes of an entry.
pub const ENTRY: usize = 32;
/// The most bytes of the head, including the line break.
pub const MAX_HEAD: usize = 4096;
/// The most bytes of a packet.
pub const MAX_BYTES: u32 = 1 << 20;
/// The greatest time, in ns: 366 days.
pub const MAX_TIME: u64 = 366 * 86_400 * 1_000_000_000;

/// The first line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RecordingHead")]
pub struct Head {
    /// Name and version of the format.
    pub format: String,
    /// The version of Weir that made the recording.
    pub version: String,
    /// When the recording began, in UTC.
    pub started: String,
    /// The device.
    pub device: String,
    /// The queueing discipline of the device at the beginning.
    pub discipline: Discipline,
}

/// A queueing discipline of the kernel. A value that the kernel does not report is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RecordedDiscipline")]
pub struct Discipline {
    /// The kind of the root, such as `tbf`.
    pub kind: String,
    /// The kind of the queue inside the root, such as `bfifo`, if there is exactly one.
    pub inner: Option<String>,
    /// The rate to which the discipline shapes, in bit/s.
    pub rate_bps: Option<u64>,
    /// Maximum number of bytes that it sends at once above the rate.
    pub burst_bytes: Option<u64>,
    /// The limit of its queue in packets.
    pub limit_packets: Option<u32>,
    /// The limit of its queue in bytes.
    pub limit_bytes: Option<u64>,
}

/// The outcome of a packet. The value is the `kind` of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// The packet departed.
    Departed = 0,
    /// The packet was dropped.
    Dropped = 1,
    /// The packet was still inside at the end.
    Inside = 2,
    /// The outcome was not seen, because events were lost.
    Unknown = 3,
    /// The packet departed without having been queued, because the queue was empty.
    Bypassed = 4,
}

/// A packet of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Arrival, in ns since the beginning of the recording.
    pub time: u64,
    /// Time from arrival to departure or drop in ns; `None` if neither was seen.
    pub wait: Option<u64>,
    /// Hash of addresses, ports and protocol with a key of this recording.
    pub flow: u32,
    /// Length in bytes as the kernel's disciplines count it: with the link header.
    pub bytes: u32,
    /// Outcome.
    pub fate: Fate,
    /// The traffic class: DSCP in the upper six bits, ECN field in the lower two.
    pub tos: u8,
    /// Whether it belongs to the same offload train as the previous packet.
    pub in_train: bool,
    /// Whether it departed with a congestion mark that it did not have on arrival.
    pub marked: bool,
}

/// An entry of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A packet.
    Packet(Packet),
    /// Some events since the previous entry of the kind `lost`, or since the beginning, could not
    /// be recorded.
    Lost {
        /// Time in ns.
        time: u64,
        /// Maximum number of these events.
        events: u64,
    },
    /// The discipline was replaced at this time in ns.
    Changed(u64),
    /// The end.
    End(End),
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Time in ns since the beginning.
    pub time: u64,
    /// Number of packets.
    pub packets: u64,
    /// Departures and drops without a recorded arrival.
    pub strays: u32,
    /// The increase of the kernel's counter of drops.
    pub kernel_drops: u32,
}

/// Writes a recording into a buffer of the caller.
#[derive(Debug)]
pub struct Encoder {
    check: u32,
    packets: u64,
}

impl Encoder {
    /// Begins a recording: appends the head. The key `format` is [`FORMAT`], whatever `head`
    /// contains.
    pub fn begin(head: &Head, out: &mut Vec<u8>) -> Self {
        let head = Head { format: FORMAT.into(), ..head.clone() };
        let from = out.len();
        // Text and numbers can always be written as JSON.
        out.extend(serde_json::to_vec(&head).unwrap_or_default());
        out.push(b'\n');
        Self { check: hash(START, &out[from..]), packets: 0 }
    }

    /// Appends an entry. The checksum and the number of packets of an [`End`] are filled in here.
    pub fn put(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        self.packets += u64::from(matches!(entry, Entry::Packet(_)));
        let bytes = match *entry {
            Entry::Packet(packet) => encoded(&packet),
            Entry::Lost { time, events } => words(time, events, LOST),
            Entry::Changed(time) => words(time, 0, CHANGED),
            Entry::End(end) => {
                let mut bytes = words(end.time, self.packets, END);
                bytes[20..24].copy_from_slice(&end.strays.to_le_bytes());
                bytes[28..].copy_from_slice(&end.kernel_drops.to_le_bytes());
                let check = hash(self.check, &bytes);
                bytes[CHECK].copy_from_slice(&check.to_le_bytes());
                bytes
            }
        };
        self.check = hash(self.check, &bytes);
        out.extend(bytes);
    }
}

fn encoded(packet: &Packet) -> [u8; ENTRY] {
    let mut bytes = words(packet.time, packet.wait.unwrap_or(u64::MAX), packet.fate as u8);
    bytes[16..20].copy_from_slice(&packet.flow.to_le_bytes());
    bytes[20..24].copy_from_slice(&packet.bytes.to_le_bytes());
    bytes[25] = packet.tos;
    bytes[26] = (u8::from(packet.in_train) * IN_TRAIN) | (u8::from(packet.marked) * MARKED);
    bytes
}

/// The bytes of an entry with these two numbers and this kind; all other bytes are 0.
fn words(first: u64, second: u64, kind: u8) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&second.to_le_bytes());
    bytes[KIND] = kind;
    bytes
}

/// FNV-1a with 32 bits.
fn hash(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The first value of the checksum.
const START: u32 = 0x811c_9dc5;
/// The bytes of an entry that hold the checksum.
const CHECK: core::ops::Range<usize> = 16..20;
/// The byte of an entry that holds the kind.
const KIND: usize = 24;
/// The kinds of entries that are not packets.
const LOST: u8 = 0x10;
const CHANGED: u8 = 0x11;
const END: u8 = 0xff;
/// The bits of the byte `bits` of a packet.
const IN_TRAIN: u8 = 1;
const MARKED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        // Published test vectors of FNV-1a: the empty string, "a" and "foobar".
        let of = |text: &str| hash(START, text.as_bytes());
        assert_eq!([of(""), of("a"), of("foobar")], [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]);
    }
}
