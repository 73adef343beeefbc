//! The table at the end of a run: configured against measured values, in 80 columns.

use std::fmt::Write;

use crate::format::{count, duration, elapsed, percent, printable, rate};
use crate::model::{LATE_WARNING, LinkResult, RunResult};

/// The summary as text, ending with a newline. `colour` adds ANSI colours; the caller decides by
/// the terminal and `NO_COLOR`.
pub fn summary(run: &RunResult, colour: bool) -> String {
    let paint = Paint(colour);
    let mut out = String::new();
    headline(&mut out, run, paint);
    for link in run.links() {
        link_block(&mut out, link, run.info().duration_ns, paint);
    }
    rules_block(&mut out, run, paint);
    if !run.info().warnings.is_empty() || !run.info().notes.is_empty() {
        out.push('\n');
    }
    for warning in &run.info().warnings {
        wrapped(&mut out, &paint.alarm("WARNING: "), 9, warning);
    }
    for note in &run.info().notes {
        wrapped(&mut out, "note: ", 6, note);
    }
    out
}

fn headline(out: &mut String, run: &RunResult, paint: Paint) {
    let info = run.info();
    let command = if info.command.is_empty() { String::new() } else { shell_words(&info.command) };
    let exit = match (info.command.is_empty(), info.exit_code) {
        (true, _) => String::new(),
        (false, Some(0)) => ", exit 0".to_owned(),
        (false, Some(code)) => format!(", {}", paint.alarm(&format!("exit {code}"))),
        (false, None) => format!(", {}", paint.alarm("ended by a signal")),
    };
    if !command.is_empty() {
        let _ = writeln!(out, "{}", paint.bold(&clipped(&command, WIDTH)));
    }
    let _ = writeln!(out, "{}{exit}, seed {}", elapsed(info.duration_ns), info.seed);
}

fn link_block(out: &mut String, l: &LinkResult, duration_ns: u64, paint: Paint) {
    let title = format!("{}: {} → {}", l.name, l.from, l.to);
    let _ = writeln!(out, "\n{}", paint.bold(&clipped(&title, WIDTH)));
    if !l.spec.is_empty() {
        let _ = writeln!(out, "  {}", paint.dim(&clipped(&l.spec, WIDTH - 2)));
    }
    let _ = writeln!(
        out,
        "  {}",
        paint.dim(&format!("{:<12}{:<CONFIGURED$}measured", "", "configured"))
    );
    let mut row = |label: &str, configured: &str, cells: &[String]| {
        let mut line = format!("  {label:<12}{}", padded(configured, CONFIGURED));
        cells.iter().for_each(|cell| line.push_str(&padded(cell, CELL)));
        let _ = writeln!(out, "{}", line.trim_end());
    };
    let configured = l.configured_rate();
    let mut cells = vec![format!("{} mean", rate(l.mean_out_bps(duration_ns)))];
    cells.extend(l.peak_out_bps().map(|p| format!("{} peak (1 s)", rate(p as f64))));
    row("throughput", &configured, &cells);
    let quantiles = |h: &weir_measure::histogram::Histogram| {
        [(0.5, "p50"), (0.99, "p99")]
            .map(|(q, name)| format!("{} {name}", duration(h.quantile(q) as f64)))
    };
    if l.total_ns.count() > 0 {
        let [p50, p99] = quantiles(&l.total_ns);
        row(
            "total delay",
            &l.configured_delay(),
            &[format!("{} min", duration(l.total_ns.min() as f64)), p50, p99],
        );
    } else {
        row("total delay", &l.configured_delay(), &[]);
    }
    if l.queue_ns.count() > 0 {
        let [p50, p99] = quantiles(&l.queue_ns);
        row("in queue", "", &[p50, p99, format!("{} max", duration(l.queue_ns.max() as f64))]);
    }
    if let (Some(loss), Some(measured)) = (l.configured_loss(), l.measured_loss()) {
        let packets = format!("{} packets", measured.counts());
        row("random loss", &loss, &[percent(measured.fraction()), packets]);
    }
    let mut cells = vec![
        format!("{} in", count(l.counters.packets_in)),
        format!("{} out", count(l.counters.packets_out)),
    ];
    if l.counters.backlog_packets > 0 {
        cells.push(format!("{} still inside", count(l.counters.backlog_packets)));
    }
    row("packets", "", &cells);
    let all = l.counters.packets_in + l.counters.duplicated;
    reason_rows("dropped", l.counters.drop_counts().in_words(), all, &mut row);
    reason_rows("marked", l.counters.mark_counts().in_words(), all, &mut row);
    let extras: Vec<String> = [
        (l.counters.duplicated, "duplicated"),
        (l.counters.corrupted, "corrupted"),
        (l.counters.reordered, "reordered"),
    ]
    .into_iter()
    .filter(|&(n, _)| n > 0)
    .map(|(n, what)| format!("{} {what}", count(n)))
    .collect();
    extras.chunks(3).for_each(|cells| row("altered", "", cells));
    lateness_row(out, l, paint);
}

/// Writes the matches of rules and the counters of their pipes, one line each, up to a limit.
fn rules_block(out: &mut String, run: &RunResult, paint: Paint) {
    if run.rules().is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.bold("rules"));
    for rule in run.rules().iter().take(MAX_LINES) {
        let line =
            format!("{:05} {:>10} {:>13} {}", rule.number, rule.packets, rule.bytes, rule.text);
        let _ = writeln!(out, "  {}", clipped(&line, WIDTH - 2));
    }
    let more = run.rules().len().saturating_sub(MAX_LINES);
    if more > 0 {
        let _ = writeln!(out, "  {}", paint.dim(&format!("and {more} more; --json has all")));
    }
    for pipe in run.pipes().iter().take(MAX_LINES) {
        let c = &pipe.stats.counters;
        let delay = duration(pipe.stats.total_ns.quantile(0.5) as f64);
        let mut line = format!(
            "pipe {}: {} in, {} out, {delay} p50",
            pipe.number,
            count(c.packets_in),
            count(c.packets_out)
        );
        for (words, n) in c.drop_counts().in_words() {
            let _ = write!(line, ", {} {words}", count(n));
        }
        for (words, n) in c.mark_counts().in_words() {
            let _ = write!(line, ", {} marked {words}", count(n));
        }
        let _ = writeln!(out, "  {}", clipped(&line, WIDTH - 2));
    }
    let more = run.pipes().len().saturating_sub(MAX_LINES);
    if more > 0 {
        let words = format!("and {more} more pipes and schedulers; --json has all");
        let _ = writeln!(out, "  {}", paint.dim(&words));
    }
}

/// Writes a row for each reason, the most frequent one first; `all` is the number of packets that
/// counts as 100 %.
fn reason_rows(
    what: &str,
    reasons: impl Iterator<Item = (&'static str, u64)>,
    all: u64,
    row: &mut impl FnMut(&str, &str, &[String]),
) {
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    for (i, (words, n)) in reasons.into_iter().enumerate() {
        let share = percent(n as f64 / all.max(1) as f64);
        let cell = format!("{} {words} ({share})", count(n));
        row(if i == 0 { what } else { "" }, "", &[cell]);
    }
}

fn lateness_row(out: &mut String, l: &LinkResult, paint: Paint) {
    let Some(late) = l.late() else {
        return;
    };
    let (word, verdict) = if late.is_too_much() {
        ("TOO LATE", paint.alarm("TOO LATE"))
    } else if late.fraction() >= LATE_WARNING {
        ("few packets", "few packets".to_owned())
    } else {
        ("kept time", paint.good("kept time"))
    };
    // The row is laid out by hand, since the colour codes of the verdict have no width.
    let gap = " ".repeat(CONFIGURED - word.len());
    let [p50, p99] = [0.5, 0.99].map(|q| duration(l.lateness_ns.quantile(q) as f64));
    let none = if late.packets == 0 { "none over 1 ms" } else { "" };
    let row = format!(
        "  {:<12}{verdict}{gap}{}{}{none}",
        "lateness",
        padded(&format!("{p50} p50"), CELL),
        padded(&format!("{p99} p99"), CELL)
    );
    let _ = writeln!(out, "{}", row.trim_end());
    if late.packets > 0 {
        let indent = " ".repeat(2 + 12 + CONFIGURED);
        let _ = writeln!(out, "{indent}{} over 1 ms late", late.in_words());
    }
}

/// Maximum number of rules, and of pipes, in a summary.
const MAX_LINES: usize = 20;

/// Quotes words for a shell, so that the line can be copied.
pub(crate) fn shell_words(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quote = |w: &String| {
        if !w.is_empty() && w.chars().all(plain) {
            w.clone()
        } else {
            format!("'{}'", w.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// At most `width` characters of a text, without control characters: a command line must not
/// control the terminal.
fn clipped(text: &str, width: usize) -> String {
    let clean: Vec<char> = printable(text).chars().collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    clean[..width.saturating_sub(1)].iter().chain(['…'].iter()).collect()
}

fn padded(text: &str, width: usize) -> String {
    let len = text.chars().count();
    // A cell that is too long still has a gap of two spaces after it.
    format!("{text}{}", " ".repeat(width.saturating_sub(len).max(2)))
}

/// Writes `lead` and a text wrapped at spaces, with indented continuation lines.
fn wrapped(out: &mut String, lead: &str, indent: usize, text: &str) {
    let mut line = String::new();
    let mut lead = lead.to_owned();
    let clean = clipped(text, usize::MAX);
    for word in clean.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{lead}{line}");
            lead = " ".repeat(indent);
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{lead}{line}");
}

#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }
    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }
    fn good(self, text: &str) -> String {
        self.with("32", text)
    }
    fn alarm(self, text: &str) -> String {
        self.with("1;31", text)
    }
}

/// The width of the summary in columns.
const WIDTH: usize = 80;
/// The width of a configured value in columns.
const CONFIGURED: usize = 14;
/// The width of one measured value in columns.
const CELL: usize = 17;

#[cfg(test)]
mod tests {
    use weir_measure::stats::{DropReason, LinkCounters, MarkReason};

    use super::*;
    use crate::model::RunInfo;

    fn run(exit_code: Option<i32>, late: bool) -> RunResult {
        let mut l = LinkResult {
            name: "down".into(),
            from: "network".into(),
            to: "program".into(),
            spec: "bw 4Mbit/s delay 20ms queue 50 loss 0.01".into(),
            rate_bps: Some(4_000_000),
            delay_ns: 20_000_000,
            loss: Some(0.01),
            ..LinkResult::default()
        };
        l.counters = LinkCounters {
            packets_in: 10_234,
            packets_out: 10_126,
            bytes_out: 15_189_000,
            backlog_packets: 3,
            duplicated: 12,
            loss_draws: 10_217,
            ..LinkCounters::default()
        };
        (0..14).for_each(|_| l.counters.count_drop(DropReason::QueueFull));
        (0..103).for_each(|_| l.counters.count_drop(DropReason::LossOnLink));
        (0..41).for_each(|_| l.counters.count_mark(MarkReason::Target));
        (0..2).for_each(|_| l.counters.count_mark(MarkReason::CeThreshold));
        (0..1000u64).for_each(|i| {
            l.queue_ns.record(i * 50_000);
            l.total_ns.record(20_000_000 + i * 50_000);
            l.lateness_ns.record(if late && i < 31 { 4_000_000 } else { 5_000 + i * 20 });
        });
        let info = RunInfo {
            version: "0.1.0".into(),
            command: vec!["curl".into(), "it's\u{1b}[31m".into()],
            exit_code,
            duration_ns: 31_400_000_000,
            seed: 7,
            ..RunInfo::default()
        };
        RunResult::new(info, vec![l, LinkResult { name: "up".into(), ..LinkResult::default() }])
    }

    #[test]
    fn a_good_run_and_a_late_one() {
        insta::assert_snapshot!(format!(
            "{}\n---\n{}",
            summary(&run(Some(0), false), false),
            summary(&run(None, true), false)
        ));
    }

    #[test]
    fn a_long_configured_value_stays_apart_from_the_measured_one() {
        let trace = LinkResult { rate_bps: Some(1_206_820), ..LinkResult::default() };
        let text = summary(&RunResult::new(RunInfo::default(), vec![trace]), false);
        assert!(text.contains("1206.82 kbit/s  0 bit/s mean"), "{text}");
    }

    #[test]
    fn one_late_packet_of_61_is_no_alarm() {
        let mut l = LinkResult::default();
        (0..61).for_each(|i| l.lateness_ns.record(if i == 0 { 4_000_000 } else { 20_000 }));
        let text = summary(&RunResult::new(RunInfo::default(), vec![l]), false);
        assert!(!text.contains("TOO LATE") && !text.contains("WARNING"), "{text}");
        assert!(text.contains("1 of 61 packets (1.64 %) over 1 ms late"), "{text}");
    }

    #[test]
    fn lines_fit_and_only_our_own_escapes_reach_the_terminal() {
        for late in [false, true] {
            let plain = summary(&run(Some(3), late), false);
            assert!(plain.lines().all(|l| l.chars().count() <= WIDTH), "{plain}");
            assert!(!plain.contains('\u{1b}'));
            let coloured = summary(&run(Some(3), late), true);
            assert!(coloured.contains("\u{1b}[1;31mexit 3\u{1b}[0m"));
            assert!(!coloured.contains("\u{1b}[31m"));
        }
    }
}
