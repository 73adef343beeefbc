//! Finds the sessions of this user by their sockets.

use std::time::Duration;

use weir_control::api::{SessionKind, SessionView};
use weir_control::client::{ClientError, find_socket};
use weir_control::directory::{Directory, Found};
use weir_control::server::is_listening;
use weir_control::session_client::SessionClient;

use crate::output::{Failure, USAGE, say};

/// A session that answers.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) client: SessionClient,
    pub(super) view: SessionView,
}

/// The sockets of all sessions of this user.
pub(super) fn sockets() -> Vec<Found> {
    // A directory that cannot be read holds no session of this user.
    Directory::all().iter().flat_map(|directory| directory.sessions().unwrap_or_default()).collect()
}

/// The daemon on the socket that `weir pipe` and the other commands of the daemon use, if this user
/// may use it.
pub(super) fn daemon() -> Option<Result<Asked, Failure>> {
    let path = find_socket();
    if !is_listening(&path) {
        return None;
    }
    let asked = SessionClient::of_daemon(&path, WITHIN).and_then(|mut client| {
        let view = client.view()?;
        Ok(Asked { client, view })
    });
    match asked {
        // Only root and the daemon's user may see the daemon, and earlier versions have no session.
        Err(
            ClientError::NotAllowed { .. }
            | ClientError::NoDaemon { .. }
            | ClientError::Refused { status: 403 | 404, .. },
        ) => None,
        asked => Some(asked.map_err(|error| failure(SERVE, &error))),
    }
}

/// The session with this name; without a name, the only running session. The daemon counts only if
/// it is named.
pub(super) fn session(name: Option<&str>) -> Result<Asked, Failure> {
    let found = sockets();
    let is_session = |name: &str| found.iter().any(|found| found.name.as_str() == name);
    if name == Some(SERVE)
        && !is_session(SERVE)
        && let Some(daemon) = daemon()
    {
        return daemon;
    }
    match (name, found.as_slice()) {
        (Some(name), all) => match all.iter().find(|found| found.name.as_str() == name) {
            Some(found) => ask(found),
            None => Err(Failure::new(
                USAGE,
                format!("there is no session `{name}`; {}", which_run(all)),
            )),
        },
        (None, [only]) => {
            let asked = ask(only)?;
            say(format_args!("weir: session {}\n", only.name));
            Ok(asked)
        }
        (None, all) => {
            let what = if all.is_empty() { "" } else { "name a session: " };
            Err(Failure::new(USAGE, format!("{what}{}", which_run(all))))
        }
    }
}

/// The agents of this user that run and answer.
pub(crate) fn agents() -> Vec<SessionView> {
    let asked = sockets().into_iter().filter_map(|found| ask(&found).ok());
    asked.map(|asked| asked.view).filter(|view| view.kind == SessionKind::Agent).collect()
}

/// Asks a session for its state.
pub(super) fn ask(found: &Found) -> Result<Asked, Failure> {
    try_ask(found).map_err(|error| failure(found.name.as_str(), &error))
}

/// Does the same as [`ask`], and returns the client's error.
pub(super) fn try_ask(found: &Found) -> Result<Asked, ClientError> {
    let mut client = SessionClient::new(&found.path, WITHIN)?;
    let view = client.view()?;
    Ok(Asked { client, view })
}

/// The running sessions, in words.
pub(super) fn which_run(found: &[Found]) -> String {
    let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    match names.as_slice() {
        [] => {
            "no links run; `weir run`, `pair`, `bridge`, `live` and `attach` start some".to_owned()
        }
        [one] => format!("{one} is the only session that runs"),
        several => format!("there are {}", several.join(", ")),
    }
}

/// Why a session did not do what the command asked for.
pub(super) fn failure(name: &str, error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { status: 404 | 409, message } => Failure::new(USAGE, message),
        ClientError::Refused { message, .. } => {
            Failure::of_weir(format!("session {name}: {message}"))
        }
        ClientError::NoDaemon { .. } => Failure::of_weir(format!("session {name} has ended")),
        ClientError::NotAllowed { path } => Failure::of_weir(format!(
            "session {name} belongs to another user: you may not use {}",
            path.display()
        )),
        ClientError::NoAnswer { within, change, .. } => Failure::of_weir(format!(
            "session {name} did not answer within {} s{}; it is starting, ending or stopped \
             (^Z), or the machine is overloaded",
            within.as_secs(),
            if *change { ", so that the change may or may not be in force" } else { "" }
        )),
        ClientError::Connection { message, .. } => {
            Failure::of_weir(format!("the connection to session {name} failed: {message}"))
        }
        ClientError::Answer(why) => Failure::of_weir(format!(
            "session {name} and this command do not understand each other ({why}); do both have \
             the same version?"
        )),
    }
}

/// The longest wait for an answer. A session waits at most five seconds for its links.
const WITHIN: Duration = Duration::from_secs(8);
/// The name of the daemon, which [`SessionView::name`] has, too.
pub(super) const SERVE: &str = "serve";
