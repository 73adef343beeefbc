//! Converts the plots of findings to drawable plots.

use crate::finding as found;

use super::{Axis, Curve, Plot, Scale, Shape, Unit};

impl From<&found::Plot> for Plot {
    fn from(plot: &found::Plot) -> Self {
        let curves = plot.series.iter().enumerate();
        let mut x = Axis::from(&plot.x);
        x.range = range_with_margin(plot);
        Self {
            title: plot.title.clone(),
            description: plot.description.clone(),
            x,
            y: (&plot.y).into(),
            curves: curves
                .map(|(n, series)| Curve {
                    name: named(series),
                    colour: (n % COLOURS) as u8,
                    shape: shape(series),
                })
                .collect(),
        }
    }
}

impl From<&found::Axis> for Axis {
    fn from(axis: &found::Axis) -> Self {
        let unit = match axis.unit {
            found::Unit::BitsPerSecond => Unit::BitsPerSecond,
            found::Unit::Nanoseconds => Unit::Nanoseconds,
            found::Unit::Seconds => Unit::Seconds,
            found::Unit::Bytes => Unit::Bytes,
            found::Unit::Count => Unit::Count,
            found::Unit::Fraction => Unit::Fraction,
        };
        let scale = if axis.log { Scale::Log } else { Scale::Linear };
        Self { label: axis.label.clone(), unit, scale, range: None }
    }
}

/// The name of a curve, followed by its provenance if it has one.
fn named(series: &found::Series) -> String {
    match &series.provenance {
        Some(provenance @ found::Provenance::Measured { program, .. }) => {
            format!("{} ({} by us with {program})", series.name, provenance.kind())
        }
        Some(provenance) => format!("{} ({})", series.name, provenance.kind()),
        None => series.name.clone(),
    }
}

fn shape(series: &found::Series) -> Shape {
    let points = series.points.clone();
    match series.style {
        found::Style::Line => Shape::Line(points),
        found::Style::Dashes => Shape::Dashes(points),
        found::Style::Dots => Shape::Dots(points),
        found::Style::Steps => Shape::Steps(points),
    }
}

/// The range of the horizontal axis with a margin; `None` unless the axis is logarithmic and all
/// curves are drawn as points. Without the margin, the outermost points would be on the frame.
fn range_with_margin(plot: &found::Plot) -> Option<(f64, f64)> {
    let dots = plot.x.log && plot.series.iter().all(|series| series.style == found::Style::Dots);
    let values = || {
        plot.series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point[0])
            .filter(|&x| x > 0.0)
    };
    let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
    dots.then_some((least / ROOM, most * ROOM))
}

/// The margin as a factor.
const ROOM: f64 = 1.3;
/// The number of colours in the palette.
const COLOURS: usize = 7;
