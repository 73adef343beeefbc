//! `weir stats`: what the links of a session do now.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Deserialize;
use weir_control::client::ClientError;
use weir_control::session_client::SessionClient;
use weir_measure::latency::Latency;
use weir_report::format::{count, duration, elapsed, printable_lines, rate};

use super::args::StatsArgs;
use super::find::{Asked, failure, session};
use crate::output::{Failure, say};
use crate::table::Table;

/// Prints the statistics once, or once a second until the session ends.
pub(crate) fn stats(args: &StatsArgs) -> Result<ExitCode, Failure> {
    let Asked { mut client, view } = session(args.name.as_deref())?;
    let failed = |error| failure(&view.name, &error);
    if args.json {
        return documents(args, &mut client, &view.name);
    }
    let mut before = Reading::take(&mut client).map_err(failed)?;
    let mut output = Output::new(args.watch);
    let period = if args.watch { SECOND } else { GLANCE };
    loop {
        std::thread::sleep(period);
        let now = match Reading::take(&mut client) {
            Ok(now) => now,
            Err(error) if args.watch && has_ended(&error) => return Ok(ended(&view.name)),
            Err(error) => return Err(failed(error)),
        };
        let text = table(&now, &before, &view.name);
        if !output.show(&text)? || !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

/// Prints results documents: one, or one a second, each in a line.
fn documents(
    args: &StatsArgs,
    client: &mut SessionClient,
    name: &str,
) -> Result<ExitCode, Failure> {
    let mut output = Output::new(false);
    loop {
        let text = match client.results() {
            Ok(text) => text,
            Err(error) if args.watch && has_ended(&error) => return Ok(ended(name)),
            Err(error) => return Err(failure(name, &error)),
        };
        if !args.watch {
            output.show(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        // A string in JSON contains no line break, so the lines can simply be joined.
        let line: String = text.lines().map(str::trim_start).collect();
        if !output.show(&format!("{line}\n"))? {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(SECOND);
    }
}

fn has_ended(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoDaemon { .. }
            | ClientError::Connection { .. }
            | ClientError::Refused { status: 410, .. }
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

    /// The rate of departures of a link since the reading `before`, bit/s.
    fn rate(&self, before: &Self, link: usize) -> f64 {
        let bytes = |reading: &Self| reading.links.get(link).map_or(0, |link| link.bytes_out);
        let span = self.duration_ns.saturating_sub(before.duration_ns).max(1) as f64;
        bytes(self).saturating_sub(bytes(before)) as f64 * 8e9 / span
    }
}

/// The table of a reading; rates are means since the reading `before`.
fn table(now: &Reading, before: &Reading, name: &str) -> String {
    let headings =
        ["link", "rate now", "in", "out", "dropped", "inside", "queued p50", "queued p99"];
    let mut table = Table::new(headings);
    for (index, link) in now.links.iter().enumerate() {
        table.add_row(vec![
            link.name.clone(),
            rate(now.rate(before, index)),
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

/// Standard output, on which a terminal shows each text in place of the one before.
struct Output {
    replaces: bool,
    /// Lines of the text that is shown.
    shown: usize,
}

impl Output {
    fn new(watch: bool) -> Self {
        Self { replaces: watch && std::io::stdout().is_terminal(), shown: 0 }
    }

    /// Writes a text. Returns whether its reader is still there.
    fn show(&mut self, text: &str) -> Result<bool, Failure> {
        let mut bytes = String::new();
        if self.replaces && self.shown > 0 {
            bytes.push_str(&format!("\x1b[{}A\r\x1b[J", self.shown));
        }
        // Names in the text may be from anyone.
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

const SECOND: Duration = Duration::from_secs(1);
/// The period over which a single table measures the rates.
const GLANCE: Duration = Duration::from_millis(500);

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
    }
}
