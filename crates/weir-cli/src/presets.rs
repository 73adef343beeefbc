//! `weir presets`: lists well-known networks and the sources of their values.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;
use weir_rules::presets::PRESETS;

use crate::args::JsonFlag;
use crate::output::{Failure, print};

pub(crate) fn list(args: &JsonFlag) -> Result<ExitCode, Failure> {
    if args.json {
        let rows: Vec<_> = PRESETS
            .iter()
            .map(|p| {
                json!({
                    "name": p.name,
                    "aliases": p.aliases,
                    "summary": p.summary,
                    "up": p.up,
                    "down": p.down,
                    "source": p.source,
                })
            })
            .collect();
        return print(&format!("{:#}\n", json!({ "presets": rows })));
    }
    let mut text = String::new();
    for p in PRESETS {
        let names =
            std::iter::once(p.name).chain(p.aliases.iter().copied()).collect::<Vec<_>>().join(", ");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{names}\n    {}\n    up    {}\n    down  {}\n    source: {}\n",
            p.summary, p.up, p.down, p.source
        );
    }
    text.push_str("Use one with `weir run --preset NAME -- CMD`.\n");
    print(&text)
}
