//! `weir schema`: prints the JSON Schema of the documents that commands write, or a reference of
//! the documents in Markdown.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weir_control::api::{EventSample, Interval, LengthsView};
use weir_measure::document::{Kind, Schemas, markdown};
use weir_measure::watch::DeviceSummary;
use weir_report::finding::Finding;
use weir_report::sim::{Comparison, Scenario, Sweep};

use crate::agent::LogLine;
use crate::output::{Failure, print};
use crate::reproduce::document::ExperimentDocument;

/// Options of `weir schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The documents to describe.
    #[arg(value_enum)]
    family: Family,
    /// Print a reference in Markdown in place of the schema.
    #[arg(long)]
    markdown: bool,
}

/// A family of documents.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    /// The results that commands write with `--json`.
    Results,
    /// The events that `weir agent --json` prints.
    Agent,
}

/// Prints the schema.
pub(crate) fn print_schema(args: &SchemaArgs) -> Result<ExitCode, Failure> {
    let schema = match args.family {
        Family::Results => results(),
        Family::Agent => schemars::schema_for!(LogLine<'_>).to_value(),
    };
    if args.markdown {
        return print(&markdown(&schema));
    }
    print(&format!("{schema:#}\n"))
}

fn results() -> serde_json::Value {
    Schemas::new()
        .with::<weir_report::Run<'_>>(Kind::Run)
        .with::<Interval>(Kind::Interval)
        .with::<Scenario<'_>>(Kind::Scenario)
        .with::<Sweep<'_>>(Kind::Sweep)
        .with::<crate::sweep::Campaign>(Kind::Campaign)
        .with::<Comparison>(Kind::Comparison)
        .with::<weir_rig::report::Report>(Kind::Rig)
        .with::<weir_rig::conformance::Outcome>(Kind::Case)
        .with::<weir_rig::replay::Replay>(Kind::Replay)
        .with::<ExperimentDocument<'_>>(Kind::Experiment)
        .with::<Finding>(Kind::Suite)
        .with::<DeviceSummary>(Kind::Watch)
        .with::<EventSample>(Kind::Sample)
        .with::<LengthsView>(Kind::Lengths)
        .finish()
}
