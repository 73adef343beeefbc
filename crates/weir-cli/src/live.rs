//! `weir run`, `weir pair`, `weir bridge`: turns arguments into a live session, and writes its
//! results.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use weir_control::api::SessionKind;
use weir_control::directory::Name;
use weir_linux::live::Realtime;
use weir_linux::process::Signals;
use weir_linux::topology::{
    Backend, BridgeSetup, EndedBy, Neighbours, Outcome, PairSetup, ProgramEnd, RunSetup, Session,
    SetupError, Side,
};
use weir_live::changes::Changes;
use weir_live::remote::About;
use weir_live::rules::Where;
use weir_live::{
    BuildError, Capture, Emulation, Ended, Finished, Link, LiveSession, Observation, SessionConfig,
    StartError, Surroundings, Tuning,
};
use weir_report::{CaptureReport, RunInfo};
use weir_rules::ruleset::Ruleset;

use crate::args::{ArpArg, BackendArg, BridgeArgs, CommonArgs, PairArgs, RunArgs, TwoWayArgs};
use crate::output::{Failure, USAGE, WEIR_FAILED, check_destinations, say, write_results};
use crate::plan::{Plan, Running};
use crate::progress::{Progress, progress};
use crate::remote;
use crate::rules::read;
use crate::spec::{Directions, Wanted, directions};
use crate::web::Page;

/// `weir run`.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let rules = rules_from(args.rules.as_deref(), Where::Machine)?;
    let emulation = emulation(["up", "down"], directions(&Wanted::access(&args.access))?, rules);
    check_destinations(&args.common)?;
    let setup = RunSetup {
        mtu: args.place.mtu,
        backend: backend(args.place.backend),
        outside: !args.no_outside,
        neighbours: neighbours(args.place.arp),
        publish: args.publish,
    };
    let name = Name::of_program(args.command.first().map(OsString::as_os_str).unwrap_or_default());
    let scene = Scene {
        kind: SessionKind::Run,
        name,
        words: command_words(&[(Side::Left, args.command.clone())]),
        programs: vec![(Side::Left, args.command)],
    };
    drive(setup, emulation, &scene, &args.common)
}

/// `weir pair`.
pub(crate) fn pair(args: PairArgs) -> Result<ExitCode, Failure> {
    let rules = rules_from(args.rules.as_deref(), Where::Machine)?;
    let emulation = emulation(["to-right", "to-left"], two_way(&args.link)?, rules);
    check_destinations(&args.common)?;
    let setup = PairSetup {
        mtu: args.place.mtu,
        backend: backend(args.place.backend),
        neighbours: neighbours(args.place.arp),
    };
    let programs = vec![(Side::Left, shell(args.left)), (Side::Right, shell(args.right))];
    let scene = Scene {
        kind: SessionKind::Pair,
        name: Name::of_program("pair".as_ref()),
        words: command_words(&programs),
        programs,
    };
    drive(setup, emulation, &scene, &args.common)
}

/// `weir bridge`.
pub(crate) fn bridge(args: BridgeArgs) -> Result<ExitCode, Failure> {
    let rules = rules_from(args.rules.as_deref(), Where::Bridge)?;
    let emulation = emulation(["to-right", "to-left"], two_way(&args.link)?, rules);
    check_destinations(&args.common)?;
    let scene = Scene {
        kind: SessionKind::Bridge,
        name: Name::of_program(format!("{}-{}", args.left, args.right).as_ref()),
        words: vec![args.left.clone(), args.right.clone()],
        programs: Vec::new(),
    };
    let setup = BridgeSetup { left: args.left, right: args.right };
    drive(setup, emulation, &scene, &args.common)
}

/// The programs of a session, and its description for `weir ps`.
struct Scene {
    kind: SessionKind,
    /// The name of the session if --name gives none.
    name: Name,
    /// The programs or interfaces as words.
    words: Vec<String>,
    programs: Vec<(Side, Vec<OsString>)>,
}

/// The emulation between the two ends: rules if there are any, otherwise links.
fn emulation(names: [&str; 2], specs: Directions, rules: Option<(Ruleset, Where)>) -> Emulation {
    let [forth, back] = names;
    match rules {
        Some((ruleset, place)) => Emulation::Rules {
            directions: names.map(str::to_owned),
            ruleset: Box::new(ruleset),
            place,
        },
        None => {
            Emulation::Links(Box::new([Link::new(forth, specs.forth), Link::new(back, specs.back)]))
        }
    }
}

fn rules_from(path: Option<&Path>, place: Where) -> Result<Option<(Ruleset, Where)>, Failure> {
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

/// Starts the links in their surroundings and then the programs, waits for the end, and writes the
/// results.
fn drive<S: Surroundings<Place = Session>>(
    surroundings: S,
    emulation: Emulation,
    scene: &Scene,
    args: &CommonArgs,
) -> Result<ExitCode, Failure> {
    let programs = scene.programs.as_slice();
    let plan = Plan::read(&args.plan, &emulation)?;
    let reserved = remote::reserve(args.name.as_ref(), &scene.name, args.quiet)?;
    let page = Page::bind(&args.web)?;
    let capture = args.pcap.clone().map(|path| Capture { path, snaplen: args.snaplen });
    let config = SessionConfig::new(surroundings, emulation)
        .seed(args.seed)
        .tuning(tuning(args))
        .observation(Observation::Series { capture });
    let prepared = LiveSession::build(config).map_err(|error| not_built(&error))?;
    for note in prepared.notes().iter().filter(|note| note.serious || !args.quiet) {
        let remedy = note.remedy.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
        say(format_args!("weir: note: {}{remedy}\n", note.what));
    }
    let noted = prepared.notes().len();
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let mut session = prepared.start().map_err(|error| match error {
        StartError::Share(error) => {
            Failure::of_weir(format!("--workers {}: {error}", args.workers))
        }
        error => Failure::of_weir(error),
    })?;
    let changes = Changes::new(session.control());
    let about = About {
        kind: scene.kind,
        command: scene.words.clone(),
        since: wall_time(SystemTime::now()),
        seed: args.seed,
    };
    // The socket answers until the results are written, because `weir stop` waits for them.
    let _served = remote::serve(reserved, about, &changes, page.as_ref(), args.quiet)?;
    for (side, command) in programs {
        session.spawn(*side, command).map_err(|error| Failure::new(error.exit_code(), error))?;
    }
    for note in session.notes().iter().skip(noted).filter(|note| note.serious || !args.quiet) {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let plan = plan.start(&changes);
    let progress = progress(programs.is_empty(), args)
        .map(|bar| Progress::start(bar, session.control().clone(), args.timeout));
    let ended = session.wait(&signals, args.timeout);
    drop(progress);
    let unfinished = plan.and_then(Running::finish);
    let finished = session.stop();
    let Ended { outcome, lasted } =
        ended.map_err(|error| Failure::of_weir(format!("cannot wait for the program: {error}")))?;
    let finished = finished.map_err(Failure::of_weir)?;
    let code = exit_code(&outcome, &finished);
    let mut info = RunInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: if programs.is_empty() { Vec::new() } else { scene.words.clone() },
        exit_code: (!programs.is_empty()).then_some(i32::from(code)),
        started: wall_time(finished.started()),
        duration_ns: u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
        seed: args.seed,
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    info.notes.extend(changes.notes().into_iter().chain(unfinished));
    explain(&mut info, &outcome, &finished, args);
    // If a result cannot be written, the command fails, whatever the program's exit code is.
    let capture_error =
        finished.capture().and_then(|capture| capture.error.as_ref()).map(ToString::to_string);
    write_results(args, &finished.into_result(info))?;
    match capture_error {
        Some(error) => Err(Failure::of_weir(error)),
        None => Ok(ExitCode::from(code)),
    }
}

pub(crate) fn tuning(args: &CommonArgs) -> Tuning {
    Tuning {
        workers: args.workers.into(),
        memory: args.memory,
        spin: args.spin,
        realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
        cpu: args.cpu,
    }
}

/// The failure of a session that could not be built. For a wrong processor, the message names
/// `--cpu`.
pub(crate) fn not_built(error: &BuildError) -> Failure {
    match error {
        BuildError::NoProcessor { number, .. } => {
            Failure::new(USAGE, format!("--cpu {number}: {error}"))
        }
        BuildError::Setup(SetupError::SameInterface { .. }) => Failure::new(USAGE, error),
        error => Failure::of_weir(error),
    }
}

/// Adds notes and warnings about the run to the results.
fn explain(info: &mut RunInfo, outcome: &Outcome, finished: &Finished, args: &CommonArgs) {
    for end in outcome.programs.iter().filter(|end| end.background > 0 && !end.ended_by_us) {
        let (count, verb) = if end.background == 1 {
            ("1 background process", "was")
        } else {
            (&*format!("{} background processes", end.background), "were")
        };
        info.notes.push(format!("{count} of the program {verb} ended with its namespace"));
    }
    info.warnings.extend(failed_program(outcome));
    if outcome.ended_by == EndedBy::Timeout && !finished.port_vanished() {
        info.notes.push("ended by --timeout".to_owned());
    }
    if let (Some(CaptureReport { written, dropped: 0, error: None, .. }), Some(path)) =
        (finished.capture(), &args.pcap)
    {
        info.notes.push(format!(
            "capture: {written} records in {}, one for each arrival, departure and drop of \
             a packet",
            path.display()
        ));
    }
    info.warnings.extend(finished.warnings());
}

/// Which of two programs failed, in words; `None` if neither failed, or if there is only one.
fn failed_program(outcome: &Outcome) -> Option<String> {
    if let Some(code) = outcome.left_failed {
        let right = outcome.programs.iter().find(|end| end.side == Side::Right);
        let then = match (outcome.ended_by, right) {
            (EndedBy::Program(Side::Left), _) => {
                "the right program was ended five seconds later".to_owned()
            }
            (_, Some(right)) if !right.ended_by_us => {
                format!("the right program then ended with exit code {}", right.code)
            }
            _ => "the right program was ended with the session".to_owned(),
        };
        return Some(format!("the left program failed (exit code {code}); {then}"));
    }
    let ended = |end: &&ProgramEnd| end.side == Side::Right && !end.ended_by_us && end.code != 0;
    let right = outcome.programs.iter().find(ended)?;
    let is_own_end = outcome.ended_by == EndedBy::Program(Side::Right);
    is_own_end.then(|| format!("the right program failed (exit code {})", right.code))
}

/// The time in the format of RFC 3339, to the second.
pub(crate) fn wall_time(time: SystemTime) -> String {
    let whole = |t: jiff::Timestamp| jiff::Timestamp::from_second(t.as_second());
    jiff::Timestamp::try_from(time).and_then(whole).map(|t| t.to_string()).unwrap_or_default()
}

/// The command's exit code: 125 if an interface disappeared, 0 if a signal ended a session without
/// programs, otherwise that of `outcome`.
fn exit_code(outcome: &Outcome, finished: &Finished) -> u8 {
    if finished.port_vanished() {
        WEIR_FAILED
    } else if outcome.programs.is_empty() && matches!(outcome.ended_by, EndedBy::Signal(_)) {
        0
    } else {
        outcome.exit_code()
    }
}

fn command_words(programs: &[(Side, Vec<OsString>)]) -> Vec<String> {
    let words = |command: &[OsString]| {
        command.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    match programs {
        [(_, one)] => words(one),
        // The shell command of each side is the last word of its arguments.
        several => several
            .iter()
            .filter_map(|(_, c)| c.last())
            .map(|w| w.to_string_lossy().into_owned())
            .collect(),
    }
}

/// A shell command as a program. Weir puts no `exec` before the command, because only the first
/// command of a list would then run.
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

/// How the ends learn each other's Ethernet addresses, from the value of `--arp`.
pub(crate) fn neighbours(arg: ArpArg) -> Neighbours {
    match arg {
        ArpArg::Static => Neighbours::Static,
        ArpArg::Emulated => Neighbours::Emulated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_which_program_failed() {
        let end = |side, code| ProgramEnd { side, code, background: 0, ended_by_us: false };
        let ended_by = EndedBy::Program(Side::Right);
        let mut outcome = Outcome {
            ended_by,
            programs: vec![end(Side::Left, 3), end(Side::Right, 0)],
            left_failed: Some(3),
        };
        let words = failed_program(&outcome).unwrap_or_default();
        let expected =
            "the left program failed (exit code 3); the right program then ended with exit code 0";
        assert_eq!(words, expected);
        // A server that ends because its client has ended is no failure.
        outcome.left_failed = None;
        outcome.programs = vec![end(Side::Right, 0), end(Side::Left, 143)];
        assert_eq!(failed_program(&outcome), None);
        outcome.programs = vec![end(Side::Right, 4)];
        let words = failed_program(&outcome).unwrap_or_default();
        assert_eq!(words, "the right program failed (exit code 4)");
    }
}
