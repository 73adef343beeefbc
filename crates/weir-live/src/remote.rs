//! The control socket of a session: `weir ps`, `weir change`, `weir stats` and `weir stop` use it.
//!
//! A [`Reserved`] binds the socket before the session's surroundings are set up, while this process
//! is still in the user's own namespaces and has one thread. Once the links run,
//! [`Reserved::serve`] answers on the socket with a thread of the server.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use weir_control::api::{
    ChangeReply, ChangeRequest, DiagnosticView, Readings, SessionKind, SessionView,
};
use weir_control::directory::{Directory, DirectoryError, Name};
use weir_control::server::{
    Access, ControlSocket, Server, SocketError, StudiesOrWhy, Web, WebAccess,
};
use weir_control::session::{Session, SessionError};
use weir_linux::live::NoAnswer;
use weir_report::{RunInfo, RunResult, to_json};
use weir_rules::Diagnostics;

use crate::changes::{Changed, Changes, Refusal, known_links};
use crate::dashboard::{SessionDashboard, span_report};
use crate::lab::Board;
use crate::readings::{readings, shown};

/// The description of a session for clients of its control socket.
#[derive(Clone, Debug)]
pub struct About {
    /// The command that runs the links.
    pub kind: SessionKind,
    /// The command line of the program, or the interfaces, as words.
    pub command: Vec<String>,
    /// When the links started, RFC 3339.
    pub since: String,
    /// The seed of all random draws.
    pub seed: u64,
}

/// The parts of a web page besides its session.
pub struct PageParts {
    /// The listener of the page's server.
    pub listener: TcpListener,
    /// The tokens and names that the server accepts.
    pub access: WebAccess,
    /// The studies of the page, or the reason why there are none.
    pub studies: StudiesOrWhy,
}

/// Why a session has no socket.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// No directory can hold the socket.
    #[error("no directory can hold the socket: {}", list(.0))]
    Directory(Vec<DirectoryError>),
    /// A session has this name.
    #[error("a session {0} runs already; `weir ps` lists the sessions, or give another name")]
    Taken(Name),
    /// The socket cannot be bound.
    #[error(transparent)]
    Socket(SocketError),
}

/// A bound socket without a server. Dropping it removes the socket.
#[derive(Debug)]
pub struct Reserved {
    name: Name,
    socket: ControlSocket,
    /// The user that may connect.
    uid: u32,
    /// The hosts of a lab; `None` for other sessions.
    board: Option<Board>,
}

/// A socket with the thread that answers on it. Dropping it ends the thread and removes the socket.
#[derive(Debug)]
pub struct Served {
    _server: Server,
}

impl Reserved {
    /// Binds the socket of a session with this name.
    ///
    /// # Errors
    /// See [`ReserveError`].
    pub fn exactly(name: &Name) -> Result<Self, ReserveError> {
        let directory = directory()?;
        let socket = directory.bind(name).map_err(|error| match error {
            SocketError::InUse { .. } => ReserveError::Taken(name.clone()),
            error => ReserveError::Socket(error),
        })?;
        Ok(Self::new(name.clone(), socket))
    }

    /// Binds the socket of a session with this name. If the name is taken, a number is added to it.
    ///
    /// # Errors
    /// See [`ReserveError`].
    pub fn like(name: &Name) -> Result<Self, ReserveError> {
        let directory = directory()?;
        let (name, socket) = directory.bind_free(name).map_err(ReserveError::Socket)?;
        Ok(Self::new(name, socket))
    }

    fn new(name: Name, socket: ControlSocket) -> Self {
        // The user's number stays valid when the process enters a user namespace of its own.
        Self { name, socket, uid: rustix::process::geteuid().as_raw(), board: None }
    }

    /// The name of the session.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Shows the hosts of a lab as well.
    #[must_use]
    pub fn with_hosts(self, board: Option<Board>) -> Self {
        Self { board, ..self }
    }

    /// Answers on the socket from now on, on a thread of its own, and serves the web page on `web`
    /// if that is given. `stop` ends the session as SIGTERM does, and returns at once.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn serve(
        mut self,
        about: About,
        changes: Changes,
        web: Option<PageParts>,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Served> {
        let board = self.board.take();
        let source = web.is_some().then(|| Arc::new(SessionDashboard::new(changes.clone())));
        let access = Access { uid: self.uid, gid: None, groups_of: |_| Ok(Vec::new()) };
        let session: Arc<dyn Session> =
            Arc::new(Remote { name: self.name, about, changes, board, stop: Box::new(stop) });
        let web = web.zip(source).map(|(page, source)| {
            let PageParts { listener, access, studies } = page;
            let session = Arc::clone(&session);
            let report = span_report;
            (listener, Web { access, source, session, report, studies, history: None })
        });
        let server = Server::start_session(self.socket, access, session, web)?;
        Ok(Served { _server: server })
    }

    /// Answers on the socket from now on, as the session that `make` creates.
    pub(crate) fn serve_as(
        self,
        make: impl FnOnce(Name) -> Arc<dyn Session>,
    ) -> io::Result<Served> {
        let access = Access { uid: self.uid, gid: None, groups_of: |_| Ok(Vec::new()) };
        let server = Server::start_session(self.socket, access, make(self.name), None)?;
        Ok(Served { _server: server })
    }
}

/// The directory for a new socket, without the sockets of killed sessions.
fn directory() -> Result<Directory, ReserveError> {
    let directory = Directory::for_new().map_err(ReserveError::Directory)?;
    // Listing the sessions removes the sockets of killed sessions. If this fails, they do no harm.
    let _ = directory.sessions();
    Ok(directory)
}

/// The links of a session, as the socket's server sees them.
struct Remote {
    name: Name,
    about: About,
    changes: Changes,
    board: Option<Board>,
    stop: Box<dyn Fn() + Send + Sync>,
}

impl Session for Remote {
    fn view(&self) -> SessionView {
        let links = if self.changes.by_rules() { Vec::new() } else { self.changes.links() };
        SessionView {
            name: self.name.to_string(),
            kind: self.about.kind,
            program: self.about.command.join(" "),
            pid: Some(std::process::id()),
            since: self.about.since.clone(),
            uptime_ns: nanos(&self.changes),
            rules: self.changes.by_rules(),
            links: links.iter().map(shown).collect(),
            problems: Vec::new(),
            nodes: self.board.as_ref().map(Board::nodes).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn change(
        &self,
        link: Option<&str>,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, SessionError> {
        answer(self.changes.change(link, &request.words, &request.files))
    }

    fn reset(&self, link: Option<&str>) -> Result<ChangeReply, SessionError> {
        answer(self.changes.reset(link))
    }

    fn results(&self) -> Result<String, SessionError> {
        let snapshot = self.changes.control().snapshot().map_err(unanswered)?;
        let info = RunInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.about.command.clone(),
            started: self.about.since.clone(),
            duration_ns: snapshot.elapsed.0,
            seed: self.about.seed,
            notes: self.changes.notes(),
            ..RunInfo::default()
        };
        let result =
            RunResult::new(info, snapshot.links).with_rules(snapshot.rules, snapshot.pipes);
        Ok(to_json(&result))
    }

    fn readings(&self) -> Result<Readings, SessionError> {
        readings(self.changes.control()).map_err(unanswered)
    }

    fn stop(&self) {
        (self.stop)();
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The reply or the error for a client.
pub(crate) fn answer(changed: Result<Changed, Refusal>) -> Result<ChangeReply, SessionError> {
    match changed {
        Ok(Changed { links, diagnostics, .. }) => Ok(ChangeReply {
            applied: true,
            links: links.iter().map(shown).collect(),
            rendered: diagnostics.render(false),
            diagnostics: views(&diagnostics),
        }),
        Err(Refusal::Words(diagnostics)) => Ok(ChangeReply {
            applied: false,
            links: Vec::new(),
            rendered: diagnostics.render(false),
            diagnostics: views(&diagnostics),
        }),
        Err(Refusal::NoSuchLink { name, known }) => {
            Err(SessionError::NoSuchLink { name, known: known_links(&known) })
        }
        Err(Refusal::Impossible(why)) => Err(SessionError::Impossible(why)),
        Err(Refusal::NoAnswer(error)) => Err(unanswered(error)),
    }
}

fn views(diagnostics: &Diagnostics) -> Vec<DiagnosticView> {
    diagnostics.iter().map(DiagnosticView::from).collect()
}

fn nanos(changes: &Changes) -> u64 {
    u64::try_from(changes.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn unanswered(error: NoAnswer) -> SessionError {
    match error {
        NoAnswer::Late => SessionError::Late,
        NoAnswer::Ended => SessionError::Ended,
    }
}

fn list(errors: &[DirectoryError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
