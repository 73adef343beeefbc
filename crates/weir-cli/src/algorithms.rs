//! `weir algorithms`: the engine's tables, for people and programs.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;
use weir_core::sched::{Kind, Row, Scope, TABLE};
use weir_rig::dcf;

use crate::args::AlgorithmsArgs;
use crate::output::{Failure, print};

/// Lists every algorithm.
pub(crate) fn list(args: &AlgorithmsArgs) -> Result<ExitCode, Failure> {
    if args.check.is_some() {
        return check_medium(args.json);
    }
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
            let _ = writeln!(text, "    {:<6}{:<12}{} (default {default}): {}", scope(p.scope), p.name, p.domain, p.summary);
        }
    }
    print(&text)
}

/// The 802.11b medium beside Bianchi's model of it.
fn check_medium(json: bool) -> Result<ExitCode, Failure> {
    let found: Vec<_> = dcf::STATIONS.iter().map(|&n| dcf::saturation(&Kind::Dcf.into(), n, dcf::PACKET, dcf::PACKETS)).collect();
    if json {
        return print(&format!("{:#}\n", json!({ "dcf": found })));
    }
    let mut text =
        format!("802.11b at 11 Mbit/s, long preamble, packets of {} bytes: throughput of stations that always have some\n\n", dcf::PACKET);
    text.push_str("stations   simulated       Bianchi    apart   collisions   Bianchi   given up\n");
    for f in found {
        let (mbps, percent) = (|bps: f64| bps / 1e6, |share: f64| share * 100.0);
        let _ = writeln!(
            text,
            "{:>8} {:>8.3} Mbit/s {:>6.3} Mbit/s {:>6.2}% {:>11.2}% {:>8.2}% {:>9.3}%",
            f.stations,
            mbps(f.simulated_bps),
            mbps(f.model_bps),
            percent(f.error()),
            percent(f.simulated_collisions),
            percent(f.model_collisions),
            percent(f.given_up)
        );
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
        Scope::Aqm => "aqm",
    }
}
