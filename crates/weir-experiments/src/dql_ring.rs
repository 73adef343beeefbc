//! `dql-ring`: the effect of the transmission ring after a queue on latency and throughput, with
//! and without dynamic queue limits.
//!
//! # Model
//! Sender → 10 Gbit/s → router → 1 Gbit/s, 100 us → receiver; 2 bytes of framing. The router's
//! queue feeds a ring of a given number of packets, with or without dynamic queue limits. There are
//! two loads:
//! - *overload*: UDP of 1.2 Gbit/s (1502 bytes on the wire), and a probe of 64 payload bytes every
//!   997 us, which the queue prefers;
//! - *transfer*: one TCP transfer with a window that keeps the queue below its capacity, and the
//!   same probe.
//!
//! A ring reduces throughput only if it can become empty. Half of the runs therefore have a driver
//! that needs processor time for each packet, and a device that reports sent packets late and in
//! batches, as network cards do.
//!
//! # Reference
//! P. Imputato, S. Avallone, "An analysis of the impact of network device buffers on packet
//! schedulers through experiments and simulations", Simulation Modelling Practice and Theory 80,
//! 2018: six effects, each with its own claim, or one for each queue concerned. The publication has
//! no values for this network. The first table compares the results with our own measurements of
//! the same network in ns-3.

use super::experiment::{Experiment, Options, Progress};
use super::parallel::counted;
use super::ring_bed::{Bed, LoadKind, Measured, Queue};
use super::sources::{NS3, RINGS as DOCUMENT, published};
use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};

/// The experiment's entry in the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dql-ring",
    summary: "latency and throughput by size of the transmission ring, with and without dynamic \
              queue limits",
    source: "effects: Imputato and Avallone, Simulation Modelling Practice and Theory 80 (2018); \
             values: measured by us with ns-3",
    run,
};

/// The configuration of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    queue: Queue,
    load: LoadKind,
    ring: u32,
    dql: bool,
    /// Whether the device reports in batches and the driver needs processor time.
    real_driver: bool,
}

fn measure(case: &Case, seconds: u64) -> Measured {
    let bed = Bed::new(case.queue, case.load, case.ring, case.dql);
    if case.real_driver { bed.with_driver() } else { bed }.run(seconds, 1)
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let seconds = if options.quick { 2 } else { 8 };
    let mut cases = Vec::new();
    for (queue, load) in LOADS {
        for dql in [false, true] {
            for ring in RINGS {
                for real_driver in [false, true] {
                    cases.push(Case { queue, load, ring, dql, real_driver });
                }
            }
        }
    }
    let measured = counted(options, progress, &cases, |case| measure(case, seconds));
    let find = |queue, ring, dql, real_driver| {
        let wanted = |case: &Case| {
            case.queue == queue
                && case.ring == ring
                && case.dql == dql
                && case.real_driver == real_driver
        };
        cases.iter().position(wanted).map_or_else(Measured::default, |index| measured[index])
    };
    let mut finding = Finding {
        title: "A probe behind a transmission ring: 1 Gbit/s, 100 us".to_owned(),
        tables: vec![compared(&find), all(&cases, &measured)],
        notes: vec!["No random draw: one run of each case is exact.".to_owned()],
        ..Finding::default()
    };
    claims(&mut finding, &find);
    for (real_driver, name) in [(false, "ideal"), (true, "driver")] {
        finding.plots.push(plot(name, real_driver, &find));
    }
    finding
}

/// Returns the results of a case, given its queue, ring size, `dql` and `real_driver`.
type Find<'a> = dyn Fn(Queue, u32, bool, bool) -> Measured + 'a;

/// The table that compares FQ-CoDel under overload with ns-3.
fn compared(find: &Find<'_>) -> Table {
    let columns = [
        "ring",
        "DQL",
        "probe mean us, ns-3",
        "measured",
        "difference",
        "p99 us, ns-3",
        "measured",
        "goodput Mbit/s, ns-3",
        "measured",
        "difference",
        "bytes in device, ns-3",
        "measured",
    ];
    let mut table = Table::new("FQ-CoDel, overload, beside ns-3 (measured by us)", &columns);
    let reference = |value: Option<f64>, decimals| {
        value.map_or(Cell::Empty, |value| Cell::reference(value, decimals, NS3))
    };
    for (ring, dql, mean, p99, goodput, bytes) in IN_NS3 {
        let m = find(Queue::FqCodel, ring, dql, false);
        let mut row =
            vec![Cell::from(ring.to_string()), Cell::from(if dql { "on" } else { "off" })];
        row.extend(Cell::compared(mean, NS3, &Quantity::exact(m.probe[0]), 1));
        row.extend([reference(p99, 0), Cell::number(m.probe[2], 0)]);
        row.extend([reference(goodput, 1), Cell::number(m.goodput, 1)]);
        row.push(goodput.map_or(Cell::Empty, |goodput| Cell::difference(goodput, m.goodput)));
        row.extend([reference(bytes, 0), Cell::number(m.device_bytes, 0)]);
        table.row(row);
    }
    table
}

fn all(cases: &[Case], measured: &[Measured]) -> Table {
    let columns = [
        "queue",
        "load",
        "driver",
        "DQL",
        "ring",
        "probe mean us",
        "p50",
        "p99",
        "goodput Mbit/s",
        "bytes in device",
    ];
    let mut table = Table::new("All runs", &columns);
    for (case, m) in cases.iter().zip(measured) {
        let words = |word: &str| Cell::from(word);
        let mut row = vec![
            words(name(case.queue)),
            words(if case.load == LoadKind::Transfer { "transfer" } else { "overload" }),
            words(if case.real_driver { "2 us, reports of 32" } else { "ideal" }),
            words(if case.dql { "on" } else { "off" }),
            Cell::from(case.ring.to_string()),
        ];
        row.extend(m.probe.map(|us| Cell::number(us, 1)));
        row.extend([Cell::number(m.goodput, 1), Cell::number(m.device_bytes, 0)]);
        table.row(row);
    }
    table
}

/// Adds the claims about ns-3 and the claims about the six effects.
fn claims(finding: &mut Finding, find: &Find<'_>) {
    let mut add = |claim: Claim| finding.claims.push(claim);
    let probe = |queue, ring, dql, driver| find(queue, ring, dql, driver).probe[0];
    for (ring, dql, mean, ..) in IN_NS3 {
        let state = if dql { "on" } else { "off" };
        let words =
            format!("ring of {ring}, DQL {state}: probe's mean delay within 2 % of {mean} us");
        let far = Quantity::exact(probe(Queue::FqCodel, ring, dql, false)).difference(mean);
        add(Claim::new(words, NS3).expect("difference in %", far, Range::up_to(2.0)));
    }
    let (least, most) = RINGS
        .iter()
        .filter(|&&ring| ring >= 16)
        .map(|&ring| probe(Queue::Fifo, ring, false, false))
        .fold((f64::MAX, 0f64), |(least, most), mean| (least.min(mean), most.max(mean)));
    let words = "one FIFO for all packets, never full: the ring's size does not matter";
    add(Claim::new(words, EFFECTS).expect(
        "ratio of the longest to the shortest mean delay",
        Quantity::exact(most / least),
        Range::within(1.0, 1.05),
    ));
    for queue in [Queue::Prio, Queue::FqCodel, Queue::CoDel] {
        add(grows(queue, &RINGS.map(|ring| probe(queue, ring, false, false))));
    }
    let [small, large] =
        [RINGS[0], 256].map(|ring| find(Queue::FqCodel, ring, false, true).goodput);
    add(Claim::new("too small a ring loses throughput", EFFECTS).expect(
        format!("goodput, ratio of the ring of {} to that of 256", RINGS[0]),
        Quantity::exact(small / large),
        Range::below(0.95),
    ));
    for queue in [Queue::Prio, Queue::FqCodel] {
        let [off, on] = [false, true].map(|dql| find(queue, 256, dql, true));
        add(least_ring(queue, &off, &on));
        let means: Vec<f64> = RINGS
            .iter()
            .filter(|&&ring| ring >= 64)
            .map(|&ring| probe(queue, ring, true, true))
            .collect();
        add(low_latency(queue, &off, &on, &means));
    }
    let [off, on] = [false, true].map(|dql| probe(Queue::Fifo, 256, dql, false));
    add(Claim::new("one FIFO for all packets, never full: DQL changes nothing", EFFECTS).expect(
        "mean delay, ratio with DQL to without",
        Quantity::exact(on / off),
        Range::within(0.95, 1.05),
    ));
}

/// The claim that latency grows with the ring, from the mean delays for each ring.
fn grows(queue: Queue, means: &[f64]) -> Claim {
    let least = means.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::MAX, f64::min);
    let last = means.len() - 1;
    Claim::new(format!("{}: latency grows with the ring", name(queue)), EFFECTS)
        .expect(
            "smallest ratio of the delay to that of the next smaller ring",
            Quantity::exact(least),
            Range::above(0.98),
        )
        .expect(
            format!("delay, ratio of the ring of {} to that of {}", RINGS[last], RINGS[0]),
            Quantity::exact(means[last] / means[0]),
            Range::above(1.5),
        )
}

fn least_ring(queue: Queue, off: &Measured, on: &Measured) -> Claim {
    let words = "DQL keeps the ring near the smallest size that keeps the wire busy";
    Claim::new(format!("{}: {words}", name(queue)), EFFECTS)
        .expect(
            "goodput, ratio with DQL to without",
            Quantity::exact(on.goodput / off.goodput),
            Range::above(0.99),
        )
        .expect(
            "bytes in the device, ratio with DQL to without",
            Quantity::exact(on.device_bytes / off.device_bytes),
            Range::below(1.0 / 3.0),
        )
}

fn low_latency(queue: Queue, off: &Measured, on: &Measured, means: &[f64]) -> Claim {
    let spread = |m: &Measured| m.probe[2] - m.probe[1];
    let far = means.iter().map(|mean| (mean / means[0] - 1.0).abs()).fold(0.0, f64::max);
    let words = "with DQL, latency is low and stable, and the same for rings of 64 and more";
    Claim::new(format!("{}: {words}", name(queue)), EFFECTS)
        .expect(
            "mean delay, ratio with DQL to without",
            Quantity::exact(on.probe[0] / off.probe[0]),
            Range::below(0.5),
        )
        .expect(
            "p99 minus median, ratio with DQL to without",
            Quantity::exact(spread(on) / spread(off)),
            Range::below(1.0),
        )
        .expect(
            "largest relative difference from the ring of 64",
            Quantity::exact(far),
            Range::below(0.05),
        )
}

fn plot(part: &str, real_driver: bool, find: &Find<'_>) -> Plot {
    let mut series = Vec::new();
    for (queue, _) in LOADS {
        for dql in [false, true] {
            let points = RINGS
                .iter()
                .map(|&ring| [f64::from(ring), find(queue, ring, dql, real_driver).probe[0] * 1e3])
                .collect();
            let style = if dql { Style::Dashes } else { Style::Line };
            series.push(Series {
                name: format!("{}{}", name(queue), if dql { ", DQL" } else { "" }),
                style,
                points,
                ..Series::default()
            });
        }
    }
    let what =
        if real_driver { "2 us a packet, reports of 32" } else { "a driver that takes no time" };
    Plot {
        name: part.to_owned(),
        title: format!("Delay of a probe against the ring's size: {what}"),
        description: "A curve for each queue, with and without dynamic queue limits".to_owned(),
        x: Axis { log: true, ..Axis::new("ring size, packets", Unit::Count) },
        y: Axis { log: true, ..Axis::new("mean one-way delay", Unit::Nanoseconds) },
        series,
    }
}

fn name(queue: Queue) -> &'static str {
    match queue {
        Queue::Fifo => "FIFO",
        Queue::Prio => "prio",
        Queue::CoDel => "CoDel",
        Queue::FqCodel => "FQ-CoDel",
    }
}

/// Ring size, DQL, mean and 99th percentile of the probe's delay in us, goodput in Mbit/s, bytes in
/// the device.
type InNs3 = (u32, bool, f64, Option<f64>, Option<f64>, Option<f64>);
/// Our measurements with ns-3.
const IN_NS3: [InNs3; 3] = [
    (256, false, 3150.0, None, Some(979.3), Some(380_000.0)),
    (256, true, 144.0, Some(150.0), Some(979.3), Some(4455.0)),
    (64, false, 877.0, None, Some(979.3), None),
];
/// The effects, which the publication states for the network of its authors.
const EFFECTS: Provenance = published(DOCUMENT, "its conclusions, stated without these values");
/// Queues and their loads. A queue that treats all packets alike is measured below its capacity.
const LOADS: [(Queue, LoadKind); 4] = [
    (Queue::Fifo, LoadKind::Transfer),
    (Queue::Prio, OVERLOAD),
    (Queue::CoDel, LoadKind::Transfer),
    (Queue::FqCodel, OVERLOAD),
];
/// UDP in packets of 1500 bytes, which with the framing have 1502 bytes on the wire.
const OVERLOAD: LoadKind = LoadKind::Overload(1500);
/// Ring sizes in packets.
const RINGS: [u32; 7] = [4, 8, 16, 64, 128, 256, 512];
