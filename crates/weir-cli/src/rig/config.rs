//! Turns the command line into a measurement of schedulers. Errors are reported before anything
//! runs.

use std::path::Path;

use weir_core::sched;
use weir_rig::flows::{self, FlowSet};
use weir_rig::instructions::Cache;
use weir_rig::plan::{Backlog, PlanError};
use weir_rig::trace::Trace;
use weir_rig::{Algorithm, Order, Plan};

use super::args::{Load, Metric, RigArgs};
use crate::output::{Failure, USAGE, check_files, say};

/// A measurement: the algorithms, the flow sets, the pattern of enqueues and dequeues, and the
/// metrics.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) sets: Vec<FlowSet>,
    pub(crate) order: Order,
    /// The order of arrivals as given, such as `trace:FILE`.
    pub(crate) order_text: String,
    pub(crate) backlog: Option<Backlog>,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) metrics: Vec<Metric>,
    /// Pairs of an enqueue and a dequeue in one run.
    pub(crate) pairs: u64,
    /// Number of runs in which processor time is measured.
    pub(crate) runs: u32,
    /// The simulated second-level cache.
    pub(crate) cache: Cache,
    pub(crate) load: Load,
    /// The value of --pairs if given. Service is then measured over this number of packets.
    service_packets: Option<u64>,
}

impl Config {
    /// Creates the measurement that a command line describes, or returns its first error.
    pub(crate) fn new(args: &RigArgs) -> Result<Self, Failure> {
        let order = order(&args.order)?;
        let backlog = args
            .backlog
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error| usage("--backlog", error))?;
        let sets = match &order {
            Order::Trace(_) if !args.flows.is_empty() => {
                return Err(Failure::new(
                    USAGE,
                    "--flows: a trace brings its own flows; leave --flows out",
                ));
            }
            Order::Trace(trace) => vec![trace.flows().clone()],
            _ => flow_sets(&args.flows)?,
        };
        let config = Self {
            algorithms: algorithms(args)?,
            sets,
            order,
            order_text: args.order.clone(),
            backlog,
            batch: args.batch,
            seed: args.seed,
            metrics: args.metric.clone(),
            pairs: args.pairs.unwrap_or(if args.quick { QUICK_PAIRS } else { PAIRS }),
            runs: args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS }),
            cache: cache(args.l2.as_deref())?,
            load: args.load,
            service_packets: args.pairs,
        };
        for set in &config.sets {
            config.plan(set).map_err(|error| Failure::new(USAGE, error))?;
        }
        check_destinations(args)?;
        Ok(config)
    }

    /// Creates a measurement without a command line, with defaults for all other settings.
    pub(crate) fn preset(
        algorithms: Vec<Algorithm>,
        sets: &[&str],
        order_name: &str,
        metrics: &[Metric],
        quick: bool,
    ) -> Result<Self, Failure> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let pairs = if quick { QUICK_PAIRS } else { PAIRS };
        Ok(Self {
            algorithms,
            sets: flow_sets(&sets)?,
            order: order(order_name)?,
            order_text: order_name.to_owned(),
            backlog: None,
            batch: 1,
            seed: 1,
            metrics: metrics.to_vec(),
            pairs,
            runs: if quick { QUICK_RUNS } else { RUNS },
            cache: cache(None)?,
            load: Load::default(),
            service_packets: None,
        })
    }

    /// The same measurement, with times measured in this number of runs.
    pub(crate) fn with_runs(self, runs: u32) -> Self {
        Self { runs, ..self }
    }

    pub(crate) fn plan(&self, set: &FlowSet) -> Result<Plan, PlanError> {
        Plan::new(set.clone(), self.order.clone(), self.backlog, self.batch, self.pairs, self.seed)
    }

    /// Number of packets over which service is measured: as given by --pairs, otherwise enough for
    /// many turns of every flow.
    pub(crate) fn service_packets(&self, set: &FlowSet) -> u64 {
        self.service_packets.unwrap_or_else(|| weir_rig::service::enough_packets(set))
    }

    pub(crate) fn measures_service(&self) -> bool {
        self.measures(Metric::Wfi) || self.measures(Metric::Delay)
    }

    /// Whether any metric other than service is measured.
    pub(crate) fn measures_cost(&self) -> bool {
        self.metrics.iter().any(|metric| !matches!(metric, Metric::Wfi | Metric::Delay))
    }

    pub(crate) fn measures(&self, metric: Metric) -> bool {
        self.metrics.contains(&metric)
    }
}

pub(super) fn usage(option: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, format!("{option}: {error}"))
}

pub(super) fn order(text: &str) -> Result<Order, Failure> {
    if let Some(path) = text.strip_prefix("trace:") {
        let content = std::fs::read_to_string(path)
            .map_err(|error| usage("--gen", format!("cannot read {path}: {error}")))?;
        let trace =
            Trace::read(&content).map_err(|error| usage("--gen", format!("{path}, {error}")))?;
        return Ok(Order::Trace(Box::new(trace)));
    }
    Order::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Order::names().collect();
        usage(
            "--gen",
            format!(
                "`{text}` is no order of arrivals: allowed are {} and trace:FILE; for example \
                --gen random",
                names.join(", ")
            ),
        )
    })
}

pub(super) fn flow_sets(words: &[String]) -> Result<Vec<FlowSet>, Failure> {
    let default = [DEFAULT_FLOWS.to_owned()];
    let words = if words.is_empty() { &default } else { words };
    let mut sets = Vec::new();
    for word in words {
        sets.extend(flows::sweep(word).map_err(|error| usage("--flows", error))?);
    }
    Ok(sets)
}

/// The aliases in a list of schedulers, each with the scheduler's own name.
fn other_names(list: &str) -> Vec<(&str, &'static str)> {
    list.split(',')
        .map(|word| weir_rules::named::name(word.trim()))
        .filter_map(|given| Some((given, sched::Kind::from_name(given)?.row().name)))
        .filter(|(given, name)| !given.eq_ignore_ascii_case(name))
        .collect()
}

/// The algorithms of --alg with the settings of --set. Each setting is applied to the algorithms
/// that have it.
fn algorithms(args: &RigArgs) -> Result<Vec<Algorithm>, Failure> {
    let mut algorithms = Vec::new();
    for word in args.alg.split(',').map(str::trim) {
        if word.eq_ignore_ascii_case("all") {
            algorithms.extend(Algorithm::all());
        } else {
            algorithms.push(Algorithm::parse(word).map_err(|error| usage("--alg", error))?);
        }
    }
    for (given, name) in other_names(&args.alg) {
        say(format_args!("weir: note: {given} is another name of {name}, which the results use\n"));
    }
    let settings = args.settings.iter().cloned().chain(args.m.map(|m| format!("m={m}")));
    for setting in settings {
        let Some((name, _)) = setting.split_once('=') else {
            return Err(usage(
                "--set",
                format!("`{setting}` is no setting: write NAME=VALUE; for example --set m=8"),
            ));
        };
        let mut takers =
            algorithms.iter_mut().filter(|algorithm| algorithm.has_setting(name)).peekable();
        if takers.peek().is_none() {
            return Err(usage(
                "--set",
                format!(
                    "none of the schedulers has a setting `{name}`; `weir algorithms` lists the \
                    settings"
                ),
            ));
        }
        takers
            .try_for_each(|algorithm| algorithm.change(&setting))
            .map_err(|error| usage("--set", error))?;
    }
    let mut seen = Vec::new();
    algorithms.retain(|algorithm| !seen.contains(algorithm) && (seen.push(*algorithm), true).1);
    Ok(algorithms)
}

pub(super) fn cache(text: Option<&str>) -> Result<Cache, Failure> {
    let Some(text) = text else { return Ok(Cache::second_level().unwrap_or_default()) };
    let binary = |suffix, shift: u32| {
        text.strip_suffix(suffix)
            .and_then(|digits| digits.trim().parse::<u64>().ok()?.checked_shl(shift))
    };
    let size = match binary("KiB", 10).or_else(|| binary("MiB", 20)) {
        Some(size) => size,
        None => weir_rules::quantity::size(text)
            .map_err(|error| usage("--l2", format!("`{text}`: {error}; for example 2MiB")))?,
    };
    Cache::of_size(size).map_err(|error| usage("--l2", error))
}

/// Checks the paths of the results and plots before a long measurement.
pub(super) fn check_destinations(args: &RigArgs) -> Result<(), Failure> {
    for path in &args.plot {
        if picture_format(path).is_none() {
            return Err(usage(
                "--plot",
                format!(
                    "`{}` is neither a .svg nor a .png file; for example --plot cost.png",
                    path.display()
                ),
            ));
        }
    }
    let plots = args.plot.iter().map(|path| ("--plot", Some(path.as_path())));
    let files: Vec<_> = plots.chain([("--json", args.json.as_deref())]).collect();
    check_files(&files, &["--json"])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Svg,
    Png,
}

/// The format that a file name implies.
pub(crate) fn picture_format(path: &Path) -> Option<PictureFormat> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "svg" => Some(PictureFormat::Svg),
        "png" => Some(PictureFormat::Png),
        _ => None,
    }
}

const DEFAULT_FLOWS: &str = "1k:w1";
/// Default number of pairs (an enqueue and a dequeue) of a run, without and with --quick.
pub(super) const PAIRS: u64 = 2_000_000;
pub(super) const QUICK_PAIRS: u64 = 200_000;
/// Default number of runs, without and with --quick.
pub(super) const RUNS: u32 = 5;
pub(super) const QUICK_RUNS: u32 = 3;

/// Number of packets per flow when memory is measured.
pub(super) const MEMORY_PACKETS: u32 = 10;

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn config(words: &str) -> Result<Config, String> {
        let argv = ["weir", "rig"].into_iter().chain(words.split_whitespace());
        let cli = Cli::try_parse_from(argv).map_err(|error| error.to_string())?;
        let Command::Rig(args) = cli.command else { panic!("it is weir rig") };
        Config::new(&args).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_wrong_word_is_named_with_what_is_allowed() {
        for (words, expected) in [
            ("--alg fifo,nope", ["--alg", "`nope`", "wf2q+"]),
            ("--flows 5:w0", ["--flows", "`w0`", "1..65536"]),
            ("--flows 9..3", ["--flows", "`9..3`", "1..32k"]),
            ("--gen sideways", ["--gen", "`sideways`", "zipf"]),
            ("--gen trace:/nowhere", ["--gen", "/nowhere", "cannot read"]),
            ("--backlog 5", ["--backlog", "`5`", "0:20n"]),
            ("--backlog 9:5", ["9:5", "above", "0:20n"]),
            ("--set colour=1", ["--set", "`colour`", "weir algorithms"]),
            ("--set colour", ["--set", "`colour`", "NAME=VALUE"]),
            ("--batch 0", ["batch", "0", "1..1024"]),
            ("--pairs 0", ["0 pairs", "allowed", "2000000"]),
            ("--runs 0", ["--runs", "0", "1..=1000"]),
            ("--l2 3MiB", ["--l2", "3145728", "2MiB"]),
            ("--l2 big", ["--l2", "big", "2MiB"]),
            ("--plot cost.gif", ["--plot", "cost.gif", ".png"]),
            ("--plot /nowhere/cost.png", ["/nowhere/cost.png", "no directory", "make it"]),
            ("--metric speed", ["--metric", "speed", "instr"]),
        ] {
            let message = config(words).unwrap_err();
            assert!(expected.iter().all(|word| message.contains(word)), "{words}: {message}");
        }
    }

    #[test]
    fn all_names_each_scheduler_once_and_ranges_become_sets() {
        let config = config("--alg fifo,all --flows 1..4 --flows 3:w2 --quick").unwrap();
        assert_eq!(config.algorithms.len(), Algorithm::all().count());
        assert_eq!(config.sets.iter().map(FlowSet::len).collect::<Vec<_>>(), [1, 2, 4, 3]);
        assert_eq!((config.pairs, config.runs), (QUICK_PAIRS, QUICK_RUNS));
    }
}
