//! The recording of packets: combines the events of each packet into one entry, in the order of
//! arrival.
//!
//! An offload train is recorded as its wire packets. A discipline that cuts a train replaces the
//! train by new packets, which the kernel does not relate to it. The recorder assigns these packets
//! to the trains of the same flow: to the oldest train first, except for drops on arrival.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use weir_measure::packets::{End, Entry, Fate, Head, Packet};
use weir_probe::{Counters, Event, PacketEvent, PacketEventKind, Queue, QueueId, Run, Sink};
use weir_report::watch::{PacketFile, RecordError};

/// Combines the events of packets, and writes the entries to a file.
pub(crate) struct PacketRecord {
    /// The file; `None` after an error.
    file: Option<PacketFile>,
    trail: Trail,
    /// The entries that are complete and not written yet.
    ready: Vec<Entry>,
    /// The number of packets that were written.
    written: u64,
    /// The root queues, with the first and the latest value of their counters of drops.
    roots: HashMap<QueueId, Option<(u64, u64)>>,
    /// The last time at which the queues were read and no packet was found.
    empty_at: Option<u64>,
    /// The error that ended the recording, until it is taken.
    error: Option<RecordError>,
}

impl PacketRecord {
    /// Begins a recording at `path`.
    ///
    /// # Errors
    /// No file can be created there.
    pub(crate) fn create(path: &Path, head: &Head) -> Result<Self, RecordError> {
        Ok(Self {
            file: Some(PacketFile::create(path, head)?),
            trail: Trail::default(),
            ready: Vec::new(),
            written: 0,
            roots: HashMap::new(),
            empty_at: None,
            error: None,
        })
    }

    /// The error that ended the recording, if it has not been taken yet.
    pub(crate) fn take_error(&mut self) -> Option<RecordError> {
        self.error.take()
    }

    /// Ends the recording, and returns the number of packets in it. Returns `None` if the error
    /// that ended the recording was taken before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self) -> Result<Option<u64>, RecordError> {
        let mut end = self.trail.finish(self.empty_at, &mut self.ready);
        self.write();
        let drops = self.roots.values().flatten().map(|(first, last)| last.saturating_sub(*first));
        end.kernel_drops = u32::try_from(drops.sum::<u64>()).unwrap_or(u32::MAX);
        match (self.error, self.file) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.finish(end).map(|()| Some(self.written)),
            (None, None) => Ok(None),
        }
    }

    fn write(&mut self) {
        for entry in self.ready.drain(..) {
            let Some(file) = &mut self.file else { continue };
            match file.put(&entry) {
                Ok(()) => self.written += u64::from(matches!(entry, Entry::Packet(_))),
                Err(error) => {
                    self.error = Some(error);
                    self.file = None;
                }
            }
        }
    }
}

impl Sink for PacketRecord {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        if queue.root {
            if !self.roots.is_empty() {
                self.trail.changed(time, &mut self.ready);
            }
            self.roots.insert(id, None);
        }
    }

    fn vanished(&mut self, _: u64, _: QueueId) {}
    fn runs(&mut self, _: &[Run]) {}
    fn events(&mut self, _: &[Event]) {}

    fn packets(&mut self, events: &[PacketEvent]) {
        events.iter().for_each(|event| self.trail.take(event, &mut self.ready));
        self.write();
    }

    fn lost(&mut self, time: u64, events: u64) {
        self.trail.lost(time, events, &mut self.ready);
        self.write();
    }

    fn empty(&mut self, time: u64) {
        self.empty_at = Some(time);
    }

    fn counters(&mut self, _: u64, id: QueueId, counters: &Counters) {
        if let Some(root) = self.roots.get_mut(&id) {
            root.get_or_insert((counters.drops, 0)).1 = counters.drops;
        }
    }

    fn remark(&mut self, _: u64, _: &str) {}
}

/// The wire packets that arrived and are not written yet, in the order of arrival.
#[derive(Default)]
struct Trail {
    waiting: VecDeque<Waiting>,
    /// The number of the first element of `waiting`, counted from the start of the recording.
    first: u64,
    /// The packets and whole trains that are queued, by the number that the kernel gives them.
    queued: HashMap<u64, Train>,
    /// The trains of each flow that may have been cut, in the order of arrival.
    trains: HashMap<u64, VecDeque<Train>>,
    /// Time of the first event.
    begin: Option<u64>,
    /// Time of the latest event, since the first event.
    last: u64,
    /// Events that the kernel has lost.
    lost: u64,
    /// Departures of packets without a known arrival.
    strays: u32,
}

/// An entry that waits for the outcome of its own packet or of an earlier packet.
enum Waiting {
    /// A packet, and whether its outcome is final.
    Packet(Packet, State),
    /// An entry that is not about a packet.
    Other(Entry),
}

/// Whether the outcome of a packet is final. A final outcome may be [`Fate::Unknown`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Final,
}

/// The wire packets of a train that have no outcome yet, or a single packet.
#[derive(Clone, Copy)]
struct Train {
    /// The number that the kernel gave to the train or packet.
    packet: u64,
    flow: u64,
    /// The number of the first of these wire packets in the recording.
    next: u64,
    /// The number of the last of these wire packets plus one.
    end: u64,
    /// Time of the arrival, since the first event.
    arrived: u64,
}

impl Trail {
    /// Takes an event, and appends the entries that are complete.
    fn take(&mut self, event: &PacketEvent, ready: &mut Vec<Entry>) {
        let time = self.time(event.time);
        match event.kind {
            PacketEventKind::Arrive => self.arrive(event, time),
            PacketEventKind::Leave => self.leave(event, time, Fate::Departed),
            PacketEventKind::Free => self.leave(event, time, Fate::Dropped),
            PacketEventKind::Sent => {
                // A packet that waited has already left the queue when it is sent, so this packet
                // did not wait.
                if let Some(train) = self.take_queued(event) {
                    self.settle(train, time, Fate::Bypassed, event.tos);
                }
            }
        }
        self.hand_over(ready);
    }

    fn arrive(&mut self, event: &PacketEvent, time: u64) {
        if self.queued.len() >= 2 * MAX_WAITING {
            self.prune();
        }
        let next = self.first + self.waiting.len() as u64;
        let count = event.packets.clamp(1, MAX_TRAIN);
        let &PacketEvent { packet, flow, .. } = event;
        let end = next + u64::from(count);
        let train = Train { packet, flow, next, end, arrived: time };
        for (place, bytes) in lengths(event, count).enumerate() {
            let packet = Packet {
                time,
                wait: None,
                // The lower half of a hash is itself a hash.
                flow: event.flow as u32,
                bytes,
                fate: Fate::Inside,
                tos: event.tos,
                in_train: place > 0,
                marked: false,
            };
            self.waiting.push_back(Waiting::Packet(packet, State::Open));
        }
        if count > 1 {
            self.trains.entry(event.flow).or_default().push_back(train);
        }
        if let Some(before) = self.queued.insert(event.packet, train)
            && before.end == before.next + 1
        {
            // The kernel uses the number again, so the outcome of the earlier single packet was
            // lost. The parts of an earlier train may still be queued, because the kernel frees the
            // number of a train that it cuts.
            self.give_up(before);
        }
    }

    /// Records that a packet departed or was dropped.
    fn leave(&mut self, event: &PacketEvent, time: u64, fate: Fate) {
        if let Some(train) = self.take_queued(event) {
            return self.settle(train, time, fate, event.tos);
        }
        for _ in 0..event.packets.max(1) {
            match self.take_part(event.flow, time, fate) {
                Some(part) => self.settle(part, time, fate, event.tos),
                // The kernel also drops packets outside this queue, such as received packets.
                None if fate == Fate::Dropped => return,
                None => self.strays = self.strays.saturating_add(1),
            }
        }
    }

    /// Removes the packet or the whole train of an event from `queued`, and returns it. `None` if
    /// the event belongs to a part of a cut train or to an unknown packet.
    fn take_queued(&mut self, event: &PacketEvent) -> Option<Train> {
        let train = self.queued.get(&event.packet)?;
        // A part of a cut train may have received the number that the train had.
        if train.flow != event.flow || train.end - train.next != u64::from(event.packets.max(1)) {
            return None;
        }
        let train = self.queued.remove(&event.packet)?;
        self.forget(train);
        Some(train)
    }

    /// Removes a train from the list of its flow's trains.
    fn forget(&mut self, train: Train) {
        if let Some(trains) = self.trains.get_mut(&train.flow) {
            trains.retain(|other| other.end != train.end);
            if trains.is_empty() {
                self.trains.remove(&train.flow);
            }
        }
    }

    /// Removes from a cut train the wire packet to which an event of this flow belongs, and returns
    /// it. For a drop directly after an arrival, this is the last packet of the newest train. For
    /// every other event, it is the first packet of the oldest train.
    fn take_part(&mut self, flow: u64, time: u64, fate: Fate) -> Option<Train> {
        let trains = self.trains.get_mut(&flow)?;
        let newest = trains.back_mut()?;
        let part = if fate == Fate::Dropped && time - newest.arrived <= ON_ARRIVAL {
            newest.end -= 1;
            Train { next: newest.end, end: newest.end + 1, ..*newest }
        } else {
            let oldest = trains.front_mut()?;
            oldest.next += 1;
            Train { next: oldest.next - 1, end: oldest.next, ..*oldest }
        };
        // The kernel has freed the train, and may use its number again.
        if self.queued.get(&part.packet).is_some_and(|train| train.arrived == part.arrived) {
            self.queued.remove(&part.packet);
        }
        trains.retain(|train| train.next < train.end);
        if trains.is_empty() {
            self.trains.remove(&flow);
        }
        Some(part)
    }

    /// Sets the outcome of those wire packets of a train that have none yet.
    fn settle(&mut self, train: Train, time: u64, outcome: Fate, tos: u8) {
        for number in train.next.max(self.first)..train.end {
            let place = (number - self.first) as usize;
            let Some(Waiting::Packet(packet, state)) = self.waiting.get_mut(place) else {
                continue;
            };
            if *state == State::Open {
                *state = State::Final;
                packet.fate = outcome;
                packet.wait = Some(time - packet.time);
                packet.marked = outcome != Fate::Dropped && tos & 3 == 3 && packet.tos & 3 != 3;
            }
        }
    }

    /// Sets the outcome to unknown for those wire packets of a train that have none yet.
    fn give_up(&mut self, train: Train) {
        for number in train.next.max(self.first)..train.end {
            let place = (number - self.first) as usize;
            if let Some(Waiting::Packet(packet, state @ State::Open)) = self.waiting.get_mut(place)
            {
                *state = State::Final;
                packet.fate = Fate::Unknown;
            }
        }
    }

    /// Records that the kernel has lost this many events since the beginning.
    fn lost(&mut self, time: u64, events: u64, ready: &mut Vec<Entry>) {
        let time = self.time(time);
        let more = events.saturating_sub(self.lost);
        self.lost = events;
        self.other(Entry::Lost { time, events: more }, ready);
    }

    /// Records that the discipline was replaced.
    fn changed(&mut self, time: u64, ready: &mut Vec<Entry>) {
        let time = self.time(time);
        self.other(Entry::Changed(time), ready);
    }

    fn other(&mut self, entry: Entry, ready: &mut Vec<Entry>) {
        self.waiting.push_back(Waiting::Other(entry));
        self.hand_over(ready);
    }

    /// Time since the first event. It never decreases, although events of different kinds are
    /// reported only nearly in order.
    fn time(&mut self, time: u64) -> u64 {
        let begin = *self.begin.get_or_insert(time);
        self.last = self.last.max(time.saturating_sub(begin));
        self.last
    }

    /// Removes written packets from `queued` and `trains`. Most packets are removed when their
    /// outcome is known.
    fn prune(&mut self) {
        let first = self.first;
        self.queued.retain(|_, train| train.end > first);
        self.trains.retain(|_, trains| {
            trains.retain(|train| train.end > first);
            !trains.is_empty()
        });
    }

    /// Appends the entries up to the first packet without an outcome. If too many entries wait
    /// after this packet, its outcome becomes unknown.
    fn hand_over(&mut self, ready: &mut Vec<Entry>) {
        loop {
            let is_full = self.waiting.len() > MAX_WAITING;
            let entry = match self.waiting.front_mut() {
                Some(Waiting::Other(entry)) => *entry,
                Some(Waiting::Packet(packet, State::Final)) => Entry::Packet(*packet),
                Some(Waiting::Packet(packet, State::Open)) if is_full => {
                    packet.fate = Fate::Unknown;
                    Entry::Packet(*packet)
                }
                _ => return,
            };
            ready.push(entry);
            self.waiting.pop_front();
            self.first += 1;
        }
    }

    /// Appends the remaining entries and returns the end. A packet without an outcome counts as
    /// inside, unless the queue was empty after its arrival: then the kernel did not report its
    /// outcome.
    fn finish(&mut self, empty_at: Option<u64>, ready: &mut Vec<Entry>) -> End {
        let begin = self.begin.unwrap_or(0);
        let empty_at = empty_at.and_then(|time| time.checked_sub(begin));
        for waiting in self.waiting.drain(..) {
            ready.push(match waiting {
                Waiting::Packet(mut packet, state) => {
                    if state == State::Open && empty_at.is_some_and(|time| packet.time <= time) {
                        packet.fate = Fate::Unknown;
                    }
                    Entry::Packet(packet)
                }
                Waiting::Other(entry) => entry,
            });
        }
        End { time: self.last, strays: self.strays, ..End::default() }
    }
}

/// The lengths of the wire packets of an event, which add up to its bytes.
fn lengths(event: &PacketEvent, count: u32) -> impl Iterator<Item = u32> {
    let (bytes, most) = (event.bytes.max(count), weir_measure::packets::MAX_BYTES);
    let fits = u64::from(event.segment) * u64::from(count - 1) < u64::from(bytes);
    let each = if fits && event.segment > 0 { event.segment } else { bytes / count };
    let last = bytes - each * (count - 1);
    (1..=count).map(move |place| if place < count { each } else { last }.clamp(1, most))
}

/// Maximum number of wire packets of a train.
const MAX_TRAIN: u32 = u16::MAX as u32;
/// Maximum number of entries that wait for the outcome of the oldest packet.
const MAX_WAITING: usize = 1 << 18;
/// A drop within this time after the arrival of its flow's last train, in ns, belongs to that
/// train.
const ON_ARRIVAL: u64 = 100_000;

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
