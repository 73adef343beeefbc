//! Text about a watch: the pace of its sources, and the summary at its end.

use std::fmt::Write as _;

use weir_probe::measure::{Measured, Tally};
use weir_probe::{Method, Pace};
use weir_report::format::{count, percent};
use weir_watch::{Progress, Watched};

use super::view::gap;

/// The pace of a source, as one line of the view.
pub(super) fn head(progress: &Progress, seconds: f64) -> String {
    let Some(method) = progress.method else { return String::new() };
    let pace = &progress.pace;
    let mut line = format!("{} · {seconds:.1} s · ", method.name());
    if method != Method::Events {
        let _ =
            write!(line, "{} readings/s", per_second(readings_per_namespace(progress), seconds));
        match pace.asked {
            Some(asked) => {
                let _ = write!(line, " of {} asked, {} missed", count(asked), count(pace.missed));
            }
            None => line.push_str(", as many as possible"),
        }
        let _ = write!(
            line,
            " · gaps {} p50, {} p99",
            gap(pace.gaps.quantile(0.5)),
            gap(pace.gaps.quantile(0.99))
        );
    } else {
        line.push_str("every packet");
    }
    line
}

/// The summary at the end: the pace of each source, statistics of each queue, and remarks.
pub(super) fn summary(watched: &Watched, seconds: f64, threshold: Option<u32>) -> String {
    let tally = &watched.tally;
    let mut text = String::new();
    for source in &watched.sources {
        let _ = writeln!(text, "{}", pace_words(&source.progress, tally, seconds));
    }
    if !tally.queues().is_empty() {
        text.push_str(&table(tally, threshold));
    }
    for ring in tally.rings() {
        let (device, queue) = (&ring.device, ring.queue);
        let (limit, flight) = (&ring.limit, &ring.inflight);
        let _ = writeln!(
            text,
            "{device} transmission queue {queue}: limit {} to {} bytes, in flight {:.0} on \
             average, {} at most",
            count(limit.min()),
            count(limit.max()),
            flight.mean(),
            count(flight.max())
        );
    }
    if let Some(recorded) = watched.recorded {
        let _ = writeln!(text, "recording: {} packets", count(recorded));
    }
    if watched.sources.iter().any(|source| source.progress.method == Some(Method::Events)) {
        text.push_str(&without_queue(tally));
    }
    let first = tally.span().map_or(0, |(first, _)| first);
    // Remarks without a time were printed at the start of the watch.
    let timed: Vec<_> =
        tally.remarks().iter().filter_map(|remark| Some((remark.time?, &remark.text))).collect();
    for (time, remark) in timed.iter().take(REMARKS) {
        let _ = writeln!(text, "note: {:.3} s: {remark}", time.saturating_sub(first) as f64 / 1e9);
    }
    let more = timed.len().saturating_sub(REMARKS) as u64 + tally.more_remarks();
    if more > 0 {
        let _ = writeln!(text, "note: and {} remarks more", count(more));
    }
    text
}

/// A note about the devices with the discipline `noqueue`, which has no events.
fn without_queue(tally: &Tally) -> String {
    let mut devices = tally.queues().iter().filter(|queue| queue.queue.kind == "noqueue");
    let Some(first) = devices.next() else { return String::new() };
    let more = match devices.count() {
        0 => String::new(),
        1 => " and 1 more device".to_owned(),
        more => format!(" and {} more devices", count(more as u64)),
    };
    let label = first.queue.label();
    format!("note: no events of {label}{more}, because `noqueue` has no queue\n")
}

/// The pace of a source: the requested rate, the achieved rate, and the gaps between readings.
fn pace_words(source: &Progress, tally: &Tally, seconds: f64) -> String {
    let Some(method) = source.method else { return String::new() };
    if method == Method::Events {
        let (mut recorded, mut after_gaps) = (0, 0);
        for queue in tally.queues() {
            recorded += queue.events.recorded();
            after_gaps += queue.events.gaps;
        }
        return format!(
            "events: {} in {seconds:.3} s, {} of them after a gap in the record",
            count(recorded),
            count(after_gaps)
        );
    }
    let Pace { asked, readings, missed, gaps } = &source.pace;
    let place = if source.namespaces > 1 {
        format!(" in each of {} namespaces", source.namespaces)
    } else {
        String::new()
    };
    let got = per_second(readings_per_namespace(source), seconds);
    let asked = match asked {
        Some(asked) => {
            format!("{} a second asked{place}, {got} got, {} missed", count(*asked), count(*missed))
        }
        None => format!("as many as possible asked, {got} a second got{place}"),
    };
    let [p50, p99] = [0.5, 0.99].map(|q| gap(gaps.quantile(q)));
    let longest = gap(gaps.longest());
    format!(
        "{}: {} readings in {seconds:.3} s; {asked}; gaps {p50} p50, {p99} p99, {longest} longest",
        method.name(),
        count(*readings)
    )
}

fn readings_per_namespace(source: &Progress) -> u64 {
    source.pace.readings / source.namespaces.max(1) as u64
}

fn per_second(readings: u64, seconds: f64) -> String {
    let rate = readings as f64 / seconds.max(1e-9);
    if rate < 100.0 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

/// A table with a line for each of at most [`MAX_ROWS`] queues.
fn table(tally: &Tally, threshold: Option<u32>) -> String {
    let queues = tally.queues();
    // If there are too many queues, root disciplines are kept, then the longest other queues.
    let mut shown: Vec<&Measured> = queues.iter().collect();
    shown.sort_by_key(|queue| std::cmp::Reverse((queue.queue.root, queue.packets().max())));
    let hidden = shown.split_off(shown.len().min(MAX_ROWS));
    // The table shows queues in the order in which they appeared.
    shown.sort_by_key(|queue| queue.id);
    let above = threshold.map(|threshold| format!(">{threshold}"));
    let mut names = vec!["queue", "mean", "p50", "p99", "max", "mean bytes", "drops", "drops/s"];
    names.extend(above.as_deref());
    let mut rows: Vec<Vec<String>> = vec![names.into_iter().map(str::to_owned).collect()];
    rows.extend(shown.iter().map(|queue| cells(queue, tally, threshold)));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:<w$}", row[0], w = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let Some(longest) = hidden.iter().map(|queue| queue.packets().max()).max() {
        let _ = writeln!(
            text,
            "and {} queues more, the longest with {} packets: the other outputs have all",
            hidden.len(),
            count(longest)
        );
    }
    text
}

fn cells(queue: &Measured, tally: &Tally, threshold: Option<u32>) -> Vec<String> {
    let packets = queue.packets();
    let gone = if queue.until.is_some() { " (gone)" } else { "" };
    let end = queue.until.or(tally.span().map(|(_, last)| last)).unwrap_or(queue.since);
    let life = end.saturating_sub(queue.since) as f64 / 1e9;
    let drops = queue.counted().drops;
    let counted = queue.counters().is_some();
    let mut cells = vec![
        format!("{}{gone}", queue.queue.label()),
        format!("{:.2}", packets.mean()),
        count(packets.quantile(0.5)),
        count(packets.quantile(0.99)),
        count(packets.max()),
        if queue.queue.band.is_some() {
            "-".to_owned()
        } else {
            count(queue.bytes().mean().round() as u64)
        },
        if counted { count(drops) } else { "-".to_owned() },
        if counted && life > 0.0 { format!("{:.1}", drops as f64 / life) } else { "-".to_owned() },
    ];
    cells.extend(threshold.map(|threshold| percent(packets.share_above(threshold.into()))));
    cells
}

/// Maximum number of rows in the table.
const MAX_ROWS: usize = 40;
/// Maximum number of remarks that are printed.
const REMARKS: usize = 20;

#[cfg(test)]
mod tests {
    use weir_probe::{Counters, Gaps, Handle, Queue, Run, Sink as _};
    use weir_watch::Source;

    use super::*;

    /// Queues numbered from 0; queue n has n packets in each of ten readings.
    fn tally(queues: u32) -> Tally {
        let mut tally = Tally::new();
        for id in 0..queues {
            let (handle, parent) = (Handle((id + 1) << 16), Handle::ROOT);
            let queue = Queue {
                device: "eth0".into(),
                netns: None,
                kind: "tbf".into(),
                handle,
                parent,
                band: None,
                root: true,
            };
            tally.appeared(0, id, &queue);
            tally.runs(&[Run {
                queue: id,
                first: 0,
                last: 1_000_000_000,
                count: 10,
                qlen: id,
                backlog: 100 * id,
            }]);
            tally.counters(0, id, &Counters { drops: 5, ..Counters::default() });
            tally.counters(
                1_000_000_000,
                id,
                &Counters { drops: 5 + u64::from(id), ..Counters::default() },
            );
        }
        tally.remark(500_000_000, "something");
        tally
    }

    fn source(namespaces: usize) -> Progress {
        let mut gaps = Gaps::default();
        gaps.record(1000);
        let pace = Pace { asked: Some(2000), readings: 2000, missed: 3, gaps };
        Progress {
            method: Some(Method::Timer),
            pace,
            namespaces,
            remarks: Vec::new(),
            failed: None,
        }
    }

    #[test]
    fn without_a_queue_a_note_says_why_there_are_no_events() {
        let mut tally = Tally::new();
        for (id, device) in (0..).zip(["eth0", "eth1", "eth2"]) {
            let queue = Queue {
                device: device.into(),
                netns: None,
                kind: if id == 0 { "tbf" } else { "noqueue" }.into(),
                handle: Handle(0),
                parent: Handle::ROOT,
                band: None,
                root: true,
            };
            tally.appeared(0, id, &queue);
        }
        let mut watched = Watched {
            tally,
            sources: vec![Source { progress: source(1), devices: Vec::new() }],
            recorded: None,
            failures: Vec::new(),
            ended: std::time::Instant::now(),
        };
        assert!(!summary(&watched, 1.0, None).contains("no events"));
        watched.sources[0].progress.method = Some(Method::Events);
        watched.recorded = Some(1234);
        let text = summary(&watched, 1.0, None);
        assert!(text.contains("\nrecording: 1,234 packets\n"), "{text}");
        let note = "note: no events of eth1 noqueue and 1 more device, because `noqueue` has no";
        assert!(text.contains(note), "{text}");
    }

    #[test]
    fn the_summary_states_the_rates_the_queues_and_the_remarks() {
        let sources = vec![Source { progress: source(2), devices: Vec::new() }];
        let (failures, ended) = (Vec::new(), std::time::Instant::now());
        let watched = Watched { tally: tally(3), sources, recorded: None, failures, ended };
        let text = summary(&watched, 1.0, Some(1));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains(
                "2,000 a second asked in each of 2 namespaces, 1,000 got, 3 missed; gaps 1 us p50"
            ),
            "{text}"
        );
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[1])[..5], ["queue", "mean", "p50", "p99", "max"]);
        assert_eq!(words(lines[1]).last().map(String::as_str), Some(">1"));
        assert_eq!(
            words(lines[4]),
            ["eth0", "tbf", "3:", "2.00", "2", "2", "2", "200", "2", "2.0", "100", "%"]
        );
        assert_eq!(*lines.last().expect("a remark"), "note: 0.500 s: something");
    }

    #[test]
    fn of_many_queues_the_longest_are_shown_in_their_order() {
        let text = table(&tally(100), None);
        assert_eq!(text.lines().count(), MAX_ROWS + 2, "{text}");
        assert!(text.contains("eth0 tbf 64:") && !text.contains("eth0 tbf 1: "), "{text}");
        let rest = "and 60 queues more, the longest with 59 packets: the other outputs have all";
        assert_eq!(text.lines().last(), Some(rest), "{text}");
    }
}
