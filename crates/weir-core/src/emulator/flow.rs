//! Flows: one queue of a flowset in one scheduler instance, with its limit and its loss before the queue.

use alloc::boxed::Box;

use super::tables::Flowset;
use crate::config::QueueLimit;
use crate::key::{FlowKey, stable_hash};
use crate::link::LossProcess;
use crate::rng::{Purpose, Stream};
use crate::stats::DropReason;

/// One queue of a flowset in one scheduler instance.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    limit: QueueLimit,
    bytes: u64,
    packets: u32,
    pub(super) link: u32,
    /// The flow that was made before it on the same link, or [`NO_FLOW`].
    pub(super) sibling: u32,
    loss: Option<Box<LossProcess>>,
    pub(super) drops: u64,
    /// The queue (flowset) it was made from and the masked key it was made for; `None` for a pipe's own.
    pub(super) queue: Option<Box<(u16, FlowKey)>>,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

/// No flow.
pub(super) const NO_FLOW: u32 = u32::MAX;

impl Flow {
    pub(super) fn new(seed: u64, link: u32, queue: Option<(u16, FlowKey)>, flowset: &Flowset, path: u64) -> Self {
        let loss = LossProcess::configure(None, flowset.config.loss, || Stream::new(seed, path, Purpose::LossBeforeQueue));
        Self { limit: flowset.limit, bytes: 0, packets: 0, link, sibling: NO_FLOW, loss, drops: 0, queue: queue.map(Box::new) }
    }

    /// Whether a packet of `len` bytes may enter: loss before the queue, then the queue's limit. An empty queue takes any packet.
    #[inline]
    pub(super) fn admit(&mut self, len: u32) -> Result<(), DropReason> {
        if self.loss.as_mut().is_some_and(|l| l.next_is_lost()) {
            return Err(DropReason::LossBeforeQueue);
        }
        let full = match self.limit {
            QueueLimit::Packets(limit) => self.packets >= limit,
            QueueLimit::Bytes(limit) => self.packets > 0 && self.bytes + u64::from(len) > limit,
        };
        if full { Err(DropReason::QueueFull) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn enqueued(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    #[inline]
    pub(super) fn dequeued(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }

    pub(super) fn configure(&mut self, seed: u64, path: u64, flowset: &Flowset) {
        self.limit = flowset.limit;
        let stream = || Stream::new(seed, path, Purpose::LossBeforeQueue);
        self.loss = LossProcess::configure(self.loss.take(), flowset.config.loss, stream);
    }

    #[inline]
    pub(super) fn is_of(&self, link: u32, masked: &FlowKey) -> bool {
        self.link == link && self.queue.as_ref().is_some_and(|q| q.1 == *masked)
    }
}

/// The name of an instance's random streams: the same whenever and in whatever order instances are made.
pub(super) fn path(template: u16, key: &FlowKey) -> u64 {
    stable_hash(key) ^ u64::from(template).rotate_left(48)
}

/// The same for a flow of a queue in it.
pub(super) fn flow_path(template: u16, link: &FlowKey, queue: u16, masked: &FlowKey) -> u64 {
    path(template, link) ^ path(queue, masked).rotate_left(17)
}

pub(super) fn flow_hash(link: u32, masked: &FlowKey) -> u64 {
    stable_hash(masked) ^ u64::from(link).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
