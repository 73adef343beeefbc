//! The command line of `weir sim`.

use std::path::PathBuf;

use clap::Args;

use crate::args::parse_scenario_seed;
use crate::offers::Offered;

/// Options of `weir sim`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// The scenario, a TOML file; `-` for standard input.
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["schema", "suite"])]
    pub(crate) scenario: Option<PathBuf>,
    /// Seed of the first run, in place of the scenario's; each further run has the next seed.
    /// `random` picks one, which the results state.
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_scenario_seed,
        allow_negative_numbers = true,
        help_heading = "Runs"
    )]
    pub(crate) seed: Option<u64>,
    /// Number of runs with different seeds, in place of the scenario's: results then have
    /// confidence intervals.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000),
        help_heading = "Runs"
    )]
    pub(crate) runs: Option<u32>,
    /// Number of threads [default: as many as there are processors]; results do not depend on it.
    #[arg(long, value_name = "N", value_parser = parse_threads, help_heading = "Runs")]
    pub(crate) threads: Option<usize>,
    /// Set a key of the scenario, such as `traffic.f1.rate=2Mbit/s` or `link[0].spec.delay=20ms`;
    /// may be given several times.
    #[arg(
        long = "set",
        value_name = "KEY=VALUE",
        value_parser = parse_setting,
        help_heading = "Runs"
    )]
    pub(crate) settings: Vec<(String, String)>,
    /// Write everything into a directory, which must not exist: summary, tables, report, the
    /// scenario, and the trace if it has one.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the directory of --out if it exists and is empty or has nothing but results.
    #[arg(long, requires = "out", help_heading = "Results")]
    pub(crate) force: bool,
    /// Write a report with plots as one HTML file.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) report: Option<PathBuf>,
    /// Write the results as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Show neither progress nor tables.
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// Run a suite of queue experiments instead of a scenario: `rfc7928`, the scenarios of RFC 7928
    /// (goodput against delay).
    #[arg(
        long,
        value_name = "NAME",
        value_parser = SUITES,
        conflicts_with_all = ["scenario", "runs", "settings", "out"],
        help_heading = "Suite"
    )]
    pub(crate) suite: Option<String>,
    /// The queues of a suite, separated by commas: AQMs and schedulers in the form that
    /// `weir rig --aqm` accepts, `none` for drop tail.
    #[arg(
        long,
        value_name = "LIST",
        requires = "suite",
        value_parser = Offered::AQMS,
        hide_possible_values = true,
        help_heading = "Suite"
    )]
    pub(crate) aqm: Option<String>,
    /// Fewer and shorter runs of a suite.
    #[arg(long, requires = "suite", help_heading = "Suite")]
    pub(crate) quick: bool,
    /// Print the JSON schema of scenario files.
    #[arg(long, exclusive = true, help_heading = "Results")]
    pub(crate) schema: bool,
}

impl SimArgs {
    /// An option of a suite that is given without a suite, if any. With a scenario, clap accepts
    /// such an option. The scenario excludes `--suite`, and clap then no longer requires `--suite`.
    pub(crate) fn suite_option(&self) -> Option<&'static str> {
        let without = |given: bool, option| (given && self.suite.is_none()).then_some(option);
        without(self.aqm.is_some(), "--aqm").or_else(|| without(self.quick, "--quick"))
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|threads| (1..=1024).contains(threads))
        .ok_or_else(|| "expected a number from 1 to 1024".to_owned())
}

/// Parses a key of a scenario and its value, in the form that `--set` accepts.
pub(crate) fn parse_setting(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.to_owned()));
    split.ok_or_else(|| "write KEY=VALUE, such as traffic.f1.rate=2Mbit/s".to_owned())
}

const SUITES: [&str; 1] = ["rfc7928"];
const EXAMPLES: &str = "Examples:
  weir sim experiments/two-hosts.toml
  weir sim experiments/two-hosts.toml --set traffic.video.rate=9Mbit/s --runs 10 --json results.json
  weir sim --suite rfc7928 --aqm none,codel,pie,fq_codel --report aqm.html
  weir sim --schema > scenario.schema.json
  weir check experiments/two-hosts.toml";
