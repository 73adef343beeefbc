//! The page of a replay: a table with a row for the kernel's discipline and one for each replayed
//! discipline, and plots of their queue and delay over time.

use maud::{Markup, html};
use weir_measure::document::{Document, Kind};
use weir_measure::packets::Discipline;
use weir_rig::replay::{Content, Point, Replay, Row};

use super::charts::{Chart, variant};
use super::page::{figure, meta, page, row, table};
use crate::format::{bytes, count, duration, elapsed, percent, rate};
use crate::plot::{Axis, Curve, Plot, Shape, Unit};

/// A replay as one self-contained HTML document; `version` is that of the program.
pub fn replay_to_html(replay: &Replay, version: &str) -> String {
    let mut data = Vec::new();
    let title = format!("Replay of {}", replay.recording.device);
    let content = html! {
        (header(replay))
        (numbers(replay))
        section {
            div.plots {
                (figure("queue", queue(replay), &mut data))
                (figure("delay", delay(replay), &mut data))
            }
        }
        section {
            h2 { "How to read this" }
            @for note in NOTES { p { (note) } }
        }
        footer { "Made by Weir " (version) "." }
    };
    let result = Document::new(Kind::Replay, replay).to_json();
    page(&title, &content, &result, &data)
}

fn header(replay: &Replay) -> Markup {
    let (head, content, link) = (&replay.recording, &replay.content, &replay.link);
    let limit = match (link.limit_packets, link.limit_bytes) {
        (_, Some(limit)) => bytes(limit as f64),
        (Some(packets), None) => format!("{} packets", count(packets.into())),
        (None, None) => "none".to_owned(),
    };
    let entries = [
        ("Recorded", head.started.clone()),
        ("Discipline", discipline_words(&head.discipline)),
        ("Length", elapsed(content.duration_ns)),
        ("Packets", count(content.packets)),
        ("Flows", count(content.flows)),
        ("Link of the replay", rate(link.rate_bps as f64)),
        ("Burst", bytes(link.burst_bytes as f64)),
        ("Limit", limit),
        ("Seed", replay.seed.to_string()),
    ];
    html! {
        header {
            p.brand { "Weir " span { "replay" } }
            h1 { code { (head.device) } }
            (meta(entries.into_iter().filter(|(_, value)| !value.is_empty())))
            p.note { (OPEN_LOOP) }
            @for gap in replay_gaps(content) {
                p.warning role="alert" { strong { "Warning:" } " " (gap) }
            }
        }
    }
}

fn discipline_words(discipline: &Discipline) -> String {
    let inner = discipline.inner.as_ref().map(|inner| format!(" + {inner}")).unwrap_or_default();
    format!("{}{inner}", discipline.kind)
}

/// The gaps of a recording, with a sentence for each kind.
#[must_use]
pub fn replay_gaps(content: &Content) -> Vec<String> {
    let mut gaps = Vec::new();
    let mut add = |number: u64, words: &str| {
        if number > 0 {
            gaps.push(format!("{} {words}", count(number)));
        }
    };
    add(
        content.lost_events,
        "events could not be recorded: arrivals may be missing from every row, and outcomes from \
         the kernel's row.",
    );
    add(
        content.unknown,
        "packets have an outcome that was not recorded: the kernel's row has neither their delay \
         nor their drop.",
    );
    add(
        content.strays,
        "departures had no recorded arrival, as of packets that were queued when the recording \
         began: no row has them.",
    );
    add(
        content.changes,
        "times the discipline was replaced during the recording: the kernel's row is of all \
         disciplines together.",
    );
    gaps
}

fn numbers(replay: &Replay) -> Markup {
    let columns = [
        "Discipline",
        "Delay p50",
        "p99",
        "max",
        "Dropped",
        "Marked",
        "Throughput",
        "Queue mean",
        "max",
        "Fairness",
        "Least share",
        "Flow p50",
    ];
    let time = |ns: u64| duration(ns as f64);
    let rows = replay.rows.iter().map(|r: &Row| {
        let arrived = r.delivered + r.dropped + r.left + r.unknown;
        let share = percent(r.dropped as f64 / arrived.max(1) as f64);
        let cells = [
            time(r.delay_ns.p50),
            time(r.delay_ns.p99),
            time(r.delay_ns.max),
            format!("{} ({share})", count(r.dropped)),
            count(r.marked),
            rate(r.throughput_bps.value()),
            format!("{:.1}", r.queue_packets.mean.value()),
            count(r.queue_packets.max),
            format!("{:.3}", r.fairness.index.value()),
            percent(r.fairness.least_share.value()),
            time(r.fairness.flow_delay_p50_ns),
        ];
        row(&r.name, cells)
    });
    table("Disciplines", Some("numbers"), &columns, rows)
}

fn queue(replay: &Replay) -> Chart {
    let value = |point: Point| point.queued as f64;
    let axis = Axis::linear("packets", Unit::Count);
    over_time(replay, "Queue length", "Greatest length of the queue", axis, value)
}

fn delay(replay: &Replay) -> Chart {
    let value = |point: Point| point.delay_ns as f64;
    let axis = Axis::linear("delay", Unit::Nanoseconds);
    over_time(replay, "Delay", "Greatest delay of a packet that departed", axis, value)
}

fn over_time(
    replay: &Replay,
    title: &str,
    what: &str,
    y: Axis,
    value: impl Fn(Point) -> f64,
) -> Chart {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let shown = replay.rows.iter().take(MAX_CURVES);
    let curves = (0u8..)
        .zip(shown)
        .map(|(colour, row)| {
            let points = row.curve.points().map(|(at, point)| [seconds(at), value(point)]);
            Curve::new(&row.name, colour, Shape::Steps(points.collect()))
        })
        .collect();
    let period = replay.rows.first().map_or(0, |row| row.curve.period_ns());
    let each = format!("{what} in each {}", duration(period as f64));
    let more = replay.rows.len().saturating_sub(MAX_CURVES);
    let rest = if more > 0 { format!(" The table has {more} more.") } else { String::new() };
    let plot = Plot {
        title: title.to_owned(),
        description: format!("{each}, for each discipline."),
        x: Axis::linear("time", Unit::Seconds),
        y,
        curves,
    };
    Chart { variants: vec![variant("", "time", plot)], remark: format!("{each}.{rest}") }
}

/// The caveat about the results of every replay.
pub const OPEN_LOOP: &str = "Open loop: the arrivals are those that the kernel's discipline \
                             caused. Senders that respond to drops, marks and delays would have \
                             sent other packets to another discipline.";
const NOTES: [&str; 3] = [
    "The first row is the kernel's queue as it was recorded. For the other rows, the recorded \
     packets arrive at their recorded times at the discipline, and a token bucket of the link's \
     rate and burst serves it, in simulated time.",
    "Delay is the time from arrival to departure of the packets that departed. Throughput is over \
     the time from the first arrival to the last departure. The length of the queue is weighted by \
     time.",
    "Fairness is Jain's index of the flows' departed bytes, each relative to its max-min fair part \
     of all departed bytes; the least share is that of the flow that got the smallest part; \
     `flow p50` is the median over the flows of their mean delay.",
];
/// Maximum number of curves of a plot, which is the number of colours of the palette.
const MAX_CURVES: usize = 7;
