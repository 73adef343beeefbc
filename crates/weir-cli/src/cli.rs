//! The command line as a whole: all commands with their help. The options of a command are in the
//! command's module or in [`crate::args`].

use clap::{Parser, Subcommand};

use crate::args::{
    AlgorithmsArgs, BridgeArgs, CheckArgs, CompletionsArgs, FmtArgs, JsonFlag, ManArgs, PairArgs,
    RunArgs, ServeArgs,
};

/// Put any network you describe between programs, and see exactly what its queues did.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = MAIN_EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program behind an emulated network.
    Run(RunArgs),
    /// Run two programs with one emulated link between them.
    Pair(PairArgs),
    /// Emulate a link between two interfaces, as a transparent bridge.
    Bridge(BridgeArgs),
    /// Shape what is already running: a container, a process, a namespace, a service or a user.
    Attach(crate::attach::AttachArgs),
    /// Shape this machine's own traffic, for ten minutes unless told otherwise.
    Host(crate::attach::HostArgs),
    /// Shape the containers that carry labels, and the pods that carry annotations, from their
    /// start to their end.
    Agent(crate::agent::AgentArgs),
    /// Run a scenario on real frames: hosts in namespaces, with all links of the scenario between
    /// them.
    Live(crate::live_scenario::LiveArgs),
    /// List what runs: sessions with their links, programs and names.
    Ps(crate::sessions::PsArgs),
    /// Change links while they run: words replace the settings that they name, all others stay.
    Change(crate::sessions::ChangeArgs),
    /// Show what the links of a session do now: rates, packets, drops, queueing delays.
    Stats(crate::sessions::StatsArgs),
    /// Watch all links in a terminal, as they run: rates, queues, delays, drops; change them there.
    Top(crate::top::TopArgs),
    /// Print the counters of all sessions for Prometheus, or serve them over HTTP.
    Metrics(crate::metrics::MetricsArgs),
    /// Run a command in a host of a lab: a scenario with programs or containers.
    Exec(crate::sessions::ExecArgs),
    /// End a session, as SIGTERM does.
    Stop(crate::sessions::StopArgs),
    /// Generate the traffic of one host of a live scenario; `weir live` starts this command.
    #[command(hide = true)]
    Traffic,
    /// Watch the kernel's queues, millions of times a second or packet by packet, and Weir's own
    /// queues.
    Watch(crate::watch::WatchArgs),
    /// Run as a daemon: bridges with rules that can change under traffic, and a configuration that
    /// survives restarts.
    Serve(ServeArgs),
    /// Check a link specification, a script of commands or a scenario, and print its canonical
    /// form; needs no privileges.
    Check(CheckArgs),
    /// Convert another tool's description of a network into a scenario.
    Convert(crate::convert::ConvertArgs),
    /// Format a script: print each command in canonical form, and keep comments.
    Fmt(FmtArgs),
    /// Measure schedulers in isolation: the cost of a packet, and the service of each flow; needs
    /// no privileges.
    Rig(crate::rig::RigArgs),
    /// Simulate a network and its traffic, described by a scenario file, in virtual time; needs no
    /// privileges.
    Sim(crate::sim::SimArgs),
    /// Carry out a campaign: many simulations, each of which runs once and leaves its results in a
    /// store.
    Sweep(crate::sweep::SweepArgs),
    /// Repeat published experiments: show published and measured results, and a verdict on their
    /// shape.
    Reproduce(crate::reproduce::ReproduceArgs),
    /// Compare two directories of results: list the differences and whether they are significant.
    Compare(crate::compare::CompareArgs),
    /// Report what Weir can use on this machine, what is missing, and how to get it.
    Doctor(JsonFlag),
    /// List the algorithms with their parameters.
    Algorithms(AlgorithmsArgs),
    /// List the presets: well-known networks, with the sources of their values.
    Presets(JsonFlag),
    /// Print the JSON Schema of the documents that commands write.
    Schema(crate::schema::SchemaArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page of weir or of one of its commands.
    Man(ManArgs),
    #[command(flatten)]
    Verb(crate::verbs::Verb),
}

const MAIN_EXAMPLES: &str = "Examples:
  weir run --link 4M/20ms -- curl -O http://host:8000/file     a program behind 4 Mbit/s and 20 ms
  weir run --preset 3g --report out.html -- chromium           a browser on a phone network
  weir pair --link 10M/50ms/1% --left 'iperf3 -s -1' --right 'iperf3 -c left'
  weir doctor                                                  what this machine allows";
