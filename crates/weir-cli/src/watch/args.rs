//! The command line of `weir watch`, and the plan that follows from it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use weir_probe::{Method, Namespace, Plan, Target};

/// Options of `weir watch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// Devices with the queues to watch: names, or patterns with `*` and `?`. `DEV@NETNS` and
    /// `DEV@PID` are in other namespaces. `weir` means the queues of the daemon, `weir:SOCKET`
    /// those of the daemon that listens on this socket.
    #[arg(value_name = "DEV", required = true, value_parser = parse_watched)]
    pub(super) devices: Vec<Watched>,
    /// The network namespace (of `ip netns`) of devices that are given without a namespace.
    #[arg(long, value_name = "NAME", conflicts_with = "pid", help_heading = "Devices")]
    pub(super) netns: Option<String>,
    /// The process that determines the network namespace of devices that are given without one.
    #[arg(long, value_name = "PID", help_heading = "Devices")]
    pub(super) pid: Option<u32>,
    /// Watch only the disciplines to which a device hands its packets, not those below them.
    #[arg(long, help_heading = "Devices")]
    pub(super) root_only: bool,
    /// Omit the three bands of `pfifo_fast`.
    #[arg(long, help_heading = "Devices")]
    pub(super) no_bands: bool,
    /// Readings per second, such as `200k`, `1M` or `5kHz`; `max` for as many as possible [default:
    /// 1k; `max` for the methods loop and tc]
    #[arg(
        long,
        value_name = "HZ",
        value_parser = parse_rate,
        allow_negative_numbers = true,
        help_heading = "Reading"
    )]
    pub(super) rate: Option<Rate>,
    /// Record every packet that is enqueued or dequeued, in place of readings; the same as
    /// `--method events`.
    #[arg(long, conflicts_with_all = ["rate", "method"], help_heading = "Reading")]
    pub(super) events: bool,
    /// Method of reading, in place of the cheapest one that reaches the rate: `loop` (in the
    /// kernel, takes a processor), `timer` (in the kernel, up to 10 kHz), `events`, `netlink`
    /// (needs no privileges), `tc` (starts tc for each reading).
    #[arg(
        long,
        value_name = "METHOD",
        value_parser = method_names(),
        hide_possible_values = true,
        help_heading = "Reading"
    )]
    pub(super) method: Option<Method>,
    /// End after this many seconds, such as `10` or `0.5`; without it, ^C or the end of the command
    /// ends the watch.
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_seconds,
        allow_negative_numbers = true,
        help_heading = "Reading"
    )]
    pub(super) seconds: Option<Duration>,
    /// Watch while this shell command runs, and exit with its exit code.
    #[arg(long, value_name = "CMD", conflicts_with = "command", help_heading = "Reading")]
    pub(super) exec: Option<OsString>,
    /// Also report for how long queues were longer than this many packets.
    #[arg(long, value_name = "N", help_heading = "Results")]
    pub(super) threshold: Option<u32>,
    /// Write the summary as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(super) json: Option<PathBuf>,
    /// Write every reading as a line of JSON (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(super) jsonl: Option<PathBuf>,
    /// Write every reading as a row of CSV (`-` for standard output).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(super) csv: Option<PathBuf>,
    /// Write every reading as a row of a Parquet table.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(super) parquet: Option<PathBuf>,
    /// Seconds between two writes to --jsonl and --csv, for a program that reads a pipe. A queue
    /// that does not change also has a row in each write [default: 1].
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = parse_flush,
        allow_negative_numbers = true,
        help_heading = "Results"
    )]
    pub(super) flush: Option<Duration>,
    /// Record every packet of one device (arrival, length, flow, departure or drop) for
    /// `weir rig --replay`; implies --events.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rate", "method"],
        help_heading = "Results"
    )]
    pub(super) record: Option<PathBuf>,
    /// Write a report with plots as one HTML file.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(super) report: Option<PathBuf>,
    /// Show nothing while watching, and print no table at the end.
    #[arg(short, long, help_heading = "Results")]
    pub(super) quiet: bool,
    /// Watch while this program runs, and exit with its exit code.
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// Something to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Devices of the kernel.
    Kernel(Target),
    /// The daemon that listens on this socket; `None` for the daemon that this user's commands use
    /// by default.
    Own(Option<PathBuf>),
}

/// The rate of readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    /// This many readings per second.
    Hz(u64),
    /// As many readings as the method can take.
    Max,
}

impl WatchArgs {
    /// The plan for reading the kernel's queues; `None` if only queues of Weir are named.
    ///
    /// # Errors
    /// The method cannot reach the rate, or options do not fit together; the error states this in
    /// words.
    pub(super) fn plan(&self) -> Result<Option<Plan>, String> {
        let targets: Vec<Target> =
            self.devices.iter().filter_map(|watched| self.target(watched)).collect();
        let packets = self.record.is_some();
        if packets && !matches!(&self.devices[..], [Watched::Kernel(_)]) {
            return Err("--record: a recording is of one device of the kernel; name one".to_owned());
        }
        let method = if self.events || packets { Some(Method::Events) } else { self.method };
        let rate = match (self.rate, method) {
            (Some(_), Some(Method::Events)) => {
                return Err("events are recorded as they come: leave out --rate".to_owned());
            }
            (Some(Rate::Max), Some(Method::Timer)) => {
                return Err(format!(
                    "a timer gives up to {TIMER_RATE} readings a second: say --rate, or --method \
                     loop for more"
                ));
            }
            (Some(Rate::Hz(rate)), Some(Method::Timer)) if rate > TIMER_RATE => {
                return Err(format!(
                    "a timer gives up to {TIMER_RATE} readings a second: use --method loop for more"
                ));
            }
            (Some(Rate::Hz(rate)), _) => Some(rate),
            (Some(Rate::Max), _) | (None, Some(Method::Loop | Method::Events | Method::Tc)) => None,
            (None, _) => Some(DEFAULT_RATE),
        };
        let (children, bands) = (!self.root_only, !self.no_bands && !self.root_only);
        let plan = Plan { targets, method, rate, children, bands, packets };
        if plan.targets.is_empty() {
            return Ok(None);
        }
        plan.check().map_err(|error| error.to_string())?;
        Ok(Some(plan))
    }

    /// The number of namespaces that contain devices. Each is read at the requested rate.
    pub(super) fn namespaces(&self) -> usize {
        let all = self
            .devices
            .iter()
            .filter_map(|watched| self.target(watched))
            .map(|target| target.namespace);
        all.collect::<BTreeSet<_>>().len()
    }

    /// The daemons to watch, and the rate at which to request their queue lengths, in readings per
    /// second.
    pub(super) fn daemons(&self) -> (Vec<Option<PathBuf>>, u64) {
        let of = |watched: &Watched| {
            if let Watched::Own(socket) = watched { Some(socket.clone()) } else { None }
        };
        let mut sockets: Vec<Option<PathBuf>> = Vec::new();
        for socket in self.devices.iter().filter_map(of) {
            if !sockets.contains(&socket) {
                sockets.push(socket);
            }
        }
        let rate = if let Some(Rate::Hz(rate)) = self.rate { rate } else { DEFAULT_RATE };
        (sockets, rate)
    }

    /// The files to write, with the options that name them.
    pub(super) fn files(&self) -> [(&'static str, Option<&Path>); 6] {
        let files = [&self.json, &self.jsonl, &self.csv, &self.parquet, &self.record, &self.report];
        let names = ["--json", "--jsonl", "--csv", "--parquet", "--record", "--report"];
        std::array::from_fn(|place| (names[place], files[place].as_deref()))
    }

    /// The program to run during the watch, if any.
    pub(super) fn program(&self) -> Option<Vec<OsString>> {
        match &self.exec {
            Some(line) => Some(vec!["/bin/sh".into(), "-c".into(), line.clone()]),
            None if self.command.is_empty() => None,
            None => Some(self.command.clone()),
        }
    }

    fn target(&self, watched: &Watched) -> Option<Target> {
        let Watched::Kernel(target) = watched else { return None };
        let mut target = target.clone();
        if target.namespace == Namespace::Own {
            target.namespace = match (&self.netns, self.pid) {
                (Some(name), _) => Namespace::Name(name.clone()),
                (None, Some(pid)) => Namespace::Process(pid),
                (None, None) => Namespace::Own,
            };
        }
        Some(target)
    }
}

fn parse_watched(text: &str) -> Result<Watched, String> {
    match text.split_once(':') {
        None if text == "weir" => Ok(Watched::Own(None)),
        Some(("weir", socket)) if !socket.is_empty() => Ok(Watched::Own(Some(socket.into()))),
        _ => text.parse().map(Watched::Kernel),
    }
}

/// Parses `200k`, `1.5M`, `5kHz` or `max`.
fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let wrong = || {
        format!(
            "'{text}' is no rate; give readings per second, such as 1000, 200k, 1.5M or 5kHz, or \
             max"
        )
    };
    let number =
        text.strip_suffix("Hz").or_else(|| text.strip_suffix("/s")).unwrap_or(text).trim_end();
    let (digits, factor) = match number.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&number[..at], 1e3),
        Some((at, 'M')) => (&number[..at], 1e6),
        Some(_) => (number, 1.0),
        None => return Err(wrong()),
    };
    let value: f64 = digits.trim_end().parse().map_err(|_| wrong())?;
    let rate = (value * factor).round();
    if !(1.0..=Plan::MAX_RATE as f64).contains(&rate) {
        return Err(format!(
            "'{text}' is out of range: 1 to {} readings per second, or max",
            Plan::MAX_RATE
        ));
    }
    Ok(Rate::Hz(rate as u64))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim_end();
    let seconds =
        number.parse::<f64>().ok().filter(|seconds| (0.001..=MAX_SECONDS).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        format!("'{text}' is no time in seconds from 0.001 to {MAX_SECONDS}, such as 10 or 0.5")
    })?;
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_flush(text: &str) -> Result<Duration, String> {
    let flush = parse_seconds(text)?;
    if (MIN_FLUSH..=MAX_FLUSH).contains(&flush) {
        return Ok(flush);
    }
    let (least, most) = (MIN_FLUSH.as_secs_f64(), MAX_FLUSH.as_secs());
    Err(format!("'{text}' is no time in seconds from {least} to {most}, such as 0.1"))
}

fn method_names() -> impl clap::builder::TypedValueParser<Value = Method> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Method::ALL.map(Method::name)).try_map(|name| name.parse())
}

/// The highest rate of a timer inside the kernel, per second.
const TIMER_RATE: u64 = 10_000;
/// The default rate in readings per second. It takes about one percent of a processor.
const DEFAULT_RATE: u64 = 1000;
/// The bounds of the time between two writes. The recorder gets readings every 5 ms.
const MIN_FLUSH: Duration = Duration::from_millis(5);
const MAX_FLUSH: Duration = Duration::from_secs(60);
/// Maximum duration of a watch in seconds: three years.
const MAX_SECONDS: f64 = 1e8;

const EXAMPLES: &str = "Examples:
  weir watch eth0                                  all queues of eth0, 1000 times a second, until ^C
  weir watch eth0 --rate max --seconds 10 --report q.html
  weir watch 'veth*@router' eth0 --rate 200k --parquet q.parquet
  weir watch eth0 --events --csv packets.csv -- iperf3 -c server
  weir watch weir eth0                             the daemon's queues beside the kernel's

Reading in the kernel needs root, or CAP_BPF, CAP_PERFMON and, for other namespaces, CAP_SYS_ADMIN;
without them queues are read over netlink, which is slower.
On a terminal q ends, p pauses the view, arrows scroll, s sorts.
The exit code is the program's, or 0; 125 when weir itself failed, 126 and 127 as in a shell, 2 for
a bad command line.";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        watch: WatchArgs,
    }

    fn args(line: &str) -> WatchArgs {
        let words = std::iter::once("watch").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).watch
    }

    fn plan(line: &str) -> Plan {
        args(line)
            .plan()
            .unwrap_or_else(|error| panic!("{line}: {error}"))
            .expect("a device is named")
    }

    #[test]
    fn rates_have_units_and_bounds() {
        let hz = |text: &str| parse_rate(text);
        assert_eq!(
            [hz("1000"), hz("200k"), hz("5kHz")],
            [Ok(Rate::Hz(1000)), Ok(Rate::Hz(200_000)), Ok(Rate::Hz(5000))]
        );
        assert_eq!(
            [hz("1.5M"), hz("10/s"), hz("max")],
            [Ok(Rate::Hz(1_500_000)), Ok(Rate::Hz(10)), Ok(Rate::Max)]
        );
        for wrong in ["", "0", "-5", "k", "fast", "60M", "0.2", "5 m", "nan", "inf"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_time_between_writes_has_bounds() {
        let flush = |text: &str| parse_flush(text).ok();
        assert_eq!(flush("0.1"), Some(Duration::from_millis(100)));
        assert_eq!((flush("0.005s"), flush("60")), (Some(MIN_FLUSH), Some(MAX_FLUSH)));
        for wrong in ["0", "0.004", "61", "-1", "nan", "x"] {
            assert!(parse_flush(wrong).is_err(), "{wrong}");
        }
        assert_eq!(args("eth0").flush, None);
    }

    #[test]
    fn the_default_rate_depends_on_the_method() {
        let rate_of = |line: &str| plan(line).rate;
        assert_eq!(
            (rate_of("eth0"), rate_of("eth0 --method netlink"), rate_of("eth0 --method timer")),
            (Some(1000), Some(1000), Some(1000))
        );
        assert_eq!(
            (rate_of("eth0 --rate max"), rate_of("eth0 --method loop"), rate_of("eth0 --events")),
            (None, None, None)
        );
        assert_eq!(plan("eth0 --events").method, Some(Method::Events));
        for wrong in [
            "eth0 --method timer --rate 20k",
            "eth0 --method timer --rate max",
            "eth0 --method events --rate 5",
        ] {
            assert!(args(wrong).plan().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_namespace_is_for_devices_that_name_none() {
        let named = plan("eth0 eth1@right --netns left --root-only");
        assert_eq!(named.targets[0].namespace, Namespace::Name("left".into()));
        assert_eq!(named.targets[1].namespace, Namespace::Name("right".into()));
        assert!(!named.children && !named.bands);
        assert_eq!(plan("eth0 --pid 12").targets[0].namespace, Namespace::Process(12));
        assert_eq!((args("eth0 eth1 lo@left").namespaces(), args("weir").namespaces()), (2, 0));
    }

    #[test]
    fn daemons_and_devices_are_watched_together() {
        let both = args("weir eth0 weir:/run/x.sock weir --rate max");
        assert_eq!(both.daemons(), (vec![None, Some("/run/x.sock".into())], 1000));
        assert_eq!(both.plan().expect("a plan").expect("a device").targets.len(), 1);
        assert!(args("weir").plan().expect("a plan").is_none());
    }

    #[test]
    fn a_command_is_given_as_words_or_as_an_option() {
        assert_eq!(args("eth0 -- a b").program(), Some(vec!["a".into(), "b".into()]));
        assert_eq!(args("eth0 --exec true").program().map(|words| words.len()), Some(3));
        assert_eq!(args("eth0").program(), None);
    }
}
