//! Formats results as tables.

use std::fmt::Write as _;

use weir_report::format::count;
use weir_rig::Order;

use super::args::Metric;
use super::config::{Config, MEMORY_PACKETS};
use super::measure::Measured;
use super::service_tables;
use crate::table::Table;

/// All results: first the cost, in one table or, with several flow sets, in a table for each
/// compared value; then the service, set by set.
pub(crate) fn tables(config: &Config, measured: &[Measured]) -> String {
    let mut text = match config.measures_cost() {
        false => String::new(),
        true if config.sets.len() == 1 => one_set(config, measured),
        true => several_sets(config, measured),
    };
    if config.measures_service() {
        for rows in measured.chunks(config.algorithms.len().max(1)) {
            text += if text.is_empty() { "" } else { "\n" };
            text += &service_tables::tables(config, &rows.iter().collect::<Vec<_>>());
        }
    }
    text
}

/// The parameters of the measurement, on one line.
fn description(config: &Config, measured: &Measured) -> String {
    let backlog = match &config.order {
        Order::Trace(_) => String::new(),
        order => format!(", backlog {}", config.backlog.unwrap_or_else(|| order.backlog())),
    };
    let batch =
        if config.batch > 1 { format!(", batches of {}", config.batch) } else { String::new() };
    let runs = if config.measures(Metric::Time) {
        format!(", median of {} runs", config.runs)
    } else {
        String::new()
    };
    format!("{}{backlog}{batch}, {} pairs{runs}", config.order_text, count(measured.run.pairs))
}

fn one_set(config: &Config, measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let flows = first.set.len();
    let mut text = format!(
        "{} flow{} ({}), {}\n\n",
        count(flows.into()),
        if flows == 1 { "" } else { "s" },
        first.set,
        description(config, first)
    );
    let columns = columns(config);
    let mut table =
        Table::new(std::iter::once("scheduler").chain(columns.iter().map(|column| column.head)));
    for row in measured {
        table.add_row(
            std::iter::once(row.run.alg.clone())
                .chain(columns.iter().map(|column| (column.word)(row)))
                .collect(),
        );
    }
    text += &table.text();
    text + &notes(config, measured)
}

fn several_sets(config: &Config, measured: &[Measured]) -> String {
    let mut text = measured
        .first()
        .map_or(String::new(), |first| description(config, first) + " in the first row\n");
    for column in columns(config).iter().filter(|column| column.compared) {
        let _ = write!(text, "\n{}\n", column.title);
        let mut table = Table::new(
            std::iter::once("flows".to_owned())
                .chain(config.algorithms.iter().map(ToString::to_string)),
        );
        for rows in measured.chunks(config.algorithms.len().max(1)) {
            let set = rows.first().map_or(String::new(), |row| row.set.to_string());
            table.add_row(
                std::iter::once(set).chain(rows.iter().map(|row| (column.word)(row))).collect(),
            );
        }
        text += &table.text();
    }
    text + &notes(config, measured)
}

/// A column of the tables.
struct Column {
    /// The heading of the column in the table of one flow set.
    head: &'static str,
    /// The title of the table of this value for several flow sets.
    title: &'static str,
    /// Whether several flow sets get a table that compares this value.
    compared: bool,
    word: fn(&Measured) -> String,
}

fn columns(config: &Config) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut add =
        |compared, head, title, word| columns.push(Column { head, title, compared, word });
    if config.measures(Metric::Time) {
        add(
            true,
            "ns/pair",
            "ns of processor time for a pair of enqueue and dequeue, the rig included",
            |m| number(m.run.ns_per_pair, 1),
        );
        add(true, "net", "ns for a pair without the rig's own time", |m| number(m.run.ns_net, 1));
        add(false, "spread", "", |m| {
            m.spread.map_or("-".into(), |spread| format!("{:.0} %", spread.relative() * 100.0))
        });
    }
    if config.measures(Metric::Instr) {
        add(true, "instr/pair", "instructions of a pair, the rig included", |m| {
            number(m.run.instructions_per_pair, 1)
        });
        add(false, "L1 misses", "", |m| number(m.events.map(|events| events.first_misses), 2));
        add(true, "L2 misses", "simulated second-level cache misses of a pair", |m| {
            number(m.run.l2_misses_per_pair, 2)
        });
    }
    if config.measures(Metric::Memory) {
        add(true, "bytes/flow", "bytes of memory for a flow", |m| number(m.memory_of_flow(), 0));
        add(
            true,
            "bytes/packet",
            "bytes of memory for a packet, the scheduler's part included",
            |m| {
                number(
                    m.memory.map(|memory| {
                        memory.packets as f64 / f64::from(m.set.len()) / f64::from(MEMORY_PACKETS)
                    }),
                    0,
                )
            },
        );
    }
    if config.measures(Metric::Time) {
        add(false, "order", "", |m| m.run.order_hash.clone().unwrap_or_default());
    }
    columns
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Notes on the validity of the results.
fn notes(config: &Config, measured: &[Measured]) -> String {
    let mut text = String::new();
    let refusing: Vec<&Measured> =
        measured.iter().filter(|m| m.counts.is_some_and(|counts| counts.refused > 0)).collect();
    for m in refusing {
        let counts = m.counts.unwrap_or_default();
        let _ = write!(
            text,
            "\n{} refused {} of {} packets: it has bounds of its own.",
            m.run.alg,
            count(counts.refused),
            count(counts.enqueued)
        );
    }
    if config.measures(Metric::Instr) {
        let cache = config.cache;
        let _ = write!(
            text,
            "\nSecond-level cache: {} KiB, {} ways of {}-byte lines, simulated.",
            cache.size / 1024,
            cache.ways,
            cache.line
        );
    }
    if config.measures(Metric::Memory)
        && measured.iter().any(|m| m.memory.is_some() && m.memory_of_flow().is_none())
    {
        text += "\nMemory for a flow is shown for 4k flows and more.";
    }
    if config.measures(Metric::Time)
        && measured.iter().any(|m| m.spread.is_some_and(|spread| spread.relative() > UNSTEADY))
    {
        text += "\nRuns differ by more than a fifth: the machine is busy; more --runs help.";
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// Relative spread of the runs above which the results get a note.
const UNSTEADY: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_to_the_right_but_for_the_first() {
        let mut table = Table::new(["scheduler", "ns/pair"]);
        table.add_row(vec!["wf2q+".into(), "12.5".into()]);
        table.add_row(vec!["fifo".into(), "123456.7".into()]);
        assert_eq!(
            table.text(),
            "  scheduler   ns/pair\n  wf2q+          12.5\n  fifo       123456.7\n"
        );
    }
}
