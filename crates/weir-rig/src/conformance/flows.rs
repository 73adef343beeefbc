//! Reads the flows of a case and the schedulers that contain them.

use weir_core::Nanos;
use weir_core::config::{MAX_QUEUE_PACKETS, QueueLimit};
use weir_core::sched::{Discipline, FlowSpec, MAX_PACKET, MAX_PRIORITY, MAX_WEIGHT, MIN_PACKET};
use weir_core::units::Rate;
use weir_rules::manager::Manager;
use weir_rules::named;

use super::case::{Class, Flow, Subject};
use super::table::{CaseError, Table, Value};

/// Reads `[[class]]` and `[[flow]]`. `limit` is the limit of a flow that states none.
pub(super) fn read(
    top: &Table<'_>,
    subject: &Subject,
    limit: QueueLimit,
) -> Result<(Vec<Class>, Vec<Flow>), CaseError> {
    if let Some(value) = top.get("class").or_else(|| top.get("flow"))
        && !matches!(subject, Subject::Manager(Manager::Scheduler(_)) | Subject::Missing(_))
    {
        return Err(value.error("only a scheduler has classes and flows: give `scheduler`"));
    }
    let mut classes: Vec<Class> = Vec::new();
    for value in top.get("class").iter().flat_map(Value::members) {
        let table = value.table()?;
        table.only(&[NAMES, &["name", "scheduler"]].concat())?;
        let name = table.need("name")?;
        if classes.iter().any(|class| Ok(class.name.as_str()) == name.text()) {
            return Err(name.error("another class has this name"));
        }
        if classes.len() == MAX_CLASSES {
            return Err(value.error(format!("more than {MAX_CLASSES} classes")));
        }
        let scheduler = table.need("scheduler")?;
        let discipline: Discipline =
            named::read(scheduler.text()?).map_err(|error| scheduler.error(error))?;
        let parent = class_of(&table, &classes)?;
        let spec = spec(&table, 0)?;
        let name = name.text()?.to_owned();
        classes.push(Class { name, scheduler: discipline, parent, spec });
    }
    let mut flows: Vec<Flow> = Vec::new();
    for value in top.get("flow").iter().flat_map(Value::members) {
        let table = value.table()?;
        table.only(&[NAMES, &["flow", "limit", "limit_bytes"]].concat())?;
        let number = table.need("flow")?;
        let flow = number.number(0, u32::MAX.into())? as u32;
        if flows.iter().any(|known| known.number == flow) {
            return Err(number.error("another [[flow]] has this number"));
        }
        if flows.len() == MAX_FLOWS {
            return Err(value.error(format!("more than {MAX_FLOWS} flows")));
        }
        flows.push(Flow {
            number: flow,
            class: class_of(&table, &classes)?,
            // The number of a flow at its scheduler is the number of the flow's queue.
            spec: spec(&table, flows.len() as u32)?,
            limit: queue_limit(&table)?.map_or(limit, |(limit, _)| limit),
        });
    }
    if let (Some(value), true) = (top.get("class"), flows.is_empty()) {
        return Err(value.error("classes need flows: add [[flow]] tables"));
    }
    Ok((classes, flows))
}

/// The index of the class that a table names; `None` if it names none, which means the root.
fn class_of(table: &Table<'_>, classes: &[Class]) -> Result<Option<usize>, CaseError> {
    let Some(value) = table.get("class") else { return Ok(None) };
    let name = value.text()?;
    let found = classes.iter().position(|class| class.name == name);
    found.map(Some).ok_or_else(|| value.error(format!("no class before this one is named {name}")))
}

/// The properties of a flow or class at its scheduler.
fn spec(table: &Table<'_>, flow: u32) -> Result<FlowSpec, CaseError> {
    let default = FlowSpec::default();
    let number = |name, least: u32, most: u32, default: u32| {
        let read = |value: Value<'_>| Ok(value.number(least.into(), most.into())? as u32);
        table.get(name).map_or(Ok(default), read)
    };
    let rate = |name| table.get(name).map_or(Ok(0), |value| rate(&value));
    Ok(FlowSpec {
        flow,
        weight: number("weight", 1, MAX_WEIGHT, default.weight)?,
        max_packet: number("max_packet", MIN_PACKET, MAX_PACKET, default.max_packet)?,
        priority: number("priority", 0, MAX_PRIORITY, default.priority)?,
        rate: rate("rate")?,
        ceil: rate("ceil")?,
        burst: number("burst", 0, u32::MAX, default.burst)?,
        deadline: Nanos(table.get("deadline").map_or(Ok(0), |value| value.time())?),
        limit: match queue_limit(table)? {
            Some((QueueLimit::Packets(packets), _)) => packets,
            _ => default.limit,
        },
    })
}

/// The limit that a table states, with the value that states it.
pub(super) fn queue_limit<'a>(
    table: &Table<'a>,
) -> Result<Option<(QueueLimit, Value<'a>)>, CaseError> {
    match (table.get("limit"), table.get("limit_bytes")) {
        (Some(value), None) => {
            let packets = value.number(1, MAX_QUEUE_PACKETS.into())? as u32;
            Ok(Some((QueueLimit::Packets(packets), value)))
        }
        (None, Some(value)) => Ok(Some((QueueLimit::Bytes(value.number(1, 1 << 40)?), value))),
        (Some(value), Some(_)) => Err(value.error("give `limit` or `limit_bytes`, not both")),
        (None, None) => Ok(None),
    }
}

/// A rate with its unit, such as `10Mbit/s`.
pub(super) fn rate(value: &Value<'_>) -> Result<u64, CaseError> {
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
        value.error(format!(
            "`{text}` is not a rate: write a whole number and bit/s, kbit/s, \
                             Mbit/s or Gbit/s, up to 400Gbit/s"
        ))
    };
    bps.and_then(Rate::new).map(Rate::bps).ok_or_else(wrong)
}

/// The keys that classes and flows share.
const NAMES: &[&str] =
    &["class", "weight", "priority", "max_packet", "rate", "ceil", "burst", "deadline"];
const MAX_CLASSES: usize = 1024;
const MAX_FLOWS: usize = 65_536;
