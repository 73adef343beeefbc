//! The progress line of a live session.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_core::Nanos;
use weir_linux::live::LiveReport;
use weir_live::Control;
use weir_report::format::{count, printable, rate};

use crate::args::CommonArgs;

/// Creates the progress line if standard error is a terminal and `--quiet` is absent. If a program
/// also writes to the terminal, the line requires `--progress`.
pub(crate) fn progress(no_program: bool, args: &CommonArgs) -> Option<ProgressBar> {
    let terminal = std::io::stderr().is_terminal() && !args.quiet;
    let wanted = args.progress || no_program || !std::io::stdout().is_terminal();
    if !(terminal && wanted) {
        return None;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>6}  {wide_msg}") {
        bar.set_style(style);
    }
    Some(bar)
}

/// The thread that updates the progress line. Dropping this value ends the thread.
pub(crate) struct Progress {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn start(bar: ProgressBar, control: Control, timeout: Option<Duration>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                let mut before: Option<LiveReport> = None;
                while !over.load(Ordering::Relaxed) {
                    let Ok(report) = control.counters() else { break };
                    let text = progress_text(&report, before.as_ref(), timeout);
                    bar.set_message(printable(&text).into_owned());
                    before = Some(report);
                    for _ in 0..5 {
                        std::thread::sleep(Duration::from_millis(100));
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
                bar.finish_and_clear();
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread affects only the progress line.
            let _ = thread.join();
        }
    }
}

fn progress_text(
    report: &LiveReport,
    before: Option<&LiveReport>,
    timeout: Option<Duration>,
) -> String {
    let mut parts = Vec::new();
    for (index, lane) in report.lanes.iter().enumerate() {
        let (bytes, since) =
            before.map_or((0, report.started), |b| (b.lanes[index].counters.bytes_out, b.at));
        let span = report.at.since(since).max(Nanos(1)).0 as f64 / 1e9;
        let bps = lane.counters.bytes_out.saturating_sub(bytes) as f64 * 8.0 / span;
        parts.push(format!(
            "{} {}, {} dropped",
            lane.name,
            rate(bps),
            count(lane.counters.total_drops())
        ));
    }
    if let Some(timeout) = timeout {
        let left = timeout.saturating_sub(Duration::from_nanos(report.at.since(report.started).0));
        parts.push(format!("{} s left", left.as_secs()));
    }
    parts.join("  |  ")
}
