//! How closely strict-priority queues approximate a PIFO: inversions under uniform ranks, with
//! adaptive and with fixed bounds.
//!
//! The queue runs without a network. Packets arrive as a Poisson process and are served at equal
//! intervals. Each has a rank from 0 to 99, all equally likely. A packet that is served while a
//! packet of lower rank is queued is *inverted*, and each such pair is an inversion. Results are
//! relative to a FIFO of 80 packets.

use weir_core::Nanos;
use weir_core::packet::{LabelThenStart, Packet, Pool};
use weir_core::sched::inversions::Inversions;
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Visitor};

use weir_report::finding::{
    Axis, Cell, Claim, Finding, Plot, Provenance, Quantity, Range, Series, Style, Table, Unit,
};
use weir_sim::random::Draws;

use super::experiment::{Experiment, Options, Progress};
use super::parallel::over_seeds;
use super::sources;

pub(super) const SP_PIFO: Experiment = Experiment {
    name: "sp-pifo",
    summary: "packets that SP-PIFO and fixed bounds serve out of order, compared with a FIFO, \
              under uniform ranks",
    source: "Alcoz, Dietmüller and Vanbever, NSDI 2020; calibrated",
    run,
};

/// Each system: its name, its scheduler with settings, and its published number of inverted packets
/// relative to that of a FIFO.
const SYSTEMS: [(&str, &str, Option<f64>); 6] = [
    ("FIFO of 80", "fifo", None),
    ("SP-PIFO, 8 queues of 10", "sp-pifo queues 8 depth 10 rank edf", Some(0.303)),
    ("fixed bounds, 8 queues of 10", "strict-n queues 8 depth 10 rank edf width 13", Some(0.236)),
    ("SP-PIFO, 32 queues of 3 (96 places)", "sp-pifo queues 32 depth 3 rank edf", None),
    ("AIFO of 80", "aifo limit 80 rank edf", None),
    ("exact PIFO of 80", "pifo limit 80 rank edf", None),
];

/// The configuration of a run: the index of the system in [`SYSTEMS`], and the load.
#[derive(Clone, Copy)]
struct Job {
    system: usize,
    load: f64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    served: u64,
    inverted: u64,
    inversions: u64,
    /// The sum of the differences of ranks over all inversions.
    unpifoness: u64,
}

/// Drives one scheduler with a stream of packets.
struct Drive {
    job: Job,
    seed: u64,
    packets: u64,
    /// Whether the scheduler is the FIFO, which the run limits to 80 packets.
    fifo: bool,
}

impl Visitor for Drive {
    type Output = Count;

    fn visit<S: Scheduler + std::fmt::Debug>(self, mut scheduler: S) -> Count {
        let mut draws = Draws::new(self.seed, 1, 0);
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
        for (name, value) in inversions.variables() {
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

fn measure(job: &Job, seed: u64, packets: u64) -> Count {
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
    discipline.visit(Drive { job: *job, seed, packets, fifo: name == "fifo" })
}

/// The runs of all systems and loads, by seed.
struct Runs {
    jobs: Vec<Job>,
    counts: Vec<Vec<Count>>,
}

impl Runs {
    /// A count divided by the number of served packets, by seed.
    fn of(&self, system: usize, load: f64, what: fn(&Count) -> u64) -> Vec<f64> {
        let index = self.jobs.iter().position(|job| job.system == system && job.load == load);
        let counts = index.map_or(&[][..], |index| &self.counts[index]);
        counts.iter().map(|count| what(count) as f64 / count.served as f64).collect()
    }

    /// The share of inverted packets divided by that of the FIFO.
    fn ratio(&self, system: usize, load: f64) -> Quantity {
        let inverted = |system| self.of(system, load, |count| count.inverted);
        Quantity::ratio(&inverted(system), &inverted(0))
    }
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let packets = if options.quick { 100_000 } else { 1_000_000 };
    let jobs: Vec<Job> =
        (0..SYSTEMS.len()).flat_map(|system| LOADS.map(|load| Job { system, load })).collect();
    let counts = over_seeds(options, progress, &jobs, |job, seed| measure(job, seed, packets));
    let runs = Runs { jobs, counts };
    let title = "Packets of uniform ranks 0 to 99, in 80 places where no others are given";
    Finding {
        title: title.into(),
        tables: vec![compared(&runs), by_load(&runs)],
        claims: claims(&runs),
        plots: vec![plot(&runs)],
        notes: vec![format!(
            "The document does not state its load. The load of {LOADED} was chosen because both \
             published ratios come out; the second table has the other loads."
        )],
        ..Finding::default()
    }
}

fn compared(runs: &Runs) -> Table {
    let mut table = Table::new(
        format!(
            "packets that are served while one of lower rank is inside, ratio to those of a FIFO; \
             load {LOADED}, chosen for the reference"
        ),
        &[
            "queue",
            "inverted",
            "reference ratio",
            "measured",
            "difference",
            "inversions a packet",
            "unpifoness a packet",
        ],
    );
    for (system, (name, _, stated)) in SYSTEMS.iter().enumerate() {
        let ours = runs.ratio(system, LOADED);
        let mean = |what, decimals| {
            Cell::quantity(&Quantity::of_runs(&runs.of(system, LOADED, what)), decimals)
        };
        let mut row = vec![Cell::from(*name), mean(|count| count.inverted, 3)];
        row.extend(match stated {
            Some(stated) => Cell::compared(*stated, CALIBRATED, &ours, 3),
            None => [Cell::Empty, Cell::quantity(&ours, 3), Cell::Empty],
        });
        row.push(mean(|count| count.inversions, 2));
        row.push(mean(|count| count.unpifoness, 1));
        table.row(row);
    }
    table
}

fn by_load(runs: &Runs) -> Table {
    let mut table = Table::new("inverted packets, ratio to those of a FIFO, by load", &["queue"]);
    table.columns.extend(LOADS.map(|load| load.to_string()));
    for (system, (name, ..)) in SYSTEMS.iter().enumerate() {
        let ratios = LOADS.iter().map(|&load| Cell::quantity(&runs.ratio(system, load), 3));
        table.row(std::iter::once(Cell::from(*name)).chain(ratios).collect());
    }
    table
}

fn claims(runs: &Runs) -> Vec<Claim> {
    let [adaptive, fixed, many, exact] = [1, 2, 3, 5].map(|system| runs.ratio(system, LOADED));
    let fewer = Quantity::ratio(
        &runs.of(3, LOADED, |count| count.inverted),
        &runs.of(1, LOADED, |count| count.inverted),
    );
    let about = |stated: f64| Range::within(0.8 * stated, 1.2 * stated);
    let mut order = Claim::new(
        "at every load from 0.9 the order is the published one: fixed bounds, SP-PIFO, FIFO",
        Provenance::Published {
            document: sources::SP_PIFO,
            place: "inversions under uniform ranks; its load is not stated",
        },
    );
    for load in &LOADS[1..] {
        let inverted = |system| runs.of(system, *load, |count| count.inverted);
        for (what, fewer, more) in
            [("ratio of SP-PIFO to FIFO", 1, 0), ("ratio of fixed bounds to SP-PIFO", 2, 1)]
        {
            let ratio = Quantity::ratio(&inverted(fewer), &inverted(more));
            order = order.expect(format!("load {load}: {what}"), ratio, Range::below(1.0));
        }
    }
    vec![
        Claim::new("an exact PIFO has none", Provenance::Inferred { from: "the definition" })
            .expect("ratio", exact, Range::within(0.0, 0.0)),
        Claim::new("SP-PIFO has about 0.303 of a FIFO's (within 20 %)", CALIBRATED).expect(
            "ratio",
            adaptive,
            about(0.303),
        ),
        Claim::new("the best fixed bounds have about 0.236 (within 20 %)", CALIBRATED).expect(
            "ratio",
            fixed,
            about(0.236),
        ),
        Claim::new("more queues come nearer to a PIFO", BY_DESIGN)
            .expect("ratio of 32 queues to a FIFO", many, Range::below(1.0))
            .expect("ratio of 32 queues to 8", fewer, Range::below(1.0)),
        order,
    ]
}

fn plot(runs: &Runs) -> Plot {
    let series = SYSTEMS.iter().enumerate().map(|(system, (name, ..))| Series {
        name: (*name).to_owned(),
        style: Style::Line,
        points: LOADS
            .iter()
            .filter_map(|&load| Some([load, runs.ratio(system, load).mean()?]))
            .collect(),
        ..Series::default()
    });
    Plot {
        name: "inversions".into(),
        title: "Inverted packets, ratio to those of a FIFO".into(),
        description: "Packets that each scheduler serves out of order, divided by those of a FIFO \
                      of 80 packets, over the load."
            .into(),
        x: Axis::new("load", Unit::Fraction),
        y: Axis::new("inverted packets, ratio to a FIFO", Unit::Count),
        series: series.collect(),
    }
}

/// Both ratios decided the choice of the load.
const CALIBRATED: Provenance = Provenance::Calibrated {
    document: sources::SP_PIFO,
    place: "inversions under uniform ranks",
    chosen: "a load of 1.1",
    unused: "none",
};
const BY_DESIGN: Provenance =
    Provenance::Inferred { from: "the purpose of SP-PIFO: strict queues approximate a PIFO" };
const RANKS: u32 = 100;
/// The number of flows: so many that a flow's packet has left before the flow gets its next packet.
const FLOWS: u64 = 1 << 16;
/// Ratios of the arrival rate to the service rate.
const LOADS: [f64; 6] = [0.8, 0.9, 0.95, 1.0, 1.1, 1.25];
/// The load that is compared with the publication, which does not state its load. This load was
/// chosen because it gives both published ratios.
const LOADED: f64 = 1.1;
