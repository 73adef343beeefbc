//! Results of simulated scenarios, and of the same scenarios live: one or several runs in the forms
//! that people and programs read.
//!
//! [`Results`] holds the runs of one scenario, which differ in their seeds. [`to_json`] is the
//! summary for programs, [`to_html`] the report, and [`write()`] a directory with all of it and the
//! data in Parquet files. Nothing in these says when, where or for how long a machine worked: the
//! same runs give the same bytes.

mod compare;
mod directory;
mod figures;
mod json;
pub(crate) mod parquet;
mod tables;
mod trace;

pub use compare::{Comparison, Difference, Side, Significance, Summary, SummaryError, compare};
pub use directory::{Contents, DirectoryError, write};
pub use json::{Scenario, Sweep, sweep_to_json, to_json, to_json_with};
pub use parquet::{Column, Table, TableError, TableWriter};
pub use trace::{TraceCapture, TraceTable};

pub use crate::html::sim::to_html;

pub(crate) use figures::{
    Figure, estimate, figures_of_flow, figures_of_link, merged_delay, merged_queue,
};

use weir_measure::scenario::Outcome;

/// The runs of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// What made them: `sim`, `live`.
    pub source: String,
    /// The scenario file's text; empty when there is none.
    pub scenario: String,
    /// Each run, in the order of their seeds; at least one. All have the same flows and links.
    pub runs: Vec<Outcome>,
}
