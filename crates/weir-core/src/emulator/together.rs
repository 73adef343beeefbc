//! Changes that are made together: their consequences are computed once, not once for each change.
//!
//! A change of one pipe, scheduler or queue can affect every queue, and requires a search of all
//! links and flows for those of the changed object. One change thus takes a time in proportion to
//! the number of objects. If all of tens of thousands of objects changed one after another, the
//! time would grow with the square of their number, on the thread that forwards packets.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::engine::Emulator;
use super::flow::{flow_path, path};
use super::pending::PendingChanges;
use super::tables::Flowset;
use crate::sched::Scheduler as _;
use crate::sched::cake::needs_hosts;
use crate::units::Nanos;

impl Emulator {
    /// Makes several changes at time `now`. The result is that of the same changes one after
    /// another, in a time that grows with the number of objects and not with its square. If an
    /// object is changed several times, the values in between have no effect.
    pub fn change_together(&mut self, now: Nanos, changes: impl FnOnce(&mut Self)) {
        self.with_pending(now, true, changes);
    }

    /// Makes changes and then computes their consequences. Inside [`Self::change_together`], only
    /// makes the changes.
    pub(super) fn with_pending<R>(
        &mut self,
        now: Nanos,
        several: bool,
        changes: impl FnOnce(&mut Self) -> R,
    ) -> R {
        if self.pending.is_some() {
            return changes(self);
        }
        self.run(now);
        self.pending = Some(PendingChanges::new(several).into());
        let result = changes(self);
        self.finish_changes(now);
        self.pending = None;
        result
    }

    /// The changes that are being made by [`Self::with_pending`].
    pub(super) fn pending(&mut self) -> &mut PendingChanges {
        debug_assert!(self.pending.is_some(), "changes outside of `with_pending` would be lost");
        self.pending.get_or_insert_default()
    }

    /// The numbers of the links of pipe or scheduler `id`. Some of them may have been freed since
    /// the index of [`PendingChanges`] was made.
    pub(super) fn links_under(&mut self, id: u16) -> Vec<u32> {
        let Self { links, pending, .. } = self;
        let template = |number: u32| links.get(number).map(|link| link.template);
        match pending.as_deref_mut().filter(|pending| pending.several) {
            Some(pending) => pending.links_of(id, links.bound(), template),
            None => (0..links.bound()).filter(|&number| template(number) == Some(id)).collect(),
        }
    }

    /// The numbers of the flows of queue `id`. Some of them may have been freed since the index of
    /// [`PendingChanges`] was made.
    pub(super) fn flows_behind(&mut self, id: u16) -> Vec<u32> {
        let Self { flows, pending, .. } = self;
        let queue = |number: u32| flows.get(number).and_then(|flow| flow.cold.queue);
        match pending.as_deref_mut().filter(|pending| pending.several) {
            Some(pending) => pending.flows_of(id, flows.bound(), queue),
            None => (0..flows.bound()).filter(|&number| queue(number) == Some(id)).collect(),
        }
    }

    /// Computes the consequences of the pending changes.
    fn finish_changes(&mut self, now: Nanos) {
        let pending = self.pending();
        let (links, rebuilt) =
            (core::mem::take(&mut pending.links), core::mem::take(&mut pending.rebuilt));
        let (mut queues, deleted) = (core::mem::take(&mut pending.queues), pending.deleted);
        if !links.is_empty() || deleted {
            for number in 0..self.queues.len() {
                self.find_chain(now, number as u16, &rebuilt);
            }
        }
        if links.is_empty() && queues.is_empty() {
            return;
        }
        self.resolve_hashes();
        let affected = (0u16..).zip(&self.queues).filter(|(_, queue)| {
            queue.as_ref().is_some_and(|queue| queue.chain.iter().any(|id| links.contains(id)))
        });
        queues.extend(affected.map(|(number, _)| number));
        queues.iter().for_each(|&number| self.resolve_queue_limit(number));
        self.refresh_flows(now, &links, &queues);
    }

    /// Applies changed settings to the existing flows of `queues`, and to those of packets that
    /// were sent directly to `templates`.
    fn refresh_flows(&mut self, now: Nanos, templates: &BTreeSet<u16>, queues: &BTreeSet<u16>) {
        let Self { seed, templates: all, queues: all_queues, links, flows, pool, events, .. } =
            self;
        flows.for_each(|flow| {
            let Some(state) = links.get_mut(flow.link) else { return };
            let (path, flowset) = match flow.cold.queue {
                Some(id) if queues.contains(&id) => (
                    flow_path(state.template, &state.key, id, &flow.cold.key),
                    all_queues.get(usize::from(id)).and_then(Option::as_ref),
                ),
                None if templates.contains(&state.template) => {
                    let template = all.get(usize::from(state.template)).and_then(Option::as_ref);
                    (path(state.template, &state.key), template.map(|t| &t.flowset))
                }
                _ => return,
            };
            let Some(flowset) = flowset else { return };
            flow.configure(*seed, path, flowset);
            state.scheduler.change_flow(now, pool, flow.slot, &flow.cold.spec);
            // With the flow's new settings, a shaping scheduler may release a packet earlier or
            // later.
            let next = state.next_event();
            if next != state.announced {
                state.announced = next;
                events.set(flow.link, next);
            }
        });
    }

    /// Determines for each template whether a queue or scheduler in front of its link needs flow
    /// hashes or host hashes.
    fn resolve_hashes(&mut self) {
        let classifies =
            |flowset: &Flowset| flowset.config.aqm.is_some_and(|aqm| aqm.row().traits.classifies);
        let (mut with_flow_hashes, mut with_host_hashes) = (BTreeSet::new(), BTreeSet::new());
        for queue in self.queues.iter().flatten() {
            let in_chain = || {
                queue.chain.iter().filter_map(|&id| self.templates.get(usize::from(id))?.as_ref())
            };
            if classifies(queue) || in_chain().any(|t| t.discipline.row().traits.classifies) {
                with_flow_hashes.extend(queue.root());
            }
            if in_chain().any(|t| needs_hosts(&t.discipline)) {
                with_host_hashes.extend(queue.root());
            }
        }
        for template in self.templates.iter_mut().flatten() {
            template.isolates =
                needs_hosts(&template.discipline) || with_host_hashes.contains(&template.id);
            template.classifies = template.discipline.row().traits.classifies
                || classifies(&template.flowset)
                || with_flow_hashes.contains(&template.id);
        }
    }
}
