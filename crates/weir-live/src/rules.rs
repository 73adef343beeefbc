//! Rules of a session: compiling them for their place, replacing them while packets are inside, and
//! reporting their counters.

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

/// The place at which rules examine packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The interface of the machine at port 0. The machine's packets go out, and packets for the
    /// machine come in.
    Machine,
    /// A bridge between the two ports.
    Bridge,
}

/// The rules in force at a place, in source form and compiled.
#[derive(Clone, Debug)]
pub struct ActiveRules {
    ruleset: Arc<Ruleset>,
    place: Place,
    classifier: Arc<Classifier>,
}

impl ActiveRules {
    /// Compiles `ruleset` for `place`.
    #[must_use]
    pub fn new(ruleset: Arc<Ruleset>, place: Place) -> Self {
        let classifier = Arc::new(Classifier::compile(&ruleset, &place));
        Self { ruleset, place, classifier }
    }

    /// The rules in source form.
    #[must_use]
    pub fn ruleset(&self) -> &Arc<Ruleset> {
        &self.ruleset
    }

    /// The compiled rules, which select a pipe or queue for each packet.
    #[must_use]
    pub fn classifier(&self) -> &Arc<Classifier> {
        &self.classifier
    }

    /// The place at which the rules examine packets.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Replaces the rules, and returns the changes. Unchanged tables are not compiled again.
    pub fn replace(&mut self, new: &Arc<Ruleset>) -> Changes {
        let changes = Changes::between(&self.ruleset, new);
        if !changes.is_empty() {
            self.classifier = self.recompiled(&changes, new);
        }
        self.ruleset = Arc::clone(new);
        changes
    }

    /// Compiles the rules again for new addresses of the interfaces.
    pub fn relocate(&mut self, interfaces: Vec<PlaceInterface>) {
        self.place.interfaces = interfaces;
        self.classifier = Arc::new(Classifier::compile(&self.ruleset, &self.place));
    }

    fn recompiled(&self, changes: &Changes, new: &Ruleset) -> Arc<Classifier> {
        if changes.rules {
            return Arc::new(self.classifier.recompile(new));
        }
        let old = &self.ruleset;
        let Some(first) = changes.tables.first() else { return Arc::clone(&self.classifier) };
        if let ([_], Some(before), Some(after)) =
            (changes.tables.as_slice(), old.tables.get(first), new.tables.get(first))
        {
            let gone = before.entries.keys().filter(|key| !after.entries.contains_key(key));
            let set = after
                .entries
                .iter()
                .filter(|(key, value)| before.entries.get(key) != Some(value))
                .map(|(key, _)| key);
            let keys: Vec<_> = gone.chain(set).take(FEW_KEYS + 1).cloned().collect();
            if before.kind == after.kind && keys.len() <= FEW_KEYS {
                return Arc::new(self.classifier.update_table(new, first, &keys));
            }
        }
        Arc::new(self.classifier.recompile(new))
    }
}

/// Compiles rules for a session with two ends.
pub(crate) fn between(ruleset: Ruleset, place: Where, ends: &[End]) -> ActiveRules {
    let interface = |(number, end): (u16, &End)| PlaceInterface {
        number,
        name: end.interface.as_str().into(),
        v4: end.ipv4.map(u32::from).into_iter().collect(),
        v6: end.ipv6.map(u128::from).into_iter().collect(),
    };
    // Rules of the machine refer only to its own interface, that of port 0.
    let seen = match place {
        Where::Machine => 1,
        Where::Bridge => 2,
    };
    let interfaces = (0..).zip(ends).take(seen).map(interface).collect();
    let passes = passes(place).concat();
    ActiveRules::new(Arc::new(ruleset), Place { interfaces, passes, ..Place::default() })
}

/// The handling of offload trains under these rules: `Whole` if there are pipes and every pipe is
/// configured with it.
pub(crate) fn offloads(ruleset: &Ruleset) -> Gso {
    let whole = !ruleset.pipes.is_empty()
        && ruleset.pipes.values().all(|pipe| pipe.gso == weir_rules::Gso::Whole);
    if whole { Gso::Whole } else { Gso::Split }
}

/// The passes in which rules examine packets from port 0 and packets from port 1.
pub(crate) fn passes(place: Where) -> [Vec<Pass>; 2] {
    let incoming = |recv, bridged| Pass { out: false, bridged, recv: Some(recv), xmit: None };
    let outgoing = |recv, xmit, bridged| Pass { out: true, bridged, recv, xmit: Some(xmit) };
    match place {
        Where::Machine => [vec![outgoing(None, 0, false)], vec![incoming(0, false)]],
        Where::Bridge => [(0, 1), (1, 0)]
            .map(|(from, to)| vec![incoming(from, true), outgoing(Some(from), to, true)]),
    }
}

/// The counters of rules and pipes as results.
pub(crate) fn results(
    ruleset: &Ruleset,
    report: &LiveReport,
) -> (Vec<RuleResult>, Vec<PipeResult>) {
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
    // The text of a rule is that of `list` without the number, which is a separate field.
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

/// Maximum number of changed entries of a table that are compiled one by one. If more entries
/// change, the whole table is compiled.
const FEW_KEYS: usize = 256;
