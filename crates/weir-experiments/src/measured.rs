//! An experiment that the rig measures: what to measure, and the finding that follows.
//!
//! The caller makes the measurement, because a measurement starts processes and shows progress.

use weir_report::finding::{Cell, Finding, Quantity};
use weir_rig::Algorithm;
use weir_rig::report::Run;

/// An experiment that the rig measures.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Name on the command line.
    pub name: &'static str,
    /// One line that says what the experiment shows.
    pub summary: &'static str,
    /// The publication.
    pub source: &'static str,
    /// The measured cases.
    pub measurements: &'static [Measurement],
    /// Makes the finding from the rows of all measurements.
    pub finding: fn(&[Row]) -> Finding,
}

/// A measurement of several algorithms under the same conditions.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Name of the measurement's plot.
    pub plot: &'static str,
    /// The schedulers, in the syntax of the rig.
    pub algorithms: &'static [&'static str],
    /// The sets of flows, in the syntax of the rig.
    pub flows: &'static [&'static str],
    /// The order of arrivals, in the syntax of the rig.
    pub order: &'static str,
    /// The metrics to measure.
    pub metrics: &'static [Metric],
}

/// A metric of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Processor time of a pair of enqueue and dequeue.
    Time,
    /// Instructions and cache misses of a pair, if the machine can count them.
    Instructions,
    /// Worst-case fairness.
    Fairness,
}

/// The results of one algorithm with one set of flows.
#[derive(Clone, Debug)]
pub struct Row {
    /// The set of flows, in the syntax of the rig.
    pub flows: String,
    /// The values. Those that were not measured are missing.
    pub run: Run,
    /// Processor time of a pair in each run, ns. In a measurement, the runs of all algorithms with
    /// one set of flows alternate, so their runs at the same index were made one after the other.
    pub times: Vec<f64>,
}

impl Row {
    /// The B-WFI of the worst class of flows, in packets of the largest size.
    pub(crate) fn worst_wfi(&self) -> Option<f64> {
        self.run.wfi.as_ref()?.iter().map(|row| row.bwfi_packets).max_by(f64::total_cmp)
    }

    /// The largest mean deviation of a class of flows from the fluid, in packets of the class's
    /// largest size.
    pub(crate) fn mean_deviation(&self) -> Option<f64> {
        self.run.wfi.as_ref()?.iter().filter_map(|row| row.deviation_packets).max_by(f64::total_cmp)
    }
}

/// The first value that `value` finds in the rows of an algorithm and a set of flows.
pub(crate) fn value(
    rows: &[Row],
    name: &str,
    flows: &str,
    value: fn(&Row) -> Option<f64>,
) -> Option<f64> {
    let algorithm = Algorithm::parse(name).ok()?.to_string();
    rows.iter().filter(|row| row.run.alg == algorithm && row.flows == flows).find_map(value)
}

pub(crate) fn cell(value: Option<f64>, decimals: u8) -> Cell {
    value.map_or(Cell::Empty, |value| Cell::number(value, decimals))
}

/// The times of an algorithm with a set of flows, by run, ns; empty if they were not measured.
pub(crate) fn times<'a>(rows: &'a [Row], name: &str, flows: &str) -> &'a [f64] {
    let Ok(algorithm) = Algorithm::parse(name) else { return &[] };
    let algorithm = algorithm.to_string();
    rows.iter()
        .find(|row| row.run.alg == algorithm && row.flows == flows && !row.times.is_empty())
        .map_or(&[], |row| &row.times)
}

/// The mean time of a pair over the runs, ns.
pub(crate) fn time(rows: &[Row], name: &str, flows: &str) -> Quantity {
    Quantity::of_runs(times(rows, name, flows))
}

/// The quotient of the times of two algorithms with sets of flows, over the runs.
pub(crate) fn time_ratio(rows: &[Row], over: (&str, &str), under: (&str, &str)) -> Quantity {
    Quantity::ratio(times(rows, over.0, over.1), times(rows, under.0, under.1))
}

/// The quotient of two exact values; unmeasured if one is missing.
pub(crate) fn ratio(over: Option<f64>, under: Option<f64>) -> Quantity {
    Quantity::exact(over.zip(under).map(|(over, under)| over / under))
}

#[cfg(test)]
mod tests {
    use weir_report::finding::{Claim, Verdict};
    use weir_rig::flows::sweep;

    use super::*;
    use crate::MEASURED;

    #[test]
    fn every_measurement_names_algorithms_and_flows_of_the_rig() {
        for measurement in MEASURED.iter().flat_map(|experiment| experiment.measurements) {
            for name in measurement.algorithms {
                assert!(Algorithm::parse(name).is_ok(), "{name}");
            }
            for flows in measurement.flows {
                assert!(sweep(flows).is_ok(), "{flows}");
            }
        }
    }

    #[test]
    fn claims_about_unmeasured_values_cannot_be_judged() {
        for experiment in MEASURED {
            let finding = (experiment.finding)(&[]);
            let cannot_be_judged = |claim: &Claim| claim.verdict() == Verdict::CannotBeJudged;
            assert!(finding.claims.iter().all(cannot_be_judged), "{finding:?}");
            assert!(!finding.tables.is_empty());
        }
    }
}
