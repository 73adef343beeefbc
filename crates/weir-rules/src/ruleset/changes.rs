//! The difference between two configurations, as calls to the engine. Unchanged parts of the engine
//! are not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use weir_core::key::FlowMask;
use weir_core::sched::Kind;
use weir_core::{Emulator, Nanos};

use super::Ruleset;
use crate::link::Gso;
use crate::rule::Name;

/// The difference between two configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Calls to the engine, in the order in which to make them.
    pub engine: Vec<EngineChange>,
    /// Whether rules, sets or `one_pass` differ, so that the classifier must be compiled again.
    pub rules: bool,
    /// The tables that were changed, created or removed.
    pub tables: Vec<Name>,
}

/// A call to the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineChange {
    /// Creates or changes pipe or scheduler `id`; packets inside stay.
    SetLink {
        /// The number of the pipe or scheduler.
        id: u16,
        /// The scheduler of the link. The mask of a pipe is the mask of this scheduler.
        scheduler: Box<SchedulerConfig>,
        /// The link.
        link: Box<LinkConfig>,
        /// The pipe's or scheduler's own queue. It holds packets that are sent directly to this
        /// object and not to a queue in front of it.
        queue: Box<FlowsetConfig>,
        /// The treatment of offload trains.
        gso: Gso,
    },
    /// Creates or changes queue `id`.
    SetQueue {
        /// The number of the queue.
        id: u16,
        /// The pipe or scheduler that the queue feeds.
        scheduler: u16,
        /// The settings of the queue.
        queue: Box<FlowsetConfig>,
    },
    /// Deletes pipe or scheduler `id` with the packets inside.
    DeleteLink(u16),
    /// Deletes queue `id`.
    DeleteQueue(u16),
}

impl Changes {
    /// The difference from `old` to `new`.
    pub fn between(old: &Ruleset, new: &Ruleset) -> Self {
        let same_rules = Arc::ptr_eq(&old.rules, &new.rules)
            || old.rules.len() == new.rules.len() && old.rules.iter().eq(new.rules.iter());
        Self {
            engine: engine(old, new),
            rules: !same_rules
                || old.enabled_sets != new.enabled_sets
                || old.one_pass != new.one_pass,
            tables: differing(&old.tables, &new.tables).cloned().collect(),
        }
    }

    /// Makes the calls to the engine. They take effect at `now`.
    pub fn apply(&self, now: Nanos, emulator: &mut Emulator) {
        emulator.change_together(now, |emulator| {
            self.engine.iter().for_each(|change| change.apply(now, emulator));
        });
    }

    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn engine(old: &Ruleset, new: &Ruleset) -> Vec<EngineChange> {
    let mut changes = Vec::new();
    let queues: Vec<u16> = differing(&old.queues, &new.queues).copied().collect();
    changes.extend(
        queues
            .iter()
            .filter(|id| !new.queues.contains_key(id))
            .map(|&id| EngineChange::DeleteQueue(id)),
    );
    let mut links: BTreeSet<u16> = differing(&old.pipes, &new.pipes)
        .chain(differing(&old.scheds, &new.scheds))
        .copied()
        .collect();
    // A pipe without a scheduler of its own is a FIFO until a queue or scheduler feeds it.
    let (fed_before, fed_now) = (fed(old), fed(new));
    links.extend(fed_before.symmetric_difference(&fed_now));
    for &id in &links {
        let before = set_link(old, id, fed_before.contains(&id));
        match set_link(new, id, fed_now.contains(&id)) {
            Some(change) if before.as_ref() != Some(&change) => changes.push(change),
            None if before.is_some() => changes.push(EngineChange::DeleteLink(id)),
            _ => {}
        }
    }
    let set = queues.iter().filter_map(|id| {
        let spec = new.queues.get(id)?;
        Some(EngineChange::SetQueue {
            id: *id,
            scheduler: spec.scheduler,
            queue: Box::new(spec.flowset.clone()),
        })
    });
    changes.extend(set);
    changes
}

/// The call that configures pipe or scheduler `id`.
fn set_link(ruleset: &Ruleset, id: u16, is_fed: bool) -> Option<EngineChange> {
    let (spec, scheduler) = match (ruleset.scheds.get(&id), ruleset.pipes.get(&id)) {
        (Some(sched), _) => (&sched.link, sched.scheduler.clone()),
        (None, Some(pipe)) => {
            let (kind, queue) = (if is_fed { SHARED_PIPE } else { Kind::Fifo }, &pipe.pipe.queue);
            (
                &**pipe,
                SchedulerConfig {
                    discipline: pipe.pipe.scheduler.unwrap_or_else(|| kind.into()),
                    mask: queue.mask,
                    max_instances: queue.max_flows,
                    parent: None,
                },
            )
        }
        (None, None) => return None,
    };
    let PipeConfig { link, queue, .. } = spec.pipe.clone();
    // The mask of a pipe's queue creates instances of the pipe, each with one queue.
    let mask = if ruleset.scheds.contains_key(&id) { queue.mask } else { FlowMask::default() };
    let (scheduler, link, queue) =
        (Box::new(scheduler), Box::new(link), Box::new(FlowsetConfig { mask, ..queue }));
    Some(EngineChange::SetLink { id, scheduler, link, queue, gso: spec.gso })
}

/// The pipes and schedulers that are fed by queues or other schedulers.
fn fed(ruleset: &Ruleset) -> BTreeSet<u16> {
    let parents = ruleset.scheds.values().filter_map(|sched| sched.scheduler.parent);
    ruleset.queues.values().map(|queue| queue.scheduler).chain(parents).collect()
}

/// The keys that have different values in two maps: first the removed keys, then the added and
/// changed ones.
fn differing<'a, K: Ord, V: PartialEq>(
    old: &'a Arc<BTreeMap<K, Arc<V>>>,
    new: &'a Arc<BTreeMap<K, Arc<V>>>,
) -> impl Iterator<Item = &'a K> {
    let shared = Arc::ptr_eq(old, new);
    let gone = old.keys().filter(|key| !new.contains_key(key));
    let set = new.iter().filter(|(key, value)| {
        old.get(key).is_none_or(|before| !Arc::ptr_eq(before, value) && before != *value)
    });
    gone.chain(set.map(|(key, _)| key)).filter(move |_| !shared)
}

impl EngineChange {
    /// Makes the call. It takes effect at `now`.
    pub fn apply(&self, now: Nanos, emulator: &mut Emulator) {
        match self {
            Self::SetLink { id, scheduler, link, queue, .. } => {
                emulator.set_link(now, *id, scheduler, link, queue);
            }
            Self::SetQueue { id, scheduler, queue } => {
                emulator.set_queue(now, *id, *scheduler, queue);
            }
            Self::DeleteLink(id) => {
                emulator.delete(now, *id);
            }
            Self::DeleteQueue(id) => {
                emulator.delete_queue(now, *id);
            }
        }
    }
}

/// The scheduler of a pipe with queues or schedulers in front of it: dummynet's default.
pub(crate) const SHARED_PIPE: Kind = Kind::Wf2qPlus;
