//! Instances: which link and flow a packet goes to, how they are made, changed and freed, and the run of events over them.

use alloc::vec::Vec;

use super::flow::{Flow, NO_FLOW, flow_hash, flow_path, path};
use super::link::{Link, Surroundings};
use super::tables::Template;
use super::{Action, Departure, Emulator, Rejected};
use crate::config::{LinkConfig, SchedulerConfig};
use crate::key::{FlowKey, stable_hash};
use crate::link::Impairments;
use crate::stats::DropReason;
use crate::units::Nanos;

impl Emulator {
    /// A link and what it works with.
    pub(super) fn at(&mut self, link: u32) -> Option<(&mut Link, Surroundings<'_>)> {
        let Self { seed, links, flows, templates, pool, ready, .. } = self;
        let link = links.get_mut(link)?;
        let template = templates.get_mut(usize::from(link.template))?.as_mut()?;
        Some((link, Surroundings { seed: *seed, template, flows, pool, ready }))
    }

    /// Handles every event until `now`, in order; departures wait for the next poll.
    pub(super) fn run(&mut self, now: Nanos) {
        let mut ready = core::mem::take(&mut self.ready);
        self.run_into(now, &mut ready);
        self.ready = ready;
    }

    /// Handles every event until `now`, in order, and appends what departs.
    #[inline]
    pub(super) fn run_into(&mut self, now: Nanos, ready: &mut Vec<Departure>) {
        let Self { seed, links, flows, templates, pool, events, .. } = self;
        while let Some((time, number)) = events.first() {
            if time > now {
                break;
            }
            // Stay on this link while no other has an event before its next: most of the time one step of the queue for several
            // events. At equal times the queue decides, so that the order of links holds.
            let others = events.others_from();
            let link = links.at_mut(number);
            let Some(template) = templates.get_mut(usize::from(link.template)).and_then(Option::as_mut) else { break };
            let mut around = Surroundings { seed: *seed, template, flows, pool, ready };
            let mut at = time;
            let next = loop {
                link.step(at, &mut around);
                let next = link.next_event();
                if next > now || next >= others {
                    break next;
                }
                at = next;
            };
            link.announced = next;
            events.set(number, next);
        }
        if self.idle_check.front().is_some_and(|&(time, _)| time <= now) {
            self.expire(now);
        }
    }

    /// Puts the link's next event in its place.
    pub(super) fn reschedule(&mut self, number: u32) {
        let link = self.links.at_mut(number);
        let next = link.next_event();
        if next != link.announced {
            link.announced = next;
            self.events.set(number, next);
        }
    }

    /// A number that all packets of one instance have in common, the same in every engine with the same configuration, so that
    /// several can share the instances. `None` when nothing is configured by that number.
    #[inline]
    pub fn instance_hash(&self, key: &FlowKey, action: Action) -> Option<u64> {
        let id = match action {
            Action::Pipe(id) => id,
            Action::Queue(id) => self.queues.get(usize::from(id))?.as_ref()?.scheduler,
        };
        let template = self.templates.get(usize::from(id))?.as_ref()?;
        let masked = if template.single.is_some() || template.mask.is_empty() { FlowKey::default() } else { template.mask.apply(key) };
        Some(path(id, &masked))
    }

    /// The link and the flow for a packet; made when they are not there. `None` when nothing is configured by that number.
    #[inline]
    pub(super) fn locate(&mut self, now: Nanos, key: &FlowKey, action: Action, len: u32) -> Result<Option<(u32, u32)>, Rejected> {
        let (template_id, queue) = match action {
            Action::Pipe(id) => (id, None),
            Action::Queue(id) => match super::slot(&mut self.queues, id) {
                Some(queue) => (queue.scheduler, Some(id)),
                None => return Ok(None),
            },
        };
        let Some(template) = super::slot(&mut self.templates, template_id) else { return Ok(None) };
        let found = match template.single {
            Some(single) => Some(single),
            None if template.instances.is_empty() => None,
            None => {
                let masked = template.mask.apply(key);
                let links = &self.links;
                let is_it = |&link: &u32| links.get(link).is_some_and(|l| l.key == masked);
                template.instances.find(stable_hash(&masked), is_it).copied()
            }
        };
        let link = match found {
            Some(link) => link,
            None => self.make_link(now, template_id, key, len)?,
        };
        let flow = match queue {
            None => Some(self.links.at_mut(link).flow).filter(|&flow| flow != NO_FLOW),
            Some(id) => super::slot(&mut self.queues, id).and_then(|queue| {
                let masked = queue.config.mask.apply(key);
                let flows = &self.flows;
                let is_it = |&flow: &u32| flows.get(flow).is_some_and(|f| f.is_of(link, &masked));
                queue.flows.find(flow_hash(link, &masked), is_it).copied()
            }),
        };
        match flow {
            Some(flow) => Ok(Some((link, flow))),
            None => self.make_flow(link, template_id, queue, key, len).map(|flow| flow.map(|flow| (link, flow))),
        }
    }

    // Rare beside packets: kept out of their way, so that it does not cost them registers.
    #[cold]
    #[inline(never)]
    fn make_link(&mut self, now: Nanos, template_id: u16, key: &FlowKey, len: u32) -> Result<u32, Rejected> {
        let full = self.links.len() >= self.limits.instances as usize;
        let Some(template) = super::slot(&mut self.templates, template_id) else {
            return Err(Rejected { reason: DropReason::NoSuchPipe });
        };
        if full && !template.mask.is_empty() {
            return Err(refuse(template, DropReason::TooManyFlows, len));
        }
        let masked = template.mask.apply(key);
        let link = self.links.insert(Link::new(self.seed, now, template, masked));
        if template.mask.is_empty() {
            template.single = Some(link);
        } else {
            let links = &self.links;
            let hash_of = |&link: &u32| links.get(link).map_or(0, |l| stable_hash(&l.key));
            template.instances.insert_unique(stable_hash(&masked), link, hash_of);
            self.idle_check.push_back((now.saturating_add(self.limits.idle), link));
        }
        Ok(link)
    }

    #[cold]
    #[inline(never)]
    fn make_flow(&mut self, link: u32, template_id: u16, queue: Option<u16>, key: &FlowKey, len: u32) -> Result<Option<u32>, Rejected> {
        let full = self.flows.len() >= self.limits.instances as usize * 2;
        let Some(template) = super::slot(&mut self.templates, template_id) else { return Ok(None) };
        let state = self.links.at_mut(link);
        let Some(id) = queue else {
            let path = path(template_id, &state.key);
            let flow = self.flows.insert(Flow::new(self.seed, link, None, &template.flowset, path));
            state.flow = flow;
            self.flows.at_mut(flow).sibling = core::mem::replace(&mut state.flows, flow);
            return Ok(Some(flow));
        };
        let Some(flowset) = super::slot(&mut self.queues, id) else { return Ok(None) };
        if full && !flowset.config.mask.is_empty() {
            return Err(refuse(template, DropReason::TooManyFlows, len));
        }
        let masked = flowset.config.mask.apply(key);
        let path = flow_path(template_id, &state.key, id, &masked);
        let flow = self.flows.insert(Flow::new(self.seed, link, Some((id, masked)), flowset, path));
        let flows = &self.flows;
        let hash_of = |&flow: &u32| flows.get(flow).map_or(0, |f| f.queue.as_ref().map_or(0, |q| flow_hash(f.link, &q.1)));
        flowset.flows.insert_unique(flow_hash(link, &masked), flow, hash_of);
        self.flows.at_mut(flow).sibling = core::mem::replace(&mut state.flows, flow);
        Ok(Some(flow))
    }

    /// Frees links made on demand that have been idle.
    #[cold]
    #[inline(never)]
    fn expire(&mut self, now: Nanos) {
        while let Some(&(time, link)) = self.idle_check.front() {
            if time > now {
                return;
            }
            self.idle_check.pop_front();
            let Some(state) = self.links.get(link) else { continue };
            let idle_at = state.last_used.saturating_add(self.limits.idle);
            if state.is_empty() && (idle_at <= now || state.orphan) {
                self.free_link(link);
            } else {
                // Also a link whose number was used again comes by here: it is only looked at once more.
                self.idle_check.push_back((idle_at.max(now + Nanos(1)), link));
            }
        }
    }

    /// Frees a link and its flows; it must be empty.
    pub(super) fn free_link(&mut self, link: u32) {
        self.events.set(link, Nanos::MAX);
        let Some(state) = self.links.remove(link) else { return };
        self.free_flows(link, state.flows);
        if let Some(template) = super::slot(&mut self.templates, state.template)
            && !state.orphan
        {
            if let Ok(entry) = template.instances.find_entry(stable_hash(&state.key), |&l| l == link) {
                entry.remove();
            }
            template.single = template.single.filter(|&single| single != link);
        }
    }

    /// Frees the flows of a link that is gone, `first` and its siblings.
    fn free_flows(&mut self, link: u32, first: u32) {
        let mut id = first;
        while let Some(flow) = self.flows.remove(id) {
            if let Some((queue, masked)) = flow.queue.map(|q| *q)
                && let Some(flowset) = super::slot(&mut self.queues, queue)
                && let Ok(entry) = flowset.flows.find_entry(flow_hash(link, &masked), |&f| f == id)
            {
                entry.remove();
            }
            id = flow.sibling;
        }
    }

    /// Changes a scheduler that exists.
    pub(super) fn change_scheduler(&mut self, now: Nanos, id: u16, config: &SchedulerConfig, link: &LinkConfig) {
        let Some(template) = super::slot(&mut self.templates, id) else { return };
        let regroup = template.mask != config.mask || template.kind != config.kind;
        (template.kind, template.mask) = (config.kind, config.mask);
        let old = core::mem::replace(&mut template.link, link.clone());
        template.flowset.resolve_limit(link);
        if template.normal.is_none() && Impairments::is_correlated(link) {
            template.normal = Some(alloc::sync::Arc::default());
        }
        if regroup {
            template.instances.clear();
            template.single = None;
        }
        for number in 0..self.links.bound() {
            let Some(state) = self.links.get_mut(number).filter(|l| l.template == id) else { continue };
            state.configure(now, self.seed, &mut self.pool, link, &old);
            if regroup {
                state.orphan = true;
                self.idle_check.push_front((now, number));
            }
            self.reschedule(number);
        }
    }

    /// Passes a changed flowset on to the flows that exist: of queue `queue`, or of pipe `template` itself.
    pub(super) fn refresh_flows(&mut self, template: u16, queue: Option<u16>) {
        for id in 0..self.flows.bound() {
            let Some(flow) = self.flows.get_mut(id) else { continue };
            let Some(state) = self.links.get(flow.link) else { continue };
            let (flowset, path) = match (&flow.queue, queue) {
                (Some(own), Some(changed)) if own.0 == changed => {
                    let flowset = self.queues.get(usize::from(changed)).and_then(Option::as_ref);
                    (flowset, flow_path(state.template, &state.key, changed, &own.1))
                }
                (None, None) if state.template == template => {
                    let template = self.templates.get(usize::from(template)).and_then(Option::as_ref);
                    (template.map(|t| &t.flowset), path(state.template, &state.key))
                }
                _ => continue,
            };
            if let Some(flowset) = flowset {
                flow.configure(self.seed, path, flowset);
            }
        }
    }

    /// Sizes a queue that was not given a limit from the link it feeds.
    pub(super) fn resolve_queue_limit(&mut self, id: u16) {
        let Some(queue) = self.queues.get_mut(usize::from(id)).and_then(Option::as_mut) else { return };
        if let Some(template) = self.templates.get(usize::from(queue.scheduler)).and_then(Option::as_ref) {
            queue.resolve_limit(&template.link);
        }
    }
}

/// Counts a packet that never came to a queue.
fn refuse(template: &mut Template, reason: DropReason, len: u32) -> Rejected {
    let counters = &mut template.stats.counters;
    counters.packets_in += 1;
    counters.bytes_in += u64::from(len);
    counters.count_drop(reason);
    Rejected { reason }
}
