//! `--rules FILE`: reads and checks the rules before anything starts.

use std::path::Path;

use weir_report::format::printable;
use weir_rules::ruleset::Ruleset;
use weir_rules::script;
use weir_sim::disk::{Disk, ScriptFiles};

use crate::output::{Failure, USAGE, colour, say, say_coloured};

/// Reads the rules in a file. Prints warnings to stderr.
pub(crate) fn read(path: &Path) -> Result<Ruleset, Failure> {
    let name = path.display().to_string();
    let text = weir_rules::Files::read(&Disk, &name)
        .map_err(|error| Failure::new(USAGE, format!("--rules {name}: {error}")))?;
    let script::Parsed { commands, diagnostics } = script::parse(&text, &name, &ScriptFiles(path));
    if diagnostics.has_errors() {
        return Err(Failure::new(
            USAGE,
            format!(
                "weir: --rules {} cannot be used\n{}\n",
                printable(&name),
                diagnostics.render(colour()).trim_end()
            ),
        ));
    }
    if !diagnostics.is_empty() {
        say_coloured(format_args!(
            "weir: about {}:\n{}\n",
            printable(&name),
            diagnostics.render(colour()).trim_end()
        ));
    }
    let mut ruleset = Ruleset::default();
    ruleset
        .apply_all(&commands)
        .map_err(|error| Failure::new(USAGE, format!("--rules {name}: {error}")))?;
    for warning in ruleset.configuration_warnings() {
        say(format_args!("weir: warning: {name}: {warning}\n"));
    }
    Ok(ruleset)
}
