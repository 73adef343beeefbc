//! The daemon, as its page shows and changes it. Changes are commands of the daemon, so they are
//! saved before they are in force.

use std::sync::{Arc, OnceLock};

use weir_control::api::RuleView;
use weir_control::dashboard::{
    ChangeView, Condition, Count, Depth, Edit, EditError, Edited, Group, Language, Member, Object,
    ObjectView, Objects, PlanError, PlanStep, PlanView, Planner, Source, TraceError, TraceQuestion,
    Traced, has_ruled, rule_views, ruled_objects, step_views,
};
use weir_control::owner::Owner;
use weir_control::plane::NoAnswer as Unanswered;
use weir_linux::clock;
use weir_rules::ruleset::Ruleset;

use super::counts::{self, LaneName, unanswered};
use super::editor::Editor;
use super::session::{condition, lane_view};
use super::{members, plan, trace};
use crate::daemon::LivePlane;
use crate::plan::Start;

/// The page of a daemon.
pub struct DaemonDashboard {
    plane: Arc<LivePlane>,
    editor: Arc<Editor>,
    lanes: OnceLock<Vec<LaneName>>,
    planner: Planner,
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
        let editor = Arc::new(Editor::new(owner));
        Self { plane, editor, lanes: OnceLock::new(), planner: Planner::default() }
    }

    /// The lanes, which never change; empty until the loop has answered once.
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
        self.editor.current().ruleset
    }
}

impl Source for DaemonDashboard {
    fn language(&self) -> Language {
        Language::Commands
    }

    fn revision(&self) -> u64 {
        self.editor.current().revision
    }

    fn objects(&self, most: usize) -> Objects {
        let lane = |lane: &LaneName| lane_view(lane, &Object::Lane(lane.name.as_str().into()));
        let mut objects: Vec<ObjectView> = self.lanes().iter().map(lane).collect();
        objects.truncate(most);
        let current = self.editor.current();
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
        self.editor.edit(edit)
    }

    fn undo(&self, number: u64) -> Result<Edited, EditError> {
        self.editor.undo(number)
    }

    fn changes(&self, after: u64) -> (Vec<ChangeView>, u64) {
        self.editor.changes(after)
    }

    fn trace(&self, question: &TraceQuestion) -> Result<Traced, TraceError> {
        let Some(control) = self.plane.control() else {
            let why = "the daemon has no bridge, so no packet comes; start it with --bridge";
            return Err(TraceError::Impossible(why.to_owned()));
        };
        trace::traced(&control, question)
    }

    fn check_plan(&self, text: &str) -> Result<PlanView, PlanError> {
        let (steps, diagnostics) = plan::read(text, Start::Rules(&self.ruleset()))?;
        let steps = step_views(&steps);
        Ok(PlanView { text: text.to_owned(), steps, diagnostics, ..PlanView::default() })
    }

    fn start_plan(&self, text: &str) -> Result<PlanView, PlanError> {
        let start = self.ruleset();
        let (steps, _) = plan::read(text, Start::Rules(&start))?;
        let editor = Arc::clone(&self.editor);
        let act = move |step: &PlanStep| made(&editor, &start, step);
        self.planner.start(text, steps, clock::now().0, act)
    }

    fn stop_plan(&self) {
        self.planner.stop();
    }

    fn plan(&self) -> PlanView {
        self.planner.view()
    }
}

/// Carries out a step of a plan.
fn made(editor: &Editor, start: &Arc<Ruleset>, step: &PlanStep) -> Result<(), String> {
    let done = match &step.words {
        Some(words) => editor.edit(&Edit { words: words.clone(), ..Edit::default() }),
        // The identities of rules are never reused, because counters belong to identities.
        None => {
            let next_id = editor.current().ruleset.next_id;
            let back = Ruleset { next_id, ..Ruleset::clone(start) };
            editor.restore(Arc::new(back), "reset to the start of the plan", None)
        }
    };
    match done {
        Ok(edited) if edited.accepted => Ok(()),
        Ok(edited) => Err(edited.rendered.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
