//! The report of a watch of queues as one HTML file.
//!
//! The page has the style, script and content security policy of a run's report. The data of queues
//! over time is finer than the picture, so that zooming shows more. If there are many queues, only
//! some have plots, and a table has only the first ones. The result inside the page has all queues.

mod charts;
mod detail;

use maud::{Markup, html};
use weir_measure::watch::{
    DeviceSummary, Measured, QueueSummary, Spread, Summary, VarianceSummary,
};
use weir_measure::watch::{Handle, Tally};

use super::charts::{Chart, Data, micro};
use super::page::{NARROW, figure, figure_in, meta, page, row, table, tile, with_share};
use crate::format::{bytes, count, digits, duration, elapsed, percent};
use crate::plot::Size;
use crate::summary::shell_words;
use charts::Span;

/// The properties of a watch that do not follow from its readings.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Weir's version.
    pub version: String,
    /// The start time of the watch, as text.
    pub started: String,
    /// The command that ran during the watch, with its arguments; empty without one.
    pub command: Vec<String>,
}

/// The report as one self-contained HTML document. `summary` is the summary of `tally`.
#[must_use]
pub fn html(tally: &Tally, summary: &Summary, about: &About) -> String {
    let span = tally.span().unwrap_or_default();
    let names: Vec<String> = summary.devices.iter().map(device_name).collect();
    let title = if names.is_empty() { "Queues".to_owned() } else { names.join(", ") };
    let shown = most_interesting(tally);
    // The maximum number of items of a plot of packets; a plot of bytes gets a quarter of it.
    let most = (ALL_ITEMS / shown.len().max(1)).min(MAX_ITEMS);
    let mut data = Vec::new();
    let content = html! {
        (header(summary, about, &title))
        (remarks(tally, span))
        @for (device, name) in summary.devices.iter().zip(&names) {
            // The title of the page names a single device.
            h2 { @if names.len() == 1 { "Queues" } @else { (name) } }
            (pace(device))
            (queues(device, name))
            (rings(device, name))
        }
        (selection(shown.len(), tally.queues().len()))
        @for (place, queue) in shown.into_iter().enumerate() {
            (section(place, queue, (span, most), &mut data))
        }
        footer {
            "Made by Weir " (about.version) ". Lengths are what the kernel counts for each \
             discipline; a discipline with children counts theirs too. Between two readings a \
             length is taken to stay."
        }
    };
    page(&title, &content, &summary.to_json(), &data)
}

fn device_name(device: &DeviceSummary) -> String {
    match &device.netns {
        Some(netns) => format!("{}@{netns}", device.device),
        None => device.device.clone(),
    }
}

fn header(summary: &Summary, about: &About, title: &str) -> Markup {
    let mut methods: Vec<&str> =
        summary.devices.iter().map(|device| device.method.name()).collect();
    methods.dedup();
    let took = summary
        .devices
        .first()
        .map_or(String::new(), |device| elapsed((device.seconds * 1e9) as u64));
    let entries =
        [("Started", about.started.clone()), ("Took", took), ("Method", methods.join(", "))];
    html! {
        header {
            p.brand { "Weir " span { "queues watched" } }
            h1 { (title) }
            @if !about.command.is_empty() {
                p.spec { "while " code { (shell_words(&about.command)) } " ran" }
            }
            (meta(entries.into_iter().filter(|(_, value)| !value.is_empty())))
        }
    }
}

fn pace(device: &DeviceSummary) -> Markup {
    let what = if device.events.is_some() { "Events" } else { "Readings" };
    let mut entries =
        vec![(what, format!("{} ({}/s)", count(device.samples), short(device.samples_per_s)))];
    if let Some(asked) = device.asked_per_s {
        let missed = match device.missed {
            0 => String::new(),
            1 => ", one moment missed".to_owned(),
            n => format!(", {} moments missed", count(n)),
        };
        entries.push(("Asked for", format!("{}/s{missed}", count(asked))));
    }
    if device.gap_ns.max > 0 {
        let text = |ns: u64| micro(&duration(ns as f64));
        let (p50, p99, max) =
            (text(device.gap_ns.p50), text(device.gap_ns.p99), text(device.gap_ns.max));
        entries.push(("In between", format!("median {p50}, p99 {p99}, longest {max}")));
    }
    if let Some(events) = &device.events {
        let gaps = if events.counts.gaps == 0 {
            "nothing".to_owned()
        } else {
            format!("{} times ({})", count(events.counts.gaps), percent(events.gap_share))
        };
        entries.push(("Not recorded", gaps));
    }
    meta(entries)
}

fn remarks(tally: &Tally, (start, _): Span) -> Markup {
    if tally.remarks().is_empty() {
        return Markup::default();
    }
    let seconds = |time: u64| format!("{:.3} s", time.saturating_sub(start) as f64 / 1e9);
    let more = (tally.remarks().len().saturating_sub(MAX_REMARKS)) as u64 + tally.more_remarks();
    html! {
        ul.note {
            @for remark in tally.remarks().iter().take(MAX_REMARKS) {
                li {
                    @if let Some(time) = remark.time { b { (seconds(time)) } " " }
                    (remark.text)
                }
            }
            @if more > 0 { li { "and " (count(more)) " more" } }
        }
    }
}

fn queues(device: &DeviceSummary, name: &str) -> Markup {
    let last = if device.events.is_some() { "Events" } else { "Readings" };
    let columns = [
        "Queue",
        "Packets, mean",
        "p50",
        "p99",
        "max",
        "Bytes, mean",
        "max",
        "Dropped",
        "Readings alike",
        "by 1",
        last,
    ];
    let rows = device.qdiscs.iter().take(MAX_ROWS);
    let rows = rows.map(|queue| row(heading(queue), cells(queue)));
    html! {
        (table(&format!("Queues of {name}"), Some("numbers"), &columns, rows))
        @if device.qdiscs.len() > MAX_ROWS {
            p.note {
                "The first " (MAX_ROWS) " of " (count(device.qdiscs.len() as u64))
                "; the result inside this page has all."
            }
        }
    }
}

/// The name of a queue, its place in the hierarchy, and the time for which it existed.
fn heading(queue: &QueueSummary) -> Markup {
    let life = match (queue.since_s > 0.0005, queue.until_s) {
        (_, Some(until)) => Some(format!("{:.3} to {until:.3} s", queue.since_s)),
        (true, None) => Some(format!("from {:.3} s", queue.since_s)),
        (false, None) => None,
    };
    html! {
        @match (queue.band, queue.handle) {
            (Some(band), _) => { "band " (band) }
            (None, Handle(0)) => { (queue.kind) }
            (None, handle) => { (queue.kind) " " (handle) }
        }
        @if !queue.root && queue.band.is_none() {
            " " small { "below " (queue.parent) }
        }
        @if queue.instances > 1 { " " small { (count(queue.instances)) " in turn" } }
        @if let Some(life) = life { " " small { (life) } }
    }
}

fn cells(queue: &QueueSummary) -> [Markup; 10] {
    let dash = || "–".to_owned();
    let of_bytes = |of: fn(&Spread) -> f64| {
        queue.backlog_bytes.as_ref().map_or_else(dash, |spread| bytes(of(spread)))
    };
    let variance = |of: fn(&VarianceSummary) -> f64| {
        queue.variance.as_ref().map_or_else(dash, |v| percent(of(v)))
    };
    let drops = match (queue.drops, queue.drops_per_s) {
        (None, _) => html! { "–" },
        (Some(drops), Some(rate)) if drops > 0 => {
            with_share(count(drops), format!("{}/s", short(rate)))
        }
        (Some(drops), _) => html! { (count(drops)) },
    };
    let text = |text: String| html! { (text) };
    let Spread { mean, p50, p99, max } = queue.qlen;
    [
        text(digits(mean)),
        text(count(p50)),
        text(count(p99)),
        text(count(max)),
        text(of_bytes(|spread| spread.mean)),
        text(of_bytes(|spread| spread.max as f64)),
        drops,
        text(variance(|v| v.zero)),
        text(variance(|v| v.one)),
        text(count(queue.events.map_or(queue.samples, |events| events.recorded()))),
    ]
}

fn rings(device: &DeviceSummary, name: &str) -> Markup {
    if device.transmission.is_empty() {
        return Markup::default();
    }
    let columns = ["Transmission queue", "Limit, mean", "max", "In flight, mean", "p99", "max"];
    let rows = device.transmission.iter().map(|ring| {
        let (limit, inflight) = (&ring.limit_bytes, &ring.inflight_bytes);
        row(
            ring.queue,
            [
                bytes(limit.mean),
                bytes(limit.max as f64),
                bytes(inflight.mean),
                bytes(inflight.p99 as f64),
                bytes(inflight.max as f64),
            ],
        )
    });
    table(&format!("Transmission queues of {name}"), Some("numbers"), &columns, rows)
}

/// A note on the choice of the queues with plots.
fn selection(shown: usize, all: usize) -> Markup {
    let others = if shown < MAX_SECTIONS {
        "the others were empty whenever they were looked at"
    } else {
        "those that were longest, roots first"
    };
    html! {
        @if shown < all {
            p.note {
                "Plots follow of " (shown) " queues of " (count(all as u64)) ": " (others) "."
            }
        }
    }
}

/// The queues with plots, in the order of the tally. Chooses among the queues that were not always
/// empty: first the roots, then the longest queues. If all queues were empty, chooses the roots.
fn most_interesting(tally: &Tally) -> Vec<&Measured> {
    let all = || tally.queues().iter().enumerate().filter(|(_, queue)| queue.packets().total() > 0);
    let mut shown: Vec<(usize, &Measured)> =
        all().filter(|(_, queue)| queue.packets().max() > 0).collect();
    if shown.is_empty() {
        shown = all().filter(|(_, queue)| queue.queue.root).collect();
    }
    shown.sort_by_key(|(place, queue)| {
        (std::cmp::Reverse((queue.queue.root, queue.packets().max())), *place)
    });
    shown.truncate(MAX_SECTIONS);
    shown.sort_by_key(|(place, _)| *place);
    shown.into_iter().map(|(_, queue)| queue).collect()
}

fn section(
    place: usize,
    queue: &Measured,
    (span, most): (Span, usize),
    data: &mut Vec<Data>,
) -> Markup {
    let length = charts::length(queue, span, most);
    let mut others: Vec<Chart> = Vec::new();
    if queue.packets().max() > 0 {
        others.push(charts::histogram(queue));
        others.push(charts::above(queue));
    }
    if queue.steps().total() > 0 && queue.steps().max() > 0 {
        others.push(charts::variance(queue));
    }
    if queue.counted().drops > 0 {
        others.push(charts::drops(queue, span));
    }
    html! {
        section {
            h2 { (queue.queue.label()) }
            (tiles(queue))
            div.plots {
                (figure_in(&format!("q{place}-t"), length, data, ("whole", [BROAD, NARROW])))
                @for (n, chart) in others.into_iter().enumerate() {
                    (figure(&format!("q{place}-{n}"), chart, data))
                }
            }
        }
    }
}

fn tiles(queue: &Measured) -> Markup {
    let (packets, steps) = (queue.packets(), queue.steps());
    let (p50, p99) = (count(packets.quantile(0.5)), count(packets.quantile(0.99)));
    let longest = match packets.max() {
        1 => "1 packet".to_owned(),
        n => format!("{} packets", count(n)),
    };
    let most_bytes = match queue.queue.band {
        Some(_) => String::new(),
        None => format!("most {}", bytes(queue.bytes().max() as f64)),
    };
    html! {
        dl.tiles {
            (tile(
                "Packets waiting, mean",
                digits(packets.mean()),
                format!("median {p50}, p99 {p99}"),
            ))
            (tile("Longest", longest, most_bytes))
            (tile(
                "Not empty",
                percent(packets.share_above(0)),
                format!("of {}", charts::share_of(queue)),
            ))
            @if steps.total() > 0 {
                (tile(
                    "Consecutive readings alike",
                    percent(steps.share_at(0)),
                    format!(
                        "by 1 {}, by more {}",
                        percent(steps.share_at(1)),
                        percent(steps.share_above(1))
                    ),
                ))
            }
            (counted(queue))
        }
    }
}

/// The tiles of events, and of the counters of sent and dropped packets.
fn counted(queue: &Measured) -> Markup {
    let (events, counted) = (queue.events, queue.counted());
    let share = percent(counted.drops as f64 / (counted.drops + counted.packets).max(1) as f64);
    html! {
        @if queue.is_exact() {
            (tile(
                "Packets in",
                count(events.enqueues),
                format!(
                    "out {} in {} times, not recorded in between {}",
                    count(events.dequeued_packets),
                    count(events.dequeues),
                    count(events.gaps)
                ),
            ))
        }
        @if queue.counters().is_some() {
            (tile(
                "Dropped",
                with_share(count(counted.drops), share),
                format!("{} sent", count(counted.packets)),
            ))
        }
    }
}

/// A number with a prefix if it is large: `12.3 M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{} M", digits(v / 1e6)),
        v if v >= 9_995.0 => format!("{} k", digits(v / 1e3)),
        v => digits(v),
    }
}

/// A plot over the full width of the page.
const BROAD: Size = Size { width: 1210, height: 300 };
/// Maximum number of queues with plots.
const MAX_SECTIONS: usize = 12;
const MAX_ROWS: usize = 200;
const MAX_REMARKS: usize = 50;
/// Maximum number of items (see [`detail`]) of the packets of one queue.
const MAX_ITEMS: usize = 1 << 16;
/// Maximum number of items of the packets of all queues.
const ALL_ITEMS: usize = 1 << 17;

#[cfg(test)]
mod tests;
