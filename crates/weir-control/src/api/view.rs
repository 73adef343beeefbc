//! What is configured, as it goes over the wire: each object as the words that make it, with its
//! counters beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_core::aqm::Policy;
use weir_core::config::Capacity;
use weir_rules::command::{Command, NetConfigCommand};
use weir_rules::rule::{DEFAULT_RULE, KEPT_SET, RuleAction};
use weir_rules::ruleset::{DEFAULT_RULE_ID, Ruleset};
use weir_rules::table::{Table, TableKind};
use weir_rules::{LinkSpec, script};

use super::LaneView;
use super::counters::{LengthsView, LinkSample, QueueCounters, RuleCounters};
use crate::plane::{Lengths, Snapshot};

/// The configuration as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationView {
    /// Its number.
    pub revision: u64,
    /// The commands that make it, in canonical form.
    pub script: String,
    /// Whether a packet that comes out of a pipe passes without meeting further rules.
    pub one_pass: bool,
    /// Sets of rules that are on.
    pub enabled_sets: Vec<u8>,
    /// Numbers of the pipes.
    pub pipes: Vec<u16>,
    /// Numbers of the schedulers.
    pub scheds: Vec<u16>,
    /// Numbers of the queues.
    pub queues: Vec<u16>,
    /// How many rules there are, without the default rule.
    pub rules: u64,
    /// Names of the tables.
    pub tables: Vec<String>,
    /// How many links `netconfig` has made.
    pub netconfigs: u64,
}

/// A pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PipeView {
    /// Its number.
    pub number: u16,
    /// Its specification in canonical form.
    pub spec: String,
    /// Rate, bit/s; none when unlimited. Of a rate trace the mean.
    pub rate_bps: Option<u64>,
    /// Delay, ns.
    pub delay_ns: u64,
    /// The AQM of its queue; none for drop tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmView>,
    /// What it has counted.
    pub state: LinkSample,
}

/// An AQM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AqmView {
    /// The algorithm.
    pub algorithm: String,
    /// Its settings, all of them, as they are written.
    pub settings: BTreeMap<String, String>,
}

impl From<&Policy> for AqmView {
    fn from(policy: &Policy) -> Self {
        let settings = policy.settings().map(|(setting, value)| (setting.name.to_owned(), value));
        Self { algorithm: policy.row().name.to_owned(), settings: settings.collect() }
    }
}

/// A scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedView {
    /// Its number.
    pub number: u16,
    /// The command that makes it, in canonical form.
    pub command: String,
    /// The algorithm.
    pub algorithm: String,
    /// The algorithm's own settings, all of them, as they are written.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The scheduler that it is a flow of; none when it has a link.
    #[serde(default)]
    pub parent: Option<u16>,
    /// Rate, bit/s; none when unlimited. Of a rate trace the mean.
    pub rate_bps: Option<u64>,
    /// Delay, ns.
    pub delay_ns: u64,
    /// What it has counted; nothing when it has a parent, whose link counts.
    pub state: LinkSample,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueView {
    /// Its number.
    pub number: u16,
    /// The command that makes it, in canonical form.
    pub command: String,
    /// The scheduler that it feeds.
    pub scheduler: u16,
    /// Its weight.
    pub weight: u32,
    /// Its AQM; none for drop tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmView>,
    /// What it has counted.
    pub state: QueueCounters,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// Its identity, which no other rule of this configuration ever gets.
    pub id: u32,
    /// Its number; several rules may have it.
    pub number: u16,
    /// Its set.
    pub set: u8,
    /// Whether its set is on.
    pub enabled: bool,
    /// What becomes of a packet that matches, in a word.
    pub action: String,
    /// The command that makes it, in canonical form.
    pub command: String,
    /// What it has counted.
    pub counters: RuleCounters,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableView {
    /// Its name.
    pub name: String,
    /// What its keys are: `addr`, `iface`, `number` or `flow`.
    pub kind: String,
    /// How many entries it has.
    pub entries: u64,
    /// Most entries it may have.
    pub limit: Option<u32>,
    /// Whether it refuses changes.
    pub locked: bool,
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TablePage {
    /// The table.
    pub table: TableView,
    /// The part that was asked for, in the order of keys.
    pub entries: Vec<TableEntryView>,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableEntryView {
    /// The key as it is written.
    pub key: String,
    /// The value.
    pub value: u32,
}

/// A link made by `netconfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetConfigView {
    /// Its place, from which its pipes and its rule have their numbers.
    pub slot: u16,
    /// The command that makes it, in canonical form.
    pub command: String,
    /// When it deletes itself, seconds since 1970.
    pub deadline_s: Option<u64>,
}

/// Two interfaces that the daemon forwards between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BridgeView {
    /// The interfaces.
    pub interfaces: [String; 2],
    /// The network namespace they are in; none for the daemon's own.
    pub netns: Option<String>,
    /// Which of them are there now.
    pub attached: [bool; 2],
    /// How often an interface has vanished.
    pub vanished: u64,
    /// Both ways, left to right first.
    pub lanes: Vec<LaneView>,
}

pub(crate) fn configuration(revision: u64, rules: &Ruleset) -> ConfigurationView {
    ConfigurationView {
        revision,
        script: rules.script(),
        one_pass: rules.one_pass,
        enabled_sets: (0..32).filter(|set| rules.enabled_sets >> set & 1 == 1).collect(),
        pipes: rules.pipes.keys().copied().collect(),
        scheds: rules.scheds.keys().copied().collect(),
        queues: rules.queues.keys().copied().collect(),
        rules: rules.rules.len() as u64,
        tables: rules.tables.keys().map(|name| name.to_string()).collect(),
        netconfigs: rules.netconfigs.len() as u64,
    }
}

pub(crate) fn pipes(rules: &Ruleset, snapshot: &Snapshot) -> Vec<PipeView> {
    let view = |(&number, spec): (&u16, &std::sync::Arc<LinkSpec>)| PipeView {
        number,
        spec: weir_rules::canonical(spec),
        rate_bps: rate(spec),
        delay_ns: spec.pipe.link.delay.0,
        aqm: spec.pipe.queue.aqm.as_ref().map(AqmView::from),
        state: snapshot.links.get(&number).cloned().unwrap_or_default(),
    };
    rules.pipes.iter().map(view).collect()
}

pub(crate) fn scheds(rules: &Ruleset, snapshot: &Snapshot) -> Vec<SchedView> {
    let mut views = Vec::new();
    for (&number, spec) in rules.scheds.iter() {
        views.push(SchedView {
            number,
            command: script::print(&Command::ConfigSched(number, Box::new((**spec).clone()))),
            algorithm: spec.scheduler.discipline.row().name.to_owned(),
            settings: spec
                .scheduler
                .discipline
                .settings()
                .map(|(setting, value)| (setting.name.to_owned(), value))
                .collect(),
            parent: spec.scheduler.parent,
            rate_bps: rate(&spec.link),
            delay_ns: spec.link.pipe.link.delay.0,
            state: snapshot.links.get(&number).cloned().unwrap_or_default(),
        });
    }
    views
}

pub(crate) fn queues(rules: &Ruleset, snapshot: &Snapshot) -> Vec<QueueView> {
    let mut views = Vec::new();
    for (&number, spec) in rules.queues.iter() {
        views.push(QueueView {
            number,
            command: script::print(&Command::ConfigQueue(number, Box::new((**spec).clone()))),
            scheduler: spec.scheduler,
            weight: spec.flowset.weight,
            aqm: spec.flowset.aqm.as_ref().map(AqmView::from),
            state: snapshot.queues.get(&number).cloned().unwrap_or_default(),
        });
    }
    views
}

pub(crate) fn lengths(rules: &Ruleset, now: Lengths) -> LengthsView {
    let (scheds, pipes) =
        now.links.into_iter().partition(|(number, _)| rules.scheds.contains_key(number));
    LengthsView { at_ns: now.at_ns, pipes, scheds, queues: now.queues }
}

pub(crate) fn rules(rules: &Ruleset, snapshot: &Snapshot) -> Vec<RuleView> {
    let mut views = Vec::new();
    for entry in rules.rules.iter() {
        views.push(RuleView {
            id: entry.id,
            number: entry.rule.number,
            set: entry.rule.set,
            enabled: rules.enabled_sets >> entry.rule.set & 1 == 1,
            action: action(&entry.rule.action).to_owned(),
            command: script::print(&Command::Add(Box::new((*entry.rule).clone()))),
            counters: snapshot.rules.get(&entry.id).copied().unwrap_or_default(),
        });
    }
    // Always there, and not among the configured ones.
    views.push(RuleView {
        id: DEFAULT_RULE_ID,
        number: DEFAULT_RULE,
        set: KEPT_SET,
        enabled: true,
        action: "allow".to_owned(),
        command: format!("add {DEFAULT_RULE} set {KEPT_SET} allow ip from any to any"),
        counters: snapshot.rules.get(&DEFAULT_RULE_ID).copied().unwrap_or_default(),
    });
    views
}

pub(crate) fn tables(rules: &Ruleset) -> Vec<TableView> {
    rules.tables.iter().map(|(name, table)| table_view(name, table)).collect()
}

/// A part of the table `name`; `None` when there is no such table.
pub(crate) fn table_page(
    rules: &Ruleset,
    name: &str,
    offset: usize,
    limit: usize,
) -> Option<TablePage> {
    let (name, table) = rules.tables.get_key_value(name)?;
    let mut entries = Vec::new();
    for (key, &value) in table.entries.iter().skip(offset).take(limit) {
        entries.push(TableEntryView { key: key.to_string(), value });
    }
    Some(TablePage { table: table_view(name, table), entries })
}

pub(crate) fn netconfigs(rules: &Ruleset) -> Vec<NetConfigView> {
    let mut views = Vec::new();
    for link in &rules.netconfigs {
        let command =
            Command::NetConfig(NetConfigCommand::Config(Box::new((*link.config).clone())));
        views.push(NetConfigView {
            slot: link.slot,
            command: script::print(&command),
            deadline_s: link.deadline_s,
        });
    }
    views
}

fn table_view(name: &str, table: &Table) -> TableView {
    let kind = match table.kind {
        TableKind::Address => "addr",
        TableKind::Interface => "iface",
        TableKind::Number => "number",
        TableKind::Flow(_) => "flow",
    };
    TableView {
        name: name.to_owned(),
        kind: kind.to_owned(),
        entries: table.entries.len() as u64,
        limit: table.limit,
        locked: table.locked,
    }
}

fn rate(spec: &LinkSpec) -> Option<u64> {
    match &spec.pipe.link.capacity {
        Capacity::Unlimited => None,
        Capacity::Constant(rate) => Some(rate.bps()),
        Capacity::Trace(trace) => Some(trace.mean_bps()),
    }
}

fn action(action: &RuleAction) -> &'static str {
    match action {
        RuleAction::Allow => "allow",
        RuleAction::Deny => "deny",
        RuleAction::Count => "count",
        RuleAction::Pipe(_) => "pipe",
        RuleAction::Queue(_) => "queue",
        RuleAction::SkipTo(_) => "skipto",
        RuleAction::Call(_) => "call",
        RuleAction::Return => "return",
        RuleAction::SetDscp(_) => "setdscp",
        RuleAction::CheckState(_) => "check-state",
    }
}
