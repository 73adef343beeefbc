//! QFQ+: how much time aggregates of classes save, and how much fairness they cost.

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};
use weir_rig::Algorithm;

use super::measured::{Measured, Measurement, Metric, Row, cell, ratio, time, time_ratio, value};
use super::sources::{QFQ_PLUS, published};

pub(crate) const EXPERIMENT: Measured = Measured {
    name: "qfq-plus",
    summary: "cost of an enqueue and a dequeue under DRR, QFQ, and QFQ+ with 1 to 16 classes per \
              aggregate, and the guarantee of each",
    source: "P. Valente, patch that turns QFQ into QFQ+, October 2012",
    measurements: &[
        Measurement {
            plot: "cost",
            algorithms: &[
                "qfq+:m=1",
                "qfq+:m=8",
                "drr",
                "qfq",
                "qfq+:m=2",
                "qfq+:m=4",
                "qfq+:m=16",
            ],
            flows: &[PUBLISHED[0].0, PUBLISHED[1].0, PUBLISHED[2].0, PUBLISHED[3].0],
            order: "random",
            metrics: &[Metric::Time, Metric::Fairness, Metric::Instructions],
        },
        Measurement {
            plot: "cost-in-turn",
            algorithms: &ALGORITHMS,
            flows: &[PUBLISHED[0].0, PUBLISHED[1].0, PUBLISHED[2].0, PUBLISHED[3].0],
            order: RAMP,
            metrics: &[Metric::Time, Metric::Instructions],
        },
        Measurement {
            plot: "guarantees",
            algorithms: &GUARANTEED,
            flows: &HEAVY,
            order: "random",
            metrics: &[Metric::Fairness],
        },
    ],
    finding,
};

const ALGORITHMS: [&str; 4] = ["qfq+:m=1", "qfq+:m=8", "drr", "qfq"];
/// QFQ+ with all measured numbers of classes in an aggregate.
const SIZES: [&str; 5] = ["qfq+:m=1", "qfq+:m=2", "qfq+:m=4", "qfq+:m=8", "qfq+:m=16"];
/// The algorithms in the table of guaranteed delays.
const GUARANTEED: [&str; 3] = ["qfq+:m=8", "qfq", "drr"];
/// The sets of classes, and their published times in ns, in the order of [`ALGORITHMS`].
const PUBLISHED: [(&str, [f64; 4]); 4] = [
    ("1024:w1", [89.0, 63.0, 56.0, 81.0]),
    ("500:w1,250:w2,250:w4", [102.0, 71.0, 87.0, 103.0]),
    ("32768:w1", [267.0, 225.0, 173.0, 257.0]),
    ("16384:w1,8192:w2,8192:w4", [253.0, 187.0, 252.0, 257.0]),
];
/// The order of arrivals that serves the classes in turn: the backlog rises to 20 packets for each
/// class and falls back to none.
const RAMP: &str = "ramp";
/// Sets with one heavy class among light classes. The heavy class waits for the aggregates of the
/// light classes.
const HEAVY: [&str; 2] = ["15:w1,1:w16", "8:w1:l1024,1:w1024:l1024"];

/// The measurements of the patch.
const COST: Provenance = published(QFQ_PLUS, "measurements of the patch");
/// The patch's statement about M = 1.
const ORDER: Provenance = published(QFQ_PLUS, "QFQ is QFQ+ with one class an aggregate");
/// The patch's statement about how late a packet completes.
const BOUND: Provenance = published(QFQ_PLUS, "guarantees: 3 maximum packets");

fn finding(rows: &[Row]) -> Finding {
    let (ramp, rows): (Vec<Row>, Vec<Row>) =
        rows.iter().cloned().partition(|row| row.run.order == RAMP);
    let mut times = Table::new(
        "ns of a pair, the rig included; classes at random with 10 packets each, or in turn",
        &["classes", "algorithm", "reference", "at random", "in turn"],
    );
    for (set, published) in PUBLISHED {
        for (name, stated) in ALGORITHMS.iter().zip(published) {
            let ours = [&rows, &ramp].map(|rows| Cell::quantity(&time(rows, name, set), 1));
            let head = [set.into(), (*name).into(), Cell::reference(stated, 0, COST)];
            times.row(head.into_iter().chain(ours).collect());
        }
    }
    let instructions = |row: &Row| row.run.instructions_per_pair;
    let misses = "simulated misses of the second-level cache of a pair, at random";
    let fairness = "B-WFI in largest packets, worst class, every class always with packets";
    let tables = vec![
        times,
        table(&rows, "instructions of a pair, at random", &ALGORITHMS, instructions, 1),
        table(&ramp, "instructions of a pair, in turn", &ALGORITHMS, instructions, 1),
        table(&rows, misses, &ALGORITHMS, |row| row.run.l2_misses_per_pair, 2),
        table(&rows, fairness, &ALGORITHMS, Row::worst_wfi, 2),
        delays(&rows),
        table(&rows, "other M: ns of a pair, at random", &SIZES, mean_time, 1),
        table(&rows, "other M: instructions of a pair, at random", &SIZES, instructions, 1),
        table(&rows, "other M: B-WFI in largest packets, worst class", &SIZES, Row::worst_wfi, 2),
    ];
    let notes = [
        "Published times are of one machine of 2012, so the claims are about ratios. Times are \
         means over repeated runs, in which the algorithms alternate; instructions, cache misses \
         and fairness are exact.",
        "The patch includes the making and the discarding of a packet in its times, as the rig \
         does. It does not say in which order the classes get packets, nor how many wait, nor for \
         which classes it counts instructions. In turn, all classes have packets while the backlog \
         is large. At random, every class gets equally many packets whatever its weight, so that \
         heavy classes are often empty.",
        "The patch refers to its paper for guaranteed delays and for other M. The paper was not \
         available; the tables have our bounds (docs/guarantees.md) and our measurements.",
    ];
    Finding {
        title: "QFQ+ alone: what its aggregates save, and what they cost in fairness".into(),
        tables,
        claims: claims(&rows, &ramp),
        plots: Vec::new(),
        notes: notes.map(String::from).to_vec(),
        ..Finding::default()
    }
}

/// A table of a property by the set of classes and the algorithm.
fn table(
    rows: &[Row],
    title: &str,
    algorithms: &[&str],
    property: fn(&Row) -> Option<f64>,
    decimals: u8,
) -> Table {
    let columns: Vec<&str> = std::iter::once("classes").chain(algorithms.iter().copied()).collect();
    let mut table = Table::new(title, &columns);
    for (set, _) in PUBLISHED {
        let cells = algorithms.iter().map(|name| cell(value(rows, name, set, property), decimals));
        table.row(std::iter::once(set.into()).chain(cells).collect());
    }
    table
}

/// The mean time of a pair over the runs, ns.
fn mean_time(row: &Row) -> Option<f64> {
    Quantity::of_runs(&row.times).mean()
}

/// The delays that the bounds guarantee to a packet that finds its class empty, for each class.
fn delays(rows: &[Row]) -> Table {
    let columns: Vec<&str> = ["classes", "weight"].into_iter().chain(GUARANTEED).collect();
    let title = "guaranteed delay of a packet that finds its class empty, ms at 1 Gbit/s";
    let mut table = Table::new(title, &columns);
    for set in PUBLISHED.map(|(set, _)| set).into_iter().chain(HEAVY) {
        let all = GUARANTEED.map(|name| guarantees(rows, name, set));
        for (class, &(weight, _)) in all[0].iter().enumerate() {
            let cells = all.iter().map(|of| cell(of.get(class).and_then(|(_, ms)| *ms), 3));
            let head = [set.into(), Cell::number(f64::from(weight), 0)];
            table.row(head.into_iter().chain(cells).collect());
        }
    }
    table
}

/// The weight of each class of a set, and the time within which a packet departs if it finds its
/// class empty, in ms at 1 Gbit/s: `(L + B-WFI) / φ`, with the class's largest packet `L` and its
/// share `φ` of the link.
fn guarantees(rows: &[Row], name: &str, set: &str) -> Vec<(u32, Option<f64>)> {
    let Some(run) = row(rows, name, set).map(|row| &row.run) else { return Vec::new() };
    let sum: f64 =
        run.flows.iter().map(|group| f64::from(group.count) * f64::from(group.weight)).sum();
    let classes = run.wfi.iter().flatten().map(|class| {
        let time = f64::from(class.lmax) * BYTE_MS * sum / f64::from(class.weight);
        (class.weight, class.bound_packets.map(|bound| (1.0 + bound) * time))
    });
    classes.collect()
}

/// The claims, from the rows with random arrivals (`rows`) and those in turn (`ramp`).
fn claims(rows: &[Row], ramp: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (set, stated) in PUBLISHED {
        claims.extend(costs(rows, &format!("{set}, at random"), set, stated));
        claims.extend(costs(ramp, &format!("{set}, in turn"), set, stated));
        let hash = |name: &str| row(rows, name, set)?.run.order_hash.clone();
        let same = hash("qfq+:m=1").zip(hash("qfq")).map(|(one, other)| f64::from(one == other));
        claims.push(
            Claim::new(format!("{set}: QFQ+ M=1 gives QFQ's order exactly"), ORDER).expect(
                "equal orders",
                Quantity::exact(same),
                Range::within(1.0, 1.0),
            ),
        );
        claims.push(completion(rows, set));
        if stated[1] < stated[2] {
            let misses = |name: &str| value(rows, name, set, |row| row.run.l2_misses_per_pair);
            let words = format!("{set}, at random: QFQ+ M=8 misses the cache 8 % less than DRR");
            let seen = ratio(misses("qfq+:m=8"), misses("drr"));
            claims.push(Claim::new(words, COST).expect(
                "cache misses, ratio of QFQ+ M=8 to DRR",
                seen,
                Range::at_most(0.92),
            ));
        }
    }
    claims.extend(HEAVY.map(|set| completion(rows, set)));
    let mut all = Claim::new(
        "at random, all cost more with 32k classes than with 1k (3.0, 3.6, 3.1, 3.2 times)",
        COST,
    );
    for name in ALGORITHMS {
        let seen = time_ratio(rows, (name, PUBLISHED[2].0), (name, PUBLISHED[0].0));
        all = all.expect(format!("{name}: ratio of 32k classes to 1k"), seen, Range::above(1.2));
    }
    claims.push(all);
    claims
}

/// The claims about the cost of a set of classes, with the published times of [`ALGORITHMS`].
fn costs(rows: &[Row], title: &str, set: &str, stated: [f64; 4]) -> Vec<Claim> {
    let change = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let timed = |words: String, over: &str, under: &str, range| {
        Claim::new(format!("{title}: {words}"), COST).expect(
            format!("time, ratio of {over} to {under}"),
            time_ratio(rows, (over, set), (under, set)),
            range,
        )
    };
    let mut claims = Vec::new();
    let published = change(stated[1] / stated[3]);
    let words = format!("QFQ+ M=8 takes 16 to 31 % less time than QFQ ({published} in this set)");
    claims.push(timed(words, "qfq+:m=8", "qfq", Range::at_most(0.84)));
    let words = format!("QFQ+ M=1 is about QFQ ({})", change(stated[0] / stated[3]));
    claims.push(timed(words, "qfq+:m=1", "qfq", Range::within(0.8, 1.25)));
    let published = stated[1] / stated[2];
    let (words, range) = if published < 1.0 {
        ("is faster than", Range::below(1.0))
    } else {
        ("is close to", Range::at_most(published))
    };
    let words = format!("QFQ+ M=8 {words} DRR ({})", change(published));
    claims.push(timed(words, "qfq+:m=8", "drr", range));
    let instructions = |name: &str| value(rows, name, set, |row| row.run.instructions_per_pair);
    let over_drr = |name: &str| ratio(instructions(name), instructions("drr"));
    let words = "QFQ+ M=8 executes 7 % more instructions than DRR, QFQ 25 to 34 % more";
    claims.push(
        Claim::new(format!("{title}: {words}"), COST)
            .expect("ratio of QFQ+ M=8 to DRR", over_drr("qfq+:m=8"), Range::at_most(1.07))
            .expect("ratio of QFQ to DRR", over_drr("qfq"), Range::within(1.25, 1.34)),
    );
    claims
}

/// The claim about completion: the B-WFI of a class is at most QFQ's bound plus three packets.
fn completion(rows: &[Row], set: &str) -> Claim {
    let classes = |name| row(rows, name, set).and_then(|row| row.run.wfi.as_ref());
    let over = classes("qfq+:m=8").zip(classes("qfq")).and_then(|(plus, plain)| {
        let over = plus
            .iter()
            .zip(plain)
            .filter_map(|(plus, plain)| plain.bound_packets.map(|bound| plus.bwfi_packets - bound));
        over.max_by(f64::total_cmp)
    });
    let words = "packets complete at most 3 packets at the class's rate later than QFQ guarantees";
    Claim::new(format!("{set}: under QFQ+ M=8, {words}"), BOUND).expect(
        "B-WFI of QFQ+ minus the bound of QFQ, packets",
        Quantity::exact(over),
        Range::at_most(3.0),
    )
}

/// The row of an algorithm with a set of classes.
fn row<'a>(rows: &'a [Row], name: &str, set: &str) -> Option<&'a Row> {
    let algorithm = Algorithm::parse(name).ok()?.to_string();
    rows.iter().find(|row| row.run.alg == algorithm && row.flows == set)
}

/// The milliseconds that a byte takes at 1 Gbit/s.
const BYTE_MS: f64 = 8.0 / 1e6;
