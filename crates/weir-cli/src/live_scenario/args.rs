//! The command line of `weir live`.

use std::path::PathBuf;

use clap::Args;

use crate::args::parse_scenario_seed;
use crate::sim::parse_setting;

/// Options of `weir live`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LiveArgs {
    /// The scenario, as for `weir sim`.
    #[arg(value_name = "SCENARIO.toml")]
    pub(crate) scenario: PathBuf,
    /// Seed of all random draws, in place of the scenario's. `random` picks one, which the results
    /// state.
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_scenario_seed,
        allow_negative_numbers = true,
        help_heading = "Scenario"
    )]
    pub(crate) seed: Option<u64>,
    /// Number of runs, one after another, each with the next seed: results then have confidence
    /// intervals.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MAX_RUNS),
        help_heading = "Scenario"
    )]
    pub(crate) runs: u32,
    /// Change a key of the scenario: `--set duration=10s`, `--set traffic.f1.rate=2Mbit/s`. May be
    /// given several times.
    #[arg(
        long = "set",
        value_name = "KEY=VALUE",
        value_parser = parse_setting,
        help_heading = "Scenario"
    )]
    pub(crate) settings: Vec<(String, String)>,
    /// Largest IP packet on the hosts' interfaces, in bytes.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1500,
        value_parser = clap::value_parser!(u32).range(576..=65521),
        help_heading = "Scenario"
    )]
    pub(crate) mtu: u32,
    /// How the hosts learn each other's Ethernet addresses.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Scenario")]
    pub(crate) arp: crate::args::ArpArg,
    #[command(flatten)]
    pub(crate) plan: crate::args::PlanArgs,
    #[command(flatten)]
    pub(crate) web: crate::args::WebArgs,
    /// Leave the hosts up after the end of the run, until ^C or `weir stop`.
    #[arg(long, conflicts_with = "runs", help_heading = "Control")]
    pub(crate) keep: bool,
    /// Name for `weir ps`, `weir change` and `weir stop` [default: the scenario's file].
    #[arg(
        long,
        value_name = "NAME",
        value_parser = crate::args::parse_name,
        help_heading = "Control"
    )]
    pub(crate) name: Option<weir_control::directory::Name>,
    /// Write the results into this new directory, as `weir sim` does.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the directory of --out if it exists and is empty or has nothing but results.
    #[arg(long, requires = "out", help_heading = "Results")]
    pub(crate) force: bool,
    /// Write the results as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Do not print the summary.
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// How long to spin before a departure is due: `adaptive`, `off`, or a time such as `60us`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "adaptive",
        value_parser = crate::args::parse_spin,
        help_heading = "Tuning"
    )]
    pub(crate) spin: weir_linux::live::Spin,
    /// Neither request real-time priority nor keep processors awake under light traffic.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Processor to which the links' thread is pinned.
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) cpu: Option<usize>,
}

/// Maximum number of runs. 1380 runs of a minute take 23 hours.
const MAX_RUNS: i64 = 1_380;
const EXAMPLES: &str = "Examples:
  weir live two-hosts.toml
  weir live busy-line.toml --runs 5
  weir live two-hosts.toml --set duration=10s --out results
  weir live busy-line.toml --at 10s 'line bw 1Mbit/s' --at 20s reset
  weir live lab.toml --keep                 then, elsewhere: weir exec web sh";
