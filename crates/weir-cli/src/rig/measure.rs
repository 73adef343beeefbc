//! Takes the measurements: every requested metric of every algorithm with every flow set.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use weir_rig::cost::{Spread, order_hash, time};
use weir_rig::flows::FlowSet;
use weir_rig::instructions::{Cache, Events, PerPair, arguments};
use weir_rig::memory::Memory;
use weir_rig::report::Run;
use weir_rig::service::Service;
use weir_rig::{Algorithm, Counts, Order, Plan};

use super::args::Metric;
use super::config::Config;
use super::service;
use crate::output::Failure;

/// The results of one algorithm with one flow set.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) set: FlowSet,
    /// The results that JSON shows.
    pub(crate) run: Run,
    /// Processor time of a pair (an enqueue and a dequeue) in each run, ns.
    pub(crate) times: Vec<f64>,
    pub(crate) spread: Option<Spread>,
    /// Numbers of packets that were enqueued, dequeued and refused; `None` if times were not
    /// measured.
    pub(crate) counts: Option<Counts>,
    /// Instructions and cache misses of a pair.
    pub(crate) events: Option<PerPair>,
    pub(crate) memory: Option<Memory>,
    pub(crate) service: Option<Service>,
}

/// Takes the measurements. The results are in the order of flow sets, then of algorithms.
pub(crate) fn measure(config: &Config, show_progress: bool) -> Result<Vec<Measured>, Failure> {
    let bar = progress(config, show_progress);
    let mut all = Vec::new();
    for set in &config.sets {
        let plan = config.plan(set).map_err(Failure::of_weir)?;
        let mut measured: Vec<Measured> = config
            .algorithms
            .iter()
            .map(|algorithm| Measured::new(algorithm, &plan, config))
            .collect();
        if config.measures(Metric::Time) {
            times(config, &plan, &mut measured, &bar);
        }
        if config.measures(Metric::Instr) {
            for (algorithm, row) in config.algorithms.iter().zip(&mut measured) {
                bar.set_message(format!("{algorithm}, {set}: instructions"));
                row.set_events(count_events(config, algorithm, &plan)?);
                bar.inc(1);
            }
        }
        if config.measures(Metric::Memory) {
            for (algorithm, row) in config.algorithms.iter().zip(&mut measured) {
                row.memory = memory(algorithm, set)?;
                bar.inc(1);
            }
        }
        if config.measures_service() {
            for (algorithm, row) in config.algorithms.iter().zip(&mut measured) {
                bar.set_message(format!("{algorithm}, {set}: service"));
                row.service = service::service(config, algorithm, set);
                row.run.wfi = row.service.as_ref().map(service::rows);
                bar.inc(1);
            }
        }
        all.extend(measured);
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Measured {
    fn new(algorithm: &Algorithm, plan: &Plan, config: &Config) -> Self {
        let (order, pairs) = if !config.measures_cost() && !matches!(config.order, Order::Trace(_))
        {
            (config.load.to_string(), config.service_packets(plan.flows()))
        } else {
            (config.order_text.clone(), plan.pairs())
        };
        let run = Run::new(algorithm.to_string(), plan.flows(), order, pairs);
        Self {
            set: plan.flows().clone(),
            run,
            times: Vec::new(),
            spread: None,
            counts: None,
            events: None,
            memory: None,
            service: None,
        }
    }

    /// Bytes per flow. `None` if memory was not measured, or for fewer than 4096 flows. Fewer flows
    /// may fit into memory that the process has already allocated.
    pub(crate) fn memory_of_flow(&self) -> Option<f64> {
        let flows = self.set.len();
        self.memory.filter(|_| flows >= 4096).map(|memory| memory.flows as f64 / f64::from(flows))
    }

    fn set_events(&mut self, events: PerPair) {
        self.run.instructions_per_pair = Some(events.instructions);
        self.run.l2_misses_per_pair = Some(events.second_misses);
        self.events = Some(events);
    }
}

/// Measures times. The runs of all algorithms alternate. The algorithm `none`, the rig alone, is
/// always among them, because its time is subtracted to get net times.
fn times(config: &Config, plan: &Plan, measured: &mut [Measured], bar: &ProgressBar) {
    let mut times = vec![Vec::new(); config.algorithms.len()];
    let mut none_times = Vec::new();
    for _ in 0..config.runs {
        none_times.push(time(&Algorithm::None, plan, &thread_time));
        for (algorithm, times) in config.algorithms.iter().zip(&mut times) {
            bar.set_message(format!("{algorithm}, {}: time", plan.flows()));
            times.push(match algorithm {
                Algorithm::None => *none_times.last().unwrap_or(&0.0),
                _ => time(algorithm, plan, &thread_time),
            });
            bar.inc(1);
        }
    }
    let none = Spread::of(&none_times).map_or(0.0, |spread| spread.median);
    for ((algorithm, times), row) in config.algorithms.iter().zip(times).zip(measured) {
        let (hash, counts) = order_hash(algorithm, plan);
        row.run.order_hash = Some(format!("{hash:016x}"));
        row.counts = Some(counts);
        row.spread = Spread::of(&times);
        row.run.ns_per_pair = row.spread.map(|spread| spread.median);
        row.run.ns_net = row.run.ns_per_pair.map(|gross| gross - none);
        row.times = times;
    }
}

/// Processor time of this thread in ns.
pub(super) fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether this machine has valgrind, which counts instructions.
pub(crate) fn has_valgrind() -> bool {
    let quiet = Command::new("valgrind")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// Counts instructions and cache misses per pair: starts the rig twice under cachegrind, with
/// different numbers of pairs, and divides the difference of the counts by the difference of the
/// numbers of pairs.
fn count_events(config: &Config, algorithm: &Algorithm, plan: &Plan) -> Result<PerPair, Failure> {
    let short = plan.with_pairs(1);
    let long = plan.with_pairs(short.pairs() + config.pairs.min(MAX_COUNTED_PAIRS));
    let count = |plan: &Plan| {
        let mut arguments = Vec::from(own_arguments("drive", &algorithm.to_string()));
        let words = [
            ("gen", config.order_text.clone()),
            ("seed", config.seed.to_string()),
            ("batch", config.batch.to_string()),
        ];
        let mut words = Vec::from(words);
        words.push(("pairs", plan.pairs().to_string()));
        words.extend(config.backlog.map(|backlog| ("backlog", backlog.to_string())));
        if !matches!(config.order, Order::Trace(_)) {
            words.push(("flows", plan.flows().to_string()));
        }
        arguments.extend(
            words.iter().map(|(option, value)| OsString::from(format!("--{option}={value}"))),
        );
        cachegrind(&config.cache, arguments)
    };
    let (few, many) = (count(&short)?, count(&long)?);
    Ok(many.per_pair(&few, long.pairs() - short.pairs()))
}

/// Starts Weir with the arguments `own` under cachegrind.
pub(crate) fn cachegrind(cache: &Cache, own: Vec<OsString>) -> Result<Events, Failure> {
    let file = ScratchFile::new();
    let mut arguments = arguments(cache, &file.0);
    arguments.push(own_path()?.into());
    arguments.extend(own);
    let output = Command::new("valgrind").args(&arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::of_weir(NO_VALGRIND),
        _ => Failure::of_weir(format!("cannot start valgrind: {error}")),
    })?;
    if !output.status.success() {
        return Err(failed("valgrind", &output));
    }
    let text = std::fs::read_to_string(&file.0)
        .map_err(|error| Failure::of_weir(format!("valgrind left no file: {error}")))?;
    Events::read(&text).map_err(Failure::of_weir)
}

/// A program's failure, with the last line of its stderr.
fn failed(program: &str, output: &Output) -> Failure {
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it printed no message");
    Failure::of_weir(format!("{program} failed ({}): {last}", output.status))
}

/// Measures memory in a separate process.
fn memory(algorithm: &Algorithm, set: &FlowSet) -> Result<Option<Memory>, Failure> {
    let output = Command::new(own_path()?)
        .args(own_arguments("memory", &algorithm.to_string()))
        .arg(format!("--flows={set}"))
        .stdin(Stdio::null())
        .output();
    let output =
        output.map_err(|error| Failure::of_weir(format!("cannot start weir itself: {error}")))?;
    if !output.status.success() {
        return Err(failed("the process that measures memory", &output));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Ok(numbers.next().zip(numbers.next()).map(|(flows, packets)| Memory { flows, packets }))
}

fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::of_weir(format!("weir does not find itself: {error}")))
}

/// The arguments with which the rig starts itself.
fn own_arguments(only: &str, algorithm: &str) -> [OsString; 3] {
    ["rig".into(), format!("--only={only}").into(), format!("--alg={algorithm}").into()]
}

/// A file for the output of another program. Dropping this value removes the file.
struct ScratchFile(PathBuf);

impl ScratchFile {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("weir-rig-{}.out", std::process::id())))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn progress(config: &Config, shown: bool) -> ProgressBar {
    let steps = |metric: &Metric| match metric {
        Metric::Time => u64::from(config.runs),
        // One measurement of service gives both B-WFI and delay.
        Metric::Delay if config.measures(Metric::Wfi) => 0,
        _ => 1,
    };
    let each = config.metrics.iter().map(steps).sum::<u64>();
    bar_of(each * config.algorithms.len() as u64 * config.sets.len() as u64, shown)
}

/// A progress bar with this many steps.
pub(super) fn bar_of(steps: u64, shown: bool) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) =
        ProgressStyle::with_template("{elapsed:>6}  {bar:30} {percent:>3} %  {wide_msg}")
    {
        bar.set_style(style);
    }
    bar
}

const NO_VALGRIND: &str = "--metric instr counts with valgrind, which is not installed: sudo apt \
    install valgrind, or leave instr out";
/// Maximum number of pairs that are counted under valgrind, before the plan rounds the number up.
/// It is small, because a program runs about fifty times slower under valgrind.
pub(super) const MAX_COUNTED_PAIRS: u64 = 100_000;
