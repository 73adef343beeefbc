//! The records of `bpf/events.h`, read from the regions of each processor and sorted by time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use weir_linux::sys::shared::SharedWords;

use weir_measure::watch::{PacketEvent, PacketEventKind};

use super::layout::halves;

/// Number of words in `struct record`.
pub(super) const RECORD: usize = 8;
/// Number of words in `struct region`, and the offsets of its fields `lost` and `tail`.
pub(super) const REGION: usize = 16;
const LOST: usize = 1;
const TAIL: usize = 8;
/// Number of device slots in `struct recorder`, and the number of consecutive slots in which a
/// device may be, beginning at [`own_place`].
pub(super) const MAX_WATCHED: usize = 1024;
const NEIGHBOURS: usize = 8;
/// Offsets of the words of `struct recorder`, and their number.
pub(super) const MASK: usize = 0;
pub(super) const OPS: usize = 1;
const NEAR: usize = 2;
pub(super) const KIND: usize = 3;
pub(super) const ELSEWHERE: usize = 5;
pub(super) const WITH_PACKETS: usize = 6;
pub(super) const FLOW_KEY: usize = 7;
pub(super) const CPUS: usize = 9;
const WATCHED: usize = 10;
pub(super) const RECORDER: usize = WATCHED + MAX_WATCHED;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Enqueue,
    Dequeue,
    /// All packets are about to be discarded.
    Reset,
    Destroy,
    /// An event of a packet. Its record has other fields.
    Packet(PacketEventKind),
}

/// The identity of a discipline. No two disciplines have the same identity at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The kernel's address of the discipline.
    pub(super) address: u64,
    /// The kernel's address of the operations of the discipline's kind.
    pub(super) ops: u64,
    pub(super) ifindex: u32,
    pub(super) netns: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
}

/// One event as the program wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) time: u64,
    pub(super) key: Key,
    pub(super) kind: Kind,
    pub(super) packets: u32,
    pub(super) bytes: u32,
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) drops: u32,
    pub(super) requeues: u32,
    pub(super) flags: u32,
    pub(super) cpu: u32,
}

impl Record {
    fn read(words: &[AtomicU64], cpu: u32) -> Record {
        let at = |i: usize| words[i].load(Relaxed);
        let (ifindex, netns) = halves(at(3));
        let (handle, parent) = halves(at(4));
        let (qlen, backlog) = halves(at(5));
        let (drops, requeues) = halves(at(6));
        let (bytes, rest) = halves(at(7));
        let [low, high, kind, flags] = rest.to_ne_bytes();
        let kind = match kind {
            0 => Kind::Enqueue,
            1 => Kind::Dequeue,
            2 => Kind::Reset,
            3 => Kind::Destroy,
            4 => Kind::Packet(PacketEventKind::Arrive),
            5 => Kind::Packet(PacketEventKind::Leave),
            6 => Kind::Packet(PacketEventKind::Sent),
            _ => Kind::Packet(PacketEventKind::Free),
        };
        let key = Key { address: at(1), ops: at(2), ifindex, netns, handle, parent };
        let packets = u16::from_ne_bytes([low, high]).into();
        Record {
            time: at(0),
            key,
            kind,
            packets,
            bytes,
            qlen,
            backlog,
            drops,
            requeues,
            flags: flags.into(),
            cpu,
        }
    }
}

impl Record {
    /// The event of a packet. In the record of a packet, some words have another meaning.
    pub(super) fn packet(&self, kind: PacketEventKind) -> PacketEvent {
        PacketEvent {
            time: self.time,
            kind,
            packet: self.key.address,
            flow: self.key.ops,
            bytes: self.bytes,
            packets: self.packets,
            segment: self.requeues,
            tos: self.flags as u8,
        }
    }
}

/// The number of regions of a processor: one for its records, and one for the records of interrupts
/// that arrive while the first region is being written.
pub(super) const LEVELS: usize = 2;

/// The records of all processors, including those that were read but are not yet sorted.
pub(super) struct Records {
    /// The head, the tail and the number of lost records of each region.
    regions: SharedWords,
    /// The records of all regions.
    words: SharedWords,
    /// Number of records in a region.
    each: usize,
    /// Records that were read but are later than the moment of the last [`Records::take`].
    waiting: Vec<Record>,
}

impl Records {
    /// Creates the reader of regions with `each` records, a power of two.
    pub(super) fn new(regions: SharedWords, words: SharedWords, each: usize) -> Records {
        Records { regions, words, each, waiting: Vec::new() }
    }

    /// Number of events that were lost because a region was full, or because an interrupt was
    /// interrupted in turn.
    pub(super) fn lost(&self) -> u64 {
        self.regions.chunks_exact(REGION).map(|region| region[LOST].load(Relaxed)).sum()
    }

    /// Moves the records up to a moment into `ready`, sorted by time. The moment must not be in the
    /// future. The next call takes a record that is still being written. Only a lock-free
    /// discipline can already have an event after that record.
    pub(super) fn take(&mut self, until: u64, ready: &mut Vec<Record>) {
        let cpus = self.regions.len() / REGION / LEVELS;
        for (place, region) in self.regions.chunks_exact(REGION).enumerate() {
            let cpu = (place % cpus) as u32;
            let (tail, head) = (region[TAIL].load(Relaxed), region[0].load(Acquire));
            for count in tail..head {
                let at = place * self.each + count as usize % self.each;
                self.waiting.push(Record::read(&self.words[at * RECORD..][..RECORD], cpu));
            }
            region[TAIL].store(head, Release);
        }
        // Each region is already sorted, which speeds up this sort.
        self.waiting.sort_by_key(|record| record.time);
        let over = self.waiting.partition_point(|record| record.time <= until);
        ready.extend(self.waiting.drain(..over));
    }
}

/// Sets the devices to record: `(netns, ifindex)`. Devices that were recorded before keep their
/// slots, so that their recording has no gap. Returns the devices for which there is no slot.
pub(super) fn watch(recorder: &[AtomicU64], devices: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let places = &recorder[WATCHED..WATCHED + MAX_WATCHED];
    let key = |&(netns, ifindex): &(u32, u32)| u64::from(netns) << 32 | u64::from(ifindex);
    for place in places {
        let now = place.load(Relaxed);
        if now != 0 && !devices.iter().any(|device| key(device) == now) {
            place.store(0, Relaxed);
        }
    }
    let mut left = Vec::new();
    for device in devices {
        let near = (0..NEIGHBOURS).map(|i| &places[(own_place(*device) + i) % MAX_WATCHED]);
        if near.clone().any(|place| place.load(Relaxed) == key(device)) {
            continue;
        }
        match near.enumerate().find(|(_, place)| place.load(Relaxed) == 0) {
            Some((distance, place)) => {
                recorder[NEAR].fetch_max(distance as u64 + 1, Relaxed);
                place.store(key(device), Relaxed);
            }
            None => left.push(*device),
        }
    }
    left
}

/// The slot at which the search for a device begins.
fn own_place((netns, ifindex): (u32, u32)) -> usize {
    (ifindex.wrapping_mul(0x9e37_79b1).wrapping_add(netns.wrapping_mul(0x85eb_ca6b)) >> 22) as usize
}

/// The name of the kind of discipline that the program has looked up.
pub(super) fn kind_of(recorder: &[AtomicU64]) -> String {
    let bytes: Vec<u8> =
        (KIND..KIND + 2).flat_map(|i| recorder[i].load(Relaxed).to_ne_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::{NEIGHBOURS, RECORDER, WATCHED, own_place, watch};

    fn table() -> Vec<AtomicU64> {
        (0..RECORDER).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn staying_devices_keep_their_slots_and_others_free_theirs() {
        let table = table();
        let all: Vec<(u32, u32)> =
            (1..=60).flat_map(|ifindex| [(7, ifindex), (8, ifindex)]).collect();
        assert_eq!(watch(&table, &all), []);
        let places =
            || -> Vec<u64> { table[WATCHED..].iter().map(|place| place.load(Relaxed)).collect() };
        let before = places();
        assert_eq!(before.iter().filter(|key| **key != 0).count(), 120);
        assert_eq!(watch(&table, &all[20..]), []);
        let after = places();
        assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == 0));
        assert_eq!(after.iter().filter(|key| **key != 0).count(), 100);
    }

    #[test]
    fn devices_without_a_free_slot_are_returned() {
        let table = table();
        // Interface indices with the same first slot.
        let crowd = (1..)
            .map(|ifindex| (1, ifindex))
            .filter(|device| own_place(*device) == 5)
            .take(NEIGHBOURS + 1);
        let crowd: Vec<(u32, u32)> = crowd.collect();
        assert_eq!(watch(&table, &crowd), [crowd[NEIGHBOURS]]);
    }
}
