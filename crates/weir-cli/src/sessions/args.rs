//! Options of the commands about links that run.

use clap::Args;

/// Options of `weir ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_NOTES)]
pub(crate) struct PsArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `weir change`.
#[derive(Debug, Args)]
#[command(after_help = CHANGE_EXAMPLES)]
pub(crate) struct ChangeArgs {
    /// Print the changed links as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not print what is now in force.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The session, as `weir ps` lists it; not needed if only one runs. Then the link, such as
    /// `up`; without it, all links. Then words such as `loss 2% delay 80ms`, or `reset`.
    #[arg(
        value_name = "[NAME] [LINK] WORDS|reset",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<String>,
}

/// Options of `weir stats`.
#[derive(Debug, Args)]
#[command(after_help = STATS_NOTES)]
pub(crate) struct StatsArgs {
    /// The session, as `weir ps` lists it; not needed if only one runs.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print again every second, until the session ends.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print the results so far as JSON, as `weir run --json` writes them at the end; with --watch,
    /// one document a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `weir stop`.
#[derive(Debug, Args)]
#[command(after_help = STOP_NOTES)]
pub(crate) struct StopArgs {
    /// The session, as `weir ps` lists it; not needed if only one runs.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

const PS_NOTES: &str = "Lists the sessions of this user: every `weir run`, `weir pair`, `weir \
bridge` and `weir live`
that runs links now. `weir change`, `weir stats` and `weir stop` use the names.";
const CHANGE_EXAMPLES: &str = "Examples:
  weir change curl down 'loss 2% delay 80ms'    one link of the session curl
  weir change curl 'bw 1Mbit/s'                 all its links
  weir change down loss 0                       the only session that runs
  weir change curl reset                        back to the start of the session

What the words name changes, and the rest stays. Packets inside stay, too. The change is in force
when the command ends. docs/link-spec.md describes all words. In a session with --rules, the words
are a command of the rules: `weir change curl pipe 1 config bw 2Mbit/s`.";
const STATS_NOTES: &str = "`rate now` is the rate of departures in the last second, or half a \
second without --watch.
Packets and times are those since the start. docs/measuring.md explains them.";
const STOP_NOTES: &str =
    "The session ends as after SIGTERM: its program is asked to end, and ends \
at the latest three
seconds later; then the results are written. The command waits for that.";
