//! The characterisation of queue management by RFC 7928: how an algorithm treats friendly,
//! aggressive and unresponsive transports, different round-trip times, bursts, changing loads and
//! rates, traffic mixes and asymmetric links, and how it marks instead of dropping.
//!
//! # Model
//! Each section is a scenario ([`text`]), which `experiments/rfc7928` has as a file: a link of 10
//! Mbit/s with a round trip of 100 ms and a queue of at most one second, unless the section says
//! otherwise. Each scenario runs with several seeds, which shift the start times of its flows. The
//! results are those that section 2 requires: a table of goodput, queueing delay, loss, marks and
//! fairness for each section, and one plot of goodput against queueing delay, with a point for each
//! section and algorithm. Three matrices compare the algorithms in all sections.
//!
//! # Reference
//! N. Kuhn, P. Natarajan, N. Khademi, D. Ros, "Characterization Guidelines for Active Queue
//! Management (AQM)", RFC 7928, 2016.

mod scenarios;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_core::Nanos;
use weir_measure::scenario::FlowOutcome;
use weir_report::finding::{Axis, Cell, Finding, Matrix, Plot, Series, Style, Table, Unit};
use weir_rules::Files;
use weir_rules::manager::Manager;
use weir_sim::dumbbell::jain;
use weir_sim::measure::Plan;
use weir_sim::scenario::{Scenario, parse};

use super::experiment::Options;
use super::parallel::parallel;
use scenarios::{BACK, LINK, RATES, SCHEDULE};
pub use scenarios::{SECTIONS, Section, text};

/// Runs every section with every manager. Calls `progress` after every run with the number of
/// finished runs and the number of all runs.
pub fn run(
    managers: &[Manager],
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Finding {
    let seeds = if options.quick { 2 } else { 5 };
    let duration = if options.quick { QUICK } else { DURATION };
    let jobs: Vec<(usize, usize, u64)> = (0..SECTIONS.len())
        .flat_map(|section| (0..managers.len()).map(move |manager| (section, manager)))
        .flat_map(|(section, manager)| (0..seeds).map(move |seed| (section, manager, seed)))
        .collect();
    let done = AtomicUsize::new(0);
    let measured = parallel(options.threads, &jobs, |&(section, manager, seed)| {
        let scenario = scenario(&SECTIONS[section], &managers[manager], duration);
        let measured = measure(&scenario, options.seed.wrapping_add(seed));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        measured
    });
    let mut finding = Finding {
        title: "RFC 7928: goodput and queueing delay of each algorithm".to_owned(),
        ..Finding::default()
    };
    let mut all: Vec<PerManager<'_>> = Vec::new();
    for (number, section) in SECTIONS.iter().enumerate() {
        let runs = |manager: usize| {
            jobs.iter()
                .zip(&measured)
                .filter(move |(job, _)| (job.0, job.1) == (number, manager))
                .map(|(_, measured)| measured)
        };
        let per_manager: Vec<(&Manager, Vec<&Measured>)> =
            managers.iter().enumerate().map(|(i, m)| (m, runs(i).collect())).collect();
        finding.tables.push(table(section, &per_manager));
        all.push((section, per_manager));
    }
    finding.matrices = vec![
        matrix("Queueing delay, 95th percentile, ms", (false, 1), &all, |run| run.delay[2]),
        matrix("Goodput over the bottleneck, Mbit/s", (true, 2), &all, |run| run.goodput),
        matrix("Lost packets, %", (false, 2), &all, |run| run.lost),
    ];
    finding.plots = vec![overlay(managers, &all)];
    finding
}

/// A section with the runs of each manager.
type PerManager<'a> = (&'a Section, Vec<(&'a Manager, Vec<&'a Measured>)>);

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
        rows: all.iter().map(|(section, _)| named(section)).collect(),
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

fn named(section: &Section) -> String {
    format!("{} {}", section.number, section.name)
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
struct Measured {
    /// Goodput over the bottleneck, Mbit/s.
    goodput: f64,
    /// Time in the bottleneck's queue, ms: mean, median, 95th and 99th percentiles.
    delay: [f64; 4],
    /// Packets lost at the bottleneck, in percent.
    lost: f64,
    /// Packets marked at the bottleneck, in percent.
    marked: f64,
    /// Jain's index of the classes' goodput.
    fairness: f64,
    /// Results by class: goodput in Mbit/s, loss in percent, 99th percentile of the one-way delay
    /// in ms.
    classes: Vec<(String, [f64; 3])>,
}

/// The scenario of a section, from its text.
fn scenario(section: &Section, manager: &Manager, duration: Nanos) -> Scenario {
    let text = text(section, manager, duration);
    let checked = parse(&text, section.name, &Rates);
    checked
        .scenario
        .unwrap_or_else(|| panic!("{}: {:?}\n{text}", section.name, checked.diagnostics))
}

/// Provides the file of rates that a scenario uses.
struct Rates;

impl Files for Rates {
    fn read(&self, path: &str) -> io::Result<String> {
        if path == SCHEDULE { Ok(RATES.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

fn measure(scenario: &Scenario, seed: u64) -> Measured {
    let Ok(mut built) = weir_sim::build::build(scenario, seed) else { return Measured::default() };
    let plan = Plan { seed, warmup: scenario.warmup, end: scenario.duration, ..Plan::default() };
    let outcome = plan.run(&mut built.world, &built.names, &mut |_| {});
    let Some(link) = outcome.links.iter().find(|link| link.name == LINK) else {
        return Measured::default();
    };
    let seconds = outcome.counted_ns() as f64 / 1e9;
    let ms = |q: f64| link.queue_ns.quantile(q) as f64 / 1e6;
    let class = |flow: &FlowOutcome| {
        let goodput = flow.goodput_bytes as f64 * 8.0 / seconds / 1e6;
        let lost = percent(flow.lost, flow.sent);
        (flow.name.clone(), [goodput, lost, flow.delay_ns.quantile(0.99) as f64 / 1e6])
    };
    let classes: Vec<_> = outcome.flows.iter().map(class).collect();
    let shares: Vec<f64> =
        classes.iter().filter(|(name, _)| name != BACK).map(|(_, values)| values[0]).collect();
    let counters = &link.counters;
    Measured {
        goodput: shares.iter().sum(),
        delay: [link.queue_ns.mean() / 1e6, ms(0.5), ms(0.95), ms(0.99)],
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

/// The simulated time of a run.
const DURATION: Nanos = Nanos::from_secs(120);
const QUICK: Nanos = Nanos::from_secs(30);

fn table(section: &Section, measured: &[(&Manager, Vec<&Measured>)]) -> Table {
    let classes: Vec<&str> = measured
        .first()
        .and_then(|(_, runs)| runs.first())
        .map_or_else(Vec::new, |run| run.classes.iter().map(|c| c.0.as_str()).collect());
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
    let mut table = Table::new(format!("{}: {}", named(section), section.summary), &columns);
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
    use std::path::Path;

    use super::*;

    #[test]
    fn every_scenario_has_goodput_and_results_do_not_depend_on_the_number_of_threads() {
        let managers: Vec<Manager> =
            ["none", "fq_codel"].iter().map(|name| Manager::parse(name).unwrap()).collect();
        let run = |threads| {
            run(&managers, &Options { quick: true, threads, ..Options::default() }, &|_, _| {})
        };
        let finding = run(1);
        assert_eq!(finding, run(2));
        assert_eq!(finding.tables.len(), SECTIONS.len());
        assert_eq!((finding.plots.len(), finding.matrices.len()), (1, 3));
        for matrix in &finding.matrices {
            assert_eq!((matrix.rows.len(), matrix.columns.len()), (SECTIONS.len(), 2));
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
    fn files_of_the_suite_are_those_that_it_runs() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/rfc7928");
        let mut files = vec![(SCHEDULE.to_owned(), RATES.to_owned())];
        files.extend(SECTIONS.iter().map(|section| {
            (format!("{}.toml", section.name), text(section, &Manager::None, DURATION))
        }));
        for (name, text) in files {
            let path = directory.join(name);
            if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap();
            assert_eq!(found, text, "WEIR_UPDATE_DOCS=1 writes {}", path.display());
        }
    }

    #[test]
    fn every_manager_fits_into_every_section() {
        for section in SECTIONS {
            for manager in Manager::all() {
                scenario(section, &manager, QUICK);
            }
        }
    }

    #[test]
    fn default_queues_are_known() {
        assert!(DEFAULT.iter().all(|name| Manager::parse(name).is_ok()));
    }
}
