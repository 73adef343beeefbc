//! The daemon as a session: `weir ps` lists it, and `weir stats` and `weir stop` work as for other
//! sessions.
//!
//! The links cannot be changed through this session. The commands of the daemon save their changes.
//! Changes through the session would not be saved, and would be lost at the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_control::api::{ChangeReply, ChangeRequest, Readings, SessionKind, SessionView};
use weir_control::session::{Session, SessionError};
use weir_report::{RunInfo, RunResult, to_json};

use super::plane::LivePlane;
use crate::readings::readings;
use crate::remote::unanswered;

/// A daemon as its control socket shows it.
#[derive(Debug)]
pub struct DaemonSession {
    plane: Arc<LivePlane>,
    began: Instant,
    since: String,
    seed: u64,
    /// Set when a client stops the session.
    stop: Arc<AtomicBool>,
}

impl DaemonSession {
    /// The session of a daemon with links that have just started. `since` is the time of the start
    /// in the form of RFC 3339. A client that stops the session sets `stop`.
    #[must_use]
    pub fn new(plane: Arc<LivePlane>, since: String, seed: u64, stop: Arc<AtomicBool>) -> Self {
        Self { plane, began: Instant::now(), since, seed, stop }
    }

    fn program(&self) -> String {
        self.plane.pairs().map(|pair| pair.join(",")).collect::<Vec<_>>().join(" ")
    }
}

impl Session for DaemonSession {
    fn view(&self) -> SessionView {
        SessionView {
            name: SessionKind::Serve.to_string(),
            kind: SessionKind::Serve,
            program: self.program(),
            pid: Some(std::process::id()),
            since: self.since.clone(),
            uptime_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            rules: true,
            links: Vec::new(),
            problems: Vec::new(),
            nodes: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn change(&self, _: Option<&str>, _: &ChangeRequest) -> Result<ChangeReply, SessionError> {
        Err(SessionError::Impossible(NO_CHANGE.to_owned()))
    }

    fn reset(&self, _: Option<&str>) -> Result<ChangeReply, SessionError> {
        Err(SessionError::Impossible(NO_CHANGE.to_owned()))
    }

    fn results(&self) -> Result<String, SessionError> {
        let snapshot = match self.plane.control() {
            Some(control) => control.snapshot().map_err(unanswered)?,
            None => Default::default(),
        };
        let info = RunInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.since.clone(),
            duration_ns: snapshot.elapsed.0,
            seed: self.seed,
            ..RunInfo::default()
        };
        let result =
            RunResult::new(info, snapshot.links).with_rules(snapshot.rules, snapshot.pipes);
        Ok(to_json(&result))
    }

    fn readings(&self) -> Result<Readings, SessionError> {
        match self.plane.control() {
            Some(control) => readings(&control).map_err(unanswered),
            None => Ok(Readings::default()),
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Why the links of a daemon cannot be changed through its session.
const NO_CHANGE: &str = "a daemon saves its changes, so its own commands make them, such as \
                         `weir pipe 1 config bw 2Mbit/s`";
