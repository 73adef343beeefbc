//! The FIFO+ experiment with an exact PIFO in place of strict-priority queues: how much of the
//! published gain is due to FIFO+, and how much to the division of the buffer.

use super::fifo_plus::bed::{
    BATCH, Run, SLOTS, Summary, cross, quantity_of, run_all, switch, values,
};
use super::testbed::Testbed;
use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};

use super::experiment::{Experiment, Options, Progress};

pub(super) const EXACT: Experiment = Experiment {
    name: "pifo-exact",
    summary: "FIFO+ with an exact PIFO and the buffer of a FIFO: below capacity the mean stays \
              and the tail shrinks",
    source: "Clark, Shenker and Zhang 1992; after table 4.2 of the PIFO on a P4 software switch",
    run: exact,
};

/// Distributions of the time between packets.
const LAWS: [&str; 3] = ["constant", "Pareto", "exponential"];

fn exact(options: &Options, progress: &Progress<'_>) -> Finding {
    let systems = [
        ("FIFO", "fifo".to_owned()),
        ("exact PIFO", format!("pifo limit {SLOTS}")),
        ("8 strict queues", format!("sp-pifo depth {}", SLOTS / 8)),
    ];
    let bed = |distribution: &str, manager: &str, below: bool| {
        let mut switch = switch(false, SLOTS / 8, BATCH);
        manager.clone_into(&mut switch.manager);
        let mut bed = cross(switch, distribution, options);
        if below {
            // As in the publication of FIFO+, the rate of each link is slightly higher than that of
            // the traffic that has joined, 5.21 Mbit/s from each host.
            (bed.switch.egress, bed.switch.interface, bed.switch.batch) = (1, 1, 1);
            bed.rates = (1..=bed.rates.len() as u64)
                .map(|link| 5500 * link.min(bed.hosts.len() as u64))
                .collect();
        }
        bed
    };
    let cases: Vec<(&str, bool)> = LAWS
        .iter()
        .map(|distribution| (*distribution, false))
        .chain(LAWS[1..].iter().map(|distribution| (*distribution, true)))
        .collect();
    let beds: Vec<Testbed> = cases
        .iter()
        .flat_map(|(distribution, below)| {
            systems.iter().map(|(_, manager)| bed(distribution, manager, *below))
        })
        .collect();
    let runs = run_all(&beds, options, progress);
    let mut table = Table::new(
        "time in the traffic managers of a path, ms",
        &[
            "arrivals",
            "traffic manager",
            "h1 mean",
            "h2 mean",
            "h3 mean",
            "mean",
            "p99",
            "p99.9",
            "most",
        ],
    );
    for ((distribution, below), runs) in cases.iter().zip(runs.chunks(systems.len())) {
        for ((name, _), runs) in systems.iter().zip(runs) {
            let mut row: Vec<Cell> = vec![
                format!("{distribution}{}", if *below { "; load 0.95" } else { "" }).into(),
                (*name).into(),
            ];
            row.extend(
                (0..=ALL).map(|host| Cell::quantity(&quantity_of(runs, host, |w| w.mean), 0)),
            );
            for tail in [
                quantity_of(runs, ALL, |w| w.p99),
                quantity_of(runs, ALL, |w| w.p999),
                quantity_of(runs, ALL, |w| w.most),
            ] {
                row.push(Cell::quantity(&tail, 0));
            }
            table.row(row);
        }
    }
    let title = "The traffic of table 4.2 through a FIFO, an exact PIFO and eight strict queues \
                 of the same buffer of 120 packets";
    Finding {
        title: title.into(),
        tables: vec![table],
        claims: claims(&cases, &runs),
        plots: Vec::new(),
        notes: vec![
            "No document has these values: the claims follow from how the queues work. The testbed \
             is that of fifo-plus-table, with its calibrated parameters."
                .into(),
        ],
        ..Finding::default()
    }
}

/// The claims, from the runs of FIFO, exact PIFO and strict queues in each case.
fn claims(cases: &[(&str, bool)], runs: &[Vec<Run>]) -> Vec<Claim> {
    let claim = |words: &str, from| Claim::new(words, Provenance::Inferred { from });
    let mut kept = claim(
        "below capacity an exact PIFO keeps FIFO's mean within 10 %",
        "a link that is never idle sends as many packets in any order",
    );
    let mut cut = claim(
        "and cuts the 99.9th percentile",
        "the purpose of FIFO+, for which its authors simulated links below capacity",
    );
    let mut starved = claim(
        "in overload it starves packets that have waited least: the 99th percentile is longer \
         than FIFO's",
        "under overload, packets that have waited long are always before those that have not",
    );
    let mut sliced = claim(
        "the smaller mean comes from slicing the buffer: the strict queues have less than half of \
         the exact PIFO's mean",
        "packets that are sorted last find 15 places taken, not 120",
    );
    let ratio = |over: &[Run], under: &[Run], value: fn(&Summary) -> f64| {
        Quantity::ratio(&values(over, ALL, value), &values(under, ALL, value))
    };
    for ((law, below), systems) in cases.iter().zip(runs.chunks(3)) {
        let [fifo, exact, strict] = [0, 1, 2].map(|n| &systems[n][..]);
        if *below {
            let means = ratio(exact, fifo, |w| w.mean);
            let what = format!("{law}: mean, ratio of PIFO to FIFO");
            kept = kept.expect(what, means, Range::within(0.9, 1.1));
            let tails = ratio(exact, fifo, |w| w.p999);
            let what = format!("{law}: p99.9, ratio of PIFO to FIFO");
            cut = cut.expect(what, tails, Range::below(1.0));
        } else {
            let tails = ratio(exact, fifo, |w| w.p99);
            let what = format!("{law}: p99, ratio of PIFO to FIFO");
            starved = starved.expect(what, tails, Range::above(1.0));
            let means = ratio(strict, exact, |w| w.mean);
            let what = format!("{law}: mean, ratio of strict queues to PIFO");
            sliced = sliced.expect(what, means, Range::below(0.5));
        }
    }
    vec![kept, cut, starved, sliced]
}

/// The index of all hosts together, which follows those of the three hosts.
const ALL: usize = 3;
