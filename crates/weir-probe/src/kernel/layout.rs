//! The layout of the structures in `bpf/watch.h` and `bpf/lengths.h`, in words: their sizes and the
//! offsets of their fields.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::catalogue::Seen;

/// Maximum number of devices in one namespace.
pub(super) const MAX_DEVICES: usize = 64;
/// Maximum number of queues in one namespace.
pub(super) const MAX_QUEUES: usize = 4096;
/// Maximum number of runs that one call writes.
pub(super) const MAX_RUNS: usize = 65536;
/// Maximum number of processors.
pub(super) const MAX_CPUS: usize = 512;

/// Flags of a slot.
pub(super) const ROOT: u32 = 1;
pub(super) const PER_CPU: u32 = 2;
pub(super) const BAND: u32 = 4;

/// Flags of truncated results.
pub(super) const CUT_QUEUES: u32 = 1;
pub(super) const CUT_RUNS: u32 = 2;
pub(super) const CUT_DEVICES: u32 = 4;

/// Words of `struct control` and their offsets.
pub(super) mod control {
    use super::MAX_DEVICES;

    pub(crate) const SLICE: usize = 0;
    pub(crate) const INTERVAL: usize = 1;
    pub(crate) const MOST: usize = 2;
    /// Number of devices in the lower half; whether to read children in the upper half.
    pub(crate) const DEVICES_CHILDREN: usize = 3;
    /// Whether to read bands in the lower half; whether to read counters in the upper half.
    pub(crate) const BANDS_COUNTERS: usize = 4;
    pub(crate) const QUEUES_RUNS: usize = 5;
    pub(crate) const CUT_NETNS: usize = 6;
    pub(crate) const READINGS: usize = 7;
    pub(crate) const MISSED: usize = 8;
    pub(crate) const LAST: usize = 9;
    pub(crate) const NEXT: usize = 10;
    pub(crate) const LONGEST: usize = 11;
    /// Two interface indices per word, followed by the number of disciplines of each device.
    pub(crate) const IFINDEX: usize = 13;
    pub(crate) const FOUND: usize = IFINDEX + MAX_DEVICES / 2;
    pub(crate) const WORDS: usize = FOUND + MAX_DEVICES / 2;
}

/// Words of `struct processors`: the count in the lower half of the first, then the program's own
/// data.
pub(super) const PROCESSORS: usize = 2 + MAX_CPUS;
/// Words of `struct slot`.
pub(super) const SLOT: usize = 14;
/// Words of `struct run`.
pub(super) const RUN: usize = 4;
/// Words of `struct gaps`.
pub(super) const GAP_WORDS: usize = weir_measure::watch::Gaps::LENGTH / 2;

/// The lower and upper half of a word, in the memory order of 4-byte fields.
pub(super) fn halves(word: u64) -> (u32, u32) {
    let bytes = word.to_ne_bytes();
    let half =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (half(0), half(4))
}

/// The word that consists of two such fields.
pub(super) fn word(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// One queue, as the program left it.
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
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) count: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
}

impl Slot {
    /// Reads the slot at this index of the mapped array.
    pub(super) fn read(words: &[AtomicU64], index: usize) -> Slot {
        let at = |i: usize| words[index * SLOT + i].load(Relaxed);
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

    /// The identity of the queue.
    pub(super) fn seen(&self) -> Seen {
        let band = (self.flags & BAND != 0).then_some(self.band as u8);
        let kind = if band.is_some() { "band".to_owned() } else { self.kind() };
        let root = self.flags & ROOT != 0;
        let &Slot { ifindex, handle, parent, address, .. } = self;
        Seen { ifindex, handle, parent, kind, band, root, address }
    }

    /// The name of the discipline.
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
