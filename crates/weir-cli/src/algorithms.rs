//! `weir algorithms`: lists or describes the engine's schedulers and AQMs with their parameters, or
//! compares one with a mathematical model, as text or as JSON.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_core::aqm;
use weir_core::sched::{self, Discipline, Kind};
use weir_core::settings::{Domain, Parameter};
use weir_rig::dcf;
use weir_rules::closest;

use crate::args::AlgorithmsArgs;
use crate::output::{Failure, USAGE, print};

/// Lists every algorithm, describes one in full, or (`--check`) compares one with its model.
pub(crate) fn list(args: &AlgorithmsArgs) -> Result<ExitCode, Failure> {
    if args.check.is_some() {
        return check_medium(args.json);
    }
    if let Some(name) = &args.name {
        return one(name, args.json);
    }
    if args.json {
        let scheds: Vec<_> = sched::TABLE.iter().map(sched_json).collect();
        let aqms: Vec<_> = aqm::TABLE.iter().map(aqm_json).collect();
        return print(&format!("{:#}\n", json!({ "schedulers": scheds, "aqms": aqms })));
    }
    let mut text = String::from(
        "Schedulers: which flow's packet goes next\n\
         Parameters are given to `sched N config type NAME` or to `queue N config sched N`.\n",
    );
    for row in sched::TABLE {
        heading(
            &mut text,
            row.name,
            row.summary,
            &format!("{}; {}", row.traits.complexity, row.source),
        );
        parameters(&mut text, &scopes(row));
    }
    text.push_str(
        "\nAQMs: which packets of a queue are dropped or marked, so that it stays short\n\
         Parameters are given behind the name: `aqm NAME …` of a pipe, a queue or a link.\n",
    );
    for row in aqm::TABLE {
        heading(&mut text, row.name, row.summary, row.source);
        parameters(&mut text, &[(Scope::Aqm, row.parameters)]);
    }
    print(&text)
}

/// Writes the first two lines of an algorithm in the list. Writing to a `String` cannot fail, here
/// and below.
fn heading(text: &mut String, name: &str, summary: &str, source: &str) {
    let _ = writeln!(text, "\n  {name:<12}{summary}");
    let _ = writeln!(text, "  {:<12}{source}", "");
}

fn parameters(text: &mut String, scopes: &[Scoped]) {
    for (scope, p) in each(scopes) {
        let default = p.domain.write(p.default);
        let _ = writeln!(
            text,
            "    {:<6}{:<12}{} (default {default}): {}",
            scope.command(),
            p.name,
            p.domain,
            p.summary
        );
    }
}

fn one(name: &str, json: bool) -> Result<ExitCode, Failure> {
    let (value, text) = match (
        Kind::from_name(name).map(Kind::row),
        aqm::Kind::from_name(name).map(aqm::Kind::row),
    ) {
        (Some(row), _) => (sched_json(row), sched_page(row)),
        (None, Some(row)) => (aqm_json(row), aqm_page(row)),
        (None, None) => return Err(unknown(name)),
    };
    if json { print(&format!("{value:#}\n")) } else { print(&text) }
}

fn unknown(name: &str) -> Failure {
    let scheds = sched::TABLE.iter().map(|row| (row.name, row.aliases));
    let all: Vec<&str> = scheds
        .chain(aqm::TABLE.iter().map(|row| (row.name, row.aliases)))
        .flat_map(|(name, others)| [&[name], others].concat())
        .collect();
    let meant = closest(name, all.iter().copied())
        .map_or(String::new(), |meant| format!(" (did you mean `{meant}`?)"));
    Failure::new(
        USAGE,
        format!("there is no algorithm `{name}`{meant}; `weir algorithms` lists all"),
    )
}

fn sched_page(row: &sched::Row) -> String {
    let mut text = page("scheduler", row.name, row.aliases, row.summary);
    let also = |holds: bool, words| if holds { words } else { "" };
    let weighted = also(row.traits.weighted, "; shares by weight");
    let classifies = also(row.traits.classifies, "; classifies packets into flows itself");
    let idles = also(!row.traits.work_conserving, "; may wait although it has packets");
    let _ = writeln!(text, "  {}{weighted}{classifies}{idles}", row.traits.complexity);
    let _ = writeln!(text, "  Source: {}", row.source);
    let _ = writeln!(text, "  Example: sched 1 config type {} bw 10Mbit/s", row.name);
    details(&mut text, &scopes(row));
    text
}

fn aqm_page(row: &aqm::Row) -> String {
    let mut text = page("AQM", row.name, row.aliases, row.summary);
    let marks = if row.traits.marks {
        "marks packets that can be marked, or only drops, as its settings say"
    } else {
        "drops, and never marks"
    };
    let classifies =
        if row.traits.classifies { "; classifies packets into flows itself" } else { "" };
    let _ = writeln!(text, "  It {marks}{classifies}.");
    let _ = writeln!(text, "  Source: {}", row.source);
    let setting = row
        .parameters
        .first()
        .map_or(String::new(), |p| format!(" {}={}", p.name, p.domain.write(p.default)));
    let _ = writeln!(text, "  Example: pipe 1 config bw 10Mbit/s aqm {}{setting}", row.name);
    details(&mut text, &[(Scope::Aqm, row.parameters)]);
    text
}

fn page(what: &str, name: &str, aliases: &[&str], summary: &str) -> String {
    let also =
        if aliases.is_empty() { String::new() } else { format!(", also {}", aliases.join(", ")) };
    format!("{name} ({what}{also})\n  {summary}\n\n")
}

fn details(text: &mut String, scopes: &[Scoped]) {
    if each(scopes).next().is_none() {
        text.push_str("\n  It has no parameters.\n");
    }
    for (scope, p) in each(scopes) {
        let _ = writeln!(text, "\n  {} ({})", p.name, scope.place());
        let _ = writeln!(text, "    {}", p.summary);
        let _ = writeln!(text, "    allowed: {}{}", p.domain, hint(p));
        let _ = writeln!(text, "    default: {}", p.domain.write(p.default));
    }
}

/// A note about other notations of a value.
fn hint(parameter: &Parameter) -> String {
    match parameter.domain {
        Domain::Time { .. } => "; units s, ms, us, ns; a number alone is in ms".to_owned(),
        Domain::Fraction { .. } => "; also as 1/8 or 12.5%".to_owned(),
        Domain::Choice(words) if words.contains(&"off") && words.contains(&"on") => {
            format!("; also `{0}` and `no{0}` alone", parameter.name)
        }
        Domain::Four { .. } => "; as 2,2,3,7, or one number for all four".to_owned(),
        Domain::Choice(_) | Domain::Number { .. } => String::new(),
    }
}

/// The object to which a parameter belongs.
#[derive(Clone, Copy)]
enum Scope {
    Flow,
    Scheduler,
    Aqm,
}

type Scoped = (Scope, &'static [Parameter]);

impl Scope {
    /// The command or, for an AQM, the keyword after which the parameter is written.
    fn command(self) -> &'static str {
        match self {
            Self::Flow => "queue",
            Self::Scheduler => "sched",
            Self::Aqm => "aqm",
        }
    }

    fn place(self) -> &'static str {
        match self {
            Self::Flow => "of a queue",
            Self::Scheduler => "after the type of a scheduler",
            Self::Aqm => "after the name",
        }
    }
}

/// The parameters of a scheduler and of its flows.
fn scopes(row: &sched::Row) -> [Scoped; 2] {
    [(Scope::Flow, row.traits.flow), (Scope::Scheduler, row.parameters)]
}

fn each(scopes: &[Scoped]) -> impl Iterator<Item = (Scope, &'static Parameter)> {
    scopes.iter().flat_map(|&(scope, all)| all.iter().map(move |parameter| (scope, parameter)))
}

/// Compares the simulated 802.11 medium with its models.
fn check_medium(json: bool) -> Result<ExitCode, Failure> {
    let with = |settings: &[(&str, &str)]| {
        let mut discipline = Discipline::from(Kind::Dcf);
        for (name, value) in settings {
            let set = discipline.set(name, value);
            set.map_err(|error| Failure::of_weir(format!("{name} {value}: {error}")))?;
        }
        Ok::<_, Failure>(discipline)
    };
    let [basic, rts] = [with(&[])?, with(&[("rts", "1")])?];
    let edca = with(&[("edca", "queue")])?;
    let saturated = |discipline: &Discipline| -> Vec<_> {
        let found = |&n| dcf::saturation(discipline, n, dcf::PACKET, dcf::PACKETS);
        dcf::STATIONS.iter().map(found).collect()
    };
    let (found, with_rts) = (saturated(&basic), saturated(&rts));
    let anomalies: Vec<_> = [2, 3, 5, 10].map(|n| dcf::anomaly(&basic, n, dcf::PACKETS)).into();
    let shares = [1, 4].map(|n| dcf::shares(&edca, n, 4 * dcf::PACKETS)).concat();
    if json {
        let all = json!({ "dcf": found, "rts": with_rts, "anomaly": anomalies, "edca": shares });
        return print(&format!("{all:#}\n"));
    }
    let mut text = format!(
        "802.11b at 11 Mbit/s, long preamble, packets of {} bytes: throughput of stations that \
         always have packets\n",
        dcf::PACKET
    );
    for (title, found) in [("without RTS", found), ("with RTS", with_rts)] {
        let _ = writeln!(text, "\n{title}\n{SATURATION}");
        saturation_rows(&mut text, &found);
    }
    let _ = writeln!(text, "\none station at 1 Mbit/s among stations at 11 Mbit/s\n{ANOMALY}");
    for f in anomalies {
        let values = [f.all_fast_bps, f.fast_bps, f.slow_bps, f.heusse_bps, f.model_bps];
        let _ = write!(text, "{:>8}", f.stations);
        for bps in values {
            let _ = write!(text, " {:>7.3} Mbit/s", bps / 1e6);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\naccess categories with the parameters of the standard\n{SHARES}");
    for f in shares {
        let _ = writeln!(
            text,
            "{:>8} of each {:<12} {:>7.3} Mbit/s {:>7.3} Mbit/s {:>6.2}%",
            f.stations,
            f.category,
            f.simulated_bps / 1e6,
            f.model_bps / 1e6,
            (f.simulated_bps / f.model_bps - 1.0) * 100.0
        );
    }
    print(&text)
}

/// Writes the rows of a comparison with Bianchi's model.
fn saturation_rows(text: &mut String, found: &[dcf::Saturation]) {
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
}

/// The headings of the three tables of `--check`.
const SATURATION: &str =
    "stations   simulated       Bianchi    apart   collisions   Bianchi   given up";
const ANOMALY: &str =
    "stations        all fast  fast, simulated slow, simulated        Heusse       Bianchi";
const SHARES: &str = "stations        category      simulated       model          apart";

fn parameters_json(scopes: &[Scoped]) -> Vec<Value> {
    let one = |(scope, p): (Scope, &Parameter)| {
        json!({
            "name": p.name,
            "scope": scope.command(),
            "range": p.domain.to_string(),
            "default": p.domain.write(p.default),
            "summary": p.summary,
        })
    };
    each(scopes).map(one).collect()
}

fn sched_json(row: &sched::Row) -> Value {
    json!({
        "name": row.name,
        "aliases": row.aliases,
        "weighted": row.traits.weighted,
        "work_conserving": row.traits.work_conserving,
        "summary": row.summary,
        "source": row.source,
        "complexity": row.traits.complexity,
        "parameters": parameters_json(&scopes(row)),
        "classifies": row.traits.classifies,
    })
}

fn aqm_json(row: &aqm::Row) -> Value {
    json!({
        "name": row.name,
        "aliases": row.aliases,
        "marks": row.traits.marks,
        "classifies": row.traits.classifies,
        "summary": row.summary,
        "source": row.source,
        "parameters": parameters_json(&[(Scope::Aqm, row.parameters)]),
    })
}
