//! The keys of a scenario file, between TOML and the checks. The schema is generated from these
//! types.
//!
//! Values stay texts with their places, so that the checks can point at them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A text and its place.
pub(super) type Text = Spanned<String>;

/// Keys of the file outside its tables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// What the scenario is called; by default as its file.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Simulated time from the start to the end, warm-up included, such as `60s`.
    #[schemars(with = "String")]
    pub(super) duration: Text,
    /// Time at the start that is simulated and not measured.
    #[schemars(with = "Option<String>")]
    pub(super) warmup: Option<Text>,
    /// Seed of all random draws; 1 by default.
    #[schemars(with = "Option<u64>")]
    pub(super) seed: Option<Spanned<i64>>,
    /// Runs with seeds `seed`, `seed` + 1, …; 1 by default.
    #[schemars(with = "Option<u32>")]
    pub(super) runs: Option<Spanned<i64>>,
}

/// Keys of every kind of node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Name, by which links, routes and traffic refer to it.
    #[schemars(with = "String")]
    pub(super) name: Text,
    /// `host` (the default): sends and receives, forwards nothing; `router`: forwards in no time;
    /// `switch`: forwards through queues that are programmed.
    #[schemars(with = "Option<NodeKindName>")]
    pub(super) kind: Option<Text>,
}

/// Kinds of nodes.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) enum NodeKindName {
    /// Sends and receives.
    Host,
    /// Forwards in no time.
    Router,
    /// Forwards through input buffers, a pipeline and a traffic manager.
    Switch,
}

/// Keys of [`Node`].
pub(super) const NODE_KEYS: [&str; 2] = ["name", "kind"];

/// A link between two nodes, with a port at each end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// The two nodes; forward is from the first to the second.
    #[schemars(with = "[String; 2]")]
    pub(super) between: Spanned<Vec<Text>>,
    /// Name; by default made of the nodes' names.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Both directions, in the language of link specifications: `bw 100Mbit/s delay 1ms queue 50`.
    #[schemars(with = "Option<String>")]
    pub(super) spec: Option<Text>,
    /// The direction from the first node to the second, in place of `spec`.
    #[schemars(with = "Option<String>")]
    pub(super) forward: Option<Text>,
    /// The direction from the second node to the first, in place of `spec`.
    #[schemars(with = "Option<String>")]
    pub(super) back: Option<Text>,
    /// Scheduler of the forward direction, as behind `type` in `sched N config type …`:
    /// `fq_codel target 5ms`.
    #[schemars(with = "Option<String>")]
    pub(super) scheduler: Option<Text>,
    /// Scheduler of the direction back.
    #[schemars(with = "Option<String>")]
    pub(super) scheduler_back: Option<Text>,
    /// Queues in front of the forward scheduler, by traffic class.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Queue>>")]
    pub(super) queue: Vec<Spanned<Queue>>,
    /// Queues in front of the scheduler of the direction back.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Queue>>")]
    pub(super) queue_back: Vec<Spanned<Queue>>,
}

/// A queue in front of a scheduler.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    /// Traffic class that goes to it, counted from 0 without gaps.
    #[schemars(with = "u16")]
    pub(super) class: Spanned<i64>,
    /// Its settings, as behind `sched N` in `queue N config sched N …`: `weight 3 queue 50`.
    #[schemars(with = "Option<String>")]
    pub(super) spec: Option<Text>,
}

/// A route that is not the one with the fewest links.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// Source.
    #[schemars(with = "String")]
    pub(super) from: Text,
    /// Destination.
    #[schemars(with = "String")]
    pub(super) to: Text,
    /// Nodes to go through, in this order.
    #[schemars(with = "Vec<String>")]
    pub(super) via: Spanned<Vec<Text>>,
}

/// Keys of every kind of traffic; the other keys depend on the kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Traffic {
    /// Name; by default made of its kind and number.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Host or hosts that it comes from.
    #[schemars(with = "OneOrMore")]
    pub(super) from: Spanned<OneOrMore>,
    /// Host or hosts that it goes to.
    #[schemars(with = "OneOrMore")]
    pub(super) to: Spanned<OneOrMore>,
    /// Flows of this kind between each pair of hosts; 1 by default.
    #[schemars(with = "Option<u32>")]
    pub(super) count: Option<Spanned<i64>>,
    /// Traffic class, by which ports with several queues tell it from others; 0 by default.
    #[schemars(with = "Option<u16>")]
    pub(super) class: Option<Spanned<i64>>,
    /// Flows with the same group share statistics; by default each has its own.
    #[schemars(with = "Option<String>")]
    pub(super) group: Option<Text>,
}

/// Keys of [`Traffic`].
pub(super) const TRAFFIC_KEYS: [&str; 6] = ["name", "from", "to", "count", "class", "group"];

/// A name or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}

impl OneOrMore {
    /// All of them.
    pub(super) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::More(names) => names,
        }
    }
}

/// What is measured besides totals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    /// Distance of the points of time series, such as `100ms` (the default).
    #[schemars(with = "Option<String>")]
    pub(super) interval: Option<Text>,
    /// Whether every packet's path is recorded, in the first run; off by default.
    pub(super) trace: Option<bool>,
    /// Whether inversions are counted: packets that left a port while one of lower rank waited
    /// there; off by default.
    pub(super) inversions: Option<bool>,
}

/// One key and the values that it takes, one run (or `runs` runs) for each.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct Axis {
    /// The key, such as `traffic.f1.rate`.
    key: String,
    /// Its values.
    values: Vec<AnyValue>,
}

/// A value as TOML has them, without tables.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) enum AnyValue {
    /// A switch.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// A network, its traffic, what is measured, and for how long.
#[derive(JsonSchema)]
#[schemars(title = "Weir scenario", deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct File {
    #[serde(flatten)]
    head: Head,
    /// Nodes.
    node: Vec<NodeEntry>,
    /// Links.
    link: Vec<Link>,
    /// Routes that are not those with the fewest links.
    route: Option<Vec<Route>>,
    /// Traffic.
    traffic: Option<Vec<TrafficEntry>>,
    /// What is measured besides totals.
    measure: Option<Measure>,
    /// Keys and the values that they take; the product of all is run.
    sweep: Option<Sweep>,
}

/// A sweep in either form.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) enum Sweep {
    /// A list of keys with their values.
    List(Vec<Axis>),
    /// A table of them.
    Table(BTreeMap<String, Vec<AnyValue>>),
}

/// A node with the settings of a switch.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct NodeEntry {
    #[serde(flatten)]
    common: Node,
    #[serde(flatten)]
    switch: crate::switch::SwitchConfig,
}

/// Traffic with the settings of its kind.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct TrafficEntry {
    #[serde(flatten)]
    common: Traffic,
    #[serde(flatten)]
    spec: crate::traffic::Spec,
}
