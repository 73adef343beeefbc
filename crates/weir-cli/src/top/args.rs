//! Options of `weir top`.

use std::time::Duration;

use clap::Args;

use super::view::Order;

/// Options of `weir top`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct TopArgs {
    /// Only this session, as `weir ps` lists it; `serve` is the daemon.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the table once, as plain text, and end: for logs and pipes.
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two readings.
    #[arg(short = 'n', long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Show only rows in which all these words occur: in the name, the program, or the
    /// specification.
    #[arg(short, long, value_name = "WORDS", default_value = "")]
    pub(crate) filter: String,
    /// The column that orders the rows, the greatest value first.
    #[arg(short, long, value_name = "COLUMN", value_enum, default_value_t)]
    pub(crate) sort: Order,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let read = text.parse().ok().filter(|seconds| (0.2..=60.0).contains(seconds));
    read.map(Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is no number of seconds from 0.2 to 60"))
}

const NOTES: &str = "Examples:
  weir top                          every link of this user, and the daemon's pipes
  weir top curl -n 0.5              one session, twice a second
  weir top --sort drops             rows with most drops first
  weir top --once --filter 'pipe 7' >> log

Keys: ↑↓ select, Enter shows one row, / filters, s sorts, c changes a row (checked while you write),
p pauses, ? helps, q ends. NO_COLOR is respected. docs/top.md explains the columns.";
