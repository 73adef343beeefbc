//! The talk of 2010 that introduced QFQ: cost of schedulers against the number of flows, and their
//! service guarantee.

use weir_report::finding::{Claim, Finding, Table};

use super::measured::{Measured, Measurement, Metric, Row, cell, ratio, value};

/// The experiment's entry in the list.
pub(crate) const EXPERIMENT: Measured = Measured {
    name: "qfq-talk",
    summary: "cost of schedulers against the number of flows, and how fair they are",
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
            plot: "wfi",
            // Schedulers without a guarantee would hide the others in the plot.
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
/// The published cost for few flows, where it is constant, in ns; a dash if the talk gives none.
const PUBLISHED: [(&str, &str); 6] = [
    ("none", "60"),
    ("fifo", "-"),
    ("drr", "55"),
    ("qfq", "110"),
    ("kps", "400"),
    ("wf2q+", "log N"),
];
/// Flow sets for the measurement of fairness.
const FAIRNESS: [&str; 2] = ["1024:w1", "500:w1,250:w2,250:w4"];

fn finding(rows: &[Row]) -> Finding {
    let counts: Vec<u32> = (0..=15).step_by(3).map(|power| 1 << power).collect();
    let heads: Vec<String> = counts.iter().map(|count| format!("{count} flows")).collect();
    let columns: Vec<&str> =
        ["scheduler", "published"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut times = Table::new(
        "ns of a pair of enqueue and dequeue, the rig included, backlog from nothing to 20 packets a flow and back",
        &columns,
    );
    for (name, published) in PUBLISHED {
        let ours = counts.iter().map(|count| cell(cost(rows, name, *count), 1));
        times.row([name.into(), published.into()].into_iter().chain(ours).collect());
    }
    let mut fairness = Table::new(
        "B-WFI in largest packets, worst class, every flow always with packets (published: within 5 for QFQ, 1 for the optimal system)",
        &["scheduler", FAIRNESS[0], FAIRNESS[1]],
    );
    for name in GUARANTEED {
        let worst = FAIRNESS.map(|set| cell(worst(rows, name, set), 2));
        fairness.row(std::iter::once(name.into()).chain(worst).collect());
    }
    Finding {
        title: "Schedulers alone: what a packet costs, and how fair they are".into(),
        tables: vec![times, fairness],
        claims: claims(rows),
        plots: Vec::new(),
    }
}

fn cost(rows: &[Row], name: &str, flows: u32) -> Option<f64> {
    value(rows, name, &format!("{flows}:w1"), |row| row.run.ns_per_pair)
}

fn worst(rows: &[Row], name: &str, set: &str) -> Option<f64> {
    value(rows, name, set, Row::worst_wfi)
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let at = |name, flows| cost(rows, name, flows);
    let mut claims = Vec::new();
    let mut claim =
        |words: &str, seen: Option<(bool, String)>| claims.push(Claim::judged(words, seen));
    let times = |value: f64, name: &str| format!("{value:.2} times {name}");
    claim(
        "a FIFO costs little more than the rig alone",
        ratio(at("fifo", 1024), at("none", 1024)).map(|r| (r < 2.0, times(r, "none"))),
    );
    claim(
        "QFQ costs about twice DRR (1k flows)",
        ratio(at("qfq", 1024), at("drr", 1024)).map(|r| ((1.1..3.0).contains(&r), times(r, "DRR"))),
    );
    claim(
        "KPS costs several times QFQ (1k flows)",
        ratio(at("kps", 1024), at("qfq", 1024)).map(|r| (r > 1.5, times(r, "QFQ"))),
    );
    claim("WF2Q+ is the dearest at 32k flows", {
        let others = ["none", "fifo", "drr", "qfq", "kps"].map(|name| at(name, 32_768));
        let dearest = others.into_iter().flatten().max_by(f64::total_cmp);
        ratio(at("wf2q+", 32_768), dearest).map(|r| (r > 1.0, times(r, "the next")))
    });
    claim("WF2Q+ grows with the logarithm of the flows", {
        let growth = [(16, 64), (64, 256), (256, 1024)]
            .map(|(few, many)| ratio(at("wf2q+", many), at("wf2q+", few)));
        let growth: Option<Vec<f64>> = growth.into_iter().collect();
        growth.map(|g| {
            (
                g.iter().all(|r| *r > 1.0) && g.iter().product::<f64>() > 1.25,
                format!("{:.2} times from 16 to 1k", g.iter().product::<f64>()),
            )
        })
    });
    for name in ["drr", "qfq", "kps"] {
        let flat = ratio(at(name, 256), at(name, 16));
        claim(
            &format!("{name} is flat from 16 to 256 flows"),
            flat.map(|r| ((0.75..1.25).contains(&r), format!("{r:.2} times"))),
        );
    }
    for name in ["drr", "qfq"] {
        let grown = ratio(at(name, 32_768), at(name, 256));
        claim(
            &format!("beyond 1k flows caches show: {name}"),
            grown.map(|r| (r > 1.05, format!("{r:.2} times from 256 to 32k"))),
        );
    }
    claim(
        "one flow is no cheaper for QFQ than many",
        ratio(at("qfq", 1), at("qfq", 16)).map(|r| (r > 0.9, format!("{r:.2} times 16 flows"))),
    );
    for set in FAIRNESS {
        claim(
            &format!("QFQ's B-WFI is within 5 packets ({set})"),
            worst(rows, "qfq", set).map(|w| (w <= 5.0, format!("{w:.2}"))),
        );
        claim(
            &format!("WF2Q+'s B-WFI is one packet ({set})"),
            worst(rows, "wf2q+", set).map(|w| (w <= 1.05, format!("{w:.2}"))),
        );
    }
    claims
}
