//! QFQ+: what aggregates of classes save, and what they cost in fairness.

use std::fmt::Write as _;

use super::{Claim, Experiment, How, Outcome, Settings, available, find};
use crate::output::{Failure, say};
use crate::rig::{Config, Measured, Metric, Table, has_valgrind, measure, picture_of};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "qfq-plus",
    summary: "what a pair costs under QFQ+ with 1 and 8 classes an aggregate, DRR and QFQ, in four class sets",
    source: "P. Valente, patch that turns QFQ into QFQ+, October 2012",
    run: How::Measured(run),
};

const ALGORITHMS: [&str; 4] = ["qfq+:m=1", "qfq+:m=8", "drr", "qfq"];
/// The class sets, and the published ns in the order of [`ALGORITHMS`].
const PUBLISHED: [(&str, [f64; 4]); 4] = [
    ("1024:w1", [89.0, 63.0, 56.0, 81.0]),
    ("500:w1,250:w2,250:w4", [102.0, 71.0, 87.0, 103.0]),
    ("32768:w1", [267.0, 225.0, 173.0, 257.0]),
    ("16384:w1,8192:w2,8192:w4", [253.0, 187.0, 252.0, 257.0]),
];

fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let (algorithms, missing) = available(&ALGORITHMS);
    let sets = PUBLISHED.map(|(set, _)| set);
    let mut metrics = vec![Metric::Time, Metric::Wfi];
    if has_valgrind() {
        metrics.push(Metric::Instr);
    } else {
        say(
            "weir: without valgrind, instructions and cache misses are left out (sudo apt install valgrind)\n",
        );
    }
    let config = Config::preset(algorithms, &sets, "random", &metrics, settings.quick)?;
    let measured = measure(&config, settings.show_progress)?;
    let mut text = figures(&measured);
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot in this build: {}.", missing.join(", "));
    }
    let runs = measured.iter().map(|m| m.run.clone()).collect();
    let plots = vec![("cost".to_owned(), picture_of(&config, &measured))];
    Ok(Outcome::measured(text, claims(&measured), runs, plots))
}

fn figures(measured: &[Measured]) -> String {
    let mut text = String::from(
        "random arrivals, 10 packets a class queued; ns of a pair, the rig included: published / measured\n",
    );
    let head = || std::iter::once("classes").chain(ALGORITHMS);
    let mut table = Table::new(head());
    for (set, published) in PUBLISHED {
        let cells = ALGORITHMS.iter().zip(published).map(|(name, theirs)| {
            let ours = find(measured, name, set)
                .and_then(|m| m.run.ns_per_pair)
                .map_or("-".to_owned(), |ns| format!("{ns:.1}"));
            format!("{theirs:.0} / {ours}")
        });
        table.row(std::iter::once(set.to_owned()).chain(cells).collect());
    }
    text += &table.text();
    let mut more = |title: &str, value: fn(&Measured) -> Option<f64>, decimals: usize| {
        let _ = write!(text, "\n{title}\n");
        let mut table = Table::new(head());
        for (set, _) in PUBLISHED {
            let cells = ALGORITHMS.map(|name| {
                find(measured, name, set)
                    .and_then(value)
                    .map_or("-".to_owned(), |v| format!("{v:.decimals$}"))
            });
            table.row(std::iter::once(set.to_owned()).chain(cells).collect());
        }
        text += &table.text();
    };
    more("instructions of a pair, the rig included", |m| m.run.instructions_per_pair, 1);
    more("simulated misses of the second-level cache of a pair", |m| m.run.l2_misses_per_pair, 2);
    more("B-WFI in largest packets, worst class, every class always with packets", worst, 2);
    text
}

fn worst(measured: &Measured) -> Option<f64> {
    measured.run.wfi.as_ref()?.iter().map(|row| row.bwfi_packets).max_by(f64::total_cmp)
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let figure = |name: &str, set: &str, value: fn(&Measured) -> Option<f64>| {
        find(measured, name, set).and_then(value)
    };
    let ns = |name: &str, set: &str| figure(name, set, |m| m.run.ns_per_pair);
    let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
    let less = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let mut claims = Vec::new();
    for (set, theirs) in PUBLISHED {
        let mut claim = |words: String, seen: Option<(bool, String)>| {
            claims.push(Claim::new(format!("{set}: {words}"), seen))
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
        let hash = |name: &str| find(measured, name, set).and_then(|m| m.run.order_hash.clone());
        let seen = hash("qfq+:m=1").zip(hash("qfq")).map(|(one, other)| (one == other, one));
        claim("QFQ+ M=1 gives QFQ's order exactly".to_owned(), seen);
        let seen = figure("qfq+:m=8", set, worst)
            .zip(figure("qfq", set, worst))
            .map(|(plus, plain)| (plus <= plain + 3.0, format!("{plus:.2} against {plain:.2}")));
        claim("QFQ+ M=8 is at most 3 packets less fair than QFQ".to_owned(), seen);
        let instructions = |name: &str| figure(name, set, |m| m.run.instructions_per_pair);
        let seen = instructions("drr").zip(instructions("qfq+:m=8")).zip(instructions("qfq"));
        let seen = seen.map(|((drr, plus), qfq)| {
            (drr < plus && plus < qfq, format!("{}, {}", less(plus / drr), less(qfq / drr)))
        });
        claim("instructions: DRR, then QFQ+ M=8 (+7 %), then QFQ (+25 to +34 %)".to_owned(), seen);
        if published < 1.0 {
            let misses = |name: &str| figure(name, set, |m| m.run.l2_misses_per_pair);
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
    claims.push(Claim::new(
        "all cost more with 32k classes than with 1k (3.0, 3.6, 3.1, 3.2 times)",
        seen,
    ));
    claims
}
