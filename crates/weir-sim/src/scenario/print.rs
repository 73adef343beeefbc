//! A readable summary of a scenario.

use std::fmt::Write as _;

use super::{Root, Scenario, Words};
use crate::topology::Topology;

/// Duration, runs, nodes, programs, links, routes, traffic and sweeps of a scenario, with a final
/// newline.
pub fn summary(scenario: &Scenario) -> String {
    let mut out = String::new();
    let name = |node: usize| scenario.nodes[node].name.as_str();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{} for {}",
        if scenario.name.is_empty() { "scenario" } else { &scenario.name },
        scenario.duration
    );
    if scenario.warmup.0 > 0 {
        let _ = write!(out, ", measured from {} on", scenario.warmup);
    }
    let _ = writeln!(
        out,
        "; seed {}, {} run{}",
        scenario.seed,
        scenario.runs,
        if scenario.runs == 1 { "" } else { "s" }
    );
    for kind in ["host", "router", "switch"] {
        let names: Vec<&str> = scenario
            .nodes
            .iter()
            .filter(|node| node.kind.name() == kind)
            .map(|node| node.name.as_str())
            .collect();
        if !names.is_empty() {
            let _ = writeln!(
                out,
                "{kind}{}: {}",
                if names.len() == 1 {
                    ""
                } else if kind == "switch" {
                    "es"
                } else {
                    "s"
                },
                listed(&names)
            );
        }
    }
    programs(&mut out, scenario);
    for link in scenario.links.iter().take(MAX_LINES) {
        for (side, direction) in link.directions.iter().enumerate() {
            let words = direction.words();
            let words = if words.is_empty() { "perfect" } else { &words };
            let _ = writeln!(
                out,
                "link {}: {} → {}: {words}",
                direction.name,
                name(link.ends[side]),
                name(link.ends[1 - side])
            );
            for (class, queue) in direction.queue_words().iter().enumerate() {
                let _ = writeln!(out, "  class {class}: {queue}");
            }
        }
    }
    more(&mut out, scenario.links.len());
    for route in &scenario.routes {
        let nodes: Vec<&str> = route.nodes.iter().map(|&node| name(node)).collect();
        let _ = writeln!(out, "route: {}", nodes.join(" → "));
    }
    let mut topology =
        Topology::new(&scenario.nodes, &scenario.links).with_routes(&scenario.routes);
    for traffic in scenario.traffic.iter().take(MAX_LINES) {
        let [from, to] = [&traffic.from, &traffic.to]
            .map(|nodes| listed(&nodes.iter().map(|&node| name(node)).collect::<Vec<_>>()));
        let flows = traffic.flows();
        let _ = write!(out, "traffic {}: {}, {from} → {to}", traffic.name, traffic.spec.kind());
        if flows > 1 {
            let _ = write!(out, ", {flows} flows");
        }
        if let ([from], [to]) = (traffic.from.as_slice(), traffic.to.as_slice())
            && let Ok(path) = topology.path(*from, *to)
        {
            let ports: Vec<&str> = path
                .iter()
                .map(|port| scenario.links[port / 2].directions[port % 2].name.as_str())
                .collect();
            let _ = write!(out, ", over {}", ports.join(", "));
        }
        out.push('\n');
    }
    more(&mut out, scenario.traffic.len());
    for axis in &scenario.sweep {
        let _ = writeln!(out, "sweep {}: {}", axis.key, axis.values.join(", "));
    }
    out
}

/// The programs of hosts, in the order of the file.
fn programs(out: &mut String, scenario: &Scenario) {
    let name = |node: usize| scenario.nodes[node].name.as_str();
    let all: Vec<_> = scenario
        .nodes
        .iter()
        .filter_map(|node| Some((&node.name, node.program.as_ref()?)))
        .collect();
    for (host, program) in all.iter().take(MAX_LINES) {
        let what = match &program.root {
            Root::Machine => String::new(),
            Root::Directory { path, .. } => format!(" in {path}"),
            Root::Image { name, .. } => format!(" of the image {name}"),
        };
        let command = match &program.command {
            None => "its own program".to_owned(),
            Some(Words::Shell(text)) => text.clone(),
            Some(Words::List(words)) => words.join(" "),
        };
        let _ = write!(out, "program of {host}: {command}{what}");
        let after: Vec<String> = program
            .after
            .iter()
            .map(|after| name(after.node).to_owned() + if after.ended { ":ended" } else { "" })
            .collect();
        if !after.is_empty() {
            let _ = write!(out, ", after {}", after.join(", "));
        }
        if let Some(health) = &program.health {
            let _ = write!(out, ", up within {} checks", health.retries);
        }
        out.push_str(if program.ends { ", ends\n" } else { "\n" });
    }
    more(out, all.len());
}

/// A list of names, shortened if there are many.
fn listed(names: &[&str]) -> String {
    match names.len() {
        0..=MAX_NAMES => names.join(", "),
        all => format!("{}, … {all} in all", names[..MAX_NAMES].join(", ")),
    }
}

fn more(out: &mut String, lines: usize) {
    if lines > MAX_LINES {
        let _ = writeln!(out, "… {} more", lines - MAX_LINES);
    }
}

/// Maximum number of names in a line.
const MAX_NAMES: usize = 12;
/// Maximum number of programs, of links and of traffic entries in the summary, each.
const MAX_LINES: usize = 100;
