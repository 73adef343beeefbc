//! The talk of 2010 that introduced QFQ: cost of schedulers against the number of flows, and their
//! service guarantee.

use std::fmt::Write as _;

use super::{Claim, Experiment, How, Outcome, Settings, available, find};
use crate::output::Failure;
use crate::rig::{Config, Measured, Metric, Table, measure, picture_of};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "qfq-talk",
    summary: "cost of schedulers against the number of flows, and how fair they are",
    source: "L. Rizzo, Google Tech Talk, April 2010",
    run: How::Measured(run),
};

const ALGORITHMS: [&str; 6] = ["none", "fifo", "drr", "qfq", "kps", "wf2q+"];
/// What the talk says of the flat part, in ns; none where it gives no figure.
const PUBLISHED: [(&str, &str); 6] = [
    ("none", "60"),
    ("fifo", "-"),
    ("drr", "55"),
    ("qfq", "110"),
    ("kps", "400"),
    ("wf2q+", "log N"),
];
/// Flow sets whose fairness is measured.
const FAIRNESS: [&str; 2] = ["1024:w1", "500:w1,250:w2,250:w4"];

fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let (algorithms, missing) = available(&ALGORITHMS);
    let cost = Config::preset(algorithms, &["1..32k"], "ramp", &[Metric::Time], settings.quick)?;
    let measured = measure(&cost, settings.show_progress)?;
    // What promises nothing would only hide the others in the picture.
    let fairness = Config::preset(
        available(&ALGORITHMS[2..]).0,
        &FAIRNESS,
        "ramp",
        &[Metric::Wfi],
        settings.quick,
    )?;
    let fair = measure(&fairness, settings.show_progress)?;
    let mut text = figures(&measured, &fair);
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot in this build: {}.", missing.join(", "));
    }
    let plots = vec![
        ("cost".to_owned(), picture_of(&cost, &measured)),
        ("wfi".to_owned(), picture_of(&fairness, &fair)),
    ];
    let runs = measured.iter().chain(&fair).map(|m| m.run.clone()).collect();
    Ok(Outcome::measured(text, claims(&measured, &fair), runs, plots))
}

fn figures(measured: &[Measured], fair: &[Measured]) -> String {
    let mut text = String::from(
        "ns of a pair of enqueue and dequeue, the rig included, backlog from nothing to 20 packets a flow and back\n",
    );
    let counts: Vec<u32> = (0..=15).step_by(3).map(|power| 1 << power).collect();
    let head = ["scheduler".to_owned(), "published".to_owned()]
        .into_iter()
        .chain(counts.iter().map(|count| format!("{count} flows")));
    let mut table = Table::new(head);
    for (name, published) in PUBLISHED {
        let ours = counts.iter().map(|count| {
            cost(measured, name, *count).map_or("-".to_owned(), |ns| format!("{ns:.1}"))
        });
        table.row([name.to_owned(), published.to_owned()].into_iter().chain(ours).collect());
    }
    text += &table.text();
    text += "\nB-WFI in largest packets, worst class, every flow always with packets (published: within 5 for QFQ, 1 for the optimal system)\n";
    let mut table = Table::new(["scheduler", FAIRNESS[0], FAIRNESS[1]]);
    for (name, _) in &PUBLISHED[2..] {
        let worst = FAIRNESS.map(|set| {
            worst(fair, name, set).map_or("-".to_owned(), |packets| format!("{packets:.2}"))
        });
        table.row(std::iter::once((*name).to_owned()).chain(worst).collect());
    }
    text + &table.text()
}

fn cost(measured: &[Measured], name: &str, flows: u32) -> Option<f64> {
    find(measured, name, &format!("{flows}:w1"))?.run.ns_per_pair
}

fn worst(fair: &[Measured], name: &str, set: &str) -> Option<f64> {
    find(fair, name, set)?
        .run
        .wfi
        .as_ref()?
        .iter()
        .map(|row| row.bwfi_packets)
        .max_by(f64::total_cmp)
}

fn claims(measured: &[Measured], fair: &[Measured]) -> Vec<Claim> {
    let at = |name, flows| cost(measured, name, flows);
    let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
    let mut claims = Vec::new();
    let mut claim =
        |words: &str, seen: Option<(bool, String)>| claims.push(Claim::new(words, seen));
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
            worst(fair, "qfq", set).map(|w| (w <= 5.0, format!("{w:.2}"))),
        );
        claim(
            &format!("WF2Q+'s B-WFI is one packet ({set})"),
            worst(fair, "wf2q+", set).map(|w| (w <= 1.05, format!("{w:.2}"))),
        );
    }
    claims
}
