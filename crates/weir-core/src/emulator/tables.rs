//! The configured objects: the templates from which instances are made.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::config::{FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig, default_limit};
use crate::dist::NormalTables;
use crate::key::FlowMask;
use crate::link::Impairments;
use crate::lookup::CompactMask;
use crate::sched::cake::needs_hosts;
use crate::sched::{Discipline, Kind};
use crate::stats::LinkStats;

/// A scheduler with its link: the template of its instances, and the sum of their counters.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) id: u16,
    pub(super) discipline: Discipline,
    /// The header bits that distinguish instances; [`Self::set_mask`] changes it.
    pub(super) mask: FlowMask,
    pub(super) short_mask: CompactMask,
    pub(super) max_instances: u32,
    /// The parent scheduler, which serves this scheduler as a flow. A template with a parent has no
    /// links.
    pub(super) parent: Option<u16>,
    /// Whether the template was last configured as a pipe.
    pub(super) pipe: bool,
    pub(super) link: LinkConfig,
    /// The flowset of packets that are sent to the pipe or scheduler directly.
    pub(super) flowset: Flowset,
    /// The numbers of the instances, by the hash of their masked key.
    pub(super) instances: HashTable<u32>,
    /// Tables for correlated draws; `None` as long as the link needed none.
    pub(super) normal: Option<Arc<NormalTables>>,
    /// The only instance, if the mask is empty.
    pub(super) single: Option<u32>,
    pub(super) stats: LinkStats,
    /// Packets that wait now in all instances.
    pub(super) queue_packets: u64,
    /// Network-layer bytes of the packets that wait now in all instances.
    pub(super) queue_bytes: u64,
    /// The most packets and the most bytes that waited at once since [`Self::restart_peak`].
    pub(super) peak: (u64, u64),
    /// Whether a queue or scheduler in front of the link classifies packets by their hash.
    pub(super) classifies: bool,
    /// Whether a scheduler in front of the link distinguishes hosts.
    pub(super) isolates: bool,
}

impl Template {
    pub(super) fn new(id: u16, config: &SchedulerConfig, link: LinkConfig) -> Self {
        let mut flowset = Flowset::new(&FlowsetConfig::default(), id);
        flowset.resolve_limit(&link, config.discipline.kind());
        let normal = Impairments::is_correlated(&link).then(Arc::default);
        Self {
            id,
            discipline: config.discipline,
            mask: config.mask,
            short_mask: CompactMask::new(&config.mask),
            max_instances: config.max_instances.unwrap_or(u32::MAX),
            parent: config.parent,
            pipe: false,
            link,
            flowset,
            instances: HashTable::new(),
            normal,
            single: None,
            stats: LinkStats::default(),
            queue_packets: 0,
            queue_bytes: 0,
            peak: (0, 0),
            classifies: config.discipline.row().traits.classifies,
            isolates: needs_hosts(&config.discipline),
        }
    }

    pub(super) fn set_mask(&mut self, mask: FlowMask) {
        (self.mask, self.short_mask) = (mask, CompactMask::new(&mask));
    }

    /// Counts a packet that enters a queue.
    #[inline]
    pub(super) fn enqueued(&mut self, len: u32) {
        self.queue_packets += 1;
        self.queue_bytes += u64::from(len);
        self.reached(self.queue_packets, self.queue_bytes);
    }

    /// Counts a packet that bypassed the queue as if it had passed the queue.
    #[inline]
    pub(super) fn bypassed(&mut self, len: u32) {
        self.reached(self.queue_packets + 1, self.queue_bytes + u64::from(len));
    }

    /// Records the peaks. The peak in the statistics is at least the peak since the last restart,
    /// so it is compared only when the peak since the last restart grows.
    #[inline]
    fn reached(&mut self, packets: u64, bytes: u64) {
        if packets > self.peak.0 {
            self.peak.0 = packets;
            let overall = &mut self.stats.counters.peak_queue_packets;
            *overall = (*overall).max(packets);
        }
        self.peak.1 = self.peak.1.max(bytes);
    }

    /// Begins a new period of [`Self::peak`] with the packets that wait now.
    pub(super) fn restart_peak(&mut self) {
        self.peak = (self.queue_packets, self.queue_bytes);
    }

    /// Counts a packet that leaves a queue.
    #[inline]
    pub(super) fn dequeued(&mut self, len: u32) {
        self.queue_packets -= 1;
        self.queue_bytes -= u64::from(len);
    }
}

/// A flowset: the template of its queues.
#[derive(Debug)]
pub(super) struct Flowset {
    pub(super) config: FlowsetConfig,
    /// The number of the scheduler to which the queues belong.
    pub(super) scheduler: u16,
    /// The queue's scheduler, the parent of that scheduler, and so on up to the scheduler with the
    /// link. Empty if there is no link.
    pub(super) chain: Vec<u16>,
    /// The bits of the key that distinguish the flows: those of the flowset's own mask, and those
    /// of the nested schedulers in the chain.
    pub(super) mask: FlowMask,
    /// The configured limit, or the default limit for the link and the scheduler.
    pub(super) limit: QueueLimit,
    /// The link's rate in bit/s, for AQMs.
    pub(super) rate: u64,
    /// The numbers of the flows, by the hash of instance and masked key.
    pub(super) flows: HashTable<u32>,
}

impl Flowset {
    pub(super) fn new(config: &FlowsetConfig, scheduler: u16) -> Self {
        let limit = QueueLimit::Packets(crate::config::DEFAULT_QUEUE_PACKETS);
        Self {
            config: config.clone(),
            scheduler,
            chain: Vec::from([scheduler]),
            mask: config.mask,
            limit,
            rate: 0,
            flows: HashTable::new(),
        }
    }

    /// Applies a configuration. Returns whether the existing flows no longer belong to the flowset,
    /// so that new packets must not find them.
    pub(super) fn configure(&mut self, config: &FlowsetConfig, scheduler: u16) -> bool {
        let regroup = config.mask != self.config.mask || scheduler != self.scheduler;
        if regroup {
            self.flows.clear();
            (self.chain, self.mask) = (Vec::from([scheduler]), config.mask);
        }
        self.config = config.clone();
        self.scheduler = scheduler;
        regroup
    }

    /// The number of the scheduler with the link.
    #[inline]
    pub(super) fn root(&self) -> Option<u16> {
        self.chain.last().copied()
    }

    /// Sets the rate and the limit. The limit is the configured one, or else the default for the
    /// link and the scheduler.
    pub(super) fn resolve_limit(&mut self, link: &LinkConfig, scheduler: Kind) {
        self.limit = self.config.limit.unwrap_or_else(|| default_limit(link, scheduler));
        self.rate = link.capacity.mean_bps();
    }
}

/// The object with number `id`, if it exists.
pub(super) fn slot<T>(objects: &mut [Option<T>], id: u16) -> Option<&mut T> {
    objects.get_mut(usize::from(id))?.as_mut()
}

pub(super) fn put<T>(objects: &mut Vec<Option<T>>, id: u16, object: T) {
    if objects.len() <= usize::from(id) {
        objects.resize_with(usize::from(id) + 1, || None);
    }
    objects[usize::from(id)] = Some(object);
}
