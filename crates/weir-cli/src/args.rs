//! Options of commands, and groups of options that several commands share. This module only parses
//! options; the module of each command executes the command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_rules::quantity::{self, QuantityError};

use crate::offers::Offered;

/// Options of `weir run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC.
    /// `in` and `out` are relative to the program, and `eth0` is its interface.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["up", "down", "link", "preset"],
        help_heading = "Network"
    )]
    pub(crate) rules: Option<PathBuf>,
    /// Omit the connection beyond this machine: the program reaches only the machine itself, as
    /// `host`.
    #[arg(long, help_heading = "Network")]
    pub(crate) no_outside: bool,
    /// Run a job that a Compose file describes: each container has an access link of its own. The
    /// words after `--` are arguments for `compose up`. May be given several times, like `-f` of
    /// Compose.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rules", "no_outside", "publish", "mtu", "arp", "backend"],
        help_heading = "Compose"
    )]
    pub(crate) compose: Vec<PathBuf>,
    /// Shape only the containers of this service; may be given several times.
    #[arg(long, value_name = "NAME", requires = "compose", help_heading = "Compose")]
    pub(crate) service: Vec<String>,
    /// A port of this machine that leads to a port of the program over the link, as in
    /// `8080:80`, `127.0.0.1:8080:80`, `5000:53/udp`; may be given several times. The machine
    /// accepts clients at once, and their data crosses the link; the program sees the clients as
    /// `host`.
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT:PORT[/udp]",
        value_parser = crate::publish::parse,
        help_heading = "Network"
    )]
    pub(crate) publish: Vec<weir_linux::topology::Publish>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The program and its arguments; with --compose, arguments for `compose up`.
    #[arg(last = true, required_unless_present = "compose", value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Options of `weir pair`.
#[derive(Debug, Args)]
#[command(after_help = PAIR_EXAMPLES)]
pub(crate) struct PairArgs {
    #[command(flatten)]
    pub(crate) link: TwoWayArgs,
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC.
    /// `in` and `out` are relative to the left program, and `eth0` is its interface.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["link", "to_right", "to_left", "preset"],
        help_heading = "Network"
    )]
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

/// Options of `weir bridge`.
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
    /// Rules and pipes in the language of ipfw and dummynet, from this file, in place of a SPEC.
    /// All rules apply when a frame comes in; only rules with `out` or `xmit` apply when it goes
    /// out.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["link", "to_right", "to_left", "preset"],
        help_heading = "Network"
    )]
    pub(crate) rules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options of `weir serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Two interfaces between which to forward; may be given several times.
    #[arg(
        long = "bridge",
        value_name = "IF1,IF2",
        value_parser = parse_bridge,
        help_heading = "Network"
    )]
    pub(crate) bridges: Vec<BridgeNames>,
    /// The network namespace (of `ip netns`) of the interfaces.
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(crate) netns: Option<String>,
    /// File of commands: the configuration if none is saved. On SIGHUP it replaces the current
    /// configuration.
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) rules: Option<PathBuf>,
    /// Seed of all random draws.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = parse_seed,
        help_heading = "Network"
    )]
    pub(crate) seed: u64,
    /// Directory for the configuration [default: /var/lib/weir; for ordinary users
    /// ~/.local/state/weir]
    #[arg(long, value_name = "DIR", help_heading = "Control")]
    pub(crate) state: Option<PathBuf>,
    /// List the saved configurations and end; with a revision from the list, or `empty`, start
    /// with that configuration.
    #[arg(long, value_name = "REVISION", value_parser = parse_choice, help_heading = "Control")]
    pub(crate) recover: Option<Option<weir_control::owner::Choice>>,
    /// Unix socket of the API [default: $WEIR_SOCKET, else /run/weir/weir.sock; for ordinary users
    /// $XDG_RUNTIME_DIR/weir.sock]
    #[arg(long, value_name = "PATH", help_heading = "Control")]
    pub(crate) socket: Option<PathBuf>,
    /// Group of users that may use the socket, besides root and the daemon's user.
    #[arg(long, value_name = "GROUP", help_heading = "Control")]
    pub(crate) group: Option<String>,
    /// User that the daemon becomes after its start, by name or number, if root starts it
    /// [default: weir, if there is such a user]
    #[arg(long, value_name = "USER", help_heading = "Control")]
    pub(crate) user: Option<String>,
    /// Offer the API on this TCP address too, to clients with the token. The connection is not
    /// encrypted: use a proxy for that.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file", help_heading = "Control")]
    pub(crate) http: Option<SocketAddr>,
    /// File with the token for --http: one line, not readable by other users.
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "Control")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Do not print what the daemon does.
    #[arg(short, long, help_heading = "Control")]
    pub(crate) quiet: bool,
    /// Threads that share the work; each needs a processor.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = parse_workers,
        help_heading = "Tuning"
    )]
    pub(crate) workers: usize,
    /// How long to spin before a departure is due: `adaptive`, `off`, or a time such as `60us`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "adaptive",
        value_parser = parse_spin,
        help_heading = "Tuning"
    )]
    pub(crate) spin: weir_linux::live::Spin,
    /// Do not ask for real-time priority.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Maximum memory for frames in the links and for free buffers, for example `512MB`. The
    /// process needs more: memory for rules and pipes and, after frames of mixed lengths, up to
    /// about this size again.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512MB",
        value_parser = parse_size,
        help_heading = "Tuning"
    )]
    pub(crate) memory: usize,
    /// Do not filter system calls, for debugging and for kernels without this feature.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_seccomp: bool,
    /// Do not give up capabilities, files and the user root, for debugging.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) keep_privileges: bool,
}

fn parse_choice(text: &str) -> Result<weir_control::owner::Choice, String> {
    use weir_control::owner::Choice;
    match text.parse() {
        Ok(revision) => Ok(Choice::Revision(revision)),
        Err(_) if text == "empty" => Ok(Choice::Empty),
        Err(_) => Err("it is no revision; '--recover' without a value lists them, and 'empty' is \
                       the empty configuration"
            .to_owned()),
    }
}

/// The two interfaces of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgeNames(pub(crate) [String; 2]);

/// The access link of a program or of an attachment's target.
#[derive(Debug, Args)]
pub(crate) struct AccessArgs {
    /// The direction from the program or target to the network, as a SPEC.
    #[arg(
        long,
        value_name = "SPEC",
        conflicts_with = "link",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) up: Option<String>,
    /// The direction from the network to the program or target, as a SPEC.
    #[arg(
        long,
        value_name = "SPEC",
        conflicts_with = "link",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) down: Option<String>,
    /// Both directions, as a SPEC: `4M/20ms`, or words such as
    /// `bw 4Mbit/s delay 20ms queue 50 loss 1%`.
    #[arg(
        long,
        value_name = "SPEC",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) link: Option<String>,
    /// A well-known network (see `weir presets`); --up and --down replace its directions.
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

impl AccessArgs {
    /// Whether none of the options is given.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.up, &self.down, &self.link, &self.preset].iter().all(|spec| spec.is_none())
    }
}

/// The link between two equal sides.
#[derive(Debug, Args)]
pub(crate) struct TwoWayArgs {
    /// Both directions, as a SPEC: `4M/20ms`, or words such as
    /// `bw 4Mbit/s delay 20ms queue 50 loss 1%`.
    #[arg(
        long,
        value_name = "SPEC",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) link: Option<String>,
    /// The direction from left to right, as a SPEC, in place of --link.
    #[arg(
        long,
        value_name = "SPEC",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
    pub(crate) to_right: Option<String>,
    /// The direction from right to left, as a SPEC, in place of --link.
    #[arg(
        long,
        value_name = "SPEC",
        value_parser = Offered::LINKS,
        hide_possible_values = true,
        help_heading = "Network"
    )]
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

/// Options of `weir run` and `weir pair` about their namespaces and the interfaces in them.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Largest IP packet on the link, in bytes.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1500,
        value_parser = clap::value_parser!(u32).range(576..=65521),
        help_heading = "Network"
    )]
    pub(crate) mtu: u32,
    /// How the two ends of the link learn each other's Ethernet addresses.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Network")]
    pub(crate) arp: ArpArg,
    /// How frames are exchanged with the kernel.
    #[arg(long, value_enum, default_value_t, help_heading = "Tuning")]
    pub(crate) backend: BackendArg,
}

/// Options that `weir run`, `pair`, `bridge`, `attach` and `host` share.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Seed of all random draws: the same seed loses the same packets. `random` picks one, which
    /// the results state.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = parse_seed,
        allow_negative_numbers = true,
        help_heading = "Network"
    )]
    pub(crate) seed: u64,
    /// End after this time, for example `30s`: a program that still runs gets SIGTERM, and three
    /// seconds later SIGKILL.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    pub(crate) timeout: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Name for `weir ps`, `weir change` and `weir stop` [default: derived from the command line,
    /// such as the program's name].
    #[arg(
        long,
        value_name = "NAME",
        value_parser = parse_name,
        help_heading = "Control"
    )]
    pub(crate) name: Option<weir_control::directory::Name>,
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
    /// How long to spin before a departure is due: `adaptive`, `off`, or a time such as `60us`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "adaptive",
        value_parser = parse_spin,
        help_heading = "Tuning"
    )]
    pub(crate) spin: weir_linux::live::Spin,
    /// Neither request real-time priority nor keep processors awake under light traffic.
    #[arg(long, help_heading = "Tuning")]
    pub(crate) no_realtime: bool,
    /// Processor to which the link's thread is pinned; with --workers, the first of several.
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) cpu: Option<usize>,
    /// Threads that share the work: useful for many instances of a mask, with a processor for each
    /// thread and one to spare.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=64),
        help_heading = "Tuning"
    )]
    pub(crate) workers: u8,
    /// Maximum memory for frames in the links and for free buffers, for example `512MB`. The
    /// process needs more: memory for rules and pipes and, after frames of mixed lengths, up to
    /// about this size again.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512MB",
        value_parser = parse_size,
        help_heading = "Tuning"
    )]
    pub(crate) memory: usize,
}

/// The timed plan of the commands that run links.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Change links at this time after the start: `--at 10s 'down bw 1Mbit/s' --at 20s reset`. The
    /// words replace only the settings that they name. Without the name of a link, all links
    /// change.
    #[arg(
        long,
        value_names = ["TIME", "ACTION"],
        num_args = 2,
        action = clap::ArgAction::Append,
        help_heading = "Control"
    )]
    pub(crate) at: Vec<String>,
    /// File of such changes: each line is a time and an action, such as `10s down bw 1Mbit/s`.
    #[arg(long, value_name = "FILE", help_heading = "Control")]
    pub(crate) plan: Option<PathBuf>,
}

/// Options of `weir check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Print the content of a script or scenario as JSON, with its diagnostics.
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

/// Options of `weir fmt`.
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

/// The only option of `weir doctor` and `weir presets`.
#[derive(Debug, Args)]
pub(crate) struct JsonFlag {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `weir algorithms`.
#[derive(Debug, Args)]
pub(crate) struct AlgorithmsArgs {
    /// Describe this algorithm in full.
    pub(crate) name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Compare an algorithm with a mathematical model of the system that it simulates; only `dcf`
    /// has such a model, Bianchi's.
    #[arg(long, value_name = "ALGORITHM", value_parser = ["dcf"], conflicts_with = "name")]
    pub(crate) check: Option<String>,
}

/// Options of `weir completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `weir man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command that the page describes; without it, weir itself.
    pub(crate) command: Option<String>,
    /// Write all pages into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
}

/// How frames are exchanged with the kernel.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum BackendArg {
    /// Packet sockets: the kernel reports the arrival time of each frame, so delays are exact.
    #[default]
    Auto,
    /// TAP devices, if /dev/net/tun can be opened; each frame is copied once less.
    Tap,
    /// veth pairs and packet sockets, which `auto` also uses.
    Packet,
}

/// How the two ends of a link learn each other's Ethernet addresses.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum ArpArg {
    /// Both ends know them from the start, so the first packet is like all others.
    #[default]
    Static,
    /// The kernels resolve them over the link, as between neighbours on a real segment: the first
    /// packet waits for one more round trip, and for another 1 s after each lost request. Above
    /// 1.5 s of delay in each direction the other end is unreachable.
    Emulated,
}

/// The names of the presets, so that shells complete them.
pub(crate) fn preset_names() -> clap::builder::PossibleValuesParser {
    weir_rules::presets::names().collect::<Vec<_>>().into()
}

/// Parses a seed. For `random`, it is a random number of 32 bits.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    if text == "random" {
        return Ok(std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) >> 32);
    }
    text.parse().map_err(|_| {
        "a seed is a whole number from 0 to 18446744073709551615, or `random`".to_owned()
    })
}

/// Parses the seed of a scenario, which is at most the largest integer of TOML.
pub(crate) fn parse_scenario_seed(text: &str) -> Result<u64, String> {
    parse_seed(text).ok().filter(|&seed| seed <= MOST_SCENARIO_SEED).ok_or_else(|| {
        format!("a scenario's seed is a whole number from 0 to {MOST_SCENARIO_SEED}, or `random`")
    })
}

pub(crate) fn parse_name(text: &str) -> Result<weir_control::directory::Name, String> {
    text.parse().map_err(|error: weir_control::directory::NameError| error.to_string())
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
        _ => Err("the number of workers is from 1 to 64".to_owned()),
    }
}

pub(crate) fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let most = weir_core::Nanos::from_secs(1_000_000);
    let time = quantity::time_with_unit(text, most).map_err(|error| match error {
        QuantityError::Bare => both_readings(text, "s"),
        error => format!("{error}; for example 30s or 500ms"),
    })?;
    Ok(std::time::Duration::from_nanos(time.0))
}

pub(crate) fn parse_spin(text: &str) -> Result<weir_linux::live::Spin, String> {
    use weir_linux::live::Spin;
    match text {
        "adaptive" => Ok(Spin::Adaptive),
        "off" => Ok(Spin::Off),
        _ => {
            let most = weir_core::Nanos::from_millis(10);
            quantity::time_with_unit(text, most).map(Spin::Fixed).map_err(|error| match error {
                QuantityError::Bare => both_readings(text, "us"),
                error => {
                    format!("{error}; give `adaptive`, `off`, or a time up to 10 ms such as 60us")
                }
            })
        }
    }
}

/// The error for a time without a unit. It shows both possible meanings: milliseconds, as in the
/// language of links, and `unit`.
fn both_readings(text: &str, unit: &str) -> String {
    format!("a time needs its unit: {text} ms is `{text}ms`, {text} {unit} is `{text}{unit}`")
}

pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let size =
        weir_rules::quantity::size(text).map_err(|error| format!("{error}; for example 512MB"))?;
    let range = 1_000_000..=64_000_000_000;
    if !range.contains(&size) {
        return Err("the memory for frames must be within 1MB and 64GB".to_owned());
    }
    usize::try_from(size).map_err(|_| "more than this machine can address".to_owned())
}

/// The largest seed of a scenario: integers of TOML have 63 bits and a sign.
const MOST_SCENARIO_SEED: u64 = i64::MAX as u64;

const RUN_EXAMPLES: &str = "Examples:
  weir run --up 256k/20ms --down 4M/20ms -- curl -o /dev/null http://host:8000/
  weir run --link 'bw 20Mbit/s delay 15ms loss 0.5% queue 100KB' --json out.json -- ./game
  weir run --preset satellite -- bash
  weir run --link 10M/20ms --publish 8080:80 -- ./server
  weir run --rules site.rules -- ./client
  weir run --compose docker-compose.yml --down 4M/20ms -- --exit-code-from client

The program runs in its own network. It reaches this machine as `host`, and all other networks
through this machine. Inside another `weir run`, `host` is the outer program's network, and the
machine is `outer-host`. The exit code is that of the program; 125 if weir itself failed, 126 and
127 as in a shell, 2 for a bad command line. `weir check` explains a SPEC, and docs/link-spec.md
describes all words.";
const PAIR_EXAMPLES: &str = "Examples:
  weir pair --link 10M/20ms --left 'iperf3 -s -1' --right 'iperf3 -c left -t 5'
  weir pair --to-right 100M/5ms --to-left 10M/5ms --left ./server --right './client left'

The run ends when the right program ends; a left program that still runs is then ended too. The
left program may end earlier. If it fails, the right program has five seconds left. The exit code
is that of the right program, or that of the left program if it failed first.";
const SERVE_EXAMPLES: &str = "Examples:
  weir serve --bridge eth1,eth2 --rules /etc/weir/rules
  weir serve --bridge eth1,eth2 --bridge eth3,eth4 --group weir
  weir serve --http 127.0.0.1:8420 --token-file /etc/weir/token

Commands such as `weir pipe 1 config …` and `weir add …` change the configuration, and so does
the API; see docs/daemon.md. An acknowledged change is on disk: a daemon that starts again, even
after kill -9, resumes with it. SIGHUP reads --rules again, SIGTERM ends the daemon. Bridges need
CAP_NET_RAW and CAP_NET_ADMIN.";
const CHECK_EXAMPLES: &str = "Examples:
  weir check 4M/20ms queue 64KB         a specification
  weir check rules.ipfw                 a script: its errors, or its commands in canonical form
  weir check --json - < rules.ipfw      the same for programs

An object that a script refers to but does not configure causes a warning, because it may have
been configured before. The exit code is 2 if there are errors. docs/rules.md describes the
language.";
const BRIDGE_EXAMPLES: &str = "Examples:
  weir bridge eth1 eth2 --link 50M/10ms
  weir bridge eth1 eth2 --to-right 100M/5ms --to-left '20M/5ms queue 100KB' --timeout 60s

The bridge ends at ^C, after --timeout, or when an interface disappears. It needs CAP_NET_RAW and
CAP_NET_ADMIN.";

/// Options of the web page.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebArgs {
    /// Serve a web page that shows and changes the links, on this address. Weir prints the address
    /// with a token [default: 127.0.0.1:8090, or another port if that one is taken]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        value_parser = parse_address,
        help_heading = "Web page"
    )]
    pub(crate) web: Option<Option<SocketAddr>>,
    /// A further name of this server, such as that of a proxy; may be given several times.
    #[arg(long, value_name = "NAME", requires = "web", help_heading = "Web page")]
    pub(crate) allowed_host: Vec<String>,
    /// Serve the page with TLS and the certificate in this file (PEM, followed by the certificates
    /// of its issuers).
    #[arg(long, value_name = "FILE", requires = "web", help_heading = "Web page")]
    pub(crate) web_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM) [default: in the file of --web-cert].
    #[arg(long, value_name = "FILE", requires = "web_cert", help_heading = "Web page")]
    pub(crate) web_key: Option<PathBuf>,
    /// Serve the page without encryption on an address that other machines reach.
    #[arg(long, requires = "web", conflicts_with = "web_cert", help_heading = "Web page")]
    pub(crate) insecure: bool,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "'{text}' is no ADDRESS:PORT, such as 127.0.0.1:8090; without an address, put --web \
             before another option"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_of_a_scenario_is_random_or_within_the_range_of_toml() {
        assert!(parse_scenario_seed("random").is_ok());
        assert_eq!(parse_scenario_seed("7"), Ok(7));
        assert_eq!(parse_scenario_seed("9223372036854775807"), Ok(MOST_SCENARIO_SEED));
        for text in ["9223372036854775808", "-5", "some", ""] {
            let error = parse_scenario_seed(text).unwrap_err();
            let range = "a whole number from 0 to 9223372036854775807, or `random`";
            assert!(error.contains(range), "{text}: {error}");
        }
    }
}
