//! `weir reproduce`: repeats experiments, most of them published, shows the reference results next
//! to ours, and gives a verdict.
//!
//! Published times depend on the machine, so verdicts on them are about shape: the order of
//! algorithms, growth, ratios. Simulated results are compared as numbers. Each claim is judged
//! separately, by the interval of its measured quantities over the seeds. Every value that was not
//! measured here has its provenance.

mod collection;
pub(crate) mod document;
mod experiment;
mod machine;
mod measured;
mod show;
mod simulated;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_measure::document::{Document, Kind};
use weir_report::plot::Plot;
use weir_report::{Chapter, finding_to_html, write_atomic};
use weir_rig::Report;

use crate::output::{Failure, USAGE, print, say};
use collection::Collection;
use document::{ExperimentDocument, JudgedClaim};
use experiment::{Experiment, How, Outcome, Settings};

use crate::rig::write_plot;
use crate::table::Table;

/// Options of `weir reproduce`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// Experiments by name, or `all`; without a name, list them.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// List the experiments.
    #[arg(long)]
    pub(crate) list: bool,
    /// Run all experiments.
    #[arg(long)]
    pub(crate) all: bool,
    /// Write results as JSON, plots, and index.html with all results of this command into this
    /// directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Keep the results that the same program wrote into DIR with the same options.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// Fewer packets and seeds (3 instead of 10): wider intervals in about a tenth of the time.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seconds that each method reads in `queue-sampler`, in ten rounds: 5, or 1 with --quick.
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Read with each method of `queue-sampler` for as long as in the publication: 180 s.
    #[arg(long, conflicts_with_all = ["quick", "seconds"])]
    pub(crate) full: bool,
    /// Numbers of clients in `queue-sampler`, each up to 250.
    #[arg(
        long,
        value_name = "N,N…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=250)
    )]
    pub(crate) clients: Option<Vec<u16>>,
    /// Do not show progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Pass packets of one case of `emulation-cost` and end.
    #[arg(long, hide = true, value_name = "CASE,PACKETS")]
    pub(crate) drive: Option<String>,
}

/// Parses a time from 0.1 s to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    read.ok_or_else(|| format!("'{text}' is no number of seconds from 0.1 to 3600"))
}

/// All experiments, in the order of the list.
fn experiments() -> Vec<Experiment> {
    measured::all()
        .chain([
            machine::COST,
            machine::ACCURACY,
            simulated::SAMPLER,
            machine::RING_LIVE,
            machine::END_HOST,
        ])
        .chain(simulated::all())
        .collect()
}

/// Runs the named experiments, or lists all of them.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    if let Some(words) = &args.drive {
        return machine::drive(words).map(|()| ExitCode::SUCCESS);
    }
    if args.list || (args.names.is_empty() && !args.all) {
        return print(&list());
    }
    let experiments = experiments();
    let chosen = chosen(args, &experiments)?;
    if let Some(directory) = &args.out {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::of_weir(format!("cannot make the directory {}: {error}", directory.display()))
        })?;
    }
    let show_progress = !args.quiet && std::io::stderr().is_terminal();
    let settings = Settings {
        quick: args.quick,
        full: args.full,
        show_progress,
        seconds: args.seconds,
        clients: args.clients.clone(),
    };
    let mut collection = args.out.as_deref().map(|out| Collection::new(out, &settings));
    for (n, experiment) in (1..).zip(&chosen) {
        if let Some(collection) = &mut collection
            && args.resume
            && collection.keep(experiment.name)
        {
            say_unless(args.quiet, format_args!("kept: {}\n", experiment.name));
            continue;
        }
        if show_progress {
            say(format_args!("{n} of {}: {}\n", chosen.len(), experiment.name));
        }
        let words = [experiment.name, experiment.summary, experiment.source];
        let outcome = match run(experiment, &settings) {
            Ok(outcome) => outcome,
            Err(failure) if chosen.len() > 1 => {
                let reason = failure.to_string();
                let _ = failure.report();
                if let Some(collection) = &mut collection {
                    collection.add(Chapter::skipped(words, reason))?;
                }
                continue;
            }
            Err(failure) => return Err(failure),
        };
        print(&outcome.to_text(experiment))?;
        if let Some((directory, collection)) = args.out.as_ref().zip(collection.as_mut()) {
            for path in outcome.write(experiment, directory)? {
                say_unless(args.quiet, format_args!("written: {}\n", path.display()));
            }
            let more: Vec<Plot> = outcome.plots.iter().map(|(_, plot)| plot.clone()).collect();
            collection.add(Chapter::done(words, &outcome.finding, &more))?;
            // The page is written after each experiment, so that an interrupted command leaves a
            // page.
            collection.write(args.quick)?;
        }
    }
    if let Some(collection) = collection {
        let path = collection.write(args.quick)?;
        say_unless(args.quiet, format_args!("written: {}\n", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The experiments that the arguments name, each once, in the order of the arguments.
fn chosen<'a>(
    args: &ReproduceArgs,
    experiments: &'a [Experiment],
) -> Result<Vec<&'a Experiment>, Failure> {
    let mut chosen: Vec<&Experiment> = Vec::new();
    let all = args.all.then_some("all");
    for name in all.into_iter().chain(args.names.iter().map(String::as_str)) {
        let is_all = name.eq_ignore_ascii_case("all");
        let mut found =
            experiments.iter().filter(|e| is_all || e.name.eq_ignore_ascii_case(name)).peekable();
        if found.peek().is_none() {
            let known: Vec<&str> = experiments.iter().map(|e| e.name).collect();
            return Err(Failure::new(
                USAGE,
                format!(
                    "there is no experiment `{name}`: allowed are {} and all",
                    known.join(", ")
                ),
            ));
        }
        for experiment in found {
            if chosen.iter().all(|before| before.name != experiment.name) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

fn run(experiment: &Experiment, settings: &Settings) -> Result<Outcome, Failure> {
    match experiment.run {
        How::Measured(measured) => measured::run(measured, settings),
        How::Machine(run) => run(settings),
        How::Simulated(simulated) => Ok(simulated::run(simulated, settings)),
    }
}

fn say_unless(quiet: bool, words: std::fmt::Arguments<'_>) {
    if !quiet {
        say(words);
    }
}

fn list() -> String {
    let mut table = Table::new(["experiment", "what it shows"]).left_aligned();
    for experiment in experiments() {
        table.add_row(vec![
            experiment.name.to_owned(),
            format!("{} ({})", experiment.summary, experiment.source),
        ]);
    }
    table.text()
}

impl Outcome {
    fn to_text(&self, experiment: &Experiment) -> String {
        format!(
            "{}: {}\nSource: {}\n\n{}",
            experiment.name,
            experiment.summary,
            experiment.source,
            show::text(&self.finding)
        )
    }

    fn write(
        &self,
        experiment: &Experiment,
        directory: &std::path::Path,
    ) -> Result<Vec<PathBuf>, Failure> {
        let mut written = Vec::new();
        let drawn = self.finding.plots.iter().map(|plot| (plot.name.clone(), Plot::from(plot)));
        for (suffix, plot) in drawn.chain(self.plots.iter().cloned()) {
            for kind in ["svg", "png"] {
                let path = directory.join(format!("{}-{suffix}.{kind}", experiment.name));
                write_plot(&path, &plot)?;
                written.push(path);
            }
        }
        let path = directory.join(format!("{}.json", experiment.name));
        let body = ExperimentDocument {
            title: &self.finding.title,
            notes: &self.finding.notes,
            runs: Report { runs: self.runs.clone() }.rounded().runs,
            claims: self.finding.claims.iter().map(JudgedClaim::from).collect(),
            tables: &self.finding.tables,
        };
        let report = Document::new(Kind::Experiment, body).to_json();
        write_atomic(&path, report.as_bytes()).map_err(Failure::of_weir)?;
        written.push(path);
        let path = directory.join(format!("{}.html", experiment.name));
        let page = finding_to_html(&self.finding);
        write_atomic(&path, page.as_bytes()).map_err(Failure::of_weir)?;
        written.push(path);
        Ok(written)
    }
}

const EXAMPLES: &str = "Examples:
  weir reproduce --list
  weir reproduce qfq-talk --out figures
  weir reproduce fifo-plus-table
  sudo weir reproduce queue-sampler --seconds 10
  sudo weir reproduce queue-sampler --full --clients 2,5 --out sampled
  weir reproduce --all --out results
  weir reproduce --all --out results --resume

Published times depend on the machine, so claims about them are about shape (order, growth, ratios).
A claim holds if the 95 % intervals of its quantities are inside the claimed ranges, differs if one
is outside, and cannot be judged otherwise. Each value that was not measured here has its
provenance.";
