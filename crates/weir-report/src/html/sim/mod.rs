//! The report of a scenario as one HTML file: tables and plots of flows and links, over one run or
//! several.
//!
//! The page has the style, script and policy of a live run's report. With many flows and links, the
//! tables and plots show the busiest; the page says so, and the other result files contain all.

mod charts;

use std::fmt::Write;

use weir_measure::estimate::Estimate;
use weir_measure::scenario::{LinkOutcome, Outcome};

use super::{close, figure, micro, opened};
use crate::format::{count, duration, elapsed, exact_duration, exact_rate, percent, rate};
use crate::plot::escape;
use crate::sim::{Metric, Results, estimate, metrics_of_flow, metrics_of_link, to_json};

/// The report as one self-contained HTML document. The same results give the same bytes.
pub fn to_html(results: &Results) -> String {
    let first = Outcome::default();
    let first = results.runs.first().unwrap_or(&first);
    let title = if first.scenario.is_empty() { "Scenario" } else { &first.scenario };
    let mut out = opened(&format!("{title} · Weir"));
    header(&mut out, results, first, title);
    let mut data = Vec::new();
    if !first.flows.is_empty() {
        flows(&mut out, results, first);
        plots(&mut out, "f", charts::of_flows(results), &mut data);
        out.push_str("</section>\n");
    }
    links(&mut out, results, first);
    for (place, link) in charts::busiest_links(results).into_iter().enumerate() {
        let l = &first.links[link];
        let _ = writeln!(
            out,
            "<section>\n<h2>{} <span>{} → {}</span></h2>",
            escape(&l.name),
            escape(&l.from),
            escape(&l.to)
        );
        if !l.spec.is_empty() {
            let _ = writeln!(out, "<p class=\"spec\"><code>{}</code></p>", escape(&l.spec));
        }
        classes(&mut out, l);
        plots(&mut out, &format!("l{place}"), charts::of_link(results, link), &mut data);
        out.push_str("</section>\n");
    }
    out.push_str(
        "<footer>Made by Weir. Rates count network-layer bytes, goodput payload bytes; delays are one-way, from the sender's host to the \
         receiver's. Figures are of the time after the warm-up, plots over time of the whole run.</footer>",
    );
    close(&mut out, &to_json(results), &data);
    out
}

fn header(out: &mut String, results: &Results, first: &Outcome, title: &str) {
    let source = match results.source.as_str() {
        "sim" => "simulated".to_owned(),
        "live" => "on real frames".to_owned(),
        other => other.to_owned(),
    };
    let _ = write!(
        out,
        "<header>\n<p class=\"brand\">Weir <span>scenario report</span></p>\n<h1>{}</h1>\n<dl class=\"meta\">",
        escape(title)
    );
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
    for (name, value) in entries {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out.push_str("</dl>\n");
    for what in unbalanced(results) {
        let _ = writeln!(
            out,
            "<p class=\"warning\" role=\"alert\"><strong>Warning:</strong> the books of {} do not balance</p>",
            escape(&what)
        );
    }
    if results.runs.len() > 1 {
        out.push_str("<p class=\"note\">Figures are means over runs; ± says how close the true mean is, with 95 % confidence. Bands in plots span the runs.</p>\n");
    }
    out.push_str("</header>\n");
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

fn flows(out: &mut String, results: &Results, first: &Outcome) {
    out.push_str("<section>\n<h2>Flows</h2>\n");
    let kinds: Vec<String> =
        first.fairness.iter().map(|(kind, index)| format!("{} {index:.3}", escape(kind))).collect();
    let note = if kinds.is_empty() {
        String::new()
    } else {
        format!("Jain's index of fairness: {}.", kinds.join(", "))
    };
    let _ = writeln!(out, "<p class=\"spec\">{note}</p>");
    table(
        out,
        "Flows",
        &[
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
        ],
    );
    for (n, flow) in first.flows.iter().enumerate().take(MOST_ROWS) {
        let runs: Vec<_> = results
            .runs
            .iter()
            .filter_map(|run| Some(metrics_of_flow(run, run.flows.get(n)?)))
            .collect();
        let name = format!("{} <small>{}</small>", escape(&flow.name), escape(&flow.kind));
        let time = |name| cell(&runs, name, |v| micro(&duration(v)));
        let number = |name| cell(&runs, name, |v| count(v.round() as u64));
        let lost = match estimate(&runs, "loss").map(|e| e.mean) {
            Some(share) if share > 0.0 => format!("{} <i>{}</i>", number("lost"), percent(share)),
            _ => number("lost"),
        };
        let cells = [
            cell(&runs, "goodput_bps", rate),
            time("delay_mean_ns"),
            time("delay_p50_ns"),
            time("delay_p99_ns"),
            time("delay_max_ns"),
            time("jitter_ns"),
            number("sent"),
            lost,
            number("marked"),
            number("retransmitted"),
        ];
        row(out, &name, &cells);
    }
    end_of_table(out, first.flows.len());
}

fn links(out: &mut String, results: &Results, first: &Outcome) {
    if first.links.is_empty() {
        return;
    }
    out.push_str("<section>\n<h2>Links</h2>\n");
    table(
        out,
        "Links",
        &[
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
        ],
    );
    for (n, link) in first.links.iter().enumerate().take(MOST_ROWS) {
        let runs: Vec<_> = results
            .runs
            .iter()
            .filter_map(|run| Some(metrics_of_link(run, run.links.get(n)?)))
            .collect();
        let time = |name| cell(&runs, name, |v| micro(&duration(v)));
        let number = |name| cell(&runs, name, |v| count(v.round() as u64));
        let why: Vec<&str> = link
            .counters
            .drop_counts()
            .in_words()
            .chain(link.counters.mark_counts().in_words())
            .map(|(words, _)| words)
            .collect();
        let drops = match estimate(&runs, "drop_share").map(|e| e.mean) {
            Some(share) if share > 0.0 => {
                format!(
                    "<span title=\"{}\">{} <i>{}</i></span>",
                    escape(&why.join(", ")),
                    number("drops"),
                    percent(share)
                )
            }
            _ => number("drops"),
        };
        let cells = [
            link.rate_bps.map_or("unlimited".to_owned(), exact_rate),
            cell(&runs, "throughput_bps", rate),
            cell(&runs, "utilisation", percent),
            time("queue_mean_ns"),
            time("queue_p50_ns"),
            time("queue_p99_ns"),
            time("queue_max_ns"),
            number("peak_queue_packets"),
            number("packets_out"),
            drops,
            number("marks"),
        ];
        row(out, &escape(&link.name), &cells);
    }
    end_of_table(out, first.links.len());
    let shown = charts::busiest_links(results).len();
    if shown < first.links.len() {
        let which = if shown < charts::MOST_LINKS {
            "that had traffic"
        } else {
            "with the most waiting, dropping and traffic"
        };
        let _ = writeln!(
            out,
            "<p class=\"note\">Plots follow of the links {which}: {shown} of {}.</p>",
            first.links.len()
        );
    }
    out.push_str("</section>\n");
}

/// The queues of a port that has one per class, for the first run.
fn classes(out: &mut String, link: &LinkOutcome) {
    if link.classes.is_empty() {
        return;
    }
    table(
        out,
        "Queues",
        &["Class", "Packets", "In queue, mean", "p50", "p99", "max", "Dropped", "Marked"],
    );
    for class in &link.classes {
        let at = |q: f64| micro(&duration(class.queue_ns.quantile(q) as f64));
        let (drops, marks) = (class.reasons.total_drops(), class.reasons.total_marks());
        let mean = micro(&duration(class.queue_ns.mean()));
        row(
            out,
            &class.class.to_string(),
            &[count(class.packets), mean, at(0.5), at(0.99), at(1.0), count(drops), count(marks)],
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn plots(
    out: &mut String,
    id: &str,
    charts: Vec<super::charts::Chart>,
    data: &mut Vec<super::charts::Data>,
) {
    out.push_str("<div class=\"plots\">\n");
    for (n, chart) in charts.into_iter().enumerate() {
        figure(out, &format!("{id}-{n}"), chart, data);
    }
    out.push_str("</div>\n");
}

fn table(out: &mut String, label: &str, columns: &[&str]) {
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table class=\"numbers\">\n<thead><tr>"
    );
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
}

fn row(out: &mut String, name: &str, cells: &[String]) {
    let _ = write!(out, "<tr><th scope=\"row\">{name}</th>");
    for cell in cells {
        let _ = write!(out, "<td>{cell}</td>");
    }
    out.push_str("</tr>\n");
}

fn end_of_table(out: &mut String, rows: usize) {
    out.push_str("</tbody></table></div>\n");
    if rows > MOST_ROWS {
        let _ = writeln!(
            out,
            "<p class=\"note\">The first {MOST_ROWS} of {}; the files beside this page have all.</p>",
            count(rows as u64)
        );
    }
}

/// The mean of a number, with its confidence interval if there are several runs; a dash if no run
/// has it.
fn cell(runs: &[Vec<Metric>], name: &str, text: impl Fn(f64) -> String) -> String {
    match estimate(runs, name) {
        None => "–".to_owned(),
        Some(Estimate { mean, half_width: Some(half), .. }) if half > 0.0 => {
            format!("{}<br><i>± {}</i>", text(mean), text(half))
        }
        Some(Estimate { mean, .. }) => text(mean),
    }
}

/// Maximum number of rows of a table.
const MOST_ROWS: usize = 200;
