//! The counters as OpenMetrics text, generated for each scrape.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use weir_measure::stats::{CounterKind, CounterRow, LinkCounters, Reasons};

use super::state::State;
use crate::api::{LaneView, Snapshot};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// The media type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn render(state: &State) -> String {
    let mut registry = Registry::with_prefix("weir");
    daemon(&mut registry, state);
    let snapshot = state.sample();
    links(&mut registry, &snapshot);
    queues(&mut registry, &snapshot);
    rules(&mut registry, state, &snapshot);
    lanes(&mut registry, &snapshot.lanes);
    bridges(&mut registry, state);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn counters(registry: &mut Registry, name: &str, help: &str) -> Counters {
    let family = Counters::default();
    registry.register(name, help, family.clone());
    family
}

fn gauges(registry: &mut Registry, name: &str, help: &str) -> Gauges {
    let family = Gauges::default();
    registry.register(name, help, family.clone());
    family
}

fn daemon(registry: &mut Registry, state: &State) {
    let one = |registry: &mut Registry, name: &str, help: &str, value: f64| {
        gauges(registry, name, help).get_or_create(&Vec::new()).set(value)
    };
    one(
        registry,
        "configuration_revision",
        "Revision of the configuration in force",
        state.owner.current().revision as f64,
    );
    let uptime = Gauges::default();
    uptime.get_or_create(&Vec::new()).set(state.uptime().as_secs_f64());
    registry.register_with_unit("uptime", "Time since the daemon started", Unit::Seconds, uptime);
    let requests = counters(
        registry,
        "requests",
        "Answered requests by outcome: served, refused (client error), failed (server error)",
    );
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let tally = &state.tally;
    for (outcome, counter) in
        [("served", &tally.served), ("refused", &tally.refused), ("failed", &tally.failed)]
    {
        requests.get_or_create(&vec![("outcome", outcome.to_owned())]).inc_by(load(counter));
    }
    for (name, help, counter) in [
        ("events_skipped", "Samples that slow readers of the event stream missed", &tally.skipped),
        ("clients_stalled", "Clients disconnected because they accepted no data", &tally.stalled),
        (
            "clients_refused",
            "Connections from users without permission",
            &tally.refused_connections,
        ),
    ] {
        counters(registry, name, help).get_or_create(&Vec::new()).inc_by(load(counter));
    }
}

fn links(registry: &mut Registry, snapshot: &Snapshot) {
    let families =
        LinkFamilies::new(registry, "link", "of a pipe or scheduler, all instances together");
    let waiting = gauges(
        registry,
        "link_queue_packets",
        "Packets waiting in the queues of a pipe or scheduler",
    );
    let bytes = gauges(
        registry,
        "link_queue_bytes",
        "Network-layer bytes waiting in the queues of a pipe or scheduler",
    );
    let instances = gauges(registry, "link_instances", "Instances of a pipe or scheduler");
    for (number, link) in &snapshot.links {
        let labels = vec![("link", number.to_string())];
        families.add(&labels, &link.counters);
        waiting.get_or_create(&labels).set(link.queue_packets as f64);
        bytes.get_or_create(&labels).set(link.queue_bytes as f64);
        instances.get_or_create(&labels).set(link.instances as f64);
    }
}

fn queues(registry: &mut Registry, snapshot: &Snapshot) {
    let packets = counters(registry, "queue_packets", "Packets that arrived at a queue");
    let drops = counters(registry, "queue_drops", "Packets lost at a queue");
    let marks =
        counters(registry, "queue_marks", "Packets marked with congestion experienced at a queue");
    let waiting = gauges(registry, "queue_waiting_packets", "Packets waiting in a queue");
    for (number, queue) in &snapshot.queues {
        let labels = vec![("queue", number.to_string())];
        packets.get_or_create(&labels).inc_by(queue.packets_in);
        by_reason(&drops, &marks, &labels, &queue.reasons);
        waiting.get_or_create(&labels).set(queue.queue_packets as f64);
    }
}

fn rules(registry: &mut Registry, state: &State, snapshot: &Snapshot) {
    let packets = counters(registry, "rule_packets", "Packets that a rule matched");
    let bytes = counters(registry, "rule_bytes", "Network-layer bytes that a rule matched");
    for rule in crate::api::rules(&state.owner.current().ruleset, snapshot) {
        let labels = vec![
            ("rule", rule.number.to_string()),
            ("id", rule.id.to_string()),
            ("set", rule.set.to_string()),
        ];
        packets.get_or_create(&labels).inc_by(rule.counters.packets);
        bytes.get_or_create(&labels).inc_by(rule.counters.bytes);
    }
}

fn lanes(registry: &mut Registry, lanes: &[LaneView]) {
    let families = LinkFamilies::new(registry, "lane", "of one direction of a bridge");
    let kernel = counters(
        registry,
        "lane_kernel_drops",
        "Frames that the kernel dropped before they could be read",
    );
    let late = Gauges::default();
    for lane in lanes {
        let labels =
            vec![("lane", lane.name.clone()), ("from", lane.from.clone()), ("to", lane.to.clone())];
        families.add(&labels, &lane.counters);
        kernel.get_or_create(&labels).inc_by(lane.rx_kernel_drops);
        for (quantile, ns) in [
            ("0.5", lane.lateness_ns.p50),
            ("0.99", lane.lateness_ns.p99),
            ("1", lane.lateness_ns.max),
        ] {
            let labels = [labels.as_slice(), &[("quantile", quantile.to_owned())]].concat();
            late.get_or_create(&labels).set(ns as f64 / 1e9);
        }
    }
    registry.register_with_unit(
        "lane_lateness",
        "How much later than intended packets left",
        Unit::Seconds,
        late,
    );
}

fn bridges(registry: &mut Registry, state: &State) {
    let attached = gauges(
        registry,
        "interface_attached",
        "Whether an interface of a bridge is there (1) or not (0)",
    );
    let vanished =
        counters(registry, "bridge_vanished", "How often an interface of a bridge has vanished");
    for bridge in state.plane.bridges() {
        let netns = bridge.netns.clone().unwrap_or_default();
        for (name, there) in bridge.interfaces.iter().zip(bridge.attached) {
            let labels = vec![("interface", name.clone()), ("netns", netns.clone())];
            attached.get_or_create(&labels).set(f64::from(u8::from(there)));
        }
        let labels = vec![("bridge", bridge.interfaces.join(",")), ("netns", netns)];
        vanished.get_or_create(&labels).inc_by(bridge.vanished);
    }
}

/// Adds drops and marks to their families, each with its reason as a label.
fn by_reason(drops: &Counters, marks: &Counters, labels: &Labels, reasons: &Reasons) {
    let with = |reason: &str| [labels.as_slice(), &[("reason", reason.to_owned())]].concat();
    for (reason, count) in reasons.drop_counts().iter() {
        drops.get_or_create(&with(reason.name())).inc_by(count);
    }
    for (reason, count) in reasons.mark_counts().iter() {
        marks.get_or_create(&with(reason.name())).inc_by(count);
    }
}

/// The counters that only grow and have no family with a direction label: their rows, each with its
/// index in [`LinkCounters::ROWS`].
fn other_rows() -> impl Iterator<Item = (usize, CounterRow)> {
    let rows = LinkCounters::ROWS.into_iter().enumerate();
    rows.filter(|(_, row)| row.kind == CounterKind::Sum && !DIRECTED.contains(&row.name))
}

/// The families of a link's counters, which balance:
/// `packets{in} + duplicated = packets{out} + Σ drops + backlog`.
struct LinkFamilies {
    packets: Counters,
    bytes: Counters,
    drops: Counters,
    marks: Counters,
    /// Every other counter that only grows, with its index in [`LinkCounters::ROWS`].
    others: Vec<(usize, Counters)>,
    backlog: Gauges,
}

impl LinkFamilies {
    fn new(registry: &mut Registry, of: &str, words: &str) -> Self {
        let name = |what: &str| format!("{of}_{what}");
        Self {
            packets: counters(registry, &name("packets"), &format!("Packets {words}")),
            bytes: counters(registry, &name("bytes"), &format!("Network-layer bytes {words}")),
            drops: counters(registry, &name("drops"), &format!("Lost packets {words}")),
            marks: counters(
                registry,
                &name("marks"),
                &format!("Packets marked with congestion experienced {words}"),
            ),
            others: other_rows()
                .map(|(at, row)| {
                    let help = format!("{} {words}", row.meaning.trim_end_matches('.'));
                    (at, counters(registry, &name(row.name), &help))
                })
                .collect(),
            backlog: gauges(registry, &name("backlog_packets"), &format!("Packets inside {words}")),
        }
    }

    fn add(&self, labels: &Labels, counters: &LinkCounters) {
        let with = |name, value: &str| [labels.as_slice(), &[(name, value.to_owned())]].concat();
        for (direction, packets, bytes) in [
            ("in", counters.packets_in, counters.bytes_in),
            ("out", counters.packets_out, counters.bytes_out),
        ] {
            self.packets.get_or_create(&with("direction", direction)).inc_by(packets);
            self.bytes.get_or_create(&with("direction", direction)).inc_by(bytes);
        }
        by_reason(&self.drops, &self.marks, labels, counters.reasons());
        let values = counters.values();
        for (at, family) in &self.others {
            family.get_or_create(labels).inc_by(values[*at]);
        }
        self.backlog.get_or_create(labels).set(counters.backlog_packets as f64);
    }
}

/// Counters in the families `packets` and `bytes`, in which a label names the direction.
const DIRECTED: [&str; 4] = ["packets_in", "bytes_in", "packets_out", "bytes_out"];
