//! The talk of 2010 that introduced QFQ: the cost of schedulers by number of flows, and their
//! service guarantee.

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};

use super::measured::{Measured, Measurement, Metric, Row, cell, time, time_ratio, value};
use super::sources::{QFQ_TALK, published};

pub(crate) const EXPERIMENT: Measured = Measured {
    name: "qfq-talk",
    summary: "cost of schedulers by number of flows, and their fairness",
    source: "L. Rizzo, Google Tech Talk, April 2010",
    measurements: &[
        Measurement {
            plot: "cost",
            algorithms: &ALGORITHMS,
            flows: &["1..32k"],
            order: "ramp",
            metrics: &[Metric::Time],
        },
        Measurement {
            plot: "mixed",
            algorithms: &ALGORITHMS,
            flows: &MIXED,
            order: "ramp",
            metrics: &[Metric::Time],
        },
        Measurement {
            plot: "wfi",
            // In the plot, schedulers without a guarantee would hide the schedulers with one.
            algorithms: &GUARANTEED,
            flows: &FAIRNESS,
            order: "ramp",
            metrics: &[Metric::Fairness],
        },
    ],
    finding,
};

const ALGORITHMS: [&str; 6] = ["none", "fifo", "drr", "qfq", "kps", "wf2q+"];
/// The schedulers with a service guarantee.
const GUARANTEED: [&str; 4] = ["drr", "qfq", "kps", "wf2q+"];
/// The published cost for few flows, in ns; `None` if the talk gives none.
const PUBLISHED: [(&str, Option<&str>); 6] = [
    ("none", Some("60")),
    ("fifo", None),
    ("drr", Some("55")),
    ("qfq", Some("110")),
    ("kps", Some("over 400")),
    ("wf2q+", Some("grows with log N")),
];
/// The costs that the talk states, measured on another machine.
const COST: Provenance = published(QFQ_TALK, "results: time of enqueue and dequeue");
/// The guarantees of the talk.
const GUARANTEE: Provenance = published(QFQ_TALK, "service guarantees");
/// Results of the talk on constant costs and on the effect of caches.
const CACHES: Provenance = published(QFQ_TALK, "results: flat to 256 or 1k flows, then caches");
/// Flow sets with mixed weights for the measurement of cost.
const MIXED: [&str; 2] = ["500:w1,250:w2,250:w4", "8k:w1,4k:w2,4k:w4"];
/// Flow sets for the measurement of fairness.
const FAIRNESS: [&str; 2] = ["1024:w1", "500:w1,250:w2,250:w4"];

fn finding(rows: &[Row]) -> Finding {
    let counts: Vec<u32> = (0..=15).step_by(3).map(|power| 1 << power).collect();
    let heads: Vec<String> = counts.iter().map(|count| format!("{count} flows")).collect();
    let columns: Vec<&str> =
        ["scheduler", "reference"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut times = Table::new(
        "ns of a pair of enqueue and dequeue, the rig included, backlog from nothing to 20 \
         packets a flow and back",
        &columns,
    );
    for (name, published) in PUBLISHED {
        let ours = counts.iter().map(|count| Cell::quantity(&time(rows, name, &flows(*count)), 1));
        let stated = published.map_or(Cell::Empty, |text| Cell::quoted(text, COST));
        times.row([name.into(), stated].into_iter().chain(ours).collect());
    }
    let mut mixed = Table::new(
        "ns of a pair with mixed weights, under the same conditions",
        &["scheduler", MIXED[0], MIXED[1]],
    );
    for name in ALGORITHMS {
        let ours = MIXED.map(|set| Cell::quantity(&time(rows, name, set), 1));
        mixed.row([name.into()].into_iter().chain(ours).collect());
    }
    let mut fairness = Table::new(
        "B-WFI in largest packets, worst class, every flow always with packets",
        &["scheduler", "reference", FAIRNESS[0], FAIRNESS[1]],
    );
    for name in GUARANTEED {
        let stated = match name {
            "qfq" => Cell::quoted("within 5", GUARANTEE),
            "wf2q+" => Cell::quoted("1 (the optimal system)", GUARANTEE),
            "drr" => Cell::quoted("up to N", GUARANTEE),
            _ => Cell::Empty,
        };
        let worst = FAIRNESS.map(|set| cell(worst(rows, name, set), 2));
        fairness.row([name.into(), stated].into_iter().chain(worst).collect());
    }
    // This table has no reference: a listener of the talk asked for the mean deviation, and the
    // talk gave no values.
    let mut mean = Table::new(
        "mean deviation from the ideal fluid in largest packets, worst class, every flow always \
         with packets",
        &["scheduler", FAIRNESS[0], FAIRNESS[1]],
    );
    for name in GUARANTEED {
        let ours = FAIRNESS.map(|set| cell(value(rows, name, set, Row::mean_deviation), 2));
        mean.row([name.into()].into_iter().chain(ours).collect());
    }
    Finding {
        title: "Schedulers alone: what a packet costs, and how fair they are".into(),
        tables: vec![times, mixed, fairness, mean],
        claims: claims(rows),
        plots: Vec::new(),
        notes: vec![
            "Published times are of a machine of 2010, so the claims are about ratios and growth. \
             Times are means over repeated runs, in which the schedulers alternate; fairness is \
             exact."
                .into(),
        ],
        ..Finding::default()
    }
}

fn flows(count: u32) -> String {
    format!("{count}:w1")
}

fn worst(rows: &[Row], name: &str, set: &str) -> Option<f64> {
    value(rows, name, set, Row::worst_wfi)
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let at = |over: (&str, u32), under: (&str, u32)| {
        time_ratio(rows, (over.0, &flows(over.1)), (under.0, &flows(under.1)))
    };
    let mut claims = Vec::new();
    let mut claim = |words: &str, provenance, what: &str, quantity: Quantity, range| {
        claims.push(Claim::new(words, provenance).expect(what, quantity, range));
    };
    claim(
        "a FIFO costs little more than the rig alone",
        Provenance::Inferred { from: "a FIFO has only a list" },
        "ratio of FIFO to none",
        at(("fifo", 1024), ("none", 1024)),
        Range::below(2.0),
    );
    claim(
        "QFQ costs about twice DRR (1k flows)",
        COST,
        "ratio of QFQ to DRR",
        at(("qfq", 1024), ("drr", 1024)),
        Range::within(1.1, 3.0),
    );
    claim(
        "KPS costs several times QFQ (1k flows)",
        COST,
        "ratio of KPS to QFQ",
        at(("kps", 1024), ("qfq", 1024)),
        Range::above(1.5),
    );
    let others = ["none", "fifo", "drr", "qfq", "kps"];
    let next_costly = others.into_iter().max_by(|a, b| {
        let mean = |name| time(rows, name, &flows(32_768)).mean().unwrap_or(0.0);
        mean(a).total_cmp(&mean(b))
    });
    claim(
        "WF2Q+ costs the most at 32k flows",
        COST,
        "ratio of WF2Q+ to the next",
        next_costly.map_or(Quantity::exact(None), |next| at(("wf2q+", 32_768), (next, 32_768))),
        Range::above(1.0),
    );
    claims.push(logarithm(rows));
    let mut claim = |words: String, what: &str, quantity: Quantity, range| {
        claims.push(Claim::new(words, CACHES).expect(what, quantity, range));
    };
    for name in ["drr", "qfq", "kps"] {
        claim(
            format!("{name} is flat from 16 to 256 flows"),
            "ratio of 256 flows to 16",
            at((name, 256), (name, 16)),
            Range::within(0.75, 1.25),
        );
    }
    for name in ["drr", "qfq"] {
        claim(
            format!("beyond 1k flows caches show: {name}"),
            "ratio of 32k flows to 256",
            at((name, 32_768), (name, 256)),
            Range::above(1.05),
        );
    }
    claim(
        "one flow is no cheaper for QFQ than many".to_owned(),
        "ratio of 1 flow to 16",
        at(("qfq", 1), ("qfq", 16)),
        Range::above(0.9),
    );
    for set in FAIRNESS {
        for (name, words, most) in [
            ("qfq", "QFQ's B-WFI is within 5 packets", 5.0),
            ("wf2q+", "WF2Q+'s B-WFI is one packet", 1.05),
        ] {
            let seen = Quantity::exact(worst(rows, name, set));
            claims.push(Claim::new(format!("{words} ({set})"), GUARANTEE).expect(
                "B-WFI, packets",
                seen,
                Range::within(0.0, most),
            ));
        }
    }
    claims
}

/// The claim that the cost of WF2Q+ grows with the logarithm of the number of flows.
fn logarithm(rows: &[Row]) -> Claim {
    let ratio =
        |many: u32, few: u32| time_ratio(rows, ("wf2q+", &flows(many)), ("wf2q+", &flows(few)));
    let claim = Claim::new("WF2Q+ grows with the logarithm of the flows", COST);
    [(16, 64), (64, 256), (256, 1024)]
        .into_iter()
        .fold(claim, |claim, (few, many)| {
            claim.expect(
                format!("ratio of {many} flows to {few}"),
                ratio(many, few),
                Range::above(1.0),
            )
        })
        .expect("ratio of 1k flows to 16", ratio(1024, 16), Range::above(1.25))
}
