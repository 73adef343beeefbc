//! The counters as text for Prometheus, generated for each scrape: OpenMetrics, or on request the
//! classic text format.
//!
//! The metrics follow the conventions of Prometheus: base units, `_total` for counters, and
//! histograms for distributions of times. Every series exists from the start, with 0 for a counter
//! that has not counted yet, so that a rate over its first increment is right.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};
use weir_measure::histogram::Histogram;
use weir_measure::stats::{CounterKind, CounterRow, LinkCounters, Reasons};

use super::state::State;
use crate::api::{LinkSample, QueueCounters, Readings, SessionView, Snapshot, TimeCounts, Times};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Histograms = Family<Labels, Distribution>;

/// A format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics, the default.
    OpenMetrics,
    /// The text format of Prometheus before OpenMetrics.
    Classic,
}

impl Format {
    /// The format that a client prefers, by the `Accept` headers of its request.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut best = [0.0f32; 2];
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let of = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" | "application/*" | "*/*" => &mut best[0],
                "text/plain" | "text/*" => &mut best[1],
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            *of = of.max(weight.unwrap_or(1.0));
        }
        if best[1] > best[0] { Self::Classic } else { Self::OpenMetrics }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The text in this format, made from a text in OpenMetrics.
    fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        }
    }
}

/// The classic text format of a text in OpenMetrics. It has the same samples, but no units and no
/// end mark. In its comments too, the name of a counter ends in `_total`.
fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // The comment with the help comes before the comment with the type.
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                out.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The metrics of the daemon itself, and those of the counters in `snapshot`. Takes time in
/// proportion to the number of series, and does not wait for the plane.
pub(super) fn render(state: &State, snapshot: &Snapshot, format: Format) -> String {
    let mut registry = Registry::with_prefix("weir");
    daemon(&mut registry, state);
    links(&mut registry, snapshot);
    queues(&mut registry, snapshot);
    rules(&mut registry, state, snapshot);
    lanes(&mut registry, snapshot);
    bridges(&mut registry, state);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    format.of_open_metrics(text)
}

/// The metrics of sessions. Labels name the session and, for a link, the link and its path.
#[must_use]
pub fn of_sessions(sessions: &[(SessionView, Readings)], format: Format) -> String {
    let mut registry = Registry::with_prefix("weir");
    let uptime = Gauges::default();
    registry.register_with_unit(
        "session_uptime",
        "Time since the links of a session started",
        Unit::Seconds,
        uptime.clone(),
    );
    let families = LinkFamilies::new(&mut registry, "session_link", "of a link of a session");
    let late = histograms(
        &mut registry,
        "session_link_lateness",
        "How much later than their due times packets left",
    );
    for (view, readings) in sessions {
        let session = vec![("session", view.name.clone()), ("kind", view.kind.to_string())];
        uptime.get_or_create(&session).set(view.uptime_ns as f64 / 1e9);
        for link in &readings.links {
            let labels = vec![
                ("session", view.name.clone()),
                ("link", link.name.clone()),
                ("path", link.path.to_string()),
            ];
            families.add(&labels, &link.counters);
            families.queue_time.get_or_create(&labels).set_counted(&link.queue_ns);
            if let Some(lateness) = &link.lateness_ns {
                late.get_or_create(&labels).set_counted(lateness);
            }
        }
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    format.of_open_metrics(text)
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

/// Registers a histogram of times in seconds.
fn histograms(registry: &mut Registry, name: &str, help: &str) -> Histograms {
    let family = Histograms::default();
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
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
        (
            "connections_excess",
            "Connections refused because of the quota of a client or because all were taken",
            &tally.excess_connections,
        ),
    ] {
        counters(registry, name, help).get_or_create(&Vec::new()).inc_by(load(counter));
    }
}

/// Adds the metrics of pipes and schedulers.
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
    let add = |label: String, link: &LinkSample, times: Option<&Times>| {
        let labels = vec![("link", label)];
        families.add(&labels, &link.counters);
        waiting.get_or_create(&labels).set(link.queue_packets as f64);
        bytes.get_or_create(&labels).set(link.queue_bytes as f64);
        instances.get_or_create(&labels).set(link.instances as f64);
        if let Some(times) = times {
            families.add_times(&labels, times);
        }
    };
    for (number, link) in snapshot.links.iter().take(MOST_OBJECTS) {
        add(number.to_string(), link, snapshot.link_times.get(number));
    }
    let rest = snapshot.links.values().skip(MOST_OBJECTS).cloned().reduce(|mut sum, link| {
        sum.counters.merge(&link.counters);
        sum.queue_packets += link.queue_packets;
        sum.queue_bytes += link.queue_bytes;
        sum.instances += link.instances;
        sum
    });
    if let Some(rest) = rest {
        add(OTHERS.to_owned(), &rest, None);
    }
}

fn queues(registry: &mut Registry, snapshot: &Snapshot) {
    let packets = counters(registry, "queue_packets", "Packets that arrived at a queue");
    let drops = counters(registry, "queue_drops", "Packets lost at a queue");
    let marks =
        counters(registry, "queue_marks", "Packets marked with congestion experienced at a queue");
    let waiting = gauges(registry, "queue_waiting_packets", "Packets waiting in a queue");
    let add = |label: String, queue: &QueueCounters| {
        let labels = vec![("queue", label)];
        packets.get_or_create(&labels).inc_by(queue.packets_in);
        by_reason(&drops, &marks, &labels, &queue.reasons);
        waiting.get_or_create(&labels).set(queue.queue_packets as f64);
    };
    for (number, queue) in snapshot.queues.iter().take(MOST_OBJECTS) {
        add(number.to_string(), queue);
    }
    let rest = snapshot.queues.values().skip(MOST_OBJECTS).cloned().reduce(|mut sum, queue| {
        sum.merge(&queue);
        sum
    });
    if let Some(rest) = rest {
        add(OTHERS.to_owned(), &rest);
    }
}

fn rules(registry: &mut Registry, state: &State, snapshot: &Snapshot) {
    let packets = counters(registry, "rule_packets", "Packets that a rule matched");
    let bytes = counters(registry, "rule_bytes", "Network-layer bytes that a rule matched");
    for (n, rule) in crate::api::rules(&state.owner.current().ruleset, snapshot).iter().enumerate()
    {
        let of = |value: String| if n < MOST_OBJECTS { value } else { OTHERS.to_owned() };
        let labels = vec![
            ("rule", of(rule.number.to_string())),
            ("id", of(rule.id.to_string())),
            ("set", of(rule.set.to_string())),
        ];
        packets.get_or_create(&labels).inc_by(rule.counters.packets);
        bytes.get_or_create(&labels).inc_by(rule.counters.bytes);
    }
}

fn lanes(registry: &mut Registry, snapshot: &Snapshot) {
    let families = LinkFamilies::new(registry, "lane", "of one direction of a bridge");
    let kernel = counters(
        registry,
        "lane_kernel_drops",
        "Frames that the kernel dropped before they could be read",
    );
    let unreadable = counters(
        registry,
        "lane_unreadable",
        "Frames that the kernel could not pass on because of their offload",
    );
    let late =
        histograms(registry, "lane_lateness", "How much later than their due times packets left");
    for (index, lane) in snapshot.lanes.iter().enumerate() {
        let labels =
            vec![("lane", lane.name.clone()), ("from", lane.from.clone()), ("to", lane.to.clone())];
        families.add(&labels, &lane.counters);
        kernel.get_or_create(&labels).inc_by(lane.rx_kernel_drops);
        unreadable.get_or_create(&labels).inc_by(lane.rx_unreadable);
        if let Some(times) = snapshot.lane_times.get(index) {
            families.add_times(&labels, &times.times);
            late.get_or_create(&labels).set(&times.lateness_ns);
        }
    }
}

fn bridges(registry: &mut Registry, state: &State) {
    let attached = gauges(
        registry,
        "interface_attached",
        "Whether an interface of a bridge is there (1) or not (0)",
    );
    let up = gauges(
        registry,
        "interface_up",
        "Whether an interface of a bridge is switched on and has a carrier (1) or not (0)",
    );
    let failed = gauges(
        registry,
        "interface_failed",
        "Whether the daemon stopped using an interface after an error (1) or not (0)",
    );
    let vanished =
        counters(registry, "bridge_vanished", "How often an interface of a bridge has vanished");
    let went_down = counters(
        registry,
        "bridge_went_down",
        "How often an interface of a bridge went down or lost its carrier",
    );
    for bridge in state.plane.bridges() {
        let netns = bridge.netns.clone().unwrap_or_default();
        for (side, name) in bridge.interfaces.iter().enumerate() {
            let labels = vec![("interface", name.clone()), ("netns", netns.clone())];
            for (gauge, value) in [
                (&attached, bridge.attached[side]),
                (&up, bridge.up[side]),
                (&failed, bridge.failed[side].is_some()),
            ] {
                gauge.get_or_create(&labels).set(f64::from(u8::from(value)));
            }
        }
        let labels = vec![("bridge", bridge.interfaces.join(",")), ("netns", netns)];
        vanished.get_or_create(&labels).inc_by(bridge.vanished);
        went_down.get_or_create(&labels).inc_by(bridge.went_down);
    }
}

/// Adds drops and marks to their families, each with its reason as a label.
fn by_reason(drops: &Counters, marks: &Counters, labels: &Labels, reasons: &Reasons) {
    let with = |reason: &str| [labels.as_slice(), &[("reason", reason.to_owned())]].concat();
    for (reason, count) in reasons.drop_counts().of_all() {
        drops.get_or_create(&with(reason.name())).inc_by(count);
    }
    for (reason, count) in reasons.mark_counts().of_all() {
        marks.get_or_create(&with(reason.name())).inc_by(count);
    }
}

/// The rows of the counters that only grow and have no family with a direction label, each with its
/// index in [`LinkCounters::ROWS`].
fn other_rows() -> impl Iterator<Item = (usize, CounterRow)> {
    let rows = LinkCounters::ROWS.into_iter().enumerate();
    rows.filter(|(_, row)| row.kind == CounterKind::Sum && !DIRECTED.contains(&row.name))
}

/// The families of a link's counters. Until counters are reset, they balance:
/// `packets{in} + duplicated = packets{out} + Σ drops + backlog`.
struct LinkFamilies {
    packets: Counters,
    bytes: Counters,
    drops: Counters,
    marks: Counters,
    /// Every other counter that only grows, with its index in [`LinkCounters::ROWS`].
    others: Vec<(usize, Counters)>,
    backlog: Gauges,
    queue_time: Histograms,
    delay: Histograms,
}

impl LinkFamilies {
    /// `of` begins the name of each metric, and `words` end its description.
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
            queue_time: histograms(
                registry,
                &name("queue_time"),
                &format!("Time of packets in the queue {words}"),
            ),
            delay: histograms(
                registry,
                &name("delay"),
                &format!("Time of packets from arrival to release {words}"),
            ),
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

    fn add_times(&self, labels: &Labels, times: &Times) {
        self.queue_time.get_or_create(labels).set(&times.queue_ns);
        self.delay.get_or_create(labels).set(&times.total_ns);
    }
}

/// A distribution of times in seconds, as the buckets of a histogram.
#[derive(Debug, Default)]
struct Distribution(OnceLock<Buckets>);

/// The sum and the number of all values, and the counts of the buckets.
#[derive(Debug)]
struct Buckets {
    sum: f64,
    count: u64,
    /// The upper bound of each bucket, and the number of values in it.
    counts: Vec<(f64, u64)>,
}

impl Distribution {
    /// Sets the distribution, once. Each bin of the histogram is 3 % wide, and is counted in the
    /// bucket that contains the bin's greatest value.
    fn set(&self, histogram: &Histogram) {
        let bins = histogram.bins().map(|bin| (bin.high, bin.count));
        self.fill(histogram.sum() as f64 / 1e9, bins);
    }

    /// Sets the distribution to times that were counted elsewhere, once.
    fn set_counted(&self, times: &TimeCounts) {
        self.fill(times.sum as f64 / 1e9, times.bins.iter().map(|&[_, high, count]| (high, count)));
    }

    /// Sets the distribution from the greatest time and the count of each bin.
    fn fill(&self, sum: f64, bins: impl Iterator<Item = (u64, u64)>) {
        let bounds = BOUNDS_NS.iter().map(|&bound| bound as f64 / 1e9);
        let mut counts: Vec<(f64, u64)> =
            bounds.chain([f64::INFINITY]).map(|bound| (bound, 0)).collect();
        for (high, count) in bins {
            counts[BOUNDS_NS.partition_point(|&bound| bound < high)].1 += count;
        }
        let count = counts.iter().map(|(_, count)| count).sum();
        // A family has one distribution for each set of labels.
        let _ = self.0.set(Buckets { sum, count, counts });
    }
}

impl EncodeMetric for Distribution {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(Buckets { sum, count, counts }) = self.0.get() else { return Ok(()) };
        encoder.encode_histogram::<NoLabelSet>(*sum, *count, counts, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Distribution {
    const TYPE: MetricType = MetricType::Histogram;
}

/// Upper bounds of the buckets, in ns: 10 us to 10 s in steps of 1, 2, 5.
const BOUNDS_NS: [u64; 19] = {
    let mut bounds = [0; 19];
    let mut at = 0;
    let mut decade = 10_000;
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// Maximum number of pipes and schedulers, of queues, and of rules that have series of their own:
/// those with the lowest numbers. All others are summed up under the label [`OTHERS`], so that sums
/// stay right and a configuration of thousands of pipes costs the scraper a bounded number of
/// series.
const MOST_OBJECTS: usize = 1000;
/// The label for all other objects together.
const OTHERS: &str = "other";

/// Counters in the families `packets` and `bytes`, in which a label names the direction.
const DIRECTED: [&str; 4] = ["packets_in", "bytes_in", "packets_out", "bytes_out"];

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_client_prefers() {
        for (accept, format) in [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/plain", Format::Classic),
            ("text/plain; version=0.0.4", Format::Classic),
            ("text/plain;q=0.5, */*;q=0.1", Format::Classic),
            ("text/html, text/*;q=0.9", Format::Classic),
            (
                "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.5",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(Format::of(&headers), format, "{accept}");
        }
        assert_eq!(Format::of(&HeaderMap::new()), Format::OpenMetrics);
    }

    #[test]
    fn each_value_is_in_the_bucket_of_its_bound() {
        assert_eq!((BOUNDS_NS[0], BOUNDS_NS[1], BOUNDS_NS[18]), (10_000, 20_000, 10_000_000_000));
        let mut times = Histogram::default();
        for ns in [0, 9_000, 15_000, 3_000_000, 60_000_000_000] {
            times.record(ns);
        }
        let buckets = Distribution::default();
        buckets.set(&times);
        let Buckets { sum, count, counts } = buckets.0.get().unwrap();
        assert_eq!((*count, counts.iter().map(|(_, n)| n).sum::<u64>()), (5, 5));
        assert!((sum - 60.003_024).abs() < 1e-9);
        let filled: Vec<usize> = (0..counts.len()).filter(|&at| counts[at].1 > 0).collect();
        assert_eq!(filled, [0, 1, 8, 19]);
    }
}
