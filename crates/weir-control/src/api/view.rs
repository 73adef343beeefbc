//! The API's views of the configuration. The views of schedulers, queues and rules contain the
//! command that creates the object, and its counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_core::aqm::Policy;
use weir_rules::command::{Command, NetConfigCommand};
use weir_rules::rule::{DEFAULT_RULE, RESERVED_SET, RuleAction};
use weir_rules::ruleset::{DEFAULT_RULE_ID, Ruleset};
use weir_rules::table::{Table, TableKind};
use weir_rules::{LinkSpec, script};

use super::counters::{LaneView, LengthsView, LinkSample, QueueCounters, RuleCounters};
use super::snapshot::{Lengths, Snapshot};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationView {
    /// The revision of the configuration.
    pub revision: u64,
    /// Whether the disk has confirmed that this revision survives a crash. Otherwise, a crash may
    /// bring back the previous revision.
    pub durable: bool,
    /// The commands that create the configuration, in canonical form.
    pub script: String,
    /// Whether a packet is allowed as soon as it departs from a pipe. Otherwise the search
    /// continues after the rule that sent the packet to the pipe.
    pub one_pass: bool,
    /// The enabled sets of rules.
    pub enabled_sets: Vec<u8>,
    /// Numbers of the pipes.
    pub pipes: Vec<u16>,
    /// Numbers of the schedulers.
    pub scheds: Vec<u16>,
    /// Numbers of the queues.
    pub queues: Vec<u16>,
    /// Number of rules, without the default rule.
    pub rules: u64,
    /// Names of the tables.
    pub tables: Vec<String>,
    /// Number of links that `netconfig` created.
    pub netconfigs: u64,
}

/// A pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PipeView {
    /// The number of the pipe.
    pub number: u16,
    /// The link specification in canonical form.
    pub spec: String,
    /// Rate in bit/s; none if unlimited. The mean if it changes over time.
    pub rate_bps: Option<u64>,
    /// Delay in ns. The mean if it changes over time.
    pub delay_ns: u64,
    /// The AQM of the pipe's queue; none for drop tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmView>,
    /// The counters of the pipe.
    pub state: LinkSample,
}

/// An AQM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AqmView {
    /// The name of the algorithm.
    pub algorithm: String,
    /// All settings of the algorithm, as strings in the command language.
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
    /// The number of the scheduler.
    pub number: u16,
    /// The command that creates the scheduler, in canonical form.
    pub command: String,
    /// The name of the algorithm.
    pub algorithm: String,
    /// All settings of the algorithm itself, as strings in the command language.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The parent scheduler, which serves this scheduler as one of its flows; none if this
    /// scheduler has its own link.
    #[serde(default)]
    pub parent: Option<u16>,
    /// Rate in bit/s; none if unlimited. The mean if it changes over time.
    pub rate_bps: Option<u64>,
    /// Delay in ns. The mean if it changes over time.
    pub delay_ns: u64,
    /// The counters of the scheduler. A scheduler with a parent has empty counters, because its
    /// packets are counted by the link of the outermost scheduler.
    pub state: LinkSample,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueView {
    /// The number of the queue.
    pub number: u16,
    /// The command that creates the queue, in canonical form.
    pub command: String,
    /// The scheduler that the queue feeds.
    pub scheduler: u16,
    /// The weight of the queue.
    pub weight: u32,
    /// The AQM of the queue; none for drop tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmView>,
    /// The counters of the queue.
    pub state: QueueCounters,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// The identity of the rule, which no other rule of this configuration ever gets.
    pub id: u32,
    /// The number of the rule; several rules may share it.
    pub number: u16,
    /// The set of the rule.
    pub set: u8,
    /// Whether the set of the rule is enabled.
    pub enabled: bool,
    /// The action for a matching packet, in one word.
    pub action: String,
    /// The command that creates the rule, in canonical form.
    pub command: String,
    /// The counters of the rule.
    pub counters: RuleCounters,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableView {
    /// The name of the table.
    pub name: String,
    /// The type of the keys: `addr`, `iface`, `number` or `flow`.
    pub kind: String,
    /// Number of entries.
    pub entries: u64,
    /// Maximum number of entries, if limited.
    pub limit: Option<u32>,
    /// Whether the table refuses changes.
    pub locked: bool,
}

/// A page of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TablePage {
    /// The table.
    pub table: TableView,
    /// The requested entries, in the order of keys.
    pub entries: Vec<TableEntryView>,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableEntryView {
    /// The key in the notation of the command language.
    pub key: String,
    /// The value.
    pub value: u32,
}

/// A link that `netconfig` created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetConfigView {
    /// The slot of the link, which determines the numbers of its pipes.
    pub slot: u16,
    /// The command that creates the link, in canonical form.
    pub command: String,
    /// The time at which the link expires, in seconds since 1970.
    pub deadline_s: Option<u64>,
}

/// Two interfaces between which the daemon forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BridgeView {
    /// The interfaces.
    pub interfaces: [String; 2],
    /// The network namespace of the interfaces; none for the daemon's own.
    pub netns: Option<String>,
    /// For each interface, whether it is currently attached.
    pub attached: [bool; 2],
    /// For each interface, whether it is switched on and has a carrier. The daemon reads this once
    /// a second.
    #[serde(default)]
    pub up: [bool; 2],
    /// For each interface, the error after which the daemon stopped using it; none while it works.
    #[serde(default)]
    pub failed: [Option<String>; 2],
    /// How often an interface vanished.
    pub vanished: u64,
    /// How often an interface went down or lost its carrier.
    #[serde(default)]
    pub went_down: u64,
    /// The lanes of both directions: first the lane from the first interface to the second one.
    pub lanes: Vec<LaneView>,
}

pub(crate) fn configuration(revision: u64, durable: bool, rules: &Ruleset) -> ConfigurationView {
    ConfigurationView {
        revision,
        durable,
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
    rules.pipes.keys().filter_map(|&number| pipe(rules, snapshot, number)).collect()
}

pub(crate) fn pipe(rules: &Ruleset, snapshot: &Snapshot, number: u16) -> Option<PipeView> {
    let spec = rules.pipes.get(&number)?;
    Some(PipeView {
        number,
        spec: weir_rules::canonical(spec),
        rate_bps: rate(spec),
        delay_ns: delay(spec),
        aqm: spec.pipe.queue.aqm.as_ref().map(AqmView::from),
        state: snapshot.links.get(&number).cloned().unwrap_or_default(),
    })
}

pub(crate) fn scheds(rules: &Ruleset, snapshot: &Snapshot) -> Vec<SchedView> {
    rules.scheds.keys().filter_map(|&number| sched(rules, snapshot, number)).collect()
}

pub(crate) fn sched(rules: &Ruleset, snapshot: &Snapshot, number: u16) -> Option<SchedView> {
    let spec = rules.scheds.get(&number)?;
    let discipline = &spec.scheduler.discipline;
    let settings = discipline.settings().map(|(setting, value)| (setting.name.to_owned(), value));
    Some(SchedView {
        number,
        command: script::print(&Command::ConfigSched(number, Box::new((**spec).clone()))),
        algorithm: discipline.row().name.to_owned(),
        settings: settings.collect(),
        parent: spec.scheduler.parent,
        rate_bps: rate(&spec.link),
        delay_ns: delay(&spec.link),
        state: snapshot.links.get(&number).cloned().unwrap_or_default(),
    })
}

pub(crate) fn queues(rules: &Ruleset, snapshot: &Snapshot) -> Vec<QueueView> {
    rules.queues.keys().filter_map(|&number| queue(rules, snapshot, number)).collect()
}

pub(crate) fn queue(rules: &Ruleset, snapshot: &Snapshot, number: u16) -> Option<QueueView> {
    let spec = rules.queues.get(&number)?;
    Some(QueueView {
        number,
        command: script::print(&Command::ConfigQueue(number, Box::new((**spec).clone()))),
        scheduler: spec.scheduler,
        weight: spec.flowset.weight,
        aqm: spec.flowset.aqm.as_ref().map(AqmView::from),
        state: snapshot.queues.get(&number).cloned().unwrap_or_default(),
    })
}

pub(crate) fn lengths(rules: &Ruleset, lengths: Lengths) -> LengthsView {
    let (scheds, pipes) =
        lengths.links.into_iter().partition(|(number, _)| rules.scheds.contains_key(number));
    LengthsView { at_ns: lengths.at_ns, pipes, scheds, queues: lengths.queues }
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
    // The default rule always exists and is not part of the configured rules.
    views.push(RuleView {
        id: DEFAULT_RULE_ID,
        number: DEFAULT_RULE,
        set: RESERVED_SET,
        enabled: true,
        action: "allow".to_owned(),
        command: format!("add {DEFAULT_RULE} set {RESERVED_SET} allow ip from any to any"),
        counters: snapshot.rules.get(&DEFAULT_RULE_ID).copied().unwrap_or_default(),
    });
    views
}

pub(crate) fn tables(rules: &Ruleset) -> Vec<TableView> {
    rules.tables.iter().map(|(name, table)| table_view(name, table)).collect()
}

/// A page of the table `name`; `None` if there is no such table.
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

/// The configured rate in bit/s; the mean if it changes, none if unlimited.
pub(crate) fn rate(spec: &LinkSpec) -> Option<u64> {
    spec.pipe.link.means(None).rate_bps
}

/// The configured delay in ns; the mean if it changes.
pub(crate) fn delay(spec: &LinkSpec) -> u64 {
    spec.pipe.link.means(None).delay.0
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
