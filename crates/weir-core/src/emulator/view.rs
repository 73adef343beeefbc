//! Views: the configuration, the instances, and the counters of each flow.
//!
//! For the views, each packet updates two sums of its flow. A view is computed on demand; with tens
//! of thousands of instances, a caller requests one page at a time.

use alloc::vec::Vec;
use core::ops::Range;

use super::engine::Emulator;
use super::flow::Flow;
use super::tables::Template;
use super::totals::Totals;
use crate::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use crate::key::{FlowKey, stable_hash};

/// One instance of a pipe or scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// The instance's number, by which pages are ordered. A later instance may reuse it.
    pub number: u32,
    /// The masked key.
    pub key: FlowKey,
    /// Hash of the key, the same on every machine. Modulo a number of buckets, it is the first
    /// column of dummynet's listings.
    pub hash: u64,
    /// Number of flows that feed the instance now.
    pub flows: u32,
    /// Sums over all flows of the instance, including freed flows.
    pub totals: Totals,
    /// Whether the mask or the parent has changed, so that the instance accepts no more packets and
    /// is freed when it is empty.
    pub leaving: bool,
}

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// The flow's number, by which pages are ordered. A later flow may reuse it.
    pub number: u32,
    /// The queue to which the flow belongs; `None` for packets that are sent to the pipe or
    /// scheduler directly.
    pub queue: Option<u16>,
    /// The masked key.
    pub key: FlowKey,
    /// Hash of the key, the same on every machine.
    pub hash: u64,
    /// Number of the instance that the flow feeds.
    pub instance: u32,
    /// The key of that instance.
    pub instance_key: FlowKey,
    /// The flow's counters.
    pub totals: Totals,
    /// Whether the queue's mask or schedulers have changed, so that the flow accepts no more
    /// packets and is freed when it is empty.
    pub leaving: bool,
}

impl Emulator {
    /// Numbers of all pipes and schedulers.
    pub fn schedulers(&self) -> impl Iterator<Item = u16> {
        self.templates.iter().flatten().map(|t| t.id)
    }

    /// Numbers of all queues.
    pub fn queues(&self) -> impl Iterator<Item = u16> {
        self.queues.iter().enumerate().filter_map(|(id, queue)| queue.as_ref().map(|_| id as u16))
    }

    /// Configuration of pipe `id`; `None` if it does not exist or was last configured as a
    /// scheduler.
    pub fn pipe_config(&self, id: u16) -> Option<PipeConfig> {
        let template = self.templates.get(usize::from(id))?.as_ref().filter(|t| t.pipe)?;
        let queue = FlowsetConfig { mask: template.mask, ..template.flowset.config.clone() };
        let scheduler =
            Some(template.discipline).filter(|own| own.kind() != crate::sched::Kind::Fifo);
        Some(PipeConfig { link: template.link.clone(), scheduler, queue })
    }

    /// Configuration of pipe or scheduler `id` as a scheduler, and the configuration of its link.
    pub fn scheduler_config(&self, id: u16) -> Option<(SchedulerConfig, &LinkConfig)> {
        let template = self.templates.get(usize::from(id))?.as_ref()?;
        let max_instances = Some(template.max_instances).filter(|&max| max != u32::MAX);
        let Template { discipline, mask, parent, ref link, .. } = *template;
        Some((SchedulerConfig { discipline, mask, max_instances, parent }, link))
    }

    /// Configuration of queue `id`, and the number of its scheduler.
    pub fn queue_config(&self, id: u16) -> Option<(u16, &FlowsetConfig)> {
        let queue = self.queues.get(usize::from(id))?.as_ref()?;
        Some((queue.scheduler, &queue.config))
    }

    /// State variables of the AQM of flow `number`, by name; empty without an AQM.
    pub fn aqm_variables(&self, number: u32) -> Vec<(&'static str, u64)> {
        self.flows.get(number).map(Flow::variables).unwrap_or_default()
    }

    /// Number of instances of pipe or scheduler `id`, without those that are leaving
    /// ([`InstanceView::leaving`]).
    pub fn instance_count(&self, id: u16) -> usize {
        let template = self.templates.get(usize::from(id)).and_then(Option::as_ref);
        template.map_or(0, |t| t.instances.len() + usize::from(t.single.is_some()))
    }

    /// Number of flows of queue `id`, without those that are leaving ([`FlowView::leaving`]).
    pub fn flow_count(&self, id: u16) -> usize {
        self.queues.get(usize::from(id)).and_then(Option::as_ref).map_or(0, |q| q.flows.len())
    }

    /// Up to `max` instances of pipe or scheduler `id` in the order of their numbers, starting
    /// after number `after`, or with the first instance if `after` is `None`.
    ///
    /// The next page starts after the last number of this page. Instances that are created or freed
    /// between two pages may be missing; every other instance appears exactly once.
    pub fn instances_of(
        &self,
        id: u16,
        after: Option<u32>,
        max: usize,
    ) -> impl Iterator<Item = InstanceView> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        self.instances_between(id, from..self.instance_bound()).take(max)
    }

    /// The instances of pipe or scheduler `id` with these numbers. The call takes time in
    /// proportion to the length of the range, even if few of these instances belong to `id`.
    pub fn instances_between(
        &self,
        id: u16,
        numbers: Range<u32>,
    ) -> impl Iterator<Item = InstanceView> {
        numbers.filter_map(move |number| self.instance(id, number))
    }

    /// A number above those of all instances.
    pub fn instance_bound(&self) -> u32 {
        self.links.bound()
    }

    /// A number above those of all flows.
    pub fn flow_bound(&self) -> u32 {
        self.flows.bound()
    }

    /// Up to `max` flows of queue `id` in the order of their numbers, starting after number
    /// `after`, or with the first flow if `after` is `None`. Pages work as for
    /// [`Self::instances_of`].
    pub fn flows_of(
        &self,
        id: u16,
        after: Option<u32>,
        max: usize,
    ) -> impl Iterator<Item = FlowView> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        self.flows_between(id, from..self.flow_bound()).take(max)
    }

    /// The flows of queue `id` with these numbers, like [`Self::instances_between`].
    pub fn flows_between(&self, id: u16, numbers: Range<u32>) -> impl Iterator<Item = FlowView> {
        let is_it = move |flow: &&Flow| flow.cold.queue == Some(id);
        numbers.filter_map(move |number| {
            self.flows.get(number).filter(is_it).and_then(|f| self.flow_view(f))
        })
    }

    /// Up to `max` flows that feed instance `instance`, the newest first.
    pub fn flows_in(&self, instance: u32, max: usize) -> impl Iterator<Item = FlowView> {
        self.siblings(instance).filter_map(|flow| self.flow_view(flow)).take(max)
    }

    fn instance(&self, id: u16, number: u32) -> Option<InstanceView> {
        let link = self.links.get(number).filter(|l| l.template == id)?;
        let (mut totals, mut flows) = (link.freed.totals(), 0);
        for flow in self.siblings(number) {
            totals.add(flow);
            flows += 1;
        }
        Some(InstanceView {
            number,
            key: link.key,
            hash: stable_hash(&link.key),
            flows,
            totals,
            leaving: link.orphan,
        })
    }

    fn siblings(&self, link: u32) -> impl Iterator<Item = &Flow> {
        let first = self.links.get(link).and_then(|l| self.flows.get(l.flows));
        core::iter::successors(first, |flow| self.flows.get(flow.cold.older))
    }

    fn flow_view(&self, flow: &Flow) -> Option<FlowView> {
        let link = self.links.get(flow.link)?;
        let mut totals = Totals::default();
        totals.add(flow);
        let cold = &flow.cold;
        Some(FlowView {
            number: cold.spec.flow,
            queue: cold.queue,
            key: cold.key,
            hash: stable_hash(&cold.key),
            instance: flow.link,
            instance_key: link.key,
            totals,
            leaving: cold.orphan,
        })
    }
}
