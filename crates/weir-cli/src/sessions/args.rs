//! Options of the commands for running sessions.

use clap::Args;

/// Options of `weir ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_NOTES)]
pub(crate) struct PsArgs {
    /// Print the sessions as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only names, one per line: the names of the sessions or, with NAME, of that session's
    /// links.
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with = "json")]
    pub(crate) names: Option<Option<String>>,
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
    /// `up` or `up,down`; without it, all links. Then words such as
    /// `loss 2% delay 80ms`, or `reset`.
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
    /// Print every second what happened in that second, until the session ends.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print the results so far as JSON, as `weir run --json` writes them at the end; with --watch,
    /// the statistics of each second, one document per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `weir exec`.
#[derive(Debug, Args)]
#[command(after_help = EXEC_NOTES)]
pub(crate) struct ExecArgs {
    /// The session, as `weir ps` lists it; not needed if only one lab runs. Then the host, then the
    /// command with its arguments.
    #[arg(
        value_name = "[NAME] HOST COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<std::ffi::OsString>,
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
bridge`, `weir live`,
`weir attach` and `weir host` that runs links now. `weir change`, `weir stats` and `weir stop` use
the names. Root and the daemon's user also see the daemon of `weir serve`, as `serve`; its socket is
the one that `weir pipe` uses (WEIR_SOCKET, or the default). PID is that of the PID namespace
where `weir ps` runs; `-` is a process that has none there.";
const CHANGE_EXAMPLES: &str = "Examples:
  weir change curl down 'loss 2% delay 80ms'    one link of the session curl
  weir change curl 'bw 1Mbit/s'                 all its links
  weir change down loss 0                       the only session that runs
  weir change curl reset                        back to the start of the session

Words replace only the settings that they name; all others stay. Packets inside stay, too. The
change is in force when the command ends. docs/link-spec.md describes all words. In a session with
--rules, the words are a command of the rules: `weir change curl pipe 1 config bw 2Mbit/s`.
The daemon `serve` saves its changes, so its own commands make them: `weir pipe 1 config …`.";
const STATS_NOTES: &str =
    "Without --watch, packets and times count from the start of the session, \
and `rate now` is the
rate of departures in half a second. With --watch, everything but `inside` is about the last second.
`queued` is the queueing delay and `late` the lateness; docs/measuring.md explains them. In a
scenario, packets depart at the end of their paths, so the paths have rows of their own below the
links.";
const EXEC_NOTES: &str = "Examples:
  weir exec web ps                  in the only lab that runs
  weir exec shop web sh             in the lab shop, on this terminal
  weir exec client ping -c3 web

The exit code is that of the command. A lab is a scenario with programs or containers, or any
scenario that `weir live --keep` runs. docs/labs.md describes labs.";
const STOP_NOTES: &str = "The session ends as after SIGTERM: its program is asked to end, and is \
killed three seconds later
if it still runs. Then the session writes its results. `weir stop` waits until they are written.";
