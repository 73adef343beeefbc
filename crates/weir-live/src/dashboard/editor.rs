//! Changes of the daemon's configuration, and their history. The history is derived from revisions,
//! because other clients change the configuration too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::api::{CommandReply, CommandRequest, DiagnosticView, SeverityView};
use weir_control::dashboard::{ChangeView, Edit, EditError, Edited, Log, differences};
use weir_control::owner::{Answer, Current, Onto, Owner, OwnerError};
use weir_linux::clock;
use weir_rules::ruleset::Ruleset;
use weir_rules::{Distinct, MOST_MEMORY};

pub(super) struct Editor {
    owner: Owner,
    seen: Mutex<Seen>,
}

/// The changes so far, derived from the revisions of the configuration.
struct Seen {
    /// The configuration at the last call of [`Editor::look`].
    current: Current,
    log: Log<Before>,
}

/// The configuration before a change.
struct Before {
    revision: u64,
    ruleset: Arc<Ruleset>,
}

impl Editor {
    pub(super) fn new(owner: Owner) -> Self {
        let seen = Seen { current: owner.current(), log: Log::default() };
        Self { owner, seen: Mutex::new(seen) }
    }

    /// The configuration in force.
    pub(super) fn current(&self) -> Current {
        self.owner.current()
    }

    /// The changes with numbers above `after`, and the number of changes that are no longer kept.
    pub(super) fn changes(&self, after: u64) -> (Vec<ChangeView>, u64) {
        self.look(None, None);
        self.seen().log.after(after)
    }

    /// Checks or executes commands.
    pub(super) fn edit(&self, edit: &Edit) -> Result<Edited, EditError> {
        // Changes that other clients have made meanwhile become a separate change.
        self.look(None, None);
        let request = CommandRequest {
            script: edit.words.clone(),
            name: None,
            files: edit.files.clone(),
            check_only: edit.check_only,
        };
        let answer = self.owner.submit(self.owner.prepare(&request), Onto::Current);
        let reply = answer.and_then(Answer::wait).map_err(refused)?;
        let change = (!edit.check_only).then(|| self.look(Some(&edit.words), None));
        Ok(edited(reply, edit.check_only, change))
    }

    pub(super) fn undo(&self, number: u64) -> Result<Edited, EditError> {
        self.look(None, None);
        let (what, ruleset) = {
            let seen = self.seen();
            let (change, before) = seen.log.undoable(number)?;
            // The store keeps a configuration's files only as long as its revision.
            if before.revision + KEPT < seen.current.revision {
                let why = "too many changes were made since; the files of that configuration may \
                           be gone";
                return Err(EditError::Impossible(why.to_owned()));
            }
            (format!("undo of: {}", change.what), Arc::clone(&before.ruleset))
        };
        let edited = self.restore(ruleset, &what, Some(number))?;
        self.seen().log.undone(number);
        Ok(edited)
    }

    /// Puts an earlier configuration in force again.
    pub(super) fn restore(
        &self,
        ruleset: Arc<Ruleset>,
        what: &str,
        undoes: Option<u64>,
    ) -> Result<Edited, EditError> {
        let answer = self.owner.restore(ruleset);
        let reply = answer.and_then(Answer::wait).map_err(refused)?;
        let change = self.look(Some(what), undoes);
        Ok(edited(reply, false, Some(change)))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the differences since the last call to the log as one change, and returns the number of
    /// the newest change. `what` has the words of a change that was just made.
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
        // A change that takes another one back cannot be taken back itself.
        let number = seen.log.add(change, undoes.is_none().then_some(back));
        // Earlier configurations may hold large tables, so the memory of all of them is limited.
        let mut values = Distinct::default();
        seen.log.limit(|back| {
            (*back.ruleset).clone().share_with(&mut values);
            values.bytes() <= MOST_MEMORY
        });
        number
    }
}

/// The result of a change or check, for the page.
fn edited(reply: CommandReply, check_only: bool, change: Option<u64>) -> Edited {
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
        OwnerError::TooLong { .. } => EditError::Impossible(error.to_string()),
        error => EditError::Busy(error.to_string()),
    }
}

/// Number of revisions for which the store keeps files, less one for a change in progress.
const KEPT: u64 = weir_control::store::KEPT_REVISIONS as u64 - 1;
