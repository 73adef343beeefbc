//! A blocking client of a session's control socket, for the command line and for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde::Serialize;

use crate::api::{ChangeReply, ChangeRequest, Readings, SessionView};
use crate::client::{Client, ClientError, Connection, decode, escape, refusal};

/// A client of one session. It keeps a connection, which it opens with the first request.
#[derive(Debug)]
pub struct SessionClient {
    path: PathBuf,
    connection: Connection,
    /// The path that precedes each resource.
    prefix: &'static str,
}

impl SessionClient {
    /// Returns a client of the session that listens on this socket. The client waits at most
    /// `within` for each answer.
    ///
    /// # Errors
    /// The system cannot provide the resources for it.
    pub fn new(path: impl Into<PathBuf>, within: Duration) -> Result<Self, ClientError> {
        let path = path.into();
        let connection = Client::new(&path).time_out(within).keep()?;
        Ok(Self { path, connection, prefix: "" })
    }

    /// Returns a client of the session of the daemon that listens on this socket. Otherwise as
    /// [`Self::new`].
    ///
    /// # Errors
    /// The system cannot provide the resources for it.
    pub fn of_daemon(path: impl Into<PathBuf>, within: Duration) -> Result<Self, ClientError> {
        Ok(Self { prefix: DAEMON_PREFIX, ..Self::new(path, within)? })
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The session with its links. Its `pid` is the process ID in the PID namespace of this
    /// process.
    ///
    /// # Errors
    /// The session has ended, belongs to another user, or does not answer. The other requests fail
    /// in the same cases.
    pub fn view(&mut self) -> Result<SessionView, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, "/v1/session", &[])?;
        accepted(status, &bytes)?;
        Ok(SessionView { pid: self.connection.listener(), ..decode(&bytes)? })
    }

    /// Changes the links in the comma-separated list `link`; without a list, all links. If the
    /// reply is not `applied`, it states the reason.
    ///
    /// # Errors
    /// As with [`Self::view`]; [`ClientError::Refused`] with 404 if there is no such link, and with
    /// 409 if the link cannot do that.
    pub fn change(
        &mut self,
        link: Option<&str>,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, ClientError> {
        let path =
            link.map_or("/v1/links".to_owned(), |name| format!("/v1/links/{}", escape(name)));
        self.changed(&Method::PATCH, &path, Some(request))
    }

    /// Puts the links that `link` names (as in [`Self::change`]) back to the specifications of the
    /// session's start.
    ///
    /// # Errors
    /// As with [`Self::change`].
    pub fn reset(&mut self, link: Option<&str>) -> Result<ChangeReply, ClientError> {
        let path =
            link.map_or("/v1/reset".to_owned(), |name| format!("/v1/links/{}/reset", escape(name)));
        self.changed(&Method::POST, &path, None::<&()>)
    }

    /// The results so far, as a results document in JSON.
    ///
    /// # Errors
    /// As with [`Self::view`].
    pub fn results(&mut self) -> Result<String, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, "/v1/results", &[])?;
        accepted(status, &bytes)?;
        String::from_utf8(bytes.into()).map_err(|error| ClientError::Answer(error.to_string()))
    }

    /// The counters of all links so far.
    ///
    /// # Errors
    /// As with [`Self::view`].
    pub fn readings(&mut self) -> Result<Readings, ClientError> {
        let (status, bytes) = self.exchange(&Method::GET, "/v1/readings", &[])?;
        accepted(status, &bytes).and_then(|()| decode(&bytes))
    }

    /// Asks the session to end, as SIGTERM does. Returns before it has ended.
    ///
    /// # Errors
    /// As with [`Self::view`].
    pub fn stop(&mut self) -> Result<(), ClientError> {
        let (status, bytes) = self.exchange(&Method::POST, "/v1/stop", &[])?;
        accepted(status, &bytes)
    }

    /// Sends a change, and returns the reply.
    fn changed(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<ChangeReply, ClientError> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| ClientError::Answer(error.to_string()))?;
        let (status, bytes) = self.exchange(method, path, body.as_deref().unwrap_or_default())?;
        match status {
            StatusCode::UNPROCESSABLE_ENTITY => decode(&bytes),
            _ => accepted(status, &bytes).and_then(|()| decode(&bytes)),
        }
    }

    fn exchange(
        &mut self,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<(StatusCode, Bytes), ClientError> {
        self.connection.exchange(method, &format!("{}{path}", self.prefix), body)
    }
}

/// The path that precedes the resources of a session in the API of the daemon.
pub(crate) const DAEMON_PREFIX: &str = "/session";

fn accepted(status: StatusCode, bytes: &Bytes) -> Result<(), ClientError> {
    if status.is_success() { Ok(()) } else { Err(refusal(status, bytes)) }
}
