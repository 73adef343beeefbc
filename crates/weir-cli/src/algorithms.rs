//! `weir algorithms`: the engine's tables, for people and programs.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;
use weir_core::sched::{Row, Scope, TABLE};

use crate::args::JsonFlag;
use crate::output::{Failure, print};

/// Lists every algorithm.
pub(crate) fn list(args: &JsonFlag) -> Result<ExitCode, Failure> {
    if args.json {
        let rows: Vec<_> = TABLE.iter().map(to_json).collect();
        return print(&format!("{:#}\n", json!({ "schedulers": rows })));
    }
    let mut text = String::from(
        "Schedulers: which flow's packet goes next\nParameters are given to `sched N config type NAME` or to `queue N config sched N`.\n",
    );
    for row in TABLE {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n  {:<12}{}", row.name, row.summary);
        let _ = writeln!(text, "  {:<12}{}; {}", "", row.complexity, row.source);
        for p in row.parameters {
            let default = p.domain.write(p.default);
            let _ = writeln!(text, "    {:<6}{:<10}{} (default {default}): {}", scope(p.scope), p.name, p.domain, p.summary);
        }
    }
    print(&text)
}

fn to_json(row: &Row) -> serde_json::Value {
    let parameters: Vec<_> = row
        .parameters
        .iter()
        .map(|p| json!({ "name": p.name, "scope": scope(p.scope), "range": p.domain.to_string(), "default": p.domain.write(p.default), "summary": p.summary }))
        .collect();
    json!({ "name": row.name, "aliases": row.aliases, "weighted": row.weighted, "work_conserving": row.work_conserving, "summary": row.summary, "source": row.source, "complexity": row.complexity, "parameters": parameters })
}

/// The command that a parameter is given to.
fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Flow => "queue",
        Scope::Scheduler => "sched",
    }
}
