//! The objects of rules: pipes, schedulers and queues, with their configuration.

use weir_rules::command::{Command, ObjectKind};
use weir_rules::ruleset::Ruleset;
use weir_rules::script;

use super::{Object, ObjectView};
use crate::api::{self, AqmView, RuleCounters, RuleView, Snapshot};

/// The first `most` pipes, schedulers and queues, and the number of all.
#[must_use]
pub fn ruled_objects(rules: &Ruleset, most: usize) -> (Vec<ObjectView>, u64) {
    let total = rules.pipes.len() + rules.scheds.len() + rules.queues.len();
    let view = |object: Object| ObjectView {
        object: object.to_string(),
        kind: object.kind(),
        name: object.name(),
        ..ObjectView::default()
    };
    let pipes = rules.pipes.iter().map(|(&number, spec)| ObjectView {
        spec: weir_rules::canonical(spec),
        rate_bps: api::rate(spec),
        delay_ns: api::delay(spec),
        aqm: spec.pipe.queue.aqm.as_ref().map(AqmView::from),
        masked: spec.pipe.queue.mask != Default::default(),
        ..view(Object::Pipe(number))
    });
    let scheds = rules.scheds.iter().map(|(&number, spec)| ObjectView {
        spec: script::print(&Command::ConfigSched(number, Box::new((**spec).clone()))),
        algorithm: Some(spec.scheduler.discipline.row().name.to_owned()),
        parent: spec.scheduler.parent.map(|parent| Object::Sched(parent).to_string()),
        rate_bps: api::rate(&spec.link),
        delay_ns: api::delay(&spec.link),
        masked: spec.scheduler.mask != Default::default(),
        ..view(Object::Sched(number))
    });
    let queues = rules.queues.iter().map(|(&number, spec)| ObjectView {
        spec: script::print(&Command::ConfigQueue(number, Box::new((**spec).clone()))),
        parent: Some(Object::Sched(spec.scheduler).to_string()),
        weight: Some(spec.flowset.weight),
        aqm: spec.flowset.aqm.as_ref().map(AqmView::from),
        masked: spec.flowset.mask != Default::default(),
        ..view(Object::Queue(number))
    });
    (pipes.chain(scheds).chain(queues).take(most).collect(), total as u64)
}

/// Whether rules define an object. Rules define no links, paths or lanes.
#[must_use]
pub fn has_ruled(rules: &Ruleset, object: &Object) -> bool {
    match object {
        Object::Pipe(number) => rules.pipes.contains_key(number),
        Object::Sched(number) => rules.scheds.contains_key(number),
        Object::Queue(number) => rules.queues.contains_key(number),
        Object::Link(_) | Object::Path(_) | Object::Lane(_) => false,
    }
}

/// The configured rate of a pipe or scheduler in bit/s; `None` if it is unlimited, and for a queue.
#[must_use]
pub fn ruled_rate(rules: &Ruleset, kind: ObjectKind, number: u16) -> Option<u64> {
    match kind {
        ObjectKind::Pipe => api::rate(rules.pipes.get(&number)?),
        ObjectKind::Sched => api::rate(&rules.scheds.get(&number)?.link),
        ObjectKind::Queue => None,
    }
}

/// The configured rate of a link in bit/s; `None` if it is unlimited.
#[must_use]
pub fn link_rate(spec: &weir_rules::LinkSpec) -> Option<u64> {
    api::rate(spec)
}

/// The views of the rules. `counters` has the counters of rules, by identity.
#[must_use]
pub fn rule_views(
    rules: &Ruleset,
    counters: impl IntoIterator<Item = (u32, RuleCounters)>,
) -> Vec<RuleView> {
    let counters = counters.into_iter().collect();
    api::rules(rules, &Snapshot { rules: counters, ..Snapshot::default() })
}

/// The lines that two configurations do not share: those of the first one, and those of the second.
#[must_use]
pub fn differences(before: &Ruleset, after: &Ruleset) -> (String, String) {
    let (old, new) = (before.script(), after.script());
    let lines = |text: &str, other: &str| {
        let known: std::collections::HashSet<&str> = other.lines().collect();
        let mut out = String::new();
        for line in text.lines().filter(|line| !known.contains(line)) {
            if out.len() + line.len() > LONGEST_DIFFERENCE {
                out.push_str("…\n");
                break;
            }
            out.push_str(line);
            out.push('\n');
        }
        out
    };
    (lines(&old, &new), lines(&new, &old))
}

/// Maximum number of bytes of one configuration's lines in a difference.
const LONGEST_DIFFERENCE: usize = 4000;
