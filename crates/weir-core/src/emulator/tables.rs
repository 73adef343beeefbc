//! What the emulator keeps of each configured object, and the slab that holds the instances made from it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::config::{FlowsetConfig, LinkConfig, QueueLimit, default_limit};
use crate::dist::NormalTables;
use crate::key::FlowMask;
use crate::link::Impairments;
use crate::sched::Kind;
use crate::stats::LinkStats;

/// A scheduler with its link: what each instance is made from, and the counters of all instances together.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) id: u16,
    pub(super) kind: Kind,
    pub(super) mask: FlowMask,
    pub(super) link: LinkConfig,
    /// The flowset of a pipe.
    pub(super) flowset: Flowset,
    /// Instances by the hash of their masked key.
    pub(super) instances: HashTable<u32>,
    /// For correlated draws.
    pub(super) normal: Option<Arc<NormalTables>>,
    /// The only instance when nothing is masked.
    pub(super) single: Option<u32>,
    pub(super) stats: LinkStats,
    pub(super) queue_packets: u64,
    pub(super) queue_bytes: u64,
}

impl Template {
    pub(super) fn new(id: u16, kind: Kind, mask: FlowMask, link: LinkConfig) -> Self {
        let mut flowset = Flowset::new(&FlowsetConfig::default(), id);
        flowset.resolve_limit(&link);
        let normal = Impairments::is_correlated(&link).then(Arc::default);
        Self {
            id,
            kind,
            mask,
            link,
            flowset,
            instances: HashTable::new(),
            normal,
            single: None,
            stats: LinkStats::default(),
            queue_packets: 0,
            queue_bytes: 0,
        }
    }

    #[inline]
    pub(super) fn enqueued(&mut self, len: u32) {
        self.queue_packets += 1;
        self.queue_bytes += u64::from(len);
        let peak = &mut self.stats.counters.peak_queue_packets;
        *peak = (*peak).max(self.queue_packets);
    }

    /// Counts a packet that went straight to the link as if it had been in a queue.
    #[inline]
    pub(super) fn bypassed(&mut self) {
        let peak = &mut self.stats.counters.peak_queue_packets;
        *peak = (*peak).max(self.queue_packets + 1);
    }

    #[inline]
    pub(super) fn dequeued(&mut self, len: u32) {
        self.queue_packets -= 1;
        self.queue_bytes -= u64::from(len);
    }
}

/// A flowset: what each of its queues is made from.
#[derive(Debug)]
pub(super) struct Flowset {
    pub(super) config: FlowsetConfig,
    pub(super) scheduler: u16,
    pub(super) limit: QueueLimit,
    /// Queues by the hash of instance and masked key.
    pub(super) flows: HashTable<u32>,
}

impl Flowset {
    pub(super) fn new(config: &FlowsetConfig, scheduler: u16) -> Self {
        let limit = QueueLimit::Packets(crate::config::DEFAULT_QUEUE_PACKETS);
        Self { config: config.clone(), scheduler, limit, flows: HashTable::new() }
    }

    /// Takes over a configuration. Queues of the old mask or scheduler empty out and are no longer found.
    pub(super) fn configure(&mut self, config: &FlowsetConfig, scheduler: u16) {
        if config.mask != self.config.mask || scheduler != self.scheduler {
            self.flows.clear();
        }
        self.config = config.clone();
        self.scheduler = scheduler;
    }

    pub(super) fn resolve_limit(&mut self, link: &LinkConfig) {
        self.limit = self.config.limit.unwrap_or_else(|| default_limit(link));
    }
}

/// Objects addressed by small numbers that are used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, object: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(object);
            return id;
        }
        self.slots.push(Some(object));
        (self.slots.len() - 1) as u32
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let object = self.slots.get_mut(id as usize)?.take();
        if object.is_some() {
            self.free.push(id);
        }
        object
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(id as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// The object `id`, which the caller knows to be there.
    #[inline]
    pub(super) fn at_mut(&mut self, id: u32) -> &mut T {
        match self.get_mut(id) {
            Some(object) => object,
            None => unreachable!("an instance number outlived its instance"),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// One more than the largest number in use.
    pub(super) fn bound(&self) -> u32 {
        self.slots.len() as u32
    }
}
