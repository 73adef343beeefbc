//! The command line of `weir rig`.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::offers::Offered;

/// Options of `weir rig`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RigArgs {
    /// Schedulers, separated by commas: names from `weir algorithms`, `none` for the rig alone,
    /// `all`; settings follow a colon, as in `qfq+:m=1`.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "all",
        value_parser = Offered::SCHEDULERS,
        hide_possible_values = true,
        help_heading = "Schedulers and arrivals"
    )]
    pub(crate) alg: String,
    /// AQMs, separated by commas, in place of schedulers: names from `weir algorithms`, schedulers
    /// with an AQM inside, `none`, `all`; settings follow, as in `codel target=1ms ecn=on`.
    #[arg(
        long,
        value_name = "LIST",
        value_parser = Offered::AQMS,
        hide_possible_values = true,
        help_heading = "Schedulers and arrivals"
    )]
    pub(crate) aqm: Option<String>,
    /// Play a conformance case, print the fate of its packets, and check the case's expectations.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Schedulers and arrivals",
        conflicts_with_all = ["aqm", "alg", "flows", "plot", "adversary"]
    )]
    pub(crate) case: Option<PathBuf>,
    /// Replay a recording of `weir watch --record` with the disciplines of --alg and --aqm, and
    /// show the kernel's own row first [default: fifo,fq_codel,cake].
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Replay",
        conflicts_with_all = ["case", "flows", "adversary", "plot", "settings", "m", "step", "ecn"]
    )]
    pub(crate) replay: Option<PathBuf>,
    /// Rate of the link that serves the disciplines [default: the recorded shaper's]
    #[arg(long, value_name = "RATE", requires = "replay", help_heading = "Replay")]
    pub(crate) rate: Option<String>,
    /// Bytes that the link may send at once after an idle time [default: the recorded shaper's]
    #[arg(long, value_name = "SIZE", requires = "replay", help_heading = "Replay")]
    pub(crate) burst: Option<String>,
    /// Limit of each queue, in packets or, with a unit, in bytes [default: the recorded one, else
    /// 1000]
    #[arg(long, value_name = "N", requires = "replay", help_heading = "Replay")]
    pub(crate) limit: Option<String>,
    /// Write one HTML page with the table and plots of queue and delay.
    #[arg(long, value_name = "FILE", requires = "replay", help_heading = "Replay")]
    pub(crate) html: Option<PathBuf>,
    /// A setting for the schedulers that have it, such as `m=8`; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", help_heading = "Schedulers and arrivals")]
    pub(crate) settings: Vec<String>,
    /// The same as --set m=N: maximum number of classes in an aggregate of QFQ+.
    #[arg(long, value_name = "N", help_heading = "Schedulers and arrivals")]
    pub(crate) m: Option<u64>,
    /// Flows as COUNT:OPTIONS, groups separated by commas, such as `500:w1,250:w2,250:w4:imix`; or
    /// a range such as `1..32k`, a set for each power of two. May be given several times [default:
    /// 1k:w1]
    #[arg(long, value_name = "SET", help_heading = "Schedulers and arrivals")]
    pub(crate) flows: Vec<String>,
    /// Order of arrivals: `ramp` (flow after flow), `random`, `zipf`, `bursty`, or `trace:FILE`.
    #[arg(
        long = "gen",
        value_name = "ORDER",
        default_value = "ramp",
        help_heading = "Schedulers and arrivals"
    )]
    pub(crate) order: String,
    /// Packets inside the scheduler: the controller fills it up to HIGH and empties it down to LOW.
    /// With the suffix `n`, a value is per flow [default: 0:20n for a ramp, else 10n:10n]
    #[arg(long, value_name = "LOW:HIGH", help_heading = "Schedulers and arrivals")]
    pub(crate) backlog: Option<String>,
    /// Number of packets that are enqueued together, and dequeued together.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Schedulers and arrivals")]
    pub(crate) batch: usize,
    /// With --aqm: rate of the link that determines the times of packets, such as `1Gbit/s`.
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1Gbit/s",
        help_heading = "Schedulers and arrivals",
        requires = "aqm"
    )]
    pub(crate) link_rate: String,
    /// With --aqm: the offered load relative to the rate of the link.
    #[arg(
        long,
        value_name = "PARTS",
        default_value_t = 1.1,
        help_heading = "Schedulers and arrivals",
        requires = "aqm"
    )]
    pub(crate) offered: f64,
    /// With --aqm: packets are ECN-capable, so that AQMs can mark them.
    #[arg(long, help_heading = "Schedulers and arrivals", requires = "aqm")]
    pub(crate) ecn: bool,
    /// With --aqm: play senders that respond to drops and marks on a link of 10 Mbit/s, and from 4
    /// to 8 s also a stream that does not respond; --plot draws the queueing delay.
    #[arg(long, help_heading = "Schedulers and arrivals", requires = "aqm")]
    pub(crate) step: bool,
    /// Seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Schedulers and arrivals")]
    pub(crate) seed: u64,
    /// Metrics, separated by commas.
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        default_value = "time",
        help_heading = "Measurement"
    )]
    pub(crate) metric: Vec<Metric>,
    /// Packets per run [default: 2000000; with --quick 200000; for wfi and delay, enough turns of
    /// each flow]
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    pub(crate) pairs: Option<u64>,
    /// Number of runs; their median is the result [default: 5; with --quick 3]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "Measurement"
    )]
    pub(crate) runs: Option<u32>,
    /// Pattern of arrivals for the measurement of service.
    #[arg(long, value_name = "LOAD", value_enum, default_value_t, help_heading = "Measurement")]
    pub(crate) load: Load,
    /// Size of the simulated second-level cache [default: this processor's]
    #[arg(long, value_name = "SIZE", help_heading = "Measurement")]
    pub(crate) l2: Option<String>,
    /// Fewer packets and runs: rougher results in less time.
    #[arg(long, help_heading = "Measurement")]
    pub(crate) quick: bool,
    /// Search for the arrivals under which each scheduler serves worst, and write them to --out.
    #[arg(long, help_heading = "Adversary")]
    pub(crate) adversary: bool,
    /// The quantity that the search maximises.
    #[arg(long, value_name = "AIM", value_enum, default_value_t, help_heading = "Adversary")]
    pub(crate) aim: Aim,
    /// Weights that the search may assign to a group, or `keep` for the group's own weight.
    #[arg(long, value_name = "LEAST:MOST", default_value = "1:100", help_heading = "Adversary")]
    pub(crate) weights: String,
    /// Number of patterns of arrivals to try for each scheduler [default: 5000; with --quick 500]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000),
        help_heading = "Adversary"
    )]
    pub(crate) tries: Option<u64>,
    /// Search for this many seconds for each scheduler; the same command resumes the search.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=10_000_000),
        help_heading = "Adversary"
    )]
    pub(crate) seconds: Option<u64>,
    /// Directory for the arrivals found, and for the state of the search.
    #[arg(long, value_name = "DIR", default_value = "weir-adversary", help_heading = "Adversary")]
    pub(crate) out: PathBuf,
    /// Write the results as JSON (`-` for standard output, in place of the tables).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Plot the first metric against the number of flows (B-WFI: against the weight) into a .svg or
    /// .png file; may be given several times.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) plot: Vec<PathBuf>,
    /// Do not show progress.
    #[arg(short, long, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// Run one internal task. The rig starts itself with this option.
    #[arg(long, value_enum, hide = true)]
    pub(crate) only: Option<InternalTask>,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metric {
    /// Processor time of an enqueue and a dequeue.
    Time,
    /// Instructions and cache misses, counted by valgrind.
    Instr,
    /// Memory per flow and per packet.
    Memory,
    /// Worst-case fairness index and its bound.
    Wfi,
    /// Delay, and lag and lead relative to the ideal link.
    Delay,
}

/// Pattern of arrivals for the measurement of service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Every flow always has packets.
    #[default]
    Backlogged,
    /// Bursts at random times, with varying backlogs.
    OnOff,
    /// One flow after the other sends twenty packets.
    Ramp,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backlogged => "backlogged",
            Self::OnOff => "on-off",
            Self::Ramp => "ramp",
        })
    }
}

/// The quantity that the adversary maximises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Aim {
    /// B-WFI in packets.
    #[default]
    Packets,
    /// B-WFI relative to its bound.
    Bound,
    /// Delay in excess of the delay that the flow's own packets cause.
    Delay,
}

/// A task that the rig performs in a separate process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InternalTask {
    /// Drives packets while an external program counts events.
    Drive,
    /// Prints the memory that flows and packets take.
    Memory,
}

const EXAMPLES: &str = "Examples:
  weir rig                                                        every scheduler with 1024 flows
  weir rig --alg none,fifo,drr,wf2q+ --flows 1..32k --plot cost.png
  weir rig --flows 500:w1,250:w2,250:w4 --gen random --batch 32 --runs 9
  weir rig --alg wf2q+ --metric time,instr,memory --json -
  weir rig --flows 500:w1,250:w2,250:w4 --metric wfi,delay        service and its bounds
  weir rig --aqm codel,pie,\"red ecn=on\" --flows 1 --flows 1k    cost of a decision
  weir rig --case cases/codel.toml                                a conformance case
  weir rig --adversary --alg drr,wf2q+ --flows 500:w1,250:w2,250:w4
  weir rig --replay q.trace --alg fq_codel,cake --aqm codel       other disciplines, same packets

Times are processor time of one thread and include that of the rig itself; `net` excludes it.
Compare only results of one run of the command: disturbances of the machine then affect all
schedulers alike. docs/rig.md explains each metric.";
