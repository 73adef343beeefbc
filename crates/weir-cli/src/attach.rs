//! `weir attach` and `weir host`: shape running programs, and write the results.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use weir_attach::{AttachError, PortRange, Prefix, Selection, Target};
use weir_control::api::SessionKind;
use weir_control::directory::Name;
use weir_linux::process::Signals;
use weir_live::changes::Changes;
use weir_live::remote::About;
use weir_live::{
    AttachSetup, Attached, Capture, FollowEnd, LiveSession, Observation, SessionConfig, StartError,
};
use weir_report::RunInfo;

use crate::args::{AccessArgs, CommonArgs, parse_time};
use crate::live::{not_built, tuning, wall_time};
use crate::output::{Failure, USAGE, check_destinations, say, write_results};
use crate::plan::{Plan, Running};
use crate::progress::{Progress, progress};
use crate::remote;
use crate::spec::{Directions, Wanted, directions};
use crate::web::Page;

/// Options of `weir attach`.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub(crate) struct AttachArgs {
    /// What to shape: `docker:NAME`, `podman:NAME`, `pid:N`, `netns:NAME`, `cgroup:PATH`,
    /// `unit:NAME` or `user:NAME`. The name of a container may be `re:` followed by a regular
    /// expression.
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<Target>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Detach after this time, for example `5min`.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options of `weir host`.
#[derive(Debug, Args)]
#[command(after_help = HOST_EXAMPLES)]
pub(crate) struct HostArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Shape only programs of this user, by name or number.
    #[arg(long, value_name = "NAME", conflicts_with = "cgroup", help_heading = "Selection")]
    pub(crate) user: Option<String>,
    /// Shape only programs in this control group or below it.
    #[arg(long, value_name = "PATH", help_heading = "Selection")]
    pub(crate) cgroup: Option<std::path::PathBuf>,
    /// Undo everything after this time, so that you cannot lock yourself out.
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "10min",
        value_parser = parse_duration
    )]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The links, and the packets that pass through them.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Shape this interface; may be given several times. By default all interfaces of the target
    /// that are up and carry Ethernet frames; on the machine itself, those with a default route.
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(crate) interface: Vec<String>,
    /// Shape only packets to and from these remote addresses, such as 10.0.0.0/8; may be given
    /// several times.
    #[arg(long, value_name = "ADDRESS", help_heading = "Selection")]
    pub(crate) to: Vec<Prefix>,
    /// Shape only packets of this port or range of ports, local or remote; may be given several
    /// times. On `lo`, it is the port of the server.
    #[arg(long, value_name = "PORT", help_heading = "Selection")]
    pub(crate) port: Vec<PortRange>,
}

/// `weir attach`.
pub(crate) fn attach(args: AttachArgs) -> Result<ExitCode, Failure> {
    let words = args.targets.iter().map(ToString::to_string).collect();
    shape(args.targets, args.shape, words, args.duration, &args.common)
}

/// `weir host`.
pub(crate) fn host(args: HostArgs) -> Result<ExitCode, Failure> {
    let target = match (args.user, args.cgroup) {
        (Some(user), _) => Target::User(user),
        (None, Some(path)) => Target::Cgroup(path),
        (None, None) => Target::Host,
    };
    shape(vec![target], args.shape, vec!["host".to_owned()], Some(args.duration), &args.common)
}

fn shape(
    targets: Vec<Target>,
    shape: ShapeArgs,
    words: Vec<String>,
    duration: Option<Duration>,
    args: &CommonArgs,
) -> Result<ExitCode, Failure> {
    let specs = directions(&Wanted::access(&shape.access))?;
    check_wanted(&shape.access, args)?;
    let selection = Selection { to: shape.to, ports: shape.port, owner: None };
    let undivided = selection.is_everything() && shape.interface.iter().any(|name| name == "lo");
    let setup = AttachSetup { targets, interfaces: shape.interface, selection };
    let attached = setup.open().map_err(refused)?;
    let limit = [duration, args.timeout].into_iter().flatten().min();
    if !args.quiet {
        announce(&attached, limit, undivided);
    }
    let name = Name::of_program(words.first().map_or("attach", String::as_str).as_ref());
    let scene = Scene { kind: SessionKind::Attach, name, words, specs: &specs, limit, args };
    drive(attached, scene, None, |session, signals, until| {
        let ended = session.follow(signals, until, |message| tell(message, args.quiet));
        let note = match ended.map_err(|error| cannot_wait(&error))? {
            FollowEnd::Time if limit == duration => Some("ended by --for".to_owned()),
            FollowEnd::Time => Some("ended by --timeout".to_owned()),
            FollowEnd::Gone => Some("ended with its target".to_owned()),
            FollowEnd::Signal(_) | FollowEnd::Stopped | FollowEnd::Job { .. } => None,
        };
        Ok(End { code: 0, note })
    })
}

/// Prints a message about a target, unless the user wants no messages.
pub(crate) fn tell(message: &str, quiet: bool) {
    if !quiet {
        say(format_args!("weir: {message}\n"));
    }
}

/// Checks the options that all attachments share.
pub(crate) fn check_wanted(access: &AccessArgs, args: &CommonArgs) -> Result<(), Failure> {
    if access.is_empty() {
        let message = "nothing to emulate: give --up, --down, --link or --preset, such as --down \
                       4M/20ms";
        return Err(Failure::new(USAGE, message));
    }
    if args.workers > 1 {
        let message = "--workers: one thread serves an attachment, because it uses TAP devices";
        return Err(Failure::new(USAGE, message));
    }
    check_destinations(args)
}

/// As [`parse_time`], but also accepts minutes and hours.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "m" | "min" => 60,
        "h" => 3600,
        _ => return parse_time(text),
    };
    let number: u32 =
        digits.parse().map_err(|_| format!("'{text}' is no time; examples: 30s, 5min, 2h"))?;
    if u64::from(number) * seconds > LONGEST {
        return Err("a session lasts 1000 hours at most".to_owned());
    }
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

fn refused(error: AttachError) -> Failure {
    match error {
        AttachError::NoInterface { .. } => Failure::new(USAGE, error),
        error => Failure::of_weir(error),
    }
}

/// Prints the shaped interfaces, and when the session ends. `undivided` says that packets on `lo`
/// are not divided into two directions.
fn announce(attached: &Attached, limit: Option<Duration>, undivided: bool) {
    for what in attached.descriptions() {
        say(format_args!("weir: shaping {what}\n"));
    }
    if undivided {
        say("weir: note: on lo all packets take the link `up`, since each packet crosses lo once \
             (--port or --to separates the directions)\n");
    }
    let end = match limit {
        Some(limit) => format!("ends in {} s, or at ^C", limit.as_secs_f64()),
        None => "ends at ^C".to_owned(),
    };
    say(format_args!("weir: {end}; the traffic is then direct again\n"));
}

/// A session that shapes containers and programs that Weir does not start itself.
pub(crate) struct Scene<'a> {
    pub(crate) kind: SessionKind,
    /// The name of the session if --name gives none.
    pub(crate) name: Name,
    /// The targets, or the command, in words.
    pub(crate) words: Vec<String>,
    pub(crate) specs: &'a Directions,
    /// The longest duration of the session.
    pub(crate) limit: Option<Duration>,
    pub(crate) args: &'a CommonArgs,
}

/// How a session ended.
pub(crate) struct End {
    pub(crate) code: u8,
    pub(crate) note: Option<String>,
}

type Followed = Result<End, Failure>;

/// Starts the links, shapes until `follow` returns, and writes the results. If the caller has taken
/// the signals, it passes them; otherwise this function takes them. `follow` receives the session,
/// the signals, and the time at which the session must end; `None` for no limit.
pub(crate) fn drive(
    attached: Attached,
    scene: Scene<'_>,
    signals: Option<&Signals>,
    follow: impl FnOnce(&mut LiveSession<Attached>, &Signals, Option<Instant>) -> Followed,
) -> Result<ExitCode, Failure> {
    let args = scene.args;
    let emulation = attached.links(&scene.specs.forth, &scene.specs.back);
    let plan = Plan::read(&args.plan, &emulation)?;
    let reserved = remote::reserve(args.name.as_ref(), &scene.name, args.quiet)?;
    let page = Page::bind(&args.web)?;
    let capture = args.pcap.clone().map(|path| Capture { path, snaplen: args.snaplen });
    let config = SessionConfig::new(attached, emulation)
        .seed(args.seed)
        .tuning(tuning(args))
        .observation(Observation::Series { capture })
        .outlives_ports();
    let prepared = LiveSession::build(config).map_err(|error| not_built(&error))?;
    let own = signals.is_none().then(take_signals).transpose()?;
    let signals = signals.or(own.as_ref()).ok_or_else(|| Failure::of_weir("no signals"))?;
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
    let plan = plan.start(&changes);
    let bar = progress(scene.kind == SessionKind::Attach, args);
    let progress = bar.map(|bar| Progress::start(bar, session.control().clone(), scene.limit));
    let began = Instant::now();
    let until = scene.limit.and_then(|limit| began.checked_add(limit));
    let ended = follow(&mut session, signals, until);
    let lasted = began.elapsed();
    drop(progress);
    let unfinished = plan.and_then(Running::finish);
    let finished = session.stop().map_err(Failure::of_weir)?;
    let ended = ended?;
    let mut info = RunInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: scene.words,
        exit_code: Some(i32::from(ended.code)),
        started: wall_time(finished.started()),
        duration_ns: u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX),
        seed: args.seed,
        warnings: finished.warnings(),
        ..RunInfo::default()
    };
    info.notes.extend(changes.notes().into_iter().chain(unfinished).chain(ended.note));
    let capture_error =
        finished.capture().and_then(|capture| capture.error.as_ref()).map(ToString::to_string);
    write_results(args, &finished.into_result(info))?;
    match capture_error {
        Some(error) => Err(Failure::of_weir(error)),
        None => Ok(ExitCode::from(ended.code)),
    }
}

pub(crate) fn take_signals() -> Result<Signals, Failure> {
    Signals::take().map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))
}

pub(crate) fn cannot_wait(error: &std::io::Error) -> Failure {
    Failure::of_weir(format!("cannot wait: {error}"))
}

/// The longest duration that may be given in minutes or hours, in seconds: 1000 hours.
const LONGEST: u64 = 3_600_000;

const ATTACH_EXAMPLES: &str = "Examples:
  weir attach docker:web --down 4M/20ms --up 256k/20ms --for 5min
  weir attach 'docker:re:^web-' --link 10M/50ms/1%
  weir attach netns:lab --preset 3g --json result.json
  weir attach unit:nginx --port 443 --link 'delay 100ms'
  weir attach user:bob --to 10.0.0.0/8 --down 1M

The target keeps running and is not changed. Its traffic is direct again when weir ends in any
manner, also by kill -9. A container that is restarted is shaped again. Address resolution (ARP,
IPv6 neighbour discovery) is never shaped. The command needs root and Linux 6.6 or newer.
docs/attach.md and docs/containers.md explain more.";
const HOST_EXAMPLES: &str = "Examples:
  weir host --to 0.0.0.0/0 --down 4M/20ms
  weir host --interface lo --port 5432 --link 'delay 5ms'
  weir host --user bob --down 1M --for 30min

Everything is undone after --for (10 minutes by default), when the terminal is lost, and when weir
ends in any manner, so that you cannot lock yourself out over SSH. docs/attach.md explains more.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_be_minutes_and_hours() {
        let seconds = |text: &str| parse_duration(text).map(|time| time.as_secs());
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("10min"), Ok(600));
        assert_eq!(seconds("2h"), Ok(7200));
        assert_eq!(seconds("90s"), Ok(90));
        for wrong in ["", "m", "-1m", "5", "99999h", "5 min"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
