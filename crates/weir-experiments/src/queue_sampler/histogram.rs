//! The differences of consecutive samples as whole histograms, as in figures 5(b) to 5(f).

use weir_probe::Method;
use weir_report::finding::{
    Axis, Cell, Claim, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::published::{VARIANCE, published};
use super::reading::{Case, METHODS, Watched, values};
use crate::sources::{self, published as in_document};

/// The histogram of one number of clients: counts and shares of each method, beside the published
/// shares of the first two bins.
pub(super) fn table(case: &Case) -> Table {
    let mut columns = vec!["difference, packets", "FQS, published, %", "tc, published, %"];
    let names = METHODS.map(|method| format!("{}, %", method.name()));
    let counts = METHODS.map(|method| format!("{}, samples", method.name()));
    for (name, count) in names.iter().zip(&counts) {
        columns.extend([name.as_str(), count.as_str()]);
    }
    let (figure, clients) = (figure(case.clients), case.clients);
    let title = format!("figure {figure}: {clients} clients, differences of consecutive samples");
    let mut table = Table::new(title, &columns);
    let longest = case.watched.iter().filter_map(Watched::longest_step).max().unwrap_or(0);
    for (from, until) in bins(longest) {
        let name = if from == until { from.to_string() } else { format!("{from} to {until}") };
        let mut row = vec![Cell::from(name)];
        let stated = published(case.clients).filter(|_| from < 2);
        for value in [stated.map(|p| p.sampler), stated.map(|p| p.tc)] {
            row.push(
                value.map_or(Cell::Empty, |shares| {
                    Cell::reference(shares[from as usize], 1, VARIANCE)
                }),
            );
        }
        for method in METHODS {
            let Some(watched) = case.by(method) else {
                row.extend([Cell::Empty, Cell::Empty]);
                continue;
            };
            let (share, count) = watched.share(from, until);
            row.extend([Cell::number(100.0 * share, 4), Cell::number(count as f64, 0)]);
        }
        table.row(row);
    }
    table
}

/// The histogram of one number of clients as curves, with the published points.
pub(super) fn plot(case: &Case) -> Plot {
    let mut series = Vec::new();
    for method in METHODS {
        let Some(watched) = case.by(method) else { continue };
        let longest = watched.longest_step().unwrap_or(0).min(MOST_SHOWN);
        let points = (0..=longest)
            .map(|packets| (packets, watched.share(packets, packets).0))
            .filter(|&(_, share)| share > 0.0)
            .map(|(packets, share)| [packets as f64, share])
            .collect();
        let name = method.name().to_owned();
        series.push(Series { name, points, ..Series::default() });
    }
    for (name, which) in [("FQS, published", 0), ("tc, published", 1)] {
        let Some(stated) = published(case.clients) else { continue };
        let shares = [stated.sampler, stated.tc][which];
        let points = (0..2).map(|n| [n as f64, shares[n] / 100.0]).collect();
        series.push(Series {
            name: name.to_owned(),
            style: Style::Dots,
            points,
            provenance: Some(VARIANCE),
        });
    }
    Plot {
        name: format!("histogram-{}", case.clients),
        title: format!("Figure {}: {} clients", figure(case.clients), case.clients),
        description: "Share of consecutive samples over the number of packets by which they \
                      differ, for each method, with the published shares of 0 and 1."
            .into(),
        x: Axis::new("difference of consecutive samples, packets", Unit::Count),
        y: Axis { log: true, ..Axis::new("share of samples", Unit::Fraction) },
        series,
    }
}

/// The claim that the sampler's histograms are narrower than those of `tc`.
pub(super) fn narrower(cases: &[Case]) -> Claim {
    let claim = Claim::new("the sampler's differences are smaller than those of tc", FIGURES);
    cases.iter().fold(claim, |claim, case| {
        let step = |method| values(case, method, |round| round.step);
        claim.expect(
            format!("{} clients: mean difference, ratio of loop to tc", case.clients),
            Quantity::ratio(&step(Method::Loop), &step(Method::Tc)),
            Range::below(1.0),
        )
    })
}

impl Watched {
    fn longest_step(&self) -> Option<u64> {
        self.steps.keys().next_back().copied()
    }
}

/// Bins up to `longest`: each number up to 8, then ranges that double.
fn bins(longest: u64) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = (0..=8.min(longest.max(1))).map(|n| (n, n)).collect();
    let mut from = 9;
    while from <= longest {
        bins.push((from, (from - 1) * 2));
        from = (from - 1) * 2 + 1;
    }
    bins
}

/// The number of the published figure for this number of clients.
fn figure(clients: u16) -> &'static str {
    match clients {
        2 => "5(b)",
        5 => "5(c)",
        20 => "5(d)",
        50 => "5(e)",
        100 => "5(f)",
        _ => "5",
    }
}

const FIGURES: Provenance = in_document(sources::SAMPLER, "figures 5(b) to 5(f) and section VI");
/// The largest difference that plots show, packets.
const MOST_SHOWN: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn case(clients: u16) -> Case {
        let watched = |method, steps: &[(u64, u64)]| Watched {
            method,
            rounds: Vec::new(),
            most: 9,
            stretch: Vec::new(),
            steps: steps.iter().copied().collect(),
        };
        let watched = vec![
            watched(Method::Tc, &[(0, 10), (1, 20), (12, 5), (40, 5)]),
            watched(Method::Loop, &[(0, 999), (1, 1)]),
        ];
        Case { clients, watched, sent: 1, received: 1, fastest: None }
    }

    #[test]
    fn every_sample_is_in_one_bin() {
        assert_eq!(bins(0), [(0, 0), (1, 1)]);
        let bins = bins(40);
        assert_eq!(bins[8..], [(8, 8), (9, 16), (17, 32), (33, 64)]);
        assert!(bins.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        let table = table(&case(2));
        let counted = |column: usize| -> f64 {
            table.rows.iter().filter_map(|row| row[column].text().parse::<f64>().ok()).sum()
        };
        let place = |name: &str| table.columns.iter().position(|c| c == name).expect("a column");
        assert_eq!(counted(place("tc, samples")), 40.0);
        assert_eq!(counted(place("loop, samples")), 1000.0);
        assert!(table.title.contains("5(b)"));
        assert_eq!(table.rows[1][1].text(), "1.7");
        assert_eq!(table.rows[2][1], Cell::Empty);
    }

    #[test]
    fn published_points_are_drawn_where_there_are_some() {
        assert_eq!(plot(&case(50)).series.len(), 4);
        assert_eq!(plot(&case(3)).series.len(), 2);
        assert_eq!(plot(&case(50)).series[0].points.last(), Some(&[40.0, 0.125]));
    }
}
