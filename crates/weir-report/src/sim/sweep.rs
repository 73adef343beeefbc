//! The points of a sweep side by side: tables with a row for each point, and plots over a key of
//! the sweep.

use std::collections::BTreeSet;

use super::metrics::{metrics_of_flow, metrics_of_link};
use super::{Metric, Results};
use crate::finding::{Axis, Cell, Finding, Plot, Quantity, Series, Style, Table, Unit};

/// The keys that a point sets, with their values as texts.
pub type Settings = [(String, String)];

/// The tables and plots of a sweep. Flows and links are those of the first point.
pub fn sweep_finding(name: &str, points: &[(&Settings, Results)]) -> Finding {
    let mut finding = Finding {
        title: format!("{}: {} points", if name.is_empty() { "Sweep" } else { name }, points.len()),
        ..Finding::default()
    };
    let Some((_, first)) = points.first() else { return finding };
    let Some(run) = first.runs.first() else { return finding };
    let runs = points.iter().map(|(_, results)| results.runs.len()).max().unwrap_or(0);
    if runs > 1 {
        finding.notes.push(format!(
            "Numbers are means over up to {runs} runs; ± says how close the true mean is, with 95 % \
             confidence."
        ));
    }
    let subjects = run
        .flows
        .iter()
        .take(MOST)
        .map(|flow| Subject::Flow(flow.name.clone()))
        .chain(run.links.iter().take(MOST).map(|link| Subject::Link(link.name.clone())));
    for (all, what) in [(run.flows.len(), "flows"), (run.links.len(), "links")] {
        if all > MOST {
            finding.notes.push(format!("{MOST} of {all} {what} are shown; sweep.json has all."));
        }
    }
    for subject in subjects {
        finding.tables.push(table(&subject, points));
        finding.plots.extend(plots(&subject, points));
    }
    finding
}

enum Subject {
    Flow(String),
    Link(String),
}

/// A column: the metric, its heading, the size of the displayed unit in units of the metric, and
/// the number of decimals.
type Shown = (&'static str, &'static str, f64, u8);

impl Subject {
    fn title(&self) -> String {
        match self {
            Self::Flow(name) => format!("Flow {name}"),
            Self::Link(name) => format!("Link {name}"),
        }
    }

    const fn shown(&self) -> &'static [Shown] {
        match self {
            Self::Flow(_) => &OF_FLOWS,
            Self::Link(_) => &OF_LINKS,
        }
    }

    const fn plotted(&self) -> &'static [(&'static str, &'static str, Unit)] {
        match self {
            Self::Flow(_) => &[
                ("goodput_bps", "goodput", Unit::BitsPerSecond),
                ("delay_p99_ns", "delay, 99th percentile", Unit::Nanoseconds),
            ],
            Self::Link(_) => &[
                ("utilisation", "utilisation", Unit::Fraction),
                ("queue_p99_ns", "queueing delay, 99th percentile", Unit::Nanoseconds),
            ],
        }
    }

    /// The metrics of each run of a point.
    fn metrics(&self, results: &Results) -> Vec<Vec<Metric>> {
        let of = |run: &weir_measure::scenario::Outcome| match self {
            Self::Flow(name) => {
                let flow = run.flows.iter().find(|flow| flow.name == *name)?;
                Some(metrics_of_flow(run, flow))
            }
            Self::Link(name) => {
                let link = run.links.iter().find(|link| link.name == *name)?;
                Some(metrics_of_link(run, link))
            }
        };
        results.runs.iter().filter_map(of).collect()
    }

    fn quantity(&self, results: &Results, name: &str, unit: f64) -> Option<Quantity> {
        let value = |metrics: &Vec<Metric>| {
            metrics.iter().find(|metric| metric.name == name).and_then(|metric| metric.value)
        };
        let values: Vec<f64> =
            self.metrics(results).iter().filter_map(value).map(|value| value / unit).collect();
        (!values.is_empty()).then(|| Quantity::of_runs(&values))
    }
}

fn table(subject: &Subject, points: &[(&Settings, Results)]) -> Table {
    let keys: Vec<&str> = points.first().map_or_else(Vec::new, |(settings, _)| {
        settings.iter().map(|(key, _)| key.as_str()).collect()
    });
    let mut columns = vec!["point"];
    columns.extend(&keys);
    columns.extend(subject.shown().iter().map(|(_, heading, ..)| *heading));
    let mut table = Table::new(subject.title(), &columns);
    for (number, (settings, results)) in (1..).zip(points) {
        let mut row = vec![Cell::from(format!("{number}"))];
        row.extend(settings.iter().map(|(_, value)| Cell::from(bare(value))));
        row.extend(subject.shown().iter().map(|&(name, _, unit, decimals)| {
            subject
                .quantity(results, name, unit)
                .map_or(Cell::Empty, |quantity| Cell::quantity(&quantity, decimals))
        }));
        table.row(row);
    }
    table
}

/// Plots over the first key with several values that are numbers, with a curve for each combination
/// of values of the other keys.
fn plots(subject: &Subject, points: &[(&Settings, Results)]) -> Vec<Plot> {
    let Some(key) = swept(points) else { return Vec::new() };
    let x_of = |settings: &Settings| settings.get(key).and_then(|(_, text)| number(text));
    let others = |settings: &Settings| -> String {
        let other = settings.iter().enumerate().filter(|(place, _)| *place != key);
        other
            .map(|(_, (name, value))| format!("{} {}", last(name), bare(value)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let Some((_, x_unit)) = points.first().and_then(|(settings, _)| x_of(settings)) else {
        return Vec::new();
    };
    let names: Vec<String> = points.iter().fold(Vec::new(), |mut names, (settings, _)| {
        let name = others(settings);
        if !names.contains(&name) {
            names.push(name);
        }
        names
    });
    let name_of_key = &points[0].0[key].0;
    let values: Vec<f64> = points.iter().filter_map(|(s, _)| Some(x_of(s)?.0)).collect();
    let (least, most) = values
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(least, most), x| (least.min(*x), most.max(*x)));
    let plot = |&(metric, label, unit): &(&str, &str, Unit)| {
        let curve = |name: &String| {
            let mine = points.iter().filter(|(settings, _)| others(settings) == *name);
            let mut along: Vec<[f64; 2]> = mine
                .filter_map(|(settings, results)| {
                    let mean = subject.quantity(results, metric, 1.0)?.mean()?;
                    Some([x_of(settings)?.0, mean])
                })
                .collect();
            along.sort_by(|a, b| a[0].total_cmp(&b[0]));
            Series { name: name.clone(), style: Style::Line, points: along, ..Series::default() }
        };
        Plot {
            name: format!("{}-{metric}", subject.title().to_lowercase().replace(' ', "-")),
            title: format!("{}: {label}", subject.title()),
            description: format!("{label} over {name_of_key}, the mean of each point's runs"),
            x: Axis {
                log: least > 0.0 && most / least > 20.0,
                ..Axis::new(last(name_of_key), x_unit)
            },
            y: Axis::new(label, unit),
            series: names.iter().take(MOST).map(curve).collect(),
        }
    };
    subject.plotted().iter().map(plot).collect()
}

/// The index of the first key that has several values, all of them numbers of one unit.
fn swept(points: &[(&Settings, Results)]) -> Option<usize> {
    let keys = points.first()?.0.len();
    (0..keys).find(|&key| {
        let texts: BTreeSet<&str> =
            points.iter().filter_map(|(settings, _)| Some(settings.get(key)?.1.as_str())).collect();
        let units: Option<Vec<Unit>> =
            texts.iter().map(|text| number(text).map(|(_, unit)| unit)).collect();
        texts.len() > 1
            && units.is_some_and(|units| units.windows(2).all(|pair| pair[0] == pair[1]))
    })
}

/// A value of a scenario as a number in a base unit: `4Mbit/s`, `20ms`, `2%`, `0.5`.
fn number(text: &str) -> Option<(f64, Unit)> {
    let text = bare(text.trim());
    let digits = text.len()
        - text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_')).len();
    let value: f64 = text[..digits].replace('_', "").parse().ok()?;
    let unit = text[digits..].trim();
    let (factor, unit) = UNITS.iter().find(|row| row.0 == unit).map(|row| (row.1, row.2))?;
    Some((value * factor, unit))
}

/// A value without the quotes of a text.
fn bare(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// The part of a key after its last dot.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The names of the points' directories. A name consists of the point's keys and their values, or
/// of the point's number if these are too long. If another point has the name already, the point's
/// number is added.
pub fn point_names<'a>(points: impl IntoIterator<Item = &'a Settings>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, settings) in (1..).zip(points) {
        let same_end =
            |key: &str| settings.iter().filter(|(other, _)| last(other) == last(key)).count() > 1;
        let word = |(key, value): &(String, String)| {
            let key = if same_end(key) { key } else { last(key) };
            format!("{key}={value}")
        };
        let words: Vec<String> = settings.iter().map(word).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '=' | ',' | '-' | '%');
        let name: String = words
            .join(",")
            .chars()
            .filter(|c| *c != '"')
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let name = name.trim_start_matches(['.', '-']).to_owned();
        let good = !name.is_empty() && name.len() <= LONGEST;
        let name = if good { name } else { format!("point-{number:04}") };
        names.push(if names.contains(&name) { format!("{name},point-{number:04}") } else { name });
    }
    names
}

/// Maximum number of flows, of links, and of curves in a plot.
const MOST: usize = 8;
/// Maximum length of a directory name that consists of keys and values, in bytes.
const LONGEST: usize = 120;
const OF_FLOWS: [Shown; 5] = [
    ("goodput_bps", "goodput Mbit/s", 1e6, 2),
    ("delay_mean_ns", "delay ms: mean", 1e6, 2),
    ("delay_p99_ns", "p99", 1e6, 2),
    ("loss", "lost %", 0.01, 2),
    ("retransmitted", "resent", 1.0, 0),
];
const OF_LINKS: [Shown; 5] = [
    ("throughput_bps", "throughput Mbit/s", 1e6, 2),
    ("utilisation", "utilisation %", 0.01, 1),
    ("queue_mean_ns", "queue ms: mean", 1e6, 2),
    ("queue_p99_ns", "p99", 1e6, 2),
    ("drop_share", "dropped %", 0.01, 2),
];
/// The units of values in a scenario: the text, the size in base units, and the unit of the axis. A
/// prefix alone, such as `k`, is that of a rate.
const UNITS: [(&str, f64, Unit); 17] = [
    ("", 1.0, Unit::Count),
    ("bit/s", 1.0, Unit::BitsPerSecond),
    ("kbit/s", 1e3, Unit::BitsPerSecond),
    ("Mbit/s", 1e6, Unit::BitsPerSecond),
    ("Gbit/s", 1e9, Unit::BitsPerSecond),
    ("k", 1e3, Unit::BitsPerSecond),
    ("M", 1e6, Unit::BitsPerSecond),
    ("G", 1e9, Unit::BitsPerSecond),
    ("ns", 1.0, Unit::Nanoseconds),
    ("us", 1e3, Unit::Nanoseconds),
    ("ms", 1e6, Unit::Nanoseconds),
    ("s", 1e9, Unit::Nanoseconds),
    ("%", 0.01, Unit::Fraction),
    ("B", 1.0, Unit::Bytes),
    ("kB", 1e3, Unit::Bytes),
    ("KB", 1e3, Unit::Bytes),
    ("MB", 1e6, Unit::Bytes),
];

#[cfg(test)]
mod tests {
    use weir_measure::scenario::{FlowOutcome, Outcome};

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn directories_have_the_values_of_their_point() {
        let all = [
            settings(&[("link.up.spec.bw", "4Mbit/s"), ("seed", "7")]),
            settings(&[("link.up.spec.bw", "4Mbit/s"), ("link.down.spec.bw", "\"../x y\"")]),
            settings(&[("link.up.spec.bw", "4Mbit/s"), ("seed", "7")]),
            settings(&[("x", &"v".repeat(200))]),
            settings(&[]),
        ];
        assert_eq!(
            point_names(all.iter().map(Vec::as_slice)),
            [
                "bw=4Mbit_s,seed=7",
                "link.up.spec.bw=4Mbit_s,link.down.spec.bw=.._x_y",
                "bw=4Mbit_s,seed=7,point-0003",
                "point-0004",
                "point-0005",
            ]
        );
    }

    #[test]
    fn values_are_numbers_in_base_units() {
        assert_eq!(number("4Mbit/s"), Some((4e6, Unit::BitsPerSecond)));
        assert_eq!(number("2.5 ms"), Some((2.5e6, Unit::Nanoseconds)));
        assert_eq!(number("10"), Some((10.0, Unit::Count)));
        assert_eq!(number("\"2%\""), Some((0.02, Unit::Fraction)));
        assert_eq!((number("red"), number("4 parsec"), number("")), (None, None, None));
    }

    #[test]
    fn a_sweep_has_a_row_for_each_point_and_a_curve_for_each_other_value() {
        let all: Vec<_> = ["1Mbit/s", "2Mbit/s", "4Mbit/s"]
            .iter()
            .flat_map(|bw| ["fifo", "codel"].map(|aqm| settings(&[("a.bw", bw), ("a.aqm", aqm)])))
            .collect();
        let results = |bytes| Results {
            runs: vec![Outcome {
                end_ns: 1_000_000_000,
                flows: vec![FlowOutcome {
                    name: "f".to_owned(),
                    goodput_bytes: bytes,
                    ..FlowOutcome::default()
                }],
                ..Outcome::default()
            }],
            ..Results::default()
        };
        let points: Vec<(&Settings, Results)> =
            all.iter().zip(1..).map(|(s, n)| (s.as_slice(), results(n * 1000))).collect();
        let finding = sweep_finding("net", &points);
        assert_eq!(finding.title, "net: 6 points");
        let [table] = &finding.tables[..] else { panic!("{finding:?}") };
        assert_eq!(
            (table.rows.len(), &table.columns[1], &table.columns[2]),
            (6, &"a.bw".into(), &"a.aqm".into())
        );
        let plot = &finding.plots[0];
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["aqm fifo", "aqm codel"]);
        let xs: Vec<f64> = plot.series[0].points.iter().map(|point| point[0]).collect();
        assert_eq!(xs, [1e6, 2e6, 4e6]);
        assert!((plot.series[1].points[0][1] - 16_000.0).abs() < 1e-6, "{plot:?}");
    }
}
