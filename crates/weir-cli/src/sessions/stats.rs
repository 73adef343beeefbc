//! `weir stats`: what the links of a session do now.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use serde::Deserialize;
use weir_control::api::{Interval, Readings};
use weir_control::client::ClientError;
use weir_control::session_client::SessionClient;
use weir_measure::document::{Document, Kind};
use weir_measure::latency::Latency;
use weir_report::format::{count, duration, elapsed, printable_lines, rate};

use super::args::StatsArgs;
use super::find::{Asked, failure, has_ended, session};
use crate::output::{Failure, say};
use crate::table::Table;

/// Prints the statistics once, or once a second until the session ends.
pub(crate) fn stats(args: &StatsArgs) -> Result<ExitCode, Failure> {
    let Asked { mut client, view } = session(args.name.as_deref())?;
    if args.watch {
        return watch(&mut client, &view.name, args.json);
    }
    let failed = |error| failure(&view.name, &error);
    let mut output = Output::new(false);
    if args.json {
        let text = client.results().map_err(failed)?;
        return output.show(&text).map(|_| ExitCode::SUCCESS);
    }
    let before = Reading::take(&mut client).map_err(failed)?;
    std::thread::sleep(RATE_PERIOD);
    let now = Reading::take(&mut client).map_err(failed)?;
    output.show(&table(&now, &before, &view.name)).map(|_| ExitCode::SUCCESS)
}

/// Prints what happened in each second, as a table or as a document in one line.
fn watch(client: &mut SessionClient, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let mut output = Output::new(!json);
    let mut before: Option<Readings> = None;
    let mut due = Instant::now();
    loop {
        let now = match client.readings() {
            Ok(now) => now,
            Err(error) if has_ended(&error) => return Ok(ended(name)),
            Err(error) => return Err(failure(name, &error)),
        };
        if let Some(before) = &before {
            let interval = Interval::between(name, before, &now);
            let text = if json { line(&interval) } else { recent(&interval, width()) };
            if !output.show(&text)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        before = Some(now);
        // If this command was suspended (^Z) meanwhile, the next interval begins now.
        due = (due + SECOND).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// A document in one line.
fn line(interval: &Interval) -> String {
    let text = Document::new(Kind::Interval, interval).to_json();
    // A string in JSON contains no line break, so the lines can simply be joined.
    text.lines().map(str::trim_start).chain(["\n"]).collect()
}

/// The table of an interval, in lines of at most `width` characters.
fn recent(interval: &Interval, width: usize) -> String {
    let mut table = Table::new(RECENT);
    let time = |ns: u64, count: u64| {
        if count == 0 { "-".to_owned() } else { duration(ns as f64) }
    };
    for link in &interval.links {
        let Latency { p50, p99, count: queued, .. } = link.queue_ns;
        let late = link.lateness_ns.unwrap_or_default();
        table.add_row(vec![
            if link.path { format!("path {}", link.name) } else { link.name.clone() },
            rate(link.out_bps as f64),
            count(link.drops.total()),
            count(link.backlog_packets),
            time(p50, queued),
            time(p99, queued),
            time(late.p50, late.count),
            time(late.p99, late.count),
        ]);
    }
    format!(
        "{}, after {}; the last {}\n{}",
        interval.session,
        elapsed(interval.at_ns),
        duration(interval.duration_ns as f64),
        table.text_within(width)
    )
}

fn ended(name: &str) -> ExitCode {
    say(format_args!("weir: session {name} has ended\n"));
    ExitCode::SUCCESS
}

/// The parts of a results document that are shown.
#[derive(Clone, Debug, Deserialize)]
struct Reading {
    duration_ns: u64,
    links: Vec<LinkReading>,
}

#[derive(Clone, Debug, Deserialize)]
struct LinkReading {
    name: String,
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    backlog_packets: u64,
    drops: BTreeMap<String, u64>,
    queue_ns: Latency,
}

impl Reading {
    fn take(client: &mut SessionClient) -> Result<Self, ClientError> {
        let text = client.results()?;
        serde_json::from_str(&text).map_err(|error| ClientError::Answer(error.to_string()))
    }

    /// The rate of departures of the link with this name since the reading `before`, bit/s. A link
    /// that is new since then had no departures before.
    fn rate(&self, before: &Self, name: &str) -> f64 {
        let bytes = |reading: &Self| {
            reading.links.iter().find(|link| link.name == name).map_or(0, |link| link.bytes_out)
        };
        let span = self.duration_ns.saturating_sub(before.duration_ns).max(1) as f64;
        bytes(self).saturating_sub(bytes(before)) as f64 * 8e9 / span
    }
}

/// The table of a reading; rates are means since the reading `before`.
fn table(now: &Reading, before: &Reading, name: &str) -> String {
    let headings =
        ["link", "rate now", "in", "out", "dropped", "inside", "queued p50", "queued p99"];
    let mut table = Table::new(headings);
    for link in &now.links {
        table.add_row(vec![
            link.name.clone(),
            rate(now.rate(before, &link.name)),
            count(link.packets_in),
            count(link.packets_out),
            count(link.drops.values().sum()),
            count(link.backlog_packets),
            duration(link.queue_ns.p50 as f64),
            duration(link.queue_ns.p99 as f64),
        ]);
    }
    format!(
        "{name}, after {}; packets and times since the start\n{}",
        elapsed(now.duration_ns),
        table.text_within(width())
    )
}

fn width() -> usize {
    let size = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0);
    size.map_or(100, |size| size.ws_col.into())
}

/// Standard output. On a terminal, each table of --watch replaces the table before it.
struct Output {
    replaces: bool,
    /// The number of lines of the previous text.
    shown: usize,
}

impl Output {
    fn new(replaces: bool) -> Self {
        Self { replaces: replaces && std::io::stdout().is_terminal(), shown: 0 }
    }

    /// Writes a text. Returns false if the reader has closed the pipe.
    fn show(&mut self, text: &str) -> Result<bool, Failure> {
        let mut bytes = String::new();
        if self.replaces && self.shown > 0 {
            bytes.push_str(&format!("\x1b[{}A\r\x1b[J", self.shown));
        }
        // Another user may have chosen the names in the text, so control characters are replaced.
        bytes.push_str(&printable_lines(text, false));
        self.shown = text.lines().count();
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                Err(Failure::of_weir(format!("cannot write to standard output: {error}")))
            }
        }
    }
}

/// The columns of an interval: short, so that 80 characters hold all of them.
const RECENT: [&str; 8] =
    ["link", "rate", "dropped", "inside", "queued p50", "p99", "late p50", "p99"];
const SECOND: Duration = Duration::from_secs(1);
/// The period over which the table without --watch measures the rates.
const RATE_PERIOD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(duration_ns: u64, bytes_out: u64) -> Reading {
        Reading {
            duration_ns,
            links: vec![LinkReading {
                name: "down".into(),
                packets_in: 1200,
                packets_out: 1000,
                bytes_out,
                backlog_packets: 150,
                drops: [("queue_full".to_owned(), 40), ("loss".to_owned(), 10)].into(),
                queue_ns: Latency { p50: 20_000_000, p99: 90_000_000, ..Latency::default() },
            }],
        }
    }

    fn reading_of(at_ns: u64, packets: u64, delay_ns: u64) -> Readings {
        let mut times = weir_measure::histogram::Histogram::default();
        times.record_many(delay_ns, packets);
        let mut counters = weir_measure::stats::LinkCounters::default();
        (counters.packets_in, counters.packets_out) = (packets, packets);
        (counters.bytes_out, counters.backlog_packets) = (packets * 1500, 123_456);
        for _ in 0..packets {
            counters.count_drop(weir_measure::stats::DropReason::QueueFull);
        }
        let link = |name: &str, path| weir_control::api::LinkReading {
            name: name.into(),
            path,
            counters: counters.clone(),
            queue_ns: (&times).into(),
            lateness_ns: path.then(|| (&times).into()),
        };
        Readings { at_ns, links: vec![link("to-right", false), link("a>b", true)] }
    }

    #[test]
    fn the_last_second_fits_into_80_columns_and_its_document_into_a_line() {
        let (before, now) = (reading_of(0, 0, 0), reading_of(1_000_000_000, 102_345, 123_456_789));
        let interval = Interval::between("curl", &before, &now);
        let text = recent(&interval, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches("link").count(), 1, "one table: {text}");
        let cells = |name: &str| -> Vec<String> {
            let line = text.lines().map(str::trim).find(|line| line.starts_with(name));
            let parts = line.expect("a row").split("  ").map(str::trim);
            parts.filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(cells("to-right")[..4], ["to-right", "1.23 Gbit/s", "102,345", "123,456"]);
        assert_eq!(cells("to-right")[6..], ["-", "-"], "lateness is that of paths");
        assert!(cells("path a>b")[4..].iter().all(|cell| cell.ends_with(" ms")), "{text}");
        let quiet = recent(&Interval::between("curl", &now, &now), 80);
        assert!(quiet.contains(" -  "), "without packets, the times are dashes: {quiet}");
        let line = line(&interval);
        assert!(
            line.starts_with("{\"schema\": \"weir.results/1\",\"kind\": \"interval\""),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn rates_are_those_since_the_last_reading() {
        let (before, now) = (reading(1_000_000_000, 250_000), reading(1_500_000_000, 500_000));
        let text = table(&now, &before, "curl");
        let row = text.lines().map(str::trim).find(|line| line.starts_with("down"));
        let row = row.expect("a row");
        let cells: Vec<&str> =
            row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
        assert_eq!(
            cells,
            ["down", "4 Mbit/s", "1,200", "1,000", "50", "150", "20 ms", "90 ms"],
            "{text}"
        );
        assert!(text.starts_with("curl, after 1.5 s"), "{text}");

        // The links of an agent come and go between two readings.
        let mut after = reading(1_500_000_000, 500_000);
        let down = after.links[0].clone();
        after.links.insert(0, LinkReading { name: "new".into(), bytes_out: 12_500, ..down });
        assert_eq!(after.rate(&before, "down"), 4e6);
        assert_eq!(after.rate(&before, "new"), 2e5);
        assert_eq!(after.rate(&before, "gone"), 0.0);
    }
}
