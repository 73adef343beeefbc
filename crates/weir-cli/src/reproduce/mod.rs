//! `weir reproduce`: repeats published experiments, shows the published results next to ours, and
//! gives a verdict.
//!
//! Published times depend on the machine, so verdicts on them are about shape: the order of
//! algorithms, growth, ratios. Simulated results are compared as numbers. Each claim is judged
//! separately, by the interval of its measured quantities over the seeds, and every value of
//! somebody else's has its provenance.

pub(crate) mod document;
mod experiment;
mod measured;
mod show;
mod simulated;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_measure::document::{Document, Kind};
use weir_report::plot::Plot;
use weir_report::{finding_to_html, write_atomic};
use weir_rig::Report;

use crate::output::{Failure, USAGE, print, say};
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
    /// Write plots and results as JSON into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Fewer packets and seeds (3 instead of 10): wider intervals in about a tenth of the time.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seconds that each method reads in `queue-sampler`, in ten rounds: 5, or 1 with --quick.
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
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
}

/// Parses a time from 0.1 s to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    read.ok_or_else(|| format!("'{text}' is no number of seconds from 0.1 to 3600"))
}

/// All experiments, in the order of the list.
fn experiments() -> Vec<Experiment> {
    measured::all().chain([simulated::SAMPLER]).chain(simulated::all()).collect()
}

/// Runs the named experiments.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    if args.list || args.names.is_empty() {
        return print(&list());
    }
    let (mut chosen, experiments) = (Vec::new(), experiments());
    for name in &args.names {
        let found = experiments
            .iter()
            .filter(|e| name.eq_ignore_ascii_case("all") || e.name.eq_ignore_ascii_case(name));
        let before = chosen.len();
        chosen.extend(found);
        if chosen.len() == before {
            let known: Vec<&str> = experiments.iter().map(|e| e.name).collect();
            return Err(Failure::new(
                USAGE,
                format!(
                    "there is no experiment `{name}`: allowed are {} and all",
                    known.join(", ")
                ),
            ));
        }
    }
    if let Some(directory) = &args.out {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::own(format!("cannot make the directory {}: {error}", directory.display()))
        })?;
    }
    let show_progress = !args.quiet && std::io::stderr().is_terminal();
    let settings = Settings {
        quick: args.quick,
        show_progress,
        seconds: args.seconds,
        clients: args.clients.clone(),
    };
    let is_one_of_several = chosen.len() > 1;
    for experiment in chosen {
        let outcome = match experiment.run {
            How::Measured(measured) => measured::run(measured, &settings)?,
            How::Live(run) => match run(&settings) {
                Ok(outcome) => outcome,
                Err(failure) if is_one_of_several => {
                    let _ = failure.report();
                    continue;
                }
                Err(failure) => return Err(failure),
            },
            How::Simulated(simulated) => simulated::run(simulated, &settings),
        };
        print(&outcome.to_text(experiment))?;
        if let Some(directory) = &args.out {
            for path in outcome.write(experiment, directory)? {
                if !args.quiet {
                    say(format_args!("written: {}\n", path.display()));
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let mut table = Table::new(["experiment", "what it shows"]).left();
    for experiment in experiments() {
        table.row(vec![
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
        write_atomic(&path, report.as_bytes()).map_err(Failure::own)?;
        written.push(path);
        let path = directory.join(format!("{}.html", experiment.name));
        let page = finding_to_html(&self.finding);
        write_atomic(&path, page.as_bytes()).map_err(Failure::own)?;
        written.push(path);
        Ok(written)
    }
}

const EXAMPLES: &str = "Examples:
  weir reproduce --list
  weir reproduce qfq-talk --out figures
  weir reproduce fifo-plus-table
  sudo weir reproduce queue-sampler --seconds 10
  weir reproduce all --quick

Published times depend on the machine. Verdicts are therefore about shape (order, growth, ratios),
one for each claim.";
