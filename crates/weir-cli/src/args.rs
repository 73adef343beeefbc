//! Options of commands, and groups of options that several commands share. Parsing only: the
//! modules with the names of the commands execute them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `weir run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The direction from the program to the network, as a SPEC.
    #[arg(long, value_name = "SPEC", conflicts_with = "link", help_heading = "Network")]
    pub(crate) up: Option<String>,
    /// The direction from the network to the program, as a SPEC.
    #[arg(long, value_name = "SPEC", conflicts_with = "link", help_heading = "Network")]
    pub(crate) down: Option<String>,
    /// Both directions, as a SPEC: `4M/20ms`, or words such as
    /// `bw 4Mbit/s delay 20ms queue 50 loss 1%`.
    #[arg(long, value_name = "SPEC", help_heading = "Network")]
    pub(crate) link: Option<String>,
    /// A well-known network (see `weir presets`); --up and --down replace its directions.
    #[arg(long, value_name = "NAME", conflicts_with = "link", value_parser = preset_names(), hide_possible_values = true, help_heading = "Network")]
    pub(crate) preset: Option<String>,
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC;
    /// `in` and `out` are the program's, and `eth0` is its interface.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["up", "down", "link", "preset"], help_heading = "Network")]
    pub(crate) rules: Option<PathBuf>,
    /// Omit the connection beyond this machine: the program reaches only the machine itself, as
    /// `host`.
    #[arg(long, help_heading = "Network")]
    pub(crate) no_outside: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `weir pair`.
#[derive(Debug, Args)]
#[command(after_help = PAIR_EXAMPLES)]
pub(crate) struct PairArgs {
    #[command(flatten)]
    pub(crate) link: TwoWayArgs,
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC;
    /// `in` and `out` are the left program's, and `eth0` is its interface.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["link", "to_right", "to_left", "preset"], help_heading = "Network")]
    pub(crate) rules: Option<PathBuf>,
    /// The left program, as a shell command; usually the server. It reaches the other side as
    /// `right`.
    #[arg(long, value_name = "CMD", help_heading = "Programs")]
    pub(crate) left: OsString,
    /// The right program, as a shell command; usually the client. It reaches the other side as
    /// `left`.
    #[arg(long, value_name = "CMD", help_heading = "Programs")]
    pub(crate) right: OsString,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `weir bridge`.
#[derive(Debug, Args)]
#[command(after_help = BRIDGE_EXAMPLES)]
pub(crate) struct BridgeArgs {
    /// The left interface.
    #[arg(value_name = "IF1")]
    pub(crate) left: String,
    /// The right interface.
    #[arg(value_name = "IF2")]
    pub(crate) right: String,
    #[command(flatten)]
    pub(crate) link: TwoWayArgs,
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC;
    /// rules see a frame where it comes in, and rules that say `out` or `xmit` where it goes out.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["link", "to_right", "to_left", "preset"], help_heading = "Network")]
    pub(crate) rules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// `weir serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Two interfaces between which to forward; may be given several times.
    #[arg(long = "bridge", value_name = "IF1,IF2", value_parser = parse_bridge, help_heading = "Network")]
    pub(crate) bridges: Vec<BridgeNames>,
    /// The network namespace (of `ip netns`) of the interfaces.
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(crate) netns: Option<String>,
    /// Commands to start with if no configuration is saved, and to replace it with on SIGHUP.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) rules: Option<PathBuf>,
    /// Seed of all random draws.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, help_heading = "Network")]
    pub(crate) seed: u64,
    /// Directory for the configuration [default: /var/lib/weir; for ordinary users
    /// ~/.local/state/weir]
    #[arg(long, value_name = "DIR", help_heading = "Control")]
    pub(crate) state: Option<PathBuf>,
    /// Unix socket of the API [default: /run/weir/weir.sock; for ordinary users
    /// $XDG_RUNTIME_DIR/weir.sock]
    #[arg(long, value_name = "PATH", help_heading = "Control")]
    pub(crate) socket: Option<PathBuf>,
    /// Group of users that may use the socket, besides root and the daemon's user.
    #[arg(long, value_name = "GROUP", help_heading = "Control")]
    pub(crate) group: Option<String>,
    /// TCP address that also offers the API, to clients with the token. It is not encrypted: use a
    /// proxy for that.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file", help_heading = "Control")]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// File with the token for --http: one line, not readable by other users.
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "Control")]
    pub(crate) token_file: Option<PathBuf>,
    /// Do not print what the daemon does.
    #[arg(short, long, help_heading = "Control")]
    pub(crate) quiet: bool,
    /// Threads that share the work; each needs a processor.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_workers, help_heading = "Tuning")]
    pub(crate) workers: usize,
    /// How long to spin before a release: `adaptive`, `off`, or a time such as `60us`.
    #[arg(long, value_name = "TIME", default_value = "adaptive", value_parser = parse_spin, help_heading = "Tuning")]
    pub(crate) spin: weir_linux::live::Spin,
    /// Do not ask for real-time priority.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Maximum memory for frames inside, for example `512MB`.
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = parse_size, help_heading = "Tuning")]
    pub(crate) memory: usize,
    /// Do not filter system calls, for debugging and for kernels without this feature.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_seccomp: bool,
    /// Do not give up capabilities, for debugging.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) keep_privileges: bool,
}

/// The two interfaces of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgeNames(pub(crate) [String; 2]);

/// The link between two equal sides.
#[derive(Debug, Args)]
pub(crate) struct TwoWayArgs {
    /// Both directions, as a SPEC: `4M/20ms`, or words such as
    /// `bw 4Mbit/s delay 20ms queue 50 loss 1%`.
    #[arg(long, value_name = "SPEC", help_heading = "Network")]
    pub(crate) link: Option<String>,
    /// The direction from left to right, as a SPEC, in place of --link.
    #[arg(long, value_name = "SPEC", help_heading = "Network")]
    pub(crate) to_right: Option<String>,
    /// The direction from right to left, as a SPEC, in place of --link.
    #[arg(long, value_name = "SPEC", help_heading = "Network")]
    pub(crate) to_left: Option<String>,
    /// A well-known network with its user on the right (see `weir presets`).
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "link",
        value_parser = preset_names(),
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) preset: Option<String>,
}

/// Options of the commands that create namespaces.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Largest IP packet on the link, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65521), help_heading = "Network")]
    pub(crate) mtu: u32,
    /// How frames are exchanged with the kernel.
    #[arg(long, value_enum, default_value_t, help_heading = "Tuning")]
    pub(crate) backend: BackendArg,
}

/// Options of every live command.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Seed of all random draws: the same seed loses the same packets. `random` picks one and
    /// prints it.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed, allow_negative_numbers = true, help_heading = "Network")]
    pub(crate) seed: u64,
    /// End after this time, for example `30s`: a program that still runs gets SIGTERM, and three
    /// seconds later SIGKILL.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Write the results as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with plots as one HTML file.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) report: Option<PathBuf>,
    /// Capture every packet and its fate, as pcapng.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) pcap: Option<PathBuf>,
    /// Bytes to keep of each captured packet; 0 keeps all of them.
    #[arg(long, value_name = "BYTES", default_value_t = 0, help_heading = "Results")]
    pub(crate) snaplen: usize,
    /// Do not print the summary.
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// Show progress while the program runs; by default only if the program does not print to the
    /// terminal.
    #[arg(long, help_heading = "Results")]
    pub(crate) progress: bool,
    /// How long to spin before a release: `adaptive`, `off`, or a time such as `60us`.
    #[arg(long, value_name = "TIME", default_value = "adaptive", value_parser = parse_spin, help_heading = "Tuning")]
    pub(crate) spin: weir_linux::live::Spin,
    /// Request neither real-time priority nor that processors stay awake under light traffic.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Processor to which the link's thread is pinned.
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) cpu: Option<usize>,
    /// Threads that share the work: useful for many instances of a mask, with a processor for each
    /// thread and one to spare.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64), help_heading = "Tuning")]
    pub(crate) workers: u8,
    /// Maximum memory for frames inside the link, for example `512MB`.
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = parse_size, help_heading = "Tuning")]
    pub(crate) memory: usize,
}

/// `weir check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Print the content of a script or scenario, and its diagnostics, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// A specification, as one word or several; or a script file, `-` for standard input; or a
    /// scenario file (`.toml`).
    #[arg(
        value_name = "SPEC|FILE",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) spec: Vec<String>,
}

/// `weir fmt`.
#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The script, `-` for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Write the result into the file instead of printing it.
    #[arg(long, conflicts_with = "check")]
    pub(crate) write: bool,
    /// Only check whether the file is formatted; the exit code is 1 if it is not.
    #[arg(long)]
    pub(crate) check: bool,
}

/// A listing's only option.
#[derive(Debug, Args)]
pub(crate) struct JsonFlag {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir algorithms`.
#[derive(Debug, Args)]
pub(crate) struct AlgorithmsArgs {
    /// Describe this one in full.
    pub(crate) name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Compare an algorithm with a model of what it represents; `dcf` has one, Bianchi's.
    #[arg(long, value_name = "ALGORITHM", value_parser = ["dcf"], conflicts_with = "name")]
    pub(crate) check: Option<String>,
}

/// `weir completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// `weir man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command of the page; none for weir itself.
    pub(crate) command: Option<String>,
    /// Write all pages into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
}

/// How frames are exchanged with the kernel.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum BackendArg {
    /// Packet sockets: the kernel reports when a frame arrived, so delays are exact.
    #[default]
    Auto,
    /// TAP devices, if /dev/net/tun can be opened: one copy less.
    Tap,
    /// veth pairs and packet sockets.
    Packet,
}

/// The names of the presets, so that shells complete them.
fn preset_names() -> clap::builder::PossibleValuesParser {
    weir_rules::presets::names().collect::<Vec<_>>().into()
}

fn parse_seed(text: &str) -> Result<u64, String> {
    if text == "random" {
        return Ok(std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) >> 32);
    }
    text.parse().map_err(|_| {
        "a seed is a whole number from 0 to 18446744073709551615, or `random`".to_owned()
    })
}

fn parse_bridge(text: &str) -> Result<BridgeNames, String> {
    match text.split_once(',').map(|(left, right)| (left.trim(), right.trim())) {
        Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(',') => {
            Ok(BridgeNames([left.to_owned(), right.to_owned()]))
        }
        _ => {
            Err("a bridge is two interfaces with a comma between them, such as eth1,eth2"
                .to_owned())
        }
    }
}

fn parse_workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err("workers are a number from 1 to 64".to_owned()),
    }
}

fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let most = weir_core::Nanos::from_secs(1_000_000);
    let time = weir_rules::quantity::time(text, most)
        .map_err(|error| format!("{error}; for example 30s or 500ms"))?;
    Ok(std::time::Duration::from_nanos(time.0))
}

pub(crate) fn parse_spin(text: &str) -> Result<weir_linux::live::Spin, String> {
    use weir_linux::live::Spin;
    match text {
        "adaptive" => Ok(Spin::Adaptive),
        "off" => Ok(Spin::Off),
        _ => {
            let most = weir_core::Nanos::from_millis(10);
            let time = weir_rules::quantity::time(text, most);
            time.map(Spin::Fixed).map_err(|error| {
                format!("{error}; give `adaptive`, `off`, or a time up to 10 ms such as 60us")
            })
        }
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let size =
        weir_rules::quantity::size(text).map_err(|error| format!("{error}; for example 512MB"))?;
    let range = 1_000_000..=64_000_000_000;
    if !range.contains(&size) {
        return Err("the memory for frames must be within 1MB and 64GB".to_owned());
    }
    usize::try_from(size).map_err(|_| "more than this machine can address".to_owned())
}

const RUN_EXAMPLES: &str = "Examples:
  weir run --up 256k/20ms --down 4M/20ms -- curl -o /dev/null http://host:8000/
  weir run --link 'bw 20Mbit/s delay 15ms jitter 3ms loss 0.5% queue 100KB' --json out.json -- ./game
  weir run --preset satellite -- bash
  weir run --rules site.rules -- ./client

The program has a network of its own. This machine is `host` there; what lies behind it is reached through it.
The exit code is the program's; 125 when weir itself failed, 126 and 127 as in a shell, 2 for a bad command line.
SPEC: `weir check` explains one; all words stand in docs/link-spec.md.";
const PAIR_EXAMPLES: &str = "Examples:
  weir pair --link 10M/20ms --left 'iperf3 -s -1' --right 'iperf3 -c left -t 5'
  weir pair --to-right 100M/5ms --to-left 10M/5ms --left ./server --right './client left'

The run ends when the right program ends; the left one is then ended too. A left program that is done before is
no hindrance; when it fails, the right one has five seconds left. The exit code is the right one's, or the left
one's if that failed first.";
const SERVE_EXAMPLES: &str = "Examples:
  weir serve --bridge eth1,eth2 --rules /etc/weir/rules
  weir serve --bridge eth1,eth2 --bridge eth3,eth4 --group weir
  weir serve --http 127.0.0.1:8420 --token-file /etc/weir/token

Change it with the verbs (`weir pipe 1 config …`, `weir add …`) or over its API; see docs/daemon.md. What a command was
acknowledged for is on disk: a daemon that starts again, even after kill -9, goes on with it. SIGHUP reads --rules again,
SIGTERM ends. Needs CAP_NET_RAW and CAP_NET_ADMIN for bridges.";
const CHECK_EXAMPLES: &str = "Examples:
  weir check 4M/20ms queue 64KB         a specification
  weir check rules.ipfw                 a script: errors with their places, then each command in canonical form
  weir check --json - < rules.ipfw      the same for programs

What a script refers to and does not configure is a warning: it may have been configured before.
The exit code is 2 when there are errors. The language stands in docs/rules.md.";
const BRIDGE_EXAMPLES: &str = "Examples:
  weir bridge eth1 eth2 --link 50M/10ms
  weir bridge eth1 eth2 --to-right 100M/5ms --to-left '20M/5ms queue 100KB' --timeout 60s

Ends at ^C, after --timeout, or when an interface disappears. Needs CAP_NET_RAW and CAP_NET_ADMIN.";
