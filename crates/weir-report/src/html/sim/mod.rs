//! The report of a scenario as one HTML file: tables and plots of flows and links, over one run or
//! several.
//!
//! The page has the style, script and content security policy of a live run's report. If there are
//! many flows or links, the plots show only the busiest ones, and the tables only the first ones.
//! The page then says so, and the other result files contain all of them.

mod charts;

use maud::{Markup, html};
use weir_measure::estimate::Estimate;
use weir_measure::scenario::{LinkOutcome, Outcome};

use super::charts::{Chart, Data, micro};
use super::page::{figure, meta, page, row, table, with_share};
use crate::format::{configured_rate, count, duration, elapsed, exact_duration, percent, rate};
use crate::sim::{Metric, Results, estimate, metrics_of_flow, metrics_of_link, to_json};

/// The report as one self-contained HTML document. The same results give the same bytes.
pub fn to_html(results: &Results) -> String {
    let first = Outcome::default();
    let first = results.runs.first().unwrap_or(&first);
    let title = if first.scenario.is_empty() { "Scenario" } else { &first.scenario };
    let mut data = Vec::new();
    let content = html! {
        (header(results, first, title))
        @if !first.flows.is_empty() {
            section {
                (flows(results, first))
                (plots("f", charts::of_flows(results), &mut data))
            }
        }
        (links(results, first))
        @for (place, link) in charts::busiest_links(results).into_iter().enumerate() {
            section {
                (about(&first.links[link]))
                (plots(&format!("l{place}"), charts::of_link(results, link), &mut data))
            }
        }
        footer {
            "Made by Weir. Rates count network-layer bytes, goodput payload bytes; delays are \
             one-way, from the sender's host to the receiver's. Figures are of the time after the \
             warm-up, plots over time of the whole run."
        }
    };
    page(title, &content, &to_json(results), &data)
}

fn header(results: &Results, first: &Outcome, title: &str) -> Markup {
    let source = match results.source.as_str() {
        "sim" => "simulated",
        "live" => "on real frames",
        other => other,
    };
    let seeds = match results.runs.as_slice() {
        [] | [_] => first.seed.to_string(),
        [.., last] => format!("{} to {}", first.seed, last.seed),
    };
    let warmup = if first.warmup_ns > 0 {
        format!(", counted from {}", micro(&exact_duration(first.warmup_ns)))
    } else {
        String::new()
    };
    let events = results.runs.iter().map(|run| run.events).sum::<u64>();
    let mut entries =
        vec![("Time", format!("{} {source}{warmup}", elapsed(first.end_ns))), ("Seed", seeds)];
    if results.runs.len() > 1 {
        entries.push(("Runs", results.runs.len().to_string()));
    }
    if events > 0 {
        entries.push(("Events", count(events)));
    }
    html! {
        header {
            p.brand { "Weir " span { "scenario report" } }
            h1 { (title) }
            (meta(entries))
            @for what in unbalanced(results) {
                p.warning role="alert" {
                    strong { "Warning:" } " the packets of " (what) " are not all accounted for"
                }
            }
            @if results.runs.len() > 1 {
                p.note {
                    "Figures are means over runs; ± says how close the true mean is, with 95 % \
                     confidence. Bands in plots span the runs."
                }
            }
        }
    }
}

/// Flows and links with packets that are not accounted for, which is an error in Weir.
fn unbalanced(results: &Results) -> Vec<String> {
    let mut names = Vec::new();
    for run in &results.runs {
        names.extend(
            run.flows
                .iter()
                .filter(|f| !f.balanced())
                .map(|f| format!("flow {} with seed {}", f.name, run.seed)),
        );
        names.extend(
            run.links
                .iter()
                .filter(|l| !l.counters.balanced())
                .map(|l| format!("link {} with seed {}", l.name, run.seed)),
        );
    }
    names
}

fn flows(results: &Results, first: &Outcome) -> Markup {
    let kinds: Vec<String> =
        first.fairness.iter().map(|(kind, index)| format!("{kind} {index:.3}")).collect();
    let columns = [
        "Flow",
        "Goodput",
        "Delay, mean",
        "p50",
        "p99",
        "max",
        "Jitter",
        "Sent",
        "Lost",
        "Marked",
        "Resent",
    ];
    let rows = first.flows.iter().enumerate().take(MAX_ROWS).map(|(n, flow)| {
        let runs: Vec<_> = results
            .runs
            .iter()
            .filter_map(|run| Some(metrics_of_flow(run, run.flows.get(n)?)))
            .collect();
        let time = |name| cell(&runs, name, |v| micro(&duration(v)));
        let number = |name| cell(&runs, name, |v| count(v.round() as u64));
        let cells = [
            cell(&runs, "goodput_bps", rate),
            time("delay_mean_ns"),
            time("delay_p50_ns"),
            time("delay_p99_ns"),
            time("delay_max_ns"),
            time("jitter_ns"),
            number("sent"),
            share(&runs, "loss")
                .map_or_else(|| number("lost"), |loss| with_share(number("lost"), loss)),
            number("marked"),
            number("retransmitted"),
        ];
        row(html! { (flow.name) " " small { (flow.kind) } }, cells)
    });
    html! {
        h2 { "Flows" }
        p.spec { @if !kinds.is_empty() { "Jain's index of fairness: " (kinds.join(", ")) "." } }
        (table("Flows", NUMBERS, &columns, rows))
        (rest_of(first.flows.len()))
    }
}

fn links(results: &Results, first: &Outcome) -> Markup {
    if first.links.is_empty() {
        return Markup::default();
    }
    let columns = [
        "Link",
        "Rate",
        "Throughput",
        "Used",
        "In queue, mean",
        "p50",
        "p99",
        "max",
        "Longest queue",
        "Packets",
        "Dropped",
        "Marked",
    ];
    let rows = first.links.iter().enumerate().take(MAX_ROWS).map(|(n, link)| {
        let runs: Vec<_> = results
            .runs
            .iter()
            .filter_map(|run| Some(metrics_of_link(run, run.links.get(n)?)))
            .collect();
        row(&link.name, cells_of_link(link, &runs))
    });
    let shown = charts::busiest_links(results).len();
    let which = if shown < charts::MAX_LINKS {
        "that had traffic"
    } else {
        "with the most waiting, dropping and traffic"
    };
    html! {
        section {
            h2 { "Links" }
            (table("Links", NUMBERS, &columns, rows))
            (rest_of(first.links.len()))
            @if shown < first.links.len() {
                p.note {
                    "Plots follow of the links " (which) ": " (shown) " of " (first.links.len()) "."
                }
            }
        }
    }
}

fn cells_of_link(link: &LinkOutcome, runs: &[Vec<Metric>]) -> [Markup; 11] {
    let time = |name| cell(runs, name, |v| micro(&duration(v)));
    let number = |name| cell(runs, name, |v| count(v.round() as u64));
    let drops = share(runs, "drop_share").map_or_else(
        || number("drops"),
        |share| {
            let (drops, marks) = (link.counters.drop_counts(), link.counters.mark_counts());
            let why: Vec<&str> =
                drops.in_words().chain(marks.in_words()).map(|(words, _)| words).collect();
            html! { span title=(why.join(", ")) { (with_share(number("drops"), share)) } }
        },
    );
    [
        html! { (configured_rate(link.rate_bps, link.rate_varies)) },
        cell(runs, "throughput_bps", rate),
        cell(runs, "utilisation", percent),
        time("queue_mean_ns"),
        time("queue_p50_ns"),
        time("queue_p99_ns"),
        time("queue_max_ns"),
        number("peak_queue_packets"),
        number("packets_out"),
        drops,
        number("marks"),
    ]
}

/// The heading of a link and, if its port has a queue for each class, the table of these queues in
/// the first run.
fn about(link: &LinkOutcome) -> Markup {
    let columns = ["Class", "Packets", "In queue, mean", "p50", "p99", "max", "Dropped", "Marked"];
    let rows = link.classes.iter().map(|class| {
        let at = |q: f64| micro(&duration(class.queue_ns.quantile(q) as f64));
        let (drops, marks) = (class.reasons.total_drops(), class.reasons.total_marks());
        let mean = micro(&duration(class.queue_ns.mean()));
        row(
            class.class,
            [count(class.packets), mean, at(0.5), at(0.99), at(1.0), count(drops), count(marks)],
        )
    });
    html! {
        h2 { (link.name) " " span { (link.from) " → " (link.to) } }
        @if !link.spec.is_empty() { p.spec { code { (link.spec) } } }
        @if !link.classes.is_empty() { (table("Queues", NUMBERS, &columns, rows)) }
    }
}

fn plots(id: &str, charts: Vec<Chart>, data: &mut Vec<Data>) -> Markup {
    html! {
        div.plots {
            @for (n, chart) in charts.into_iter().enumerate() {
                (figure(&format!("{id}-{n}"), chart, data))
            }
        }
    }
}

/// A note below a table that does not have all rows.
fn rest_of(rows: usize) -> Markup {
    html! {
        @if rows > MAX_ROWS {
            p.note {
                "The first " (MAX_ROWS) " of " (count(rows as u64))
                "; the files beside this page have all."
            }
        }
    }
}

/// The mean of a metric over the runs, with the half-width of its confidence interval if this is
/// known and not 0; a dash if no run has the metric.
fn cell(runs: &[Vec<Metric>], name: &str, text: impl Fn(f64) -> String) -> Markup {
    match estimate(runs, name) {
        None => html! { "–" },
        Some(Estimate { mean, half_width: Some(half), .. }) if half > 0.0 => {
            html! { (text(mean)) br; i { "± " (text(half)) } }
        }
        Some(Estimate { mean, .. }) => html! { (text(mean)) },
    }
}

/// The mean of a share as text; `None` if the mean is 0 or no run has the share.
fn share(runs: &[Vec<Metric>], name: &str) -> Option<String> {
    estimate(runs, name).map(|e| e.mean).filter(|&share| share > 0.0).map(percent)
}

const MAX_ROWS: usize = 200;
/// The CSS class of tables of numbers.
const NUMBERS: Option<&str> = Some("numbers");
