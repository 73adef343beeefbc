//! The layout of the structures in `bpf/watch.h` and `bpf/lengths.h`: their sizes and the offsets
//! of their fields, in words of 8 bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::catalogue::Identity;

/// Maximum number of devices in one namespace.
pub(super) const MAX_DEVICES: usize = 64;
/// Maximum number of queues in one namespace.
pub(super) const MAX_QUEUES: usize = 4096;
/// Maximum number of runs of readings that one call writes.
pub(super) const MAX_RUNS: usize = 65536;
pub(super) const MAX_CPUS: usize = 512;

/// Flags of a queue: it is the root of its device, it counts on each processor separately, it is a
/// band of a `pfifo_fast`.
pub(super) const ROOT: u32 = 1;
pub(super) const PER_CPU: u32 = 2;
pub(super) const BAND: u32 = 4;

/// Flags in `CUT_NETNS` that give the reason why results are incomplete: more than [`MAX_QUEUES`]
/// queues, [`MAX_RUNS`] written runs, or a hash chain of devices that is longer than the search
/// limit.
pub(super) const CUT_QUEUES: u32 = 1;
pub(super) const CUT_RUNS: u32 = 2;
pub(super) const CUT_DEVICES: u32 = 4;

/// Offsets of the words of `struct control`, which `bpf/watch.h` describes. A constant with two
/// names is the offset of a word with two fields, the first one in the lower half.
pub(super) mod control {
    use super::MAX_DEVICES;

    /// Maximum duration of a call in ns.
    pub(crate) const SLICE: usize = 0;
    /// Time between two readings in ns; 0 for as short a time as possible.
    pub(crate) const INTERVAL: usize = 1;
    /// Maximum number of readings in a call.
    pub(crate) const MAX_READINGS: usize = 2;
    /// Number of devices in the lower half; whether to read children in the upper half.
    pub(crate) const DEVICES_CHILDREN: usize = 3;
    /// Whether to read bands in the lower half; whether to read counters in the upper half.
    pub(crate) const BANDS_COUNTERS: usize = 4;
    /// Number of queues in the lower half; number of written runs in the upper half.
    pub(crate) const QUEUES_RUNS: usize = 5;
    /// Flags of incomplete results in the lower half; number of the network namespace in the upper
    /// half.
    pub(crate) const CUT_NETNS: usize = 6;
    /// Number of readings in all calls.
    pub(crate) const READINGS: usize = 7;
    /// Number of scheduled moments without a reading, in all calls.
    pub(crate) const MISSED: usize = 8;
    /// Time of the last reading; 0 before the first.
    pub(crate) const LAST_READING: usize = 9;
    /// Next scheduled moment.
    pub(crate) const NEXT_READING: usize = 10;
    /// Longest time between two readings in ns.
    pub(crate) const LONGEST_GAP: usize = 11;
    /// Two interface indices per word, followed by the number of queues of each device.
    pub(crate) const IFINDEX: usize = 13;
    pub(crate) const DISCIPLINES: usize = IFINDEX + MAX_DEVICES / 2;
    /// Number of words in the structure.
    pub(crate) const WORDS: usize = DISCIPLINES + MAX_DEVICES / 2;
}

/// Number of words in `struct processors`. The lower half of the first word is the number of
/// processors; the program writes the rest.
pub(super) const PROCESSORS: usize = 2 + MAX_CPUS;
/// Number of words in `struct slot`.
pub(super) const SLOT_WORDS: usize = 14;
/// Number of words in `struct run`.
pub(super) const RUN_WORDS: usize = 4;
/// Number of words in `struct gaps`.
pub(super) const GAP_WORDS: usize = weir_measure::watch::Gaps::LENGTH / 2;

/// The two 4-byte fields in a word, in the order of their addresses.
pub(super) fn halves(word: u64) -> (u32, u32) {
    let bytes = word.to_ne_bytes();
    let half =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (half(0), half(4))
}

/// The word that consists of two 4-byte fields.
pub(super) fn word(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// A `struct slot`: one queue, its counters, and the run of equal readings that still continues.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) address: u64,
    pub(super) ifindex: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) flags: u32,
    pub(super) band: u32,
    pub(super) drops: u32,
    pub(super) requeues: u32,
    pub(super) overlimits: u32,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) kind: [u8; 16],
    /// Times of the first and the last reading of the run, and the number of its readings.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) count: u32,
    /// The packets and bytes in the queue, according to these readings.
    pub(super) qlen: u32,
    pub(super) backlog: u32,
}

impl Slot {
    /// Reads the slot at this index of the mapped array.
    pub(super) fn read(words: &[AtomicU64], index: usize) -> Slot {
        let at = |i: usize| words[index * SLOT_WORDS + i].load(Relaxed);
        let (ifindex, handle) = halves(at(2));
        let (parent, flags) = halves(at(3));
        let (band, drops) = halves(at(4));
        let (requeues, overlimits) = halves(at(5));
        let mut kind = [0; 16];
        kind[..8].copy_from_slice(&at(8).to_ne_bytes());
        kind[8..].copy_from_slice(&at(9).to_ne_bytes());
        let (count, qlen) = halves(at(12));
        let (address, bytes, packets) = (at(0), at(6), at(7));
        let (first, last, backlog) = (at(10), at(11), halves(at(13)).0);
        Slot {
            address,
            ifindex,
            handle,
            parent,
            flags,
            band,
            drops,
            requeues,
            overlimits,
            bytes,
            packets,
            kind,
            first,
            last,
            count,
            qlen,
            backlog,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        let band = (self.flags & BAND != 0).then_some(self.band as u8);
        let kind = if band.is_some() { "band".to_owned() } else { self.kind() };
        let root = self.flags & ROOT != 0;
        let &Slot { ifindex, handle, parent, address, .. } = self;
        Identity { ifindex, handle, parent, kind, band, root, address }
    }

    pub(super) fn kind(&self) -> String {
        let end = self.kind.iter().position(|&byte| byte == 0).unwrap_or(self.kind.len());
        String::from_utf8_lossy(&self.kind[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{halves, word};

    #[test]
    fn a_word_is_split_into_its_halves_and_joined_again() {
        assert_eq!(halves(word(7, u32::MAX)), (7, u32::MAX));
    }
}
