//! Rulesets for the classifier's tests, and a bench that classifies packets.
use std::sync::Arc;

use weir_core::key::FlowKey;
use weir_core::units::Nanos;
use weir_rules::classify::{
    Classifier, Fate, Packet, Pass, Place, PlaceInterface, Resume, State, Tags, Verdict,
};
use weir_rules::rule::{Address, Clause, Rule, RuleAction, TableMatch, Term, Test};
use weir_rules::ruleset::{Entry, Ruleset};
use weir_rules::table::{Table, TableKey, TableKind};
use weir_wire::builder::PacketBuilder;

/// A packet goes out through interface 0.
pub(crate) const UP: Pass = Pass { out: true, bridged: false, recv: None, xmit: Some(0) };
/// A packet comes in through interface 0.
pub(crate) const DOWN: Pass = Pass { out: false, bridged: false, recv: Some(0), xmit: None };
/// A packet comes in through interface 0 of a bridge.
pub(crate) const BRIDGE_IN: Pass = Pass { out: false, bridged: true, recv: Some(0), xmit: None };
/// A packet goes out over a bridge, from interface 0 to interface 1.
pub(crate) const BRIDGE_OUT: Pass = Pass { out: true, bridged: true, recv: Some(0), xmit: Some(1) };
pub(crate) const PASSES: [Pass; 4] = [UP, DOWN, BRIDGE_IN, BRIDGE_OUT];

/// Creates a rule.
pub(crate) fn add(number: u16, action: RuleAction, body: impl IntoIterator<Item = Clause>) -> Rule {
    let body = body.into_iter().collect();
    Rule {
        number,
        set: 0,
        probability: None,
        action,
        tag: None,
        untag: None,
        log: false,
        body,
        comment: None,
    }
}

/// Creates a clause of one test.
pub(crate) fn term(test: Test) -> Clause {
    Clause(vec![Term { not: false, test }])
}

/// `from any to any`.
pub(crate) fn any() -> Vec<Clause> {
    vec![term(Test::SrcAddress(vec![Address::Any])), term(Test::DstAddress(vec![Address::Any]))]
}

/// A table as an address.
pub(crate) fn table(name: &str, value: Option<u32>) -> Address {
    Address::Table(TableMatch { table: name.into(), value })
}

/// Creates a ruleset of rules with identities from 1 on.
pub(crate) fn ruleset(rules: impl IntoIterator<Item = Rule>) -> Ruleset {
    let entry = |(id, rule): (u32, Rule)| Entry { id, rule: rule.into() };
    let rules: Vec<Entry> = (1..).zip(rules).map(entry).collect();
    Ruleset { next_id: rules.len() as u32 + 1, rules: rules.into(), ..Ruleset::default() }
}

/// The configuration that a script creates.
#[track_caller]
pub(crate) fn script(text: &str) -> Ruleset {
    let parsed = weir_rules::script::parse(text, "script", &weir_rules::NoFiles);
    assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics);
    let mut ruleset = Ruleset::default();
    ruleset.apply_all(&parsed.commands).expect("the script is carried out");
    ruleset
}

pub(crate) fn edit_rule(ruleset: &mut Ruleset, at: usize, change: impl FnOnce(&mut Rule)) {
    change(Arc::make_mut(&mut Arc::make_mut(&mut ruleset.rules)[at].rule));
}

pub(crate) fn set_table(
    ruleset: &mut Ruleset,
    name: &str,
    kind: TableKind,
    entries: impl IntoIterator<Item = (TableKey, u32)>,
) {
    let table = Table { kind, entries: entries.into_iter().collect(), ..Table::default() };
    Arc::make_mut(&mut ruleset.tables).insert(name.into(), table.into());
}

pub(crate) fn edit_table(ruleset: &mut Ruleset, name: &str, change: impl FnOnce(&mut Table)) {
    let tables = Arc::make_mut(&mut ruleset.tables);
    change(Arc::make_mut(tables.get_mut(name).expect("the table is there")));
}

/// Two interfaces with their own addresses.
pub(crate) fn place() -> Place {
    let interface = |number: u16, name: &str| PlaceInterface {
        number,
        name: name.into(),
        v4: vec![0x0a00_00fe + u32::from(number)],
        v6: vec![0xfd00_0000_0000_0000_0000_0000_0000_00fe + u128::from(number)],
    };
    Place {
        interfaces: vec![interface(0, "eth0"), interface(1, "wlan1")],
        passes: PASSES.to_vec(),
        ..Place::default()
    }
}

pub(crate) struct Bench {
    pub(crate) classifier: Classifier,
    pub(crate) state: State,
    pub(crate) tags: Tags,
    pub(crate) now: Nanos,
}

impl Bench {
    pub(crate) fn new(ruleset: &Ruleset) -> Self {
        Self::at(ruleset, &place())
    }

    pub(crate) fn at(ruleset: &Ruleset, place: &Place) -> Self {
        Self {
            classifier: Classifier::compile(ruleset, place),
            state: State::new(1),
            tags: Tags::new(),
            now: Nanos::ZERO,
        }
    }

    /// The fate of a packet that goes out.
    pub(crate) fn fate(&mut self, packet: &PacketBuilder) -> Fate {
        self.fate_from(packet, UP, None)
    }

    pub(crate) fn fate_from(
        &mut self,
        packet: &PacketBuilder,
        pass: Pass,
        from: Option<Resume>,
    ) -> Fate {
        self.verdict(packet, pass, from).fate
    }

    /// The verdict on a packet without tags. The bench keeps the tags that the rules set.
    pub(crate) fn verdict(
        &mut self,
        packet: &PacketBuilder,
        pass: Pass,
        from: Option<Resume>,
    ) -> Verdict {
        self.tags.clear();
        self.frame(&packet.frame(), pass, from)
    }

    /// The verdict on a frame that has the tags of the bench.
    pub(crate) fn frame(&mut self, frame: &[u8], pass: Pass, from: Option<Resume>) -> Verdict {
        let parsed = weir_wire::parse(frame).ok();
        let key = parsed
            .as_ref()
            .map_or_else(FlowKey::default, |parsed| weir_wire::flow_key(frame, parsed));
        let len = parsed.as_ref().map_or(frame.len() as u32, |parsed| parsed.network_len);
        let mut packet = Packet {
            frame,
            parsed: parsed.as_ref(),
            key: &key,
            len,
            pass,
            tags: &mut self.tags,
            now: self.now,
        };
        self.classifier.classify(&mut self.state, &mut packet, from)
    }
}
