//! Experiments that the rig measures. This file takes the measurements; `weir-experiments` judges
//! them.

use weir_experiments::{MEASURED, Measured, Metric, Row};
use weir_rig::Algorithm;

use super::experiment::{Experiment, How, Outcome, Settings};
use crate::output::{Failure, say};
use crate::rig::{self, Config, has_valgrind, measure, picture_of};

pub(super) fn all() -> impl Iterator<Item = Experiment> {
    MEASURED.iter().map(|experiment| Experiment {
        name: experiment.name,
        summary: experiment.summary,
        source: experiment.source,
        run: How::Measured(experiment),
    })
}

pub(super) fn run(experiment: &Measured, settings: &Settings) -> Result<Outcome, Failure> {
    let (mut rows, mut plots) = (Vec::new(), Vec::new());
    for measurement in experiment.measurements {
        let algorithms =
            measurement.algorithms.iter().filter_map(|name| Algorithm::parse(name).ok()).collect();
        let metrics = metrics(measurement.metrics);
        let (flows, order) = (measurement.flows, measurement.order);
        let config = Config::preset(algorithms, flows, order, &metrics, settings.quick)?;
        let config = config.with_runs(if settings.quick { QUICK_RUNS } else { RUNS });
        let measured = measure(&config, settings.show_progress)?;
        plots.push((measurement.plot.to_owned(), picture_of(&config, &measured)));
        rows.extend(measured.into_iter().map(|m| Row {
            flows: m.set.to_string(),
            run: m.run,
            times: m.times,
        }));
    }
    let finding = (experiment.finding)(&rows);
    Ok(Outcome { finding, runs: rows.into_iter().map(|row| row.run).collect(), plots })
}

/// Converts metrics to those of the rig. Omits metrics that this machine cannot measure.
fn metrics(wanted: &[Metric]) -> Vec<rig::Metric> {
    let mut metrics = Vec::new();
    for metric in wanted {
        match metric {
            Metric::Time => metrics.push(rig::Metric::Time),
            Metric::Fairness => metrics.push(rig::Metric::Wfi),
            Metric::Instructions if has_valgrind() => metrics.push(rig::Metric::Instr),
            Metric::Instructions => {
                say(
                    "weir: without valgrind, instructions and cache misses are left out (sudo apt \
                     install valgrind)\n",
                );
            }
        }
    }
    metrics
}

/// Number of runs without and with --quick. The confidence intervals of times are computed over the
/// runs.
const RUNS: u32 = 10;
const QUICK_RUNS: u32 = 3;
