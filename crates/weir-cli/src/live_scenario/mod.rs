//! `weir live`: a scenario on real frames. [`weir_live::scenario`] makes the run.

mod load;
mod results;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_linux::live::Realtime;
use weir_linux::process::Signals;
use weir_live::Tuning;
use weir_live::scenario::{LiveScenario, Ran, ScenarioError, ScenarioSetup};

use crate::output::{Failure, say};
use crate::sim::parse_setting;

/// `weir live`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LiveArgs {
    /// The scenario, as for `weir sim`.
    #[arg(value_name = "SCENARIO.toml")]
    pub(crate) scenario: PathBuf,
    /// Seed of all random draws, in place of the scenario's.
    #[arg(long, value_name = "N", help_heading = "Scenario")]
    pub(crate) seed: Option<u64>,
    /// Change a key of the scenario: `--set duration=10s`, `--set traffic.f1.rate=2Mbit/s`. May be
    /// given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting, help_heading = "Scenario")]
    pub(crate) settings: Vec<(String, String)>,
    /// Largest IP packet on the hosts' interfaces, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65521), help_heading = "Scenario")]
    pub(crate) mtu: u32,
    /// Write the results into this new directory, as `weir sim` does.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the directory if it is there.
    #[arg(long, requires = "out", help_heading = "Results")]
    pub(crate) force: bool,
    /// Write the results as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Do not print the summary.
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// How long to spin before a release: `adaptive`, `off`, or a time such as `60us`.
    #[arg(long, value_name = "TIME", default_value = "adaptive", value_parser = crate::args::parse_spin, help_heading = "Tuning")]
    pub(crate) spin: weir_linux::live::Spin,
    /// Do not ask for real-time priority, nor that processors stay awake under light traffic.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Processor that the links' thread stays on.
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) cpu: Option<usize>,
}

/// `weir live`.
pub(crate) fn live(args: &LiveArgs) -> Result<ExitCode, Failure> {
    let source = load::load(args)?;
    results::check(args)?;
    let tuning = Tuning {
        spin: args.spin,
        realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
        cpu: args.cpu,
        ..Tuning::default()
    };
    let setup = ScenarioSetup {
        scenario: source.scenario.clone(),
        text: source.text.clone(),
        file: source.file.clone(),
        mtu: args.mtu,
        tuning,
        generator: vec!["/proc/self/exe".into(), "traffic".into()],
    };
    let run = LiveScenario::build(setup).map_err(failure)?;
    for note in run.notes() {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let signals =
        Signals::take().map_err(|error| Failure::own(format!("cannot take signals: {error}")))?;
    match run.run(&signals, |_| ()).map_err(failure)? {
        Ran::Signal(number) => Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))),
        Ran::Complete(results) => {
            for note in results.notes.iter().filter(|_| !args.quiet) {
                say(format_args!("weir: note: {note}\n"));
            }
            results::write(args, &source, results.outcome, &results.printed)
        }
    }
}

fn failure(error: ScenarioError) -> Failure {
    match error {
        ScenarioError::Program(error) => Failure::new(error.exit_code(), error),
        ScenarioError::Build(error) => crate::live::not_built(&error),
        error => Failure::own(error),
    }
}

const EXAMPLES: &str = "Examples:
  weir live two-hosts.toml
  weir live two-hosts.toml --set duration=10s --out results";
