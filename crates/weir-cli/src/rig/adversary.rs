//! `weir rig --adversary`: searches for the arrivals under which a scheduler's service is worst,
//! and writes them to files.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weir_core::sched::MAX_WEIGHT;
use weir_report::format::count;
use weir_report::write_atomic;
use weir_rig::adversary::{Found, Hunt, Objective, search};
use weir_rig::report::Run;
use weir_rig::{Algorithm, Order};

use super::args::{Aim, RigArgs};
use super::config::Config;
use super::json::write_json;
use super::service;
use crate::output::{Failure, USAGE, print, say};
use crate::table::Table;

/// Runs the search for each scheduler in turn, and writes the results.
pub(crate) fn adversary(args: &RigArgs, config: &Config) -> Result<ExitCode, Failure> {
    let [set] = config.sets.as_slice() else {
        return Err(Failure::new(
            USAGE,
            "--adversary takes one flow set; for example --flows 500:w1,250:w2,250:w4",
        ));
    };
    if matches!(config.order, Order::Trace(_)) {
        return Err(Failure::new(
            USAGE,
            "--adversary makes a trace: leave --gen out, and replay what it found with --gen \
             trace:FILE",
        ));
    }
    if config.algorithms.iter().all(|algorithm| algorithm.discipline().is_none()) {
        return Err(Failure::new(
            USAGE,
            "--adversary needs a scheduler, and `none` is not one; for example --alg drr,wf2q+",
        ));
    }
    let weights = weights(&args.weights)?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::of_weir(format!("cannot make the directory {}: {error}", args.out.display()))
    })?;
    let mut table = Table::new([
        "scheduler",
        "class",
        "B-WFI",
        "bound",
        "of bound",
        "excess delay",
        "tries",
        "arrivals",
    ]);
    let mut runs = Vec::new();
    for algorithm in &config.algorithms {
        let Some(discipline) = algorithm.discipline() else { continue };
        let hunt = Hunt {
            objective: objective(args.aim),
            weights,
            evaluations: args.tries.unwrap_or(if args.quick { QUICK_TRIES } else { TRIES }),
            ..Hunt::new(*discipline, set.clone(), config.seed)
        };
        let file = |kind: &str| args.out.join(format!("{}.{kind}", file_name(algorithm)));
        let found = hunted(&hunt, algorithm, &file("search"), args)?;
        let path = file("trace");
        write_atomic(&path, found.trace.to_string().as_bytes()).map_err(Failure::of_weir)?;
        table.add_row(row(algorithm, &found, &path));
        let mut run = Run::new(
            algorithm.to_string(),
            found.trace.flows(),
            format!("trace:{}", path.display()),
            found.service.packets,
        );
        run.wfi = Some(service::rows(&found.service));
        runs.push(run);
    }
    if args.json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        let head = format!(
            "worst arrivals found for {set}, seed {}; B-WFI and excess delay in largest \
             packets\n\n",
            config.seed
        );
        let tail = "\nReplay one with: weir rig --metric wfi,delay --alg NAME --gen trace:FILE\n";
        print(&(head + &table.text() + tail))?;
    }
    if let Some(path) = &args.json {
        write_json(path, runs)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The weights from which the search may choose; `None` keeps the given weights.
fn weights(text: &str) -> Result<Option<(u32, u32)>, Failure> {
    if text == "keep" {
        return Ok(None);
    }
    let range = text
        .split_once(':')
        .and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
    range
        .filter(|(least, most)| (1..=*most).contains(least) && *most <= MAX_WEIGHT)
        .map(Some)
        .ok_or_else(|| {
            let allowed = format!(
                "allowed are `keep` and LEAST:MOST, 1..{MAX_WEIGHT}, such as --weights 1:100"
            );
            Failure::new(USAGE, format!("--weights: `{text}` is no range of weights: {allowed}"))
        })
}

fn objective(aim: Aim) -> Objective {
    match aim {
        Aim::Packets => Objective::Packets,
        Aim::Bound => Objective::OfBound,
        Aim::Delay => Objective::Delay,
    }
}

/// Runs one search and shows its progress. --seconds may end the search early. The search saves its
/// state in the file `state`, from which the same command resumes.
fn hunted(
    hunt: &Hunt,
    algorithm: &Algorithm,
    state: &Path,
    args: &RigArgs,
) -> Result<Found, Failure> {
    let bar = if !args.quiet && std::io::stderr().is_terminal() {
        ProgressBar::new(hunt.evaluations)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) =
        ProgressStyle::with_template("{elapsed:>6}  {bar:30} {percent:>3} %  {wide_msg}")
    {
        bar.set_style(style);
    }
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let found = search(hunt, Some(state), |progress| {
        bar.set_position(progress.evaluations);
        // The score is in millionths.
        bar.set_message(format!("{algorithm}: {:.2}", progress.score as f64 / 1e6));
        if end.is_some_and(|end| Instant::now() >= end) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar.finish_and_clear();
    let found = found.map_err(|error| {
        Failure::of_weir(format!("{}: {error}; another --out begins anew", state.display()))
    })?;
    if found.evaluations < hunt.evaluations && !args.quiet {
        say(format_args!(
            "{algorithm}: {} of {} tries; the same command continues the search\n",
            count(found.evaluations),
            count(hunt.evaluations)
        ));
    }
    Ok(found)
}

fn row(algorithm: &Algorithm, found: &Found, path: &Path) -> Vec<String> {
    let worst = found.worst();
    let dash = || "-".to_owned();
    vec![
        algorithm.to_string(),
        format!("w{} l{}", worst.group.weight, worst.group.lmax),
        format!("{:.2}", worst.bwfi_packets()),
        worst.bound_packets().map_or_else(dash, |bound| format!("{bound:.2}")),
        worst.of_bound().map_or_else(dash, |part| format!("{:.0} %", part * 100.0)),
        format!("{:.1}", worst.delay_excess.to_f64() / f64::from(found.trace.flows().longest())),
        count(found.evaluations),
        path.display().to_string(),
    ]
}

/// A scheduler's name without the characters that some file systems do not allow.
fn file_name(algorithm: &Algorithm) -> String {
    algorithm.to_string().replace([':', '='], "-")
}

/// Default number of patterns to try for each scheduler, without and with --quick.
const TRIES: u64 = 5000;
const QUICK_TRIES: u64 = 500;
