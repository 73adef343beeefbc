//! The experiment's tables, claims and plots, which show published beside measured values.

use weir_probe::Method;
use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::histogram;
use super::published::{PUBLISHED, PUBLISHED_SECONDS, Published, SPEED, VARIANCE, published};
use super::reading::{Case, METHODS, Round, values};
use super::testbed::{CLIENT_RATE, DELAY, FRAME, MOST_RATE, RATE};

/// The smallest published speed-up.
const LEAST_SPEED_UP: f64 = 86.0;

pub(crate) fn finding(cases: &[Case], seconds: f64, remarks: &[String]) -> Finding {
    let rates =
        format!("{} Mbit/s at the router, {} ms behind it", RATE / 1_000_000, DELAY.0 / 1_000_000);
    let load = format!(
        "each client {CLIENT_RATE} packets/s of {FRAME} bytes, all together {MOST_RATE} at most"
    );
    let title =
        format!("A router's pfifo_fast, read for {seconds} s by each method: {rates}; {load}");
    let mut tables = vec![samples(cases), variance(cases), queue(cases)];
    tables.extend(cases.iter().map(histogram::table));
    if !remarks.is_empty() {
        let mut table = Table::new("not tried", &["what"]);
        remarks.iter().for_each(|remark| table.row(vec![remark.as_str().into()]));
        tables.push(table);
    }
    let mut plots = vec![rates_plot(cases), shares_plot(cases)];
    // In the first case, which by default has the fewest clients, the queue is not always full.
    plots.extend(cases.first().map(stretch_plot));
    plots.extend(cases.iter().map(histogram::plot));
    let notes = vec![
        format!(
            "The document states neither the rate of the links nor the traffic. The {} Mbit/s and \
             the load used here were invented, and the shares of equal and nearly equal samples \
             depend on both: that some are close to the published shares has no evidential value.",
            RATE / 1_000_000
        ),
        "Intervals are over the rounds in which the methods take turns, all in one network.".into(),
    ];
    Finding { title, tables, claims: claims(cases), plots, notes, ..Finding::default() }
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
    let reference =
        |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::reference(value, 0, SPEED));
    for case in cases {
        let stated = published(case.clients).map(|published| published.samples);
        let ours = |method| {
            case.by(method).map_or(Cell::Empty, |watched| {
                Cell::quantity(&watched.over_rounds(Round::per_second), 0)
            })
        };
        let times = |over, under| Cell::quantity(&speed_ratio(case, over, under), 0);
        table.row(vec![
            case.clients.to_string().into(),
            reference(stated.map(|[sampler, _]| sampler / PUBLISHED_SECONDS)),
            reference(stated.map(|[_, tc]| tc / PUBLISHED_SECONDS)),
            reference(stated.map(|[sampler, tc]| sampler / tc)),
            ours(Method::Loop),
            ours(Method::Netlink),
            ours(Method::Tc),
            times(Method::Loop, Method::Tc),
            times(Method::Netlink, Method::Tc),
            times(Method::Loop, Method::Netlink),
        ]);
    }
    table
}

/// The quotient of the samples of two methods, over the rounds.
fn speed_ratio(case: &Case, over: Method, under: Method) -> Quantity {
    let speed = |method| values(case, method, Round::per_second);
    Quantity::ratio(&speed(over), &speed(under))
}

fn variance(cases: &[Case]) -> Table {
    let columns = ["clients", "FQS, published", "tc, published", "loop", "netlink", "tc"];
    let mut table = Table::new(
        "0 / 1 / 0–1 variance: % of consecutive samples that differ by none, by one, by at most \
         one packet",
        &columns,
    );
    let shares = |[zero, one]: [f64; 2], decimals: usize| {
        Cell::from(format!("{zero:.decimals$} / {one:.decimals$} / {:.decimals$}", zero + one))
    };
    for case in cases {
        let stated = |which: fn(&Published) -> [f64; 2]| {
            published(case.clients).map_or(Cell::Empty, |published| {
                Cell::quoted(shares(which(published), 1).text(), VARIANCE)
            })
        };
        let ours = |method| {
            case.by(method).map_or(Cell::Empty, |watched| {
                let mean = |value| 100.0 * watched.over_rounds(value).mean().unwrap_or(f64::NAN);
                shares([mean(|round| round.zero), mean(|round| round.one)], 2)
            })
        };
        table.row(vec![
            case.clients.to_string().into(),
            stated(|published| published.sampler),
            stated(|published| published.tc),
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
                let mean = watched.over_rounds(|round| round.mean).mean().unwrap_or(f64::NAN);
                format!("{mean:.1} / {}", watched.most).into()
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

fn claims(cases: &[Case]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut faster = Claim::new(
        format!("the sampler takes at least {LEAST_SPEED_UP} times as many samples as tc"),
        SPEED,
    );
    let mut equal = Claim::new("more of its consecutive samples are equal than of tc's", VARIANCE);
    let mut near =
        Claim::new("more of its consecutive samples differ by one at most than of tc's", VARIANCE);
    let more_than_tc = |case: &Case, value: fn(&Round) -> f64| {
        let [ours, tc] = [Method::Loop, Method::Tc].map(|method| values(case, method, value));
        let same = ours.len() == tc.len();
        let points = ours.iter().zip(&tc).map(|(ours, tc)| 100.0 * (ours - tc));
        Quantity::of_runs(&points.filter(|_| same).collect::<Vec<_>>())
    };
    for case in cases {
        let clients = |what: &str| format!("{} clients: {what}", case.clients);
        faster = faster.expect(
            clients("ratio of loop to tc"),
            speed_ratio(case, Method::Loop, Method::Tc),
            Range::at_least(LEAST_SPEED_UP),
        );
        equal = equal.expect(
            clients("percentage points more"),
            more_than_tc(case, |round| round.zero),
            Range::above(0.0),
        );
        near = near.expect(
            clients("percentage points more"),
            more_than_tc(case, |round| round.zero + round.one),
            Range::above(0.0),
        );
    }
    claims.extend([faster, equal, near, histogram::narrower(cases)]);
    if let [first, .., last] = cases {
        claims.extend(growth(first, last));
    }
    claims
}

/// The claims that compare the most clients with the fewest.
fn growth(first: &Case, last: &Case) -> Vec<Claim> {
    let many = format!("{} clients instead of {}", last.clients, first.clients);
    let ends = published(first.clients).zip(published(last.clients));
    let change = |value: fn(&Published) -> f64| {
        ends.map_or_else(String::new, |(first, last)| {
            format!(" ({:+.0} %)", 100.0 * (value(last) / value(first) - 1.0))
        })
    };
    let ratio = |value: &dyn Fn(&Case) -> Vec<f64>| Quantity::ratio(&value(last), &value(first));
    let fewer = |words: &str, stated: String, provenance, seen| {
        Claim::new(format!("with {many}, {words}{stated}"), provenance).expect(
            "ratio of many clients to few",
            seen,
            Range::below(1.0),
        )
    };
    let speed = |method| move |case: &Case| values(case, method, Round::per_second);
    let speed_up = |case: &Case| -> Vec<f64> {
        let [ours, tc] = [Method::Loop, Method::Tc].map(|m| values(case, m, Round::per_second));
        ours.iter().zip(&tc).map(|(ours, tc)| ours / tc).collect()
    };
    vec![
        fewer(
            "the sampler takes fewer samples",
            change(|p| p.samples[0]),
            SPEED,
            ratio(&speed(Method::Loop)),
        ),
        fewer("tc takes fewer samples", change(|p| p.samples[1]), SPEED, ratio(&speed(Method::Tc))),
        fewer(
            "the speed-up is smaller",
            change(|p| p.samples[0] / p.samples[1]),
            SPEED,
            ratio(&speed_up),
        ),
        fewer(
            "fewer consecutive samples are equal",
            change(|p| p.sampler[0]),
            VARIANCE,
            ratio(&|case| values(case, Method::Loop, |round| round.zero)),
        ),
    ]
}

fn curve(
    name: &str,
    style: Style,
    points: impl Iterator<Item = (f64, f64)>,
    provenance: Option<Provenance>,
) -> Series {
    let points = points.map(|(x, y)| [x, y]).collect();
    Series { name: name.to_owned(), style, points, provenance }
}

/// Curves over the number of clients: our values of all methods, and the published values of two.
fn over_clients(
    cases: &[Case],
    stated: [fn(&Published) -> f64; 2],
    ours: fn(&Round) -> f64,
    provenance: Provenance,
) -> Vec<Series> {
    let mut series = Vec::new();
    for (name, value) in ["FQS", "tc"].into_iter().zip(stated) {
        series.push(curve(
            name,
            Style::Dashes,
            PUBLISHED.iter().map(|published| (f64::from(published.clients), value(published))),
            Some(provenance),
        ));
    }
    for method in METHODS {
        let points = cases.iter().filter_map(|case| {
            Some((f64::from(case.clients), case.by(method)?.over_rounds(ours).mean()?))
        });
        let series_of = curve(method.name(), Style::Line, points, None);
        if !series_of.points.is_empty() {
            series.push(series_of);
        }
    }
    series
}

fn rates_plot(cases: &[Case]) -> Plot {
    let stated: [fn(&Published) -> f64; 2] =
        [|p| p.samples[0] / PUBLISHED_SECONDS / 1e3, |p| p.samples[1] / PUBLISHED_SECONDS / 1e3];
    Plot {
        name: "samples".into(),
        title: "How often the queue is read".into(),
        description: "Samples per millisecond over the number of clients, published and measured, \
                      on logarithmic axes."
            .into(),
        x: Axis { log: true, ..Axis::new("clients", Unit::Count) },
        y: Axis { log: true, ..Axis::new("samples per ms", Unit::Count) },
        series: over_clients(cases, stated, |round| round.per_second() / 1e3, SPEED),
    }
}

fn shares_plot(cases: &[Case]) -> Plot {
    let stated: [fn(&Published) -> f64; 2] =
        [|p| (p.sampler[0] + p.sampler[1]) / 100.0, |p| (p.tc[0] + p.tc[1]) / 100.0];
    Plot {
        name: "variance".into(),
        title: "Consecutive samples that differ by one packet at most".into(),
        description:
            "Share of consecutive samples over the number of clients, published and measured."
                .into(),
        x: Axis { log: true, ..Axis::new("clients", Unit::Count) },
        y: Axis::new("share of samples", Unit::Fraction),
        series: over_clients(cases, stated, |round| round.zero + round.one, VARIANCE),
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
            ..Series::default()
        })
    });
    Plot {
        name: "stretch".into(),
        title: format!("The first 20 ms of each method, {} clients", case.clients),
        description: "Packets in the queue over time. Each method has a time of its own, so \
                      lengths differ; what counts is what is seen of the changes."
            .into(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new("packets in the queue", Unit::Count),
        series: drawn.collect(),
    }
}

#[cfg(test)]
mod tests {
    use weir_report::finding::Verdict;

    use super::super::reading::Watched;
    use super::*;

    /// A case in which every method reads for two seconds in each of `rounds` equal rounds.
    fn case(clients: u16, samples: [u64; 3], zero: [f64; 3], rounds: usize) -> Case {
        let one = |index: usize| {
            let round = Round {
                seconds: 2.0,
                samples: samples[index],
                zero: zero[index],
                one: 0.05,
                step: 1.0 - zero[index],
                mean: 3.0,
            };
            Watched {
                method: METHODS[index],
                rounds: vec![round; rounds],
                most: 9,
                stretch: vec![[0.0, 1.0], [0.001, 2.0]],
                steps: [(0, samples[index] / 2), (1, 5)].into(),
            }
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
    fn tables_show_published_and_measured_values() {
        let finding = finding(
            &[case(2, [1000, 400_000, 20_000_000], [0.5, 0.9, 0.99], 1)],
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
            [text(2, 1), text(2, 5), text(2, 6), text(4, 0)],
            ["3.0 / 9", "50.0", "500.25", "loop was not tried"]
        );
    }

    #[test]
    fn some_claims_concern_all_cases_and_some_the_first_and_last() {
        let cases = [
            case(2, [1000, 400_000, 20_000_000], [0.5, 0.9, 0.99], 2),
            case(100, [900, 9_000, 2_000_000], [0.6, 0.9, 0.5], 2),
        ];
        let verdicts =
            |cases: &[Case]| claims(cases).iter().map(Claim::verdict).collect::<Vec<_>>();
        let (yes, no, open) = (Verdict::Holds, Verdict::Differs, Verdict::CannotBeJudged);
        assert_eq!(verdicts(&cases), [yes, no, no, no, yes, yes, yes, yes]);
        let mut without = cases;
        without[0].watched.truncate(2);
        assert_eq!(verdicts(&without), [open, no, no, no, open, yes, open, open]);
    }
}
