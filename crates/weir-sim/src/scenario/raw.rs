//! The keys of a scenario file, after TOML and before the checks. The schema is generated from
//! these types.
//!
//! Values that are checked have their places in the file, so that the checks can point at them.
//! Names, times and specifications are still texts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::host_program::EngineName;

/// A text and its place.
pub(super) type Text = Spanned<String>;

/// Keys of the file outside its tables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// Name of the scenario; by default the name of its file.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Simulated time from start to end, including the warm-up, such as `60s`.
    #[schemars(with = "String")]
    pub(super) duration: Text,
    /// Length of the warm-up, which is simulated and not measured.
    #[schemars(with = "Option<String>")]
    pub(super) warmup: Option<Text>,
    /// Seed of all random draws; 1 by default.
    #[schemars(with = "Option<u64>")]
    pub(super) seed: Option<Spanned<i64>>,
    /// Number of runs, with seeds `seed`, `seed` + 1, …; 1 by default.
    #[schemars(with = "Option<u32>")]
    pub(super) runs: Option<Spanned<i64>>,
}

/// Keys that every kind of node has.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Name by which links, routes and traffic refer to the node.
    #[schemars(with = "String")]
    pub(super) name: Text,
    /// `host` (the default): sends and receives, does not forward; `router`: forwards without
    /// delay; `switch`: forwards through programmable queues.
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
    /// Forwards without delay.
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
    /// Name; by default made of the names of the nodes.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Both directions, in the language of link specifications: `bw 100Mbit/s delay 1ms queue 50`.
    #[schemars(with = "Option<String>")]
    pub(super) spec: Option<Text>,
    /// The direction from the first node to the second, instead of `spec`.
    #[schemars(with = "Option<String>")]
    pub(super) forward: Option<Text>,
    /// The direction from the second node to the first, instead of `spec`.
    #[schemars(with = "Option<String>")]
    pub(super) back: Option<Text>,
    /// Scheduler of the forward direction, as written after `type` in `sched N config type …`:
    /// `fq_codel target 5ms`.
    #[schemars(with = "Option<String>")]
    pub(super) scheduler: Option<Text>,
    /// Scheduler of the back direction.
    #[schemars(with = "Option<String>")]
    pub(super) scheduler_back: Option<Text>,
    /// Queues in front of the forward scheduler, by traffic class.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Queue>>")]
    pub(super) queue: Vec<Spanned<Queue>>,
    /// Queues in front of the scheduler of the back direction, by traffic class.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Queue>>")]
    pub(super) queue_back: Vec<Spanned<Queue>>,
}

/// A queue in front of a scheduler.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    /// Traffic class of the queue, counted from 0 without gaps.
    #[schemars(with = "u16")]
    pub(super) class: Spanned<i64>,
    /// Settings of the queue, as written after `sched N` in `queue N config sched N …`:
    /// `weight 3 queue 50`.
    #[schemars(with = "Option<String>")]
    pub(super) spec: Option<Text>,
}

/// A route that replaces the one with the fewest links.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// Source node.
    #[schemars(with = "String")]
    pub(super) from: Text,
    /// Destination node.
    #[schemars(with = "String")]
    pub(super) to: Text,
    /// Nodes that the route passes, in this order.
    #[schemars(with = "Vec<String>")]
    pub(super) via: Spanned<Vec<Text>>,
}

/// Keys that every kind of traffic has; the other keys depend on the kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Traffic {
    /// Name; by default made of kind and number.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Text>,
    /// Source host or hosts.
    #[schemars(with = "OneOrMore")]
    pub(super) from: Spanned<OneOrMore>,
    /// Destination host or hosts.
    #[schemars(with = "OneOrMore")]
    pub(super) to: Spanned<OneOrMore>,
    /// Number of flows between each pair of hosts; 1 by default.
    #[schemars(with = "Option<u32>")]
    pub(super) count: Option<Spanned<i64>>,
    /// Traffic class, which selects the queue in ports with several queues; 0 by default.
    #[schemars(with = "Option<u16>")]
    pub(super) class: Option<Spanned<i64>>,
    /// Flows with the same group share statistics; by default each flow has its own.
    #[schemars(with = "Option<String>")]
    pub(super) group: Option<Text>,
}

/// Keys of [`Traffic`].
pub(super) const TRAFFIC_KEYS: [&str; 6] = ["name", "from", "to", "count", "class", "group"];

/// One name or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    /// One name.
    One(String),
    /// Several names.
    More(Vec<String>),
}

impl OneOrMore {
    /// All names.
    pub(super) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::More(names) => names,
        }
    }
}

/// Measurements in addition to totals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    /// Length of the interval that each point of a time series covers, such as `100ms` (the
    /// default).
    #[schemars(with = "Option<String>")]
    pub(super) interval: Option<Text>,
    /// Whether every packet's path is recorded in the first run; off by default.
    pub(super) trace: Option<bool>,
    /// Whether inversions are counted: packets that departed from a port while a packet of lower
    /// rank waited there; off by default.
    pub(super) inversions: Option<bool>,
}

/// A key and its values, with one run (or `runs` runs) for each value.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct Axis {
    /// The key, such as `traffic.f1.rate`.
    key: String,
    /// The values of the key.
    values: Vec<AnyValue>,
}

/// A TOML value other than a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) enum AnyValue {
    /// True or false.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// A scenario: a network, its traffic, the measurements and the duration.
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
    /// Routes that replace those with the fewest links.
    route: Option<Vec<Route>>,
    /// Traffic.
    traffic: Option<Vec<TrafficEntry>>,
    /// Measurements in addition to totals.
    measure: Option<Measure>,
    /// Keys and their values; every combination is run.
    sweep: Option<Sweep>,
}

/// A sweep in either of its two forms.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) enum Sweep {
    /// A list of keys with their values.
    List(Vec<Axis>),
    /// A table from keys to their values.
    Table(BTreeMap<String, Vec<AnyValue>>),
}

/// A node with the program of a host, or the settings of a switch.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema reads it")]
pub(super) struct NodeEntry {
    #[serde(flatten)]
    common: Node,
    #[serde(flatten)]
    host: HostKeys,
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

/// Keys of a host with a program.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HostKeys {
    /// Program of the host, in live runs only: a list is executed as it is, a text by `/bin/sh -c`.
    #[schemars(with = "Option<OneOrMore>")]
    pub(super) command: Option<Spanned<OneOrMore>>,
    /// Directory that is the host's root file system; relative to the scenario's file.
    #[schemars(with = "Option<String>")]
    pub(super) rootfs: Option<Text>,
    /// Image of a container that is the host.
    #[schemars(with = "Option<String>")]
    pub(super) image: Option<Text>,
    /// Container engine; by default `docker` if it is installed, otherwise `podman`.
    #[schemars(with = "Option<EngineName>")]
    pub(super) engine: Option<Spanned<EngineName>>,
    /// Whether writes into `rootfs` or the container fail. Otherwise they succeed and are discarded
    /// at the end.
    #[schemars(with = "Option<bool>")]
    pub(super) read_only: Option<Spanned<bool>>,
    /// Environment variables.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub(super) env: Option<Spanned<BTreeMap<String, String>>>,
    /// Directories and files of the machine: `host:inside` or `host:inside:ro`.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) volumes: Option<Spanned<Vec<Text>>>,
    /// Hosts that must be up before this one starts; with `:ended`, their programs must have ended.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) after: Option<Spanned<Vec<Text>>>,
    /// Whether the program has a defined end: the run is over when all such programs have ended.
    #[schemars(with = "Option<bool>")]
    pub(super) ends: Option<Spanned<bool>>,
    /// Check that determines when the host is up.
    #[schemars(with = "Option<HealthKeys>")]
    pub(super) health: Option<Spanned<HealthKeys>>,
}

/// Keys of a health check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthKeys {
    /// Command that succeeds when the host is up.
    #[schemars(with = "OneOrMore")]
    pub(super) command: Spanned<OneOrMore>,
    /// Time between two checks; `500ms` by default.
    #[schemars(with = "Option<String>")]
    pub(super) interval: Option<Text>,
    /// Time after which a check has failed; `2s` by default.
    #[schemars(with = "Option<String>")]
    pub(super) timeout: Option<Text>,
    /// Failed checks after which the host is given up; 20 by default.
    #[schemars(with = "Option<u32>")]
    pub(super) retries: Option<Spanned<i64>>,
}
