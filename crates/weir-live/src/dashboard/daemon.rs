//! The daemon, as its page shows and changes it. Changes take the path of all commands: they are
//! saved before they are in force.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_control::api::{CommandReply, CommandRequest, DiagnosticView, RuleView, SeverityView};
use weir_control::dashboard::{
    ChangeView, Condition, Count, Depth, Edit, EditError, Edited, Group, Language, Log, Member,
    Object, ObjectView, Objects, Source, differences, has_ruled, rule_views, ruled_objects,
};
use weir_control::owner::{Current, Onto, Owner, OwnerError};
use weir_control::plane::NoAnswer as Unanswered;
use weir_linux::clock;
use weir_rules::ruleset::Ruleset;

use super::counts::{self, LaneName};
use super::members;
use super::session::{condition, lane_view, unanswered};
use crate::daemon::LivePlane;

/// The page of a daemon.
pub struct DaemonDashboard {
    plane: Arc<LivePlane>,
    owner: Owner,
    lanes: OnceLock<Vec<LaneName>>,
    seen: Mutex<Seen>,
}

/// The changes so far, as revisions show them: other clients change the configuration too.
struct Seen {
    current: Current,
    log: Log<Before>,
}

/// The configuration before a change.
struct Before {
    revision: u64,
    ruleset: Arc<Ruleset>,
}

impl std::fmt::Debug for DaemonDashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaemonDashboard").finish_non_exhaustive()
    }
}

impl DaemonDashboard {
    /// The page of a daemon that runs.
    #[must_use]
    pub fn new(plane: Arc<LivePlane>, owner: Owner) -> Self {
        let seen = Seen { current: owner.current(), log: Log::default() };
        Self { plane, owner, lanes: OnceLock::new(), seen: Mutex::new(seen) }
    }

    fn lanes(&self) -> &[LaneName] {
        if let Some(lanes) = self.lanes.get() {
            return lanes;
        }
        match self.plane.control().as_ref().map(counts::lanes) {
            Some(Ok(lanes)) => self.lanes.get_or_init(|| lanes),
            _ => &[],
        }
    }

    fn ruleset(&self) -> Arc<Ruleset> {
        self.owner.current().ruleset
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the log what has changed since the last look, and returns the number of the newest
    /// change. `what` has the words of a change that was just made.
    fn look(&self, what: Option<&str>, undoes: Option<u64>) -> u64 {
        let mut seen = self.seen();
        let now = self.owner.current();
        if now.revision == seen.current.revision {
            return seen.log.count();
        }
        let before = std::mem::replace(&mut seen.current, now.clone());
        let (gone, new) = differences(&before.ruleset, &now.ruleset);
        let of_lines = || if new.is_empty() { format!("deleted: {gone}") } else { new.clone() };
        let change = ChangeView {
            at_ns: clock::now().0,
            what: what.map_or_else(of_lines, str::to_owned).trim().to_owned(),
            undoes,
            before: gone,
            after: new,
            ..ChangeView::default()
        };
        let back = Before { revision: before.revision, ruleset: before.ruleset };
        // A change that takes another one back is not taken back itself.
        seen.log.add(change, undoes.is_none().then_some(back))
    }

    fn edited(&self, reply: CommandReply, check_only: bool, change: Option<u64>) -> Edited {
        let is_error = |one: &DiagnosticView| one.severity == SeverityView::Error;
        Edited {
            accepted: !reply.diagnostics.iter().any(is_error),
            applied: reply.applied && !check_only,
            change: change.filter(|_| reply.applied && !check_only),
            revision: reply.revision,
            rendered: reply.diagnostics.iter().map(line_of).collect(),
            diagnostics: reply.diagnostics,
            notices: reply.notices,
            commands: reply.outcomes.into_iter().map(|outcome| outcome.command).collect(),
            ..Edited::default()
        }
    }
}

impl Source for DaemonDashboard {
    fn language(&self) -> Language {
        Language::Commands
    }

    fn revision(&self) -> u64 {
        self.owner.current().revision
    }

    fn objects(&self, most: usize) -> Objects {
        let lane = |lane: &LaneName| lane_view(lane, &Object::Lane(lane.name.as_str().into()));
        let mut objects: Vec<ObjectView> = self.lanes().iter().map(lane).collect();
        objects.truncate(most);
        let current = self.owner.current();
        let (ruled, total) = ruled_objects(&current.ruleset, most - objects.len());
        let total = self.lanes().len() as u64 + total;
        objects.extend(ruled);
        Objects { revision: current.revision, total, objects }
    }

    fn has(&self, object: &Object) -> bool {
        match object {
            Object::Lane(name) => self.lanes().iter().any(|lane| lane.name == **name),
            ruled => has_ruled(&self.ruleset(), ruled),
        }
    }

    fn read(&self, wanted: &[Object], depth: Depth) -> Result<Vec<(Object, Count)>, Unanswered> {
        let Some(control) = self.plane.control() else { return Ok(Vec::new()) };
        counts::read(&control, wanted, depth).map_err(unanswered)
    }

    fn members(&self, group: Group) -> Result<Vec<Member>, Unanswered> {
        let Some(control) = self.plane.control() else { return Ok(Vec::new()) };
        members::members(&control, &self.ruleset(), group).map_err(unanswered)
    }

    fn rule_views(&self) -> Result<Vec<RuleView>, Unanswered> {
        let rules = self.ruleset();
        match self.plane.control() {
            Some(control) => counts::rule_views(&control, &rules).map_err(unanswered),
            None => Ok(rule_views(&rules, [])),
        }
    }

    fn condition(&self) -> Condition {
        let problems = self.plane.notices();
        match self.plane.control() {
            Some(control) => condition(control.within_a_second(), problems),
            None => Condition { status: "ok", problems, ..Condition::default() },
        }
    }

    fn edit(&self, edit: &Edit) -> Result<Edited, EditError> {
        if edit.link.is_some() {
            let why = "a daemon has no links with names; its changes are commands such as `pipe 1 \
                       config bw 2Mbit/s`";
            return Err(EditError::Impossible(why.to_owned()));
        }
        // What others have changed meanwhile is a change of its own.
        self.look(None, None);
        let request = CommandRequest {
            script: edit.words.clone(),
            name: None,
            files: edit.files.clone(),
            check_only: edit.check_only,
        };
        let answer = self.owner.submit(self.owner.prepare(&request), Onto::Current);
        let reply = answer.and_then(weir_control::owner::Answer::wait).map_err(refused)?;
        let change = (!edit.check_only).then(|| self.look(Some(&edit.words), None));
        Ok(self.edited(reply, edit.check_only, change))
    }

    fn undo(&self, number: u64) -> Result<Edited, EditError> {
        self.look(None, None);
        let (what, ruleset) = {
            let seen = self.seen();
            let (change, before) = seen.log.undoable(number)?;
            // Files that the configuration names are kept as long as its revision is.
            if before.revision + KEPT < seen.current.revision {
                let why = "too many changes were made since; the files of that configuration may \
                           be gone";
                return Err(EditError::Impossible(why.to_owned()));
            }
            (format!("undo of: {}", change.what), Arc::clone(&before.ruleset))
        };
        let answer = self.owner.restore(ruleset);
        let reply = answer.and_then(weir_control::owner::Answer::wait).map_err(refused)?;
        let change = self.look(Some(&what), Some(number));
        self.seen().log.undone(number);
        Ok(self.edited(reply, false, Some(change)))
    }

    fn changes(&self, after: u64) -> (Vec<ChangeView>, u64) {
        self.look(None, None);
        self.seen().log.after(after)
    }
}

fn line_of(diagnostic: &DiagnosticView) -> String {
    let severity = match diagnostic.severity {
        SeverityView::Error => "error",
        SeverityView::Warning => "warning",
        SeverityView::Note => "note",
    };
    format!("{severity}: line {}: {}\n", diagnostic.line, diagnostic.message)
}

fn refused(error: OwnerError) -> EditError {
    match error {
        OwnerError::NotSaved { message, full } => EditError::NotSaved { message, full },
        error => EditError::Busy(error.to_string()),
    }
}

/// Revisions whose files the store keeps, less one for a change that is on its way.
const KEPT: u64 = weir_control::store::KEPT_REVISIONS as u64 - 1;
