//! The experiment's tables, claims and plot.

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::case::{COARSE, Errors, LOADS, Load, Row, SLEEPS, SPINS, WAITS, Wait};
use crate::sources::{QFQ_TALK, published};

pub(super) fn finding(rows: &[Row]) -> Finding {
    Finding {
        title: "A probe over a live link with a delay of 10 ms: how late it arrives".into(),
        tables: vec![table(rows)],
        claims: claims(rows),
        plots: vec![plot(rows)],
        notes: vec![
            "The errors depend on this machine and its other work; on a virtual machine, the host \
             interferes, too. They include the kernel's path through two veth pairs."
                .to_owned(),
            "Intervals are over rounds in which all cases take turns.".to_owned(),
        ],
        ..Finding::default()
    }
}

fn values(rows: &[Row], wait: Wait, load: Load, value: fn(&Errors) -> f64) -> Vec<f64> {
    let row = rows.iter().find(|row| row.wait == wait && row.load == load);
    row.map_or_else(Vec::new, |row| row.runs.iter().map(value).collect())
}

fn p99(errors: &Errors) -> f64 {
    errors.p99
}

fn median(errors: &Errors) -> f64 {
    errors.median
}

fn name(wait: Wait) -> String {
    let how = if wait.spins { "spins" } else { "sleeps" };
    match (wait.is_realtime, wait.slack_ns) {
        (true, _) => format!("{how}, real-time"),
        (false, 1) => how.to_owned(),
        (false, ns) => format!("{how}, slack {} us", ns / 1000),
    }
}

fn load_name(load: Load) -> &'static str {
    match load {
        Load::Idle => "nothing besides",
        Load::Hogs => "busy processors",
        Load::Traffic => "60 Mbit/s besides",
    }
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "load",
        "the loop",
        "published",
        "median error, us",
        "p99",
        "most",
        "p99 of the reported lateness",
    ];
    let mut table = Table::new("delay of a probe less the configured 10 ms, us", &columns);
    for load in LOADS {
        for wait in WAITS {
            let stated = match (load, wait == SPINS) {
                (Load::Idle, true) => Cell::quoted("about 100", CONTROLLED),
                (Load::Hogs, true) => Cell::quoted("50 to 70, easily hundreds", SYSTEM),
                (Load::Traffic, true) => Cell::quoted("a packet: 120 at 100 Mbit/s", COMPETING),
                _ => Cell::Empty,
            };
            let of =
                |value| Cell::quantity(&Quantity::of_runs(&values(rows, wait, load, value)), 0);
            table.row(vec![
                load_name(load).into(),
                name(wait).into(),
                stated,
                of(median),
                of(p99),
                of(|errors| errors.most),
                of(|errors| errors.lateness_p99),
            ]);
        }
    }
    table
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let quantity = |wait, load, value| Quantity::of_runs(&values(rows, wait, load, value));
    let ratio = |over: (Wait, Load), under: (Wait, Load), value: fn(&Errors) -> f64| {
        Quantity::ratio(
            &values(rows, over.0, over.1, value),
            &values(rows, under.0, under.1, value),
        )
    };
    let more: Vec<f64> = values(rows, SPINS, Load::Traffic, median)
        .iter()
        .zip(&values(rows, SPINS, Load::Idle, median))
        .map(|(with, without)| with - without)
        .collect();
    vec![
        Claim::new("under controlled conditions the accuracy is about 100 us", CONTROLLED).expect(
            "99th percentile of the error, us",
            quantity(SPINS, Load::Idle, p99),
            Range::within(0.0, 100.0),
        ),
        Claim::new("a finer timer improves the accuracy a lot", TIMER).expect(
            "median error, ratio with a timer of 1 ms to an exact timer",
            ratio((COARSE, Load::Idle), (SLEEPS, Load::Idle), median),
            Range::above(2.0),
        ),
        Claim::new("busy processors take delays into the hundreds of microseconds", SYSTEM)
            .expect(
                "an ordinary thread that sleeps: p99, us",
                quantity(SLEEPS, Load::Hogs, p99),
                Range::above(100.0),
            )
            .expect(
                "p99, ratio to that of an idle machine",
                ratio((SLEEPS, Load::Hogs), (SLEEPS, Load::Idle), p99),
                Range::above(1.0),
            ),
        Claim::new(
            "with real-time priority busy processors matter less",
            Provenance::Inferred { from: "a real-time thread runs before all ordinary threads" },
        )
        .expect(
            "p99, ratio of a real-time thread that spins to an ordinary thread that sleeps",
            ratio((SPINS, Load::Hogs), (SLEEPS, Load::Hogs), p99),
            Range::below(1.0),
        ),
        Claim::new(
            "competing traffic adds about the time of a packet: at most 120 us (100 Mbit/s)",
            COMPETING,
        )
        .expect(
            "median error with competing traffic minus that without such traffic, us",
            Quantity::of_runs(&more),
            Range::below(120.0),
        ),
    ]
}

fn plot(rows: &[Row]) -> Plot {
    let series = LOADS.into_iter().map(|load| Series {
        name: load_name(load).to_owned(),
        style: Style::Dots,
        points: (1..)
            .zip(WAITS)
            .filter_map(|(n, wait)| {
                let mean = Quantity::of_runs(&values(rows, wait, load, p99)).mean()?;
                Some([f64::from(n), mean.max(1.0) * 1e3])
            })
            .collect(),
        ..Series::default()
    });
    Plot {
        name: "errors".into(),
        title: "99th percentile of the error".into(),
        description: "The error of the delay for each mode of waiting, in the order of the table, \
                      for each load."
            .into(),
        x: Axis::new("how the loop waits, in the order of the table", Unit::Count),
        y: Axis { log: true, ..Axis::new("error of the delay", Unit::Nanoseconds) },
        series: series.collect(),
    }
}

const CONTROLLED: Provenance =
    published(QFQ_TALK, "accuracy: hundred microseconds under carefully controlled conditions");
const TIMER: Provenance = published(QFQ_TALK, "accuracy: the timer of the kernel");
const SYSTEM: Provenance = published(QFQ_TALK, "accuracy: interference of the operating system");
const COMPETING: Provenance = published(QFQ_TALK, "accuracy: interference of competing traffic");

#[cfg(test)]
mod tests {
    use weir_report::finding::Verdict;

    use super::*;

    fn rows(error: fn(Wait, Load) -> f64) -> Vec<Row> {
        let of = |wait, load| {
            let each = error(wait, load);
            let run = |noise: f64| Errors {
                median: each / 2.0 * noise,
                p99: each * noise,
                most: 2.0 * each,
                lateness_p99: each,
            };
            Row { wait, load, runs: [0.99, 1.0, 1.01].map(run).to_vec() }
        };
        LOADS.into_iter().flat_map(|load| WAITS.map(|wait| of(wait, load))).collect()
    }

    #[test]
    fn verdicts_follow_the_errors() {
        let verdicts =
            |error| finding(&rows(error)).claims.iter().map(Claim::verdict).collect::<Vec<_>>();
        let as_published = |wait: Wait, load| {
            let base = if wait.spins { 40.0 } else { 60.0 + wait.slack_ns as f64 / 1e3 };
            if load == Load::Hogs && !wait.is_realtime { base + 900.0 } else { base }
        };
        assert_eq!(verdicts(as_published), [Verdict::Holds; 5]);
        // A machine with the same large error in all cases.
        let late: fn(Wait, Load) -> f64 = |_, _| 500.0;
        let found = verdicts(late);
        assert_eq!(found[..3], [Verdict::Differs; 3]);
        assert_ne!(found[3], Verdict::Holds);
        assert!(finding(&[]).claims.iter().all(|c| c.verdict() == Verdict::CannotBeJudged));
    }
}
