//! The trace of one packet through the rules of a session or of the daemon.

use std::collections::BTreeSet;

use weir_control::dashboard::{
    Object, TraceError, TraceQuestion, Traced, TracedLeg, TracedObject, TracedRule,
};
use weir_core::key::{FlowKey, FlowMask};
use weir_linux::clock;
use weir_rules::classify::{DEFAULT_ID, End, Fate, Leg, Missed, Place, Question, Reaction, Visit};
use weir_rules::command::Command;
use weir_rules::packet::{PacketError, PacketSpec};
use weir_rules::quantity::write_probability;
use weir_rules::rule::{Rule, RuleAction, Target};
use weir_rules::ruleset::Ruleset;
use weir_rules::script;

use super::counts::unanswered;
use super::members::name_of;
use crate::session::Control;

/// Follows a packet through the rules that are in force.
pub(super) fn traced(control: &Control, question: &TraceQuestion) -> Result<Traced, TraceError> {
    let spec: PacketSpec = question.packet.parse().map_err(|error: PacketError| {
        let (start, end) = error.place;
        TraceError::Packet { message: error.message, start, end }
    })?;
    let Some((rules, classifier, place)) = control.compiled_rules() else {
        return Err(TraceError::Impossible("there are no rules".to_owned()));
    };
    let lanes = control.lane_passes();
    let wanted = |(name, _): &&(String, _)| question.lane.as_ref().is_none_or(|lane| lane == name);
    let Some((lane, passes)) = lanes.iter().find(wanted) else {
        let names: Vec<&str> = lanes.iter().map(|(name, _)| name.as_str()).collect();
        let name = question.lane.clone().unwrap_or_default();
        return Err(TraceError::NoLane { name, known: format!("there are {}", names.join(", ")) });
    };
    let dynamic = if classifier.keeps_state() {
        control.engine().dynamic_rules().map_err(unanswered)?
    } else {
        Vec::new()
    };
    let frame = spec.frame();
    let journey = classifier.journey(&Question {
        frame: &frame,
        passes,
        dynamic: &dynamic,
        lucky: question.lucky,
        now: clock::now(),
    });
    let mut end = match journey.end {
        End::Sent => "sent",
        End::Denied => "denied",
        End::Loop => "loop",
        End::Unfinished => "unfinished",
    };
    let mut legs = Vec::new();
    let mut entered: Vec<String> = Vec::new();
    for leg in &journey.legs {
        let enters = enters(&rules, leg);
        let missing = enters.iter().any(|object| object.spec.is_empty());
        entered.extend(enters.first().map(|object| object.name.clone()));
        let visits = leg.visits.iter().map(|visit| traced_rule(&rules, leg, visit)).collect();
        let entered_before = entered.len() - usize::from(!enters.is_empty());
        let after = entered[..entered_before].last().filter(|_| leg.resumed);
        legs.push(TracedLeg { place: where_at(&place, leg, after), rules: visits, enters });
        if missing {
            // The engine drops a packet for a pipe, queue or scheduler that does not exist.
            end = "no_object";
            break;
        }
    }
    let what = sentence(end, &entered, journey.legs.last());
    Ok(Traced {
        packet: spec.to_string(),
        lane: lane.clone(),
        legs,
        unlisted: journey.unlisted,
        end,
        what,
    })
}

/// The whole path in one sentence.
fn sentence(end: &str, entered: &[String], last: Option<&Leg>) -> String {
    let through = match entered {
        [] => String::new(),
        names => format!(" through {}", names.join(", then ")),
    };
    let after = if entered.is_empty() { String::new() } else { format!(", after going{through}") };
    match end {
        "sent" if entered.is_empty() => "It passes without a pipe.".to_owned(),
        "sent" => format!("It goes{through}."),
        "no_object" => {
            let missing = entered.last().map_or("", String::as_str);
            format!("It is dropped: {missing} does not exist.")
        }
        "denied" => {
            let rule = last.and_then(|leg| leg.visits.last()).map_or(0, |visit| visit.number);
            format!("It is dropped by rule {rule}{after}.")
        }
        "loop" => format!("It is dropped: the rules lead it round{after}."),
        _ => "It was not followed to the end: there are too many rules and jumps.".to_owned(),
    }
}

/// The place where rules examine a packet, in the language of the rules.
fn where_at(place: &Place, leg: &Leg, after: Option<&String>) -> String {
    let name = |number: u16| {
        place.interface(number).map_or_else(|| "any".to_owned(), |found| found.name.to_string())
    };
    let mut words = vec![if leg.pass.out { "out" } else { "in" }.to_owned()];
    words.extend(leg.pass.recv.map(|number| format!("recv {}", name(number))));
    words.extend(leg.pass.xmit.map(|number| format!("xmit {}", name(number))));
    match after {
        Some(object) => format!("{}, after {object}", words.join(" ")),
        None => words.join(" "),
    }
}

/// A rule that a packet meets, with its effect or the reason why it does not match.
fn traced_rule(rules: &Ruleset, leg: &Leg, visit: &Visit) -> TracedRule {
    let Visit { number, id, reaction } = visit;
    let found = rules.rules.iter().find(|entry| entry.id == *id).map(|entry| &*entry.rule);
    let command = found.map_or_else(
        || format!("add {number} allow ip from any to any"),
        |rule| script::print(&Command::Add(Box::new(rule.clone()))),
    );
    let is_last = leg.visits.last() == Some(visit);
    let what = match reaction {
        Reaction::Missed(missed) => why_not(missed),
        Reaction::Matched { by, probability, jump } => {
            // If a dynamic rule matched, the action is that of `by`, the rule that created it.
            let acting = by.and_then(|by| rules.rules.iter().find(|one| one.rule.number == by));
            let rule = acting.map(|entry| &*entry.rule).or(found);
            let mut what = act(rule, *id, *jump, is_last.then_some(leg.fate));
            if let Some(by) = by.filter(|by| by != number) {
                what = format!("the flow is in the dynamic rules of rule {by}: {what}");
            } else if by.is_some() {
                what = format!("the flow is in its dynamic rules: {what}");
            }
            if let Some(probability) = probability {
                what += &format!(" (with probability {})", write_probability(*probability));
            }
            what
        }
    };
    let matched = matches!(reaction, Reaction::Matched { .. });
    TracedRule { number: *number, id: *id, command, matched, what }
}

fn why_not(missed: &Missed) -> String {
    match missed {
        Missed::Disabled => "its set is disabled".to_owned(),
        Missed::ComesIn => {
            "is only for packets that come in; this one leaves the bridge".to_owned()
        }
        Missed::NotIp => "is only for IP packets".to_owned(),
        Missed::Clause(clause) => format!("not: {}", script::print_clause(clause)),
        Missed::Probability(p) => {
            format!("would match with probability {}", write_probability(*p))
        }
        Missed::NoState => "no dynamic rule has the flow".to_owned(),
        Missed::NoValue => "the table has no value that the action can use".to_owned(),
    }
}

/// What a matching rule does.
fn act(rule: Option<&Rule>, id: u32, jump: Option<u16>, fate: Option<Fate>) -> String {
    match fate {
        Some(Fate::Pipe(number, _)) => return format!("enters pipe {number}"),
        Some(Fate::Queue(number, _)) => return format!("enters queue {number}"),
        Some(Fate::Allow) => {
            let default = if id == DEFAULT_ID { ": no other rule decides" } else { "" };
            return format!("lets it pass{default}");
        }
        Some(Fate::Deny) => {
            let denies = rule.is_none_or(|rule| rule.action == RuleAction::Deny);
            let why = if denies { "" } else { ": the limit of its flows is reached" };
            return format!("drops it{why}");
        }
        None => {}
    }
    let to = jump.map_or_else(String::new, |number| format!("rule {number}"));
    match rule.map(|rule| &rule.action) {
        Some(RuleAction::SkipTo(_)) => format!("continues at {to}"),
        Some(RuleAction::Call(_)) if jump.is_some() => format!("calls {to}"),
        Some(RuleAction::Call(_)) => "calls nothing: too many calls are open".to_owned(),
        Some(RuleAction::Return) if jump.is_some() => format!("returns to {to}"),
        Some(RuleAction::Return) => "continues: nothing was called".to_owned(),
        Some(RuleAction::SetDscp(Target::Number(code))) => format!("sets the DSCP to {code}"),
        Some(RuleAction::SetDscp(Target::TableArg)) => "sets the DSCP of the table".to_owned(),
        Some(RuleAction::Count) => "counts it".to_owned(),
        _ => "matches".to_owned(),
    }
}

/// The objects that a packet enters: a pipe, or a queue and the schedulers above it.
fn enters(rules: &Ruleset, leg: &Leg) -> Vec<TracedObject> {
    match leg.fate {
        Fate::Pipe(number, _) => links(rules, number, &leg.key),
        Fate::Queue(number, _) => {
            let Some(queue) = rules.queues.get(&number) else {
                return vec![missing(&Object::Queue(number))];
            };
            let spec = script::print(&Command::ConfigQueue(number, Box::new((**queue).clone())));
            let own = object(&Object::Queue(number), spec, &queue.flowset.mask, &leg.key);
            [vec![own], links(rules, queue.scheduler, &leg.key)].concat()
        }
        Fate::Allow | Fate::Deny => Vec::new(),
    }
}

/// A pipe, or a scheduler with the schedulers above it.
fn links(rules: &Ruleset, number: u16, key: &FlowKey) -> Vec<TracedObject> {
    let mut objects = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = Some(number);
    while let Some(number) = next.filter(|number| seen.insert(*number)) {
        next = None;
        if let Some(pipe) = rules.pipes.get(&number) {
            let link = Command::ConfigPipe(number, Box::new((**pipe).clone()));
            let mask = &pipe.pipe.queue.mask;
            objects.push(object(&Object::Pipe(number), script::print(&link), mask, key));
        } else if let Some(sched) = rules.scheds.get(&number) {
            let spec = script::print(&Command::ConfigSched(number, Box::new((**sched).clone())));
            objects.push(object(&Object::Sched(number), spec, &sched.scheduler.mask, key));
            next = sched.scheduler.parent;
        } else {
            objects.push(missing(&Object::Pipe(number)));
        }
    }
    objects
}

fn object(object: &Object, spec: String, mask: &FlowMask, key: &FlowKey) -> TracedObject {
    let instance = (!mask.is_empty()).then(|| name_of(&mask.apply(key)));
    TracedObject { object: object.to_string(), name: object.name(), spec, instance }
}

fn missing(object: &Object) -> TracedObject {
    let (text, name) = (object.to_string(), object.name());
    TracedObject { object: text, name, ..TracedObject::default() }
}
