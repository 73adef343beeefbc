//! Results of scenarios, simulated or live: one or several runs, in readable and machine-readable
//! forms.
//!
//! [`Results`] holds the runs of one scenario, which differ in their seeds. [`to_json`] creates the
//! summary, [`to_html`] the report, and [`write()`] a directory with both and with the data in
//! Parquet files. None of them contains the date, the machine or the processor time, so equal runs
//! give equal bytes.

mod compare;
mod directory;
mod draft;
mod json;
mod metrics;
mod nodes;
pub(crate) mod parquet;
mod sweep;
pub mod tables;
mod trace;

pub use compare::{
    Agreement, Comparison, Difference, Side, Significance, Summary, SummaryError, Tolerance,
    compare,
};
pub use directory::{Contents, DirectoryError, write};
pub use draft::{Draft, PlaceError, check_place};
pub use json::{Scenario, Sweep, sweep_to_json, to_json, to_json_with};
pub use nodes::NodeOutcome;
pub use parquet::{Column, Table, TableError, TableWriter};
pub use sweep::{Settings, point_names, sweep_finding};
pub use trace::{TraceCapture, TraceTable, trace_rows};

pub use crate::html::sim::to_html;

pub(crate) use metrics::{
    Metric, estimate, merged_delay, merged_queue, metrics_of_flow, metrics_of_link,
};

use weir_measure::scenario::Outcome;

/// The runs of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The program that made the runs: `sim` or `live`.
    pub source: String,
    /// The text of the scenario, with the settings of the command line and of the point of a sweep;
    /// empty without a text.
    pub scenario: String,
    /// The runs in the order of their seeds; at least one. All have the same flows and links.
    pub runs: Vec<Outcome>,
    /// The hosts with programs, for each run; empty without such hosts.
    pub nodes: Vec<Vec<NodeOutcome>>,
}
