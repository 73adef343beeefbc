//! `s10`: four TCP transfers and one UDP flow over a dumbbell, with each queue in turn, beside our
//! own measurements of the same network with ns-3. No document has these values.
//!
//! # Model
//! Access links of 100 Mbit/s and 1 ms and a bottleneck of 10 Mbit/s and 18 ms give a round trip of
//! 40 ms. The queue under test holds 1000 packets and feeds a device of one packet. Every packet
//! has 2 bytes of framing. TCP uses segments of 1448 bytes, an initial window of 10, selective
//! acknowledgements, delayed acknowledgements (2 segments or 200 ms), a retransmission timeout of
//! at least 200 ms, and buffers of 4 MiB; flow *i* starts at 0.1·*i* s. UDP of 1 Mbit/s in payloads
//! of 1000 bytes starts at 0.05 s. A run takes 60 s and is measured from 5 s on.
//!
//! Every start is later by a random time of up to [`LATER`], which differs from seed to seed.
//! Otherwise, all runs of a queue that draws no random numbers would be equal.
//!
//! The rows are our measurements with ns-3, one run each. Where ns-3 differs from Linux and the
//! simulator has a setting for the difference, the experiment follows ns-3: CoDel's arithmetic
//! (`arith ns3`, which also drops from a queue of one packet), a count of acknowledgements instead
//! of bytes in NewReno (`count=acks`), and the thresholds of 5 and 15 packets that are the defaults
//! of ns-3's ARED.
//!
//! # What is compared
//! Two simulators with different implementations of TCP do not give exactly the same values. The
//! claims therefore allow a band: goodput within 3 %, mean delay in the queue within 25 %. The
//! spread of ns-3's results is not known, because each row is a single run.

use weir_core::Nanos;
use weir_core::config::QueueLimit;
use weir_core::device::{DeviceConfig, StageConfig};
use weir_rules::manager::Manager;

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Quantity, Range, Series, Style, Table, Unit,
};
use weir_sim::dumbbell::{Crossing, Dumbbell, Load, jain, mbit};
use weir_sim::random::Draws;
use weir_sim::tcp::{self, cc};

use super::experiment::{Experiment, Options, Progress};
use super::parallel::over_seeds;
use super::sources::NS3;

/// The experiment's entry in the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "s10",
    summary: "four TCP transfers and one UDP flow on a dumbbell, with each queue management in \
              turn",
    source: "no publication: measured by us with ns-3, traffic-control models, November 2026",
    run,
};

/// A row of our measurements with ns-3.
struct Row {
    name: &'static str,
    control: &'static str,
    queue: &'static str,
    ecn: bool,
    /// Goodput of the transfers, Mbit/s.
    goodput: f64,
    jain: f64,
    /// Mean, median and 99th percentile of the time in the queue, ms.
    delay: [f64; 3],
    drops: f64,
    marks: f64,
}

const fn row(
    name: &'static str,
    control: &'static str,
    queue: &'static str,
    statistics: [f64; 6],
) -> Row {
    let [goodput, jain, mean, p50, p99, drops] = statistics;
    Row {
        name,
        control,
        queue,
        ecn: false,
        goodput,
        jain,
        delay: [mean, p50, p99],
        drops,
        marks: 0.0,
    }
}

const RED: &str = "red min=20 max=60 w=0.002 max_p=0.1 gentle=on variant=ns3";

const ROWS: &[Row] = &[
    row("CUBIC, FIFO", "cubic", "none", [8.43, 0.95, 977.0, 1020.0, 1156.0, 719.0]),
    row("CUBIC, RED", "cubic", RED, [8.65, 0.998, 28.8, 28.6, 39.7, 564.0]),
    row("CUBIC, ARED", "cubic", "ared min=5 max=15", [8.66, 0.999, 11.9, 11.9, 22.2, 912.0]),
    row("CUBIC, CoDel", "cubic", "codel arith=ns3", [8.66, 1.0, 7.9, 7.9, 15.8, 776.0]),
    row("CUBIC, PIE", "cubic", "pie", [8.66, 0.998, 15.8, 15.3, 32.1, 1058.0]),
    row(
        "CUBIC, FQ-CoDel",
        "cubic",
        "fq_codel limit=1000 arith=ns3",
        [8.65, 1.0, 7.1, 5.5, 17.1, 651.0],
    ),
    Row {
        ecn: true,
        marks: 586.0,
        ..row(
            "CUBIC, FQ-CoDel, ECN",
            "cubic",
            "fq_codel limit=1000 arith=ns3",
            [8.65, 1.0, 7.8, 5.8, 21.8, 0.0],
        )
    },
    row(
        "NewReno, CoDel",
        "newreno count=acks",
        "codel arith=ns3",
        [8.48, 0.98, 6.7, 6.8, 15.9, 406.0],
    ),
];

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Goodput of the transfers, Mbit/s.
    pub goodput: f64,
    /// Jain's fairness index of the transfers.
    pub jain: f64,
    /// Mean, median and 99th percentile of the time in the queue, ms.
    pub delay: [f64; 3],
    /// Packets lost in the queue, over the whole run.
    pub drops: u64,
    /// Packets marked in the queue, over the whole run.
    pub marks: u64,
    /// Packets through the bottleneck, over the whole run.
    pub packets: u64,
    /// Number of events handled.
    pub events: u64,
}

/// Runs the dumbbell once, with the device of one packet or without a device. `seed` also moves the
/// starts of the flows, each by up to [`LATER`].
///
/// # Panics
/// The table has no congestion control `control`, or `seconds` does not exceed the warm-up of 5 s.
pub fn measure(
    control: &str,
    manager: &Manager,
    ecn: bool,
    device: bool,
    seed: u64,
    seconds: u64,
) -> Measured {
    assert!(seconds > 5, "{seconds} s do not exceed the warm-up of 5 s");
    let control = cc::parse(control).expect("a congestion control of the table");
    let one_packet = DeviceConfig {
        ring: StageConfig { limit: QueueLimit::Packets(1), ..StageConfig::default() },
        ..DeviceConfig::default()
    };
    let dumbbell = Dumbbell {
        seed,
        delay: Nanos::from_millis(18),
        manager: *manager,
        access: mbit(100),
        framing: 2,
        device: device.then_some(one_packet),
        ..Dumbbell::default()
    };
    let crossing =
        |group, load| Crossing { access_delay: Nanos::from_millis(1), reverse: false, group, load };
    let mut draws = Draws::new(seed, STARTS, 0);
    let mut later = |start: Nanos| Nanos(start.0 + draws.uniform(0.0, LATER.0 as f64) as u64);
    let mut flows: Vec<Crossing> = (0..TRANSFERS)
        .map(|i| {
            let config = tcp::Config {
                control,
                ack_delay: Nanos::from_millis(200),
                ecn: Some(ecn),
                start: later(Nanos::from_millis(100 * u64::from(i))),
                ..tcp::Config::default()
            };
            crossing(i, Load::Tcp(config))
        })
        .collect();
    let start = later(Nanos::from_millis(50));
    flows.push(crossing(
        TRANSFERS,
        Load::Udp { len: 1028, header: 28, bps: 1_028_000, start, stop: Nanos::MAX },
    ));
    let mut built = dumbbell.build(&flows);
    let warm_up = Nanos::from_secs(5);
    built.world.run(warm_up);
    let before = built
        .world
        .network()
        .stats(built.bottleneck)
        .map(|stats| stats.counters.clone())
        .unwrap_or_default();
    built.world.network_mut().zero();
    built.world.run(Nanos::from_secs(seconds));
    let network = built.world.network();
    let Some(stats) = network.stats(built.bottleneck) else { return Measured::default() };
    let span = seconds as f64 - 5.0;
    let shares: Vec<f64> = network.counts()[..TRANSFERS as usize]
        .iter()
        .map(|c| c.goodput_bytes as f64 * 8.0 / span / 1e6)
        .collect();
    let ms = |q: f64| stats.queue_ns.quantile(q) as f64 / 1e6;
    Measured {
        goodput: shares.iter().sum(),
        jain: jain(&shares),
        delay: [stats.queue_ns.mean() / 1e6, ms(0.5), ms(0.99)],
        drops: before.total_drops() + stats.counters.total_drops(),
        marks: before.reasons().total_marks() + stats.counters.reasons().total_marks(),
        packets: before.packets_out + stats.counters.packets_out,
        events: built.world.events(),
    }
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let rows: Vec<(&Row, Manager)> = ROWS
        .iter()
        .filter_map(|row| Manager::parse(row.queue).ok().map(|manager| (row, manager)))
        .collect();
    let seconds = if options.quick { 30 } else { 60 };
    let measured = over_seeds(options, progress, &rows, |(row, manager), seed| {
        measure(row.control, manager, row.ecn, true, seed, seconds)
    });
    let mut finding = Finding {
        title: format!("S10: 10 Mbit/s, 40 ms, 4 transfers and UDP, {seconds} s"),
        notes: vec!["ns-3 was run once for each row, so its own spread is not known.".to_owned()],
        ..Finding::default()
    };
    let mut table = Table::new(
        "ns-3 (measured by us), Weir, difference",
        &[
            "queue",
            "goodput Mbit/s, ns-3",
            "Weir",
            "difference",
            "mean delay ms, ns-3",
            "Weir",
            "difference",
            "p50 ms, ns-3",
            "Weir",
            "p99 ms, ns-3",
            "Weir",
            "Jain, ns-3",
            "Weir",
            "drops (marks), ns-3",
            "Weir",
        ],
    );
    let mut means = Vec::new();
    for ((row, _), runs) in rows.iter().zip(&measured) {
        let quantity_of = |value: &dyn Fn(&Measured) -> f64| {
            Quantity::of_runs(&runs.iter().map(value).collect::<Vec<_>>())
        };
        let (goodput, delay) = (quantity_of(&|m| m.goodput), quantity_of(&|m| m.delay[0]));
        let mut cells = vec![Cell::from(row.name)];
        cells.extend(Cell::compared(row.goodput, NS3, &goodput, 2));
        cells.extend(Cell::compared(row.delay[0], NS3, &delay, 1));
        for i in [1, 2] {
            cells.push(Cell::reference(row.delay[i], 1, NS3));
            cells.push(Cell::quantity(&quantity_of(&|m| m.delay[i]), 1));
        }
        cells.push(Cell::reference(row.jain, 3, NS3));
        cells.push(Cell::quantity(&quantity_of(&|m| m.jain), 3));
        let (drops, marks) = (quantity_of(&|m| m.drops as f64), quantity_of(&|m| m.marks as f64));
        cells.push(Cell::quoted(counts(row.drops, row.marks), NS3));
        cells.push(Cell::from(counts(
            drops.mean().unwrap_or(f64::NAN),
            marks.mean().unwrap_or(f64::NAN),
        )));
        table.row(cells);
        means.push(delay.mean().zip(goodput.mean()));
        let words = format!("{}: goodput within 3 %, mean delay within 25 %", row.name);
        let (goodput, delay) = (goodput.difference(row.goodput), delay.difference(row.delay[0]));
        finding.claims.push(
            Claim::new(words, NS3)
                .expect("goodput, difference in %", goodput, Range::up_to(3.0))
                .expect("delay, difference in %", delay, Range::up_to(25.0)),
        );
    }
    finding.tables.push(table);
    finding.plots.push(plot(&rows, &means));
    finding
}

/// The plot of the means, `(delay in ms, goodput in Mbit/s)` for each row.
fn plot(rows: &[(&Row, Manager)], means: &[Option<(f64, f64)>]) -> Plot {
    let in_ns3 = rows.iter().map(|(row, _)| [row.delay[0] * 1e6, row.goodput * 1e6]).collect();
    let ours =
        means.iter().flatten().map(|(delay, goodput)| [delay * 1e6, goodput * 1e6]).collect();
    let dots = |name: &str, points, provenance| Series {
        name: name.to_owned(),
        style: Style::Dots,
        points,
        provenance,
    };
    Plot {
        name: "band".to_owned(),
        title: "Goodput against mean delay in the queue".to_owned(),
        description: "One point for each queue: ns-3, and the mean over the seeds of Weir"
            .to_owned(),
        x: Axis { log: true, ..Axis::new("mean delay in the queue", Unit::Nanoseconds) },
        y: Axis::new("goodput", Unit::BitsPerSecond),
        series: vec![dots("ns-3", in_ns3, Some(NS3)), dots("Weir", ours, None)],
    }
}

fn counts(drops: f64, marks: f64) -> String {
    if marks == 0.0 { format!("{drops:.0}") } else { format!("{drops:.0} ({marks:.0})") }
}

const TRANSFERS: u32 = 4;
/// The random stream of the flows' starts.
const STARTS: u64 = 1 << 32;
/// The longest time by which a flow starts later than in ns-3: a quarter of the round trip.
const LATER: Nanos = Nanos::from_millis(10);
