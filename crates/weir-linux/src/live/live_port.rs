//! A port of the live loop, with its send queue, its readiness and its fault.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use weir_core::Nanos;
use weir_core::stats::DropReason;
use weir_wire::MAX_HEADER_LEN;

use super::item::Item;
use super::packets::Packets;
use super::wire::compose;
use crate::clock;
use crate::port::{AnyPort, BATCH, Fault, Ingress, Losses, Message, SendError};

#[derive(Debug)]
pub(super) struct LivePort {
    port: AnyPort,
    queue: VecDeque<Item>,
    /// Whether the kernel currently accepts no frame.
    blocked: bool,
    /// Whether frames may be waiting. The next turn then receives from the port without asking the
    /// kernel first.
    ready: bool,
    fault: Option<Fault>,
    /// The fault that was last reported.
    reported: Option<Fault>,
    /// Frames lost at the ports that this one has replaced.
    before: Losses,
    scratch: Box<[[u8; MAX_HEADER_LEN]; BATCH]>,
}

impl LivePort {
    /// A port that is ready at first: the first turn of the loop receives from it, and so finds a
    /// fault that already exists.
    pub(super) fn new(port: AnyPort) -> Self {
        let scratch = Box::new([[0; MAX_HEADER_LEN]; BATCH]);
        Self {
            port,
            queue: VecDeque::new(),
            blocked: false,
            ready: true,
            fault: None,
            reported: None,
            before: Losses::default(),
            scratch,
        }
    }

    /// Replaces the port by another one, which sends the queued frames.
    pub(super) fn replace(&mut self, port: AnyPort) {
        self.before = self.losses();
        self.port = port;
        (self.blocked, self.ready, self.fault, self.reported) = (false, true, None, None);
    }

    pub(super) fn name(&self) -> &str {
        self.port.name()
    }

    /// Reads the interface's changeable properties again.
    pub(super) fn refresh(&mut self) {
        self.port.refresh();
    }

    /// Frames lost before they were received, at this port and at the ports that it has replaced.
    pub(super) fn losses(&mut self) -> Losses {
        let Losses { kernel_drops, unreadable } = self.port.losses();
        Losses {
            kernel_drops: self.before.kernel_drops + kernel_drops,
            unreadable: self.before.unreadable + unreadable,
        }
    }

    /// The current fault, if it was not reported yet. A fault that ends and recurs is new again.
    pub(super) fn new_fault(&mut self) -> Option<Fault> {
        if self.fault.is_none() {
            self.reported = None;
        }
        let fault = self.fault.filter(|&fault| Some(fault) != self.reported)?;
        self.reported = Some(fault);
        Some(fault)
    }

    /// Whether the fault differs from the fault that was last reported.
    pub(super) fn fault_has_changed(&self) -> bool {
        self.fault != self.reported
    }

    /// Records a fault. Unless the fault is [`Fault::Down`], the port is not used any more.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// The port's descriptor, even if the port has failed.
    pub(super) fn own_descriptor(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    /// The descriptor to wait on; `None` when the port has failed permanently.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.works().then(|| self.port.as_fd())
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Records that the kernel has frames to read.
    pub(super) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Receives a batch of frames from a port that is ready, and appends them to `out`.
    ///
    /// The port stays ready until a batch is empty. Afterwards the loop asks the kernel before it
    /// receives from the port again.
    pub(super) fn receive(&mut self, packets: &mut Packets, out: &mut Vec<Ingress>) {
        if !std::mem::take(&mut self.ready) || !self.works() {
            return;
        }
        let before = out.len();
        match self.port.receive(packets.pool(), out) {
            Ok(more) => {
                let count = out.len() - before;
                // A received frame shows that the interface is up again.
                if count > 0 && self.fault == Some(Fault::Down) {
                    self.fault = None;
                }
                self.ready = more || count > 0;
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Whether the last attempt to send ended because the kernel accepted no more frames.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Appends an item to the queue, or to the last item if it continues the same train. A queue
    /// that already fills a batch is sent first. Drops the item if the port has failed, or if the
    /// port is blocked and its queue is full.
    pub(super) fn enqueue(&mut self, item: Item, packets: &mut Packets) {
        if !self.works() || (self.blocked && self.queue.len() >= QUEUE) {
            packets.unsent(item, DropReason::SendFailed, item.ready);
            return;
        }
        if let Some(last) = self.queue.back_mut()
            && last.is_continued_by(&item)
        {
            last.extend(&item);
            return;
        }
        if self.queue.len() >= BATCH && !self.blocked {
            self.flush(packets);
        }
        self.queue.push_back(item);
    }

    /// Sends queued items until the kernel accepts no more.
    pub(super) fn flush(&mut self, packets: &mut Packets) {
        if self.queue.is_empty() {
            return;
        }
        self.blocked = false;
        while !self.queue.is_empty() {
            let (sent, error) = self.send_batch(packets);
            let now = clock::now();
            for item in self.queue.drain(..sent) {
                packets.sent(item, now);
            }
            if sent > 0 && self.fault == Some(Fault::Down) {
                self.fault = None;
            }
            match error {
                None => {}
                Some(SendError::Busy) => {
                    let first_kept =
                        self.queue.iter().position(|item| now.since(item.ready) <= PATIENCE);
                    for item in self.queue.drain(..first_kept.unwrap_or(self.queue.len())) {
                        packets.unsent(item, DropReason::SendFailed, now);
                    }
                    self.blocked = !self.queue.is_empty();
                    return;
                }
                Some(SendError::Refused) => {
                    self.split_or_drop(packets, DropReason::BadFrame, now);
                }
                Some(SendError::TooLong) => self.split_or_drop(packets, DropReason::TooLong, now),
                Some(SendError::Fault(fault)) => {
                    self.fault = Some(fault);
                    for item in self.queue.drain(..) {
                        packets.unsent(item, DropReason::SendFailed, now);
                    }
                }
            }
        }
    }

    /// Whether the port works now, or will work once its interface is up.
    pub(super) fn works(&self) -> bool {
        self.fault.is_none_or(|fault| fault == Fault::Down)
    }

    /// Sends up to a batch from the head of the queue. Returns the number of accepted items, and
    /// the error that stopped the sending.
    fn send_batch(&mut self, packets: &Packets) -> (usize, Option<SendError>) {
        let Self { port, queue, scratch, .. } = self;
        let mut messages = [Message::default(); BATCH];
        let mut count = 0;
        let mut error = None;
        for (item, room) in queue.iter().zip(scratch.iter_mut()) {
            let frame = packets.frame(item.slot);
            let Some(message) = frame.and_then(|frame| compose(frame, item, room)) else {
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

    /// Handles a refusal of the frame at the head of the queue. A rejoined train is split into
    /// packets, which the next attempt sends separately. A single packet is dropped.
    fn split_or_drop(&mut self, packets: &mut Packets, reason: DropReason, now: Nanos) {
        let Some(item) = self.queue.pop_front() else { return };
        let train = packets.frame(item.slot).and_then(|frame| frame.train);
        match train {
            Some(train) if item.count > 1 => {
                for first in (item.first..item.first + item.count).rev() {
                    self.queue.push_front(Item {
                        first,
                        count: 1,
                        packets: 1,
                        bytes: train.segment_len(first),
                        ..item
                    });
                }
            }
            _ => packets.unsent(item, reason, now),
        }
    }
}

/// Maximum number of frames that wait while the kernel accepts none.
const QUEUE: usize = 4096;
/// How long the port retries to send a frame before it drops the frame.
const PATIENCE: Nanos = Nanos::from_millis(10);
