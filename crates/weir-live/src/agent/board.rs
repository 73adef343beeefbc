//! The containers that the agent shapes, as its control socket shows and changes them: one session
//! with the links of all containers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weir_control::api::{
    ChangeReply, ChangeRequest, Readings, SessionKind, SessionLink, SessionView,
};
use weir_control::directory::Name;
use weir_control::session::{Session, SessionError};
use weir_report::{RunInfo, RunResult, to_json};

use crate::changes::{Changed, Changes, Refusal, changed, known_links, named};
use crate::readings::{readings, shown};
use crate::remote::{About, answer};
use crate::session::Link;

/// The state that the agent and its control socket share.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Rows>>);

/// The containers and problems that the control socket shows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The links of the shaped containers, by the container's name.
    pub(super) shaped: BTreeMap<String, Changes>,
    /// Why other containers are not shaped, and why container engines and runtimes do not answer,
    /// by the name of the container, engine or runtime.
    pub(super) problems: BTreeMap<String, String>,
}

impl Board {
    pub(super) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The containers that have links in `links`, a list of names with commas. Each container comes
    /// with the names of its links from the list. If `links` is `None`, returns all containers,
    /// each with `None` for all its links.
    fn of(&self, links: Option<&str>) -> Result<Vec<(Changes, Option<String>)>, SessionError> {
        let all: Vec<Changes> = self.rows().shaped.values().cloned().collect();
        if links.is_none() {
            return Ok(all.into_iter().map(|container| (container, None)).collect());
        }
        let of_all: Vec<Vec<Link>> = all.iter().map(Changes::links).collect();
        let joined: Vec<Link> = of_all.iter().flatten().cloned().collect();
        let chosen = named(&joined, links).map_err(|refusal| match refusal {
            Refusal::NoSuchLink { name, mut known } => {
                known.truncate(MOST_NAMES);
                SessionError::NoSuchLink { name, known: known_links(&known) }
            }
            refusal => SessionError::Impossible(refusal.to_string()),
        })?;
        let is_chosen = |link: &&Link| chosen.iter().any(|one| one.name == link.name);
        let names = |own: &Vec<Link>| -> Vec<String> {
            own.iter().filter(is_chosen).map(|link| link.name.clone()).collect()
        };
        let each = all.into_iter().zip(of_all.iter().map(names));
        let some = each.filter(|(_, names)| !names.is_empty());
        Ok(some.map(|(container, names)| (container, Some(names.join(",")))).collect())
    }
}

/// The agent as a session.
pub(super) struct Remote {
    pub(super) board: Board,
    pub(super) name: Name,
    pub(super) about: About,
    pub(super) began: Instant,
    pub(super) stop: Box<dyn Fn() + Send + Sync>,
}

impl Remote {
    /// Changes the links that a request names, one container after another, and joins the replies.
    /// A request without names changes all links, except those of containers that end before their
    /// turn.
    fn each(
        &self,
        links: Option<&str>,
        change: impl Fn(&Changes, Option<&str>) -> Result<Changed, Refusal>,
    ) -> Result<ChangeReply, SessionError> {
        let mut all = ChangeReply { applied: true, ..ChangeReply::default() };
        for (container, own) in self.board.of(links)? {
            match answer(change(&container, own.as_deref())) {
                Ok(reply) if !reply.applied => return Ok(reply),
                Ok(reply) => {
                    all.links.extend(reply.links);
                    if all.rendered.is_empty() {
                        (all.rendered, all.diagnostics) = (reply.rendered, reply.diagnostics);
                    }
                }
                Err(SessionError::Ended) if links.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

impl Session for Remote {
    fn view(&self) -> SessionView {
        let rows = self.board.rows();
        let links: Vec<SessionLink> =
            rows.shaped.values().flat_map(Changes::links).map(|link| shown(&link)).collect();
        let problems = rows.problems.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        drop(rows);
        SessionView {
            name: self.name.to_string(),
            kind: SessionKind::Agent,
            program: self.about.command.join(" "),
            pid: Some(std::process::id()),
            since: self.about.since.clone(),
            uptime_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            rules: false,
            links,
            problems,
            nodes: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn change(
        &self,
        link: Option<&str>,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, SessionError> {
        // The words are first tried on every named link, so that wrong words change no link.
        let of = |(container, _): &(Changes, Option<String>)| container.links();
        let links: Vec<Link> = self.board.of(link)?.iter().flat_map(of).collect();
        if let Err(refusal) = changed(&links, link, &request.words, &request.files) {
            return answer(Err(refusal));
        }
        self.each(link, |container, own| container.change(own, &request.words, &request.files))
    }

    fn reset(&self, link: Option<&str>) -> Result<ChangeReply, SessionError> {
        self.each(link, Changes::reset)
    }

    fn results(&self) -> Result<String, SessionError> {
        let mut info = RunInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.about.command.clone(),
            started: self.about.since.clone(),
            duration_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            seed: self.about.seed,
            ..RunInfo::default()
        };
        let mut links = Vec::new();
        for (container, _) in self.board.of(None)? {
            // A container that has ended by now is left out.
            if let Ok(snapshot) = container.control().snapshot() {
                links.extend(snapshot.links);
                info.notes.extend(container.notes());
            }
        }
        let rows = self.board.rows();
        let problems = rows.problems.iter().map(|(name, why)| format!("{name}: {why}"));
        info.warnings.extend(problems);
        Ok(to_json(&RunResult::new(info, links)))
    }

    fn readings(&self) -> Result<Readings, SessionError> {
        let at_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut all = Readings { at_ns, links: Vec::new() };
        for (container, _) in self.board.of(None)? {
            // A container that has ended by now is left out.
            if let Ok(own) = readings(container.control()) {
                all.links.extend(own.links);
            }
        }
        Ok(all)
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

/// Maximum number of names in an error.
const MOST_NAMES: usize = 20;
