//! Results as pictures: cost against the number of flows, one curve for each algorithm.

use std::path::Path;

use weir_report::plot::{Axis, Curve, Plot, Shape, Size, Unit};
use weir_report::write_atomic;

use super::args::Metric;
use super::config::{Config, Picture, picture};
use super::measure::Measured;
use crate::output::Failure;

/// The first metric against the number of flows.
pub(crate) fn cost(config: &Config, measured: &[Measured]) -> Plot {
    let metric = config.metrics.first().copied().unwrap_or(Metric::Time);
    let (label, unit): (&str, Unit) = match metric {
        Metric::Time => ("enqueue + dequeue", Unit::Nanoseconds),
        Metric::Instr => ("instructions of a pair", Unit::Count),
        Metric::Memory => ("memory of a flow", Unit::Bytes),
    };
    let value = |m: &Measured| match metric {
        Metric::Time => m.run.ns_per_pair,
        Metric::Instr => m.run.instructions_per_pair,
        Metric::Memory => m.memory.map(|memory| memory.flows as f64 / f64::from(m.set.len())),
    };
    let mut curves = Vec::new();
    for (place, algorithm) in config.algorithms.iter().enumerate() {
        let own = measured.iter().skip(place).step_by(config.algorithms.len());
        let mut points: Vec<[f64; 2]> = own.filter_map(|m| Some([f64::from(m.set.len()), value(m)?])).collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        // The palette has seven colours; the next seven are dashed.
        let colour = (place % 7) as u8;
        let line = if place % 14 < 7 { Shape::Line(points.clone()) } else { Shape::Dashes(points.clone()) };
        curves.push(Curve::new(&algorithm.to_string(), colour, line));
        curves.push(Curve::new("", colour, Shape::Dots(points)));
    }
    Plot {
        title: format!("{label} against number of flows"),
        description: format!("{label} of schedulers, {}, against the number of flows", config.order_text),
        x: Axis::log("flows", Unit::Count),
        y: Axis::linear(label, unit),
        curves,
    }
}

/// Writes a picture of the kind that the file's name asks for.
pub(crate) fn write(path: &Path, plot: &Plot) -> Result<(), Failure> {
    let bytes = match picture(path) {
        Some(Picture::Png) => plot.png(SIZE).map_err(Failure::own)?,
        _ => plot.standalone(SIZE).into_bytes(),
    };
    write_atomic(path, &bytes).map_err(Failure::own)
}

const SIZE: Size = Size { width: 720, height: 420 };
