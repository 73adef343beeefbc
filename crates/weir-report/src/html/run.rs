//! The report of a run.

use maud::{Markup, html};
use weir_measure::histogram::Histogram;

use super::charts::{Data, charts, micro};
use super::page::{figure, meta, page, table, tile, with_share};
use crate::format::{count, duration, elapsed, percent, rate};
use crate::model::{LATE_WARNING, LinkResult, RunInfo, RunResult};
use crate::summary::shell_words;

/// The report as one self-contained HTML document.
pub fn to_html(run: &RunResult) -> String {
    let info = run.info();
    let title = match info.command.first() {
        Some(program) => program.rsplit('/').next().unwrap_or(program),
        None => "Run",
    };
    let points = (TOTAL_POINTS / run.links().len().max(1)).clamp(MIN_POINTS, MAX_POINTS);
    let mut data = Vec::new();
    let content = html! {
        (header(info))
        (overview(run))
        @for (i, link) in run.links().iter().enumerate() {
            (section(link, (i, points), info.duration_ns, &mut data))
        }
        footer {
            "Made by Weir " (info.version) ". Rates count network-layer bytes unless the link's \
             configuration adds an overhead. Delay is measured from the packet's arrival at the \
             link to its intended release."
        }
    };
    page(title, &content, &crate::json::to_json(run), &data)
}

fn header(info: &RunInfo) -> Markup {
    let exit = match (info.command.is_empty(), info.exit_code) {
        (true, _) => None,
        (false, Some(code)) => Some(format!("code {code}")),
        (false, None) => Some("by a signal".to_owned()),
    };
    let started = Some(info.started.clone()).filter(|s| !s.is_empty());
    let entries = [
        ("Started", started),
        ("Took", Some(elapsed(info.duration_ns))),
        ("Exit", exit),
        ("Seed", Some(info.seed.to_string())),
    ];
    html! {
        header {
            p.brand { "Weir " span { "run report" } }
            @if info.command.is_empty() {
                h1 { "Run" }
            } @else {
                h1 { code { (shell_words(&info.command)) } }
            }
            (meta(entries.into_iter().filter_map(|(name, value)| Some((name, value?)))))
            @for warning in &info.warnings {
                p.warning role="alert" { strong { "Warning:" } " " (warning) }
            }
            @for note in &info.notes { p.note { (note) } }
        }
    }
}

fn overview(run: &RunResult) -> Markup {
    let columns = [
        "Link",
        "Rate",
        "Measured mean",
        "Delay",
        "Measured p50",
        "p99",
        "In queue p99",
        "Packets",
        "Dropped",
        "Timing",
    ];
    let rows = run.links().iter().map(|l| {
        html! {
            tr {
                th scope="row" { (l.name) }
                td { (l.configured_rate()) }
                td { (rate(l.mean_out_bps(run.info().duration_ns))) }
                td { (micro(&l.configured_delay())) }
                td { (at(&l.total_ns, 0.5)) }
                td { (at(&l.total_ns, 0.99)) }
                td { (at(&l.queue_ns, 0.99)) }
                td { (count(l.counters.packets_in)) }
                td { (count(l.counters.total_drops())) }
                td { (verdict(l)) }
            }
        }
    });
    table("Summary", None, &columns, rows)
}

/// The section of a link. `place` is its index among the links, and `points` is the maximum number
/// of points of a curve.
fn section(
    l: &LinkResult,
    (place, points): (usize, usize),
    duration_ns: u64,
    data: &mut Vec<Data>,
) -> Markup {
    html! {
        section {
            h2 { (l.name) " " span { (l.from) " → " (l.to) } }
            p.spec { code { (l.spec) } }
            (tiles(l, duration_ns))
            div.plots {
                @for (j, chart) in charts(l, points).into_iter().enumerate() {
                    (figure(&format!("p{place}-{j}"), chart, data))
                }
            }
        }
    }
}

fn tiles(l: &LinkResult, duration_ns: u64) -> Markup {
    let peak =
        l.peak_out_bps().map_or(String::new(), |p| format!("peak {} over 1 s, ", rate(p as f64)));
    let throughput = format!("{peak}configured {}", l.configured_rate());
    let delay = format!(
        "least {}, p99 {}, configured {}",
        at(&l.total_ns, 0.0),
        at(&l.total_ns, 0.99),
        micro(&l.configured_delay())
    );
    let longest = match l.counters.peak_queue_packets {
        0 => String::new(),
        1 => ", longest 1 packet".to_owned(),
        n => format!(", longest {} packets", count(n)),
    };
    let queue = format!("p99 {}, max {}{longest}", at(&l.queue_ns, 0.99), at(&l.queue_ns, 1.0));
    let inside = match l.counters.backlog_packets {
        0 => String::new(),
        n => format!(", {} still inside", count(n)),
    };
    html! {
        dl.tiles {
            (tile("Throughput", rate(l.mean_out_bps(duration_ns)), throughput))
            (tile("Delay, median", at(&l.total_ns, 0.5), delay))
            (tile("In queue, median", at(&l.queue_ns, 0.5), queue))
            (tile(
                "Packets in",
                count(l.counters.packets_in),
                format!("{} out{inside}", count(l.counters.packets_out)),
            ))
            (changes(l))
            @if l.late().is_some() {
                (tile(
                    "Lateness, median",
                    at(&l.lateness_ns, 0.5),
                    html! { "p99 " (at(&l.lateness_ns, 0.99)) ", " (verdict(l)) },
                ))
            }
        }
    }
}

/// The tiles of dropped, marked and altered packets.
fn changes(l: &LinkResult) -> Markup {
    let counters = &l.counters;
    let packets = (counters.packets_in + counters.duplicated).max(1) as f64;
    let share_of = |number: u64| with_share(count(number), percent(number as f64 / packets));
    let configured =
        l.configured_loss().map_or(String::new(), |p| format!("; random loss configured {p}"));
    let measured = l.loss.and(l.measured_loss()).map_or(String::new(), |measured| {
        format!(", measured {} ({})", percent(measured.fraction()), measured.counts())
    });
    let loss = configured + &measured;
    let altered: Vec<(&str, u64)> = [
        ("duplicated", counters.duplicated),
        ("corrupted", counters.corrupted),
        ("reordered", counters.reordered),
    ]
    .into_iter()
    .filter(|&(_, n)| n > 0)
    .collect();
    html! {
        (tile(
            "Dropped",
            share_of(counters.total_drops()),
            listed(counters.drop_counts().in_words()) + &loss,
        ))
        @if counters.total_marks() > 0 {
            (tile(
                "Marked",
                share_of(counters.total_marks()),
                listed(counters.mark_counts().in_words()),
            ))
        }
        @if !altered.is_empty() {
            (tile(
                "Altered",
                count(altered.iter().map(|&(_, n)| n).sum()),
                listed(altered.iter().copied()),
            ))
        }
    }
}

/// Numbers with their meanings: `3 queue full, 1 random loss`.
fn listed<'a>(numbers: impl Iterator<Item = (&'a str, u64)>) -> String {
    let parts: Vec<String> = numbers.map(|(words, n)| format!("{} {words}", count(n))).collect();
    parts.join(", ")
}

fn verdict(l: &LinkResult) -> Markup {
    match l.late() {
        None => html! { "–" },
        Some(late) if late.is_too_much() => {
            html! { b.bad { "✗ did not keep time: " (late.in_words()) " over 1 ms late" } }
        }
        Some(late) if late.fraction() >= LATE_WARNING => {
            html! { span { (late.in_words()) " over 1 ms late: too few to judge" } }
        }
        Some(_) => html! { span.good { "✓ kept time" } },
    }
}

/// A quantile as text; a dash without values. The minimum and the maximum are exact.
fn at(h: &Histogram, q: f64) -> String {
    let ns = match q {
        0.0 => h.min(),
        1.0 => h.max(),
        _ => h.quantile(q),
    };
    if h.count() == 0 { "–".to_owned() } else { micro(&duration(ns as f64)) }
}

/// A curve has `TOTAL_POINTS` divided by the number of links, within the two bounds. This keeps the
/// file small.
const MAX_POINTS: usize = 400;
const MIN_POINTS: usize = 40;
const TOTAL_POINTS: usize = 4000;
