//! The results as tables: a row for each flow, each link, each interval, and each bin of a
//! distribution.

use weir_measure::distribution::Distribution;
use weir_measure::scenario::{FlowOutcome, Lateness, LinkOutcome, Outcome};

use super::Results;
use super::metrics::{Metric, metrics_of_flow, metrics_of_link};
use super::parquet::{Column, Table};

type Count<T> = fn(&T) -> u64;

/// A table with a row for each flow of each run: `seed`, `name`, `kind`, `from`, `to`, counts and
/// statistics.
pub fn flows(results: &Results) -> Table {
    let rows: Vec<(&Outcome, &FlowOutcome)> =
        results.runs.iter().flat_map(|run| run.flows.iter().map(move |flow| (run, flow))).collect();
    let counts: [(&'static str, Count<FlowOutcome>); 7] = [
        ("sent_bytes", |f| f.sent_bytes),
        ("received_bytes", |f| f.received_bytes),
        ("goodput_bytes", |f| f.goodput_bytes),
        ("carried", |f| f.carried),
        ("duplicated", |f| f.duplicated),
        ("inside", |f| f.inside),
        ("opened", |f| f.opened),
    ];
    let mut columns = vec![
        ("seed", Column::Int(rows.iter().map(|(run, _)| run.seed).collect())),
        ("name", names(rows.iter().map(|(_, f)| f.name.as_str()))),
        ("kind", names(rows.iter().map(|(_, f)| f.kind.as_str()))),
        ("from", names(rows.iter().map(|(_, f)| f.from.as_str()))),
        ("to", names(rows.iter().map(|(_, f)| f.to.as_str()))),
    ];
    columns.extend(
        counts.map(|(name, of)| (name, Column::Int(rows.iter().map(|(_, f)| of(f)).collect()))),
    );
    let metrics: Vec<_> = rows.iter().map(|(run, flow)| metrics_of_flow(run, flow)).collect();
    columns.extend(metric_columns(&metrics));
    Table { columns }
}

/// A table with a row for each direction of a link of each run: `seed`, `name`, `from`, `to`,
/// counts and statistics. With live runs, it also has the lateness of all links together.
pub fn links(results: &Results) -> Table {
    let rows: Vec<(&Outcome, &LinkOutcome)> =
        results.runs.iter().flat_map(|run| run.links.iter().map(move |link| (run, link))).collect();
    let counts: [(&'static str, Count<LinkOutcome>); 8] = [
        ("delay_ns", |l| l.delay_ns),
        ("packets_in", |l| l.counters.packets_in),
        ("bytes_in", |l| l.counters.bytes_in),
        ("bytes_out", |l| l.counters.bytes_out),
        ("carried", |l| l.counters.carried),
        ("duplicated", |l| l.counters.duplicated),
        ("corrupted", |l| l.counters.corrupted),
        ("backlog_packets", |l| l.counters.backlog_packets),
    ];
    let mut columns = vec![
        ("seed", Column::Int(rows.iter().map(|(run, _)| run.seed).collect())),
        ("name", names(rows.iter().map(|(_, l)| l.name.as_str()))),
        ("from", names(rows.iter().map(|(_, l)| l.from.as_str()))),
        ("to", names(rows.iter().map(|(_, l)| l.to.as_str()))),
        ("rate_bps", Column::SomeInt(rows.iter().map(|(_, l)| l.rate_bps).collect())),
    ];
    columns.extend(
        counts.map(|(name, of)| (name, Column::Int(rows.iter().map(|(_, l)| of(l)).collect()))),
    );
    let metrics: Vec<_> = rows.iter().map(|(run, link)| metrics_of_link(run, link)).collect();
    columns.extend(metric_columns(&metrics));
    if results.runs.iter().any(|run| run.lateness.is_some()) {
        columns.extend(lateness(&rows));
    }
    Table { columns }
}

/// The columns with the lateness of a whole run, all its links together. Every row of the run has
/// the same values.
fn lateness(rows: &[(&Outcome, &LinkOutcome)]) -> [(&'static str, Column); 4] {
    let of = |read: fn(&Lateness) -> u64| {
        Column::SomeInt(rows.iter().map(|(run, _)| run.lateness.as_ref().map(read)).collect())
    };
    [
        ("run_departed", of(|lateness| lateness.ns.count)),
        ("run_late", of(|lateness| lateness.late)),
        ("run_lateness_p99_ns", of(|lateness| lateness.ns.quantile(0.99))),
        ("run_lateness_max_ns", of(|lateness| lateness.ns.max)),
    ]
}

/// A table with a row for each interval of each flow and link. For a flow, `packets_in` and
/// `bytes_in` count the sent traffic, `packets_out` and `bytes_out` the received traffic.
pub fn series(results: &Results) -> Table {
    let rows_of_run = |run: &Outcome| {
        let (flows, links) = (run.series.flows.iter(), run.series.links.iter());
        flows.map(Vec::len).sum::<usize>() + links.map(Vec::len).sum::<usize>()
    };
    let mut rows = SeriesColumns::new(results.runs.iter().map(rows_of_run).sum());
    for run in &results.runs {
        let s = &run.series;
        for (flow, samples) in run.flows.iter().zip(&s.flows) {
            rows.begin_object(run.seed, FLOW, &flow.name);
            for (n, x) in samples.iter().enumerate() {
                let counts = [x.sent, x.sent_bytes, x.received, x.received_bytes, x.lost, x.marked];
                let delay = (x.received > 0).then(|| x.delay_sum_ns as f64 / x.received as f64);
                rows.sample(n as u64 * s.interval_ns, s.span_ns(n), counts);
                rows.goodput.push(Some(x.goodput_bytes));
                rows.delay.push(delay);
                rows.queue(None);
            }
        }
        for (link, samples) in run.links.iter().zip(&s.links) {
            rows.begin_object(run.seed, LINK, &link.name);
            for (n, x) in samples.iter().enumerate() {
                let counts =
                    [x.packets_in, x.bytes_in, x.packets_out, x.bytes_out, x.drops(), x.marks()];
                rows.sample(n as u64 * s.interval_ns, s.span_ns(n), counts);
                rows.goodput.push(None);
                rows.delay.push(None);
                rows.queue(Some((
                    x.queue_packets.min(),
                    x.queue_packets.mean(),
                    x.queue_packets.max(),
                    x.queue_bytes.max(),
                )));
            }
        }
    }
    rows.table()
}

/// A table with a row for each bin of each distribution. `what` is `delay` or `completion` for a
/// flow, `queue` or `total` for a link.
pub fn delays(results: &Results) -> Table {
    let (mut seed, mut object, mut what, mut name_index) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut low, mut high, mut count) = (Vec::new(), Vec::new(), Vec::new());
    let mut all_names = Vec::new();
    let mut add = |run_seed: u64,
                   object_index: u32,
                   what_index: u32,
                   name: &str,
                   distribution: &Distribution| {
        if distribution.count > 0 {
            all_names.push(name.to_owned());
        }
        for bin in &distribution.bins {
            seed.push(run_seed);
            object.push(object_index);
            what.push(what_index);
            name_index.push(all_names.len() as u32 - 1);
            low.push(bin.low);
            high.push(bin.high);
            count.push(bin.count);
        }
    };
    for run in &results.runs {
        for f in &run.flows {
            add(run.seed, FLOW, 0, &f.name, &f.delay_ns);
            add(run.seed, FLOW, 1, &f.name, &f.completion_ns);
        }
        for l in &run.links {
            add(run.seed, LINK, 2, &l.name, &l.queue_ns);
            add(run.seed, LINK, 3, &l.name, &l.total_ns);
        }
    }
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Table {
        columns: vec![
            ("seed", Column::Int(seed)),
            ("object", Column::Name(words(&OBJECTS), object)),
            ("name", Column::Name(all_names, name_index)),
            ("what", Column::Name(words(&["delay", "completion", "queue", "total"]), what)),
            ("low_ns", Column::Int(low)),
            ("high_ns", Column::Int(high)),
            ("count", Column::Int(count)),
        ],
    }
}

/// The columns of [`series`] during construction.
struct SeriesColumns {
    /// The names of the flows and links so far. New rows belong to the last one.
    names: Vec<String>,
    /// The seed and the kind of object ([`FLOW`] or [`LINK`]) of new rows.
    current: (u64, u32),
    seed: Vec<u64>,
    object: Vec<u32>,
    name: Vec<u32>,
    time: Vec<u64>,
    span: Vec<u64>,
    counts: [Vec<u64>; 6],
    goodput: Vec<Option<u64>>,
    delay: Vec<Option<f64>>,
    queue_min: Vec<Option<u64>>,
    queue_mean: Vec<Option<f64>>,
    queue_max: Vec<Option<u64>>,
    queue_bytes: Vec<Option<u64>>,
}

impl SeriesColumns {
    fn new(rows: usize) -> Self {
        Self {
            names: Vec::new(),
            current: (0, FLOW),
            seed: Vec::with_capacity(rows),
            object: Vec::with_capacity(rows),
            name: Vec::with_capacity(rows),
            time: Vec::with_capacity(rows),
            span: Vec::with_capacity(rows),
            counts: std::array::from_fn(|_| Vec::with_capacity(rows)),
            goodput: Vec::with_capacity(rows),
            delay: Vec::with_capacity(rows),
            queue_min: Vec::with_capacity(rows),
            queue_mean: Vec::with_capacity(rows),
            queue_max: Vec::with_capacity(rows),
            queue_bytes: Vec::with_capacity(rows),
        }
    }

    /// Begins the rows of a flow or link.
    fn begin_object(&mut self, seed: u64, object: u32, name: &str) {
        self.names.push(name.to_owned());
        self.current = (seed, object);
    }

    /// Adds a row's values to the columns that flows and links have in common.
    fn sample(&mut self, time: u64, span: u64, counts: [u64; 6]) {
        self.seed.push(self.current.0);
        self.object.push(self.current.1);
        self.name.push(self.names.len() as u32 - 1);
        self.time.push(time);
        self.span.push(span);
        self.counts.iter_mut().zip(counts).for_each(|(column, value)| column.push(value));
    }

    /// Adds a row's values to the columns that only links have: the least, mean and greatest number
    /// of packets in the queue, and the greatest number of bytes. `None` for a flow.
    fn queue(&mut self, queue: Option<(u64, f64, u64, u64)>) {
        self.queue_min.push(queue.map(|q| q.0));
        self.queue_mean.push(queue.map(|q| q.1));
        self.queue_max.push(queue.map(|q| q.2));
        self.queue_bytes.push(queue.map(|q| q.3));
    }

    fn table(self) -> Table {
        let mut columns = vec![
            ("seed", Column::Int(self.seed)),
            (
                "object",
                Column::Name(OBJECTS.iter().map(|&word| word.to_owned()).collect(), self.object),
            ),
            ("name", Column::Name(self.names, self.name)),
            ("t_ns", Column::Int(self.time)),
            ("span_ns", Column::Int(self.span)),
        ];
        let names = ["packets_in", "bytes_in", "packets_out", "bytes_out", "lost", "marked"];
        columns.extend(names.into_iter().zip(self.counts.map(Column::Int)));
        columns.extend([
            ("goodput_bytes", Column::SomeInt(self.goodput)),
            ("delay_mean_ns", Column::SomeFloat(self.delay)),
            ("queue_packets_min", Column::SomeInt(self.queue_min)),
            ("queue_packets_mean", Column::SomeFloat(self.queue_mean)),
            ("queue_packets_max", Column::SomeInt(self.queue_max)),
            ("queue_bytes_max", Column::SomeInt(self.queue_bytes)),
        ]);
        Table { columns }
    }
}

/// A column for every metric that occurs in any row.
fn metric_columns(rows: &[Vec<Metric>]) -> Vec<(&'static str, Column)> {
    let mut names: Vec<&'static str> = Vec::new();
    for metric in rows.iter().flatten() {
        if !names.contains(&metric.name) {
            names.push(metric.name);
        }
    }
    let value = |row: &Vec<Metric>, name| {
        row.iter().find(|metric| metric.name == name).and_then(|metric| metric.value)
    };
    names
        .into_iter()
        .map(|name| (name, Column::SomeFloat(rows.iter().map(|row| value(row, name)).collect())))
        .collect()
}

/// A column of names, with consecutive equal names stored once.
fn names<'a>(values: impl Iterator<Item = &'a str>) -> Column {
    let (mut all, mut rows): (Vec<String>, Vec<u32>) = (Vec::new(), Vec::new());
    for value in values {
        if all.last().is_none_or(|last| last != value) {
            all.push(value.to_owned());
        }
        rows.push(all.len() as u32 - 1);
    }
    Column::Name(all, rows)
}

const OBJECTS: [&str; 2] = ["flow", "link"];
/// Indices into [`OBJECTS`].
const FLOW: u32 = 0;
const LINK: u32 = 1;
