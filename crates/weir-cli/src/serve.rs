//! `weir serve`: the daemon. It runs bridges shaped by rules, keeps a configuration that survives
//! restarts, and serves an API for both.
//!
//! The start has a fixed order. First the daemon opens its state, sockets and interfaces, which
//! requires privileges. Then each thread keeps only the privileges that it needs. The configuration
//! is applied before the first frame is forwarded. Finally the daemon reports that it is ready.

mod privileges;
mod watchdog;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_control::api::{CommandRequest, SeverityView};
use weir_control::client::{default_socket, default_state};
use weir_control::dashboard::History;
use weir_control::owner::{Candidate, Onto, Owner, Resumed, candidates};
use weir_control::plane::Plane;
use weir_control::server::{Access, ControlSocket, Endpoints, Server, Tls, Token, Web};
use weir_control::session::Session;
use weir_control::store::{HISTORY, Store};
use weir_linux::live::LiveEvent;
use weir_linux::process::{Capabilities, Confinement, Signals, filter_system_calls};
use weir_linux::resident::Resident;
use weir_linux::sys::heap::keep_compact;
use weir_sim::disk::Beside;

use weir_linux::live::Realtime;
use weir_live::Tuning;
use weir_live::daemon::{Bridges, BridgesError, BridgesSetup, DaemonSession, LivePlane};
use weir_live::dashboard::{DaemonDashboard, span_report};
use weir_live::remote::PageParts;

use crate::args::ServeArgs;
use crate::live::wall_time;
use crate::output::{Failure, USAGE, print, say};
use crate::web::{self, Page};

/// `weir serve`.
pub(crate) fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    if args.recover == Some(None) {
        return list_revisions(&state_directory(args));
    }
    // Without this call, the memory that ended threads leave behind would add up over months.
    keep_compact();
    // Signals are blocked before any thread starts, because threads inherit the set of blocked
    // signals.
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let start = Start::new(args)?;
    let (sender, events) = channel();
    let plane = Arc::new(LivePlane::new(start.bridges, sender));
    // A thread inherits the capabilities of the thread that starts it. `starter` starts the loop's
    // thread, which may take real-time priority; the other threads get no capability.
    let starter = Resident::start(None)
        .map_err(|error| Failure::of_weir(format!("cannot start a thread: {error}")))?;
    if let Some(confinement) = start.confinement {
        let own = confinement.clone();
        starter
            .run(move || own.apply(Capabilities::SYS_NICE))
            .transpose()
            .map_err(Failure::of_weir)?;
        if !confinement.apply(Capabilities::empty()).map_err(Failure::of_weir)? && !args.quiet {
            say("weir: note: this kernel has no Landlock, so the daemon keeps its user's files\n");
        }
        privileges::check_state(&start.state)?;
    }
    let owner =
        start.resumed.start(Arc::clone(&plane) as Arc<dyn Plane>).map_err(Failure::of_weir)?;
    if let Some(first) = start.first {
        configure(&owner, &first, Onto::Current)?;
    }
    plane.run(args.seed, tuning(args), &starter).map_err(Failure::of_weir)?;
    drop(starter);
    let asked = Arc::<AtomicBool>::default();
    let since = wall_time(SystemTime::now());
    let session: Arc<dyn Session> =
        Arc::new(DaemonSession::new(Arc::clone(&plane), since, args.seed, Arc::clone(&asked)));
    let web = start.page.as_ref().map(Page::endpoint).transpose()?.map(|page| {
        let source = Arc::new(DaemonDashboard::new(Arc::clone(&plane), owner.clone()));
        let PageParts { listener, access, studies } = page;
        let history =
            History::new(&start.state.join(HISTORY), |text| say(format_args!("weir: {text}\n")));
        let session = Arc::clone(&session);
        let report = span_report;
        (listener, Web { access, source, session, report, studies, history: Some(history) })
    });
    let server = Server::start_with_session(
        start.endpoints,
        owner.clone(),
        Arc::clone(&plane) as Arc<dyn Plane>,
        session,
        web,
    )
    .map_err(|error| Failure::of_weir(format!("cannot start the API: {error}")))?;
    if !args.no_seccomp {
        filter_system_calls().map_err(Failure::of_weir)?;
    }
    let checks = watchdog::start(plane.engine())
        .map_err(|error| Failure::of_weir(format!("cannot start a thread: {error}")))?;
    // Without a service manager there is nothing to notify.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    announce(args, &start.socket, &server, &plane);
    if let Some(page) = &start.page {
        page.announce();
    }
    let watcher = watch_interfaces(events, &plane)?;
    let ends = Ends { signals: &signals, asked: &asked };
    let tls = start.page.as_ref().and_then(Page::tls);
    let reload = || start_reload(args, &owner, tls.as_ref());
    let outcome = run_until_end(&ends, reload, &owner, &server, &plane, &watcher);
    drop(checks);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    server.stop();
    let stopped = plane.stop().map_err(Failure::of_weir);
    outcome.and_then(|code| stopped.map(|()| code))
}

/// Starts a thread that watches the interfaces until the daemon ends. It is a separate thread,
/// because it waits for answers of the loop.
fn watch_interfaces(
    events: Receiver<LiveEvent>,
    plane: &Arc<LivePlane>,
) -> Result<JoinHandle<()>, Failure> {
    let plane = Arc::clone(plane);
    let watch = move || {
        let mut looked = Instant::now();
        loop {
            let first = match events.recv_timeout(LOOK_AGAIN) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let events = first.into_iter().chain(events.try_iter());
            let mut news: Vec<String> = events.filter_map(|event| plane.note(&event)).collect();
            // `attach` opens interfaces that have reappeared.
            news.extend(plane.attach());
            if looked.elapsed() >= LOOK_AT_STATES {
                looked = Instant::now();
                news.extend(plane.look());
            }
            news.iter().for_each(|line| say(format_args!("weir: {line}\n")));
        }
    };
    let thread = std::thread::Builder::new().name("weir-ports".to_owned()).spawn(watch);
    thread.map_err(|error| Failure::of_weir(format!("cannot start a thread: {error}")))
}

fn tuning(args: &ServeArgs) -> Tuning {
    Tuning {
        workers: args.workers,
        memory: args.memory,
        spin: args.spin,
        realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
        cpu: None,
    }
}

struct Start {
    /// The configuration with which the daemon starts, and its store.
    resumed: Resumed,
    state: PathBuf,
    /// The access that the daemon's threads keep. With `None`, they are not confined.
    confinement: Option<Confinement>,
    /// The commands of the rules file, to execute at the start; `None` if a configuration was
    /// saved, or without --rules.
    first: Option<CommandRequest>,
    /// The path of the API's Unix socket.
    socket: PathBuf,
    endpoints: Endpoints,
    page: Option<Page>,
    bridges: Bridges,
}

impl Start {
    fn new(args: &ServeArgs) -> Result<Self, Failure> {
        let http = match (&args.http, &args.token_file) {
            (Some(address), Some(file)) => {
                let token = Token::read(file).map_err(|error| Failure::new(USAGE, error))?;
                let listener = TcpListener::bind(address).map_err(|error| {
                    Failure::of_weir(format!("cannot listen on {address}: {error}"))
                })?;
                Some((listener, token))
            }
            _ => None,
        };
        let gid = args.group.as_deref().map(group).transpose()?;
        let state = state_directory(args);
        let socket = args.socket.clone().unwrap_or_else(default_socket);
        let store = Store::open(&state).map_err(Failure::of_weir)?;
        let state = store.directory().to_owned();
        let user = privileges::user(args)?;
        if let Some(user) = user {
            store.give_to(user.uid, user.gid).map_err(Failure::of_weir)?;
        }
        let page = Page::of_daemon(&args.web, &state, user, !args.keep_privileges)?;
        let confinement =
            (!args.keep_privileges).then(|| privileges::confinement(args, user, &state, &socket));
        let resumed = match args.recover.flatten() {
            Some(choice) => Resumed::recover(store, choice),
            None => Resumed::new(store),
        };
        let resumed = resumed.map_err(Failure::of_weir)?;
        if let Some(notice) = resumed.notice() {
            say(format_args!("weir: {notice}\n"));
        }
        let first = match &args.rules {
            Some(file) if !resumed.was_saved() => Some(request(file)?),
            Some(file) => {
                let what = state.display();
                say(format_args!(
                    "weir: note: resuming the configuration saved in {what}; \
                     SIGHUP replaces it by {}\n",
                    file.display()
                ));
                None
            }
            None => None,
        };
        let setup = BridgesSetup {
            bridges: args.bridges.iter().map(|bridge| bridge.0.clone()).collect(),
            netns: args.netns.clone(),
            workers: args.workers,
            confinement: confinement.clone(),
            keep_awake: !args.no_realtime,
        };
        let bridges = Bridges::open(&setup).map_err(|error| match error {
            BridgesError::NamedTwice { .. } => Failure::new(USAGE, error),
            _ => Failure::of_weir(error),
        })?;
        let access = Access {
            uid: rustix::process::geteuid().as_raw(),
            gid,
            groups_of: weir_linux::sys::process::peer_groups,
        };
        let endpoints = Endpoints {
            socket: (ControlSocket::bind(&socket, gid).map_err(Failure::of_weir)?, access),
            http,
        };
        Ok(Self { resumed, state, confinement, first, socket, endpoints, page, bridges })
    }
}

fn state_directory(args: &ServeArgs) -> PathBuf {
    args.state.clone().unwrap_or_else(default_state)
}

/// `weir serve --recover`: lists the configurations in a state directory.
fn list_revisions(state: &Path) -> Result<ExitCode, Failure> {
    let found = candidates(state).map_err(Failure::of_weir)?;
    if found.is_empty() {
        say(format_args!("weir: {} holds no configuration\n", state.display()));
    }
    let mut text = String::new();
    for candidate in found {
        let Candidate { entry, revision, commands } = candidate;
        let revision = revision.map_or("?".to_owned(), |revision| revision.to_string());
        let written = entry.written.and_then(|at| jiff::Timestamp::try_from(at).ok());
        let written = written.map_or("?".to_owned(), |at| at.strftime("%F %TZ").to_string());
        let what = match commands {
            Ok(commands) => format!("{commands} commands"),
            Err(problem) => problem.lines().collect::<Vec<_>>().join("; "),
        };
        let name = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text.push_str(&format!("{revision:>8}  {written}  {name:<22} {what}\n"));
    }
    print(&text)
}

/// The sources of requests to end the daemon.
struct Ends<'a> {
    signals: &'a Signals,
    /// Set when a client stops the daemon.
    asked: &'a AtomicBool,
}

/// Handles signals until something ends the daemon. This function waits neither for the loop nor
/// for the disk, so that SIGTERM ends the daemon even if the loop is stuck.
fn run_until_end(
    ends: &Ends<'_>,
    reload: impl Fn(),
    owner: &Owner,
    server: &Server,
    plane: &LivePlane,
    watcher: &JoinHandle<()>,
) -> Result<ExitCode, Failure> {
    loop {
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN.subsec_nanos().into() };
        let mut ready = [PollFd::new(ends.signals, PollFlags::IN)];
        // An interrupted wait has the same effect as one that has timed out.
        let _ = poll(&mut ready, Some(&timeout));
        if ends.asked.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(ended) = plane.ended() {
            if let Err(error) = ended {
                say(format_args!("weir: {error}\n"));
            }
            return Err(Failure::of_weir("the loop that forwards packets has ended by itself"));
        }
        let threads = [
            ("configuration", owner.has_panicked()),
            ("API", server.has_panicked()),
            ("interfaces", plane.has_panicked() || watcher.is_finished()),
        ];
        if let Some((name, _)) = threads.iter().find(|(_, has_panicked)| *has_panicked) {
            return Err(Failure::of_weir(format!(
                "the thread of the {name} has panicked; please report this as a bug"
            )));
        }
        while let Some(signal) = ends
            .signals
            .next()
            .map_err(|error| Failure::of_weir(format!("cannot read signals: {error}")))?
        {
            match signal.number {
                HANGUP => reload(),
                USER_1 | USER_2 => {}
                _ => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// Starts a thread that reads the page's certificate and the rules file again. If the daemon has
/// neither, [`reload`] says so.
fn start_reload(args: &ServeArgs, owner: &Owner, tls: Option<&Tls>) {
    let (rules, owner) = (args.rules.clone(), owner.clone());
    let certificate = tls.cloned().zip(args.web.web_cert.clone());
    let work = move || {
        if let Some((tls, path)) = &certificate {
            web::reload(tls, path);
        }
        if rules.is_some() || certificate.is_none() {
            reload(rules.as_deref(), &owner);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("weir-reload".to_owned()).spawn(work) {
        say(format_args!("weir: SIGHUP: cannot start a thread: {error}\n"));
    }
}

/// Replaces the configuration by the content of the rules file. If the file cannot be read or its
/// commands are refused, the failure is logged and the configuration stays.
fn reload(rules: Option<&Path>, owner: &Owner) {
    let Some(file) = rules else {
        return say("weir: SIGHUP: there is no --rules file to read again\n");
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Reloading]);
    match request(file).and_then(|request| configure(owner, &request, Onto::Empty)) {
        Ok(()) => say(format_args!("weir: {} read again\n", file.display())),
        Err(failure) => {
            failure.report();
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Executes the commands of `request`, on top of the current or of an empty configuration.
fn configure(owner: &Owner, request: &CommandRequest, onto: Onto) -> Result<(), Failure> {
    let answer =
        owner.submit(owner.prepare(request), onto).and_then(weir_control::owner::Answer::wait);
    let reply = answer.map_err(Failure::of_weir)?;
    for diagnostic in
        reply.diagnostics.iter().filter(|diagnostic| diagnostic.severity != SeverityView::Error)
    {
        say(format_args!(
            "weir: {}:{}: {}\n",
            name_of(request),
            diagnostic.line,
            diagnostic.message
        ));
    }
    if reply.applied {
        return Ok(());
    }
    let errors =
        reply.diagnostics.iter().filter(|diagnostic| diagnostic.severity == SeverityView::Error);
    let name = name_of(request);
    Err(Failure::new(USAGE, refusal(errors.map(|d| (name, d.line, &*d.message, &*d.text)))))
}

/// The message about errors, each with file, line, message and text.
fn refusal<'a>(errors: impl Iterator<Item = (&'a str, usize, &'a str, &'a str)>) -> String {
    let lines: Vec<String> = errors
        .map(|(name, line, message, text)| match text.trim() {
            "" => format!("{name}:{line}: {message}"),
            text => format!("{name}:{line}: {message} ({text})"),
        })
        .collect();
    format!("the rules are refused, and nothing was changed:\n  {}", lines.join("\n  "))
}

fn name_of(request: &CommandRequest) -> &str {
    request.name.as_deref().unwrap_or("rules")
}

/// Reads a rules file into a request, with the files that it names.
fn request(file: &Path) -> Result<CommandRequest, Failure> {
    let name = file.display().to_string();
    let script = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {name}: {error}")))?;
    let beside = Beside(file.parent().unwrap_or(Path::new(".")));
    let collected = Collected { beside, files: Default::default() };
    let parsed = weir_rules::script::parse(&script, &name, &collected);
    if parsed.diagnostics.has_errors() {
        let errors = parsed.diagnostics.of(weir_rules::Severity::Error);
        let lines =
            errors.map(|d| (d.file.as_deref().unwrap_or(&name), d.line, &*d.message, &*d.text));
        return Err(Failure::new(USAGE, refusal(lines)));
    }
    Ok(CommandRequest {
        script,
        name: Some(name),
        files: collected.files.into_inner(),
        check_only: false,
    })
}

/// Reads the files that a script names, relative to the script's directory, and keeps their
/// contents.
struct Collected<'a> {
    beside: Beside<'a>,
    files: std::cell::RefCell<std::collections::BTreeMap<String, String>>,
}

impl weir_rules::Files for Collected<'_> {
    fn read(&self, path: &str) -> std::io::Result<String> {
        Ok(self.read_quotable(path)?.0)
    }

    fn read_quotable(&self, path: &str) -> std::io::Result<(String, bool)> {
        let (text, quotable) = self.beside.read_quotable(path)?;
        self.files.borrow_mut().insert(path.to_owned(), text.clone());
        Ok((text, quotable))
    }
}

fn group(name: &str) -> Result<u32, Failure> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(Failure::new(
            USAGE,
            format!(
                "--group {name}: there is no such group; 'groupadd --system {name}' creates it"
            ),
        )),
    }
}

fn announce(args: &ServeArgs, socket: &Path, server: &Server, plane: &LivePlane) {
    if args.quiet {
        return;
    }
    for notice in plane.notices() {
        say(format_args!("weir: note: {notice}\n"));
    }
    let tcp = server.address().map(|address| format!(" and http://{address}")).unwrap_or_default();
    say(format_args!("weir: listening on {}{tcp}\n", socket.display()));
}

/// The numbers of the signals SIGHUP, SIGUSR1 and SIGUSR2.
const HANGUP: i32 = 1;
const USER_1: i32 = 10;
const USER_2: i32 = 12;
/// Maximum time until the daemon notices that an interface has returned, or that its loop has
/// ended.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Interval at which the kernel is asked whether the interfaces are up.
const LOOK_AT_STATES: Duration = Duration::from_secs(1);
