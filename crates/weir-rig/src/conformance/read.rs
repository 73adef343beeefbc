//! Reads a case from its file. Each error names its line.

use std::ops::RangeInclusive;

use toml::de::DeTable;
use weir_core::config::{MAX_QUEUE_PACKETS, QueueLimit};
use weir_core::packet::{Ecn, Header};

use super::case::{Arrival, Case, Flow, Recording, Service, Subject};
use super::flows;
use super::flows::{queue_limit, rate};
use super::table::{CaseError, Table, Value};
use super::wanted::expectations;
use crate::managed::hash_of;
use weir_rules::manager::Manager;
use weir_rules::{NoFiles, parse_spec};

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
        top.only(&[
            "about", "source", "differs", "kernel", "queue", "class", "flow", "arrive", "dequeue",
            "link", "expect",
        ])?;
        let queue = top.need("queue")?.table()?;
        queue.only(&[
            "aqm",
            "scheduler",
            "pipe",
            "missing",
            "limit",
            "limit_bytes",
            "rate",
            "seed",
            "seeds",
        ])?;
        let subject = subject(&queue)?;
        let limit = limit(&queue, &subject)?;
        let is_pipe = matches!(subject, Subject::Pipe(_));
        let (classes, flows) = flows::read(&top, &subject, limit)?;
        let arrivals = arrivals(&top, &subject, &flows)?;
        let (within, expected) = match top.get("expect") {
            Some(value) => expectations(&value.table()?)?,
            None => (0, Vec::new()),
        };
        Ok(Self {
            about: top.need("about")?.text()?.to_owned(),
            source: top.get("source").map_or(Ok(""), |value| value.text())?.to_owned(),
            differs: top.get("differs").map(|value| value.text().map(str::to_owned)).transpose()?,
            kernel: recording(&top)?,
            subject,
            classes,
            flows,
            limit,
            rate: queue.get("rate").map_or(Ok(0), |value| rate(&value))?,
            seeds: seeds(&queue)?,
            arrivals,
            service: service(&top, is_pipe)?,
            within,
            expected,
        })
    }
}

/// The subject of the case: an AQM, a scheduler or a pipe. The key `missing` names a discipline
/// that Weir does not have.
fn subject(queue: &Table<'_>) -> Result<Subject, CaseError> {
    let names = ["aqm", "scheduler", "pipe", "missing"];
    let mut given = names.iter().filter_map(|name| Some((*name, queue.get(name)?)));
    let Some((name, value)) = given.next() else {
        return Err(queue.error(
            "[queue] needs `aqm` or `scheduler`; aqm = \"none\" for the limit alone".to_owned(),
        ));
    };
    if let Some((_, second)) = given.next() {
        return Err(second.error("give an AQM or a scheduler, not both"));
    }
    let text = value.text()?;
    match name {
        "aqm" => match Manager::parse(text).map_err(|error| value.error(error))? {
            Manager::Scheduler(discipline) => Err(value.error(format!(
                "`{0}` is a scheduler: write scheduler = \"{0} …\"",
                discipline.row().name
            ))),
            manager => Ok(Subject::Manager(manager)),
        },
        "scheduler" => {
            Manager::parse_scheduler(text).map(Subject::Manager).map_err(|error| value.error(error))
        }
        "pipe" => match parse_spec(text, &NoFiles) {
            Ok(spec) => Ok(Subject::Pipe(Box::new(spec))),
            Err(diagnostics) => Err(value.error(
                diagnostics.iter().next().map_or(String::new(), |first| first.message.clone()),
            )),
        },
        _ => Ok(Subject::Missing(text.to_owned())),
    }
}

/// The table `[kernel]`.
fn recording(top: &Table<'_>) -> Result<Option<Recording>, CaseError> {
    let Some(value) = top.get("kernel") else { return Ok(None) };
    let table = value.table()?;
    table.only(&["releases", "setup", "runs"])?;
    let releases = table.need("releases")?;
    Ok(Some(Recording {
        releases: releases
            .members()
            .iter()
            .map(|member| member.text().map(str::to_owned))
            .collect::<Result<_, _>>()?,
        setup: table.need("setup")?.text()?.to_owned(),
        runs: table.get("runs").map_or(Ok(1), |value| value.number(1, MAX_SEEDS))?,
    }))
}

pub(super) fn limit(queue: &Table<'_>, subject: &Subject) -> Result<QueueLimit, CaseError> {
    let given = queue_limit(queue)?;
    if let (Some((_, value)), Subject::Pipe(_)) = (&given, subject) {
        return Err(value.error("a pipe states its limit itself: pipe = \"queue 50 …\""));
    }
    Ok(given.map_or_else(
        || {
            QueueLimit::Packets(match subject {
                Subject::Manager(Manager::Scheduler(_)) => MAX_QUEUE_PACKETS,
                _ => DEFAULT_LIMIT,
            })
        },
        |(limit, _)| limit,
    ))
}

fn seeds(queue: &Table<'_>) -> Result<RangeInclusive<u64>, CaseError> {
    match (queue.get("seed"), queue.get("seeds")) {
        (Some(value), None) => value.number(0, u64::MAX).map(|seed| seed..=seed),
        (None, Some(value)) => match value.numbers()?[..] {
            [first, last] if first <= last && last - first < MAX_SEEDS => Ok(first..=last),
            _ => Err(value.error(format!(
                "the first and the last seed are needed, as in [1, 200]; \
                                          at most {MAX_SEEDS} of them"
            ))),
        },
        (Some(value), Some(_)) => Err(value.error("give `seed` or `seeds`, not both")),
        (None, None) => Ok(1..=1),
    }
}

/// The times of an entry: from each time in `at`, `count` times at intervals of `every`.
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

fn arrivals(top: &Table<'_>, subject: &Subject, flows: &[Flow]) -> Result<Vec<Arrival>, CaseError> {
    let mut all = Vec::new();
    let entries = top.need("arrive")?;
    for entry in entries.members() {
        let entry = entry.table()?;
        entry.only(&[
            "at", "every", "count", "bytes", "ecn", "flow", "hash", "dscp", "host", "ack",
        ])?;
        let unread = match subject {
            Subject::Missing(_) => None,
            Subject::Manager(Manager::Scheduler(_)) => entry.get("ack"),
            _ => entry.get("host").or_else(|| entry.get("ack")),
        };
        if let Some(value) = unread {
            return Err(value.error("no algorithm of Weir reads it"));
        }
        let number = |name, least, most, default| {
            entry.get(name).map_or(Ok(default), |value| value.number(least, most))
        };
        let len = entry.need("bytes")?.number(0, 4 << 20)? as u32;
        let flow = number("flow", 0, u32::MAX.into(), 0)? as u32;
        if !flows.is_empty() && !flows.iter().any(|known| known.number == flow) {
            return Err(entry.error(format!("no [[flow]] has the number {flow}")));
        }
        let hash = number("hash", 0, u32::MAX.into(), hash_of(flow).into())? as u32;
        let dscp = number("dscp", 0, 63, 0)? as u8;
        // All packets have one destination.
        let host = |value: Value<'_>| value.number(0, u32::MAX.into());
        let hosts = entry.get("host").map(host).transpose()?;
        let hosts = hosts.map_or([0; 2], |host| [hash_of_host(host as u32), 1]);
        let ecn = entry.get("ecn").map_or(Ok(Ecn::NotEct), |value| ecn(&value))?;
        all.extend(moments(&entry)?.into_iter().map(|at| Arrival {
            at,
            len,
            flow,
            header: Header { ecn, dscp, hash },
            hosts,
        }));
        if all.len() > MAX_PACKETS {
            return Err(entries.error(format!("more than {MAX_PACKETS} packets")));
        }
    }
    all.sort_by_key(|arrival| arrival.at);
    Ok(all)
}

/// The hash of a sender's number; never 0. The multiplication spreads small numbers over the whole
/// range, so that CAKE stores senders with small numbers far apart.
fn hash_of_host(host: u32) -> u32 {
    host.wrapping_add(1).wrapping_mul(0x85eb_ca6b).max(1)
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

fn service(top: &Table<'_>, is_pipe: bool) -> Result<Service, CaseError> {
    match (top.get("dequeue"), top.get("link")) {
        (Some(value), Some(_)) => Err(value.error("give [[dequeue]] or [link], not both")),
        (None, Some(value)) if is_pipe => Err(value.error("a pipe has a link of its own")),
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

/// The queue's limit in packets when the case does not state one and is not about a scheduler.
const DEFAULT_LIMIT: u32 = 1000;
/// The maximum number of packets of a case, and of dequeues of one `[[dequeue]]` entry.
const MAX_PACKETS: usize = 5_000_000;
/// The maximum number of seeds of a case, and of a kernel's plays.
const MAX_SEEDS: u64 = 10_000;
