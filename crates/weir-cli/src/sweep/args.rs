//! The command line of `weir sweep`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// Options of `weir sweep`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES
)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub(crate) task: Option<SweepTask>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Arguments of a command that carries out a campaign.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The campaign, a TOML file.
    // `campaign` and `store` are required unless a task is named.
    #[arg(value_name = "CAMPAIGN", required = true)]
    pub(crate) campaign: Option<PathBuf>,
    /// The directory of the runs. Several processes, hosts and campaigns may share it.
    #[arg(long, value_name = "DIR", required = true)]
    pub(crate) store: Option<PathBuf>,
    /// Number of runs at a time [default: as many as there are processors; 1 if the runs are live];
    /// the results of simulations do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// The longest time of a run, such as `10min`.
    #[arg(long, value_name = "TIME", value_parser = crate::args::parse_time)]
    pub(crate) timeout: Option<Duration>,
    /// How often to repeat a run that failed for a temporary reason, such as late packets of a live
    /// run.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) retries: u32,
    /// Show neither progress nor the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// A campaign and its store.
#[derive(Debug, Args)]
pub(crate) struct CampaignArgs {
    /// The campaign, a TOML file.
    #[arg(value_name = "CAMPAIGN")]
    pub(crate) campaign: PathBuf,
    /// The directory of the runs. Several processes, hosts and campaigns may share it.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
}

/// Tasks on a store, besides carrying out runs.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepTask {
    /// Count the runs of a campaign that a store has.
    Status {
        #[command(flatten)]
        which: CampaignArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the runs of a campaign that a store does not have.
    Missing {
        #[command(flatten)]
        which: CampaignArgs,
    },
    /// Remove the files of interrupted writers and, with `--keep`, all that no kept campaign needs.
    Gc(GcArgs),
    /// Compare all files with their hashes, and carry out some runs again to compare their bytes.
    Verify(VerifyArgs),
    /// Write each table of a campaign as one Parquet file, with the rows of all runs and the axes
    /// as columns.
    Export(ExportArgs),
}

/// Options of `weir sweep gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// The store.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Keep only the runs of this campaign, with this version of Weir; may be given several times.
    #[arg(long, value_name = "CAMPAIGN")]
    pub(crate) keep: Vec<PathBuf>,
    /// Only show what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Options of `weir sweep verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The store.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Number of runs to carry out again; the store's keys decide which.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) sample: u64,
    /// Seed of the sample: another seed selects other runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Remove damaged runs, so that the campaign carries them out again.
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Options of `weir sweep export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) which: CampaignArgs,
    /// The directory for the files.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The tables, separated by commas.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "flows,links",
        value_parser = ["flows", "links", "series", "delays", "trace"]
    )]
    pub(crate) tables: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  weir sweep campaign.toml --store runs
  weir sweep status campaign.toml --store runs
  weir sweep verify --store runs --sample 100
  weir sweep export campaign.toml --store runs --out tables

The same command continues an interrupted campaign: it carries out the runs that the store does not
have. docs/sweep.md describes campaign files. `weirlab.sweep` in Python also runs campaigns in
processes and clusters.";
