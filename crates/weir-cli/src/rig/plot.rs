//! Plots of results: the cost against the number of flows, or B-WFI against the weight. Each
//! algorithm has a curve for each kind of flow set.

use std::path::Path;

use weir_report::plot::{Axis, Curve, Plot, Shape, Size, Unit};
use weir_report::write_atomic;

use super::args::Metric;
use super::config::{Config, PictureFormat, picture_format};
use super::measure::Measured;
use crate::output::Failure;

/// A plot of the first metric or, if that is the delay, of B-WFI.
pub(crate) fn picture_of(config: &Config, measured: &[Measured]) -> Plot {
    match config.metrics.first() {
        Some(Metric::Wfi | Metric::Delay) => fairness(config, measured),
        _ => cost(config, measured),
    }
}

fn fairness(config: &Config, measured: &[Measured]) -> Plot {
    let rows = |m: &Measured| {
        m.run
            .wfi
            .iter()
            .flatten()
            .map(|row| [f64::from(row.weight), row.bwfi_packets])
            .collect::<Vec<_>>()
    };
    Plot {
        title: "worst-case fairness against weight".to_owned(),
        description: "B-WFI of each class of flows, in packets, against the class's weight"
            .to_owned(),
        x: Axis::log("weight", Unit::Count),
        y: Axis::linear("B-WFI in packets", Unit::Count),
        curves: curves(config, measured, |m| m.set.to_string(), rows),
    }
}

fn cost(config: &Config, measured: &[Measured]) -> Plot {
    let metric = config.metrics.first().copied().unwrap_or(Metric::Time);
    let (label, unit): (&str, Unit) = match metric {
        Metric::Time | Metric::Wfi | Metric::Delay => ("enqueue + dequeue", Unit::Nanoseconds),
        Metric::Instr => ("instructions of a pair", Unit::Count),
        Metric::Memory => ("memory of a flow", Unit::Bytes),
    };
    let value = |m: &Measured| match metric {
        Metric::Time | Metric::Wfi | Metric::Delay => m.run.ns_per_pair,
        Metric::Instr => m.run.instructions_per_pair,
        Metric::Memory => m.memory_of_flow(),
    };
    let rows =
        |m: &Measured| value(m).map(|value| [f64::from(m.set.len()), value]).into_iter().collect();
    Plot {
        title: format!("{label} against number of flows"),
        description: format!(
            "{label} of schedulers, {}, against the number of flows",
            config.order_text
        ),
        x: Axis::log("flows", Unit::Count),
        y: Axis::linear(label, unit),
        curves: curves(config, measured, weights, rows),
    }
}

/// The kind of a flow set in a plot of the cost: the weights of its groups.
fn weights(measured: &Measured) -> String {
    let weights: Vec<String> =
        measured.set.groups().iter().map(|group| format!("w{}", group.weight)).collect();
    weights.join(",")
}

/// A line and its points for each algorithm and each kind of flow set. Lines of kinds other than
/// the first are dashed.
fn curves(
    config: &Config,
    measured: &[Measured],
    kind: impl Fn(&Measured) -> String,
    rows: impl Fn(&Measured) -> Vec<[f64; 2]>,
) -> Vec<Curve> {
    let mut kinds: Vec<String> = Vec::new();
    for kind in measured.iter().map(&kind) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let mut curves = Vec::new();
    for (place, algorithm) in config.algorithms.iter().enumerate() {
        for (nth, name) in kinds.iter().enumerate() {
            // `measured` has the results set by set, each set with all algorithms in order.
            let own = measured
                .iter()
                .skip(place)
                .step_by(config.algorithms.len())
                .filter(|m| kind(m) == *name);
            let mut points: Vec<[f64; 2]> = own.flat_map(&rows).collect();
            if points.is_empty() {
                continue;
            }
            points.sort_by(|a, b| a[0].total_cmp(&b[0]));
            // The palette has seven colours, so every second group of seven algorithms has dashed
            // lines.
            let colour = (place % 7) as u8;
            let line = if place % 14 < 7 && nth == 0 {
                Shape::Line(points.clone())
            } else {
                Shape::Dashes(points.clone())
            };
            let label = if kinds.len() == 1 {
                algorithm.to_string()
            } else {
                format!("{algorithm} {name}")
            };
            curves.push(Curve::new(&label, colour, line));
            curves.push(Curve::new("", colour, Shape::Dots(points)));
        }
    }
    curves
}

/// Writes a picture in the format that the file name implies.
pub(crate) fn write(path: &Path, plot: &Plot) -> Result<(), Failure> {
    let bytes = match picture_format(path) {
        Some(PictureFormat::Png) => plot.png(SIZE).map_err(Failure::of_weir)?,
        _ => plot.standalone(SIZE).into_bytes(),
    };
    write_atomic(path, &bytes).map_err(Failure::of_weir)
}

const SIZE: Size = Size { width: 720, height: 420 };
