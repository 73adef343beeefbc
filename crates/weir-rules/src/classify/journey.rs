//! The journey of one packet through the rules: which rules match, why other rules do not match,
//! and where the packet goes. A journey counts nothing and keeps no state.
//!
//! A journey searches as [`super::run`] does, with the same programs, one step at a time. It uses a
//! separate state with a copy of the dynamic rules.
//!
//! # Bounds
//! A journey lists at most [`MOST_LISTED`] rules that do not match, and at most as many rules that
//! match and do not end a search. It ends after [`MOST_TRIED`] tried rules, or after [`MOST_HOPS`]
//! pipes and queues.

use weir_core::key::FlowKey;
use weir_core::units::{Nanos, Probability};
use weir_wire::{IpVersion, flow_key, parse, set_dscp};

use super::classifier::Classifier;
use super::compile::{failing, outwards, takes_frames};
use super::dynamic::DynamicEntry;
use super::program::{Head, find};
use super::run::{JUMPS, Outcome, Run, begin};
use super::state::State;
use super::{DEFAULT_ID, Fate, Packet, Pass, Resume, Tags};
use crate::rule::{Clause, RuleAction};

/// The journey of a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Journey {
    /// The searches, in order: one for each pass, and without `one_pass` one more after each pipe
    /// or queue.
    pub legs: Vec<Leg>,
    /// The number of rules that are not listed because there are too many.
    pub unlisted: u64,
    /// The end of the journey.
    pub end: End,
}

/// The end of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The packet is sent.
    Sent,
    /// A rule drops the packet.
    Denied,
    /// The packet is dropped, because the rules form a loop.
    Loop,
    /// The journey stopped early, because following the rules to the end takes too long.
    Unfinished,
}

/// One search.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// The pass in which the packet is examined.
    pub pass: Pass,
    /// Whether the search continues after the rule that sent the packet to a pipe or queue.
    pub resumed: bool,
    /// The listed rules, in the order of the search.
    pub visits: Vec<Visit>,
    /// The action for the packet.
    pub fate: Fate,
    /// The DSCP that is written into the packet.
    pub dscp: Option<u8>,
    /// The key of the packet, by which masks distinguish flows.
    pub key: FlowKey,
}

/// A listed rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The rule's number.
    pub number: u16,
    /// The rule's identity.
    pub id: u32,
    /// The effect of the rule on the packet.
    pub reaction: Reaction,
}

/// The effect of a rule on the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// The rule does not match.
    Missed(Missed),
    /// The rule matches.
    Matched {
        /// If the flow has a dynamic rule, the number of the rule that created it. The action of
        /// that rule then applies instead of this rule's action.
        by: Option<u16>,
        /// The probability of the rule; `None` if it always matches.
        probability: Option<Probability>,
        /// The number of the rule to which the search jumps, if it jumps; 65535 is the end.
        jump: Option<u16>,
    },
}

/// Why a rule does not match.
#[derive(Clone, Debug, PartialEq)]
pub enum Missed {
    /// The rule's set is disabled.
    Disabled,
    /// The packet leaves a bridge, where only rules with `out`, `xmit` or `not in` apply.
    ComesIn,
    /// The frame is not an IP packet.
    NotIp,
    /// This clause does not hold.
    Clause(Clause),
    /// The rule matches only with this probability, and [`Question::lucky`] is off.
    Probability(Probability),
    /// The flow has no dynamic rule.
    NoState,
    /// The look-up found no value that the rule's `tablearg` can use.
    NoValue,
}

/// The question: a packet, and the conditions of its journey.
#[derive(Debug)]
pub struct Question<'a> {
    /// The frame from its link-layer header on.
    pub frame: &'a [u8],
    /// The points at which rules examine the packet, in order.
    pub passes: &'a [Pass],
    /// The dynamic rules that exist.
    pub dynamic: &'a [DynamicEntry],
    /// Whether rules with `prob` match; if not, none of them does.
    pub lucky: bool,
    /// The current time.
    pub now: Nanos,
}

impl Classifier {
    /// Whether any rule keeps or checks dynamic rules, so that a [`Question`] needs them.
    pub fn keeps_state(&self) -> bool {
        let keeps =
            |head: &Head| head.keep.is_some() || matches!(head.action, RuleAction::CheckState(_));
        self.heads().iter().any(keeps)
    }

    /// The journey of a packet through the rules.
    pub fn journey(&self, question: &Question<'_>) -> Journey {
        let mut state = State::new(0);
        state.carry_over(self);
        for entry in question.dynamic {
            let at = find(self.heads(), entry.number, entry.id);
            let keep = at.ok().and_then(|at| self.heads()[at as usize].keep.as_ref());
            let mask = keep.and_then(|keep| keep.limit).map(|(mask, _)| mask);
            state.dynamic().restore(entry, mask);
        }
        let mut frame = question.frame.to_vec();
        let mut guide =
            Guide { lucky: question.lucky, missed: 0, passed: 0, tried: 0, unlisted: 0 };
        let mut legs = Vec::new();
        let (mut index, mut from, mut hops) = (0, None::<Resume>, 0);
        let mut tags = Tags::new();
        let end = loop {
            let Some(&pass) = question.passes.get(index) else { break End::Sent };
            let mut parsed = parse(&frame).ok();
            let key = parsed.as_ref().map(|parsed| flow_key(&frame, parsed)).unwrap_or_default();
            let mut packet = Packet {
                frame: &frame,
                parsed: parsed.as_ref(),
                key: &key,
                len: parsed.as_ref().map_or(0, |parsed| parsed.network_len),
                pass,
                tags: &mut tags,
                now: question.now,
            };
            let resumed = from.is_some();
            let weight = (1, u64::from(packet.len));
            let (mut run, start) = begin(self, &mut state, &mut packet, from.take(), weight);
            run.always = question.lucky;
            let (visits, found) = guide.search(&mut run, start);
            let dscp = run.dscp;
            let fate = found.unwrap_or(Fate::Deny);
            legs.push(Leg { pass, resumed, visits, fate, dscp, key });
            if found.is_none() {
                let late = guide.tried >= MOST_TRIED;
                break if late { End::Unfinished } else { End::Loop };
            }
            if let (Some(dscp), Some(parsed)) = (dscp, &mut parsed) {
                set_dscp(&mut frame, parsed, dscp);
            }
            match fate {
                Fate::Allow => index += 1,
                Fate::Deny => break End::Denied,
                Fate::Pipe(_, resume) | Fate::Queue(_, resume) => {
                    hops += 1;
                    if hops > MOST_HOPS {
                        break End::Loop;
                    }
                    from = resume;
                    index += usize::from(resume.is_none());
                }
            }
        };
        Journey { legs, unlisted: guide.unlisted, end }
    }
}

/// Follows searches and lists rules.
struct Guide {
    lucky: bool,
    /// Number of listed rules that do not match.
    missed: usize,
    /// Number of listed rules that match and do not end the search.
    passed: usize,
    /// Number of tried rules.
    tried: usize,
    unlisted: u64,
}

impl Guide {
    /// Follows one search from step `start` on. Returns the listed rules and the packet's fate;
    /// `None` instead of a fate if the rules form a loop or the search takes too long.
    fn search(&mut self, run: &mut Run<'_>, start: usize) -> (Vec<Visit>, Option<Fate>) {
        let mut visits = Vec::new();
        let (program, default) = (run.program, run.classifier.heads().len() - 1);
        let mut at = start;
        // The next rule to list. The program lacks the rules that are impossible in this pass, but
        // they are listed too.
        let mut next = at.checked_sub(1).map_or(0, |before| program.steps[before].rule + 1);
        let mut jumps = 0;
        loop {
            let Some(step) = program.steps.get(at) else {
                (next..default as u32).for_each(|rule| self.miss(run, rule, &mut visits));
                let reaction = Reaction::Matched { by: None, probability: None, jump: None };
                let number = run.classifier.heads()[default].number;
                visits.push(Visit { number, id: DEFAULT_ID, reaction });
                return (visits, Some(Fate::Allow));
            };
            (next..step.rule).for_each(|rule| self.miss(run, rule, &mut visits));
            self.tried += 1;
            if self.tried >= MOST_TRIED {
                return (visits, None);
            }
            next = step.rule + 1;
            let head = &run.classifier.heads()[step.rule as usize];
            let bridged_out = run.view.pass.bridged && run.view.pass.out;
            let outside = step.ip && run.view.ip == IpVersion::None || step.inwards && bridged_out;
            let unlucky = head.probability.is_some() && !self.lucky;
            run.by = None;
            let outcome = if outside || unlucky { Outcome::Unmatched } else { run.step(step) };
            let by = run.by;
            let matched = |jump| {
                let reaction = Reaction::Matched { by, probability: head.probability, jump };
                Visit { number: head.number, id: head.id, reaction }
            };
            match outcome {
                Outcome::Unmatched => {
                    self.miss(run, step.rule, &mut visits);
                    at += 1;
                }
                Outcome::Next => {
                    self.pass(matched(None), &mut visits);
                    at += 1;
                }
                Outcome::Jump(to) => {
                    jumps += 1;
                    let target = program.steps.get(to);
                    let rule = target.map_or(default, |step| step.rule as usize);
                    let number = run.classifier.heads()[rule].number;
                    self.pass(matched(Some(number)), &mut visits);
                    if jumps > JUMPS {
                        return (visits, None);
                    }
                    (at, next) = (to, rule as u32);
                }
                Outcome::Done(fate) => {
                    visits.push(matched(None));
                    return (visits, Some(fate));
                }
            }
        }
    }

    /// Lists a rule that matches and does not end the search, or counts it as unlisted.
    fn pass(&mut self, visit: Visit, visits: &mut Vec<Visit>) {
        if self.passed < MOST_LISTED {
            self.passed += 1;
            visits.push(visit);
        } else {
            self.unlisted += 1;
        }
    }

    /// Lists a rule that does not match, or counts it as unlisted.
    fn miss(&mut self, run: &Run<'_>, rule: u32, visits: &mut Vec<Visit>) {
        if self.missed >= MOST_LISTED {
            self.unlisted += 1;
            return;
        }
        self.missed += 1;
        let head = &run.classifier.heads()[rule as usize];
        let reaction = Reaction::Missed(self.why(run, rule as usize));
        visits.push(Visit { number: head.number, id: head.id, reaction });
    }

    fn why(&self, run: &Run<'_>, rule: usize) -> Missed {
        let (classifier, view) = (run.classifier, &run.view);
        let head = &classifier.heads()[rule];
        let rule = &classifier.source()[rule].rule;
        if !head.enabled {
            return Missed::Disabled;
        }
        if view.pass.bridged && view.pass.out && !outwards(rule) {
            return Missed::ComesIn;
        }
        if view.ip == IpVersion::None && !takes_frames(rule) {
            return Missed::NotIp;
        }
        if matches!(head.action, RuleAction::CheckState(_)) {
            return Missed::NoState;
        }
        let clause = failing(rule, classifier.place(), classifier.tables(), view, &*run.tags);
        match (clause, head.probability) {
            (Some(clause), _) => Missed::Clause(clause.clone()),
            (None, Some(probability)) if !self.lucky => Missed::Probability(probability),
            (None, _) => Missed::NoValue,
        }
    }
}

/// Maximum number of listed rules that do not match, and of listed rules that match and do not end
/// a search.
pub const MOST_LISTED: usize = 200;
/// Maximum number of tried rules.
pub const MOST_TRIED: usize = 1_000_000;
/// Maximum number of pipes and queues on a journey, as in the live loop.
pub const MOST_HOPS: u32 = 64;
