//! Loads the scenario of a live run, with the changes of the command line.

use std::path::Path;

use weir_live::scenario::check;
use weir_rules::{Diagnostics, Files as _};
use weir_sim::disk::Beside;
use weir_sim::disk::Disk;
use weir_sim::scenario::{Checked, EditError, Edited, Scenario, parse_edited};

use super::LiveArgs;
use crate::output::{Failure, USAGE, colour, say_coloured};

#[derive(Debug)]
pub(super) struct Source {
    pub(super) scenario: Scenario,
    /// The text with the changes of the command line.
    pub(super) text: String,
    /// The name of the file, for messages.
    pub(super) file: String,
}

/// Reads the scenario. Refuses a scenario with parts that cannot run live.
pub(super) fn load(args: &LiveArgs) -> Result<Source, Failure> {
    let file = args.scenario.display().to_string();
    let text = Disk
        .read(&file)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {file}: {error}")))?;
    let mut edited = Edited::new(&text);
    for (key, value) in &args.settings {
        match edited.set(key, value) {
            // The parser reports errors in the text.
            Ok(()) | Err(EditError::Text) => {}
            Err(error) => return Err(Failure::new(USAGE, format!("--set {key}={value}: {error}"))),
        }
    }
    let files = Beside(args.scenario.parent().unwrap_or(Path::new("")));
    let Checked { scenario, mut diagnostics } =
        parse_edited(&edited, &file, "the command line", &files);
    let refused = |diagnostics: &Diagnostics| {
        Failure::new(USAGE, format!("{}\n", diagnostics.render(colour()).trim_end()))
    };
    let Some(mut scenario) = scenario else { return Err(refused(&diagnostics)) };
    diagnostics.append(check(&scenario, &edited.text, &file, args.mtu), |_| {});
    if diagnostics.has_errors() {
        return Err(refused(&diagnostics));
    }
    if !diagnostics.is_empty() && !args.quiet {
        say_coloured(format_args!("{}\n\n", diagnostics.render(colour()).trim_end()));
    }
    if scenario.name.is_empty() {
        scenario.name = args
            .scenario
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    // `--runs` determines the number of live runs.
    scenario.runs = 1;
    Ok(Source { scenario, text: edited.text, file })
}
