//! The report that the web page makes of a span of time: what a few links, pipes, queues or
//! schedulers did, by the page's readings.

use maud::{Markup, html};
use serde::Serialize;

use super::charts::{Chart, Data, micro, variant};
use super::page::{figure, meta, page, row, table, tile};
use crate::format::{count, duration, elapsed, rate};
use crate::plot::{Axis, Curve, Plot, Shape, Unit};

/// A span of time with its objects and changes. Times in seconds count from its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpanReport {
    /// The name of the session, or of the daemon.
    pub name: String,
    /// The program, or the interfaces.
    pub program: String,
    /// The start, as a date and time with its zone.
    pub from: String,
    /// The end.
    pub to: String,
    /// The length, in s.
    pub seconds: f64,
    /// The version of Weir.
    pub version: String,
    /// The objects that were watched.
    pub objects: Vec<SpanObject>,
    /// The changes in the span.
    pub changes: Vec<SpanChange>,
}

/// An object with its readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpanObject {
    /// The displayed name.
    pub name: String,
    /// The ends between which its packets travel, if they have names.
    pub ends: Option<[String; 2]>,
    /// The configuration at the end, in the command language.
    pub spec: String,
    /// The readings, in the order of their times.
    pub points: Vec<SpanPoint>,
}

/// A reading of an object: its statistics for one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpanPoint {
    /// The end of the interval, in s.
    pub at_s: f64,
    /// The length of the interval, in s.
    pub span_s: f64,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Packets that departed.
    pub packets_out: u64,
    /// The mean rate of arrivals, bit/s.
    pub in_bps: f64,
    /// The mean rate of departures, bit/s.
    pub out_bps: f64,
    /// The greatest rate of departures in a part of the interval, bit/s.
    pub out_bps_max: f64,
    /// Packets in the queue: least, mean and greatest number.
    pub queue_packets: [f64; 3],
    /// Bytes of these packets: least, mean and greatest; `None` where bytes are not counted.
    pub queue_bytes: Option<[f64; 3]>,
    /// Queueing delay: median, 99th percentile and greatest, in ns; `None` if unknown.
    pub wait_ns: Option<[f64; 3]>,
    /// Time from arrival to due time: median, 99th percentile and greatest, in ns; `None` if
    /// unknown.
    pub total_ns: Option<[f64; 3]>,
    /// Lateness: median, 99th percentile and greatest, in ns; `None` if unknown.
    pub late_ns: Option<[f64; 3]>,
    /// Dropped packets, by reason in words.
    pub drops: Vec<(String, u64)>,
    /// Marked packets, by reason in words.
    pub marks: Vec<(String, u64)>,
    /// The configured rate, bit/s.
    pub rate_bps: Option<f64>,
}

/// A change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpanChange {
    /// The time of the change, in s.
    pub at_s: f64,
    /// What changed, in words.
    pub what: String,
}

/// The report as one self-contained HTML document.
pub fn span_to_html(report: &SpanReport) -> String {
    let mut data = Vec::new();
    let content = html! {
        (header(report))
        main {
            (overview(report))
            (changes(report))
            @for (place, object) in report.objects.iter().enumerate() {
                (section(object, place, report, &mut data))
            }
        }
        footer {
            "Made by Weir " (report.version) " from the readings of its page. Where nothing was \
             read, a curve has a gap. Older readings are merged: means are weighted by time, and \
             the least and greatest values stay. Rates count network-layer bytes unless the \
             configuration adds an overhead."
        }
    };
    let json = serde_json::to_string(report).expect("plain data always serialises");
    page(&report.name, &content, &json, &data)
}

fn header(report: &SpanReport) -> Markup {
    let entries = [
        ("From", report.from.clone()),
        ("To", report.to.clone()),
        ("Length", elapsed(nanoseconds(report.seconds))),
        ("Version", report.version.clone()),
    ];
    html! {
        header {
            p.brand { "Weir " span { "recorded span" } }
            h1 { (report.name) }
            @if !report.program.is_empty() && report.program != report.name {
                p.spec { code { (report.program) } }
            }
            (meta(entries))
        }
    }
}

fn overview(report: &SpanReport) -> Markup {
    let columns = [
        "Object",
        "Offered, mean",
        "Carried, mean",
        "Peak",
        "Packets in",
        "Dropped",
        "Waiting, most",
        "Queueing delay, greatest",
        "Lateness, greatest",
    ];
    let rows = report.objects.iter().map(|object| {
        let most = |of: fn(&SpanPoint) -> Option<f64>| {
            object.points.iter().filter_map(of).max_by(f64::total_cmp)
        };
        let time =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ns| micro(&duration(ns)));
        let totals = Totals::of(object);
        row(
            &object.name,
            [
                totals.rate(|point| point.in_bps, object),
                totals.rate(|point| point.out_bps, object),
                most(|point| Some(point.out_bps_max)).map_or_else(|| "–".to_owned(), rate),
                count(totals.packets_in),
                count(totals.drops),
                most(|point| Some(point.queue_packets[2]))
                    .map_or_else(|| "–".to_owned(), |packets| count(packets as u64)),
                time(most(|point| point.wait_ns.map(|times| times[2]))),
                time(most(|point| point.late_ns.map(|times| times[2]))),
            ],
        )
    });
    table("Summary", Some("numbers"), &columns, rows)
}

fn changes(report: &SpanReport) -> Markup {
    if report.changes.is_empty() {
        return html! {};
    }
    let rows = report
        .changes
        .iter()
        .map(|change| row(format!("{:.1} s", change.at_s), [html! { code { (change.what) } }]));
    html! {
        section {
            h2 { "Changes" }
            (table("Changes", None, &["After", "Change"], rows))
        }
    }
}

/// Sums over the readings of an object.
struct Totals {
    seconds: f64,
    packets_in: u64,
    packets_out: u64,
    drops: u64,
    marks: u64,
}

impl Totals {
    fn of(object: &SpanObject) -> Self {
        let sum = |of: fn(&SpanPoint) -> u64| object.points.iter().map(of).sum();
        Self {
            seconds: object.points.iter().map(|point| point.span_s).sum(),
            packets_in: sum(|point| point.packets_in),
            packets_out: sum(|point| point.packets_out),
            drops: sum(|point| point.drops.iter().map(|(_, n)| n).sum()),
            marks: sum(|point| point.marks.iter().map(|(_, n)| n).sum()),
        }
    }

    /// The mean of a rate over the time with readings.
    fn rate(&self, of: fn(&SpanPoint) -> f64, object: &SpanObject) -> String {
        if self.seconds <= 0.0 {
            return "–".to_owned();
        }
        let bits: f64 = object.points.iter().map(|point| of(point) * point.span_s).sum();
        rate(bits / self.seconds)
    }
}

fn section(object: &SpanObject, place: usize, report: &SpanReport, data: &mut Vec<Data>) -> Markup {
    let totals = Totals::of(object);
    html! {
        section {
            h2 {
                (object.name)
                @if let Some([from, to]) = &object.ends { " " span { (from) " → " (to) } }
            }
            p.spec { code { @if object.spec.is_empty() { "no limit" } @else { (object.spec) } } }
            dl.tiles {
                (tile(
                    "Carried",
                    totals.rate(|point| point.out_bps, object),
                    format!("offered {}", totals.rate(|point| point.in_bps, object)),
                ))
                (tile(
                    "Packets in",
                    count(totals.packets_in),
                    format!("{} out", count(totals.packets_out)),
                ))
                (tile("Dropped", count(totals.drops), listed(&reasons(object, |p| &p.drops))))
                @if totals.marks > 0 {
                    (tile("Marked", count(totals.marks), listed(&reasons(object, |p| &p.marks))))
                }
            }
            div.plots {
                @for (number, chart) in charts(object, report).into_iter().enumerate() {
                    (figure(&format!("s{place}-{number}"), chart, data))
                }
            }
        }
    }
}

/// Selects the drops or the marks of a reading, by reason.
type Reasons = fn(&SpanPoint) -> &Vec<(String, u64)>;
/// Selects three values of a quantity in ascending order, such as the least, the mean and the
/// greatest; `None` if they are unknown.
type Three = fn(&SpanPoint) -> Option<[f64; 3]>;

/// The reasons that occur, with their numbers, in the order of their first occurrence.
fn reasons(object: &SpanObject, of: Reasons) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for (name, number) in object.points.iter().flat_map(of) {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += number,
            None => all.push((name.clone(), *number)),
        }
    }
    all
}

fn listed(all: &[(String, u64)]) -> String {
    let parts: Vec<String> = all.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    parts.join(", ")
}

fn charts(object: &SpanObject, report: &SpanReport) -> Vec<Chart> {
    let over_time = |title: &str, what: &str, y: Axis, mut curves: Vec<Curve>| {
        for (number, change) in report.changes.iter().enumerate() {
            // All changes share one entry of the legend.
            let name = if number == 0 { "change" } else { "" };
            curves.push(Curve::new(name, 3, Shape::Mark(change.at_s)));
        }
        let x = Axis::linear("time", Unit::Seconds).with_range(0.0, report.seconds.max(1e-3));
        let description = format!("{what} of {} over time.", object.name);
        Plot { title: title.to_owned(), description, x, y, curves }
    };
    let one = |title: &str, what: &str, y: Axis, curves: Vec<Curve>| Chart {
        variants: vec![variant("", "time", over_time(title, what, y, curves))],
        remark: String::new(),
    };
    let rates = || Axis::linear("rate", Unit::BitsPerSecond);
    let mut throughput = vec![
        Curve::new("offered", 1, steps(object, |point| Some(point.in_bps))),
        Curve::new("carried", 0, steps(object, |point| Some(point.out_bps))),
    ];
    if object.points.iter().any(|point| point.rate_bps.is_some()) {
        throughput.push(Curve::new("configured", 4, steps(object, |point| point.rate_bps)));
    }
    let queue = |name: &str, unit: Unit, of: Three| {
        let curves = vec![
            Curve::new("least to most", 5, band(object, of)),
            Curve::new("mean", 4, Shape::Steps(filled(object, of, |_, [_, mean, _]| mean))),
        ];
        let plot = over_time("Queue length", "Waiting packets", Axis::linear(name, unit), curves);
        variant(name, "time", plot)
    };
    let mut lengths = vec![queue("packets", Unit::Count, |point| Some(point.queue_packets))];
    if object.points.iter().any(|point| point.queue_bytes.is_some()) {
        lengths.push(queue("bytes", Unit::Bytes, |point| point.queue_bytes));
    }
    let mut all = vec![
        one("Throughput", "Offered and carried rate", rates(), throughput),
        Chart {
            variants: lengths,
            remark: "The band spans the extremes of each interval, so short peaks stay visible."
                .to_owned(),
        },
    ];
    let times: [(&str, &str, &str, Three); 3] = [
        ("Queueing delay", "Time from arrival to transmission", "delay", |point| point.wait_ns),
        ("Delay from arrival to departure", "Delay", "delay", |point| point.total_ns),
        ("Lateness of the machine", "Lateness", "lateness", |point| point.late_ns),
    ];
    for (title, what, label, of) in times {
        if !object.points.iter().any(|point| of(point).is_some()) {
            continue;
        }
        let curve = |name: &str, colour, at: usize| {
            let shape = filled(object, of, |_, values| values[at]);
            Curve::new(name, colour, Shape::Steps(shape))
        };
        let curves =
            vec![curve("greatest", 4, 2), curve("99th percentile", 1, 1), curve("median", 0, 0)];
        all.push(one(title, what, Axis::linear(label, Unit::Nanoseconds), curves));
    }
    let of_drops: Reasons = |point| &point.drops;
    let of_marks: Reasons = |point| &point.marks;
    for (title, axis, of) in
        [("Drops", "packets dropped", of_drops), ("Marks", "packets marked", of_marks)]
    {
        let curves = by_reason(object, of);
        if !curves.is_empty() {
            let mut chart = one(title, axis, Axis::linear(axis, Unit::Count), curves);
            "Packets in each interval.".clone_into(&mut chart.remark);
            all.push(chart);
        }
    }
    all
}

/// A value of each reading as steps, with gaps where nothing was read or known.
fn steps(object: &SpanObject, of: fn(&SpanPoint) -> Option<f64>) -> Shape {
    let mut points: Vec<[f64; 2]> = Vec::new();
    walk(object, |from, to, point, gap| {
        if let Some(gap) = gap {
            points.push([gap, f64::NAN]);
        }
        points.push([from, of(point).unwrap_or(f64::NAN)]);
        end(&mut points, to);
    });
    Shape::Steps(points)
}

/// The points of [`steps`] for the value that `pick` chooses among three.
fn filled(
    object: &SpanObject,
    of: Three,
    pick: impl Fn(&SpanPoint, [f64; 3]) -> f64,
) -> Vec<[f64; 2]> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    walk(object, |from, to, point, gap| {
        if let Some(gap) = gap {
            points.push([gap, f64::NAN]);
        }
        points.push([from, of(point).map_or(f64::NAN, |values| pick(point, values))]);
        end(&mut points, to);
    });
    points
}

fn band(object: &SpanObject, of: Three) -> Shape {
    let unknown = [f64::NAN; 3];
    let mut points: Vec<[f64; 3]> = Vec::new();
    walk(object, |from, to, point, gap| {
        if let Some(gap) = gap {
            points.push([gap, f64::NAN, f64::NAN]);
        }
        let [low, _, high] = of(point).unwrap_or(unknown);
        points.push([from, low, high]);
        if let Some(to) = to {
            points.push([to, low, high]);
        }
    });
    Shape::Band(points)
}

/// Extends the last value to `to`, the end of the last reading.
fn end(points: &mut Vec<[f64; 2]>, to: Option<f64>) {
    if let (Some(to), Some(&[_, value])) = (to, points.last()) {
        points.push([to, value]);
    }
}

/// Calls `each(start, end, reading, gap)` for each reading. `end` is `None` unless the reading is
/// the last one. `gap` is the start of the gap before the reading; `None` without a gap.
fn walk(object: &SpanObject, mut each: impl FnMut(f64, Option<f64>, &SpanPoint, Option<f64>)) {
    let mut before: Option<f64> = None;
    for (number, point) in object.points.iter().enumerate() {
        let from = (point.at_s - point.span_s).max(before.unwrap_or(0.0)).max(0.0);
        // Readings may be late, so a short distance is not a gap.
        let gap = before.filter(|before| from > before + 0.25 + 0.5 * point.span_s);
        let to = (number + 1 == object.points.len()).then_some(point.at_s);
        each(if gap.is_some() { from } else { before.unwrap_or(from) }, to, point, gap);
        before = Some(point.at_s);
    }
}

/// Bars over time, stacked by reason.
fn by_reason(object: &SpanObject, of: Reasons) -> Vec<Curve> {
    let names: Vec<String> = reasons(object, of).into_iter().map(|(name, _)| name).collect();
    let mut floor = vec![0.0; object.points.len()];
    let mut curves = Vec::new();
    for (name, colour) in names.iter().zip(COLOURS.into_iter().cycle()) {
        let mut bars = Vec::new();
        for (point, floor) in object.points.iter().zip(&mut floor) {
            let number = of(point).iter().find(|(own, _)| own == name).map_or(0, |(_, n)| *n);
            if number > 0 {
                let from = (point.at_s - point.span_s).max(0.0);
                bars.push([from, point.at_s, *floor, *floor + number as f64]);
                *floor += number as f64;
            }
        }
        curves.push(Curve::new(name, colour, Shape::Bars(bars)));
    }
    curves
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

/// Palette indices of the reasons. Consecutive colours also differ in lightness.
const COLOURS: [u8; 7] = [1, 6, 3, 5, 2, 4, 0];

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_s: f64, out_bps: f64) -> SpanPoint {
        SpanPoint {
            at_s,
            span_s: 1.0,
            packets_in: 100,
            packets_out: 90,
            in_bps: out_bps * 1.2,
            out_bps,
            out_bps_max: out_bps * 1.1,
            queue_packets: [0.0, 2.5, 7.0],
            wait_ns: Some([1e6, 2e6, 3e6]),
            drops: vec![("queue full".to_owned(), 10)],
            rate_bps: Some(4e6),
            ..SpanPoint::default()
        }
    }

    fn report() -> SpanReport {
        let points = vec![point(1.0, 2e6), point(2.0, 4e6), point(7.0, 3e6)];
        SpanReport {
            name: "curl".to_owned(),
            program: "curl -O https://example.org/file".to_owned(),
            seconds: 8.0,
            objects: vec![SpanObject {
                name: "down".to_owned(),
                ends: Some(["network".to_owned(), "curl".to_owned()]),
                spec: "bw 4Mbit/s".to_owned(),
                points,
            }],
            changes: vec![SpanChange { at_s: 1.5, what: "down became bw 4Mbit/s".to_owned() }],
            ..SpanReport::default()
        }
    }

    #[test]
    fn the_page_has_the_objects_their_plots_and_the_changes() {
        let page = span_to_html(&report());
        for part in [
            "recorded span",
            "down <span>network → curl</span>",
            "Throughput",
            "Queue length",
            "Queueing delay",
            "queue full",
            "down became bw 4Mbit/s",
            "3 Mbit/s",
            "\"seconds\":8.0",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("Lateness of the machine"), "nothing is known about it");
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn a_time_without_readings_is_a_gap() {
        let Shape::Steps(points) = steps(&report().objects[0], |point| Some(point.out_bps)) else {
            panic!("steps are steps");
        };
        let times: Vec<f64> = points.iter().map(|point| point[0]).collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 6.0, 7.0]);
        assert!(points[2][1].is_nan());
    }

    #[test]
    fn names_are_text() {
        let mut report = report();
        report.name = "<img src=x onerror=alert(1)>".to_owned();
        report.objects[0].name = "</script><b>".to_owned();
        report.changes[0].what = "<i>".to_owned();
        let page = span_to_html(&report);
        assert!(!page.contains("<img src=x") && !page.contains("</script><b>"), "escaped");
        assert!(!page.contains("<i>"));
        assert!(span_to_html(&SpanReport::default()).contains("recorded span"));
    }
}
