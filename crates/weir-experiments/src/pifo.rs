//! The FIFO+ experiment with an exact PIFO in place of strict-priority queues: how much of the
//! published gain is due to FIFO+, and how much to the division of the buffer.

use super::fifo_plus::bed::{BATCH, SLOTS, cross, run_all, statistics, switch};
use super::testbed::{Testbed, Waits};
use weir_report::finding::{Cell, Claim, Finding, Table};

use super::experiment::{Experiment, Options};

pub(super) const EXACT: Experiment = Experiment {
    name: "pifo-exact",
    summary: "FIFO+ with an exact PIFO of FIFO's buffer: below capacity the mean stays and the tail is cut",
    source: "Clark, Shenker and Zhang 1992; after table 4.2 of the PIFO on a P4 software switch",
    run: exact,
};

const LAWS: [&str; 3] = ["constant", "Pareto", "exponential"];

fn exact(options: &Options) -> Finding {
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
            // As in the publication of FIFO+, each link carries slightly more than the traffic that
            // has joined: 5.21 Mbit/s from each host.
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
    let waits = run_all(&beds, options);
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
    let (mut kept, mut cut, mut sliced) = (Vec::new(), Vec::new(), Vec::new());
    let mut starved = Vec::new();
    for ((distribution, below), waits) in cases.iter().zip(waits.chunks(systems.len())) {
        for ((name, _), waits) in systems.iter().zip(waits) {
            let measured = statistics(waits);
            let mut row: Vec<Cell> = vec![
                format!("{distribution}{}", if *below { "; load 0.95" } else { "" }).into(),
                (*name).into(),
            ];
            row.extend(measured.iter().map(|host| Cell::number(host.0, 0)));
            row.extend([0.99, 0.999, 1.0].map(|q| Cell::number(waits[3].quantile_ms(q), 0)));
            table.row(row);
        }
        let of_all = [0, 1].map(|n: usize| &waits[n][3]);
        let [fifo, exact, strict] = [0, 1, 2].map(|n| statistics(&waits[n])[3]);
        let far = |waits: &Waits| waits.quantile_ms(0.999);
        if *below {
            kept.push(exact.0 / fifo.0);
            cut.push(far(of_all[1]) / far(of_all[0]));
        } else {
            starved.push(exact.1 / fifo.1);
            sliced.push(strict.0 / exact.0);
        }
    }
    let range = |list: &[f64]| {
        (
            list.iter().copied().fold(f64::MAX, f64::min),
            list.iter().copied().fold(f64::MIN, f64::max),
        )
    };
    let as_text = |list: &[f64]| format!("{:.2} to {:.2}", range(list).0, range(list).1);
    let claims = vec![
        Claim::tried(
            "below capacity an exact PIFO keeps FIFO's mean within 10 %",
            range(&kept).0 > 0.9 && range(&kept).1 < 1.1,
            as_text(&kept),
        ),
        Claim::tried("and cuts the 99.9th percentile", range(&cut).1 < 1.0, as_text(&cut)),
        Claim::tried(
            "in overload it starves what has waited least: the 99th percentile is longer than FIFO's",
            range(&starved).0 > 1.0,
            as_text(&starved),
        ),
        Claim::tried(
            "the smaller mean comes from slicing the buffer: of the exact PIFO's the strict queues have less than half",
            range(&sliced).1 < 0.5,
            as_text(&sliced),
        ),
    ];
    let title = "The traffic of table 4.2 through a FIFO, an exact PIFO and eight strict queues of the same buffer of 120 packets";
    Finding { title: title.into(), tables: vec![table], claims, plots: Vec::new() }
}
