//! Formats the results of simulations as text tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_report::format::{configured_rate, count, duration, percent, rate};
use weir_sim::measure::{Distribution, Estimate, FlowOutcome, LinkOutcome, Outcome};
use weir_sim::run::Ran;

use crate::table::Table;

/// The tables of every point of a sweep.
pub(crate) fn tables(all: &[Ran]) -> String {
    let mut text = String::new();
    for ran in all {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &heading(ran);
        text += &outcome_tables(&ran.outcomes);
        if ran.outcomes.len() > 1 {
            text += "\n± is half the interval that holds the true mean with 95 % confidence\n\
                     in a mean, each run counts once; in p50 and p99, each packet does\n";
        }
    }
    text
}

/// The tables of flows, of their time in switches, and of links, over the runs of one point.
pub(crate) fn outcome_tables(outcomes: &[Outcome]) -> String {
    flows(outcomes) + &switches(outcomes) + &links(outcomes)
}

/// The time that packets spent in the traffic managers of switches; empty without switches that
/// have rank programs.
fn switches(outcomes: &[Outcome]) -> String {
    let mut all = by_item(outcomes, |outcome| &outcome.flows);
    all.retain(|runs| runs.iter().any(|(_, flow)| flow.switches_ns.count > 0));
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["flow", "in switches mean", "p50", "p99", "p99.9", "max"]);
    for runs in all.iter().take(MAX_ROWS) {
        let time = merged(runs, |flow: &FlowOutcome| &flow.switches_ns);
        let at = |q: f64| duration(time.quantile(q) as f64);
        table.add_row(vec![
            runs[0].1.name.clone(),
            with_confidence(runs, |_, flow| flow.switches_ns.mean(), duration),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
        ]);
    }
    format!("\n{}{}", table.text(), omitted(all.len()))
}

fn heading(ran: &Ran) -> String {
    let scenario = &ran.point.scenario;
    let seeds = match scenario.runs {
        1 => format!("seed {}", scenario.seed),
        runs => format!(
            "{runs} runs, seeds {} to {}",
            scenario.seed,
            scenario.seed.saturating_add(u64::from(runs) - 1)
        ),
    };
    let warmup = if scenario.warmup.0 == 0 {
        String::new()
    } else {
        format!(", measured from {} on", scenario.warmup)
    };
    let mut text = format!("{}: {}{warmup}, {seeds}\n", scenario.name, scenario.duration);
    for (key, value) in &ran.point.settings {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

/// One flow or link, with its result in every run.
type Runs<'a, T> = Vec<(&'a Outcome, &'a T)>;

/// Regroups the outcomes: for each flow or link in the list that `items` selects, its result in
/// every run.
fn by_item<T>(outcomes: &[Outcome], items: impl Fn(&Outcome) -> &Vec<T>) -> Vec<Runs<'_, T>> {
    let count = outcomes.first().map_or(0, |outcome| items(outcome).len());
    (0..count)
        .map(|n| {
            outcomes.iter().filter_map(|outcome| Some((outcome, items(outcome).get(n)?))).collect()
        })
        .collect()
}

fn flows(outcomes: &[Outcome]) -> String {
    let all = by_item(outcomes, |outcome| &outcome.flows);
    if all.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["flow", "kind", "goodput", "delay mean", "p50", "p99", "sent", "lost"]);
    for runs in all.iter().take(MAX_ROWS) {
        let delay = merged(runs, |flow: &FlowOutcome| &flow.delay_ns);
        let time = |ns: u64| if delay.count == 0 { "-".to_owned() } else { duration(ns as f64) };
        let [sent, lost] = [|flow: &FlowOutcome| flow.sent, |flow: &FlowOutcome| flow.lost]
            .map(|of| mean_count(runs, of));
        let share = if lost == 0 {
            String::new()
        } else {
            format!(" ({})", percent(lost as f64 / sent.max(1) as f64))
        };
        let mean = with_confidence(runs, |_, flow| flow.delay_ns.mean(), duration);
        table.add_row(vec![
            runs[0].1.name.clone(),
            runs[0].1.kind.clone(),
            with_confidence(runs, |outcome, flow| outcome.bps(flow.goodput_bytes), rate),
            if delay.count == 0 { "-".to_owned() } else { mean },
            time(delay.quantile(0.5)),
            time(delay.quantile(0.99)),
            count(sent),
            count(lost) + &share,
        ]);
    }
    format!("\n{}{}", table.text(), omitted(all.len()))
}

fn links(outcomes: &[Outcome]) -> String {
    let mut all = by_item(outcomes, |outcome| &outcome.links);
    all.retain(|runs| runs.iter().any(|(_, link)| link.counters.packets_in > 0));
    if all.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["link", "rate", "used", "queued mean", "p99", "packets", "dropped", "marked"]);
    let mut reasons = String::new();
    for runs in all.iter().take(MAX_ROWS) {
        let queue = merged(runs, |link: &LinkOutcome| &link.queue_ns);
        let used = Estimate::of(
            &runs
                .iter()
                .filter_map(|(outcome, link)| outcome.utilisation(link))
                .collect::<Vec<_>>(),
        );
        let link = runs[0].1;
        table.add_row(vec![
            link.name.clone(),
            configured_rate(link.rate_bps, link.rate_varies),
            if used.runs == 0 { "-".to_owned() } else { percent(used.mean) },
            with_confidence(runs, |_, link| link.queue_ns.mean(), duration),
            duration(queue.quantile(0.99) as f64),
            count(mean_count(runs, |link| link.counters.packets_in)),
            count(mean_count(runs, |link| link.counters.total_drops())),
            count(mean_count(runs, |link| link.counters.total_marks())),
        ]);
        let causes = [
            reasons_of(runs, "dropped", |link| link.counters.drop_counts().in_words().collect()),
            reasons_of(runs, "marked", |link| link.counters.mark_counts().in_words().collect()),
        ]
        .concat();
        if !causes.is_empty() {
            let _ = writeln!(reasons, "  {}: {}", link.name, causes.join(", "));
        }
    }
    format!("\n{}{}{reasons}", table.text(), omitted(all.len()))
}

/// A note that states how many rows a table omits.
fn omitted(rows: usize) -> String {
    if rows > MAX_ROWS {
        format!("  and {} more; --json has all\n", count((rows - MAX_ROWS) as u64))
    } else {
        String::new()
    }
}

/// The mean of a value over the runs and, with several runs, half the width of its confidence
/// interval.
fn with_confidence<T>(
    runs: &Runs<'_, T>,
    value: impl Fn(&Outcome, &T) -> f64,
    write: fn(f64) -> String,
) -> String {
    let estimate =
        Estimate::of(&runs.iter().map(|(outcome, item)| value(outcome, item)).collect::<Vec<_>>());
    let bounds = estimate.half_width.map_or(String::new(), |half| format!(" ± {}", write(half)));
    write(estimate.mean) + &bounds
}

/// The mean of a count over the runs, rounded down.
fn mean_count<T>(runs: &Runs<'_, T>, of: impl Fn(&T) -> u64) -> u64 {
    let sum: u64 = runs.iter().map(|(_, item)| of(item)).sum();
    sum / runs.len().max(1) as u64
}

/// The distributions of all runs, merged.
fn merged<'a, T>(runs: &Runs<'a, T>, of: impl Fn(&'a T) -> &'a Distribution) -> Distribution {
    let mut all = Distribution::default();
    runs.iter().for_each(|(_, item)| all.merge(of(item)));
    all
}

/// Each drop reason or mark reason with its mean count over the runs, as text.
fn reasons_of(
    runs: &Runs<'_, LinkOutcome>,
    what: &str,
    counts: fn(&LinkOutcome) -> Vec<(&'static str, u64)>,
) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (words, n) in runs.iter().flat_map(|(_, link)| counts(link)) {
        *sums.entry(words).or_default() += n;
    }
    let runs = runs.len().max(1) as u64;
    sums.into_iter().map(|(words, n)| format!("{} {what} {words}", count(n / runs))).collect()
}

/// Maximum number of rows in a table.
const MAX_ROWS: usize = 40;
