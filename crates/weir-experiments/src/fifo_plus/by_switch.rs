//! FIFO+ switch by switch: packets from hosts further away depart first, and where all ranks are
//! equal, FIFO+ is a FIFO.
//!
//! The first experiment measures the mean wait of each host's packets at each switch of the chain.
//! The second repeats two thought experiments, in which all links have the same rate and one host
//! sends: below that rate no queue forms, and above it queues form only at the first switch, where
//! all packets still have the same deadline.

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};
use weir_sim::random::Variable;
use weir_sim::switch::SwitchConfig;

use super::bed::{BATCH, SLOTS, cross, switch};
use crate::experiment::{Options, Progress};
use crate::parallel::over_seeds;
use crate::sources::{PIFO_SWITCH, published};
use crate::testbed::{Host, Testbed};

/// The mean wait in ms of each host's packets at each switch, in one run.
type Means = Vec<Vec<f64>>;

fn means(beds: &[Testbed], options: &Options, progress: &Progress<'_>) -> Vec<Vec<Means>> {
    over_seeds(options, progress, beds, |bed, seed| {
        let switches = bed.rates.len();
        let of_host = |waits: &crate::testbed::Waits| {
            (0..switches).map(|number| waits.switch_ms(number)).collect()
        };
        bed.run(seed).iter().map(of_host).collect()
    })
}

/// The values of one host at one switch, by seed.
fn at(runs: &[Means], host: usize, switch: usize) -> Vec<f64> {
    runs.iter().map(|run| run[host][switch]).collect()
}

/// A row for each host, with its mean wait at each switch.
fn rows(table: &mut Table, system: &str, runs: &[Means], hosts: &[&str]) {
    for (host, name) in hosts.iter().enumerate() {
        let mut row: Vec<Cell> = vec![system.into(), (*name).into()];
        for switch in 0..runs[0][host].len() {
            row.push(Cell::quantity(&Quantity::of_runs(&at(runs, host, switch)), 1));
        }
        table.row(row);
    }
}

/// The experiment `fifo-plus-order`: the order that FIFO+ gives the hosts at each switch.
pub(super) fn order(options: &Options, progress: &Progress<'_>) -> Finding {
    let exact =
        SwitchConfig { manager: format!("pifo limit {SLOTS}"), ..switch(true, SLOTS / 8, BATCH) };
    let systems = ["FIFO+, 8 strict queues", "FIFO+, exact PIFO", "FIFO"];
    let beds = [switch(true, SLOTS / 8, BATCH), exact, switch(false, SLOTS / 8, BATCH)]
        .map(|switch| cross(switch, "exponential", options));
    let runs = means(&beds, options, progress);
    let mut table = Table::new(
        "mean wait of the packets that left a switch, ms",
        &["system", "host", "s1", "s2", "s3", "s4", "s5"],
    );
    for (system, runs) in systems.iter().zip(&runs) {
        rows(&mut table, system, runs, &["h1", "h2", "h3"]);
    }
    let mut claims = Vec::new();
    for (system, runs) in systems.iter().zip(&runs).take(2) {
        let ratio = |near: usize, far: usize, switch: usize| {
            Quantity::ratio(&at(runs, near, switch), &at(runs, far, switch))
        };
        claims.push(
            Claim::new(format!("{system}: s2 prefers packets of h1 to those of h2"), FIGURE)
                .expect("wait at s2, ratio of h1 to h2", ratio(0, 1, 1), Range::below(1.0)),
        );
        claims.push(
            Claim::new(format!("{system}: s3 prefers packets of h1 and h2 to those of h3"), FIGURE)
                .expect("wait at s3, ratio of h1 to h3", ratio(0, 2, 2), Range::below(1.0))
                .expect("wait at s3, ratio of h2 to h3", ratio(1, 2, 2), Range::below(1.0)),
        );
    }
    let fifo = &runs[2];
    claims.push(Claim::new("FIFO prefers none of them", THEORY).expect(
        "wait at s2, ratio of h1 to h2",
        Quantity::ratio(&at(fifo, 0, 1), &at(fifo, 1, 1)),
        Range::within(0.9, 1.1),
    ));
    Finding {
        title: "Waits of three hosts' packets at each of five switches, exponential arrivals"
            .into(),
        tables: vec![table],
        claims,
        notes: vec![
            "The figure is a drawing without values; the claims are those of its text.".to_owned(),
        ],
        ..Finding::default()
    }
}

/// A chain of links of 5 Mbit/s, over which one host sends at `kbit` kbit/s.
fn single(manager: &str, kbit: f64, options: &Options) -> Testbed {
    let switch = SwitchConfig {
        manager: manager.to_owned(),
        program: Some("fifo+".to_owned()),
        queue: SLOTS,
        ..SwitchConfig::default()
    };
    let gap = Variable::Fixed(f64::from(LEN + 14) * 8e6 / kbit);
    Testbed {
        rates: vec![LINK; 5],
        switch,
        late: 0,
        hosts: vec![Host { joins: 0, flows: 1, len: LEN, gap, ahead: 0 }],
        seconds: if options.quick { 90 } else { 180 },
        // The queues after the first traffic manager hold 1128 packets. At 5.5 Mbit/s they fill up
        // in 19 s.
        warmup: 45,
        middle: usize::MAX,
    }
}

/// The experiment `fifo-plus-alone`: one host on links of one rate.
pub(super) fn alone(options: &Options, progress: &Progress<'_>) -> Finding {
    let loads = [("4.5 Mbit/s", 4_500.0), ("5.5 Mbit/s", 5_500.0)];
    let managers = [("FIFO", "fifo".to_owned()), ("FIFO+, exact", format!("pifo limit {SLOTS}"))];
    let cases: Vec<(String, Testbed)> = loads
        .iter()
        .flat_map(|(load, kbit)| {
            managers.iter().map(move |(name, words)| {
                (format!("{name}, {load}"), single(words, *kbit, options))
            })
        })
        .collect();
    let beds: Vec<Testbed> = cases.iter().map(|(_, bed)| bed.clone()).collect();
    let runs = means(&beds, options, progress);
    let mut table = Table::new(
        "mean wait at each switch, ms",
        &["system", "host", "s1", "s2", "s3", "s4", "s5"],
    );
    for ((name, _), runs) in cases.iter().zip(&runs) {
        rows(&mut table, name, runs, &["h1"]);
    }
    // The longest of the mean waits at the switches from index `from` on, by seed.
    let longest = |case: usize, from: usize| {
        let of_run = |run: &Means| run[0][from..].iter().copied().fold(0.0, f64::max);
        Quantity::of_runs(&runs[case].iter().map(of_run).collect::<Vec<_>>())
    };
    let first = |case: usize| at(&runs[case], 0, 0);
    let claims = vec![
        Claim::new("below the rate of the links all queues stay almost empty", TEXT)
            .expect("longest mean wait under FIFO, ms", longest(0, 0), Range::below(PACKET_MS))
            .expect("longest mean wait under FIFO+, ms", longest(1, 0), Range::below(PACKET_MS)),
        Claim::new("above it the first switch is congested, and none after it", TEXT)
            .expect(
                "wait at s1 under FIFO+, ms",
                Quantity::of_runs(&first(3)),
                Range::above(50.0 * PACKET_MS),
            )
            .expect("longest mean wait after s1, ms", longest(3, 1), Range::below(PACKET_MS)),
        Claim::new("and FIFO+ performs as a FIFO: all packets have the same deadline", TEXT)
            .expect(
                "wait at s1, ratio of FIFO+ to FIFO",
                Quantity::ratio(&first(3), &first(2)),
                Range::within(0.999, 1.001),
            ),
    ];
    Finding {
        title: "One host sends over five links of 5 Mbit/s, below and above their rate".into(),
        tables: vec![table],
        claims,
        notes: vec![
            "FIFO+ sorts in an exact PIFO of 120 packets here. On eight strict queues of 15 \
             packets one deadline has one queue, so its waits would be shorter than those of a \
             FIFO of 120 for that reason alone."
                .to_owned(),
        ],
        ..Finding::default()
    }
}

const FIGURE: Provenance = published(PIFO_SWITCH, "figure 4.20 and its text");
const TEXT: Provenance = published(PIFO_SWITCH, "section 4.4.1");
const THEORY: Provenance =
    Provenance::Inferred { from: "the order of a FIFO, which ignores ranks" };
/// Rate of every link in kbit/s.
const LINK: u64 = 5_000;
/// Network-layer bytes of a packet.
const LEN: u32 = 1028;
/// Transmission time of a packet, ms.
const PACKET_MS: f64 = 1.6672;
