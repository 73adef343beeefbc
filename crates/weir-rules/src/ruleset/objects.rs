//! Pipes, schedulers and queues.
//!
//! As in dummynet, pipe N and scheduler N are one link. The command of a pipe replaces the link and
//! keeps the scheduler, unless it names another scheduler. The command of a scheduler keeps the
//! link if it gives no settings of a link.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::config::FlowsetConfig;
use weir_core::key::FlowMask;
use weir_core::sched::{self, Discipline};
use weir_core::units::Rate;

use super::apply::put;
use super::netconfig::is_netconfig_pipe;
use super::{ApplyError, MOST_LEVELS, Outcome, Ruleset, Warning};
use crate::command::{Numbers, ObjectKind, QueueSpec, SchedSpec};
use crate::link::LinkSpec;
use crate::rule::{Rule, RuleAction, Target};

impl Ruleset {
    pub(super) fn config_pipe(
        &mut self,
        number: u16,
        spec: &LinkSpec,
    ) -> Result<Outcome, ApplyError> {
        if is_netconfig_pipe(number) {
            return Err(ApplyError::Reserved { number });
        }
        let Some(sched) = self.scheds.get(&number) else {
            return Ok(Outcome::changed(put(&mut self.pipes, number, spec.clone())));
        };
        let mut sched = SchedSpec::clone(sched);
        sched.scheduler.parent = None;
        if !spec.pipe.queue.mask.is_empty() {
            sched.scheduler.mask = spec.pipe.queue.mask;
        }
        if let Some(discipline) = spec.pipe.scheduler {
            self.flows_fit(number, &discipline)?;
            sched.scheduler.discipline = discipline;
        }
        sched.link = spec.clone();
        sched.link.pipe.scheduler = None;
        sched.link.pipe.queue.mask = FlowMask::default();
        Ok(Outcome::changed(put(&mut self.scheds, number, sched)))
    }

    pub(super) fn config_sched(
        &mut self,
        number: u16,
        spec: &SchedSpec,
    ) -> Result<Outcome, ApplyError> {
        if is_netconfig_pipe(number) {
            return Err(ApplyError::Reserved { number });
        }
        let mut sched = spec.clone();
        if let Some(parent) = sched.scheduler.parent {
            self.check_parent(number, parent)?;
            if let Some(above) = self.scheds.get(&parent) {
                let own = &sched.link.pipe.queue;
                fits((ObjectKind::Sched, number), own, &above.scheduler.discipline)?;
            }
        }
        self.flows_fit(number, &sched.scheduler.discipline)?;
        let before = self
            .scheds
            .get(&number)
            .map(|s| &s.link)
            .or_else(|| self.pipes.get(&number).map(|p| &**p));
        if let Some(link) =
            before.filter(|_| sched.link == LinkSpec::default() && sched.scheduler.parent.is_none())
        {
            sched.link = link.clone();
            sched.link.pipe.scheduler = None;
            // A pipe's mask creates instances of the pipe, whereas a scheduler has a mask of its
            // own for this.
            let mask = std::mem::take(&mut sched.link.pipe.queue.mask);
            if sched.scheduler.mask.is_empty() {
                sched.scheduler.mask = mask;
            }
        }
        if self.pipes.contains_key(&number) {
            Arc::make_mut(&mut self.pipes).remove(&number);
        }
        let outcome = Outcome::changed(put(&mut self.scheds, number, sched));
        let mut warnings: Vec<_> =
            self.queues_of(number).flat_map(|queue| self.unused_settings(queue)).collect();
        warnings.extend(
            self.children_of(number).chain([number]).flat_map(|child| self.unused_by_parent(child)),
        );
        let missing = spec.scheduler.parent.filter(|&parent| !self.has_link(parent));
        let missing = missing.map(|parent| Warning::NoParent { sched: number, parent });
        Ok(outcome.warn(missing).warn(warnings))
    }

    /// Checks that the flows of scheduler `number` suit a discipline.
    fn flows_fit(&self, number: u16, discipline: &Discipline) -> Result<(), ApplyError> {
        for (&queue, spec) in self.queues.iter().filter(|(_, spec)| spec.scheduler == number) {
            fits((ObjectKind::Queue, queue), &spec.flowset, discipline)?;
        }
        for child in self.children_of(number) {
            if let Some(spec) = self.scheds.get(&child) {
                fits((ObjectKind::Sched, child), &spec.link.pipe.queue, discipline)?;
            }
        }
        Ok(())
    }

    /// Checks whether scheduler `number` can be a flow of `parent`.
    fn check_parent(&self, number: u16, parent: u16) -> Result<(), ApplyError> {
        let above = |&id: &u16| self.scheds.get(&id).and_then(|sched| sched.scheduler.parent);
        let ancestors: Vec<u16> =
            core::iter::successors(Some(parent), above).take(MOST_LEVELS).collect();
        if ancestors.contains(&number) {
            return Err(ApplyError::Circle { number, parent });
        }
        // The schedulers below `number` move with it.
        let below = self.levels_below(number, MOST_LEVELS);
        if ancestors.len() + 1 + below > MOST_LEVELS {
            Err(ApplyError::TooDeep { number })
        } else {
            Ok(())
        }
    }

    /// The number of levels of schedulers below scheduler `number`, counted up to `most`.
    fn levels_below(&self, number: u16, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        self.children_of(number)
            .map(|child| 1 + self.levels_below(child, most - 1))
            .max()
            .unwrap_or(0)
    }

    /// The schedulers that are flows of scheduler `number`.
    pub fn children_of(&self, number: u16) -> impl Iterator<Item = u16> {
        self.scheds
            .iter()
            .filter(move |(_, sched)| sched.scheduler.parent == Some(number))
            .map(|(&child, _)| child)
    }

    pub(super) fn config_queue(
        &mut self,
        number: u16,
        spec: &QueueSpec,
    ) -> Result<Outcome, ApplyError> {
        if let Some(sched) = self.scheds.get(&spec.scheduler) {
            fits((ObjectKind::Queue, number), &spec.flowset, &sched.scheduler.discipline)?;
        }
        let outcome = Outcome::changed(put(&mut self.queues, number, spec.clone()));
        let scheduler = spec.scheduler;
        let missing = !self.has_link(scheduler);
        let unused = self.unused_settings(number);
        Ok(outcome
            .warn(missing.then_some(Warning::NoScheduler { queue: number, scheduler }))
            .warn(unused))
    }

    pub(super) fn delete_objects(
        &mut self,
        kind: ObjectKind,
        which: &[Numbers],
    ) -> Result<Outcome, ApplyError> {
        let found: BTreeSet<u16> = match kind {
            ObjectKind::Queue => {
                self.queues.keys().copied().filter(|&n| super::wanted(which, n)).collect()
            }
            _ => self.link_numbers().filter(|&n| super::wanted(which, n)).collect(),
        };
        if let Some(&number) =
            found.iter().find(|&&n| kind != ObjectKind::Queue && is_netconfig_pipe(n))
        {
            return Err(ApplyError::Reserved { number });
        }
        if let Some(absent) = which.iter().find(|w| !found.iter().any(|&n| w.contains(n))) {
            return Err(ApplyError::NoObject { kind, number: absent.first });
        }
        let stays = |child: &u16| !found.contains(child);
        let in_use = found
            .iter()
            .filter(|_| kind != ObjectKind::Queue)
            .find_map(|&n| Some((n, self.children_of(n).find(stays)?)));
        if let Some((number, child)) = in_use {
            return Err(ApplyError::ParentInUse { number, child });
        }
        if kind == ObjectKind::Queue {
            Arc::make_mut(&mut self.queues).retain(|n, _| !found.contains(n));
        } else {
            Arc::make_mut(&mut self.pipes).retain(|n, _| !found.contains(n));
            Arc::make_mut(&mut self.scheds).retain(|n, _| !found.contains(n));
        }
        let warnings = self.configuration_warnings().into_iter().filter(|warning| match warning {
            Warning::NoScheduler { scheduler, .. } => {
                kind != ObjectKind::Queue && found.contains(scheduler)
            }
            Warning::NoTarget { kind: target, number, .. } => {
                (kind == ObjectKind::Queue) == (*target == ObjectKind::Queue)
                    && found.contains(number)
            }
            _ => false,
        });
        Ok(Outcome::changed(!found.is_empty()).warn(warnings.collect::<Vec<_>>()))
    }

    /// Deletes all pipes, queues and schedulers: as in dummynet, flushing one kind removes all
    /// three. Only links that `netconfig` created remain.
    pub(super) fn flush_objects(&mut self) -> Outcome {
        let before = self.pipes.len() + self.scheds.len() + self.queues.len();
        let pipes = Arc::make_mut(&mut self.pipes);
        pipes.retain(|&n, _| is_netconfig_pipe(n));
        let kept = pipes.len();
        self.scheds = Arc::default();
        self.queues = Arc::default();
        Outcome::changed(before > kept)
    }

    /// Warnings about rules, queues and inner schedulers that refer to objects that do not exist,
    /// and about rules that send packets to a scheduler without a link of its own.
    pub fn configuration_warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (&queue, spec) in self.queues.iter().filter(|(_, spec)| !self.has_link(spec.scheduler))
        {
            warnings.push(Warning::NoScheduler { queue, scheduler: spec.scheduler });
        }
        for (&sched, spec) in self.scheds.iter() {
            let missing = spec.scheduler.parent.filter(|&parent| !self.has_link(parent));
            warnings.extend(missing.map(|parent| Warning::NoParent { sched, parent }));
        }
        warnings.extend(self.rules.iter().flat_map(|entry| self.rule_warnings(&entry.rule)));
        warnings
    }

    /// Warnings about objects that a rule names but that do not exist or have no link.
    pub(super) fn rule_warnings(&self, rule: &Rule) -> Vec<Warning> {
        let number = rule.number;
        let missing = |kind, target| Warning::NoTarget { rule: number, kind, number: target };
        let action = match rule.action {
            RuleAction::Pipe(Target::Number(pipe)) if !self.has_link(pipe) => {
                Some(missing(ObjectKind::Pipe, pipe))
            }
            RuleAction::Pipe(Target::Number(sched)) if self.is_inner(sched) => {
                Some(Warning::Inner { rule: number, sched })
            }
            RuleAction::Queue(Target::Number(queue)) if !self.queues.contains_key(&queue) => {
                Some(missing(ObjectKind::Queue, queue))
            }
            _ => None,
        };
        let tables = super::tables::tables_of(rule)
            .filter(|name| !self.tables.contains_key(*name))
            .map(|name| Warning::NoTable { rule: number, name: name.clone() });
        action.into_iter().chain(tables).collect()
    }

    /// Whether a warning still holds in this configuration.
    pub(super) fn still_holds(&self, warning: &Warning) -> bool {
        match warning {
            Warning::NoTarget { kind: ObjectKind::Queue, number, .. } => {
                !self.queues.contains_key(number)
            }
            Warning::NoTarget { number, .. } => !self.has_link(*number),
            Warning::NoScheduler { scheduler, .. } => !self.has_link(*scheduler),
            Warning::NoParent { parent, .. } => !self.has_link(*parent),
            Warning::NoTable { name, .. } => !self.tables.contains_key(name),
            _ => true,
        }
    }

    /// Whether there is a pipe or scheduler with this number.
    fn has_link(&self, number: u16) -> bool {
        self.pipes.contains_key(&number) || self.scheds.contains_key(&number)
    }

    /// The pipe or scheduler with the link that a queue's packets finally use: the top of the
    /// hierarchy that contains `number`, possibly `number` itself.
    pub fn root_of(&self, number: u16) -> u16 {
        let above = |&id: &u16| self.scheds.get(&id).and_then(|sched| sched.scheduler.parent);
        core::iter::successors(Some(number), above).take(MOST_LEVELS).last().unwrap_or(number)
    }

    /// Whether `number` is a scheduler that is a flow of another scheduler.
    fn is_inner(&self, number: u16) -> bool {
        self.scheds.get(&number).is_some_and(|sched| sched.scheduler.parent.is_some())
    }

    fn link_numbers(&self) -> impl Iterator<Item = u16> {
        self.pipes.keys().chain(self.scheds.keys()).copied()
    }

    /// The queues that feed pipe or scheduler `number`.
    pub fn queues_of(&self, number: u16) -> impl Iterator<Item = u16> {
        self.queues
            .iter()
            .filter(move |(_, spec)| spec.scheduler == number)
            .map(|(&queue, _)| queue)
    }

    /// The settings of a queue that differ from the default but that its scheduler ignores.
    fn unused_settings(&self, queue: u16) -> Vec<Warning> {
        let Some(spec) = self.queues.get(&queue) else { return Vec::new() };
        self.unused((ObjectKind::Queue, queue), &spec.flowset, spec.scheduler)
    }

    /// The settings of an inner scheduler that differ from the default but that its parent ignores.
    fn unused_by_parent(&self, number: u16) -> Vec<Warning> {
        let Some(spec) = self.scheds.get(&number) else { return Vec::new() };
        let Some(parent) = spec.scheduler.parent else { return Vec::new() };
        self.unused((ObjectKind::Sched, number), &spec.link.pipe.queue, parent)
    }

    fn unused(
        &self,
        (kind, number): (ObjectKind, u16),
        given: &FlowsetConfig,
        scheduler: u16,
    ) -> Vec<Warning> {
        let Some(sched) = self.scheds.get(&scheduler) else { return Vec::new() };
        let row = sched.scheduler.discipline.row();
        let default = FlowsetConfig::default();
        let set = [
            ("weight", given.weight != default.weight),
            ("pri", given.priority != default.priority),
            ("rate", given.rate.is_some()),
            ("ceil", given.ceil.is_some()),
            ("burst", given.burst != default.burst),
            ("deadline", given.deadline != default.deadline),
        ];
        let looks_at = |setting: &str| row.traits.flow.iter().any(|p| p.name == setting);
        let unused = set.into_iter().filter(|&(setting, given)| given && !looks_at(setting));
        unused
            .map(|(setting, _)| {
                let others =
                    if ["weight", "pri"].contains(&setting) { &["weight", "pri"][..] } else { &[] };
                let instead =
                    others.iter().copied().find(|other| *other != setting && looks_at(other));
                Warning::Unused { kind, number, setting, scheduler: row.name, instead }
            })
            .collect()
    }
}

/// Checks that a flow suits its scheduler.
fn fits(
    (kind, number): (ObjectKind, u16),
    flow: &FlowsetConfig,
    discipline: &Discipline,
) -> Result<(), ApplyError> {
    let rate = flow.rate.map_or(0, Rate::bps);
    sched::check_flow(discipline, rate, flow.priority).map_err(|misfit| ApplyError::Misfit {
        kind,
        number,
        misfit,
    })
}
