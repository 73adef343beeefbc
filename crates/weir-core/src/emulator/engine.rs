//! The engine's state, and queries about a pipe as a whole.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::budget::StepBudget;
use super::context::Context;
use super::flow::Flow;
use super::link::Link;
use super::pending::PendingChanges;
use super::tables::{Flowset, Template, slot};
use super::traffic::{Departure, Limits, Rejected};
use crate::lookup::LookupKey;
use crate::packet::{PacketId, Pool};
use crate::sched::FlowSlot;
use crate::slab::Slab;
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;
use crate::wheel::EventQueue;

/// The engine.
#[derive(Debug)]
pub struct Emulator {
    pub(super) seed: u64,
    /// The key of the hashes that find flows and instances.
    pub(super) lookup: LookupKey,
    pub(super) limits: Limits,
    pub(super) pool: Pool,
    /// Pipes and schedulers, indexed by number.
    pub(super) templates: Vec<Option<Template>>,
    /// Queues, indexed by number.
    pub(super) queues: Vec<Option<Flowset>>,
    pub(super) links: Slab<Link>,
    pub(super) flows: Slab<Flow>,
    /// The time of the next event of each link.
    pub(super) events: EventQueue,
    /// Departures that calls other than [`Self::poll`] have found since the last poll.
    pub(super) ready: Vec<Departure>,
    /// Buffer for the packets of a train that enter a scheduler together.
    pub(super) batch: Vec<(FlowSlot, PacketId)>,
    /// Pending idle checks of links that a mask created, and of links of a previous mask or parent.
    /// A check also waits for those in front of it, which may have later times.
    pub(super) idle_links: VecDeque<IdleCheck>,
    /// Pending idle checks of flows that a mask created, and of retired flows, ordered by time.
    pub(super) idle_flows: VecDeque<IdleCheck>,
    /// Number of links and flows created so far, which is the serial number of the last one.
    pub(super) serial: u64,
    /// Packets that no pipe or queue accepted.
    pub(super) unrouted: u64,
    pub(super) steps: StepBudget,
    /// The changes that are being made; `None` between changes.
    pub(super) pending: Option<Box<PendingChanges>>,
}

/// A pending check whether a link or flow is idle and can be freed.
#[derive(Debug)]
pub(super) struct IdleCheck {
    pub(super) time: Nanos,
    pub(super) number: u32,
    /// Distinguishes the link or flow from later ones with the same number.
    pub(super) serial: u64,
    /// For a flow: the packets that it had received when the check was scheduled. If the number has
    /// not changed at the time of the check, the flow was idle.
    pub(super) seen: u64,
}

impl Emulator {
    /// An engine without pipes. `seed` determines all its random draws.
    pub fn new(seed: u64, limits: Limits) -> Self {
        Self {
            seed,
            lookup: LookupKey::default(),
            limits,
            pool: Pool::new(limits.packets),
            templates: Vec::new(),
            queues: Vec::new(),
            links: Slab::default(),
            flows: Slab::default(),
            events: EventQueue::default(),
            ready: Vec::new(),
            batch: Vec::new(),
            idle_links: VecDeque::new(),
            idle_flows: VecDeque::new(),
            serial: 0,
            unrouted: 0,
            steps: StepBudget::default(),
            pending: None,
        }
    }

    /// The engine with another key for look-ups. Live drivers use a secret key, so that senders of
    /// packets cannot choose flows that are expensive to find. Engines that divide instances among
    /// themselves need the same key.
    #[must_use]
    pub fn with_lookup_key(self, lookup: LookupKey) -> Self {
        debug_assert!(self.links.len() == 0, "instances are found by the key of their creation");
        Self { lookup, ..self }
    }

    /// Counters and latencies of pipe or scheduler `id`, summed over its instances.
    pub fn stats(&self, id: u16) -> Option<&LinkStats> {
        self.templates.get(usize::from(id))?.as_ref().map(|t| &t.stats)
    }

    /// Packets that wait in the queues of pipe or scheduler `id` now, and their network-layer
    /// bytes.
    pub fn queue_length(&self, id: u16) -> (u64, u64) {
        let template = self.templates.get(usize::from(id)).and_then(Option::as_ref);
        template.map_or((0, 0), |t| (t.queue_packets, t.queue_bytes))
    }

    /// The largest number of packets that waited at one time in the queues of pipe or scheduler
    /// `id` since [`Self::restart_peak`] or a reset, and the largest number of their network-layer
    /// bytes. A restart does not affect [`crate::stats::LinkCounters::peak_queue_packets`].
    pub fn queue_peak(&self, id: u16) -> (u64, u64) {
        let template = self.templates.get(usize::from(id)).and_then(Option::as_ref);
        template.map_or((0, 0), |t| t.peak)
    }

    /// Restarts [`Self::queue_peak`] with the packets that wait now.
    pub fn restart_peak(&mut self, id: u16) {
        if let Some(template) = slot(&mut self.templates, id) {
            template.restart_peak();
        }
    }

    /// Number of existing links: one for each pipe or scheduler in use, or one for each masked key
    /// if the pipe or scheduler has a mask.
    pub fn instances(&self) -> usize {
        self.links.len()
    }

    /// Packets submitted to a pipe or queue that does not exist or has no link.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }

    /// Steps of schedules that were skipped because the schedules of all links together were more
    /// than [`super::STEPS_PER_POLL`] steps behind. The links then took the values in force at the
    /// time of the call and skipped the values before them.
    pub fn skipped_steps(&self) -> u64 {
        self.steps.skipped()
    }

    /// Counts a packet that no pipe or queue accepts.
    #[cold]
    pub(super) fn count_unrouted(&mut self) -> Rejected {
        self.unrouted += 1;
        Rejected { reason: DropReason::NoSuchPipe }
    }

    /// A link, and the parts of the engine that the link uses.
    pub(super) fn at(&mut self, link: u32) -> Option<(&mut Link, Context<'_>)> {
        let Self { seed, lookup, links, flows, templates, pool, ready, steps, .. } = self;
        let link = links.get_mut(link)?;
        let template = templates.get_mut(usize::from(link.template))?.as_mut()?;
        Some((link, Context { seed: *seed, lookup, template, flows, pool, ready, steps }))
    }
}
