//! Reads a case from its file. Each error names its line.

use std::ops::RangeInclusive;

use toml::de::DeTable;
use weir_core::config::{MAX_QUEUE_PACKETS, QueueLimit};
use weir_core::packet::{Ecn, Header};
use weir_core::units::Rate;

use super::case::{Arrival, Case, Service};
use super::expectation::{Bound, Column, Counter, Expectation, Wanted};
use super::table::{CaseError, Table, Value};
use crate::managed::hash_of;
use weir_rules::manager::Manager;

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// [`CaseError`] for the first fault in the file.
    pub fn read(text: &str) -> Result<Self, CaseError> {
        let parsed = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            CaseError::new(text, offset, error.message().to_owned())
        })?;
        let top = Table::new(text, parsed.get_ref(), "a case", 0);
        top.only(&["about", "source", "queue", "arrive", "dequeue", "link", "expect"])?;
        let queue = top.need("queue")?.table()?;
        queue.only(&["aqm", "scheduler", "limit", "limit_bytes", "rate", "seed", "seeds"])?;
        let manager = manager(&queue)?;
        let arrivals = arrivals(&top)?;
        let (within, expected) = match top.get("expect") {
            Some(value) => expectations(&value.table()?)?,
            None => (0, Vec::new()),
        };
        Ok(Self {
            about: top.need("about")?.text()?.to_owned(),
            source: top.get("source").map_or(Ok(""), |value| value.text())?.to_owned(),
            manager,
            limit: limit(&queue, &manager)?,
            rate: queue.get("rate").map_or(Ok(0), |value| rate(&value))?,
            seeds: seeds(&queue)?,
            arrivals,
            service: service(&top)?,
            within,
            expected,
        })
    }
}

fn manager(queue: &Table<'_>) -> Result<Manager, CaseError> {
    match (queue.get("aqm"), queue.get("scheduler")) {
        (Some(value), None) => {
            match Manager::parse(value.text()?).map_err(|error| value.error(error))? {
                Manager::Scheduler(discipline) => Err(value.error(format!(
                    "`{0}` is a scheduler: write scheduler = \"{0} …\"",
                    discipline.row().name
                ))),
                manager => Ok(manager),
            }
        }
        (None, Some(value)) => {
            Manager::parse_scheduler(value.text()?).map_err(|error| value.error(error))
        }
        (Some(value), Some(_)) => Err(value.error("give an AQM or a scheduler, not both")),
        (None, None) => Err(queue.error(
            "[queue] needs `aqm` or `scheduler`; aqm = \"none\" for the limit alone".to_owned(),
        )),
    }
}

fn limit(queue: &Table<'_>, manager: &Manager) -> Result<QueueLimit, CaseError> {
    match (queue.get("limit"), queue.get("limit_bytes")) {
        (Some(value), None) => {
            Ok(QueueLimit::Packets(value.number(1, MAX_QUEUE_PACKETS.into())? as u32))
        }
        (None, Some(value)) => Ok(QueueLimit::Bytes(value.number(1, 1 << 40)?)),
        (Some(value), Some(_)) => Err(value.error("give `limit` or `limit_bytes`, not both")),
        (None, None) => Ok(QueueLimit::Packets(match manager {
            Manager::Scheduler(_) => MAX_QUEUE_PACKETS,
            _ => DEFAULT_LIMIT,
        })),
    }
}

/// A rate with its unit, such as `10Mbit/s`.
fn rate(value: &Value<'_>) -> Result<u64, CaseError> {
    let text = value.text()?;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match text[digits.len()..].trim() {
        "bit/s" => Some(1),
        "kbit/s" => Some(1_000),
        "Mbit/s" => Some(1_000_000),
        "Gbit/s" => Some(1_000_000_000),
        _ => None,
    };
    let bps =
        scale.zip(digits.parse::<u64>().ok()).and_then(|(scale, number)| number.checked_mul(scale));
    let wrong = || {
        value.error(format!("`{text}` is not a rate: write a whole number and bit/s, kbit/s, Mbit/s or Gbit/s, up to 400Gbit/s"))
    };
    bps.and_then(Rate::new).map(Rate::bps).ok_or_else(wrong)
}

fn seeds(queue: &Table<'_>) -> Result<RangeInclusive<u64>, CaseError> {
    match (queue.get("seed"), queue.get("seeds")) {
        (Some(value), None) => value.number(0, u64::MAX).map(|seed| seed..=seed),
        (None, Some(value)) => match value.numbers()?[..] {
            [first, last] if first <= last && last - first < MAX_SEEDS => Ok(first..=last),
            _ => Err(value.error(format!("the first and the last seed are needed, as in [1, 200]; at most {MAX_SEEDS} of them"))),
        },
        (Some(value), Some(_)) => Err(value.error("give `seed` or `seeds`, not both")),
        (None, None) => Ok(1..=1),
    }
}

/// The times of an entry: for each time of `at`, `count` times with a distance of `every`.
fn moments(entry: &Table<'_>) -> Result<Vec<u64>, CaseError> {
    let count = entry.get("count").map_or(Ok(1), |value| value.number(1, MAX_PACKETS as u64))?;
    let every = entry.get("every").map_or(Ok(0), |value| value.time())?;
    let at = entry.need("at")?;
    let begins = at.times()?;
    if begins.len().saturating_mul(count as usize) > MAX_PACKETS {
        return Err(at.error(format!("more than {MAX_PACKETS} packets")));
    }
    let last = |begin: u64| begin.checked_add(every.checked_mul(count - 1)?);
    if begins.iter().any(|begin| last(*begin).is_none()) {
        return Err(at.error("the last one comes after the end of time"));
    }
    Ok(begins.iter().flat_map(|begin| (0..count).map(move |n| begin + n * every)).collect())
}

fn arrivals(top: &Table<'_>) -> Result<Vec<Arrival>, CaseError> {
    let mut all = Vec::new();
    let entries = top.need("arrive")?;
    for entry in entries.members() {
        let entry = entry.table()?;
        entry.only(&["at", "every", "count", "bytes", "ecn", "flow", "hash", "dscp"])?;
        let number = |name, least, most, default| {
            entry.get(name).map_or(Ok(default), |value| value.number(least, most))
        };
        let len = entry.need("bytes")?.number(0, 4 << 20)? as u32;
        let flow = number("flow", 0, u32::MAX.into(), 0)? as u32;
        let hash = number("hash", 0, u32::MAX.into(), hash_of(flow).into())? as u32;
        let dscp = number("dscp", 0, 63, 0)? as u8;
        let ecn = entry.get("ecn").map_or(Ok(Ecn::NotEct), |value| ecn(&value))?;
        all.extend(moments(&entry)?.into_iter().map(|at| Arrival {
            at,
            len,
            flow,
            header: Header { ecn, dscp, hash },
        }));
        if all.len() > MAX_PACKETS {
            return Err(entries.error(format!("more than {MAX_PACKETS} packets")));
        }
    }
    all.sort_by_key(|arrival| arrival.at);
    Ok(all)
}

fn ecn(value: &Value<'_>) -> Result<Ecn, CaseError> {
    let known =
        [("not-ect", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1), ("ce", Ecn::Ce)];
    let text = value.text()?;
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, ecn)| *ecn);
    found.ok_or_else(|| {
        value.error(format!("`{text}` is not allowed: write not-ect, ect0, ect1 or ce"))
    })
}

fn service(top: &Table<'_>) -> Result<Service, CaseError> {
    match (top.get("dequeue"), top.get("link")) {
        (Some(value), Some(_)) => Err(value.error("give [[dequeue]] or [link], not both")),
        (None, Some(value)) => {
            let link = value.table()?;
            link.only(&["rate", "burst", "from", "until"])?;
            let time = |name, default| link.get(name).map_or(Ok(default), |value| value.time());
            let burst = link.get("burst").map_or(Ok(0), |value| value.number(0, 1 << 40))?;
            Ok(Service::Link {
                rate: rate(&link.need("rate")?)?,
                burst,
                from: time("from", 0)?,
                until: time("until", u64::MAX)?,
            })
        }
        (None, None) => Ok(Service::Times(Vec::new())),
        (Some(value), None) => {
            let mut times = Vec::new();
            for entry in value.members() {
                let entry = entry.table()?;
                entry.only(&["at", "every", "count"])?;
                times.extend(moments(&entry)?);
            }
            times.sort_unstable();
            Ok(Service::Times(times))
        }
    }
}

/// The tolerance of times, and the expectations ordered by line.
fn expectations(expect: &Table<'_>) -> Result<(u64, Vec<Expectation>), CaseError> {
    expect.only(&[
        "within",
        "backlog",
        "drops",
        "marks",
        "drop_times",
        "mark_times",
        "served",
        "figures",
        "total",
        "flow",
    ])?;
    let mut all = Vec::new();
    let mut add = |value: &Value<'_>, name: String, wanted| {
        all.push(Expectation { line: value.line(), name, wanted })
    };
    for (name, column) in
        [("backlog", Column::Backlog), ("drops", Column::Drops), ("marks", Column::Marks)]
    {
        if let Some(value) = expect.get(name) {
            add(
                &value,
                format!("{name} after each dequeue"),
                Wanted::After(column, value.numbers()?),
            );
        }
    }
    for (name, words, column) in [
        ("drop_times", "times of drops", Column::Drops),
        ("mark_times", "times of marks", Column::Marks),
    ] {
        if let Some(value) = expect.get(name) {
            add(&value, words.to_owned(), Wanted::Times(column, value.times()?));
        }
    }
    if let Some(value) = expect.get("served") {
        let flows = value
            .members()
            .iter()
            .map(|member| Ok(member.number(0, u32::MAX.into())? as u32))
            .collect::<Result<_, _>>()?;
        add(&value, "flows served".to_owned(), Wanted::Served(flows));
    }
    if let Some(value) = expect.get("figures") {
        for variable in value.table()?.values() {
            add(
                &variable,
                format!("{} after each dequeue", variable.name()),
                wanted_variable(&variable)?,
            );
        }
    }
    if let Some(value) = expect.get("total") {
        totals(&value.table()?, None, &mut add)?;
    }
    for value in expect.get("flow").iter().flat_map(Value::members) {
        let table = value.table()?;
        let flow = table.need("flow")?.number(0, u32::MAX.into())? as u32;
        totals(&table, Some(flow), &mut add)?;
    }
    all.sort_by_key(|expected| expected.line);
    let within = expect.get("within").map_or(Ok(0), |value| value.time())?;
    Ok((within, all))
}

/// The values of a state variable. Numbers are numbers, texts are times, and `""` expects nothing.
fn wanted_variable(value: &Value<'_>) -> Result<Wanted, CaseError> {
    let members = value.members();
    let times = members.iter().any(Value::is_text);
    let each = |member: &Value<'_>| match member.is_text() {
        true if member.text()?.is_empty() => Ok(None),
        true => member.time().map(Some),
        false => member.number(0, u64::MAX).map(Some),
    };
    Ok(Wanted::Variable {
        name: value.name().to_owned(),
        values: members.iter().map(each).collect::<Result<_, _>>()?,
        times,
    })
}

fn totals(
    table: &Table<'_>,
    flow: Option<u32>,
    add: &mut impl FnMut(&Value<'_>, String, Wanted),
) -> Result<(), CaseError> {
    for value in table.values().filter(|value| flow.is_none() || value.name() != "flow") {
        let counter = Counter::from_name(value.name()).ok_or_else(|| {
            let names: Vec<String> = Counter::all().map(|counter| counter.to_string()).collect();
            value
                .error(format!("nothing of this name is counted: allowed are {}", names.join(", ")))
        })?;
        let name =
            flow.map_or_else(|| counter.to_string(), |flow| format!("{counter} of flow {flow}"));
        add(&value, name, Wanted::Total { flow, counter, bound: bound(&value)? });
    }
    Ok(())
}

/// `105`, `{ least = 95, most = 100 }` or `{ mean = 25.1, within = 1.0 }`.
fn bound(value: &Value<'_>) -> Result<Bound, CaseError> {
    if !value.is_table() {
        return value.number(0, u64::MAX).map(Bound::Exactly);
    }
    let table = value.table()?;
    if let Some(mean) = table.get("mean") {
        table.only(&["mean", "within"])?;
        return Ok(Bound::Mean(mean.float()?, table.need("within")?.float()?));
    }
    table.only(&["least", "most"])?;
    let number =
        |name, default| table.get(name).map_or(Ok(default), |value| value.number(0, u64::MAX));
    Ok(Bound::Between(number("least", 0)?, number("most", u64::MAX)?))
}

/// The queue's limit in packets when the case does not state one.
const DEFAULT_LIMIT: u32 = 1000;
/// The maximum number of packets of a case, and of dequeues.
const MAX_PACKETS: usize = 5_000_000;
/// The maximum number of seeds of a case.
const MAX_SEEDS: u64 = 10_000;
