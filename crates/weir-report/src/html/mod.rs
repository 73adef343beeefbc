//! The report of a run as one HTML file: statistics, plots, and the result itself as embedded JSON.
//!
//! The plots are drawn here, so the page is complete without scripts and prints well. The page's
//! script only adds reading of values and zooming. The page fetches nothing, and its own policy
//! forbids it. The series are down-sampled (sums exact, extremes kept), so the size of the file
//! does not grow with the length of the run.

mod charts;
mod finding;
pub(crate) mod sim;
pub(crate) mod watch;

use std::fmt::Write;

use weir_measure::histogram::Histogram;

use crate::format::{count, duration, elapsed, percent, rate};
use crate::model::{LATE_WARNING, LinkResult, RunResult};
use crate::plot::{STYLE, Size, escape};
use crate::summary::shell_words;
use charts::{Chart, charts};
pub use finding::finding_to_html;

/// The report as one self-contained HTML document.
pub fn to_html(run: &RunResult) -> String {
    let title = match run.info().command.first() {
        Some(program) => format!("{} · Weir", program.rsplit('/').next().unwrap_or(program)),
        None => "Run · Weir".to_owned(),
    };
    let mut out = opened(&title);
    header(&mut out, run);
    overview(&mut out, run);
    let points = (TOTAL_POINTS / run.links().len().max(1)).clamp(MIN_POINTS, MAX_POINTS);
    let mut data = Vec::new();
    for (i, link) in run.links().iter().enumerate() {
        section(&mut out, run, i, link, points, &mut data);
    }
    let _ = writeln!(
        out,
        "<footer>Made by Weir {}. Rates count network-layer bytes unless the link's configuration adds an overhead. Delay is measured \
         from the packet's arrival at the link to its intended release.</footer>",
        escape(&run.info().version)
    );
    close(&mut out, &crate::json::to_json(run), &data);
    out
}

/// The start of a page, up to its body.
fn opened(title: &str) -> String {
    let mut out = String::with_capacity(256 << 10);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{}</title>\n<style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n",
        escape(title)
    );
    out
}

/// The end of a page: the result for programs, the values of the plots, and the script that reads
/// them.
fn close(out: &mut String, result: &str, data: &[charts::Data]) {
    // Inside a script element only `<` could end it.
    let result = result.replace('<', "\\u003c");
    let plots =
        serde_json::to_string(data).expect("plain data always serialises").replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"weir-result\">{result}</script>\n<script type=\"application/json\" id=\"weir-plots\">{plots}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
}

fn header(out: &mut String, run: &RunResult) {
    let info = run.info();
    out.push_str("<header>\n<p class=\"brand\">Weir <span>run report</span></p>\n");
    if !info.command.is_empty() {
        let _ = writeln!(out, "<h1><code>{}</code></h1>", escape(&shell_words(&info.command)));
    } else {
        out.push_str("<h1>Run</h1>\n");
    }
    let exit = match (info.command.is_empty(), info.exit_code) {
        (true, _) => None,
        (false, Some(code)) => Some(format!("code {code}")),
        (false, None) => Some("by a signal".to_owned()),
    };
    out.push_str("<dl class=\"meta\">");
    let started = Some(info.started.clone()).filter(|s| !s.is_empty());
    for (name, value) in [
        ("Started", started),
        ("Took", Some(elapsed(info.duration_ns))),
        ("Exit", exit),
        ("Seed", Some(info.seed.to_string())),
    ] {
        if let Some(value) = value {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
        }
    }
    out.push_str("</dl>\n");
    for warning in &info.warnings {
        let _ = writeln!(
            out,
            "<p class=\"warning\" role=\"alert\"><strong>Warning:</strong> {}</p>",
            escape(warning)
        );
    }
    for note in &info.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("</header>\n");
}

fn overview(out: &mut String, run: &RunResult) {
    out.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Summary\"><table>\n<thead><tr><th scope=\"col\">Link</th>\
         <th scope=\"col\">Rate</th><th scope=\"col\">Measured mean</th><th scope=\"col\">Delay</th><th scope=\"col\">Measured p50</th>\
         <th scope=\"col\">p99</th><th scope=\"col\">In queue p99</th><th scope=\"col\">Packets</th><th scope=\"col\">Dropped</th>\
         <th scope=\"col\">Timing</th></tr></thead>\n<tbody>\n",
    );
    for l in run.links() {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&l.name),
            l.configured_rate(),
            rate(l.mean_out_bps(run.info().duration_ns)),
            micro(&l.configured_delay()),
            at(&l.total_ns, 0.5),
            at(&l.total_ns, 0.99),
            at(&l.queue_ns, 0.99),
            count(l.counters.packets_in),
            count(l.counters.total_drops()),
            verdict(l)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn section(
    out: &mut String,
    run: &RunResult,
    i: usize,
    l: &LinkResult,
    points: usize,
    data: &mut Vec<charts::Data>,
) {
    let _ = writeln!(
        out,
        "<section>\n<h2>{} <span>{} → {}</span></h2>\n<p class=\"spec\"><code>{}</code></p>",
        escape(&l.name),
        escape(&l.from),
        escape(&l.to),
        escape(&l.spec)
    );
    tiles(out, l, run.info().duration_ns);
    out.push_str("<div class=\"plots\">\n");
    for (j, chart) in charts(l, points).into_iter().enumerate() {
        figure(out, &format!("p{i}-{j}"), chart, data);
    }
    out.push_str("</div>\n</section>\n");
}

/// A plot in two sizes, of which the style sheet shows the one that fits; alternatives (packets,
/// bytes) have a switch.
fn figure(out: &mut String, id: &str, chart: Chart, data: &mut Vec<charts::Data>) {
    figure_in(out, id, chart, data, ("half", [WIDE, NARROW]));
}

/// The same with a CSS class and both sizes, wide and narrow.
fn figure_in(
    out: &mut String,
    id: &str,
    chart: Chart,
    data: &mut Vec<charts::Data>,
    (class, sizes): (&str, [Size; 2]),
) {
    let title = &chart.variants[0].plot.title;
    let _ = write!(out, "<figure class=\"{class}\"><figcaption><h3>{}</h3>", escape(title));
    if chart.variants.len() > 1 {
        let _ = write!(
            out,
            "<span class=\"switch\" role=\"radiogroup\" aria-label=\"{}: show\">",
            escape(title)
        );
        for (k, variant) in chart.variants.iter().enumerate() {
            let checked = if k == 0 { " checked" } else { "" };
            let _ = write!(
                out,
                "<label><input type=\"radio\" name=\"{id}\" value=\"{k}\"{checked}><span>{}</span></label>",
                escape(&variant.name)
            );
        }
        out.push_str("</span>");
    }
    out.push_str("</figcaption>");
    for (k, variant) in chart.variants.into_iter().enumerate() {
        let _ = write!(out, "<div class=\"plot v{k}\" data-plot=\"{}\">", data.len());
        for (class, size) in ["wide", "narrow"].into_iter().zip(sizes) {
            let _ = write!(
                out,
                "<div class=\"{class}\">{}</div>",
                variant.plot.svg(size, &format!("{id}-{k}{class}"))
            );
        }
        out.push_str("</div>");
        data.push(variant.data);
    }
    if !chart.remark.is_empty() {
        let _ = write!(out, "<p class=\"remark\">{}</p>", escape(&chart.remark));
    }
    out.push_str("</figure>\n");
}

fn tiles(out: &mut String, l: &LinkResult, duration_ns: u64) {
    out.push_str("<dl class=\"tiles\">");
    let mut tile = |name: &str, value: &str, detail: &str| {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{detail}</small></dd></div>");
    };
    let configured = l.configured_rate();
    let peak =
        l.peak_out_bps().map_or(String::new(), |p| format!("peak {} over 1 s, ", rate(p as f64)));
    tile(
        "Throughput",
        &rate(l.mean_out_bps(duration_ns)),
        &format!("{peak}configured {configured}"),
    );
    let p99 = at(&l.total_ns, 0.99);
    tile(
        "Delay, median",
        &at(&l.total_ns, 0.5),
        &format!(
            "least {}, p99 {p99}, configured {}",
            at(&l.total_ns, 0.0),
            micro(&l.configured_delay())
        ),
    );
    let (q99, qmax) = (at(&l.queue_ns, 0.99), at(&l.queue_ns, 1.0));
    let most = match l.counters.peak_queue_packets {
        0 => String::new(),
        1 => ", longest 1 packet".to_owned(),
        n => format!(", longest {} packets", count(n)),
    };
    tile("In queue, median", &at(&l.queue_ns, 0.5), &format!("p99 {q99}, max {qmax}{most}"));
    let inside = if l.counters.backlog_packets > 0 {
        format!(", {} still inside", count(l.counters.backlog_packets))
    } else {
        String::new()
    };
    tile(
        "Packets in",
        &count(l.counters.packets_in),
        &format!("{} out{inside}", count(l.counters.packets_out)),
    );
    let drops: Vec<String> = l
        .counters
        .drop_counts()
        .in_words()
        .map(|(words, n)| format!("{} {}", count(n), escape(words)))
        .collect();
    let loss = l.loss.map_or(String::new(), |p| format!("; random loss configured {}", percent(p)));
    let share = percent(
        l.counters.total_drops() as f64
            / (l.counters.packets_in + l.counters.duplicated).max(1) as f64,
    );
    tile(
        "Dropped",
        &format!("{} <i>{share}</i>", count(l.counters.total_drops())),
        &format!("{}{loss}", drops.join(", ")),
    );
    if l.counters.total_marks() > 0 {
        let marks: Vec<String> = l
            .counters
            .mark_counts()
            .in_words()
            .map(|(words, n)| format!("{} {}", count(n), escape(words)))
            .collect();
        let share = percent(
            l.counters.total_marks() as f64
                / (l.counters.packets_in + l.counters.duplicated).max(1) as f64,
        );
        tile(
            "Marked",
            &format!("{} <i>{share}</i>", count(l.counters.total_marks())),
            &marks.join(", "),
        );
    }
    let altered: Vec<String> = [
        (l.counters.duplicated, "duplicated"),
        (l.counters.corrupted, "corrupted"),
        (l.counters.reordered, "reordered"),
    ]
    .into_iter()
    .filter(|&(n, _)| n > 0)
    .map(|(n, what)| format!("{} {what}", count(n)))
    .collect();
    if !altered.is_empty() {
        tile(
            "Altered",
            &count(l.counters.duplicated + l.counters.corrupted + l.counters.reordered),
            &altered.join(", "),
        );
    }
    if l.late_fraction().is_some() {
        let (p50, p99) = (at(&l.lateness_ns, 0.5), at(&l.lateness_ns, 0.99));
        tile("Lateness, median", &p50, &format!("p99 {p99}, {}", verdict(l)));
    }
    out.push_str("</dl>\n");
}

fn verdict(l: &LinkResult) -> String {
    match l.late_fraction() {
        None => "–".to_owned(),
        Some(late) if late >= LATE_WARNING => {
            format!(
                "<b class=\"bad\">✗ did not keep time: {} over 1 ms late</b>",
                escape(&percent(late))
            )
        }
        Some(_) => "<span class=\"good\">✓ kept time</span>".to_owned(),
    }
}

/// A quantile as text; a dash without values. The ends are exact.
fn at(h: &Histogram, q: f64) -> String {
    let ns = match q {
        0.0 => h.min(),
        1.0 => h.max(),
        _ => h.quantile(q),
    };
    if h.count() == 0 { "–".to_owned() } else { micro(&duration(ns as f64)) }
}

/// Replaces the `u` of `us`, as terminals show it, by the letter µ.
fn micro(text: &str) -> String {
    text.replace(" us", " µs")
}

/// Forbids all fetching, whatever a name in the result contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const PAGE_STYLE: &str = include_str!("report.css");
const SCRIPT: &str = concat!(include_str!("detail.js"), include_str!("report.js"));
/// Maximum number of points of one curve, and of all links together, to keep the file small.
const MAX_POINTS: usize = 400;
const MIN_POINTS: usize = 40;
const TOTAL_POINTS: usize = 4000;
const WIDE: Size = Size { width: 600, height: 270 };
const NARROW: Size = Size { width: 350, height: 250 };
