//! Factors of the delay behind a transmission ring besides the ring's size: the size of packets,
//! the load of the processor, a service time that varies, and transfers that respond to the queue.
//!
//! The bed is that of `dql-ring`: a probe behind a ring of 256 packets at 1 Gbit/s. In an overload
//! of UDP, strict priority prefers the probe; beside transfers, the queue is CoDel or FQ-CoDel. The
//! load of a processor appears in two forms: the driver needs longer for a packet, or it handles
//! the device's reports later.

use std::sync::Arc;

use weir_core::link::Profile;
use weir_core::{Nanos, Probability};

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

use super::experiment::{Experiment, Options, Progress};
use super::parallel::{counted, over_seeds};
use super::ring_bed::{Bed, LoadKind, Measured, Queue};
use super::sources::{RINGS as DOCUMENT, published};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "ring-factors",
    summary: "delay behind a transmission ring and its variation, depending on packet size and \
              processor load",
    source: "Imputato and Avallone, Simulation Modelling Practice and Theory 80 (2018)",
    run,
};

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let seconds = if options.quick { 1 } else { 4 };
    let exact = |beds: &[Bed]| counted(options, progress, beds, |bed| bed.run(seconds, 1));
    let random =
        |beds: &[Bed]| over_seeds(options, progress, beds, |bed, seed| bed.run(seconds, seed));
    let sizes = exact(&pairs(SIZES.iter().map(|&len| overload(len))));
    let loads = exact(&pairs(SERVICES.iter().map(|&us| busy(us))));
    let late = exact(&pairs(REPORTS.iter().map(|&reports| late(reports))));
    let varying = random(&pairs(SERVICE_LAWS.iter().map(varying)));
    let transfers = random(&pairs(QUEUES.iter().map(|&queue| transfers(queue))));
    let mut claims = Vec::new();
    claims.extend(size_claims(&sizes));
    claims.extend(load_claims(&loads, &late));
    claims.extend(varying_claims(&varying));
    claims.extend(transfer_claims(&transfers));
    Finding {
        title: "A probe behind a ring of 256 packets: 1 Gbit/s, 100 us".into(),
        tables: vec![
            exact_table(
                "delay by the size of the bulk's packets",
                "bytes of a packet",
                &SIZES.map(|len| len.to_string()),
                &sizes,
            ),
            exact_table(
                "delay by the processor time of a packet; the wire takes 12 us",
                "us of processor time",
                &SERVICES.map(|us| us.to_string()),
                &loads,
            ),
            exact_table(
                "delay by the time of the device's reports",
                "reports after",
                &REPORTS.map(report_name),
                &late,
            ),
            random_table(
                "delay by the law of an additional time in the device, 3 us on average",
                "additional time",
                &SERVICE_LAWS.map(|law| law.0.to_owned()),
                &varying,
            ),
            random_table(
                "delay with four CUBIC transfers instead of UDP",
                "queue",
                &QUEUES.map(|queue| queue_name(queue).to_owned()),
                &transfers,
            ),
        ],
        claims,
        plots: vec![
            plot(
                "size",
                "Delay of a probe against the size of packets",
                "network-layer bytes of a packet",
                &SIZES.map(f64::from),
                &sizes,
            ),
            plot(
                "processor",
                "Delay of a probe against the processor time of a packet",
                "processor time of a packet, us (the wire takes 12 us)",
                &SERVICES.map(|us| us as f64),
                &loads,
            ),
        ],
        notes: vec![
            "The publication states the effects, but not these values. In the first three tables \
             nothing is random, and one run is exact."
                .to_owned(),
        ],
        ..Finding::default()
    }
}

/// Each bed without and with dynamic queue limits.
fn pairs(beds: impl Iterator<Item = Bed>) -> Vec<Bed> {
    beds.flat_map(|bed| [false, true].map(|dql| Bed { dql, ..bed.clone() })).collect()
}

/// An overload in packets of `len` network-layer bytes.
fn overload(len: u32) -> Bed {
    Bed::new(Queue::Prio, LoadKind::Overload(len), RING, false).with_driver()
}

/// The overload with a driver that needs `us` microseconds for each packet.
fn busy(us: u64) -> Bed {
    Bed { service: Nanos::from_micros(us), ..overload(1500) }
}

/// The overload with a device that reports after this many packets or microseconds.
fn late(reports: (u32, u64)) -> Bed {
    Bed { reports: (reports.0, Nanos::from_micros(reports.1)), ..overload(1500) }
}

/// A law of the additional time of a packet: its name, and points of its cumulative curve.
type Law = (&'static str, &'static [(f64, u64)]);

/// The overload with a device that needs an additional time for each packet.
fn varying(law: &Law) -> Bed {
    let points = law.1.iter().filter_map(|&(p, ns)| Some((Probability::new(p)?, Nanos(ns))));
    let name = law.0.to_owned();
    let profile = Profile::new(name, points.collect(), SAMPLES, Probability::ONE).ok();
    Bed { profile: profile.map(Arc::new), ..overload(1500) }
}

/// Transfers that respond to the queue, instead of the overload.
fn transfers(queue: Queue) -> Bed {
    Bed::new(queue, LoadKind::Transfers(TRANSFERS), RING, false).with_driver()
}

/// A table with two rows for each case: without and with dynamic queue limits.
fn exact_table(title: &str, what: &str, names: &[String], measured: &[Measured]) -> Table {
    let runs: Vec<Vec<Measured>> = measured.iter().map(|&m| vec![m]).collect();
    table_of(title, what, names, &runs, |values| Quantity::exact(values[0]))
}

/// The same table from several runs of each case, with intervals.
fn random_table(title: &str, what: &str, names: &[String], runs: &[Vec<Measured>]) -> Table {
    table_of(title, what, names, runs, Quantity::of_runs)
}

fn table_of(
    title: &str,
    what: &str,
    names: &[String],
    runs: &[Vec<Measured>],
    quantity: fn(&[f64]) -> Quantity,
) -> Table {
    let columns = [
        what,
        "DQL",
        "probe mean us",
        "p50",
        "p99",
        "standard deviation",
        "goodput Mbit/s",
        "bytes in device",
    ];
    let mut table = Table::new(title, &columns);
    for (name, pair) in names.iter().zip(runs.chunks(2)) {
        for (runs, state) in pair.iter().zip(["off", "on"]) {
            let of = |value: fn(&Measured) -> f64, decimals| {
                Cell::quantity(&quantity(&values(runs, value)), decimals)
            };
            table.row(vec![
                Cell::from(name.as_str()),
                state.into(),
                of(mean, 1),
                of(|m| m.probe[1], 1),
                of(|m| m.probe[2], 1),
                of(deviation, 1),
                of(|m| m.goodput, 1),
                of(|m| m.device_bytes, 0),
            ]);
        }
    }
    table
}

fn values(runs: &[Measured], value: fn(&Measured) -> f64) -> Vec<f64> {
    runs.iter().map(value).collect()
}

fn mean(measured: &Measured) -> f64 {
    measured.probe[0]
}

fn deviation(measured: &Measured) -> f64 {
    measured.deviation
}

/// The mean delay of a probe without propagation, us.
fn in_ring(measured: &Measured) -> f64 {
    measured.probe[0] - PROPAGATION_US
}

/// The quotient of the longest and the shortest mean delay, without or with dynamic queue limits.
fn spread(measured: &[Measured], dql: bool) -> f64 {
    let means = || measured.iter().skip(usize::from(dql)).step_by(2).map(mean);
    means().fold(0.0, f64::max) / means().fold(f64::MAX, f64::min)
}

fn size_claims(sizes: &[Measured]) -> [Claim; 3] {
    let last = sizes.len() - 2;
    let grown = in_ring(&sizes[last]) / in_ring(&sizes[0]);
    let sizes_grown = f64::from(SIZES[SIZES.len() - 1] + 2) / f64::from(SIZES[0] + 2);
    let far = Quantity::exact(grown).difference(sizes_grown);
    [
        Claim::new("for a given ring the delay depends on the size of packets", FACTORS).expect(
            "ratio of the longest to the shortest mean delay",
            Quantity::exact(spread(sizes, false)),
            Range::above(1.5),
        ),
        Claim::new("without DQL the delay is proportional to the size of packets", RING_OF_PACKETS)
            .expect("growth of the delay, difference in %", far, Range::up_to(10.0)),
        Claim::new(
            "DQL, which counts bytes, makes the delay almost independent of the size of packets",
            BYTES,
        )
        .expect(
            "ratio of the longest to the shortest mean delay",
            Quantity::exact(spread(sizes, true)),
            Range::below(1.5),
        ),
    ]
}

fn load_claims(loads: &[Measured], late: &[Measured]) -> [Claim; 4] {
    // The beds with 10 us and with 14 us per packet, both without dynamic queue limits.
    let [slower, slowest] = [3, 1].map(|back| &loads[loads.len() - 2 * back]);
    let on = Quantity::exact(spread(late, true));
    [
        Claim::new("for a given ring the delay depends on the load of the processor", FACTORS)
            .expect(
                "ratio of the longest to the shortest mean delay",
                Quantity::exact(spread(loads, false)),
                Range::above(1.5),
            ),
        Claim::new(
            "a processor that is slower than the wire leaves the ring empty, so the queue decides \
             the order of packets",
            Provenance::Inferred { from: "a packet then waits for the processor, not in the ring" },
        )
        .expect(
            "delay in the ring, ratio with 14 us per packet to 10 us",
            Quantity::exact(in_ring(slowest) / in_ring(slower)),
            Range::below(0.5),
        ),
        Claim::new(
            "without DQL late reports shorten the delay, because places in the ring stay unused",
            LATE,
        )
        .expect(
            "mean delay, ratio with the latest reports to the earliest",
            Quantity::exact(late[late.len() - 2].probe[0] / late[0].probe[0]),
            Range::below(1.0),
        ),
        Claim::new("DQL lets the ring grow as reports come later, to keep the wire busy", STARVES)
            .expect("ratio of the longest to the shortest mean delay", on, Range::above(1.2))
            .expect(
                "goodput, ratio with the latest reports to the earliest",
                Quantity::exact(late[late.len() - 1].goodput / late[1].goodput),
                Range::above(0.98),
            ),
    ]
}

fn varying_claims(runs: &[Vec<Measured>]) -> [Claim; 2] {
    let name = |law: usize| SERVICE_LAWS[law].0;
    let ratio = |value: fn(&Measured) -> f64, over: usize, under: usize| {
        Quantity::ratio(&values(&runs[over], value), &values(&runs[under], value))
    };
    let mut varies = Claim::new(
        "a service time that varies makes the delay vary, although its mean is the same",
        Provenance::Inferred { from: "a probe waits for the sum of the times in front of it" },
    );
    let mut calmer =
        Claim::new("with DQL the delay varies less, whatever the service time", STABLE);
    for law in 1..SERVICE_LAWS.len() {
        let what = format!("ratio of {} to {}: standard deviation", name(law), name(law - 1));
        varies = varies.expect(what, ratio(deviation, 2 * law, 2 * (law - 1)), Range::above(1.0));
        let what = format!("{}: standard deviation, ratio with DQL to without", name(law));
        calmer = calmer.expect(what, ratio(deviation, 2 * law + 1, 2 * law), Range::below(1.0));
    }
    [varies, calmer]
}

fn transfer_claims(runs: &[Vec<Measured>]) -> [Claim; 2] {
    let mut large = Claim::new("without DQL the latency may vary far more than necessary", FACTORS);
    let mut stable = Claim::new("with DQL the latency is low and stable", STABLE);
    for (queue, pair) in QUEUES.into_iter().zip(runs.chunks(2)) {
        let ratio = |value: fn(&Measured) -> f64, over: usize, under: usize| {
            Quantity::ratio(&values(&pair[over], value), &values(&pair[under], value))
        };
        let name = queue_name(queue);
        let apart = |m: &Measured| m.probe[2] - m.probe[1];
        large = large.expect(
            format!("{name}: p99 minus median, ratio without DQL to with"),
            ratio(apart, 0, 1),
            Range::above(1.0),
        );
        stable = stable
            .expect(
                format!("{name}: mean, ratio with DQL to without"),
                ratio(mean, 1, 0),
                Range::below(1.0),
            )
            .expect(
                format!("{name}: standard deviation, ratio with DQL to without"),
                ratio(deviation, 1, 0),
                Range::below(1.0),
            );
    }
    [large, stable]
}

fn plot(name: &str, title: &str, x: &str, at: &[f64], measured: &[Measured]) -> Plot {
    let curve = |name: &str, style, dql: usize| Series {
        name: name.to_owned(),
        style,
        points: at
            .iter()
            .zip(measured.chunks(2))
            .map(|(&x, pair)| [x, pair[dql].probe[0] * 1e3])
            .collect(),
        ..Series::default()
    };
    Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        description: "Mean one-way delay without and with dynamic queue limits.".to_owned(),
        x: Axis::new(x, Unit::Count),
        y: Axis { log: true, ..Axis::new("mean one-way delay", Unit::Nanoseconds) },
        series: vec![curve("DQL off", Style::Line, 0), curve("DQL on", Style::Dashes, 1)],
    }
}

fn report_name((frames, us): (u32, u64)) -> String {
    format!("{frames} packets or {us} us")
}

fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::CoDel => "CoDel",
        Queue::FqCodel => "FQ-CoDel",
        Queue::Prio => "prio",
        Queue::Fifo => "FIFO",
    }
}

const FACTORS: Provenance = published(DOCUMENT, "introduction, stated without values");
const STABLE: Provenance =
    published(DOCUMENT, "introduction: latency with DQL is rather stable, stated without values");
const RING_OF_PACKETS: Provenance = Provenance::Inferred { from: "a full ring of 256 packets" };
const BYTES: Provenance = published(DOCUMENT, "section 3: the limit is computed in bytes");
const LATE: Provenance =
    Provenance::Inferred { from: "a sent packet keeps its place in the ring until it is reported" };
const STARVES: Provenance =
    published(DOCUMENT, "section 3: DQL keeps the amount near the minimum without starvation");
/// Packets in the ring: the default of the publication's network card.
const RING: u32 = 256;
/// Network-layer bytes of the bulk's packets.
const SIZES: [u32; 5] = [300, 600, 900, 1200, 1500];
/// Processor times of a packet, us. The wire needs 12 us for a packet.
const SERVICES: [u64; 6] = [0, 2, 5, 10, 11, 14];
/// The device reports after this many packets, at the latest after this many us.
const REPORTS: [(u32, u64); 3] = [(32, 100), (64, 500), (256, 1000)];
/// Laws of the device's additional time, all with a mean of 3 us.
const SERVICE_LAWS: [Law; 3] = [
    ("always 3 us", &[(0.0, 3_000), (1.0, 3_000)]),
    ("0 to 6 us", &[(0.0, 0), (1.0, 6_000)]),
    ("60 us for one in 20", &[(0.0, 0), (0.95, 0), (0.95, 60_000), (1.0, 60_000)]),
];
/// Number of samples in a profile of the additional time.
const SAMPLES: usize = 1000;
const QUEUES: [Queue; 2] = [Queue::CoDel, Queue::FqCodel];
const TRANSFERS: u32 = 4;
/// Propagation delay of both links, us.
const PROPAGATION_US: f64 = 101.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_depends_on_size_and_load_unless_dql_limits_the_bytes() {
        let measure =
            |beds: Vec<Bed>| -> Vec<Measured> { beds.iter().map(|bed| bed.run(1, 1)).collect() };
        let sizes = measure(pairs([300, 1500].into_iter().map(overload)));
        assert!(spread(&sizes, false) > 3.0 && spread(&sizes, true) < 1.5, "{sizes:?}");
        let busy = busy(14).run(1, 1);
        assert!(in_ring(&busy) < in_ring(&sizes[2]) / 2.0, "{busy:?}");
    }

    #[test]
    fn laws_of_service_have_one_mean() {
        for law in &SERVICE_LAWS {
            assert!(varying(law).profile.is_some(), "{}", law.0);
            let area: f64 = law
                .1
                .windows(2)
                .map(|ends| (ends[1].0 - ends[0].0) * (ends[0].1 + ends[1].1) as f64 / 2.0)
                .sum();
            assert!((area - 3_000.0).abs() < 1.0, "{}: {area}", law.0);
        }
    }
}
