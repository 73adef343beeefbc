//! The interface between the links of a session and their control socket.
//!
//! A session is a command that runs links: `weir run`, `pair`, `bridge`, `live`, `attach`, `agent`.
//! It has named links and no saved state. The daemon is a session too, without links to change.
//! Calls come from several threads. A call that needs an answer of the thread that moves packets
//! gives up after a while.

use crate::api::{ChangeReply, ChangeRequest, Readings, SessionView};

/// Why a session does not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There is no link with this name.
    #[error("there is no link {name}; {known}")]
    NoSuchLink {
        /// The requested name.
        name: String,
        /// The existing links, as text.
        known: String,
    },
    /// The links cannot do that.
    #[error("{0}")]
    Impossible(String),
    /// The loop that forwards packets gave no answer in time.
    #[error("the loop that forwards packets did not answer in time; the machine may be overloaded")]
    Late,
    /// The links have ended.
    #[error("the links of this session have ended")]
    Ended,
}

/// The links of a running session.
pub trait Session: Send + Sync + 'static {
    /// The session with its links. The call never waits for the thread that moves packets.
    fn view(&self) -> SessionView;

    /// Changes the links in the comma-separated list `link`; without a list, all links. Packets
    /// inside stay. If the reply is not `applied`, its diagnostics say why nothing was changed.
    ///
    /// # Errors
    /// See [`SessionError`].
    fn change(
        &self,
        link: Option<&str>,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, SessionError>;

    /// Puts the links that `link` names (as in [`Self::change`]) back to the specifications of the
    /// session's start. With rules, all rules return to those of the start.
    ///
    /// # Errors
    /// See [`SessionError`].
    fn reset(&self, link: Option<&str>) -> Result<ChangeReply, SessionError>;

    /// The results so far, as a results document in JSON.
    ///
    /// # Errors
    /// See [`SessionError`].
    fn results(&self) -> Result<String, SessionError>;

    /// The counters of all links so far.
    ///
    /// # Errors
    /// See [`SessionError`].
    fn readings(&self) -> Result<Readings, SessionError>;

    /// Ends the session as SIGTERM does. Returns at once.
    fn stop(&self);
}
