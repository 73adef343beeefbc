//! `weir watch`: shows the lengths of the kernel's queues and of Weir's own, live and in a summary.
//!
//! The library reads and records on its own threads. The command's thread draws the view and waits
//! for the end of the watch: a key, a signal, the time limit, the end of the program or, without a
//! program, a source or file that fails.

mod args;
mod outputs;
mod program;
mod show;
mod terminal;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_linux::process::{Signals, Stopper};
use weir_watch::{Sources, Watch};

pub(crate) use args::WatchArgs;

use self::program::Program;
use self::terminal::Screen;
use self::view::{Picture, View};
use crate::live::wall_time;
use crate::output::{Failure, USAGE, WEIR_FAILED, check_files, colour, say};

/// `weir watch`.
pub(crate) fn watch(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let plan = args.plan().map_err(|error| Failure::new(USAGE, error))?;
    check_files(&args.files(), &["--json", "--jsonl", "--csv"])?;
    // Signals are blocked before any thread starts, because threads inherit the set of blocked
    // signals.
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let over =
        Stopper::new().map_err(|error| Failure::of_weir(format!("cannot watch: {error}")))?;
    let (daemons, daemon_rate) = args.daemons();
    let record = args.record.clone().map(|path| (path, wall_time(SystemTime::now())));
    let sources = Sources {
        kernel: plan,
        namespaces: args.namespaces(),
        daemons,
        daemon_rate,
        record,
        flush: args.flush,
    };
    let watch = Watch::start(sources, &outputs::files(args), env!("CARGO_PKG_VERSION"), &over)
        .map_err(Failure::of_weir)?;
    if !args.quiet {
        for remark in watch.progress().into_iter().flat_map(|source| source.remarks) {
            say(format_args!("weir: note: {remark}\n"));
        }
    }
    let began = (Instant::now(), SystemTime::now());
    let mut running =
        RunningWatch { args, signals, over, watch, began, program: None, failures: Vec::new() };
    running.program = args.program().map(|words| Program::start(&words)).transpose()?;
    let code = running.wait_for_end()?;
    running.conclude(code)
}

/// A running watch.
struct RunningWatch<'a> {
    args: &'a WatchArgs,
    signals: Signals,
    /// Becomes readable when a reader has ended.
    over: Stopper,
    watch: Watch,
    /// The start of the watch, on the monotonic clock and on the wall clock.
    began: (Instant, SystemTime),
    program: Option<Program>,
    failures: Vec<Incident>,
}

/// A failure during the watch.
struct Incident {
    text: String,
    reported: bool,
}

/// The display during the watch.
enum Display {
    /// A view that uses the whole terminal.
    Screen(Screen, Box<View>),
    /// A line from time to time, and the time of the last line.
    Lines(Instant),
    Nothing,
}

impl RunningWatch<'_> {
    /// Waits for the end of the watch. Returns the exit code of the program, or 0 without a
    /// program.
    fn wait_for_end(&mut self) -> Result<u8, Failure> {
        let deadline = self.args.seconds.map(|seconds| self.began.0 + seconds);
        let mut display = self.display();
        let mut reader_ended = false;
        loop {
            let picture = self.draw(&mut display);
            let now = Instant::now();
            self.report_failures(&display);
            if let Some(program) = &mut self.program {
                if let Some(code) = program.code() {
                    return Ok(code);
                }
                if deadline.is_some_and(|deadline| deadline <= now) {
                    program.end();
                }
                program.enforce();
            } else if deadline.is_some_and(|deadline| deadline <= now)
                || reader_ended
                || !self.failures.is_empty()
            {
                return Ok(0);
            }
            let until = deadline
                .filter(|_| self.program.is_none())
                .map_or(TICK, |deadline| deadline.saturating_duration_since(now));
            let wake = self.wait(until.min(TICK), &display, reader_ended)?;
            reader_ended |= wake.reader_ended;
            if wake.signal {
                while let Some(signal) = self
                    .signals
                    .next()
                    .map_err(|error| Failure::of_weir(format!("cannot read signals: {error}")))?
                {
                    match &mut self.program {
                        Some(program) => program.forward(signal),
                        None => return Ok(0),
                    }
                }
            }
            if let Display::Screen(screen, view) = &mut display
                && screen.keys().into_iter().any(|key| view.key(key, &picture))
            {
                return Ok(0);
            }
        }
    }

    /// Waits for a signal, a key, or the end of a reader or of the program, for at most `most`.
    fn wait(&self, most: Duration, display: &Display, reader_ended: bool) -> Result<Wake, Failure> {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // The descriptor of `over` remains readable after a reader has ended, so it is then left
        // out.
        if !reader_ended {
            fds.push(PollFd::new(&self.over, PollFlags::IN));
        }
        fds.extend(self.program.as_ref().map(|program| PollFd::new(program, PollFlags::IN)));
        let stdin = io::stdin();
        if matches!(display, Display::Screen(screen, _) if screen.has_keys()) {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let most =
            Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
        match poll(&mut fds, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Failure::of_weir(format!("cannot wait: {errno}"))),
        }
        let ready = |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Wake { signal: ready(0), reader_ended: !reader_ended && ready(1) })
    }

    /// Selects the display. The view uses the terminal only if no program writes to it.
    fn display(&self) -> Display {
        let free = self.program.is_none() || !io::stdout().is_terminal();
        match (self.args.quiet, io::stderr().is_terminal()) {
            (true, _) => Display::Nothing,
            (false, true) if free => {
                Display::Screen(Screen::take(self.program.is_none()), Box::default())
            }
            (false, true) => Display::Nothing,
            (false, false) => Display::Lines(Instant::now()),
        }
    }

    /// Updates the display if an update is due. Returns the shown measurements, or an empty picture
    /// if no update is due.
    fn draw(&self, display: &mut Display) -> Picture {
        let due = match display {
            Display::Screen(..) => true,
            Display::Lines(last) => last.elapsed() >= LINE_EVERY,
            Display::Nothing => false,
        };
        if !due {
            return Picture::default();
        }
        let seconds = self.began.0.elapsed().as_secs_f64();
        let heads: Vec<String> =
            self.watch.progress().iter().map(|source| show::head(source, seconds)).collect();
        let picture = Picture::of(&self.watch.record().tally, heads.join("  |  "));
        match display {
            Display::Screen(screen, view) => {
                let lines = view.frame(&picture, screen.size(), (screen.has_keys(), colour()));
                screen.draw(&lines);
            }
            Display::Lines(last) => {
                *last = Instant::now();
                say(format_args!("{}\n", view::line(&picture)));
            }
            Display::Nothing => {}
        }
        picture
    }

    /// Reports files that can no longer be written: at once or, if the view uses the terminal,
    /// after the end of the watch.
    fn report_failures(&mut self, display: &Display) {
        let failures = self.watch.record().failures();
        for failure in failures {
            let reported = !matches!(display, Display::Screen(..));
            if reported {
                say(format_args!("weir: {failure}\n"));
            }
            self.failures.push(Incident { text: failure, reported });
        }
    }

    /// Stops reading, prints the summary, and writes the results.
    fn conclude(self, code: u8) -> Result<ExitCode, Failure> {
        let Self { args, signals, watch, began: (began, started), mut failures, .. } = self;
        end_on_signals(signals);
        let watched = watch.finish().map_err(Failure::of_weir)?;
        let seconds = watched.ended.duration_since(began).as_secs_f64();
        let unreported = |text| Incident { text, reported: false };
        failures.extend(watched.failures.iter().cloned().map(unreported));
        if !args.quiet {
            say(show::summary(&watched, seconds, args.threshold));
        }
        failures.extend(
            outputs::write_results(args, &watched, (started, seconds)).into_iter().map(unreported),
        );
        if failures.is_empty() {
            return Ok(ExitCode::from(code));
        }
        let texts: Vec<String> = failures
            .into_iter()
            .filter(|incident| !incident.reported)
            .map(|incident| incident.text)
            .collect();
        if texts.is_empty() {
            Ok(ExitCode::from(WEIR_FAILED))
        } else {
            Err(Failure::new(WEIR_FAILED, texts.join("\nweir: ")))
        }
    }
}

/// The reasons why a wait ended.
struct Wake {
    /// A signal has arrived.
    signal: bool,
    /// A reader has ended during this wait.
    reader_ended: bool,
}

/// Makes a signal end the command at once, because the watch has already ended.
fn end_on_signals(signals: Signals) {
    let wait_and_exit = move || {
        loop {
            let mut fds = [PollFd::new(&signals, PollFlags::IN)];
            // After an interruption, the loop polls again.
            let _ = poll(&mut fds, None);
            if let Ok(Some(signal)) = signals.next() {
                terminal::give_back();
                std::process::exit(128 + signal.number);
            }
        }
    };
    // If the thread cannot start, signals have no effect while the results are written.
    let _ = std::thread::Builder::new().name("weir-signals".to_owned()).spawn(wait_and_exit);
}

/// Time between two updates of the view.
const TICK: Duration = Duration::from_millis(200);
/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);
