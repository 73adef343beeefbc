//! The characterisation of queue management by RFC 7928: how an algorithm treats friendly,
//! aggressive and unresponsive transports, different round-trip times, bursts, changing loads and
//! rates, traffic mixes and asymmetric links, and how it marks instead of dropping.
//!
//! # Model
//! A [`Dumbbell`] of 10 Mbit/s with a round trip of 100 ms and a queue of one second at most,
//! unless the section says otherwise. Each scenario runs with several seeds, which shift the start
//! times of its flows. The results are those that section 2 requires: goodput against queueing
//! delay, with a point for every run; loss, marks, fairness and queueing delay in a table.
//!
//! # Reference
//! N. Kuhn, P. Natarajan, N. Khademi, D. Ros, "Characterization Guidelines for Active Queue
//! Management (AQM)", RFC 7928, 2016. Where it leaves a choice, the comment of the scenario states
//! the choice.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_core::config::Capacity;
use weir_core::link::{Schedule, Step};
use weir_core::rng::{Purpose, Stream};
use weir_core::{Nanos, Rate};
use weir_rules::manager::Manager;

use weir_report::finding::{Axis, Cell, Finding, Plot, Series, Style, Table, Unit};
use weir_sim::dumbbell::{Crossing, Dumbbell, Load, jain, mbit};
use weir_sim::tcp::{self, Data, cc};

use super::experiment::Options;
use super::parallel::parallel;

/// A scenario: a section of the RFC.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Number of the section.
    pub section: &'static str,
    /// Name in results.
    pub name: &'static str,
    /// What it shows.
    pub summary: &'static str,
    /// Makes its network and its flows, and assigns each flow to a class of results.
    make: fn(&mut Bench),
}

/// The network and the flows of a scenario.
#[derive(Debug)]
struct Bench {
    network: Dumbbell,
    flows: Vec<Crossing>,
    /// Names of the classes of flows, by group.
    classes: Vec<&'static str>,
    duration: Nanos,
    stream: Stream,
    control: Option<cc::Choice>,
}

/// Every scenario, in the order of the RFC.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        section: "5.1.1",
        name: "friendly",
        summary: "two NewReno transfers with the same initial window",
        make: friendly,
    },
    Scenario {
        section: "5.1.2",
        name: "initial-window",
        summary: "a NewReno transfer, and short ones that begin with 3 and with 10 segments",
        make: initial_window,
    },
    Scenario {
        section: "5.2",
        name: "aggressive",
        summary: "a CUBIC transfer beside a NewReno one",
        make: aggressive,
    },
    Scenario {
        section: "5.3",
        name: "unresponsive",
        summary: "a NewReno transfer; from a third of the time on, UDP at 12 Mbit/s for another third",
        make: unresponsive,
    },
    Scenario {
        section: "5.4",
        name: "less-than-best-effort",
        summary: "a LEDBAT transfer beside a NewReno one",
        make: scavenger,
    },
    Scenario {
        section: "6",
        name: "round-trips",
        summary: "transfers with round trips of 20, 100, 200 and 400 ms",
        make: round_trips,
    },
    Scenario {
        section: "7.2",
        name: "bursts",
        summary: "a transfer, UDP at 1 Mbit/s, and a burst of ten 30-packet responses every 2 s",
        make: bursts,
    },
    Scenario {
        section: "8.2.2",
        name: "mild",
        summary: "so many transfers that about 0.1 % is lost",
        make: mild,
    },
    Scenario {
        section: "8.2.3",
        name: "medium",
        summary: "so many transfers that about 0.5 % is lost",
        make: medium,
    },
    Scenario {
        section: "8.2.4",
        name: "heavy",
        summary: "so many transfers that about 1 % is lost",
        make: heavy,
    },
    Scenario {
        section: "8.2.5",
        name: "varying-load",
        summary: "mild, medium, heavy and mild load in turn",
        make: varying_load,
    },
    Scenario {
        section: "8.2.6",
        name: "varying-rate",
        summary: "the link's rate alternates between 10 and 1 Mbit/s",
        make: varying_rate,
    },
    Scenario {
        section: "9",
        name: "mix",
        summary: "two VoIP calls, a CBR video, web responses and two transfers",
        make: mix,
    },
    Scenario {
        section: "10",
        name: "asymmetric",
        summary: "a way back of a tenth of the rate, with a transfer on it",
        make: asymmetric,
    },
    Scenario { section: "11", name: "ecn", summary: "as 5.2, with ECN", make: ecn },
];

/// Runs every scenario with every manager. `progress` is called after every run, with the number of
/// finished runs and of all runs.
pub fn run(
    managers: &[Manager],
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Finding {
    let seeds = if options.quick { 2 } else { 5 };
    let jobs: Vec<(usize, usize, u64)> = (0..SCENARIOS.len())
        .flat_map(|scenario| (0..managers.len()).map(move |manager| (scenario, manager)))
        .flat_map(|(scenario, manager)| (0..seeds).map(move |seed| (scenario, manager, seed)))
        .collect();
    let done = AtomicUsize::new(0);
    let measured = parallel(options.threads, &jobs, |&(scenario, manager, seed)| {
        let measured = measure(
            &SCENARIOS[scenario],
            &managers[manager],
            options.seed.wrapping_add(seed),
            options.quick,
        );
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        measured
    });
    let mut finding = Finding {
        title: "RFC 7928: goodput and queueing delay of each algorithm".to_owned(),
        ..Finding::default()
    };
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        let runs = |manager: usize| {
            jobs.iter()
                .zip(&measured)
                .filter(move |(job, _)| (job.0, job.1) == (number, manager))
                .map(|(_, measured)| measured)
        };
        let per_manager: Vec<(&Manager, Vec<&Measured>)> =
            managers.iter().enumerate().map(|(i, m)| (m, runs(i).collect())).collect();
        finding.tables.push(table(scenario, &per_manager));
        finding.plots.push(plot(scenario, &per_manager));
    }
    finding
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Goodput over the bottleneck, Mbit/s.
    goodput: f64,
    /// Time in the bottleneck's queue, ms.
    delay: [f64; 4],
    lost: f64,
    marked: f64,
    fairness: f64,
    /// By class: goodput in Mbit/s, lost in percent, one-way delay p99 in ms.
    classes: Vec<(&'static str, [f64; 3])>,
}

fn measure(scenario: &Scenario, manager: &Manager, seed: u64, quick: bool) -> Measured {
    let duration = Nanos::from_secs(if quick { 30 } else { 120 });
    let mut bench = Bench {
        network: Dumbbell { seed, manager: *manager, queue: ONE_SECOND, ..Dumbbell::default() },
        flows: Vec::new(),
        classes: Vec::new(),
        duration,
        stream: Stream::new(seed, 0, Purpose::Generator),
        control: None,
    };
    (scenario.make)(&mut bench);
    let mut built = bench.network.build(&bench.flows);
    let warm_up = Nanos(duration.0 / 10);
    built.world.run(warm_up);
    built.world.network_mut().zero();
    built.world.run(duration);
    let seconds = (duration.0 - warm_up.0) as f64 / 1e9;
    let network = built.world.network();
    let Some(stats) = network.stats(built.bottleneck) else { return Measured::default() };
    let ms = |q: f64| stats.queue_ns.quantile(q) as f64 / 1e6;
    let classes: Vec<_> = bench
        .classes
        .iter()
        .zip(network.counts())
        .map(|(&class, count)| {
            let goodput = count.goodput_bytes as f64 * 8.0 / seconds / 1e6;
            let lost = percent(count.reasons.total_drops(), count.sent);
            (class, [goodput, lost, count.delay_ns.quantile(0.99) as f64 / 1e6])
        })
        .collect();
    // Flows in the other direction do not cross the bottleneck.
    let reverse: Vec<u32> =
        bench.flows.iter().filter(|flow| flow.reverse).map(|flow| flow.group).collect();
    let across = |&(group, _): &(usize, &(&str, [f64; 3]))| !reverse.contains(&(group as u32));
    let goodput = classes.iter().enumerate().filter(across).map(|(_, class)| class.1[0]).sum();
    let shares: Vec<f64> = classes
        .iter()
        .enumerate()
        .filter(across)
        .filter(|(_, c)| c.0 != PROBES)
        .map(|(_, c)| c.1[0])
        .collect();
    let counters = &stats.counters;
    Measured {
        goodput,
        delay: [stats.queue_ns.mean() / 1e6, ms(0.5), ms(0.95), ms(0.99)],
        lost: percent(counters.total_drops(), counters.packets_in),
        marked: percent(counters.reasons().total_marks(), counters.packets_in),
        fairness: jain(&shares),
        classes,
    }
}

impl Bench {
    /// Adds a class of flows with its name in results.
    fn class(&mut self, name: &'static str) -> u32 {
        self.classes.push(name);
        self.classes.len() as u32 - 1
    }

    fn tcp(&mut self, group: u32, control: &str, round_trip: Nanos, config: tcp::Config) {
        let kind = cc::Kind::from_name(control).unwrap_or(cc::Kind::ALL[0]);
        let control = self.control.unwrap_or_else(|| cc::Choice::new(kind));
        // Start times differ from seed to seed, within a second.
        let start = Nanos(config.start.0 + u64::from(self.stream.below(1_000_000_000)));
        self.flows.push(Crossing {
            access_delay: Nanos(round_trip.0 / 4),
            reverse: false,
            group,
            load: Load::Tcp(tcp::Config { control, start, ..config }),
        });
    }

    fn bulk(&mut self, name: &'static str, control: &str, round_trip: Nanos) {
        let group = self.class(name);
        self.tcp(group, control, round_trip, tcp::Config::default());
    }

    fn udp(&mut self, name: &'static str, len: u32, bps: u64, start: Nanos, stop: Nanos) {
        let group = self.class(name);
        let load = Load::Udp {
            len,
            header: 28,
            bps,
            start: Nanos(start.0 + u64::from(self.stream.below(10_000_000))),
            stop,
        };
        self.flows.push(Crossing {
            access_delay: Nanos(ROUND_TRIP.0 / 4),
            reverse: false,
            group,
            load,
        });
    }

    /// Adds `count` transfers that start within the first second.
    fn transfers(&mut self, name: &'static str, count: u32, start: Nanos, stop: Nanos) {
        let group = self.class(name);
        for _ in 0..count {
            self.tcp(
                group,
                "newreno",
                ROUND_TRIP,
                tcp::Config { start, stop, ..tcp::Config::default() },
            );
        }
    }

    /// The number of transfers that together fill the link when each loses a fraction `loss`: each
    /// then sends sqrt(3/2) / sqrt(loss) segments per round trip (Mathis et al. 1997).
    fn load(&self, loss: f64) -> u32 {
        let window = libm::sqrt(1.5 / loss);
        let full = self.network.rate.bps() as f64 * (ROUND_TRIP.0 as f64 / 1e9) / (8.0 * 1500.0);
        (libm::round(full / window) as u32).max(1)
    }
}

fn friendly(bench: &mut Bench) {
    bench.bulk("first", "newreno", ROUND_TRIP);
    bench.bulk("second", "newreno", ROUND_TRIP);
}

fn initial_window(bench: &mut Bench) {
    bench.bulk("transfer", "newreno", ROUND_TRIP);
    for (name, window) in [("short, 3 segments", 3), ("short, 10 segments", 10)] {
        let group = bench.class(name);
        for second in (2..bench.duration.0 / 1_000_000_000).step_by(2) {
            let data = Data::Bytes(30 * 1448);
            let config = tcp::Config {
                data,
                initial_window: window,
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            bench.tcp(group, "newreno", ROUND_TRIP, config);
        }
    }
}

fn aggressive(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    bench.bulk("cubic", "cubic", ROUND_TRIP);
}

fn unresponsive(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    let third = bench.duration.0 / 3;
    bench.udp("udp", 1000, 12_000_000, Nanos(third), Nanos(2 * third));
}

fn scavenger(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    bench.bulk("ledbat", "ledbat", ROUND_TRIP);
}

fn round_trips(bench: &mut Bench) {
    for (name, ms) in [("20 ms", 20), ("100 ms", 100), ("200 ms", 200), ("400 ms", 400)] {
        bench.bulk(name, "newreno", Nanos::from_millis(ms));
    }
}

fn bursts(bench: &mut Bench) {
    bench.bulk("transfer", "newreno", ROUND_TRIP);
    bench.udp("udp", 1000, 1_000_000, Nanos::ZERO, Nanos::MAX);
    let group = bench.class("bursts");
    for second in (2..bench.duration.0 / 1_000_000_000).step_by(2) {
        for _ in 0..10 {
            let config = tcp::Config {
                data: Data::Bytes(30 * 1448),
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            // All at the same time: the responses to one event.
            bench.flows.push(Crossing {
                access_delay: Nanos(ROUND_TRIP.0 / 4),
                reverse: false,
                group,
                load: Load::Tcp(config),
            });
        }
    }
}

fn mild(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.001), Nanos::ZERO, Nanos::MAX);
}

fn medium(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.005), Nanos::ZERO, Nanos::MAX);
}

fn heavy(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.01), Nanos::ZERO, Nanos::MAX);
}

fn varying_load(bench: &mut Bench) {
    let quarter = bench.duration.0 / 4;
    let [mild, medium, heavy] = [0.001, 0.005, 0.01].map(|loss| bench.load(loss));
    bench.transfers("all the time", mild, Nanos::ZERO, Nanos::MAX);
    bench.transfers(
        "from medium on",
        medium.saturating_sub(mild).max(1),
        Nanos(quarter),
        Nanos(3 * quarter),
    );
    bench.transfers(
        "heavy",
        heavy.saturating_sub(medium).max(1),
        Nanos(2 * quarter),
        Nanos(3 * quarter),
    );
}

fn varying_rate(bench: &mut Bench) {
    let step = |rate: Rate| Step { capacity: Some(Capacity::Constant(rate)), ..Step::default() };
    let steps = vec![(Nanos::ZERO, step(mbit(10))), (Nanos::from_secs(10), step(mbit(1)))];
    bench.network.schedule = Schedule::new(steps, Some(Nanos::from_secs(20))).ok();
    bench.bulk("first", "newreno", ROUND_TRIP);
    bench.bulk("second", "newreno", ROUND_TRIP);
}

fn mix(bench: &mut Bench) {
    // G.711: 160 bytes every 20 ms.
    bench.udp("voip 1", 200, 80_000, Nanos::ZERO, Nanos::MAX);
    bench.udp("voip 2", 200, 80_000, Nanos::ZERO, Nanos::MAX);
    bench.udp("video", 1400, 2_000_000, Nanos::ZERO, Nanos::MAX);
    let group = bench.class("web");
    for second in 1..bench.duration.0 / 1_000_000_000 {
        for _ in 0..2 {
            let config = tcp::Config {
                data: Data::Bytes(40_000),
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            bench.tcp(group, "cubic", ROUND_TRIP, config);
        }
    }
    bench.bulk("transfer 1", "cubic", ROUND_TRIP);
    bench.bulk("transfer 2", "newreno", ROUND_TRIP);
}

fn asymmetric(bench: &mut Bench) {
    bench.network.return_rate = Some(mbit(1));
    bench.network.return_manager = bench.network.manager;
    bench.bulk("down", "cubic", ROUND_TRIP);
    bench.bulk("up", "cubic", ROUND_TRIP);
    if let Some(up) = bench.flows.last_mut() {
        up.reverse = true;
    }
}

fn ecn(bench: &mut Bench) {
    // Marking is switched on where it is not the default; algorithms without marking drop.
    let _ = match &mut bench.network.manager {
        Manager::Aqm(policy) => policy.set("ecn", "on"),
        Manager::Scheduler(discipline) => discipline.set("ecn", "on"),
        Manager::None => Ok(()),
    };
    for control in ["newreno", "cubic"] {
        let group = bench.class(control);
        bench.tcp(
            group,
            control,
            ROUND_TRIP,
            tcp::Config { ecn: Some(true), ..tcp::Config::default() },
        );
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count().max(1) as f64
}

fn table(scenario: &Scenario, measured: &[(&Manager, Vec<&Measured>)]) -> Table {
    let classes: Vec<&str> = measured
        .first()
        .and_then(|(_, runs)| runs.first())
        .map_or_else(Vec::new, |run| run.classes.iter().map(|c| c.0).collect());
    let mut columns = vec![
        "queue",
        "goodput Mbit/s",
        "delay ms: mean",
        "p50",
        "p95",
        "p99",
        "lost %",
        "marked %",
        "Jain",
    ];
    let names: Vec<String> = classes.iter().map(|class| format!("{class} Mbit/s")).collect();
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(
        format!("{} {}: {}", scenario.section, scenario.name, scenario.summary),
        &columns,
    );
    for (manager, runs) in measured {
        let average = |of: &dyn Fn(&Measured) -> f64| mean(runs.iter().map(|run| of(run)));
        let mut row = vec![Cell::from(shown(manager)), Cell::number(average(&|m| m.goodput), 2)];
        row.extend((0..4).map(|i| Cell::number(average(&|m| m.delay[i]), 1)));
        row.extend([
            Cell::number(average(&|m| m.lost), 2),
            Cell::number(average(&|m| m.marked), 2),
            Cell::number(average(&|m| m.fairness), 3),
        ]);
        row.extend((0..classes.len()).map(|i| Cell::number(average(&|m| m.classes[i].1[0]), 3)));
        table.row(row);
    }
    table
}

fn plot(scenario: &Scenario, measured: &[(&Manager, Vec<&Measured>)]) -> Plot {
    let series = measured
        .iter()
        .map(|(manager, runs)| {
            let mut points: Vec<[f64; 2]> =
                runs.iter().map(|run| [run.delay[0] * 1e6, run.goodput * 1e6]).collect();
            points.sort_by(|a, b| a[0].total_cmp(&b[0]));
            Series { name: shown(manager), style: Style::Dots, points }
        })
        .collect();
    Plot {
        name: scenario.name.to_owned(),
        title: format!("{} {}", scenario.section, scenario.name),
        description: format!(
            "{}: goodput against mean queueing delay, a point for every run",
            scenario.summary
        ),
        x: Axis { log: true, ..Axis::new("mean queueing delay", Unit::Nanoseconds) },
        y: Axis::new("goodput", Unit::BitsPerSecond),
        series,
    }
}

fn shown(manager: &Manager) -> String {
    match manager {
        Manager::None => "tail drop".to_owned(),
        other => other.to_string(),
    }
}

/// The queues that are compared by default.
pub const DEFAULT: &[&str] = &["none", "red", "codel", "pie", "fq_codel", "dualpi2"];
/// The default round-trip time.
const ROUND_TRIP: Nanos = Nanos::from_millis(100);
/// Packets of 1500 bytes in a second at 10 Mbit/s.
const ONE_SECOND: u32 = 833;
/// The class of probes, which fairness leaves out.
const PROBES: &str = "probes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_gives_goodput_and_the_same_twice_with_any_number_of_threads() {
        let managers: Vec<Manager> =
            ["none", "fq_codel"].iter().map(|name| Manager::parse(name).unwrap()).collect();
        let run = |threads| {
            run(&managers, &Options { quick: true, threads, ..Options::default() }, &|_, _| {})
        };
        let finding = run(1);
        assert_eq!(finding, run(2));
        assert_eq!(finding.tables.len(), SCENARIOS.len());
        for table in &finding.tables {
            for row in &table.rows {
                let Cell::Number { value, .. } = row[1] else {
                    panic!("no goodput in {}", table.title)
                };
                assert!(value > 1.0 && value < 10.0, "{}: {value} Mbit/s", table.title);
            }
        }
    }

    #[test]
    fn default_queues_are_known() {
        assert!(DEFAULT.iter().all(|name| Manager::parse(name).is_ok()));
    }
}
