//! The experiment's tables, claims and plots, which show published beside measured values.

use weir_probe::Method;
use weir_report::finding::{Axis, Cell, Claim, Finding, Plot, Series, Style, Table, Unit};

use super::reading::{Case, METHODS, Watched};
use super::testbed::{CLIENT_RATE, DELAY, FRAME, MOST_RATE, RATE};

/// The published results for one number of clients: samples in 180 s, by the sampler and by `tc`,
/// and the shares of consecutive samples that are equal or differ by one packet, in percent.
struct Published {
    clients: u16,
    samples: [f64; 2],
    sampler: [f64; 2],
    tc: [f64; 2],
}

const PUBLISHED: [Published; 5] = [
    Published {
        clients: 2,
        samples: [33_349_471.0, 80_805.0],
        sampler: [98.2, 1.7],
        tc: [73.5, 24.7],
    },
    Published {
        clients: 5,
        samples: [24_668_412.0, 74_678.0],
        sampler: [95.7, 3.9],
        tc: [37.6, 35.2],
    },
    Published {
        clients: 20,
        samples: [6_091_856.0, 58_002.0],
        sampler: [77.6, 18.8],
        tc: [10.5, 19.7],
    },
    Published {
        clients: 50,
        samples: [5_070_866.0, 55_786.0],
        sampler: [54.2, 38.3],
        tc: [16.1, 27.6],
    },
    Published {
        clients: 100,
        samples: [4_176_729.0, 48_312.0],
        sampler: [42.2, 45.6],
        tc: [12.7, 22.4],
    },
];
const PUBLISHED_SECONDS: f64 = 180.0;
/// The smallest published speed-up.
const LEAST_SPEED_UP: f64 = 86.0;

/// Makes the finding from all cases.
pub(crate) fn finding(cases: &[Case], seconds: f64, remarks: &[String]) -> Finding {
    let rates =
        format!("{} Mbit/s at the router, {} ms behind it", RATE / 1_000_000, DELAY.0 / 1_000_000);
    let load = format!(
        "each client {CLIENT_RATE} packets/s of {FRAME} bytes, all together {MOST_RATE} at most"
    );
    let title =
        format!("A router's pfifo_fast, read for {seconds} s by each method: {rates}; {load}");
    let mut tables = vec![samples(cases), variance(cases), queue(cases)];
    if !remarks.is_empty() {
        let mut table = Table::new("not tried", &["what"]);
        remarks.iter().for_each(|remark| table.row(vec![remark.as_str().into()]));
        tables.push(table);
    }
    let mut plots = vec![rates_plot(cases), shares_plot(cases)];
    // With the smallest number of clients, the queue is not always full.
    plots.extend(cases.first().map(stretch_plot));
    Finding { title, tables, claims: claims(cases), plots }
}

fn published(clients: u16) -> Option<&'static Published> {
    PUBLISHED.iter().find(|published| published.clients == clients)
}

fn cell(value: Option<f64>, decimals: u8) -> Cell {
    value.map_or(Cell::Empty, |value| Cell::number(value, decimals))
}

fn samples(cases: &[Case]) -> Table {
    let columns = [
        "clients",
        "FQS, published",
        "tc, published",
        "speed-up",
        "loop",
        "netlink",
        "tc",
        "loop / tc",
        "netlink / tc",
        "loop / netlink",
    ];
    let mut table = Table::new("samples per second, and how many times as many", &columns);
    for case in cases {
        let theirs = published(case.clients).map(|published| published.samples);
        let ours = |method| case.by(method).map(Watched::per_second);
        table.row(vec![
            case.clients.to_string().into(),
            cell(theirs.map(|[sampler, _]| sampler / PUBLISHED_SECONDS), 0),
            cell(theirs.map(|[_, tc]| tc / PUBLISHED_SECONDS), 0),
            cell(theirs.map(|[sampler, tc]| sampler / tc), 0),
            cell(ours(Method::Loop), 0),
            cell(ours(Method::Netlink), 0),
            cell(ours(Method::Tc), 0),
            cell(ratio(ours(Method::Loop), ours(Method::Tc)), 0),
            cell(ratio(ours(Method::Netlink), ours(Method::Tc)), 0),
            cell(ratio(ours(Method::Loop), ours(Method::Netlink)), 0),
        ]);
    }
    table
}

fn variance(cases: &[Case]) -> Table {
    let columns = ["clients", "FQS, published", "tc, published", "loop", "netlink", "tc"];
    let mut table = Table::new(
        "0 / 1 / 0–1 variance: % of consecutive samples that differ by none, by one, by at most one packet",
        &columns,
    );
    let shares = |[zero, one]: [f64; 2], decimals: usize| {
        Cell::from(format!("{zero:.decimals$} / {one:.decimals$} / {:.decimals$}", zero + one))
    };
    for case in cases {
        let theirs = |which: fn(&Published) -> [f64; 2]| {
            published(case.clients).map_or(Cell::Empty, |published| shares(which(published), 1))
        };
        let ours = |method| {
            case.by(method).map_or(Cell::Empty, |watched| {
                shares([100.0 * watched.zero, 100.0 * watched.one], 2)
            })
        };
        table.row(vec![
            case.clients.to_string().into(),
            theirs(|published| published.sampler),
            theirs(|published| published.tc),
            ours(Method::Loop),
            ours(Method::Netlink),
            ours(Method::Tc),
        ]);
    }
    table
}

fn queue(cases: &[Case]) -> Table {
    let columns = ["clients", "loop", "netlink", "tc", "sent", "arrived so far, %", "fastest, ms"];
    let mut table = Table::new(
        "length of the queue in packets, mean / most; packets from the clients to the server",
        &columns,
    );
    for case in cases {
        let ours = |method| {
            case.by(method).map_or(Cell::Empty, |watched| {
                format!("{:.1} / {}", watched.mean, watched.most).into()
            })
        };
        table.row(vec![
            case.clients.to_string().into(),
            ours(Method::Loop),
            ours(Method::Netlink),
            ours(Method::Tc),
            Cell::number(case.sent as f64, 0),
            Cell::number(100.0 * case.received as f64 / case.sent.max(1) as f64, 1),
            cell(case.fastest.map(|ns| ns as f64 / 1e6), 2),
        ]);
    }
    table
}

fn ratio(over: Option<f64>, under: Option<f64>) -> Option<f64> {
    Some(over? / under?)
}

/// The smallest value of all cases; `None` if a case lacks the value.
fn least(cases: &[Case], value: impl Fn(&Case) -> Option<f64>) -> Option<f64> {
    cases.iter().map(value).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
}

fn claims(cases: &[Case]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut claim = |words: String, seen: Option<(bool, String)>| {
        claims.push(Claim::judged(words, seen));
    };
    let speed = |case: &Case, method| case.by(method).map(Watched::per_second);
    let seen = least(cases, |case| ratio(speed(case, Method::Loop), speed(case, Method::Tc)));
    let seen = seen.map(|least| (least >= LEAST_SPEED_UP, format!("{least:.0} times at least")));
    claim(format!("the sampler takes at least {LEAST_SPEED_UP} times as many samples as tc"), seen);
    let share = |case: &Case, method, more: bool| {
        case.by(method).map(|watched| watched.zero + if more { watched.one } else { 0.0 })
    };
    for (more, words) in [(false, "are equal"), (true, "differ by one at most")] {
        let seen = least(cases, |case| {
            Some(share(case, Method::Loop, more)? - share(case, Method::Tc, more)?)
        });
        let seen = seen.map(|least| {
            (least > 0.0, format!("by {:.1} percentage points at least", 100.0 * least))
        });
        claim(format!("more of its consecutive samples {words} than of tc's"), seen);
    }
    let [first, .., last] = cases else { return claims };
    let change = |value: &dyn Fn(&Case) -> Option<f64>| {
        ratio(value(last), value(first))
            .map(|ratio| (ratio < 1.0, format!("{:+.0} %", 100.0 * (ratio - 1.0))))
    };
    let many = format!("{} clients instead of {}", last.clients, first.clients);
    let published_change =
        |value: fn(&Published) -> f64| match (published(first.clients), published(last.clients)) {
            (Some(first), Some(last)) => {
                format!(" ({:+.0} %)", 100.0 * (value(last) / value(first) - 1.0))
            }
            _ => String::new(),
        };
    claim(
        format!(
            "with {many}, the sampler takes fewer samples{}",
            published_change(|p| p.samples[0])
        ),
        change(&|case| speed(case, Method::Loop)),
    );
    claim(
        format!("with {many}, tc takes fewer samples{}", published_change(|p| p.samples[1])),
        change(&|case| speed(case, Method::Tc)),
    );
    let speed_up = |case: &Case| ratio(speed(case, Method::Loop), speed(case, Method::Tc));
    claim(
        format!(
            "with {many}, the speed-up is smaller{}",
            published_change(|p| p.samples[0] / p.samples[1])
        ),
        change(&speed_up),
    );
    let equal = |case: &Case| share(case, Method::Loop, false).map(|share| 100.0 * share);
    let seen = equal(first)
        .zip(equal(last))
        .map(|(few, many)| (many < few, format!("{many:.2} % instead of {few:.2} %")));
    claim(
        format!(
            "with {many}, fewer consecutive samples are equal{}",
            published_change(|p| p.sampler[0])
        ),
        seen,
    );
    claims
}

fn curve(name: &str, style: Style, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series { name: name.to_owned(), style, points: points.map(|(x, y)| [x, y]).collect() }
}

/// Curves over the number of clients, for all methods and for the two published ones.
fn over_clients(
    cases: &[Case],
    theirs: [fn(&Published) -> f64; 2],
    ours: fn(&Watched) -> f64,
) -> Vec<Series> {
    let mut series = Vec::new();
    for (name, value) in ["FQS, published", "tc, published"].into_iter().zip(theirs) {
        series.push(curve(
            name,
            Style::Dashes,
            PUBLISHED.iter().map(|published| (f64::from(published.clients), value(published))),
        ));
    }
    for method in METHODS {
        let points =
            cases.iter().filter_map(|case| Some((f64::from(case.clients), ours(case.by(method)?))));
        let series_of = curve(method.name(), Style::Line, points);
        if !series_of.points.is_empty() {
            series.push(series_of);
        }
    }
    series
}

fn rates_plot(cases: &[Case]) -> Plot {
    let theirs: [fn(&Published) -> f64; 2] =
        [|p| p.samples[0] / PUBLISHED_SECONDS / 1e3, |p| p.samples[1] / PUBLISHED_SECONDS / 1e3];
    Plot {
        name: "samples".into(),
        title: "How often the queue is read".into(),
        description: "Samples per millisecond over the number of clients, published and measured, on logarithmic axes.".into(),
        x: Axis { log: true, ..Axis::new("clients", Unit::Count) },
        y: Axis { log: true, ..Axis::new("samples per ms", Unit::Count) },
        series: over_clients(cases, theirs, |watched| watched.per_second() / 1e3),
    }
}

fn shares_plot(cases: &[Case]) -> Plot {
    let theirs: [fn(&Published) -> f64; 2] =
        [|p| (p.sampler[0] + p.sampler[1]) / 100.0, |p| (p.tc[0] + p.tc[1]) / 100.0];
    Plot {
        name: "variance".into(),
        title: "Consecutive samples that differ by one packet at most".into(),
        description:
            "Share of consecutive samples over the number of clients, published and measured."
                .into(),
        x: Axis { log: true, ..Axis::new("clients", Unit::Count) },
        y: Axis::new("share of samples", Unit::Fraction),
        series: over_clients(cases, theirs, |watched| watched.zero + watched.one),
    }
}

fn stretch_plot(case: &Case) -> Plot {
    let style = |method| if method == Method::Tc { Style::Dots } else { Style::Steps };
    // The last curve is drawn on top, so it is that of `tc`, which has few readings.
    let drawn = METHODS.iter().rev().filter_map(|&method| {
        let points = &case.by(method)?.stretch;
        Some(Series {
            name: method.name().to_owned(),
            style: style(method),
            points: points.clone(),
        })
    });
    Plot {
        name: "stretch".into(),
        title: format!("The first 20 ms of each method, {} clients", case.clients),
        description: "Packets in the queue over time. Each method has a time of its own, so lengths differ; what counts is what is seen of the changes.".into(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("packets in the queue", Unit::Count),
        series: drawn.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(clients: u16, samples: [u64; 3], zero: [f64; 3]) -> Case {
        let one = |place: usize| Watched {
            method: METHODS[place],
            seconds: 2.0,
            samples: samples[place],
            zero: zero[place],
            one: 0.05,
            mean: 3.0,
            most: 9,
            stretch: vec![[0.0, 1.0], [0.001, 2.0]],
        };
        Case {
            clients,
            watched: (0..3).map(one).collect(),
            sent: 200,
            received: 100,
            fastest: Some(500_250_000),
        }
    }

    #[test]
    fn tables_show_published_beside_measured() {
        let finding = finding(
            &[case(2, [1000, 400_000, 20_000_000], [0.5, 0.9, 0.99])],
            2.0,
            &["loop was not tried".into()],
        );
        let text = |table: usize, column: usize| finding.tables[table].rows[0][column].text();
        let samples: Vec<_> = (0..10).map(|column| text(0, column)).collect();
        assert_eq!(
            samples,
            ["2", "185275", "449", "413", "10000000", "200000", "500", "20000", "400", "50"]
        );
        assert_eq!(
            [text(1, 1), text(1, 3), text(1, 5)],
            ["98.2 / 1.7 / 99.9", "99.00 / 5.00 / 104.00", "50.00 / 5.00 / 55.00"]
        );
        assert_eq!(
            [text(2, 1), text(2, 5), text(2, 6), text(3, 0)],
            ["3.0 / 9", "50.0", "500.25", "loop was not tried"]
        );
    }

    #[test]
    fn claims_are_judged_over_all_cases_and_by_their_ends() {
        let cases = [
            case(2, [1000, 400_000, 20_000_000], [0.5, 0.9, 0.99]),
            case(100, [900, 9_000, 2_000_000], [0.6, 0.9, 0.5]),
        ];
        let holds: Vec<_> = claims(&cases).iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, false, false, true, true, true, true].map(Some));
        let mut without = cases;
        without[0].watched.truncate(2);
        let holds: Vec<_> = claims(&without).iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [None, None, None, None, Some(true), None, None]);
    }
}
