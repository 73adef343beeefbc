//! Reads the expectations of a case.

use super::expectation::{Bound, Column, Counter, Expectation, Wanted};
use super::table::{CaseError, Table, Value};

/// The tolerance of times, and the expectations ordered by line.
pub(super) fn expectations(expect: &Table<'_>) -> Result<(u64, Vec<Expectation>), CaseError> {
    expect.only(&[
        "within",
        "backlog",
        "drops",
        "marks",
        "drop_times",
        "mark_times",
        "served",
        "taken",
        "dropped",
        "marked",
        "figures",
        "total",
        "flow",
    ])?;
    let mut all = Vec::new();
    let mut add = |value: &Value<'_>, name: String, wanted| {
        all.push(Expectation { line: value.line(), name, wanted });
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
    if let Some(value) = expect.get("taken") {
        add(&value, "packets taken".to_owned(), Wanted::Taken(packets(&value)?));
    }
    for (name, words, column) in
        [("dropped", "packets dropped", Column::Drops), ("marked", "packets marked", Column::Marks)]
    {
        if let Some(value) = expect.get(name) {
            let packets = packets(&value)?.into_iter().flatten().collect();
            add(&value, words.to_owned(), Wanted::Packets(column, packets));
        }
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

/// The values of a state variable. A number is the value itself, a text is a time, and `""` expects
/// no particular value.
fn wanted_variable(value: &Value<'_>) -> Result<Wanted, CaseError> {
    let members = value.members();
    // An empty text means that nothing is expected, and may stand among numbers.
    let is_time = |member: &Value<'_>| member.text().is_ok_and(|text| !text.is_empty());
    let times = members.iter().any(is_time);
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

/// A list of packet numbers: `3 5-9` are the packets 3 and 5 to 9. In `taken`, which has one entry
/// for each dequeue, `-` is a dequeue without a packet, and `-*4` are four of them.
fn packets(value: &Value<'_>) -> Result<Vec<Option<u32>>, CaseError> {
    let mut all = Vec::new();
    for word in value.text()?.split_whitespace() {
        let wrong = || {
            value.error(format!(
                "`{word}` is not understood: write numbers, ranges such as 5-9, - or -*4"
            ))
        };
        let number = |digits: &str| digits.parse::<u32>().ok();
        let (found, count) = match word.strip_prefix('-') {
            Some("") => (None, Some(1)),
            Some(rest) => (None, rest.strip_prefix('*').and_then(number)),
            None => {
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
                (Some(first), last.checked_sub(first).and_then(|more| more.checked_add(1)))
            }
        };
        let count = count.ok_or_else(wrong)?;
        if all.len() + count as usize > MAX_PACKETS {
            return Err(value.error(format!("more than {MAX_PACKETS} packets")));
        }
        all.extend((0..count).map(|n| found.map(|first| first + n)));
    }
    Ok(all)
}

/// The values that a counter may have: exactly `105`; a range, `{ least = 95, most = 100 }`; a mean
/// over the seeds with its tolerance, `{ mean = 25.1, within = 1.0 }`; or the mean of another
/// sample with its standard error, `{ mean = 25.1, error = 0.2 }`.
fn bound(value: &Value<'_>) -> Result<Bound, CaseError> {
    if !value.is_table() {
        return value.number(0, u64::MAX).map(Bound::Exactly);
    }
    let table = value.table()?;
    if let Some(mean) = table.get("mean") {
        table.only(&["mean", "within", "error"])?;
        let mean_value = mean.float()?;
        return match (table.get("within"), table.get("error")) {
            (None, Some(error)) => Ok(Bound::Sample { mean: mean_value, error: error.float()? }),
            (Some(_), Some(error)) => Err(error.error("give `within` or `error`, not both")),
            _ => Ok(Bound::Mean(mean_value, table.need("within")?.float()?)),
        };
    }
    table.only(&["least", "most"])?;
    let number =
        |name, default| table.get(name).map_or(Ok(default), |value| value.number(0, u64::MAX));
    Ok(Bound::Between(number("least", 0)?, number("most", u64::MAX)?))
}

/// The maximum number of packets in a list of packets.
const MAX_PACKETS: usize = 5_000_000;
