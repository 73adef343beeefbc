//! Rules in place of links: compiled for where they are applied, and their counters as results.

use std::sync::Arc;

use weir_core::stats::LinkStats;
use weir_linux::live::{Gso, LiveReport, RuleCount};
use weir_linux::topology::End;
use weir_report::{PipeResult, RuleResult};
use weir_rules::classify::{Classifier, DEFAULT_ID, Pass, Place, PlaceInterface};
use weir_rules::command::Command;
use weir_rules::rule::DEFAULT_RULE;
use weir_rules::ruleset::{Changes, Ruleset};
use weir_rules::script;

/// Where packets are when rules look at them.
#[derive(Clone, Copy, Debug)]
pub enum Where {
    /// At the interface of the machine behind port 0: what it sends goes out, what it receives
    /// comes in.
    Machine,
    /// On a bridge between the two ends.
    Bridge,
}

/// Rules ready to be put in force.
#[derive(Debug)]
pub struct Plan {
    /// Leads each packet to its pipe or queue.
    pub classifier: Arc<Classifier>,
    /// What makes the pipes, schedulers and queues.
    pub changes: Changes,
    /// The passes of both lanes.
    pub passes: [Vec<Pass>; 2],
    /// What happens to offload trains.
    pub gso: Gso,
}

/// Compiles rules for where they are applied.
pub fn plan(ruleset: &Ruleset, place: Where, ends: &[End; 2]) -> Plan {
    let passes = passes(place);
    let interface = |number: u16| {
        let End { interface, ipv4, ipv6, .. } = &ends[usize::from(number)];
        let (v4, v6) =
            (ipv4.map(u32::from).into_iter().collect(), ipv6.map(u128::from).into_iter().collect());
        PlaceInterface { number, name: interface.as_str().into(), v4, v6 }
    };
    let interfaces = match place {
        Where::Machine => vec![interface(0)],
        Where::Bridge => vec![interface(0), interface(1)],
    };
    let all = passes.iter().flatten().copied().collect();
    let place = Place { interfaces, passes: all, ..Place::default() };
    let whole = !ruleset.pipes.is_empty()
        && ruleset.pipes.values().all(|pipe| pipe.gso == weir_rules::Gso::Whole);
    Plan {
        classifier: Arc::new(Classifier::compile(ruleset, &place)),
        changes: Changes::between(&Ruleset::default(), ruleset),
        passes,
        gso: if whole { Gso::Whole } else { Gso::Split },
    }
}

/// Where packets from port 0, and those from port 1, are looked at.
fn passes(place: Where) -> [Vec<Pass>; 2] {
    let incoming = |recv, bridged| Pass { out: false, bridged, recv: Some(recv), xmit: None };
    let outgoing = |recv, xmit, bridged| Pass { out: true, bridged, recv, xmit: Some(xmit) };
    match place {
        Where::Machine => [vec![outgoing(None, 0, false)], vec![incoming(0, false)]],
        Where::Bridge => [(0, 1), (1, 0)]
            .map(|(from, to)| vec![incoming(from, true), outgoing(Some(from), to, true)]),
    }
}

/// What rules and pipes have counted, for the results.
pub fn results(ruleset: &Ruleset, report: &LiveReport) -> (Vec<RuleResult>, Vec<PipeResult>) {
    let counted = |id: u32| {
        report
            .rules
            .iter()
            .find(|count| count.id == id)
            .map(|count: &RuleCount| count.counters)
            .unwrap_or_default()
    };
    let result = |number, text, id| {
        let counters = counted(id);
        RuleResult { number, text, packets: counters.packets, bytes: counters.bytes }
    };
    // As `list` shows them: the number stands apart.
    let text = |rule: &weir_rules::rule::Rule| {
        let command = script::print(&Command::Add(Box::new(rule.clone())));
        let body = command.strip_prefix(&format!("add {} ", rule.number)).map(str::to_owned);
        body.unwrap_or(command)
    };
    let own =
        ruleset.rules.iter().map(|entry| result(entry.rule.number, text(&entry.rule), entry.id));
    let rules = own
        .chain([result(DEFAULT_RULE, "allow ip from any to any".to_owned(), DEFAULT_ID)])
        .collect();
    let pipe =
        |(number, stats): &(u16, LinkStats)| PipeResult { number: *number, stats: stats.clone() };
    (rules, report.pipes.iter().map(pipe).collect())
}
