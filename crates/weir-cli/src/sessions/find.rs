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
pub(crate) fn sockets() -> Vec<Found> {
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
        // Only root and the daemon's user may see the daemon, and daemons of earlier versions have
        // no session.
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
                format!("there is no session `{name}`; {}", running_in_words(all)),
            )),
        },
        (None, [only]) => {
            let asked = ask(only)?;
            say(format_args!("weir: session {}\n", only.name));
            Ok(asked)
        }
        (None, all) => {
            let what = if all.is_empty() { "" } else { "name a session: " };
            Err(Failure::new(USAGE, format!("{what}{}", running_in_words(all))))
        }
    }
}

/// The agents of this user that run and answer.
pub(crate) fn agents() -> Vec<SessionView> {
    let mut views = views(&sockets());
    views.retain(|view| view.kind == SessionKind::Agent);
    views
}

/// Asks a session for its state.
pub(super) fn ask(found: &Found) -> Result<Asked, Failure> {
    try_ask(found).map_err(|error| failure(found.name.as_str(), &error))
}

/// The states of the sessions in `found` that answer.
pub(super) fn views(found: &[Found]) -> Vec<SessionView> {
    ask_all(found).into_iter().filter_map(|asked| Some(asked.ok()?.view)).collect()
}

/// Asks these sessions, up to [`ASKED_AT_ONCE`] at the same time, so that those that do not answer
/// share one timeout. When this function returns, its threads have ended.
pub(super) fn ask_all(found: &[Found]) -> Vec<Result<Asked, ClientError>> {
    let ask_some = |found: &[Found]| {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                found.iter().map(|found| scope.spawn(|| try_ask(found))).collect();
            let results = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            results.collect::<Vec<_>>()
        })
    };
    found.chunks(ASKED_AT_ONCE).flat_map(ask_some).collect()
}

/// Does the same as [`ask`], but returns the client's error.
fn try_ask(found: &Found) -> Result<Asked, ClientError> {
    let mut client = SessionClient::new(&found.path, WITHIN)?;
    let view = client.view()?;
    Ok(Asked { client, view })
}

/// The running sessions, in words.
pub(crate) fn running_in_words(found: &[Found]) -> String {
    let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    match names.as_slice() {
        [] => {
            "no links run; `weir run`, `pair`, `bridge`, `live` and `attach` start some".to_owned()
        }
        [one] => format!("{one} is the only session that runs"),
        several => format!("there are {}", several.join(", ")),
    }
}

/// The failure of a request to a session.
pub(crate) fn failure(name: &str, error: &ClientError) -> Failure {
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

/// Whether the error says that the session has ended.
pub(crate) fn has_ended(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoDaemon { .. }
            | ClientError::Connection { .. }
            | ClientError::Refused { status: 410, .. }
    )
}

/// The longest wait for an answer. A session waits at most five seconds for its links.
const WITHIN: Duration = Duration::from_secs(8);
/// Maximum number of sessions that are asked at the same time.
const ASKED_AT_ONCE: usize = 100;
/// The name of the daemon, as in [`SessionView::name`].
pub(super) const SERVE: &str = "serve";

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn all_sessions_are_asked_at_the_same_time() {
        let directory = std::env::temp_dir().join(format!("weir-find-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let found = ["one", "two", "three"]
            .map(|name| Found { name: name.parse().expect("a name"), path: directory.join(name) });
        let listeners =
            found.each_ref().map(|found| UnixListener::bind(&found.path).expect("a free name"));
        let answering = std::thread::spawn(move || {
            // No session answers before all have been asked.
            let asked: Vec<UnixStream> = listeners
                .iter()
                .map(|listener| {
                    let (stream, _) = listener.accept().expect("a client connects");
                    let mut lines = BufReader::new(&stream).lines();
                    while lines.next().is_some_and(|line| !line.expect("text").is_empty()) {}
                    stream
                })
                .collect();
            for mut stream in asked {
                stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    .expect("the client reads");
            }
        });
        let answers = ask_all(&found);
        let answered = |answer: &_| matches!(answer, Err(ClientError::Refused { status: 404, .. }));
        assert!(answers.len() == 3 && answers.iter().all(answered), "{answers:?}");
        answering.join().expect("the sessions answer");
        std::fs::remove_dir_all(&directory).expect("it exists");
    }
}
