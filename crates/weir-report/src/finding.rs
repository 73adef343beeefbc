//! The finding of an experiment as plain data: tables of published and measured values, claims with
//! their verdicts, and plots. Other modules print and draw it.

use schemars::JsonSchema;
use serde::Serialize;

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

    /// Three cells: published, measured, and the difference.
    pub fn compared(published: f64, measured: f64, decimals: u8) -> [Self; 3] {
        [
            Self::number(published, decimals),
            Self::number(measured, decimals),
            Self::difference(published, measured),
        ]
    }

    /// The displayed text of the cell.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => "-".to_owned(),
            Self::Text(text) => text.clone(),
            Self::Number { value, decimals } => format!("{value:.*}", usize::from(*decimals)),
            Self::Percent { percent } => format!("{percent:+.1} %"),
        }
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

/// A claim of a publication with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claim {
    /// The claim.
    pub words: String,
    /// Whether the claim holds here; `None` if it could not be tested.
    pub holds: Option<bool>,
    /// The measured values that support the verdict.
    pub detail: String,
}

impl Claim {
    /// A tested claim.
    pub fn tried(words: impl Into<String>, holds: bool, detail: impl Into<String>) -> Self {
        Self { words: words.into(), holds: Some(holds), detail: detail.into() }
    }

    /// A claim with its verdict and the measured values; `None` if it could not be tested.
    pub fn judged(words: impl Into<String>, seen: Option<(bool, String)>) -> Self {
        let (holds, detail) =
            seen.map_or((None, String::new()), |(holds, detail)| (Some(holds), detail));
        Self { words: words.into(), holds, detail }
    }
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

    #[test]
    fn a_value_that_is_not_finite_is_an_empty_cell() {
        assert_eq!(Cell::number(f64::NAN, 1), Cell::Empty);
        assert_eq!(Cell::difference(0.0, 1.0), Cell::Empty);
        let texts: Vec<_> = Cell::compared(200.0, 190.0, 1).iter().map(Cell::text).collect();
        assert_eq!(texts, ["200.0", "190.0", "-5.0 %"]);
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
