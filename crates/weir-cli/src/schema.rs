//! `weir schema`: prints the JSON Schema of the documents that commands write, or a reference of
//! the documents in Markdown.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weir_control::api::{EventSample, Interval, LengthsView};
use weir_measure::document::{Kind, Schemas, markdown, markdown_of_one};
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

pub(crate) fn print_schema(args: &SchemaArgs) -> Result<ExitCode, Failure> {
    print(&match (args.family, args.markdown) {
        (Family::Results, true) => markdown(&results()),
        (Family::Agent, true) => markdown_of_one(&agent()),
        (Family::Results, false) => format!("{:#}\n", results()),
        (Family::Agent, false) => format!("{:#}\n", agent()),
    })
}

fn agent() -> serde_json::Value {
    schemars::schema_for!(LogLine<'_>).to_value()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_of_the_agents_events_has_their_keys_and_no_kinds_of_results() {
        let text = markdown_of_one(&agent());
        for key in ["time", "event", "source", "links", "reason", "### LogLink"] {
            assert!(text.contains(key), "{key}: {text}");
        }
        assert!(!text.contains("written by"), "{text}");
    }
}
