//! `weir run`, `weir pair`, `weir bridge`: surroundings, link, programs, results.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_core::Nanos;
use weir_core::config::{Capacity, LinkConfig, Loss};
use weir_core::link::Step;
use weir_linux::clock;
use weir_linux::live::{
    Gso, LaneConfig, LaneReport, Live, LiveConfig, LiveHandle, LiveReport, Realtime, StopReason,
};
use weir_linux::port::AnyPort;
use weir_linux::process::Signals;
use weir_linux::topology::{
    self, Backend, BridgeSetup, EndedBy, Outcome, PairSetup, RunSetup, Session, Side,
};
use weir_live::observe::{Recording, Watcher};
use weir_live::rules::{self, Where};
use weir_measure::series::LinkSeries;
use weir_report::pcap::{Interface, LinkType};
use weir_report::{CaptureSink, LinkResult, RunInfo, RunResult, spawn_writer};
use weir_rules::ruleset::Ruleset;
use weir_rules::{LinkSpec, canonical};

use crate::args::{BackendArg, BridgeArgs, CommonArgs, PairArgs, RunArgs, TwoWayArgs};
use crate::output::{Failure, OWN, USAGE, check_destinations, say, write_results};
use crate::progress::{Progress, progress};
use crate::rules::read;
use crate::spec::{Directions, Wanted, directions};

/// `weir run`.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let rules = ruled(args.rules.as_deref(), Where::Machine)?;
    let wanted = Wanted {
        link: args.link.as_deref(),
        forth: ("--up", args.up.as_deref()),
        back: ("--down", args.down.as_deref()),
        preset: args.preset.as_deref(),
        user_is_left: true,
    };
    let emulation = Emulation { specs: directions(&wanted)?, rules };
    check_destinations(&args.common)?;
    let setup = RunSetup {
        mtu: args.place.mtu,
        backend: backend(args.place.backend),
        outside: !args.no_outside,
    };
    let session = topology::run(&setup).map_err(Failure::own)?;
    drive(session, ["up", "down"], emulation, &[(Side::Left, args.command)], &args.common)
}

/// `weir pair`.
pub(crate) fn pair(args: PairArgs) -> Result<ExitCode, Failure> {
    let rules = ruled(args.rules.as_deref(), Where::Machine)?;
    let emulation = Emulation { specs: two_way(&args.link)?, rules };
    check_destinations(&args.common)?;
    let setup = PairSetup { mtu: args.place.mtu, backend: backend(args.place.backend) };
    let session = topology::pair(&setup).map_err(Failure::own)?;
    let programs = [(Side::Left, shell(args.left)), (Side::Right, shell(args.right))];
    drive(session, ["to-right", "to-left"], emulation, &programs, &args.common)
}

/// `weir bridge`.
pub(crate) fn bridge(args: BridgeArgs) -> Result<ExitCode, Failure> {
    let rules = ruled(args.rules.as_deref(), Where::Bridge)?;
    let emulation = Emulation { specs: two_way(&args.link)?, rules };
    check_destinations(&args.common)?;
    let setup = BridgeSetup { left: args.left, right: args.right };
    let session = topology::bridge(&setup).map_err(Failure::own)?;
    drive(session, ["to-right", "to-left"], emulation, &[], &args.common)
}

/// What packets meet between the two ends.
struct Emulation {
    /// A link in each direction; perfect ones where there are rules.
    specs: Directions,
    /// Rules in place of them.
    rules: Option<(Ruleset, Where)>,
}

fn ruled(path: Option<&Path>, place: Where) -> Result<Option<(Ruleset, Where)>, Failure> {
    path.map(|path| Ok((read(path)?, place))).transpose()
}

fn two_way(args: &TwoWayArgs) -> Result<Directions, Failure> {
    directions(&Wanted {
        link: args.link.as_deref(),
        forth: ("--to-right", args.to_right.as_deref()),
        back: ("--to-left", args.to_left.as_deref()),
        preset: args.preset.as_deref(),
        user_is_left: false,
    })
}

/// Puts the link into its surroundings, starts the programs, waits, and writes what happened.
fn drive(
    mut session: Session,
    names: [&str; 2],
    emulation: Emulation,
    programs: &[(Side, Vec<OsString>)],
    args: &CommonArgs,
) -> Result<ExitCode, Failure> {
    for note in session.notes().iter().filter(|_| !args.quiet) {
        let remedy = note.remedy.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
        say(format_args!("weir: note: {}{remedy}\n", note.what));
    }
    let noted = session.notes().len();
    let signals =
        Signals::take().map_err(|error| Failure::own(format!("cannot take signals: {error}")))?;
    let ends = [session.ends()[0].name.clone(), session.ends()[1].name.clone()];
    let link = Link::start(&mut session, names, &ends, &emulation, args)?;
    for (side, command) in programs {
        if let Err(error) = session.spawn(*side, command) {
            let _ = link.stop();
            return Err(Failure::new(error.exit_code(), error));
        }
    }
    for note in session.notes().iter().skip(noted).filter(|_| !args.quiet) {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let progress = progress(programs.is_empty(), args)
        .map(|bar| Progress::start(bar, link.handle.clone(), args.timeout));
    let began = Instant::now();
    let mut duration = None;
    let settle = || {
        duration = Some(began.elapsed());
        link.run_dry();
    };
    let outcome = session.wait_and_settle(&signals, args.timeout, settle);
    let outcome =
        outcome.map_err(|error| Failure::own(format!("cannot wait for the program: {error}")));
    let duration = duration.unwrap_or_else(|| began.elapsed());
    drop(progress);
    let finished = link.stop();
    let closed = session.close();
    let (outcome, finished) = (outcome?, finished?);
    let code = exit_code(&outcome, &finished.report);
    let mut info = RunInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_words(programs),
        exit_code: (!programs.is_empty()).then_some(i32::from(code)),
        started: wall_time(finished.started),
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        seed: args.seed,
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    explain(&mut info, &outcome, &finished, args);
    info.warnings.extend(closed.notes.into_iter().map(|n| n.what));
    let Finished { report, series, capture, .. } = finished;
    let by_rules = emulation.rules.is_some();
    let counts =
        emulation.rules.map(|(ruleset, _)| rules::results(&ruleset, &report)).unwrap_or_default();
    let specs = [emulation.specs.forth, emulation.specs.back];
    let lanes = report.lanes.into_iter().zip(series).zip(&specs);
    let links = lanes
        .map(|((lane, series), spec)| LinkResult {
            by_rules,
            ..link_result(&ends, lane, series, spec)
        })
        .collect();
    write_results(args, &RunResult::new(info, links).with_rules(counts.0, counts.1))?;
    // As with the other results: what could not be written is a failure, however the program ended.
    match capture.and_then(|capture| capture.error) {
        Some(error) => Err(Failure::own(error)),
        None => Ok(ExitCode::from(code)),
    }
}

/// What a user should know about how the run went, besides the figures.
fn explain(info: &mut RunInfo, outcome: &Outcome, finished: &Finished, args: &CommonArgs) {
    for end in outcome.programs.iter().filter(|end| end.background > 0 && !end.ended_by_us) {
        let (count, verb) = if end.background == 1 {
            ("1 background process", "was")
        } else {
            (&*format!("{} background processes", end.background), "were")
        };
        info.notes.push(format!("{count} of the program {verb} ended with its namespace"));
    }
    if let (EndedBy::Program(Side::Left), [first, _, ..]) = (outcome.ended_by, &*outcome.programs) {
        info.warnings
            .push(format!("the left program failed (exit code {}) and the right one went on for five seconds in vain", first.code));
    }
    match (outcome.ended_by, finished.report.stopped) {
        (_, Some(StopReason::PortVanished(_))) => {
            for event in &finished.report.events {
                info.warnings.push(format!(
                    "interface {}: {:?}; the run ended there",
                    event.interface, event.fault
                ));
            }
        }
        (EndedBy::Timeout, _) => info.notes.push("ended by --timeout".to_owned()),
        _ => {}
    }
    for lane in &finished.report.lanes {
        if lane.rx_kernel_drops > 0 {
            info.warnings.push(format!(
                "link {}: the kernel dropped {} frames before they could be read",
                lane.name, lane.rx_kernel_drops
            ));
        }
        if lane.rx_unreadable > 0 {
            info.warnings.push(format!(
                "link {}: {} frames could not be read with their offloads",
                lane.name, lane.rx_unreadable
            ));
        }
    }
    if let Some(capture) = &finished.capture {
        if let Some(error) = &capture.error {
            info.warnings.push(format!("the capture is incomplete: {error}"));
        } else if capture.dropped > 0 {
            info.warnings.push(format!(
                "the capture lacks {} packets: the disk was slower than the link",
                capture.dropped
            ));
        } else if let Some(path) = &args.pcap {
            info.notes.push(format!("capture: {} packets in {}", capture.written, path.display()));
        }
    }
}

/// How long a link must have been empty to count as dry: an answer to what just arrived would have
/// come by then.
const EMPTY_FOR: Duration = Duration::from_millis(20);
/// How long what is still inside a link may take to arrive.
const LONGEST_RUN_DRY: Duration = Duration::from_secs(2);

/// The link's thread with what belongs to it.
struct Link {
    handle: LiveHandle,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<LiveReport, weir_linux::live::LiveError>>,
    recording: Recording,
    capture: Option<Arc<Mutex<CaptureSink>>>,
    started: SystemTime,
}

/// What the link's thread leaves.
struct Finished {
    report: LiveReport,
    series: Vec<LinkSeries>,
    capture: Option<weir_report::CaptureReport>,
    started: SystemTime,
}

impl Link {
    fn start(
        session: &mut Session,
        names: [&str; 2],
        ends: &[String; 2],
        emulation: &Emulation,
        args: &CommonArgs,
    ) -> Result<Self, Failure> {
        check_processor(args.cpu)?;
        let plan = emulation
            .rules
            .as_ref()
            .map(|(ruleset, place)| rules::plan(ruleset, *place, session.ends()));
        let specs = &emulation.specs;
        let mut ports =
            session.take_ports().ok_or_else(|| Failure::own("the ports are already taken"))?;
        let lane = |index: usize, spec: &LinkSpec| LaneConfig {
            name: names[index].to_owned(),
            from: index,
            to: 1 - index,
            pipe: index as u16 + 1,
            passes: plan.as_ref().map(|plan| plan.passes[index].clone()).unwrap_or_default(),
            gso: match (&plan, spec.gso) {
                (Some(plan), _) => plan.gso,
                (None, weir_rules::Gso::Split) => Gso::Split,
                (None, weir_rules::Gso::Whole) => Gso::Whole,
            },
        };
        let capture = capture(names, ends, specs, args)?.map(|sink| Arc::new(Mutex::new(sink)));
        let (now, started) = (clock::now(), SystemTime::now());
        let wall = started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let recording = Recording::new(2, now);
        let mut more_workers = Vec::new();
        for _ in 1..args.workers {
            let shared = ports.iter_mut().map(AnyPort::share).collect::<Result<Vec<_>, _>>();
            more_workers.push(
                shared.map_err(|error| {
                    Failure::own(format!("--workers {}: {error}", args.workers))
                })?,
            );
        }
        let mut config =
            LiveConfig::new(ports.into(), vec![lane(0, &specs.forth), lane(1, &specs.back)]);
        config.more_workers = more_workers;
        match &plan {
            Some(plan) => config.rules = Some(Arc::clone(&plan.classifier)),
            None => {
                config.pipes = vec![(1, specs.forth.pipe.clone()), (2, specs.back.pipe.clone())]
            }
        }
        config.seed = args.seed;
        config.memory = args.memory;
        config.spin = args.spin;
        config.realtime = if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed };
        config.cpu = args.cpu;
        config.observer = Some(Box::new(Watcher::new(
            recording.clone(),
            capture.clone(),
            wall.saturating_sub(now.0),
        )));
        let mut live = Live::new(config).map_err(Failure::own)?;
        if let Some(plan) = &plan {
            live.configure(|engine, now| {
                plan.changes.engine.iter().for_each(|change| change.apply(now, engine))
            });
        }
        let (handle, stop, stopper) =
            (live.handle(), Arc::new(AtomicBool::new(false)), session.stopper());
        let thread = std::thread::Builder::new()
            .name("weir-link".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || {
                    let report = live.run(&stop);
                    // Whatever ended the link ends the run.
                    stopper.stop();
                    report
                }
            })
            .map_err(|error| Failure::own(format!("cannot start the link's thread: {error}")))?;
        Ok(Self { handle, stop, thread, recording, capture, started })
    }

    /// Lets what is still on its way arrive: a program's last words, and the end of its
    /// connections, are often in the link when it ends. Returns when the link has been empty for a
    /// moment, or after [`LONGEST_RUN_DRY`].
    fn run_dry(&self) {
        let deadline = Instant::now() + LONGEST_RUN_DRY;
        let mut empty_since = None;
        while Instant::now() < deadline {
            let Ok(report) = self.handle.brief_report() else { return };
            let empty = report.lanes.iter().all(|lane| lane.counters.backlog_packets == 0);
            let since = *empty_since.get_or_insert_with(Instant::now);
            if !empty {
                empty_since = None;
            } else if since.elapsed() >= EMPTY_FOR {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(self) -> Result<Finished, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        // It may have ended by itself.
        let _ = self.handle.stop();
        let report = self
            .thread
            .join()
            .map_err(|_| Failure::own("the link's thread panicked; please report this as a bug"))?;
        let capture = self
            .capture
            .and_then(Arc::into_inner)
            .and_then(|sink| sink.into_inner().ok())
            .map(CaptureSink::finish);
        Ok(Finished {
            report: report.map_err(Failure::own)?,
            series: self.recording.series(),
            capture,
            started: self.started,
        })
    }
}

/// A thread cannot stay on a processor that is not there, and would silently run anywhere.
fn check_processor(wanted: Option<usize>) -> Result<(), Failure> {
    let Some(number) = wanted else { return Ok(()) };
    let all = Path::new("/sys/devices/system/cpu");
    let online = std::fs::read_to_string(all.join("online"));
    match online {
        Ok(online) if !all.join(format!("cpu{number}")).exists() => Err(Failure::new(
            USAGE,
            format!("--cpu {number}: there is no such processor; there are {}", online.trim()),
        )),
        _ => Ok(()),
    }
}

fn capture(
    names: [&str; 2],
    ends: &[String; 2],
    specs: &Directions,
    args: &CommonArgs,
) -> Result<Option<CaptureSink>, Failure> {
    let Some(path) = &args.pcap else { return Ok(None) };
    let interface = |index: usize, spec: &LinkSpec| Interface {
        name: names[index].to_owned(),
        description: format!("{} → {}, {}", ends[index], ends[1 - index], canonical(spec)),
        link_type: LinkType::Ethernet,
    };
    let interfaces = [interface(0, &specs.forth), interface(1, &specs.back)];
    let application = concat!("weir ", env!("CARGO_PKG_VERSION"));
    spawn_writer(path, application, &interfaces, args.snaplen).map(Some).map_err(Failure::own)
}

/// RFC 3339, to the second.
pub(crate) fn wall_time(time: SystemTime) -> String {
    let whole = |t: jiff::Timestamp| jiff::Timestamp::from_second(t.as_second());
    jiff::Timestamp::try_from(time).and_then(whole).map(|t| t.to_string()).unwrap_or_default()
}

/// One direction's results in the form that is written.
fn link_result(
    ends: &[String; 2],
    lane: LaneReport,
    series: LinkSeries,
    spec: &LinkSpec,
) -> LinkResult {
    let (from, to) = if lane.pipe == 1 { (&ends[0], &ends[1]) } else { (&ends[1], &ends[0]) };
    let link = &spec.pipe.link;
    let (rate_bps, delay) = configured(link);
    let stats = weir_core::stats::LinkStats {
        counters: lane.counters,
        queue_ns: lane.queue_ns,
        total_ns: lane.total_ns,
        device: None,
    };
    LinkResult {
        spec: canonical(spec),
        rate_bps,
        delay_ns: delay.0,
        loss: mean_loss(link.loss),
        lateness_ns: lane.lateness,
        series,
        ..LinkResult::from_stats(&lane.name, from, to, &stats)
    }
}

/// Rate and delay as they are configured; of a table that changes them over time the means of its
/// steps, weighted by how long each lasts: over one period where it repeats, else from the start on
/// (and the last step counts as long as the one before it).
fn configured(link: &LinkConfig) -> (Option<u64>, Nanos) {
    let bps = |capacity: &Capacity| match capacity {
        Capacity::Unlimited => None,
        Capacity::Constant(rate) => Some(rate.bps()),
        Capacity::Trace(trace) => Some(trace.mean_bps()),
    };
    let at_first = (bps(&link.capacity), link.delay);
    let Some(schedule) = &link.schedule else { return at_first };
    let after = |(rate, delay), step: &Step| {
        (step.capacity.as_ref().map_or(rate, bps), step.delay.unwrap_or(delay))
    };
    let steps = schedule.steps();
    // What a round begins with is what the one before has left.
    let mut now = if schedule.period().is_some() {
        steps.iter().fold(at_first, |now, (_, step)| after(now, step))
    } else {
        at_first
    };
    let mut held = vec![(Nanos::ZERO, now)];
    for (at, step) in steps {
        now = after(now, step);
        held.push((*at, now));
    }
    let begins = |i: usize| u128::from(held[i].0.0);
    let lasts = |i: usize| match schedule.period() {
        _ if i + 1 < held.len() => begins(i + 1) - begins(i),
        Some(period) => u128::from(period.0) - begins(i),
        None => (begins(i) - begins(i - 1)).max(1),
    };
    let parts = || (0..held.len()).map(|i| (held[i].1, lasts(i))).filter(|(_, lasts)| *lasts > 0);
    let mean = |sum: u128| {
        u64::try_from(sum / parts().map(|(_, lasts)| lasts).sum::<u128>()).unwrap_or(u64::MAX)
    };
    let bits: Option<u128> =
        parts().map(|((rate, _), lasts)| Some(u128::from(rate?) * lasts)).sum();
    let delays: u128 = parts().map(|((_, delay), lasts)| u128::from(delay.0) * lasts).sum();
    (bits.map(mean), Nanos(mean(delays)))
}

/// Long-run share of packets that a loss model loses.
fn mean_loss(loss: Loss) -> Option<f64> {
    match loss {
        Loss::None => None,
        Loss::Bernoulli(p) => Some(p.as_f64()),
        Loss::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
            let (k, p, h, r) = (
                loss_in_good.as_f64(),
                good_to_bad.as_f64(),
                loss_in_bad.as_f64(),
                bad_to_good.as_f64(),
            );
            let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
            Some(k * (1.0 - bad) + h * bad)
        }
    }
}

/// The command's exit code: the program's, or that the link failed under it.
fn exit_code(outcome: &Outcome, report: &LiveReport) -> u8 {
    match report.stopped {
        Some(StopReason::PortVanished(_)) => OWN,
        _ if outcome.programs.is_empty() && matches!(outcome.ended_by, EndedBy::Signal(_)) => 0,
        _ => outcome.exit_code(),
    }
}

fn command_words(programs: &[(Side, Vec<OsString>)]) -> Vec<String> {
    let words = |command: &[OsString]| {
        command.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    match programs {
        [(_, one)] => words(one),
        // The shell command of each side is its last word.
        several => several
            .iter()
            .filter_map(|(_, c)| c.last())
            .map(|w| w.to_string_lossy().into_owned())
            .collect(),
    }
}

/// A shell command as a program. `exec` would break lists of commands, so the shell stays.
fn shell(command: OsString) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command]
}

fn backend(arg: BackendArg) -> Backend {
    match arg {
        BackendArg::Auto => Backend::Auto,
        BackendArg::Tap => Backend::Tap,
        BackendArg::Packet => Backend::Packet,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What is said to be configured for a table: bit/s and milliseconds.
    fn means(spec: &str, table: &str) -> (Option<u64>, u64) {
        let files = BTreeMap::from([("t.csv".to_owned(), table.to_owned())]);
        let checked = weir_rules::check_spec(spec, &files);
        let spec = checked.spec.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        let (rate, delay) = configured(&spec.pipe.link);
        (rate, delay.0 / 1_000_000)
    }

    #[test]
    fn a_tables_means_count_each_value_for_as_long_as_it_holds() {
        assert_eq!(
            means("trace t.csv", "time,rate,delay\n0,1M,10\n1,4M,40\n4,,\n"),
            (Some(3_250_000), 32)
        );
        assert_eq!(means("schedule t.csv", "time,rate\n0,1M\n1,4M\n4,2M\n"), (Some(2_714_285), 0));
        assert_eq!(
            means("bw 7M delay 5ms schedule t.csv", "time,rate,delay\n0,3M,\n"),
            (Some(3_000_000), 5)
        );
    }

    #[test]
    fn what_holds_before_a_tables_first_row_counts_too() {
        assert_eq!(means("bw 1M schedule t.csv", "time,rate\n2,4M\n"), (Some(2_500_000), 0));
        assert_eq!(
            means("schedule t.csv", "time,rate\n2,4M\n"),
            (None, 0),
            "no limit at first: there is no mean"
        );
        // In all rounds but the first it is what the last row has left.
        assert_eq!(
            means("bw 9M schedule t.csv loop", "time,rate\n1,2M\n3,6M\n4,\n"),
            (Some(4_000_000), 0)
        );
        assert_eq!(
            means("trace t.csv", "time,rate,delay\n0,2M,\n1,,10\n2,,\n"),
            (Some(2_000_000), 10)
        );
    }
}
