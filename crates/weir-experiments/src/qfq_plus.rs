//! QFQ+: how much time aggregates of classes save, and how much fairness they cost.

use weir_report::finding::{Claim, Finding, Table};
use weir_rig::Algorithm;

use super::measured::{Measured, Measurement, Metric, Row, cell, ratio, value};

/// The experiment's entry in the list.
pub(crate) const EXPERIMENT: Measured = Measured {
    name: "qfq-plus",
    summary: "what a pair costs under QFQ+ with 1 and 8 classes an aggregate, DRR and QFQ, in four class sets",
    source: "P. Valente, patch that turns QFQ into QFQ+, October 2012",
    measurements: &[Measurement {
        plot: "cost",
        algorithms: &ALGORITHMS,
        flows: &[PUBLISHED[0].0, PUBLISHED[1].0, PUBLISHED[2].0, PUBLISHED[3].0],
        order: "random",
        metrics: &[Metric::Time, Metric::Fairness, Metric::Instructions],
    }],
    finding,
};

const ALGORITHMS: [&str; 4] = ["qfq+:m=1", "qfq+:m=8", "drr", "qfq"];
/// The sets of classes, and their published times in ns, in the order of [`ALGORITHMS`].
const PUBLISHED: [(&str, [f64; 4]); 4] = [
    ("1024:w1", [89.0, 63.0, 56.0, 81.0]),
    ("500:w1,250:w2,250:w4", [102.0, 71.0, 87.0, 103.0]),
    ("32768:w1", [267.0, 225.0, 173.0, 257.0]),
    ("16384:w1,8192:w2,8192:w4", [253.0, 187.0, 252.0, 257.0]),
];

fn finding(rows: &[Row]) -> Finding {
    let columns: Vec<&str> = std::iter::once("classes").chain(ALGORITHMS).collect();
    let mut times = Table::new(
        "random arrivals, 10 packets a class queued; ns of a pair, the rig included: published / measured",
        &columns,
    );
    for (set, published) in PUBLISHED {
        let cells = ALGORITHMS.iter().zip(published).map(|(name, theirs)| {
            let ours = cell(value(rows, name, set, |row| row.run.ns_per_pair), 1);
            format!("{theirs:.0} / {}", ours.text()).into()
        });
        times.row(std::iter::once(set.into()).chain(cells).collect());
    }
    let of = |title: &str, property: fn(&Row) -> Option<f64>, decimals: u8| {
        let mut table = Table::new(title, &columns);
        for (set, _) in PUBLISHED {
            let cells = ALGORITHMS.map(|name| cell(value(rows, name, set, property), decimals));
            table.row(std::iter::once(set.into()).chain(cells).collect());
        }
        table
    };
    let tables = vec![
        times,
        of("instructions of a pair, the rig included", |row| row.run.instructions_per_pair, 1),
        of(
            "simulated misses of the second-level cache of a pair",
            |row| row.run.l2_misses_per_pair,
            2,
        ),
        of(
            "B-WFI in largest packets, worst class, every class always with packets",
            Row::worst_wfi,
            2,
        ),
    ];
    let title = "QFQ+ alone: what its aggregates save, and what they cost in fairness".into();
    Finding { title, tables, claims: claims(rows), plots: Vec::new() }
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let metric =
        |name: &str, set: &str, property: fn(&Row) -> Option<f64>| value(rows, name, set, property);
    let ns = |name: &str, set: &str| metric(name, set, |row| row.run.ns_per_pair);
    let less = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let mut claims = Vec::new();
    for (set, theirs) in PUBLISHED {
        let mut claim = |words: String, seen: Option<(bool, String)>| {
            claims.push(Claim::judged(format!("{set}: {words}"), seen));
        };
        let published = theirs[1] / theirs[3];
        let seen = ratio(ns("qfq+:m=8", set), ns("qfq", set)).map(|r| (r <= 1.0, less(r)));
        claim(format!("QFQ+ M=8 is faster than QFQ ({})", less(published)), seen);
        let seen =
            ratio(ns("qfq+:m=1", set), ns("qfq", set)).map(|r| ((0.8..1.25).contains(&r), less(r)));
        claim(format!("QFQ+ M=1 is about QFQ ({})", less(theirs[0] / theirs[3])), seen);
        let published = theirs[1] / theirs[2];
        let seen = ratio(ns("qfq+:m=8", set), ns("drr", set))
            .map(|r| (if published < 1.0 { r < 1.0 } else { r < 1.6 }, less(r)));
        let words = if published < 1.0 { "is faster than" } else { "is close to" };
        claim(format!("QFQ+ M=8 {words} DRR ({})", less(published)), seen);
        let hash = |name: &str| order_hash(rows, name, set);
        let seen = hash("qfq+:m=1").zip(hash("qfq")).map(|(one, other)| (one == other, one));
        claim("QFQ+ M=1 gives QFQ's order exactly".to_owned(), seen);
        let seen = metric("qfq+:m=8", set, Row::worst_wfi)
            .zip(metric("qfq", set, Row::worst_wfi))
            .map(|(plus, plain)| (plus <= plain + 3.0, format!("{plus:.2} against {plain:.2}")));
        claim("QFQ+ M=8 is at most 3 packets less fair than QFQ".to_owned(), seen);
        let instructions = |name: &str| metric(name, set, |row| row.run.instructions_per_pair);
        let seen = instructions("drr").zip(instructions("qfq+:m=8")).zip(instructions("qfq"));
        let seen = seen.map(|((drr, plus), qfq)| {
            (drr < plus && plus < qfq, format!("{}, {}", less(plus / drr), less(qfq / drr)))
        });
        claim("instructions: DRR, then QFQ+ M=8 (+7 %), then QFQ (+25 to +34 %)".to_owned(), seen);
        if published < 1.0 {
            let misses = |name: &str| metric(name, set, |row| row.run.l2_misses_per_pair);
            let seen = misses("qfq+:m=8")
                .zip(misses("drr"))
                .map(|(plus, drr)| (plus <= drr + 0.05, format!("{plus:.2} against {drr:.2}")));
            claim("QFQ+ M=8 misses the cache no more than DRR (-8 %)".to_owned(), seen);
        }
    }
    let seen = ALGORITHMS
        .iter()
        .map(|name| ratio(ns(name, PUBLISHED[2].0), ns(name, PUBLISHED[0].0)))
        .collect::<Option<Vec<f64>>>();
    let seen = seen.map(|ratios| {
        (
            ratios.iter().all(|r| *r > 1.2),
            ratios.iter().map(|r| format!("{r:.1}")).collect::<Vec<_>>().join(", ") + " times",
        )
    });
    claims.push(Claim::judged(
        "all cost more with 32k classes than with 1k (3.0, 3.6, 3.1, 3.2 times)",
        seen,
    ));
    claims
}

/// A hash of the order in which packets left.
fn order_hash(rows: &[Row], name: &str, set: &str) -> Option<String> {
    let algorithm = Algorithm::parse(name).ok()?.to_string();
    let row = rows.iter().find(|row| row.run.alg == algorithm && row.flows == set)?;
    row.run.order_hash.clone()
}
