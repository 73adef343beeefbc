//! `weir rig --aqm`: measures the cost of an AQM's decision, relative to the same queues without an
//! AQM.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use weir_core::packet::Ecn;
use weir_core::units::Rate;
use weir_report::format::count;
use weir_rig::aqm_cost::{AqmPlan, Load, PacketCounts, drive, time};
use weir_rig::cost::Spread;
use weir_rig::flows::FlowSet;
use weir_rig::instructions::{Cache, PerPair};
use weir_rig::report::Run;
use weir_rig::{Manager, Order};

use super::args::{InternalTask, Metric, RigArgs};
use super::config::{self, PAIRS, QUICK_PAIRS, QUICK_RUNS, RUNS, usage};
use super::json::write_json;
use super::measure::{MAX_COUNTED_PAIRS, bar_of, cachegrind, thread_time};
use crate::output::{Failure, USAGE, print};
use crate::table::Table;

/// The validated options of the measurement.
struct Config {
    /// The algorithms: AQMs, schedulers with an AQM inside, and `none`.
    managers: Vec<Manager>,
    /// A plan for each flow set.
    plans: Vec<AqmPlan>,
    /// The order of arrivals, as given.
    order: String,
    /// The rate of the link, as given.
    link: String,
    /// The offered load relative to the rate of the link.
    offered: f64,
    /// Whether packets are ECN-capable.
    ecn: bool,
    seed: u64,
    /// Whether processor time is measured.
    time: bool,
    /// Whether instructions are counted.
    instructions: bool,
    /// Number of runs in which processor time is measured.
    runs: u32,
    /// The simulated second-level cache.
    cache: Cache,
}

/// The results of one algorithm with one flow set. Each flow set is also measured with the
/// algorithm `none`, the reference for all other algorithms.
struct Measured {
    manager: Manager,
    set: FlowSet,
    /// The results that JSON shows.
    run: Run,
    /// The spread, over the runs, of the processor time of a pair: the arrival of a packet, and its
    /// departure or drop.
    spread: Option<Spread>,
    counts: PacketCounts,
    /// Instructions and cache misses of a pair.
    events: Option<PerPair>,
}

/// Takes the measurements and writes the requested results.
pub(super) fn aqm(args: &RigArgs) -> Result<ExitCode, Failure> {
    let config = Config::new(args)?;
    if args.only == Some(InternalTask::Drive) {
        for plan in &config.plans {
            for manager in &config.managers {
                drive(manager, plan);
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let measured = measure(&config, !args.quiet && std::io::stderr().is_terminal())?;
    if args.json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        print(&tables(&config, &measured))?;
    }
    if let Some(path) = &args.json {
        write_json(path, measured.iter().map(|measured| measured.run.clone()).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Config {
    fn new(args: &RigArgs) -> Result<Self, Failure> {
        let order = config::order(&args.order)?;
        let sets = match &order {
            Order::Trace(trace) => vec![trace.flows().clone()],
            _ => config::flow_sets(&args.flows)?,
        };
        if let Some(other) =
            args.metric.iter().find(|metric| !matches!(metric, Metric::Time | Metric::Instr))
        {
            return Err(Failure::new(
                USAGE,
                format!("--metric {other:?}: with --aqm, only time and instr can be measured")
                    .to_lowercase(),
            ));
        }
        for (given, option) in [
            (args.alg != "all", "--alg"),
            (args.batch != 1, "--batch"),
            (args.backlog.is_some(), "--backlog"),
            (!args.plot.is_empty(), "--plot"),
        ] {
            if given {
                return Err(Failure::new(
                    USAGE,
                    format!("{option} does not apply to the cost of AQMs; leave it out"),
                ));
            }
        }
        if !(args.offered > 0.0 && args.offered <= 10.0) {
            return Err(usage(
                "--offered",
                format!("{}: more than 0 and up to 10 is allowed; for example 1.1", args.offered),
            ));
        }
        let rate = rate(&args.link_rate)?;
        let ecn = if args.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let pairs = args.pairs.unwrap_or(if args.quick { QUICK_PAIRS } else { PAIRS });
        if !(1..=MAX_PAIRS).contains(&pairs) {
            return Err(usage("--pairs", format!("{pairs}: allowed is 1..{MAX_PAIRS}")));
        }
        let plan = |set: FlowSet| {
            let load = Load { rate, offered: args.offered, ..Load::of(set.len()) };
            AqmPlan::new(set, order.clone(), load, ecn, pairs, args.seed)
        };
        config::check_destinations(args)?;
        Ok(Self {
            managers: managers(args.aqm.as_deref().unwrap_or_default())?,
            plans: sets.into_iter().map(plan).collect(),
            order: args.order.clone(),
            link: args.link_rate.clone(),
            offered: args.offered,
            ecn: args.ecn,
            seed: args.seed,
            time: args.metric.contains(&Metric::Time),
            instructions: args.metric.contains(&Metric::Instr),
            runs: args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS }),
            cache: config::cache(args.l2.as_deref())?,
        })
    }
}

fn rate(text: &str) -> Result<Rate, Failure> {
    let bps = weir_rules::quantity::rate(text)
        .map_err(|error| usage("--link-rate", format!("`{text}`: {error}; for example 1Gbit/s")))?;
    bps.filter(|rate| rate.bps() >= MIN_RATE)
        .ok_or_else(|| usage("--link-rate", format!("`{text}`: at least 1Mbit/s is needed")))
}

/// The algorithms of --aqm, without repetitions.
pub(super) fn managers(text: &str) -> Result<Vec<Manager>, Failure> {
    let mut managers = Vec::new();
    for word in text.split(',').map(str::trim) {
        if word.eq_ignore_ascii_case("all") {
            managers.extend(Manager::all());
        } else {
            managers.push(Manager::parse(word).map_err(|error| usage("--aqm", error))?);
        }
    }
    let mut seen = Vec::new();
    managers.retain(|manager| !seen.contains(manager) && (seen.push(*manager), true).1);
    Ok(managers)
}

fn measure(config: &Config, show_progress: bool) -> Result<Vec<Measured>, Failure> {
    let each =
        if config.time { u64::from(config.runs) } else { 0 } + u64::from(config.instructions);
    let bar = bar_of(
        each * (config.managers.len() as u64 + 1) * config.plans.len() as u64,
        show_progress,
    );
    let mut all = Vec::new();
    for plan in &config.plans {
        let none = (!config.managers.contains(&Manager::None)).then_some(Manager::None);
        let managers = none.iter().chain(&config.managers);
        let mut measured: Vec<Measured> =
            managers.map(|manager| Measured::new(manager, plan, config)).collect();
        if config.time {
            let mut times = vec![Vec::new(); measured.len()];
            for _ in 0..config.runs {
                for (row, times) in measured.iter().zip(&mut times) {
                    bar.set_message(format!("{}, {}: time", row.manager, row.set));
                    times.push(time(&row.manager, plan, &thread_time));
                    bar.inc(1);
                }
            }
            for (row, times) in measured.iter_mut().zip(&times) {
                row.spread = Spread::of(times);
                row.run.ns_per_pair = row.spread.map(|spread| spread.median);
            }
        }
        if config.instructions {
            for row in &mut measured {
                bar.set_message(format!("{}, {}: instructions", row.manager, row.set));
                row.events = Some(count_events(config, &row.manager, plan)?);
                row.run.instructions_per_pair = row.events.map(|events| events.instructions);
                row.run.l2_misses_per_pair = row.events.map(|events| events.second_misses);
                bar.inc(1);
            }
        }
        let of_none =
            measured.iter().find(|row| row.manager == Manager::None).map(|row| row.run.clone());
        for row in &mut measured {
            let less = |gross: Option<f64>, none: Option<f64>| {
                gross.zip(none).map(|(gross, none)| gross - none)
            };
            row.run.ns_net =
                less(row.run.ns_per_pair, of_none.as_ref().and_then(|run| run.ns_per_pair));
            row.run.instructions_net = less(
                row.run.instructions_per_pair,
                of_none.as_ref().and_then(|run| run.instructions_per_pair),
            );
        }
        all.extend(measured);
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Measured {
    fn new(manager: &Manager, plan: &AqmPlan, config: &Config) -> Self {
        let scheduler = match manager {
            Manager::Scheduler(_) => manager.to_string(),
            _ => "fifo".to_owned(),
        };
        let mut run = Run::new(scheduler, plan.flows(), config.order.clone(), plan.pairs());
        run.aqm = Some(manager.to_string());
        Self {
            manager: *manager,
            set: plan.flows().clone(),
            run,
            spread: None,
            counts: drive(manager, plan),
            events: None,
        }
    }
}

/// Counts instructions and cache misses per pair: starts the rig twice under cachegrind, with
/// different numbers of pairs, and divides the difference of the counts by the difference of the
/// numbers of pairs.
fn count_events(config: &Config, manager: &Manager, plan: &AqmPlan) -> Result<PerPair, Failure> {
    let counted = plan.pairs().min(MAX_COUNTED_PAIRS);
    let count = |pairs: u64| {
        let words = [
            format!("--aqm={manager}"),
            format!("--gen={}", config.order),
            format!("--seed={}", config.seed),
            format!("--pairs={pairs}"),
            format!("--link-rate={}", config.link),
            format!("--offered={}", config.offered),
        ];
        let mut own: Vec<OsString> = vec!["rig".into(), "--only=drive".into()];
        own.extend(words.into_iter().map(OsString::from));
        if !config.order.starts_with("trace:") {
            own.push(format!("--flows={}", plan.flows()).into());
        }
        own.extend(config.ecn.then(|| OsString::from("--ecn")));
        cachegrind(&config.cache, own)
    };
    let (few, many) = (count(1)?, count(1 + counted)?);
    Ok(many.per_pair(&few, counted))
}

fn tables(config: &Config, measured: &[Measured]) -> String {
    let mut text = String::new();
    for plan in &config.plans {
        let flows = plan.flows().len();
        text += &format!(
            "{}{} flow{} ({}), {}, {} of {}, {} pairs{}\n\n",
            if text.is_empty() { "" } else { "\n" },
            count(flows.into()),
            if flows == 1 { "" } else { "s" },
            plan.flows(),
            config.order,
            config.offered,
            config.link,
            count(plan.pairs()),
            if config.time { format!(", median of {} runs", config.runs) } else { String::new() },
        );
        text += &table(config, measured.iter().filter(|row| row.set == *plan.flows()));
    }
    if config.instructions {
        let Cache { size, ways, line } = config.cache;
        text += &format!(
            "\nSecond-level cache: {} KiB, {ways} ways of {line}-byte lines, simulated.\n",
            size / 1024
        );
    }
    text
}

fn table<'a>(config: &Config, rows: impl Iterator<Item = &'a Measured>) -> String {
    let mut head = vec!["aqm"];
    head.extend(config.time.then_some(["ns/pair", "adds", "spread"]).iter().flatten());
    head.extend(
        config.instructions.then_some(["instr/pair", "adds", "L2 misses"]).iter().flatten(),
    );
    head.extend(["dropped", "marked"]);
    let mut table = Table::new(head);
    let number = |value: Option<f64>, decimals: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    for row in rows {
        let share = |packets: u64| {
            format!("{:.2} %", packets as f64 * 100.0 / row.counts.offered.max(1) as f64)
        };
        let mut words = vec![row.manager.to_string()];
        if config.time {
            let spread = row
                .spread
                .map_or("-".into(), |spread| format!("{:.0} %", spread.relative() * 100.0));
            words.extend([number(row.run.ns_per_pair, 1), number(row.run.ns_net, 1), spread]);
        }
        if config.instructions {
            let misses = number(row.run.l2_misses_per_pair, 2);
            words.extend([
                number(row.run.instructions_per_pair, 1),
                number(row.run.instructions_net, 1),
                misses,
            ]);
        }
        words.extend([share(row.counts.dropped), share(row.counts.marked)]);
        table.add_row(words);
    }
    table.text()
}

/// Minimum rate of the link in bit/s. At a lower rate, a long run could exceed the clock's range.
const MIN_RATE: u64 = 1_000_000;
const MAX_PAIRS: u64 = 10_000_000_000;
