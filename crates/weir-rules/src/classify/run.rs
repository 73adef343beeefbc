//! The search: applies a program to a packet.

use weir_core::units::Nanos;
use weir_wire::{IpVersion, fields};

use super::classifier::Classifier;
use super::compile::argument;
use super::dynamic::{Parent, Seen};
use super::index::Index;
use super::program::{Head, Inputs, Keep, Program, Step, find};
use super::state::State;
use super::view::View;
use super::{Fate, Packet, Resume, Tags, Verdict};
use crate::rule::{Name, RuleAction, Target};

/// The number of jumps after which the search regards the rules as a loop. No useful script needs
/// so many jumps, and a loop reaches the number quickly.
pub const JUMPS: u32 = 1000;

/// The effect of a rule on the search.
pub(super) enum Outcome {
    /// The rule does not match.
    Unmatched,
    /// The search continues with the next rule.
    Next,
    /// The search continues with the step at this position.
    Jump(usize),
    /// The search ends.
    Done(Fate),
}

/// The state of one search.
pub(super) struct Run<'a> {
    pub(super) classifier: &'a Classifier,
    pub(super) program: &'a Program,
    index: Option<&'a Index>,
    pub(super) state: &'a mut State,
    pub(super) view: View<'a>,
    pub(super) tags: &'a mut Tags,
    now: Nanos,
    /// The number of wire packets and of bytes that the verdict applies to.
    weight: (u64, u64),
    /// The DSCP that a rule has set, if any.
    pub(super) dscp: Option<u8>,
    /// Whether dynamic rules need no further check: the packet's dynamic rule was found, or the
    /// packet cannot have one.
    settled: bool,
    /// The number of the rule that created the packet's dynamic rule, once the dynamic rule is
    /// found. Only a journey reads this number, and clears it before each step.
    pub(super) by: Option<u16>,
    jumps: u32,
    /// Whether `prob` lets every packet match, as a journey may request.
    pub(super) always: bool,
}

impl Classifier {
    /// Decides about a packet, and counts it at the rules that match. `from` is the point from
    /// which the search continues after an earlier verdict; `None` starts at the first rule.
    #[inline]
    pub fn classify(
        &self,
        state: &mut State,
        packet: &mut Packet<'_>,
        from: Option<Resume>,
    ) -> Verdict {
        let bytes = packet.len.into();
        self.classify_train(state, packet, from, 1, bytes)
    }

    /// Decides about an offload train of `packets` wire packets with `bytes` network-layer bytes in
    /// total. All of them get the same verdict. If [`Self::needs_each_segment`] returns `true`, the
    /// caller must classify each segment instead.
    pub fn classify_train(
        &self,
        state: &mut State,
        packet: &mut Packet<'_>,
        from: Option<Resume>,
        packets: u64,
        bytes: u64,
    ) -> Verdict {
        state.carry_over(self);
        run(self, state, packet, from, (packets, bytes))
    }
}

impl State {
    /// Adapts the state to the rules of `classifier`. Rules of the previous classifier that still
    /// exist keep their counters and random streams; the dynamic rules of other rules are removed.
    ///
    /// [`Classifier::classify`] does this too; an earlier call keeps the work off the packet path.
    pub fn carry_over(&mut self, classifier: &Classifier) {
        self.take_over(classifier.heads());
    }
}

fn run(
    classifier: &Classifier,
    state: &mut State,
    packet: &mut Packet<'_>,
    from: Option<Resume>,
    weight: (u64, u64),
) -> Verdict {
    let (mut run, start) = begin(classifier, state, packet, from, weight);
    let fate = run.search(start);
    Verdict { fate, dscp: run.dscp }
}

/// Returns a search and its first step. The search begins at the first rule, or after an earlier
/// verdict.
#[inline]
pub(super) fn begin<'a>(
    classifier: &'a Classifier,
    state: &'a mut State,
    packet: &'a mut Packet<'_>,
    from: Option<Resume>,
    weight: (u64, u64),
) -> (Run<'a>, usize) {
    let (program, index) = classifier.program(&packet.pass);
    let view = View::new(packet);
    let start = from.map_or(0, |resume| match find(classifier.heads(), resume.number, resume.id) {
        Ok(at) => program.after(at),
        // The rule was deleted: continue at the first rule with a larger number.
        Err(at) => program.steps.partition_point(|step| step.rule < at),
    });
    state.calls.clear();
    let settled = view.ip == IpVersion::None;
    let (now, tags) = (packet.now, &mut *packet.tags);
    let run = Run {
        classifier,
        program,
        index,
        state,
        view,
        tags,
        now,
        weight,
        dscp: None,
        settled,
        by: None,
        jumps: 0,
        always: false,
    };
    (run, start)
}

impl Run<'_> {
    fn search(&mut self, start: usize) -> Fate {
        let program = self.program;
        let Some(index) = self.index else { return self.follow(start, |at, _| at) };
        // The search borrows the state, so the cursors are taken out of it.
        let mut cursors = std::mem::take(&mut self.state.cursors);
        index.gather(&self.view, &mut cursors);
        index.seek(&mut cursors, start);
        let fate = self.follow(start, |at, jumped| {
            if jumped {
                index.seek(&mut cursors, at);
            }
            index.next(&mut cursors, at).unwrap_or(program.steps.len())
        });
        self.state.cursors = cursors;
        fate
    }

    /// Tries the steps from `start` on. `next(at, jumped)` returns the first step to try at or
    /// after position `at`; `jumped` is `true` if `at` is the target of a jump.
    #[inline]
    fn follow(&mut self, start: usize, mut next: impl FnMut(usize, bool) -> usize) -> Fate {
        let program = self.program;
        let bridged_out = self.view.pass.bridged && self.view.pass.out;
        let mut at = next(start, false);
        while let Some(step) = program.steps.get(at) {
            let out_of_scope =
                step.ip && self.view.ip == IpVersion::None || step.inwards && bridged_out;
            let outcome = if out_of_scope { Outcome::Unmatched } else { self.step(step) };
            at = match outcome {
                Outcome::Unmatched | Outcome::Next => next(at + 1, false),
                Outcome::Jump(to) => {
                    self.jumps += 1;
                    if self.jumps > JUMPS {
                        self.state.count_loop();
                        return Fate::Deny;
                    }
                    next(to, true)
                }
                Outcome::Done(fate) => return fate,
            };
        }
        let default = self.classifier.heads().len() - 1;
        self.state.count(default as u32, self.weight.0, self.weight.1, self.now);
        Fate::Allow
    }

    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Outcome {
        let mut found = None;
        if step.probes {
            return self.step_with_state(step);
        }
        let inputs = Inputs {
            tables: self.classifier.tables(),
            place: self.classifier.place(),
            tags: self.tags,
        };
        if !self.program.matches(step, &self.view, inputs, &mut found) {
            return Outcome::Unmatched;
        }
        let head = &self.classifier.heads()[step.rule as usize];
        if !self.targets_known(head, found) || !self.lucky(head) {
            return Outcome::Unmatched;
        }
        self.matched(step.rule, head, found)
    }

    /// Runs a rule that checks the dynamic rules after its `prob` and before its other tests.
    fn step_with_state(&mut self, step: &Step) -> Outcome {
        let head = &self.classifier.heads()[step.rule as usize];
        let Some(keep) = &head.keep else { return Outcome::Unmatched };
        if !self.lucky(head) {
            return Outcome::Unmatched;
        }
        if let Some(outcome) = self.probe(keep.name.as_ref()) {
            return outcome;
        }
        let mut found = None;
        let inputs = Inputs {
            tables: self.classifier.tables(),
            place: self.classifier.place(),
            tags: self.tags,
        };
        if !self.program.matches(step, &self.view, inputs, &mut found)
            || !self.targets_known(head, found)
        {
            return Outcome::Unmatched;
        }
        self.matched(step.rule, head, found)
    }

    /// Whether a rule's `prob` lets it match.
    #[inline]
    fn lucky(&mut self, head: &Head) -> bool {
        match (head.probability, head.stream) {
            (Some(probability), Some(stream)) if !self.always => {
                self.state.stream(stream).is_some_and(|stream| stream.happens(probability))
            }
            _ => true,
        }
    }

    /// Whether every `tablearg` of a rule has a value that is valid for its purpose.
    #[inline]
    fn targets_known(&self, head: &Head, found: Option<u32>) -> bool {
        let number = |target: Target| {
            argument(target, found).is_some_and(|value| (1..=u32::from(u16::MAX)).contains(&value))
        };
        let any = |target: Target| argument(target, found).is_some();
        let action = match head.action {
            RuleAction::Pipe(target) | RuleAction::Queue(target) => number(target),
            RuleAction::SkipTo(target) | RuleAction::Call(target) | RuleAction::SetDscp(target) => {
                any(target)
            }
            _ => true,
        };
        let limit =
            head.keep.as_ref().and_then(|keep| keep.limit).is_none_or(|(_, most)| any(most));
        action && limit && head.tag.is_none_or(number) && head.untag.is_none_or(number)
    }

    /// Follows the packet's dynamic rule: returns the outcome of the rule that created it. `None`
    /// if there is nothing to follow: the packet has no dynamic rule, or has followed it in this
    /// search already, or the creating rule is gone or in a disabled set.
    fn probe(&mut self, name: Option<&Name>) -> Option<Outcome> {
        if self.settled {
            return None;
        }
        let seen = seen(&self.view, self.weight, self.now);
        let parent = self.state.dynamic().find(name, seen)?;
        let rule = find(self.classifier.heads(), parent.number, parent.id).ok()?;
        let head = &self.classifier.heads()[rule as usize];
        if !head.enabled {
            return None;
        }
        self.settled = true;
        self.by = Some(parent.number);
        match self.act(rule, head, parent.argument) {
            Outcome::Next => Some(Outcome::Jump(self.program.after(rule))),
            other => Some(other),
        }
    }

    /// Handles a match: creates the rule's dynamic rule, if any, then performs the rule's action.
    /// If the dynamic rule cannot be created, the packet is denied instead.
    fn matched(&mut self, rule: u32, head: &Head, found: Option<u32>) -> Outcome {
        if let Some(keep) = &head.keep
            && !self.install(head, keep, found)
        {
            self.state.count(rule, self.weight.0, self.weight.1, self.now);
            return Outcome::Done(Fate::Deny);
        }
        self.act(rule, head, found)
    }

    /// Creates a dynamic rule for the packet's flow, if it has none. Returns whether it has one
    /// now; a packet that is not IP needs none, and the result is `true`.
    fn install(&mut self, head: &Head, keep: &Keep, found: Option<u32>) -> bool {
        if self.view.ip == IpVersion::None {
            return true;
        }
        let parent = Parent { number: head.number, id: head.id, argument: found };
        let limit = keep.limit.and_then(|(mask, most)| Some((mask, argument(most, found)?)));
        let seen = seen(&self.view, self.weight, self.now);
        self.state.dynamic().install(parent, keep.name.as_ref(), limit, seen)
    }

    /// Counts a match, changes the packet's tags, and performs the action.
    #[inline]
    fn act(&mut self, rule: u32, head: &Head, found: Option<u32>) -> Outcome {
        if let RuleAction::CheckState(name) = &head.action {
            // The packet is counted at the rule that created the dynamic rule.
            return self.probe(name.as_ref()).unwrap_or(Outcome::Unmatched);
        }
        self.state.count(rule, self.weight.0, self.weight.1, self.now);
        if head.tag.is_some() || head.untag.is_some() {
            self.retag(head, found);
        }
        let resume =
            (!self.classifier.one_pass()).then_some(Resume { number: head.number, id: head.id });
        let value = |target| argument(target, found).unwrap_or(0);
        match head.action {
            RuleAction::Allow => Outcome::Done(Fate::Allow),
            RuleAction::Deny => Outcome::Done(Fate::Deny),
            RuleAction::Count | RuleAction::CheckState(_) => Outcome::Next,
            RuleAction::Pipe(target) => Outcome::Done(Fate::Pipe(value(target) as u16, resume)),
            RuleAction::Queue(target) => Outcome::Done(Fate::Queue(value(target) as u16, resume)),
            // `skipto` only goes forwards, even if a table contains a lower number.
            RuleAction::SkipTo(target) => {
                Outcome::Jump(self.position(value(target).max(u32::from(head.number) + 1)))
            }
            RuleAction::Call(target) => {
                if self.state.calls.len() >= CALLS {
                    return Outcome::Next;
                }
                self.state.calls.push(rule);
                Outcome::Jump(self.position(value(target)))
            }
            RuleAction::Return => match self.state.calls.pop() {
                Some(caller) => Outcome::Jump(self.program.after(caller)),
                None => Outcome::Next,
            },
            RuleAction::SetDscp(target) => {
                let dscp = value(target) as u8 & 0x3f;
                if self.view.ip != IpVersion::None {
                    self.dscp = Some(dscp);
                    self.view.dscp = dscp;
                }
                Outcome::Next
            }
        }
    }

    /// The position of the first step with this rule number or a larger one. Without such a step,
    /// it is the number of steps, which stands for the default rule.
    fn position(&self, number: u32) -> usize {
        u16::try_from(number)
            .map_or(self.program.steps.len(), |number| self.program.position(number))
    }

    #[cold]
    fn retag(&mut self, head: &Head, found: Option<u32>) {
        let value = |target: Option<Target>| argument(target?, found).map(|value| value as u16);
        if let Some(tag) = value(head.untag) {
            self.tags.retain(|&given| given != tag);
        }
        if let Some(tag) = value(head.tag)
            && !self.tags.contains(&tag)
        {
            self.tags.push(tag);
        }
    }
}

/// The packet in the form that dynamic rules need.
fn seen<'a>(view: &View<'a>, weight: (u64, u64), now: Nanos) -> Seen<'a> {
    let flags =
        view.parsed.and_then(|parsed| fields::tcp(view.frame, parsed)).map_or(0, |tcp| tcp.flags);
    Seen { key: view.key, flags, packets: weight.0, bytes: weight.1, now }
}

/// Maximum depth of nested calls.
const CALLS: usize = 16;
