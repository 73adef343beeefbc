//! QFQ+: how much time aggregates of classes save, and how much fairness they cost.

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};
use weir_rig::Algorithm;

use super::measured::{Measured, Measurement, Metric, Row, cell, ratio, time, time_ratio, value};
use super::sources::{QFQ_PLUS, published};

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

/// The measurements of the patch.
const COST: Provenance = published(QFQ_PLUS, "measurements of the patch");
/// What the patch says about M = 1.
const ORDER: Provenance = published(QFQ_PLUS, "QFQ is QFQ+ with one class an aggregate");
/// What the patch says about completion.
const BOUND: Provenance = published(QFQ_PLUS, "guarantees: 3 maximum packets");

fn finding(rows: &[Row]) -> Finding {
    let columns: Vec<&str> = std::iter::once("classes").chain(ALGORITHMS).collect();
    let mut times = Table::new(
        "random arrivals, 10 packets a class queued; ns of a pair, the rig included",
        &["classes", "algorithm", "reference", "measured"],
    );
    for (set, published) in PUBLISHED {
        for (name, theirs) in ALGORITHMS.iter().zip(published) {
            let ours = Cell::quantity(&time(rows, name, set), 1);
            times.row(vec![set.into(), (*name).into(), Cell::reference(theirs, 0, COST), ours]);
        }
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
    Finding {
        title,
        tables,
        claims: claims(rows),
        plots: Vec::new(),
        notes: vec![
            "Published times are of one machine of 2012, so the claims are about ratios. Times are \
             means over repeated runs, in which the algorithms alternate; instructions, cache \
             misses and fairness are exact."
                .into(),
        ],
    }
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let less = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let mut claims = Vec::new();
    for (set, theirs) in PUBLISHED {
        let timed = |words: String, over: &str, under: &str, range| {
            Claim::new(format!("{set}: {words}"), COST).expect(
                format!("time of {over} over {under}"),
                time_ratio(rows, (over, set), (under, set)),
                range,
            )
        };
        let words = format!("QFQ+ M=8 is faster than QFQ ({})", less(theirs[1] / theirs[3]));
        claims.push(timed(words, "qfq+:m=8", "qfq", Range::below(1.0)));
        let words = format!("QFQ+ M=1 is about QFQ ({})", less(theirs[0] / theirs[3]));
        claims.push(timed(words, "qfq+:m=1", "qfq", Range::within(0.8, 1.25)));
        let published = theirs[1] / theirs[2];
        let (words, most) =
            if published < 1.0 { ("is faster than", 1.0) } else { ("is close to", 1.6) };
        let words = format!("QFQ+ M=8 {words} DRR ({})", less(published));
        claims.push(timed(words, "qfq+:m=8", "drr", Range::below(most)));
        claims.extend(exact_claims(rows, set, published < 1.0));
    }
    let mut all =
        Claim::new("all cost more with 32k classes than with 1k (3.0, 3.6, 3.1, 3.2 times)", COST);
    for name in ALGORITHMS {
        let seen = time_ratio(rows, (name, PUBLISHED[2].0), (name, PUBLISHED[0].0));
        all = all.expect(format!("{name}: 32k over 1k"), seen, Range::above(1.2));
    }
    claims.push(all);
    claims
}

/// The claims about a class set that do not depend on time: order, fairness, instructions and, if
/// the classes have different weights, cache misses.
fn exact_claims(rows: &[Row], set: &str, weights: bool) -> Vec<Claim> {
    let metric = |name: &str, property: fn(&Row) -> Option<f64>| value(rows, name, set, property);
    let hash = |name: &str| order_hash(rows, name, set);
    let same = hash("qfq+:m=1").zip(hash("qfq")).map(|(one, other)| f64::from(one == other));
    let far = metric("qfq+:m=8", Row::worst_wfi)
        .zip(metric("qfq", Row::worst_wfi))
        .map(|(plus, plain)| plus - plain);
    let instructions = |name: &str| metric(name, |row| row.run.instructions_per_pair);
    let mut claims = vec![
        Claim::new(format!("{set}: QFQ+ M=1 gives QFQ's order exactly"), ORDER).expect(
            "equal orders",
            Quantity::exact(same),
            Range::within(1.0, 1.0),
        ),
        Claim::new(format!("{set}: QFQ+ M=8 is at most 3 packets less fair than QFQ"), BOUND)
            .expect("difference of B-WFI, packets", Quantity::exact(far), Range::at_most(3.0)),
        Claim::new(
            format!("{set}: instructions: DRR, then QFQ+ M=8 (+7 %), then QFQ (+25 to +34 %)"),
            COST,
        )
        .expect(
            "QFQ+ M=8 over DRR",
            ratio(instructions("qfq+:m=8"), instructions("drr")),
            Range::above(1.0),
        )
        .expect(
            "QFQ+ M=8 over QFQ",
            ratio(instructions("qfq+:m=8"), instructions("qfq")),
            Range::below(1.0),
        ),
    ];
    if weights {
        let misses = |name: &str| metric(name, |row| row.run.l2_misses_per_pair);
        let more = misses("qfq+:m=8").zip(misses("drr")).map(|(plus, drr)| plus - drr);
        claims.push(
            Claim::new(format!("{set}: QFQ+ M=8 misses the cache no more than DRR (-8 %)"), COST)
                .expect("more misses of a pair", Quantity::exact(more), Range::at_most(0.05)),
        );
    }
    claims
}

/// A hash of the order in which packets left.
fn order_hash(rows: &[Row], name: &str, set: &str) -> Option<String> {
    let algorithm = Algorithm::parse(name).ok()?.to_string();
    let row = rows.iter().find(|row| row.run.alg == algorithm && row.flows == set)?;
    row.run.order_hash.clone()
}
