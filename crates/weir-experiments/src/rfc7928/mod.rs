//! The characterisation of queue management by RFC 7928: how an algorithm treats friendly,
//! aggressive and unresponsive transports, different round-trip times, bursts, changing loads and
//! rates, traffic mixes and asymmetric links, and how it marks instead of dropping.
//!
//! # Model
//! A [`Dumbbell`] of 10 Mbit/s with a round trip of 100 ms and a queue of at most one second,
//! unless the section says otherwise. Each scenario runs with several seeds, which shift the start
//! times of its flows. The results are those that section 2 requires: goodput against queueing
//! delay and a table of loss, marks, fairness and queueing delay for each scenario. Three matrices
//! compare the algorithms in all scenarios.
//!
//! # Reference
//! N. Kuhn, P. Natarajan, N. Khademi, D. Ros, "Characterization Guidelines for Active Queue
//! Management (AQM)", RFC 7928, 2016. Where the RFC leaves a choice, the comment of the scenario
//! states the choice.

mod scenarios;

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_core::Nanos;
use weir_core::rng::{Purpose, Stream};
use weir_report::finding::{Axis, Cell, Finding, Matrix, Plot, Series, Style, Table, Unit};
use weir_rules::manager::Manager;
use weir_sim::dumbbell::{Dumbbell, jain};

use super::experiment::Options;
use super::parallel::parallel;
use scenarios::{Bench, ONE_SECOND, PROBES};
pub use scenarios::{SCENARIOS, Scenario};

/// Runs every scenario with every manager. Calls `progress` after every run with the number of
/// finished runs and the number of all runs.
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
    let mut all: Vec<PerManager<'_>> = Vec::new();
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
        all.push((scenario, per_manager));
    }
    finding.matrices = vec![
        matrix("Queueing delay, 95th percentile, ms", (false, 1), &all, |run| run.delay[2]),
        matrix("Goodput over the bottleneck, Mbit/s", (true, 2), &all, |run| run.goodput),
        matrix("Lost packets, %", (false, 2), &all, |run| run.lost),
    ];
    finding.plots = vec![overlay(managers, &all)];
    finding
}

/// A scenario with the runs of each manager.
type PerManager<'a> = (&'a Scenario, Vec<(&'a Manager, Vec<&'a Measured>)>);

/// The mean of a quantity over the runs, for each scenario and manager.
fn matrix(
    title: &str,
    (more_is_better, decimals): (bool, u8),
    all: &[PerManager<'_>],
    value: fn(&Measured) -> f64,
) -> Matrix {
    let columns = all.first().map_or_else(Vec::new, |(_, runs)| {
        runs.iter().map(|(manager, _)| shown(manager)).collect()
    });
    let of = |(_, runs): &(&Manager, Vec<&Measured>)| {
        let mean = mean(runs.iter().map(|run| value(run)));
        mean.is_finite().then_some(mean)
    };
    Matrix {
        title: title.to_owned(),
        columns,
        rows: all.iter().map(|(scenario, _)| named(scenario)).collect(),
        values: all.iter().map(|(_, runs)| runs.iter().map(of).collect()).collect(),
        more_is_better,
        decimals,
    }
}

/// All scenarios in one plot: a point for each scenario and manager.
fn overlay(managers: &[Manager], all: &[PerManager<'_>]) -> Plot {
    let series = managers.iter().enumerate().map(|(place, manager)| {
        let point = |(_, runs): &PerManager<'_>| {
            let runs = &runs[place].1;
            let average = |of: fn(&Measured) -> f64| mean(runs.iter().map(|run| of(run)));
            [average(|run| run.delay[0]) * 1e6, average(|run| run.goodput) * 1e6]
        };
        let mut points: Vec<[f64; 2]> = all.iter().map(point).collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        Series { name: shown(manager), style: Style::Dots, points, ..Series::default() }
    });
    Plot {
        name: "overview".to_owned(),
        title: "Goodput against mean queueing delay".to_owned(),
        description: "A point for each scenario and algorithm, the mean of its runs; up and left is \
                      better. Scenarios offer different loads, so points of one algorithm lie apart."
            .to_owned(),
        x: Axis { log: true, ..Axis::new("mean queueing delay", Unit::Nanoseconds) },
        y: Axis::new("goodput", Unit::BitsPerSecond),
        series: series.collect(),
    }
}

/// The section of a scenario and its name.
fn named(scenario: &Scenario) -> String {
    format!("{} {}", scenario.section, scenario.name)
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
    /// Results by class: goodput in Mbit/s, loss in percent, 99th percentile of the one-way delay
    /// in ms.
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
    let mut table = Table::new(format!("{}: {}", named(scenario), scenario.summary), &columns);
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

fn shown(manager: &Manager) -> String {
    match manager {
        Manager::None => "tail drop".to_owned(),
        other => other.to_string(),
    }
}

/// The queues that are compared by default.
pub const DEFAULT: &[&str] = &["none", "red", "codel", "pie", "fq_codel", "dualpi2"];

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
        assert_eq!((finding.plots.len(), finding.matrices.len()), (1, 3));
        for matrix in &finding.matrices {
            assert_eq!((matrix.rows.len(), matrix.columns.len()), (SCENARIOS.len(), 2));
            assert!(matrix.values.iter().flatten().all(Option::is_some), "{}", matrix.title);
        }
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
