//! Instances: finding the link and the flow of a packet, and creating and freeing them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::engine::{Emulator, IdleCheck};
use super::flow::{Flow, Identity, NO_FLOW, flow_hash, flow_path, path, spec};
use super::link::Link;
use super::tables::{Template, slot};
use super::traffic::{Action, Rejected};
use crate::key::FlowKey;
use crate::lookup::LookupKey;
use crate::packet::PacketList;
use crate::sched::{FlowSlot, NodeName, Scheduler, Tree, TreeNode};
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::units::Nanos;

impl Emulator {
    /// A number that all packets of an instance share. It is the same in every engine with the same
    /// configuration and key for look-ups, so that several engines can divide the instances among
    /// themselves. `None` if the action names an object that is not configured.
    #[inline]
    pub fn instance_hash(&self, key: &FlowKey, action: Action) -> Option<u64> {
        let id = match action {
            Action::Pipe(id) => id,
            Action::Queue(id) => self.queues.get(usize::from(id))?.as_ref()?.root()?,
        };
        let template = self.templates.get(usize::from(id))?.as_ref()?;
        let compact = self.lookup.compact_masked(&template.mask, &template.short_mask, key);
        Some(self.lookup.owned(id.into(), compact))
    }

    /// The link and the flow of a packet, which are created if they do not exist. `None` if the
    /// action names an object that is not configured. An error is not counted.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn locate(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        action: Action,
    ) -> Result<Option<(u32, u32)>, Rejected> {
        let (template_id, queue) = match action {
            Action::Pipe(id) => (id, None),
            Action::Queue(id) => match slot(&mut self.queues, id) {
                Some(queue) => match queue.root() {
                    Some(root) => (root, Some(id)),
                    None => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        let Some(template) = slot(&mut self.templates, template_id).filter(|t| t.parent.is_none())
        else {
            return Ok(None);
        };
        let found = match template.single {
            Some(single) => Some(single),
            None if template.instances.is_empty() => None,
            None => {
                let (mask, links) = (&template.mask, &self.links);
                let compact = self.lookup.compact_masked(mask, &template.short_mask, key);
                let matches =
                    |&link: &u32| links.get(link).is_some_and(|l| l.is_for(compact, mask, key));
                template.instances.find(self.lookup.table(compact), matches).copied()
            }
        };
        let link = match found {
            Some(link) => link,
            None => self.make_link(now, template_id, key)?,
        };
        let flow = match queue {
            None => Some(self.links.at_mut(link).flow).filter(|&flow| flow != NO_FLOW),
            Some(id) => slot(&mut self.queues, id).and_then(|queue| {
                let masked = queue.mask.apply(key);
                let flows = &self.flows;
                let matches = |&flow: &u32| flows.get(flow).is_some_and(|f| f.is_of(link, &masked));
                queue.flows.find(flow_hash(&self.lookup, link, &masked), matches).copied()
            }),
        };
        match flow {
            Some(flow) => Ok(Some((link, flow))),
            None => self
                .make_flow(now, link, template_id, queue, key)
                .map(|flow| flow.map(|flow| (link, flow))),
        }
    }

    /// Counts a packet of `len` bytes for which [`Self::locate`] found no place.
    #[cold]
    #[inline(never)]
    pub(super) fn count_refused(
        &mut self,
        action: Action,
        rejected: Rejected,
        len: u32,
    ) -> Rejected {
        let template = match action {
            Action::Pipe(id) => Some(id),
            Action::Queue(id) => slot(&mut self.queues, id).and_then(|queue| queue.root()),
        };
        if let Some(template) = template.and_then(|id| slot(&mut self.templates, id)) {
            let counters = &mut template.stats.counters;
            counters.packets_in += 1;
            counters.bytes_in += u64::from(len);
            counters.count_drop(rejected.reason);
        }
        rejected
    }

    /// Creates the instance of a template for packets with `key`.
    #[cold]
    #[inline(never)]
    fn make_link(&mut self, now: Nanos, template_id: u16, key: &FlowKey) -> Result<u32, Rejected> {
        let full = self.links.len() >= self.limits.instances as usize;
        let Some(template) = slot(&mut self.templates, template_id) else {
            return Err(Rejected { reason: DropReason::NoSuchPipe });
        };
        let full = full || template.instances.len() >= template.max_instances as usize;
        if full && !template.mask.is_empty() {
            return Err(Rejected { reason: DropReason::TooManyFlows });
        }
        let masked = template.mask.apply(key);
        self.serial += 1;
        let link = self.links.insert(Link::new(
            self.seed,
            &self.lookup,
            now,
            template,
            masked,
            self.serial,
        ));
        if template.mask.is_empty() {
            template.single = Some(link);
        } else {
            let (links, lookup) = (&self.links, &self.lookup);
            let hash_of = |&link: &u32| links.get(link).map_or(0, |link| link.table_hash(lookup));
            template.instances.insert_unique(hash_of(&link), link, hash_of);
            let time = now.saturating_add(self.limits.idle);
            self.idle_links.push_back(IdleCheck {
                time,
                number: link,
                serial: self.serial,
                seen: 0,
            });
        }
        Ok(link)
    }

    /// Creates the flow for packets with `key` in an instance, and the nodes of its nested
    /// schedulers.
    #[cold]
    #[inline(never)]
    fn make_flow(
        &mut self,
        now: Nanos,
        link: u32,
        template_id: u16,
        queue: Option<u16>,
        key: &FlowKey,
    ) -> Result<Option<u32>, Rejected> {
        let full = self.flows.len() >= self.limits.instances as usize * 2;
        let Some(template) = slot(&mut self.templates, template_id) else { return Ok(None) };
        let state = self.links.at_mut(link);
        let flowset = match queue {
            None => &mut template.flowset,
            Some(id) => match slot(&mut self.queues, id) {
                Some(flowset) => flowset,
                None => return Ok(None),
            },
        };
        let has_mask = queue.is_some() && !flowset.mask.is_empty();
        let most = flowset.config.max_flows.unwrap_or(u32::MAX) as usize;
        if has_mask && (full || flowset.flows.len() >= most) {
            return Err(Rejected { reason: DropReason::TooManyFlows });
        }
        self.serial += 1;
        let number = self.flows.next_number();
        let masked = flowset.mask.apply(key);
        let path = queue.map_or_else(
            || path(template_id, &state.key),
            |id| flow_path(template_id, &state.key, id, &masked),
        );
        let identity = Identity { number, serial: self.serial, link, queue, key: masked };
        let mut flow = Flow::new(self.seed, identity, flowset, path);
        let nodes = flowset.chain.iter().rev().skip(1).copied().collect::<Vec<_>>();
        flow.slot = match nodes[..] {
            [] => state.scheduler.add_flow(now, &flow.cold.spec),
            _ => {
                let node = make_nodes(
                    now,
                    (self.seed, &self.lookup),
                    state,
                    &mut self.flows,
                    &self.templates,
                    &nodes,
                    key,
                );
                let tree = state.scheduler.tree();
                tree.map_or_else(FlowSlot::default, |tree| {
                    tree.add_flow_in(now, node, &flow.cold.spec)
                })
            }
        };
        let Some(flowset) = (match queue {
            None => slot(&mut self.templates, template_id).map(|t| &mut t.flowset),
            Some(id) => slot(&mut self.queues, id),
        }) else {
            return Ok(None);
        };
        flow.cold.older = core::mem::replace(&mut state.flows, number);
        if let Some(older) = self.flows.get_mut(flow.cold.older) {
            older.cold.newer = number;
        }
        self.flows.insert(flow);
        if queue.is_none() {
            state.flow = number;
            return Ok(Some(number));
        }
        let (flows, lookup) = (&self.flows, &self.lookup);
        let hash_of =
            |&flow: &u32| flows.get(flow).map_or(0, |f| flow_hash(lookup, f.link, &f.cold.key));
        flowset.flows.insert_unique(hash_of(&number), number, hash_of);
        if has_mask {
            let time = now.saturating_add(self.limits.idle);
            self.idle_flows.push_back(IdleCheck { time, number, serial: self.serial, seen: 1 });
        }
        Ok(Some(number))
    }

    /// Frees idle links that a mask created, and empty links of a previous mask or parent.
    #[cold]
    #[inline(never)]
    pub(super) fn expire_links(&mut self, now: Nanos) {
        while let Some(check) = due(&mut self.idle_links, now) {
            let Some(state) = self.links.get(check.number).filter(|l| l.serial == check.serial)
            else {
                continue;
            };
            let idle_at = state.last_used.saturating_add(self.limits.idle);
            if state.is_empty() && (idle_at <= now || state.orphan) {
                self.free_link(check.number);
            } else {
                self.idle_links.push_back(IdleCheck { time: idle_at.max(now + Nanos(1)), ..check });
            }
        }
    }

    /// Frees empty flows that received no packet between two checks, and empty flows that are
    /// retired.
    #[cold]
    #[inline(never)]
    pub(super) fn expire_flows(&mut self, now: Nanos) {
        while let Some(check) = due(&mut self.idle_flows, now) {
            let Some(state) =
                self.flows.get(check.number).filter(|f| f.cold.serial == check.serial)
            else {
                continue;
            };
            let seen = state.packets_seen;
            if state.gate.packets() == 0 && (seen == check.seen || state.cold.orphan) {
                self.free_flow(now, check.number);
            } else {
                let time = now.saturating_add(self.limits.idle).max(now + Nanos(1));
                self.idle_flows.push_back(IdleCheck { time, seen, ..check });
            }
        }
    }

    /// Frees an empty link and its flows.
    pub(super) fn free_link(&mut self, link: u32) {
        self.events.set(link, Nanos::MAX);
        let Some(state) = self.links.remove(link) else { return };
        let mut number = state.flows;
        while let Some(flow) = self.flows.remove(number) {
            number = flow.cold.older;
            self.forget_flow(&flow);
        }
        if let Some(template) = slot(&mut self.templates, state.template)
            && !state.orphan
        {
            if let Ok(entry) =
                template.instances.find_entry(state.table_hash(&self.lookup), |&l| l == link)
            {
                entry.remove();
            }
            template.single = template.single.filter(|&single| single != link);
        }
    }

    /// Frees a flow of a link that continues to exist. Returns the flow's packets in the scheduler.
    pub(super) fn free_flow(&mut self, now: Nanos, number: u32) -> PacketList {
        let Some(flow) = self.flows.remove(number) else { return PacketList::default() };
        self.forget_flow(&flow);
        let (older, newer) = (flow.cold.older, flow.cold.newer);
        if let Some(older) = self.flows.get_mut(older) {
            older.cold.newer = newer;
        }
        let state = self.links.at_mut(flow.link);
        match self.flows.get_mut(newer) {
            Some(newer) => newer.cold.older = older,
            None => state.flows = older,
        }
        state.freed.add(&flow);
        state.scheduler.remove_flow(now, &mut self.pool, flow.slot, number)
    }

    /// Removes a freed flow from its queue's table.
    fn forget_flow(&mut self, flow: &Flow) {
        if let Some(queue) = flow.cold.queue
            && let Some(flowset) = slot(&mut self.queues, queue)
            && let Ok(entry) =
                flowset.flows.find_entry(flow_hash(&self.lookup, flow.link, &flow.cold.key), |&f| {
                    f == flow.cold.spec.flow
                })
        {
            entry.remove();
        }
    }
}

/// The node of the lowest scheduler in `chain`. `chain` lists the nested schedulers below the
/// link's own scheduler, from the highest to the lowest. Creates missing nodes.
fn make_nodes(
    now: Nanos,
    (seed, lookup): (u64, &LookupKey),
    link: &mut Link,
    flows: &mut Slab<Flow>,
    templates: &[Option<Template>],
    chain: &[u16],
    key: &FlowKey,
) -> TreeNode {
    if link.scheduler.tree().is_none() {
        link.scheduler.make_tree();
        let mut number = link.flows;
        while let Some(flow) = flows.get_mut(number) {
            if let Some(tree) = link.scheduler.tree() {
                flow.slot = tree.adopt(flow.slot, &flow.cold.spec);
            }
            number = flow.cold.older;
        }
    }
    let mut node = Tree::ROOT;
    for &id in chain {
        let (Some(tree), Some(template)) =
            (link.scheduler.tree(), templates.get(usize::from(id)).and_then(Option::as_ref))
        else {
            break;
        };
        let masked = template.mask.apply(key);
        let name = NodeName::new(lookup, id, masked);
        node = match tree.node(&name) {
            Some(node) => node,
            None => {
                let path = flow_path(link.template, &link.key, id, &masked);
                let made = tree.add_node(
                    now,
                    node,
                    &spec(0, &template.flowset.config),
                    &template.discipline.seeded(seed ^ path),
                );
                tree.name(made, name);
                made
            }
        };
    }
    node
}

fn due(checks: &mut VecDeque<IdleCheck>, now: Nanos) -> Option<IdleCheck> {
    if checks.front()?.time > now { None } else { checks.pop_front() }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::config::{FlowsetConfig, LinkConfig, SchedulerConfig};
    use crate::emulator::{Arrival, Limits};
    use crate::key::FlowMask;
    use crate::packet::Ecn;
    use crate::sched::Kind;

    fn scheduler(kind: Kind, mask: FlowMask, parent: Option<u16>) -> SchedulerConfig {
        SchedulerConfig { discipline: kind.into(), mask, max_instances: None, parent }
    }

    fn submit(emulator: &mut Emulator, customer: u32, port: u16, action: Action) {
        let key = FlowKey { dst: customer.into(), src_port: port, ..FlowKey::default() };
        let arrival = Arrival {
            frame: 1,
            len: 100,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        assert!(emulator.submit(Nanos::ZERO, arrival, &key, action).is_ok());
    }

    /// The seeds of the schedulers of a link, read from their `Debug` text.
    fn seeds(emulator: &Emulator, link: u32) -> Vec<u64> {
        let text = format!("{:?}", emulator.links.get(link).expect("a link").scheduler);
        let number = |rest: &str| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().expect("a seed")
        };
        text.split("seed: ").skip(1).map(number).collect()
    }

    #[test]
    fn a_scheduler_draws_the_same_whether_a_change_or_the_start_created_it() {
        let with = |kinds: &[Kind]| {
            let mut emulator = Emulator::new(7, Limits::default());
            for &kind in kinds {
                let config = scheduler(kind, FlowMask::default(), None);
                emulator.set_scheduler(Nanos::ZERO, 1, &config, &LinkConfig::default());
                submit(&mut emulator, 1, 1, Action::Pipe(1));
            }
            seeds(&emulator, 0)
        };
        let (created, changed) =
            (with(&[Kind::Stochastic]), with(&[Kind::RoundRobin, Kind::Stochastic]));
        assert!(created.len() == 1 && created[0] != 0, "{created:?}");
        assert_eq!(created, changed);
    }

    #[test]
    fn each_nested_scheduler_has_its_own_draws() {
        let mut emulator = Emulator::new(7, Limits::default());
        let customers = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
        let ports = FlowMask { src_port: u16::MAX, ..FlowMask::default() };
        let root = scheduler(Kind::RoundRobin, customers, None);
        emulator.set_scheduler(Nanos::ZERO, 1, &root, &LinkConfig::default());
        let child = scheduler(Kind::Stochastic, ports, Some(1));
        let (link, own) = (LinkConfig::default(), FlowsetConfig::default());
        emulator.set_link(Nanos::ZERO, 2, &child, &link, &own);
        emulator.set_queue(Nanos::ZERO, 1, 2, &own);
        for (customer, port) in [(1, 1), (1, 2), (2, 1)] {
            submit(&mut emulator, customer, port, Action::Queue(1));
        }
        let mut all = [seeds(&emulator, 0), seeds(&emulator, 1)].concat();
        assert_eq!(all.len(), 3, "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert!(all.len() == 3 && !all.contains(&0), "{all:?}");
    }
}
