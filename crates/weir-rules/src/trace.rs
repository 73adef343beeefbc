//! Files with changes over time: Mahimahi's traces, and tables of rate, delay and loss.
//!
//! A table has comma-separated columns with a header: `time`, and any of `rate`, `delay` and
//! `loss`. A column's header may end with a unit after `_` (`time_ms`, `rate_mbit`, `delay_us`);
//! its values are then bare numbers. Under a header without a unit, a value has its own unit (`2s`,
//! `5 Mbit/s`), in the grammar of specifications; bare times are in seconds, bare delays in
//! milliseconds and bare rates in bit/s. An empty cell keeps the previous value. A rate of 0 is an
//! outage and becomes 1 bit/s: a packet in transmission waits, and continues at the next rate. Rows
//! are at least 1 us apart. If a table repeats, its last row lasts as long as the row before it,
//! unless the last row contains only a time: then the period ends at that time.

use weir_core::config::Capacity;
use weir_core::link::{MIN_STEP, Schedule, ScheduleError, Step, Trace, TraceError};
use weir_core::units::{Nanos, Rate};

use crate::decimal::Decimal;
use crate::diagnostic::{Code, Diagnostic, span_of};
use crate::parse::SLOW_BPS;
use crate::parsed::MOST_MEMORY;
use crate::quantity::{self, MAX_DELAY, QuantityError};
use crate::suggest::closest;

/// A table of changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The changes.
    pub schedule: Schedule,
    /// Notes about the first rate of zero, and about the first rate below 1 kbit/s without a unit.
    pub notes: Vec<Diagnostic>,
}

/// Reads a Mahimahi trace: one time in ms per line, in ascending order. `#` starts a comment.
///
/// # Errors
/// A line is not a time, the times go backwards, there are too many, or the trace has no duration.
pub fn parse_mahimahi(text: &str, name: &str) -> Result<Trace, Box<Diagnostic>> {
    let file = File { text, name };
    let mut times = Vec::new();
    let mut words = Vec::new();
    for word in text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|word| !word.is_empty())
    {
        let time = quantity::time(word, MAX_TIME);
        if times.len() == MOST_OPPORTUNITIES {
            return Err(file
                .error(word, format!("a trace has at most {MOST_OPPORTUNITIES} times"))
                .label("the first time beyond them")
                .help("a shorter trace repeats after its end")
                .into());
        }
        times.push(time.map_err(|_| {
            file.error(word, format!("`{}` is no time", shorten(word)))
                .label("expected a time in ms")
                .help("a trace has one time in ms a line")
        })?);
        words.push(word);
    }
    Trace::new(times).map_err(|problem| {
        let error = match problem {
            TraceError::Backwards(i) => file
                .error(words[i], "the times go backwards")
                .label("earlier than the entry before"),
            TraceError::Empty | TraceError::NoDuration => {
                file.error(file.end(), problem.to_string()).label("the file ends here")
            }
        };
        error.into()
    })
}

/// Reads a table. With `repeats` the table starts again after its end.
///
/// # Errors
/// A column is unknown, a cell cannot be parsed, the times do not ascend or are too close, or there
/// are too few or too many rows.
pub fn parse_csv(text: &str, name: &str, repeats: bool) -> Result<Table, Box<Diagnostic>> {
    let file = File { text, name };
    let mut lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter(|line| !line.trim().is_empty());
    let Some(header) = lines.next() else {
        return Err(file
            .error(file.end(), "the table is empty")
            .label("the file ends here")
            .help(HELP)
            .into());
    };
    let columns = file.header(header)?;
    let mut rows: Vec<(Nanos, Step)> = Vec::new();
    let (mut notes, mut last) = (Vec::new(), header);
    for line in lines {
        let row = file.row(line, &columns, &mut notes)?;
        if rows.last().is_some_and(|(before, _)| row.0 <= *before) {
            return Err(file
                .error(line.trim(), "the times do not ascend")
                .label("not later than the row before")
                .into());
        }
        if let Some((before, _)) = rows.last().filter(|(before, _)| row.0.since(*before) < MIN_STEP)
        {
            return Err(file
                .error(line.trim(), "the rows are too close")
                .label(format!("only {} ns after the row before", row.0.since(*before).0))
                .help(format!(
                    "rows are at least {} apart; leave out rows, or merge them into their mean",
                    quantity::write_time(MIN_STEP)
                ))
                .into());
        }
        if rows.len() == MOST_ROWS {
            return Err(file
                .error(line.trim(), format!("a table has at most {MOST_ROWS} rows"))
                .label("the first row beyond them")
                .help("merge rows into their mean, or let a shorter table repeat")
                .into());
        }
        last = line;
        rows.push(row);
    }
    let period = if repeats { Some(file.period(&mut rows, last.trim())?) } else { None };
    match Schedule::new(rows, period) {
        Ok(schedule) => Ok(Table { schedule, notes }),
        Err(
            problem @ (ScheduleError::Empty
            | ScheduleError::NotAscending(_)
            | ScheduleError::TooClose(_)
            | ScheduleError::PeriodTooShort),
        ) => Err(file
            .error(file.end(), problem.to_string())
            .label("the file ends here")
            .help(HELP)
            .into()),
    }
}

/// A column of a table, with its unit as a number of ns or bit/s; `None` if the header has no unit.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Time(Option<u64>),
    Rate(Option<u64>),
    Delay(Option<u64>),
    Loss,
}

impl Column {
    /// Whether the header gives the unit of the values.
    fn has_unit(self) -> bool {
        match self {
            Self::Time(unit) | Self::Rate(unit) | Self::Delay(unit) => unit.is_some(),
            Self::Loss => false,
        }
    }
}

#[derive(Clone, Copy)]
struct File<'a> {
    text: &'a str,
    name: &'a str,
}

impl<'a> File<'a> {
    fn error(self, part: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Code::BadFile, self.text, span_of(self.text, part), message)
            .in_file(self.name)
    }

    /// The position after the last word.
    fn end(self) -> &'a str {
        &self.text[self.text.trim_end().len()..][..0]
    }

    fn header(self, line: &str) -> Result<Vec<Column>, Box<Diagnostic>> {
        let mut columns: Vec<Column> = Vec::new();
        for cell in line.split(',').map(str::trim) {
            let column = column(cell).ok_or_else(|| {
                let name = cell.split('_').next().unwrap_or_default();
                let label = closest(name, COLUMNS).map_or_else(
                    || "unknown column".to_owned(),
                    |c| format!("expected `{c}`, perhaps with a unit after `_`"),
                );
                self.error(cell, format!("`{}` is no column", shorten(cell)))
                    .label(label)
                    .help(HELP)
            })?;
            if columns
                .iter()
                .any(|c| core::mem::discriminant(c) == core::mem::discriminant(&column))
            {
                return Err(self
                    .error(cell, "a column is given twice")
                    .label("the second time")
                    .into());
            }
            columns.push(column);
        }
        if !columns.iter().any(|c| matches!(c, Column::Time(_))) {
            return Err(self
                .error(line.trim(), "the table has no column `time`")
                .label("the header")
                .help(HELP)
                .into());
        }
        if columns.len() < 2 {
            return Err(self
                .error(line.trim(), "the table has times only")
                .label("the header")
                .help(HELP)
                .into());
        }
        Ok(columns)
    }

    fn row(
        self,
        line: &str,
        columns: &[Column],
        notes: &mut Vec<Diagnostic>,
    ) -> Result<(Nanos, Step), Box<Diagnostic>> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() > columns.len() {
            let extra = cells[columns.len()];
            return Err(self
                .error(
                    extra,
                    format!("the row has {} cells, the header {}", cells.len(), columns.len()),
                )
                .label("too many")
                .into());
        }
        let (mut time, mut step) = (None, Step::default());
        for (&column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let bad = |what: &str| {
                let error = self
                    .error(cell, format!("`{}` is not allowed here", shorten(cell)))
                    .label(format!("expected {what}"));
                let unit_twice = column.has_unit()
                    && Decimal::prefix(cell).is_ok_and(|(_, unit)| !unit.trim().is_empty());
                Box::new(if unit_twice { error.help(UNIT_TWICE) } else { error })
            };
            let text = &joined(cell);
            match column {
                Column::Time(unit) => {
                    let read = match unit {
                        Some(unit) => scaled(cell, unit),
                        None => scaled(cell, SECOND).or(quantity::time(text, MAX_TIME).ok()),
                    };
                    time = Some(read.ok_or_else(|| match unit {
                        Some(_) => bad("a number, up to 10 years"),
                        None => bad("a time up to 10 years, such as `2s`"),
                    })?);
                }
                Column::Rate(unit) => {
                    let rate = rate(text, unit).ok_or_else(|| {
                        bad("a rate of at most 400 Gbit/s, `unlimited`, or 0 for an outage")
                    })?;
                    if let Some(note) = self.note(cell, &rate, unit.is_some())
                        && notes.iter().all(|other| other.code != note.code)
                    {
                        notes.push(note);
                    }
                    step.capacity = Some(rate);
                }
                Column::Delay(unit) => {
                    let delay = match unit {
                        Some(unit) => scaled(cell, unit).filter(|&t| t <= MAX_DELAY),
                        None => quantity::time(text, MAX_DELAY).ok(),
                    };
                    step.delay = Some(delay.ok_or_else(|| bad("a delay of at most an hour"))?);
                }
                Column::Loss => {
                    step.loss = Some(quantity::loss(text).map_err(|error| match error {
                        QuantityError::Bare => bad("`1%` or `100%`: a bare 1 may mean either"),
                        _ => bad("0 to 1, or 0% to 100%"),
                    })?);
                }
            }
        }
        time.map(|time| (time, step))
            .ok_or_else(|| self.error(line.trim(), "the row has no time").label("this row").into())
    }

    /// The note about a rate that is an outage, or that has no unit and is probably not meant in
    /// bit/s.
    fn note(self, cell: &str, rate: &Capacity, has_unit: bool) -> Option<Diagnostic> {
        let Capacity::Constant(rate) = *rate else { return None };
        // A cell that says 1 bit/s itself is no outage.
        if rate == OUTAGE && Decimal::prefix(cell).is_ok_and(|(number, _)| number.is_zero()) {
            return Some(self.outage(cell));
        }
        let is_bare =
            !has_unit && Decimal::prefix(cell).is_ok_and(|(_, unit)| unit.trim().is_empty());
        (is_bare && rate.bps() < SLOW_BPS).then(|| {
            let note = self
                .error(cell, format!("`{}` means {} bit/s", shorten(cell), rate.bps()))
                .label(format!("`{}M` is {0} Mbit/s", shorten(cell)))
                .help("a rate without a unit is in bit/s; under `rate_mbit` it is in Mbit/s");
            Diagnostic { code: Code::SmallRate, ..note }
        })
    }

    fn outage(self, cell: &str) -> Diagnostic {
        let note = self
            .error(cell, "a rate of 0 is an outage, taken as 1 bit/s")
            .label("nothing is sent until the rate changes");
        Diagnostic {
            code: Code::Outage,
            ..note.help("write `unlimited` for a link without a rate")
        }
    }

    /// The time after which the table starts again.
    fn period(self, rows: &mut Vec<(Nanos, Step)>, last: &str) -> Result<Nanos, Box<Diagnostic>> {
        if let [_, .., (end, step)] = rows.as_slice()
            && *step == Step::default()
        {
            let end = *end;
            rows.pop();
            return Ok(end);
        }
        match rows.as_slice() {
            [.., (before, _), (at, _)] => Ok(at.saturating_add(at.since(*before))),
            _ => {
                let error =
                    self.error(last, "a table that repeats needs two rows").label("the last row");
                Err(error.help("a last row with nothing but a time ends the period").into())
            }
        }
    }
}

fn column(cell: &str) -> Option<Column> {
    let cell = cell.to_ascii_lowercase();
    let (name, unit) =
        cell.split_once('_').map_or((cell.as_str(), None), |(name, unit)| (name, Some(unit)));
    Some(match name {
        "time" => Column::Time(match unit {
            None => None,
            Some(unit) => Some(quantity::time_unit(unit)?),
        }),
        "rate" => Column::Rate(match unit {
            None => None,
            Some(unit) => Some(quantity::rate_unit(unit)?),
        }),
        "delay" => Column::Delay(match unit {
            None => None,
            Some(unit) => Some(quantity::time_unit(unit)?),
        }),
        "loss" if unit.is_none() => Column::Loss,
        _ => return None,
    })
}

/// A cell without the blanks between a number and its unit, as in `20 ms`.
fn joined(cell: &str) -> String {
    match cell.split_once(char::is_whitespace) {
        Some((number, unit)) if !number.contains(|c: char| c.is_alphabetic()) => {
            number.to_owned() + unit.trim_start()
        }
        _ => cell.to_owned(),
    }
}

/// Parses a number without a unit as a time in units of `unit` ns.
fn scaled(cell: &str, unit: u64) -> Option<Nanos> {
    let (number, rest) = Decimal::prefix(cell).ok()?;
    number.scaled(unit).map(Nanos).filter(|&t| rest.is_empty() && t <= MAX_TIME)
}

fn rate(cell: &str, unit: Option<u64>) -> Option<Capacity> {
    if cell == "unlimited" {
        return Some(Capacity::Unlimited);
    }
    let rate = match unit {
        None => quantity::rate(cell).ok()?,
        Some(unit) => {
            let (number, rest) = Decimal::prefix(cell).ok()?;
            if !rest.is_empty() {
                return None;
            }
            quantity::rate_of(number, unit).ok()?
        }
    };
    Some(Capacity::Constant(rate.unwrap_or(OUTAGE)))
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The most rows of a table: as many as fit into the memory for a configuration's files.
const MOST_ROWS: usize = MOST_MEMORY / Schedule::ROW;
/// The most times of a trace: as many as fit into the same memory.
const MOST_OPPORTUNITIES: usize = MOST_MEMORY / size_of::<Nanos>();
const COLUMNS: [&str; 4] = ["time", "rate", "delay", "loss"];
const HELP: &str = "a table begins with a header such as `time,rate` or \
                    `time_ms,rate_mbit,delay_ms,loss`, and has a row for each change";
/// The rate during an outage. A packet of 1500 bytes takes more than three hours at this rate; a
/// rate of 0 would mean unlimited.
const OUTAGE: Rate = match Rate::new(1) {
    Some(rate) => rate,
    None => panic!("1 bit/s is a rate"),
};
/// A help text for a value with a unit under a header with a unit.
const UNIT_TWICE: &str = "the header gives the unit: leave it out here, or take it out of the \
                          header, such as `time` in place of `time_ms`";
/// The unit of a bare time, in ns.
const SECOND: u64 = 1_000_000_000;
/// The latest time in a file: ten years.
const MAX_TIME: Nanos = Nanos::from_secs(10 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str, repeats: bool) -> Result<Schedule, String> {
        parse_csv(text, "t.csv", repeats)
            .map(|t| t.schedule)
            .map_err(|e| format!("{}: {}", e.line, e.message))
    }

    #[test]
    fn a_mahimahi_trace_and_its_mistakes() {
        let trace = parse_mahimahi("1\n1\n\n5 # end\n", "t").map_err(|e| e.message).unwrap();
        assert_eq!(trace.opportunities(), [1, 1, 5].map(Nanos::from_millis));
        for (text, line, message) in [
            ("1\nx\n", 2, "no time"),
            ("5\n\n4\n", 3, "backwards"),
            ("", 1, "no delivery"),
            ("0\n", 1, "lasts no time"),
        ] {
            let error = parse_mahimahi(text, "t").unwrap_err();
            assert!(error.line == line && error.message.contains(message), "{text:?}: {error:?}");
        }
    }

    #[test]
    fn small_rates_without_a_unit_are_noted_once() {
        let notes = |text: &str| -> Vec<String> {
            let table = parse_csv(text, "t.csv", false).unwrap();
            table.notes.iter().map(|note| format!("{}: {}", note.line, note.message)).collect()
        };
        assert_eq!(notes("time,rate\n0,4M\n1,5\n2,6\n"), ["3: `5` means 5 bit/s"]);
        assert_eq!(notes("time,rate\n0,0\n1,5\n").len(), 2, "an outage is another note");
        assert_eq!(notes("time,rate_kbit\n0,0.001\n1,5\n").len(), 0, "1 bit/s is no outage");
        for text in ["time,rate\n0,1000\n1,9bit/s\n", "time,rate_mbit\n0,5\n1,0.0001\n"] {
            assert_eq!(notes(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_table_with_units_in_its_header() {
        let schedule = csv(
            "time_ms,rate_mbit,delay,loss\n0,4,20,1%\n500,0,,\n# later\n1500,unlimited,5us,\n",
            false,
        )
        .unwrap();
        let steps = schedule.steps();
        assert_eq!(steps.iter().map(|s| s.0.0 / 1_000_000).collect::<Vec<_>>(), [0, 500, 1500]);
        assert_eq!(steps[0].1.capacity, Rate::new(4_000_000).map(Capacity::Constant));
        assert_eq!(
            steps[1].1,
            Step { capacity: Some(Capacity::Constant(OUTAGE)), ..Step::default() }
        );
        assert_eq!(steps[2].1.delay, Some(Nanos(5_000)));
        assert_eq!(schedule.period(), None);
    }

    #[test]
    fn values_have_units_as_in_a_specification() {
        let units = "time,rate,delay,loss\n0s,4 Mbit/s,20 ms,1%\n500ms,512kbit/s,0.5s,\n2s,1M,5,\n";
        let bare = "time_ms,rate_kbit,delay_ms,loss\n0,4000,20,0.01\n500,512,500,\n2000,1000,5,\n";
        assert_eq!(csv(units, false), csv(bare, false));
        assert_eq!(
            csv("time,rate\n0.5,1M\n2,2M\n", true),
            csv("time,rate\n500ms,1M\n2s,2M\n", true)
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_line_and_column() {
        for (text, place, message, help) in [
            ("time,rate\n0s,1M\n2parsec,2M\n", (3, 1), "`2parsec` is not allowed here", ""),
            ("time_ms,rate\n0,1M\n2s,2M\n", (3, 1), "`2s` is not allowed here", "the header"),
            ("time,delay_ms\n0,1\n2s, 20ms\n", (3, 5), "`20ms` is not allowed here", "the header"),
            ("time,rate\n4000d,1M\n", (2, 1), "`4000d` is not allowed here", ""),
            ("time,rate\n-1s,1M\n", (2, 1), "`-1s` is not allowed here", ""),
        ] {
            let error = parse_csv(text, "t.csv", false).unwrap_err();
            assert_eq!((error.line, error.span.start + 1), place, "{text:?}");
            assert_eq!(error.message, message);
            assert_eq!(error.help.iter().any(|h| h.starts_with("the header")), !help.is_empty());
        }
    }

    #[test]
    fn a_repeated_table_has_a_period() {
        assert_eq!(
            csv("time,rate\n0,1M\n1,2M\n", true).unwrap().period(),
            Some(Nanos::from_secs(2))
        );
        let with_end = csv("time,rate\n0,1M\n1,2M\n5,\n", true).unwrap();
        assert_eq!((with_end.period(), with_end.steps().len()), (Some(Nanos::from_secs(5)), 2));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases = [
            ("", "1: the table is empty"),
            ("time,speed\n", "1: `speed` is no column"),
            ("rate\n1\n", "1: the table has no column `time`"),
            ("time,rate\n", "1: the schedule has no step"),
            ("time,rate\n0,1M\n0,2M\n", "3: the times do not ascend"),
            ("time_ns,rate\n0,1M\n1,2M\n", "3: the rows are too close"),
            ("time_ns,rate\n0,1M\n1000,2M\n1999,\n", "4: the rows are too close"),
            ("time,rate\n0,fast\n", "2: `fast` is not allowed here"),
            ("time,rate\n0,1,2\n", "2: the row has 3 cells, the header 2"),
            ("time,rate\n,1\n", "2: the row has no time"),
        ];
        for (text, message) in cases {
            assert_eq!(csv(text, false), Err(message.to_owned()), "{text:?}");
        }
        assert!(csv("time,rate\n0,1M\n", true).unwrap_err().contains("two rows"));
    }
}
