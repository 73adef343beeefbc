//! How closely strict-priority queues approximate a PIFO: inversions under uniform ranks, with
//! adaptive and with fixed bounds.
//!
//! The queue runs without a network. Packets arrive as a Poisson process and are served at equal
//! intervals. Each has a rank from 0 to 99, all equally likely. A packet that is served while a
//! packet of lower rank is queued is *inverted*, and each such pair is an inversion. Results are
//! relative to a FIFO of the same size.

use weir_core::Nanos;
use weir_core::packet::{LabelThenStart, Packet, Pool};
use weir_core::sched::inversions::Inversions;
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Visitor};

use weir_report::finding::{Axis, Cell, Claim, Finding, Plot, Series, Style, Table, Unit};
use weir_sim::random::Draws;

use super::experiment::{Experiment, Options};
use super::parallel::parallel;

pub(super) const SP_PIFO: Experiment = Experiment {
    name: "sp-pifo",
    summary: "packets served out of order by SP-PIFO and by fixed bounds, beside a FIFO, under uniform ranks",
    source: "Alcoz, Dietmüller and Vanbever, NSDI 2020",
    run,
};

/// Schedulers, and their published inversions relative to those of a FIFO.
const SYSTEMS: [(&str, &str, Option<f64>); 6] = [
    ("FIFO of 80", "fifo", Some(1.0)),
    ("SP-PIFO, 8 queues of 10", "sp-pifo queues 8 depth 10 rank edf", Some(0.303)),
    ("fixed bounds, 8 queues of 10", "strict-n queues 8 depth 10 rank edf width 13", Some(0.236)),
    ("SP-PIFO, 32 queues of 2 or 3", "sp-pifo queues 32 depth 3 rank edf", None),
    ("AIFO of 80", "aifo limit 80 rank edf", None),
    ("exact PIFO of 80", "pifo limit 80 rank edf", Some(0.0)),
];

/// A run: the system, the load and the seed.
#[derive(Clone, Copy)]
struct Job {
    system: usize,
    load: f64,
    seed: u64,
}

/// The statistics of a queue.
#[derive(Clone, Copy, Default)]
struct Count {
    served: u64,
    inverted: u64,
    inversions: u64,
    unpifoness: u64,
}

struct Drive {
    job: Job,
    packets: u64,
    fifo: bool,
}

impl Visitor for Drive {
    type Output = Count;

    fn visit<S: Scheduler + std::fmt::Debug>(self, mut scheduler: S) -> Count {
        let mut draws = Draws::new(self.job.seed, 1, 0);
        let mut pool = Pool::new(1 << 16);
        // Each packet is a separate flow, so that only ranks order the packets.
        let slots: Vec<FlowSlot> =
            (0..FLOWS).map(|_| scheduler.add_flow(Nanos::ZERO, &FlowSpec::default())).collect();
        let mut inversions = Inversions::default();
        let (mut count, mut arrival, mut service) = (Count::default(), 0.0, 0.0);
        for number in 0..self.packets {
            arrival += draws.exponential(1.0 / self.job.load);
            while service <= arrival {
                if let Some(id) = scheduler.dequeue(Nanos(service as u64), &mut pool) {
                    inversions.serve(pool.get(id).label_then_start.label());
                    pool.remove(id);
                    count.served += 1;
                    service += 1.0;
                } else {
                    service = arrival;
                    break;
                }
            }
            let label = u64::from(draws.below(RANKS)) + 1;
            if self.fifo && scheduler.len() >= 80 {
                continue;
            }
            let flow = (number % FLOWS) as u32;
            let label_then_start = LabelThenStart::waiting(label);
            let packet = Packet { len: 1500, label_then_start, flow, ..Packet::default() };
            let Ok(id) = pool.insert(packet) else {
                break;
            };
            inversions.enter(label);
            if let Some(out) =
                scheduler.enqueue(Nanos(arrival as u64), &mut pool, slots[flow as usize], id)
            {
                inversions.leave(pool.get(out).label_then_start.label());
                pool.remove(out);
            }
        }
        for (name, value) in inversions.figures() {
            match name {
                "inverted" => count.inverted = value,
                "inversions" => count.inversions = value,
                "unpifoness" => count.unpifoness = value,
                _ => {}
            }
        }
        count
    }
}

fn measure(job: &Job, packets: u64) -> Count {
    let words = SYSTEMS[job.system].1;
    let mut words = words.split_whitespace();
    let name = words.next().unwrap_or_default();
    let Some(kind) = Kind::from_name(name) else { return Count::default() };
    let mut discipline = Discipline::new(kind);
    while let (Some(setting), Some(value)) = (words.next(), words.next()) {
        if discipline.set(setting, value).is_err() {
            return Count::default();
        }
    }
    discipline.visit(Drive { job: *job, packets, fifo: name == "fifo" })
}

fn run(options: &Options) -> Finding {
    let packets = if options.quick { 100_000 } else { 1_000_000 };
    let seeds = if options.quick { 1 } else { 3 };
    let mut jobs = Vec::new();
    for system in 0..SYSTEMS.len() {
        for load in LOADS {
            jobs.extend((0..seeds).map(|seed| Job { system, load, seed: options.seed + seed }));
        }
    }
    let counts = parallel(options.threads, &jobs, |job| measure(job, packets));
    let sum = |system: usize, load: f64, what: fn(&Count) -> u64| {
        let chosen =
            jobs.iter().zip(&counts).filter(|(job, _)| job.system == system && job.load == load);
        let (value, served) = chosen.fold((0, 0), |(value, served), (_, count)| {
            (value + what(count), served + count.served)
        });
        value as f64 / served as f64
    };
    let ratio = |system: usize, load: f64| {
        sum(system, load, |count| count.inverted) / sum(0, load, |count| count.inverted)
    };
    let mut table = Table::new(
        format!(
            "packets that are served while one of lower rank is inside, over those of a FIFO; load {LOADED}"
        ),
        &[
            "queue",
            "inverted",
            "published ratio",
            "measured",
            "difference",
            "inversions a packet",
            "unpifoness a packet",
        ],
    );
    for (system, (name, _, published)) in SYSTEMS.iter().enumerate() {
        let ours = ratio(system, LOADED);
        let mut row =
            vec![Cell::from(*name), Cell::number(sum(system, LOADED, |count| count.inverted), 3)];
        row.extend(match published {
            Some(theirs) => Cell::compared(*theirs, ours, 3),
            None => [Cell::Empty, Cell::number(ours, 3), Cell::Empty],
        });
        row.push(Cell::number(sum(system, LOADED, |count| count.inversions), 2));
        row.push(Cell::number(sum(system, LOADED, |count| count.unpifoness), 1));
        table.row(row);
    }
    let (adaptive, fixed, many) = (ratio(1, LOADED), ratio(2, LOADED), ratio(3, LOADED));
    let claims = vec![
        Claim::tried(
            "an exact PIFO has none",
            ratio(5, LOADED) == 0.0,
            format!("{}", ratio(5, LOADED)),
        ),
        Claim::tried(
            "SP-PIFO has about 0.303 of a FIFO's",
            (adaptive / 0.303 - 1.0).abs() < 0.2,
            format!("{adaptive:.3}"),
        ),
        Claim::tried(
            "the best fixed bounds have about 0.236",
            (fixed / 0.236 - 1.0).abs() < 0.2,
            format!("{fixed:.3}"),
        ),
        Claim::tried(
            "more queues come nearer to a PIFO",
            many < adaptive,
            format!("32 queues: {many:.3}, 8: {adaptive:.3}"),
        ),
    ];
    let series = SYSTEMS.iter().enumerate().map(|(system, (name, ..))| Series {
        name: (*name).to_owned(),
        style: Style::Line,
        points: LOADS.iter().map(|&load| [load, ratio(system, load)]).collect(),
    });
    let mut by_load = Table::new("inverted packets over those of a FIFO, by load", &["queue"]);
    by_load.columns.extend(LOADS.map(|load| load.to_string()));
    for (system, (name, ..)) in SYSTEMS.iter().enumerate() {
        let ratios = LOADS.iter().map(|&load| Cell::number(ratio(system, load), 3));
        by_load.row(std::iter::once(Cell::from(*name)).chain(ratios).collect());
    }
    let plot = Plot {
        name: "inversions".into(),
        title: "Inverted packets over those of a FIFO".into(),
        description: "Packets that each scheduler serves out of order, divided by those of a FIFO of the same size, over the load.".into(),
        x: Axis::new("load", Unit::Fraction),
        y: Axis::new("inverted packets over a FIFO's", Unit::Count),
        series: series.collect(),
    };
    let title = "Packets of uniform ranks 0 to 99 in 80 places";
    Finding { title: title.into(), tables: vec![table, by_load], claims, plots: vec![plot] }
}

const RANKS: u32 = 100;
/// So many flows that a flow's packet has left before the flow gets the next one.
const FLOWS: u64 = 1 << 16;
/// Ratios of the arrival rate to the service rate.
const LOADS: [f64; 6] = [0.8, 0.9, 0.95, 1.0, 1.1, 1.25];
/// The load that is compared with the publication, which does not state its load. This one gives
/// both published ratios.
const LOADED: f64 = 1.1;
