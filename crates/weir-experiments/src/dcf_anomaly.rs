//! The performance anomaly of 802.11b: one station with a low data rate slows down all others.
//!
//! Stations that always have packets share one medium. All of them send packets of 1500 bytes to
//! the access point. The data rate of one station varies from run to run. The medium is the
//! engine's scheduler `dcf`, driven by the rig.

use weir_core::sched::{DcfSettings, Discipline, Kind};
use weir_rig::dcf::{Group, PACKET, model, simulate};

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::experiment::{Experiment, Options, Progress};
use super::parallel::over_seeds;
use super::sources::{ANOMALY, published};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dcf-anomaly",
    summary: "802.11b: a station at 1 Mbit/s slows stations at 11 Mbit/s down to its own \
              throughput",
    source: "M. Heusse, F. Rousseau, G. Berger-Sabbatel and A. Duda, INFOCOM 2003",
    run,
};

/// A case: the number of stations, and the data rate of one of them in bit/s.
type Case = (u32, u64);

/// The throughput of a station at the high rate and of the station at the low rate, in Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Measured {
    fast: f64,
    slow: f64,
}

fn measure((stations, slow): Case, packets: u32, seed: u64) -> Measured {
    let discipline = Discipline::new(Kind::Dcf).seeded(seed);
    let fast = Group { stations: stations - 1, ..Group::default() };
    let groups = [fast, Group { rate_bps: slow, ..Group::default() }];
    let measured = simulate(&discipline, &groups, packets).station_bps;
    Measured { fast: measured[0] / 1e6, slow: measured[1] / 1e6 }
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let packets = if options.quick { 5_000 } else { 20_000 };
    let cases: Vec<Case> = STATIONS
        .iter()
        .flat_map(|&stations| [(stations, FAST), (stations, SLOW)])
        .chain(RATES[1..].iter().map(|&rate| (FEW, rate)))
        .collect();
    let runs = over_seeds(options, progress, &cases, |&case, seed| measure(case, packets, seed));
    let of = |case: Case, value: fn(&Measured) -> f64| -> Vec<f64> {
        let place = cases.iter().position(|&other| other == case);
        place.map_or_else(Vec::new, |place| runs[place].iter().map(value).collect())
    };
    Finding {
        title: format!("Stations of 802.11b that always have packets of {PACKET} bytes"),
        tables: vec![by_stations(&of), by_rate(&of)],
        claims: claims(&of),
        plots: vec![plot(&of)],
        notes: vec![
            "The publication's measured values were not available. Its abstract states the effect; \
             its formula is evaluated here with the timings of 802.11b and a long preamble."
                .to_owned(),
            "All stations send to the access point, which sends only acknowledgements: the \
             publication's transfers of TCP are left out."
                .to_owned(),
        ],
        ..Finding::default()
    }
}

/// Returns a value of all runs of a case, by seed.
type Values<'a> = dyn Fn(Case, fn(&Measured) -> f64) -> Vec<f64> + 'a;

fn fast(measured: &Measured) -> f64 {
    measured.fast
}

fn slow(measured: &Measured) -> f64 {
    measured.slow
}

/// The throughput of each station by the published formula, Mbit/s.
fn by_formula((stations, slow): Case) -> f64 {
    let settings = DcfSettings::of(&Discipline::new(Kind::Dcf));
    model::heusse(&settings, stations, slow, PACKET) / 1e6
}

fn by_stations(of: &Values<'_>) -> Table {
    let mut table = Table::new(
        "throughput of one station in Mbit/s: one station at 1 Mbit/s among others at 11 Mbit/s",
        &[
            "stations",
            "all at 11 Mbit/s",
            "formula",
            "a fast station",
            "difference",
            "the slow station",
        ],
    );
    for stations in STATIONS {
        let case = (stations, SLOW);
        let measured = Quantity::of_runs(&of(case, fast));
        let mut row = vec![
            Cell::from(stations.to_string()),
            Cell::quantity(&Quantity::of_runs(&of((stations, FAST), fast)), 3),
        ];
        row.extend(Cell::compared(by_formula(case), FORMULA, &measured, 3));
        row.push(Cell::quantity(&Quantity::of_runs(&of(case, slow)), 3));
        table.row(row);
    }
    table
}

fn by_rate(of: &Values<'_>) -> Table {
    let title = format!(
        "throughput of one station in Mbit/s: {FEW} stations, by the data rate of the slow station"
    );
    let columns =
        ["data rate, Mbit/s", "formula", "a fast station", "difference", "the slow station"];
    let mut table = Table::new(title, &columns);
    for rate in RATES {
        let measured = Quantity::of_runs(&of((FEW, rate), fast));
        let mut row = vec![Cell::number(rate as f64 / 1e6, 1)];
        row.extend(Cell::compared(by_formula((FEW, rate)), FORMULA, &measured, 3));
        row.push(Cell::quantity(&Quantity::of_runs(&of((FEW, rate), slow)), 3));
        table.row(row);
    }
    table
}

fn claims(of: &Values<'_>) -> Vec<Claim> {
    let claim = |words: &str| Claim::new(words, ABSTRACT);
    let mut low = claim("a station at 1 Mbit/s slows stations at 11 Mbit/s to less than 1 Mbit/s");
    let mut equal = claim("every station gets the same throughput, whatever its data rate");
    let mut degraded = claim("the slow station degrades the throughput of all others considerably");
    let mut formula = Claim::new(
        "simple expressions give the useful throughput (within 6 %; the limit is ours)",
        ABSTRACT,
    );
    for stations in STATIONS {
        let case = (stations, SLOW);
        let each = |what: &str| format!("{stations} stations: {what}");
        let measured = Quantity::of_runs(&of(case, fast));
        low = low.expect(each("a fast station, Mbit/s"), measured, Range::below(1.0));
        equal = equal.expect(
            each("ratio of fast to slow"),
            Quantity::ratio(&of(case, fast), &of(case, slow)),
            Range::within(0.95, 1.05),
        );
        degraded = degraded.expect(
            each("a fast station, ratio without the slow station to with it"),
            Quantity::ratio(&of((stations, FAST), fast), &of(case, fast)),
            Range::above(1.5),
        );
        formula = formula.expect(
            each("difference in %"),
            measured.difference(by_formula(case)),
            Range::up_to(6.0),
        );
    }
    let mut rates =
        claim("the lower the rate of the slow station (5.5, 2, 1 Mbit/s), the slower the others");
    for pair in RATES.windows(2) {
        rates = rates.expect(
            format!("ratio of {} to {} Mbit/s", pair[0] as f64 / 1e6, pair[1] as f64 / 1e6),
            Quantity::ratio(&of((FEW, pair[0]), fast), &of((FEW, pair[1]), fast)),
            Range::below(1.0),
        );
    }
    vec![low, equal, degraded, rates, formula]
}

fn plot(of: &Values<'_>) -> Plot {
    let curve = |name: &str, style, value: &dyn Fn(u32) -> Option<f64>| Series {
        name: name.to_owned(),
        style,
        points: STATIONS.iter().filter_map(|&n| Some([f64::from(n), value(n)? * 1e6])).collect(),
        ..Series::default()
    };
    let mean = |case: Case, value| Quantity::of_runs(&of(case, value)).mean();
    Plot {
        name: "stations".into(),
        title: "Throughput of one station of 802.11b".into(),
        description: "Throughput of one station over the number of stations: all at 11 Mbit/s; a \
                      fast station and the slow station in one cell; the published formula."
            .into(),
        x: Axis::new("stations", Unit::Count),
        y: Axis::new("throughput of a station", Unit::BitsPerSecond),
        series: vec![
            curve("all at 11 Mbit/s", Style::Line, &|n| mean((n, FAST), fast)),
            curve("a fast station, one at 1 Mbit/s", Style::Line, &|n| mean((n, SLOW), fast)),
            curve("the station at 1 Mbit/s", Style::Dots, &|n| mean((n, SLOW), slow)),
            Series {
                provenance: Some(FORMULA),
                ..curve("formula", Style::Dashes, &|n| Some(by_formula((n, SLOW))))
            },
        ],
    }
}

const ABSTRACT: Provenance = published(ANOMALY, "abstract");
const FORMULA: Provenance = Provenance::Inferred {
    from: "the publication's formula for the useful throughput, with the timings of IEEE Std \
           802.11-2012, clause 17, and a long preamble",
};
const STATIONS: [u32; 6] = [2, 3, 4, 5, 7, 10];
/// Number of stations in the runs with different rates of the slow station.
const FEW: u32 = 5;
/// The data rate of the other stations, bit/s.
const FAST: u64 = 11_000_000;
/// The lowest data rate of the slow station, bit/s.
const SLOW: u64 = 1_000_000;
/// Data rates of the slow station in bit/s, the lowest first. At the last rate, the station is no
/// slower than the others.
const RATES: [u64; 4] = [SLOW, 2_000_000, 5_500_000, FAST];

#[cfg(test)]
mod tests {
    use weir_report::finding::Verdict;

    use super::*;

    #[test]
    fn a_slow_station_slows_the_others_down() {
        let finding = run(&Options { quick: true, ..Options::default() }, &|_, _| {});
        assert_eq!(finding.claims.len(), 5);
        for claim in &finding.claims {
            assert_ne!(claim.verdict(), Verdict::Differs, "{}: {}", claim.words(), claim.detail());
        }
        // With equal rates there is no anomaly, so the testbed alone does not cause it.
        let equal = measure((FEW, FAST), 5_000, 1);
        assert!(equal.fast > 1.0, "{equal:?}");
    }
}
