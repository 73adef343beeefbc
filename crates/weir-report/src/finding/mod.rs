//! The finding of an experiment as plain data: tables with reference values next to measured ones,
//! claims with their verdicts, and plots. Other modules print and draw it.
//!
//! Each reference value, each claim and each curve of reference values has its [`Provenance`].
//! Measured values are [`Quantity`]s with intervals, by which [`Claim`]s are judged.

mod claim;
mod provenance;
mod quantity;

use schemars::JsonSchema;
use serde::Serialize;

pub use claim::{Claim, Condition, Range, Verdict};
pub use provenance::Provenance;
pub use quantity::{Basis, Quantity};

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// A description of the experiment in one sentence.
    pub title: String,
    /// Tables of results.
    pub tables: Vec<Table>,
    /// The publication's claims with their verdicts.
    pub claims: Vec<Claim>,
    /// Plots.
    pub plots: Vec<Plot>,
    /// Overviews: a value of each subject in each situation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<Matrix>,
    /// Remarks that a reader needs to judge the finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Finding {
    /// The distinct provenances of tables, curves and claims, in the order of appearance. A mark
    /// `[n]` next to a reference value refers to the *n*-th provenance, from 1.
    pub fn provenances(&self) -> Vec<&Provenance> {
        let cells = self.tables.iter().flat_map(|table| &table.rows).flatten();
        let curves = self.plots.iter().flat_map(|plot| &plot.series);
        let all = cells
            .filter_map(Cell::provenance)
            .chain(curves.filter_map(|series| series.provenance.as_ref()))
            .chain(self.claims.iter().map(Claim::provenance));
        let mut distinct = Vec::new();
        for provenance in all {
            if !distinct.contains(&provenance) {
                distinct.push(provenance);
            }
        }
        distinct
    }

    /// The number of claims with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict() == verdict).count()
    }
}

/// The mark of a provenance, shown next to a value: its number in the list of
/// [`Finding::provenances`], or nothing if the list does not contain the provenance.
pub fn mark(provenances: &[&Provenance], provenance: &Provenance) -> String {
    let place = provenances.iter().position(|each| *each == provenance);
    place.map_or_else(String::new, |place| format!("[{}]", place + 1))
}

/// A table of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    /// The title, with the units.
    pub title: String,
    /// The headings of the columns.
    pub columns: Vec<String>,
    /// The rows, with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells at the end are empty.
    pub fn row(&mut self, mut cells: Vec<Cell>) {
        cells.resize(self.columns.len(), Cell::Empty);
        self.rows.push(cells);
    }
}

/// One quantity of several subjects in several situations, for a table with coloured cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Matrix {
    /// The quantity, with its unit.
    pub title: String,
    /// The subjects, one for each column.
    pub columns: Vec<String>,
    /// The situations, one for each row.
    pub rows: Vec<String>,
    /// The values by row and column; null where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// Whether a greater value is better.
    pub more_is_better: bool,
    /// The number of decimals to show.
    #[serde(skip)]
    pub decimals: u8,
}

impl Matrix {
    /// The distance of a cell from the best value of its row, from 0 (the best value) to 1. Where
    /// more is better, half of the best value has distance 1. Where less is better, a hundred times
    /// the best value has distance 1. Values within 2 % of the best one are equally good.
    /// Situations differ far more than subjects, so only values of one row are compared.
    pub fn distance(&self, row: usize, column: usize) -> Option<f64> {
        let values = self.values.get(row)?;
        let value = (*values.get(column)?)?;
        let pick = if self.more_is_better { f64::max } else { f64::min };
        // Values that are shown as 0 are equally good.
        let least = (0..self.decimals).fold(1.0, |least, _| least / 10.0);
        let best = values.iter().flatten().copied().reduce(pick)?.max(least);
        let value = value.max(0.0);
        let part = if self.more_is_better {
            2.0 * (best - value) / best
        } else {
            (value / best).max(1.0).log10() / 2.0
        };
        let near = (value - best).abs() <= best * 0.02;
        Some(if near { 0.0 } else { part.clamp(0.0, 1.0) })
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// An unknown value.
    #[default]
    Empty,
    /// Text.
    Text(String),
    /// A number in the unit of the column.
    Number {
        /// The number.
        value: f64,
        /// The number of decimals to show.
        #[serde(skip)]
        decimals: u8,
    },
    /// A difference in percent.
    Percent {
        /// The difference.
        percent: f64,
    },
    /// A published value, or a value of another program, for comparison with measured values.
    Reference {
        /// The value as text.
        text: String,
        /// The value as a number, if it is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<f64>,
        /// Where it comes from.
        provenance: Provenance,
    },
    /// The mean of a measured quantity over several runs.
    Mean {
        /// The mean.
        value: f64,
        /// Half the width of its 95 % interval.
        half_width: f64,
        /// Number of runs.
        runs: u64,
        /// The number of decimals to show.
        #[serde(skip)]
        decimals: u8,
    },
}

impl Cell {
    /// A number with this many decimals.
    pub fn number(value: f64, decimals: u8) -> Self {
        if value.is_finite() { Self::Number { value, decimals } } else { Self::Empty }
    }

    /// The difference of `measured` from `published`, in percent of `published`.
    pub fn difference(published: f64, measured: f64) -> Self {
        let percent = difference(published, measured);
        if percent.is_finite() { Self::Percent { percent } } else { Self::Empty }
    }

    /// A measured quantity with this many decimals, and with its interval if it has one.
    pub fn quantity(quantity: &Quantity, decimals: u8) -> Self {
        match (quantity.mean(), quantity.half_width()) {
            (Some(value), Some(half_width)) => {
                Self::Mean { value, half_width, runs: quantity.runs(), decimals }
            }
            (Some(value), None) => Self::number(value, decimals),
            (None, _) => Self::Empty,
        }
    }

    /// A reference value with this many decimals.
    pub fn reference(value: f64, decimals: u8, provenance: Provenance) -> Self {
        let text = format!("{value:.*}", usize::from(decimals));
        Self::Reference { text, value: Some(value), provenance }
    }

    /// A reference that is not a single number.
    pub fn quoted(text: impl Into<String>, provenance: Provenance) -> Self {
        Self::Reference { text: text.into(), value: None, provenance }
    }

    /// Three cells: a reference value, the measured quantity, and the difference.
    pub fn compared(
        reference: f64,
        provenance: Provenance,
        measured: &Quantity,
        decimals: u8,
    ) -> [Self; 3] {
        [
            Self::reference(reference, decimals, provenance),
            Self::quantity(measured, decimals),
            measured.mean().map_or(Self::Empty, |mean| Self::difference(reference, mean)),
        ]
    }

    /// The provenance of a reference value.
    pub const fn provenance(&self) -> Option<&Provenance> {
        match self {
            Self::Reference { provenance, .. } => Some(provenance),
            _ => None,
        }
    }

    /// The displayed text of the cell, without the mark of its provenance.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => "-".to_owned(),
            Self::Text(text) | Self::Reference { text, .. } => text.clone(),
            Self::Number { value, decimals } => format!("{value:.*}", usize::from(*decimals)),
            Self::Percent { percent } => format!("{percent:+.1} %"),
            Self::Mean { value, half_width, decimals, .. } => {
                let decimals = usize::from(*decimals);
                format!("{value:.decimals$} ± {half_width:.decimals$}")
            }
        }
    }

    /// The displayed text with the mark of the provenance in a list of
    /// [`Finding::provenances`].
    pub fn marked(&self, provenances: &[&Provenance]) -> String {
        let text = self.text();
        self.provenance()
            .map_or_else(|| text.clone(), |own| format!("{text} {}", mark(provenances, own)))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The difference of `measured` from `published`, in percent of `published`.
pub fn difference(published: f64, measured: f64) -> f64 {
    (measured - published) / published * 100.0
}

/// Curves over a pair of axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Plot {
    /// The plot's part of a file name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Description of the plot as alternative text.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves; the first one is drawn first, below the others.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Axis {
    /// The label.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Whether the scale is logarithmic.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, log: false }
    }
}

/// The unit of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A rate in bit/s.
    BitsPerSecond,
    /// A duration in ns.
    Nanoseconds,
    /// Time since the beginning, in s.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number without a unit.
    #[default]
    Count,
    /// A fraction, 0 to 1.
    Fraction,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The drawing style.
    pub style: Style,
    /// Points `[x, y]`, ascending in x.
    pub points: Vec<[f64; 2]>,
    /// Where the points come from, if they were not measured here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// The drawing style of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Straight lines from point to point.
    #[default]
    Line,
    /// Dashed lines from point to point.
    Dashes,
    /// Only points.
    Dots,
    /// Steps: each value holds until the next one.
    Steps,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Provenance = Provenance::Published { document: "A", place: "table 1" };

    #[test]
    fn a_value_that_is_not_finite_is_an_empty_cell() {
        assert_eq!(Cell::number(f64::NAN, 1), Cell::Empty);
        assert_eq!(Cell::difference(0.0, 1.0), Cell::Empty);
        let measured = Quantity::exact(190.0);
        let texts: Vec<_> =
            Cell::compared(200.0, PAPER, &measured, 1).iter().map(Cell::text).collect();
        assert_eq!(texts, ["200.0", "190.0", "-5.0 %"]);
        let several = Cell::quantity(&Quantity::of_runs(&[3.0, 4.0, 5.0, 6.0, 7.0]), 1);
        assert_eq!(several.text(), "5.0 ± 2.0");
    }

    #[test]
    fn each_reference_has_the_mark_of_its_provenance() {
        let other = Provenance::Inferred { from: "b" };
        let mut table = Table::new("t", &["a", "b"]);
        table.row(vec![Cell::reference(1.0, 0, PAPER), Cell::quoted("2 / 3", other)]);
        table.row(vec![Cell::reference(4.0, 0, PAPER), Cell::number(5.0, 0)]);
        let claims = vec![Claim::new("c", other)];
        let finding = Finding { tables: vec![table], claims, ..Finding::default() };
        let provenances = finding.provenances();
        assert_eq!(provenances, [&PAPER, &other]);
        let marked: Vec<_> =
            finding.tables[0].rows.iter().flatten().map(|cell| cell.marked(&provenances)).collect();
        assert_eq!(marked, ["1 [1]", "2 / 3 [2]", "4 [1]", "5"]);
    }

    #[test]
    fn cells_of_a_matrix_are_compared_within_their_row() {
        let matrix = Matrix {
            values: vec![
                vec![Some(10.0), Some(1000.0), Some(100.0)],
                vec![Some(1000.0), Some(1001.0), None],
            ],
            ..Matrix::default()
        };
        let row = |row| [0, 1, 2].map(|column| matrix.distance(row, column));
        assert_eq!(row(0), [Some(0.0), Some(1.0), Some(0.5)]);
        assert_eq!(row(1), [Some(0.0), Some(0.0), None], "they are equally good");
        let more = Matrix {
            more_is_better: true,
            values: vec![vec![Some(40.0), Some(30.0), Some(1.0), Some(39.5)]],
            ..matrix
        };
        let row = [0, 1, 2, 3].map(|column| more.distance(0, column));
        assert_eq!(row, [Some(0.0), Some(0.5), Some(1.0), Some(0.0)]);
    }

    #[test]
    fn rows_have_as_many_cells_as_there_are_columns() {
        let mut table = Table::new("t", &["a", "b"]);
        table.row(vec!["x".into()]);
        assert_eq!(table.rows, [[Cell::from("x"), Cell::Empty]]);
    }

    #[test]
    fn cells_are_numbers_in_results() {
        let text = serde_json::to_string(&[Cell::number(1.5, 0), Cell::Empty, "a".into()]).unwrap();
        assert_eq!(text, r#"[{"value":1.5},null,"a"]"#);
    }
}
