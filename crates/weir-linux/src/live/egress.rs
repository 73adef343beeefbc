//! From a departure to the kernel: mark, corrupt, rejoin a train's segments, send, and account for
//! it.

use std::collections::VecDeque;

use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Departure, Emulator, Fate, Nanos};
use weir_wire::{ChecksumMode, MAX_HEADER_LEN, VnetHeader, invert_bit, set_ce};

use super::exchange::Exchange;
use super::ingress::ETHERNET_HEADER;
use super::lane::Lane;
use super::observe::{DepartureEvent, Observer, Outcome};
use super::rules::Rules;
use crate::arena::{Arena, Frame, handle, unpack};
use crate::clock;
use crate::port::{AnyPort, BATCH, Fault, Losses, Message, SendError};

/// The engine with everything that is not a port.
pub(super) struct Engine {
    pub(super) emulator: Emulator,
    pub(super) arena: Arena,
    pub(super) lanes: Vec<Lane>,
    pub(super) observer: Option<Box<dyn Observer>>,
    /// Decide each packet's way in place of its lane's pipe.
    pub(super) rules: Option<Rules>,
    /// The ways to the other workers, when there are any.
    pub(super) exchange: Option<Exchange>,
    /// Packets that are to be sent and did not come out of the engine just now.
    pub(super) way_out: Vec<Item>,
    /// Packets of a train that the engine did not take, and why; kept for its memory.
    pub(super) refused: Vec<(u32, DropReason)>,
    /// The observer wants frames.
    pub(super) watching: bool,
    /// A mask or a rule reads flow keys.
    pub(super) needs_key: bool,
    /// Where frames are put together for the observer.
    pub(super) sketch: Vec<u8>,
}

/// A port with what waits to be sent on it.
pub(super) struct Outlet {
    pub(super) port: AnyPort,
    queue: VecDeque<Item>,
    /// The kernel takes nothing now.
    pub(super) blocked: bool,
    /// What ails the port, if anything.
    pub(super) fault: Option<Fault>,
    /// What of that was told last.
    pub(super) noted: Option<Fault>,
    /// What was lost at ports that this one has replaced.
    before: Losses,
    scratch: Box<[[u8; MAX_HEADER_LEN]; BATCH]>,
}

/// Packets to send as one frame: one packet, or consecutive segments of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) slot: u32,
    pub(super) first: u16,
    pub(super) count: u16,
    pub(super) lane: u16,
    /// Wire packets, and their network-layer bytes.
    pub(super) packets: u16,
    pub(super) bytes: u32,
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    pub(super) dequeued: Nanos,
    /// When it was handed to the port.
    pub(super) ready: Nanos,
    /// Why it is marked with congestion experienced, if it is.
    pub(super) mark: Option<MarkReason>,
    /// The bit that was inverted.
    pub(super) corrupted: Option<u32>,
    pub(super) duplicate: bool,
}

/// A packet's end other than delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) reason: DropReason,
    pub(super) at: Nanos,
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    pub(super) dequeued: Nanos,
}

impl Engine {
    /// Hands departures to their ports, or on to further rules; says whether some of them went into
    /// the engine again. A port whose queue fills a batch sends it at once.
    pub(super) fn dispatch(
        &mut self,
        now: Nanos,
        departures: &mut Vec<Departure>,
        outlets: &mut [Outlet],
    ) -> bool {
        // A copy departs together with its original, in either order: what it needs must be there
        // before the first goes.
        departures.retain_mut(|departure| self.admit_copy(departure));
        let mut again = false;
        for departure in &*departures {
            let Departure { arrived, dequeued, due, .. } = *departure;
            let (slot, segment) = unpack(departure.frame);
            match departure.fate {
                Fate::Drop(reason) => {
                    self.lost(slot, segment, Lost { reason, at: now, due, arrived, dequeued })
                }
                Fate::Deliver { mark, corrupt, .. }
                    if self.rules.is_some() && self.goes_on(departure) =>
                {
                    again = true;
                    self.go_on(now, departure, mark, corrupt);
                    self.send_way_out(outlets);
                }
                Fate::Deliver { mark, corrupt, duplicate } => {
                    let Some(item) = self.prepare(now, departure, mark, corrupt, duplicate) else {
                        continue;
                    };
                    let outlet = &mut outlets[self.lanes[usize::from(item.lane)].config.to];
                    self.enqueue(item, outlet);
                }
            }
        }
        departures.clear();
        again
    }

    /// Gives an additional copy a reference of its own, or a frame where it goes on by itself;
    /// `false` when there is no memory for that, and so no copy. Nothing is to be done for any
    /// other departure.
    #[inline]
    fn admit_copy(&mut self, departure: &mut Departure) -> bool {
        let Fate::Deliver { duplicate: true, .. } = departure.fate else { return true };
        if self.rules.is_none() || !self.goes_on(departure) {
            self.arena.retain(unpack(departure.frame).0, 1);
            return true;
        }
        let copy = self.part_from_original(departure);
        departure.frame = copy.map_or(departure.frame, |slot| handle(slot, 0));
        copy.is_some()
    }

    /// Hands what is to be sent to its ports.
    pub(super) fn send_way_out(&mut self, outlets: &mut [Outlet]) {
        let mut items = std::mem::take(&mut self.way_out);
        for item in items.drain(..) {
            let outlet = &mut outlets[self.lanes[usize::from(item.lane)].config.to];
            self.enqueue(item, outlet);
        }
        self.way_out = items;
    }

    /// Makes a departure ready to be sent; `None` when it was lost for want of memory.
    fn prepare(
        &mut self,
        now: Nanos,
        departure: &Departure,
        mark: Option<MarkReason>,
        corrupt: Option<u32>,
        duplicate: bool,
    ) -> Option<Item> {
        let (mut slot, mut first) = unpack(departure.frame);
        let Some(frame) = self.arena.get(slot) else {
            debug_assert!(false, "a departure names a frame that is gone");
            return None;
        };
        let (lane, packets) = (frame.lane, frame.weight);
        // A train kept whole is one frame to the kernel, and as many bytes as its packets are on
        // the wire.
        let bytes = frame.packet_bytes(first);
        let own = if frame.train.is_some() { bytes } else { network_bytes(frame) };
        let Departure { arrived, dequeued, due, .. } = *departure;
        let books = &mut self.lanes[usize::from(lane)];
        books.released(dequeued.since(arrived), due.since(arrived), 1);
        if duplicate {
            books.duplicated(packets, bytes);
        }
        let single = self.arena.get(slot).is_some_and(|f| f.train.is_none());
        if corrupt.is_some() || (mark.is_some() && single) {
            let Some(changed) = self.change(slot, first, mark.is_some(), corrupt) else {
                self.lost(
                    slot,
                    first,
                    Lost { reason: DropReason::NoMemory, at: now, due, arrived, dequeued },
                );
                return None;
            };
            (slot, first) = (changed, if changed == slot { first } else { 0 });
        }
        let corrupted = corrupt.map(|bit| bit % (own * 8).max(1));
        Some(Item {
            slot,
            first,
            count: 1,
            lane,
            packets,
            bytes,
            due,
            arrived,
            dequeued,
            ready: now,
            mark,
            corrupted,
            duplicate,
        })
    }

    /// Marks or corrupts a packet: in place when it is nobody else's, else in a copy that takes
    /// over the reference. Gives the slot of the changed packet.
    pub(super) fn change(
        &mut self,
        slot: u32,
        segment: u16,
        mark: bool,
        corrupt: Option<u32>,
    ) -> Option<u32> {
        let own = self.arena.get_exclusive(slot).is_some_and(|frame| frame.train.is_none());
        let slot = if own { slot } else { self.move_out(slot, segment)? };
        alter(self.arena.get_mut(slot)?, mark, corrupt);
        Some(slot)
    }

    /// Moves a packet into a frame of its own, which takes over its reference; gives its slot.
    pub(super) fn move_out(&mut self, slot: u32, segment: u16) -> Option<u32> {
        let copy = self.copy_out(slot, segment)?;
        self.arena.release(slot, 1);
        Some(copy)
    }

    /// Copies a packet into a frame of its own; gives its slot.
    pub(super) fn copy_out(&mut self, slot: u32, segment: u16) -> Option<u32> {
        let frame = self.arena.get(slot)?;
        let (vnet, train_header) = (frame.vnet, frame.parsed);
        let wire_len =
            frame.train.as_ref().map_or(frame.wire_len, |train| train.segment_len(segment));
        let (lane, weight, split) = (frame.lane, frame.weight, frame.train.is_some());
        let mut bytes = std::mem::take(&mut self.sketch);
        if split {
            materialise(frame, segment, ChecksumMode::Complete, &mut bytes)?;
        } else {
            bytes.clear();
            bytes.extend_from_slice(frame.bytes());
        }
        let mut buffer = self.arena.pool.take(bytes.len());
        let len = bytes.len();
        buffer.bytes_mut()[..len].copy_from_slice(&bytes);
        self.sketch = bytes;
        let parsed =
            if split { weir_wire::parse(&buffer.bytes()[..len]).ok() } else { train_header };
        let vnet = if split { VnetHeader::default() } else { vnet };
        let copy = Frame {
            buffer,
            start: 0,
            len,
            vnet,
            parsed,
            train: None,
            lane,
            weight,
            wire_len,
            journeys: Vec::new(),
        };
        self.arena.store(copy, 1).ok()
    }

    /// Appends to a port's queue, to the last item where it continues the same train.
    fn enqueue(&mut self, item: Item, outlet: &mut Outlet) {
        if outlet.fault.is_some_and(|fault| fault != Fault::Down)
            || (outlet.blocked && outlet.queue.len() >= QUEUE)
        {
            self.unsent(item, DropReason::SendFailed, item.ready);
            return;
        }
        if let Some(last) = outlet.queue.back_mut()
            && last.slot == item.slot
            && last.first + last.count == item.first
            && last.mark == item.mark
            && !item.duplicate
            && !last.duplicate
        {
            last.count += item.count;
            last.packets += item.packets;
            last.bytes += item.bytes;
            return;
        }
        if outlet.queue.len() >= BATCH && !outlet.blocked {
            self.flush(outlet);
        }
        outlet.queue.push_back(item);
    }

    /// Sends what waits on a port, as far as the kernel takes it.
    pub(super) fn flush(&mut self, outlet: &mut Outlet) {
        outlet.blocked = false;
        while !outlet.queue.is_empty() {
            let (sent, error) = send_batch(outlet, &self.arena);
            let now = clock::now();
            for item in outlet.queue.drain(..sent) {
                self.sent(item, now);
            }
            if sent > 0 && outlet.fault == Some(Fault::Down) {
                outlet.fault = None;
            }
            match error {
                None => {}
                Some(SendError::Busy) => {
                    outlet.blocked = true;
                    let patient =
                        outlet.queue.iter().position(|item| now.since(item.ready) <= PATIENCE);
                    for item in outlet.queue.drain(..patient.unwrap_or(outlet.queue.len())) {
                        self.unsent(item, DropReason::SendFailed, now);
                    }
                    return;
                }
                Some(SendError::Refused) => self.refused(outlet, now),
                Some(SendError::Fault(fault)) => {
                    outlet.fault = Some(fault);
                    while let Some(item) = outlet.queue.pop_front() {
                        self.unsent(item, DropReason::SendFailed, now);
                    }
                }
            }
        }
    }

    /// The kernel refuses the first frame of the queue: a rejoined train is tried packet by packet,
    /// one packet is dropped.
    fn refused(&mut self, outlet: &mut Outlet, now: Nanos) {
        let Some(item) = outlet.queue.pop_front() else { return };
        let train = self.arena.get(item.slot).and_then(|frame| frame.train);
        match train {
            Some(train) if item.count > 1 => {
                for first in (item.first..item.first + item.count).rev() {
                    outlet.queue.push_front(Item {
                        first,
                        count: 1,
                        packets: 1,
                        bytes: train.segment_len(first),
                        ..item
                    });
                }
            }
            _ => self.unsent(item, DropReason::BadFrame, now),
        }
    }

    /// Books an item that the kernel took.
    fn sent(&mut self, item: Item, now: Nanos) {
        let books = &mut self.lanes[usize::from(item.lane)];
        books.sent(item.due, now, item.packets, item.bytes);
        if item.corrupted.is_some() {
            books.counters.corrupted += u64::from(item.packets);
        }
        if let Some(reason) = item.mark {
            (0..item.packets).for_each(|_| books.counters.count_mark(reason));
        }
        if self.watching {
            let outcome = Outcome::Delivered {
                marked: item.mark.is_some(),
                corrupted: item.corrupted,
                duplicate: item.duplicate,
            };
            self.tell(&item, now, outcome);
        }
        self.arena.release(item.slot, u32::from(item.count));
    }

    /// Books an item that was not sent.
    fn unsent(&mut self, item: Item, reason: DropReason, now: Nanos) {
        self.lanes[usize::from(item.lane)].dropped(reason, item.packets, item.bytes);
        if self.watching {
            self.tell(&item, now, Outcome::Dropped(reason));
        }
        self.arena.release(item.slot, u32::from(item.count));
    }

    /// Books a packet that never got as far as a port.
    pub(super) fn lost(&mut self, slot: u32, segment: u16, lost: Lost) {
        let Some(frame) = self.arena.get(slot) else {
            debug_assert!(false, "a loss names a frame that is gone");
            return;
        };
        let Lost { reason, at, due, arrived, dequeued } = lost;
        let (lane, packets, bytes) = (frame.lane, frame.weight, frame.packet_bytes(segment));
        let item = Item {
            slot,
            first: segment,
            count: 1,
            lane,
            packets,
            bytes,
            due,
            arrived,
            dequeued,
            ready: at,
            mark: None,
            corrupted: None,
            duplicate: false,
        };
        self.unsent(item, reason, at);
    }

    /// Tells the observer of each packet of an item.
    fn tell(&mut self, item: &Item, at: Nanos, outcome: Outcome) {
        let (Some(observer), Some(frame)) = (&mut self.observer, self.arena.get(item.slot)) else {
            return;
        };
        for segment in item.first..item.first + item.count {
            if materialise(frame, segment, ChecksumMode::Complete, &mut self.sketch).is_none() {
                continue;
            }
            if item.mark.is_some()
                && frame.train.is_some()
                && let Some(parsed) = &frame.parsed
            {
                set_ce(&mut self.sketch, parsed);
            }
            let Item { lane, due, arrived, dequeued, .. } = *item;
            observer.on_departure(&DepartureEvent {
                lane,
                at,
                due,
                arrived,
                dequeued,
                outcome,
                frame: &self.sketch,
            });
        }
    }
}

impl Outlet {
    pub(super) fn new(port: AnyPort) -> Self {
        let scratch = Box::new([[0; MAX_HEADER_LEN]; BATCH]);
        Self {
            port,
            queue: VecDeque::new(),
            blocked: false,
            fault: None,
            noted: None,
            before: Losses::default(),
            scratch,
        }
    }

    /// Takes another port, which sends what waits.
    pub(super) fn replace(&mut self, port: AnyPort) {
        self.before = self.losses();
        self.port = port;
        (self.blocked, self.fault, self.noted) = (false, None, None);
    }

    /// What was lost on the way in, at this port and those before it.
    pub(super) fn losses(&mut self) -> Losses {
        let Losses { kernel_drops, unreadable } = self.port.losses();
        Losses {
            kernel_drops: self.before.kernel_drops + kernel_drops,
            unreadable: self.before.unreadable + unreadable,
        }
    }

    /// Whether something waits to be sent.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// Sends up to a batch from the head of a port's queue; gives how many items were taken, and why it
/// stopped.
fn send_batch(outlet: &mut Outlet, arena: &Arena) -> (usize, Option<SendError>) {
    let Outlet { port, queue, scratch, .. } = outlet;
    let mut messages = [Message::default(); BATCH];
    let mut count = 0;
    let mut error = None;
    for (item, room) in queue.iter().zip(scratch.iter_mut()) {
        let Some(message) = arena.get(item.slot).and_then(|frame| compose(frame, item, room))
        else {
            error = Some(SendError::Refused);
            break;
        };
        messages[count] = message;
        count += 1;
    }
    if count == 0 {
        return (0, error);
    }
    let (sent, failed) = port.send(&messages[..count]);
    (sent, failed.or(error.filter(|_| sent == count)))
}

/// The pieces of an item: the frame as it is, or new headers and a piece of the train's payload.
fn compose<'a>(
    frame: &'a Frame,
    item: &Item,
    room: &'a mut [u8; MAX_HEADER_LEN],
) -> Option<Message<'a>> {
    let whole = |train: &weir_wire::Train| item.count == train.segments() && item.mark.is_none();
    match &frame.train {
        Some(train) if !whole(train) => {
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

/// Puts one wire packet together as it would be on the wire; a train kept whole stays one frame.
/// The checksum is complete, or left as the sender's stack left it, for who does not look at it.
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
        // Of a train kept whole the checksum stays partial; of anything else it is completed, if
        // its place makes sense.
        let _ = vnet.complete(out);
        return Some(());
    };
    let mut headers = [0; MAX_HEADER_LEN];
    let run = train.headers(segment..segment + 1, frame.bytes(), mode, &mut headers).ok()?;
    out.extend_from_slice(&headers[..run.header_len]);
    out.extend_from_slice(frame.bytes().get(run.payload)?);
    Some(())
}

/// Marks a packet and inverts a bit of it. The checksum is completed first: inverted bits must be
/// seen by the receiver.
fn alter(frame: &mut Frame, mark: bool, corrupt: Option<u32>) {
    let mut vnet = frame.vnet;
    let parsed = frame.parsed;
    let bytes = frame.bytes_mut();
    if let (true, Some(parsed)) = (mark, &parsed) {
        set_ce(bytes, parsed);
    }
    if let Some(bit) = corrupt {
        // A train kept whole cannot be completed; the kernel then completes the checksum over the
        // inverted bit as well.
        let _ = vnet.complete(bytes);
        // What the receiving stack must not take as verified.
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
fn network_bytes(frame: &Frame) -> u32 {
    frame.parsed.map_or((frame.len - ETHERNET_HEADER) as u32, |parsed| parsed.network_len)
}

/// Most frames that wait for a port which takes none now.
const QUEUE: usize = 4096;
/// How long a frame is tried again.
const PATIENCE: Nanos = Nanos::from_millis(10);
