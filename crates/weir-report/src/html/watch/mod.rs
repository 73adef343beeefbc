//! The report of a watch of queues as one HTML file.
//!
//! The page has the style, script and policy of a run's report. The data of queues over time is
//! finer than the picture, so that zooming shows more. With many queues the longest have plots, and
//! the table has all.

mod charts;
mod detail;

use std::fmt::Write;

use weir_measure::watch::{DeviceSummary, Measured, QueueSummary, Spread, Summary};
use weir_measure::watch::{Handle, Tally};

use super::charts::{Chart, Data};
use super::{close, figure, figure_in, micro, opened};
use crate::format::{bytes, count, digits, duration, elapsed, percent};
use crate::plot::{Size, escape};
use crate::summary::shell_words;
use charts::Span;

/// The description of the command in a report.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Weir's version.
    pub version: String,
    /// Its start time, as text.
    pub started: String,
    /// The command that ran during the watch, with its arguments; empty without one.
    pub command: Vec<String>,
}

/// The report as one self-contained HTML document. `summary` is of the same `tally`.
#[must_use]
pub fn html(tally: &Tally, summary: &Summary, about: &About) -> String {
    let span = tally.span().unwrap_or_default();
    let names: Vec<String> = summary.devices.iter().map(device_name).collect();
    let title = if names.is_empty() { "Queues".to_owned() } else { names.join(", ") };
    let mut out = opened(&format!("{title} · Weir"));
    header(&mut out, summary, about, &title);
    remarks(&mut out, tally, span);
    for device in &summary.devices {
        // With a single device, the page's own title names it.
        let heading = if names.len() == 1 { "Queues".to_owned() } else { device_name(device) };
        let _ = writeln!(out, "<h2>{}</h2>", escape(&heading));
        pace(&mut out, device);
        table(&mut out, device);
        rings(&mut out, device);
    }
    let mut data = Vec::new();
    let shown = most_interesting(tally);
    if shown.len() < tally.queues().len() {
        let all = count(tally.queues().len() as u64);
        let others = if shown.len() < MOST_SECTIONS {
            "the others were empty whenever they were looked at"
        } else {
            "those that were longest, roots first"
        };
        let _ = writeln!(
            out,
            "<p class=\"note\">Plots follow of {} queues of {all}: {others}.</p>",
            shown.len()
        );
    }
    // The plots of bytes get a quarter of the items of those of packets.
    let most = (ALL_ITEMS / shown.len().max(1)).min(MOST_ITEMS);
    for (place, queue) in shown.into_iter().enumerate() {
        section(&mut out, place, queue, (span, most), &mut data);
    }
    let _ = writeln!(
        out,
        "<footer>Made by Weir {}. Lengths are what the kernel counts for each discipline; a discipline with children counts theirs too. \
         Between two readings a length is taken to stay.</footer>",
        escape(&about.version)
    );
    close(&mut out, &summary.to_json(), &data);
    out
}

fn device_name(device: &DeviceSummary) -> String {
    match &device.netns {
        Some(netns) => format!("{}@{netns}", device.device),
        None => device.device.clone(),
    }
}

fn header(out: &mut String, summary: &Summary, about: &About, title: &str) {
    let _ = writeln!(
        out,
        "<header>\n<p class=\"brand\">Weir <span>queues watched</span></p>\n<h1>{}</h1>",
        escape(title)
    );
    if !about.command.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"spec\">while <code>{}</code> ran</p>",
            escape(&shell_words(&about.command))
        );
    }
    let mut methods: Vec<&str> =
        summary.devices.iter().map(|device| device.method.name()).collect();
    methods.dedup();
    let took = summary
        .devices
        .first()
        .map_or(String::new(), |device| elapsed((device.seconds * 1e9) as u64));
    out.push_str("<dl class=\"meta\">");
    for (name, value) in
        [("Started", about.started.clone()), ("Took", took), ("Method", methods.join(", "))]
    {
        if !value.is_empty() {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
        }
    }
    out.push_str("</dl>\n</header>\n");
}

/// The readings of a device, compared with the requested rate.
fn pace(out: &mut String, device: &DeviceSummary) {
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
    out.push_str("<dl class=\"meta\">");
    for (name, value) in entries {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out.push_str("</dl>\n");
}

fn remarks(out: &mut String, tally: &Tally, (start, _): Span) {
    if tally.remarks().is_empty() {
        return;
    }
    out.push_str("<ul class=\"note\">\n");
    for remark in tally.remarks().iter().take(MOST_REMARKS) {
        let time = remark.time.map_or(String::new(), |time| {
            format!("<b>{:.3} s</b> ", time.saturating_sub(start) as f64 / 1e9)
        });
        let _ = writeln!(out, "<li>{time}{}</li>", escape(&remark.text));
    }
    let more = (tally.remarks().len().saturating_sub(MOST_REMARKS)) as u64 + tally.more_remarks();
    if more > 0 {
        let _ = writeln!(out, "<li>and {} more</li>", count(more));
    }
    out.push_str("</ul>\n");
}

fn table(out: &mut String, device: &DeviceSummary) {
    let name = escape(&device_name(device));
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Queues of {name}\"><table class=\"numbers\">\n<thead><tr>"
    );
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
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for queue in device.qdiscs.iter().take(MOST_ROWS) {
        row(out, queue);
    }
    out.push_str("</tbody></table></div>\n");
    if device.qdiscs.len() > MOST_ROWS {
        let all = count(device.qdiscs.len() as u64);
        let _ = writeln!(
            out,
            "<p class=\"note\">The first {MOST_ROWS} of {all}; the result inside this page has all.</p>"
        );
    }
}

fn row(out: &mut String, queue: &QueueSummary) {
    let life = match (queue.since_s > 0.0005, queue.until_s) {
        (_, Some(until)) => format!(" <small>{:.3} to {until:.3} s</small>", queue.since_s),
        (true, None) => format!(" <small>from {:.3} s</small>", queue.since_s),
        (false, None) => String::new(),
    };
    let instances = if queue.instances > 1 {
        format!(" <small>{} in turn</small>", count(queue.instances))
    } else {
        String::new()
    };
    let drops = queue.drops.map_or("–".to_owned(), |drops| match queue.drops_per_s {
        Some(rate) if drops > 0 => format!("{} <i>{}/s</i>", count(drops), short(rate)),
        _ => count(drops),
    });
    let of_bytes = |of: fn(&Spread) -> f64| {
        queue.backlog_bytes.as_ref().map_or("–".to_owned(), |spread| bytes(of(spread)))
    };
    let Spread { mean, p50, p99, max } = queue.qlen;
    let variance = |of: fn(&weir_measure::watch::VarianceSummary) -> f64| {
        queue.variance.as_ref().map_or("–".to_owned(), |v| percent(of(v)))
    };
    let cells = [
        digits(mean),
        count(p50),
        count(p99),
        count(max),
        of_bytes(|spread| spread.mean),
        of_bytes(|spread| spread.max as f64),
        drops,
        variance(|v| v.zero),
        variance(|v| v.one),
        count(queue.events.map_or(queue.samples, |events| events.recorded())),
    ];
    let name = match (queue.band, queue.handle) {
        (Some(band), _) => format!("band {band}"),
        (None, Handle(0)) => escape(&queue.kind),
        (None, handle) => format!("{} {handle}", escape(&queue.kind)),
    };
    let below = if queue.root || queue.band.is_some() {
        String::new()
    } else {
        format!(" <small>below {}</small>", queue.parent)
    };
    let place = name + &below;
    let _ = write!(out, "<tr><th scope=\"row\">{place}{instances}{life}</th>");
    for cell in cells {
        let _ = write!(out, "<td>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

fn rings(out: &mut String, device: &DeviceSummary) {
    if device.transmission.is_empty() {
        return;
    }
    let name = escape(&device_name(device));
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Transmission queues of {name}\"><table class=\"numbers\">\n<thead><tr>\
         <th scope=\"col\">Transmission queue</th><th scope=\"col\">Limit, mean</th><th scope=\"col\">max</th><th scope=\"col\">In flight, mean</th>\
         <th scope=\"col\">p99</th><th scope=\"col\">max</th></tr></thead>\n<tbody>\n"
    );
    for ring in &device.transmission {
        let (limit, inflight) = (&ring.limit_bytes, &ring.inflight_bytes);
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            ring.queue,
            bytes(limit.mean),
            bytes(limit.max as f64),
            bytes(inflight.mean),
            bytes(inflight.p99 as f64),
            bytes(inflight.max as f64)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// The queues with plots, in the order of their appearance: those that were ever non-empty, roots
/// and the longest first; if all were empty, the roots.
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
    shown.truncate(MOST_SECTIONS);
    shown.sort_by_key(|(place, _)| *place);
    shown.into_iter().map(|(_, queue)| queue).collect()
}

fn section(
    out: &mut String,
    place: usize,
    queue: &Measured,
    (span, most): (Span, usize),
    data: &mut Vec<Data>,
) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&queue.queue.label()));
    tiles(out, queue);
    out.push_str("<div class=\"plots\">\n");
    figure_in(
        out,
        &format!("q{place}-t"),
        charts::length(queue, span, most),
        data,
        ("whole", [BROAD, super::NARROW]),
    );
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
    for (n, chart) in others.into_iter().enumerate() {
        figure(out, &format!("q{place}-{n}"), chart, data);
    }
    out.push_str("</div>\n</section>\n");
}

fn tiles(out: &mut String, queue: &Measured) {
    out.push_str("<dl class=\"tiles\">");
    let mut tile = |name: &str, value: &str, detail: &str| {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{detail}</small></dd></div>");
    };
    let packets = queue.packets();
    let (p50, p99) = (count(packets.quantile(0.5)), count(packets.quantile(0.99)));
    tile("Packets waiting, mean", &digits(packets.mean()), &format!("median {p50}, p99 {p99}"));
    let longest = if packets.max() == 1 {
        "1 packet".to_owned()
    } else {
        format!("{} packets", count(packets.max()))
    };
    let most_bytes = if queue.queue.band.is_some() {
        String::new()
    } else {
        format!("most {}", bytes(queue.bytes().max() as f64))
    };
    tile("Longest", &longest, &most_bytes);
    let share = charts::share_of(queue);
    tile("Not empty", &percent(packets.share_above(0)), &format!("of {share}"));
    if queue.steps().total() > 0 {
        let steps = queue.steps();
        let detail = format!(
            "by 1 {}, by more {}",
            percent(steps.share_at(1)),
            percent(steps.share_above(1))
        );
        tile("Consecutive readings alike", &percent(steps.share_at(0)), &detail);
    }
    if queue.is_exact() {
        let events = queue.events;
        let detail = format!(
            "out {} in {} times, not recorded in between {}",
            count(events.dequeued_packets),
            count(events.dequeues),
            count(events.gaps)
        );
        tile("Packets in", &count(events.enqueues), &detail);
    }
    if queue.counters().is_some() {
        let counted = queue.counted();
        let share = percent(counted.drops as f64 / (counted.drops + counted.packets).max(1) as f64);
        tile(
            "Dropped",
            &format!("{} <i>{share}</i>", count(counted.drops)),
            &format!("{} sent", count(counted.packets)),
        );
    }
    out.push_str("</dl>\n");
}

/// A number with a prefix: `12.3 M`.
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
const MOST_SECTIONS: usize = 12;
/// Maximum number of rows of a table.
const MOST_ROWS: usize = 200;
/// Maximum number of remarks.
const MOST_REMARKS: usize = 50;
/// Maximum number of items of a queue over time, and of all queues together, to limit the size of
/// the file.
const MOST_ITEMS: usize = 1 << 16;
const ALL_ITEMS: usize = 1 << 17;

#[cfg(test)]
mod tests;
