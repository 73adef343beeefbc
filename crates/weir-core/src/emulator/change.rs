//! Configuration changes while traffic runs: creating, changing, deleting and limiting objects, and
//! resetting counters.
//!
//! **Invariant:** a change loses no packets except those of a deleted object, and those for which a
//! new scheduler has no room. These packets depart with a drop reason.
//!
//! Order of the packets within a flow:
//! - New rates, delays, limits, weights, priorities, or another scheduling algorithm keep the
//!   order.
//! - A new mask of a queue keeps the order: packets that wait in the same scheduler leave first, in
//!   their old order, before those of the new flows.
//! - After a new mask of a pipe or scheduler, or a new scheduler for a queue, waiting packets keep
//!   their link and leave at its rate. Later packets use another link and may overtake them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::engine::{Emulator, IdleCheck};
use super::flow::spec;
use super::tables::{Flowset, Template, put, slot};
use super::totals::Freed;
use super::traffic::Limits;
use crate::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use crate::key::FlowMask;
use crate::link::Impairments;
use crate::sched::Kind;
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

impl Emulator {
    /// Creates or changes pipe `id`. Packets inside stay in order (for a new mask see
    /// [`Self::set_link`]).
    pub fn set_pipe(&mut self, now: Nanos, id: u16, config: &PipeConfig) {
        // Each instance has a single queue, because the mask has already separated the flows.
        let scheduler = SchedulerConfig {
            discipline: config.scheduler.unwrap_or_else(|| Kind::Fifo.into()),
            mask: config.queue.mask,
            max_instances: config.queue.max_flows,
            parent: None,
        };
        self.set_link(now, id, &scheduler, &config.link, &config.queue);
        if let Some(template) = slot(&mut self.templates, id) {
            template.pipe = true;
        }
    }

    /// Creates or changes scheduler `id` with its link. Packets inside stay (see
    /// [`Self::set_link`]). A packet that is sent to the scheduler directly, without a queue, uses
    /// a default queue.
    pub fn set_scheduler(
        &mut self,
        now: Nanos,
        id: u16,
        config: &SchedulerConfig,
        link: &LinkConfig,
    ) {
        self.set_link(now, id, config, link, &FlowsetConfig::default());
    }

    /// The general form of [`Self::set_pipe`] and [`Self::set_scheduler`]: creates or changes
    /// scheduler `id` with its link. `own` is the queue of each instance for packets that are sent
    /// directly to the scheduler, as to a pipe; the mask of `own` is ignored. Packets inside stay,
    /// and each flow keeps its order.
    ///
    /// If the algorithm changes, waiting packets move to the new one. If the mask changes, they
    /// keep their link until it is empty; later packets of the same flow use another link and may
    /// overtake them.
    pub fn set_link(
        &mut self,
        now: Nanos,
        id: u16,
        config: &SchedulerConfig,
        link: &LinkConfig,
        own: &FlowsetConfig,
    ) {
        self.with_pending(now, false, |emulator| emulator.change_link(now, id, config, link, own));
    }

    fn change_link(
        &mut self,
        now: Nanos,
        id: u16,
        config: &SchedulerConfig,
        link: &LinkConfig,
        own: &FlowsetConfig,
    ) {
        self.pending().links.insert(id);
        let mut keeps_nodes = false;
        if let Some(template) = slot(&mut self.templates, id) {
            // A scheduler with a parent has no link, but nodes in the trees of its parent. Another
            // algorithm, mask or parent needs new nodes.
            let is_rebuilt = config.parent.is_some()
                && (template.discipline != config.discipline || template.mask != config.mask);
            let had_parent = template.parent.is_some();
            keeps_nodes = !is_rebuilt && template.parent == config.parent;
            if is_rebuilt {
                self.pending().rebuilt.insert(id);
            }
            if had_parent && !keeps_nodes {
                self.forget_nodes(id);
            }
            self.change_scheduler(now, id, config, link);
        } else {
            put(&mut self.templates, id, Template::new(id, config, link.clone()));
        }
        let own = FlowsetConfig { mask: FlowMask::default(), ..own.clone() };
        if let Some(template) = slot(&mut self.templates, id) {
            template.flowset.configure(&own, id);
            template.flowset.resolve_limit(&template.link, template.discipline.kind());
        }
        if keeps_nodes {
            self.refresh_nodes(now, id);
        }
    }

    /// Creates or changes queue `id` in front of scheduler `scheduler`. Packets inside stay.
    ///
    /// If the mask changes, waiting packets leave before later ones, so the order within each flow
    /// is kept. If the scheduler changes, waiting packets stay in the old scheduler.
    pub fn set_queue(&mut self, now: Nanos, id: u16, scheduler: u16, config: &FlowsetConfig) {
        self.with_pending(now, false, |emulator| {
            emulator.pending().queues.insert(id);
            match slot(&mut emulator.queues, id) {
                None => put(&mut emulator.queues, id, Flowset::new(config, scheduler)),
                Some(queue) => {
                    if queue.configure(config, scheduler) {
                        emulator.retire_flows(now, id);
                    }
                }
            }
            emulator.find_chain(now, id, &BTreeSet::new());
        });
    }

    /// Deletes pipe or scheduler `id`. Packets inside are dropped with the reason
    /// [`DropReason::NoSuchPipe`]; those of a scheduler with a parent leave through the parent.
    ///
    /// Returns the final statistics, or `None` if the object does not exist.
    pub fn delete(&mut self, now: Nanos, id: u16) -> Option<LinkStats> {
        slot(&mut self.templates, id)?;
        self.with_pending(now, false, |emulator| {
            emulator.forget_nodes(id);
            for link in emulator.links_under(id) {
                if emulator.links.get(link).is_some_and(|l| l.template == id) {
                    if let Some((state, mut context)) = emulator.at(link) {
                        state.drain(now, &mut context);
                    }
                    emulator.free_link(link);
                }
            }
            emulator.pending().links.remove(&id);
            emulator.pending().deleted = true;
            emulator.templates[usize::from(id)].take().map(|template| template.stats)
        })
    }

    /// Deletes queue `id`. Packets that wait in its flows are dropped with the reason
    /// [`DropReason::NoSuchPipe`]; packets that have left the queue are not affected. Returns
    /// whether the queue existed.
    pub fn delete_queue(&mut self, now: Nanos, id: u16) -> bool {
        if slot(&mut self.queues, id).is_none() {
            return false;
        }
        self.with_pending(now, false, |emulator| {
            for number in emulator.flows_behind(id) {
                let flow = emulator.flows.get(number);
                let Some(flow) = flow.filter(|flow| flow.cold.queue == Some(id)) else { continue };
                let link = flow.link;
                emulator.drop_refused(now, link);
                let packets = emulator.free_flow(now, number);
                emulator.drop_refused(now, link);
                if let Some((_, mut context)) = emulator.at(link) {
                    context.drop_waiting(now, packets, DropReason::NoSuchPipe);
                }
                emulator.reschedule(link);
            }
            emulator.pending().queues.remove(&id);
            emulator.queues[usize::from(id)] = None;
        });
        true
    }

    /// Resets the counters and latencies of pipe or scheduler `id`, and of all flows that feed it.
    /// Packets inside stay, and are counted in [`crate::stats::LinkCounters::carried`]. Returns
    /// whether the object exists.
    pub fn zero(&mut self, id: u16) -> bool {
        let Some(template) = slot(&mut self.templates, id) else { return false };
        template.stats.zero(template.queue_packets);
        template.restart_peak();
        for number in 0..self.links.bound() {
            if let Some(link) = self.links.get_mut(number).filter(|l| l.template == id) {
                link.freed = Freed::default();
            }
        }
        let links = &self.links;
        self.flows.for_each(|flow| {
            if links.get(flow.link).is_some_and(|l| l.template == id) {
                flow.zero();
            }
        });
        true
    }

    /// Changes the limits of the engine. Packets, links and flows above the new limits stay until
    /// they leave or expire.
    pub fn set_limits(&mut self, now: Nanos, limits: Limits) {
        self.limits = limits;
        self.pool.set_capacity(limits.packets);
        let latest = now.saturating_add(limits.idle);
        for check in self.idle_links.iter_mut().chain(&mut self.idle_flows) {
            check.time = check.time.min(latest);
        }
    }

    /// The limits of the engine.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    fn change_scheduler(
        &mut self,
        now: Nanos,
        id: u16,
        config: &SchedulerConfig,
        link: &LinkConfig,
    ) {
        let Some(template) = slot(&mut self.templates, id) else { return };
        let regroup = template.mask != config.mask || template.parent != config.parent;
        let changes_discipline = template.discipline != config.discipline;
        (template.discipline, template.pipe) = (config.discipline, false);
        template.set_mask(config.mask);
        template.parent = config.parent;
        template.max_instances = config.max_instances.unwrap_or(u32::MAX);
        let old = core::mem::replace(&mut template.link, link.clone());
        if template.normal.is_none() && Impairments::is_correlated(link) {
            template.normal = Some(alloc::sync::Arc::default());
        }
        if regroup {
            template.instances.clear();
            template.single = None;
        }
        for number in self.links_under(id) {
            let Some(state) = self.links.get_mut(number).filter(|l| l.template == id) else {
                continue;
            };
            state.configure(now, self.seed, &mut self.pool, link, &old);
            if regroup {
                state.orphan = true;
                self.idle_links.push_front(IdleCheck {
                    time: now,
                    number,
                    serial: state.serial,
                    seen: 0,
                });
            }
            if changes_discipline && let Some((state, mut context)) = self.at(number) {
                state.change_discipline(now, &config.discipline, &mut context);
            }
            self.serve_device_of(now, number);
            self.reschedule(number);
        }
    }

    /// Retires the flows of a queue: new packets no longer find these flows, and the packets inside
    /// leave before later ones.
    fn retire_flows(&mut self, now: Nanos, queue: u16) {
        for number in self.flows_behind(queue) {
            let Some(flow) = self.flows.get_mut(number).filter(|f| f.cold.queue == Some(queue))
            else {
                continue;
            };
            flow.cold.orphan = true;
            let (link, serial, waits) = (flow.link, flow.cold.serial, flow.gate.packets() > 0);
            self.idle_flows.push_front(IdleCheck { time: now, number, serial, seen: 0 });
            if waits {
                self.links.at_mut(link).scheduler.settle(&mut self.pool);
                self.drop_refused(now, link);
                if let Some((state, mut context)) = self.at(link) {
                    state.serve_free_wire(now, &mut context);
                }
                self.reschedule(link);
            }
        }
    }

    pub(super) fn resolve_queue_limit(&mut self, id: u16) {
        let Some(queue) = self.queues.get_mut(usize::from(id)).and_then(Option::as_mut) else {
            return;
        };
        let template = |id: u16| self.templates.get(usize::from(id)).and_then(Option::as_ref);
        if let (Some(root), Some(own)) =
            (template(queue.root().unwrap_or(queue.scheduler)), template(queue.scheduler))
        {
            queue.resolve_limit(&root.link, own.discipline.kind());
        }
    }

    /// Finds the chain of schedulers from queue `number` to its link. If the chain changed, or
    /// contains a rebuilt scheduler, the flows of the queue retire, and later packets get new
    /// flows.
    pub(super) fn find_chain(&mut self, now: Nanos, number: u16, rebuilt: &BTreeSet<u16>) {
        let Some(queue) = self.queues.get(usize::from(number)).and_then(Option::as_ref) else {
            return;
        };
        let template = self.templates.get(usize::from(queue.scheduler)).and_then(Option::as_ref);
        if template.is_none_or(|t| t.parent.is_none()) && queue.chain == [queue.scheduler] {
            return;
        }
        let (chain, mask) = self.chain_of(queue);
        let stays = chain == queue.chain
            && mask == queue.mask
            && !chain.iter().any(|id| rebuilt.contains(id));
        let Some(queue) = slot(&mut self.queues, number).filter(|_| !stays) else { return };
        let old = core::mem::replace(&mut queue.chain, chain);
        queue.mask = mask;
        queue.flows.clear();
        // Only the old chain uses the nodes below the lowest scheduler that both chains share.
        let same = old
            .iter()
            .rev()
            .zip(queue.chain.iter().rev())
            .take_while(|(old, new)| old == new && !rebuilt.contains(old))
            .count();
        let (removed, root) = (old[..old.len() - same].to_vec(), old.last().copied());
        for link in root.map_or_else(Vec::new, |root| self.links_under(root)) {
            if let Some(tree) = self.links.get_mut(link).and_then(|link| link.scheduler.tree()) {
                removed.iter().for_each(|&id| tree.forget(id));
            }
        }
        self.retire_flows(now, number);
    }

    /// The chain from the queue's own scheduler to the scheduler with the link, and the key bits
    /// that distinguish the queue's flows along the chain.
    fn chain_of(&self, queue: &Flowset) -> (Vec<u16>, FlowMask) {
        let (mut chain, mut mask) = (Vec::new(), queue.config.mask);
        let mut id = queue.scheduler;
        while chain.len() < MAX_LEVELS {
            chain.push(id);
            match self.templates.get(usize::from(id)).and_then(Option::as_ref) {
                Some(Template { parent: Some(parent), mask: own, .. }) => {
                    mask = mask.union(own);
                    id = *parent;
                }
                // There is no link, because a parent is not configured.
                None if chain.len() > 1 => return (Vec::new(), queue.config.mask),
                // The scheduler with the link, or a scheduler that may be configured later than its
                // queue.
                _ => return (chain, mask),
            }
        }
        // There are too many levels, or a scheduler is its own ancestor.
        (Vec::new(), queue.config.mask)
    }

    fn drop_refused(&mut self, now: Nanos, link: u32) {
        if let Some((state, mut context)) = self.at(link) {
            state.drop_refused(now, &mut context);
        }
    }

    /// The scheduler with the link to which scheduler `id` belongs.
    fn root_of(&self, id: u16) -> u16 {
        let above = |&id: &u16| self.templates.get(usize::from(id))?.as_ref()?.parent;
        core::iter::successors(Some(id), above).take(MAX_LEVELS).last().unwrap_or(id)
    }

    /// Removes the names of the nodes of scheduler `id`, so that later packets get new nodes.
    fn forget_nodes(&mut self, id: u16) {
        for link in self.links_under(self.root_of(id)) {
            if let Some(tree) = self.links.get_mut(link).and_then(|link| link.scheduler.tree()) {
                tree.forget(id);
            }
        }
    }

    /// Applies the flow settings of scheduler `id` to its nodes, if it has a parent.
    fn refresh_nodes(&mut self, now: Nanos, id: u16) {
        let template = |id: u16| self.templates.get(usize::from(id)).and_then(Option::as_ref);
        let Some(own) = template(id).filter(|own| own.parent.is_some()) else { return };
        let spec = spec(0, &own.flowset.config);
        for number in self.links_under(self.root_of(id)) {
            let Some(tree) = self.links.get_mut(number).and_then(|link| link.scheduler.tree())
            else {
                continue;
            };
            tree.change_nodes(now, &mut self.pool, id, &spec);
            self.reschedule(number);
        }
    }
}

/// Maximum number of schedulers between a queue and its link.
pub(super) const MAX_LEVELS: usize = 8;
