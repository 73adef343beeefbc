//! The links or rules of a session, as its page shows and changes them.

use std::sync::OnceLock;

use weir_control::api::{RuleView, SessionLink};
use weir_control::dashboard::{
    ChangeView, Condition, Count, Depth, Edit, EditError, Edited, Group, Language, Member, Object,
    ObjectView, Objects, PlanError, PlanStep, PlanView, Planner, Source, TraceError, TraceQuestion,
    Traced, has_ruled, link_rate, ruled_objects, step_views,
};
use weir_control::plane::NoAnswer as Unanswered;
use weir_linux::clock;
use weir_linux::live::NoAnswer;
use weir_rules::{NoFiles, canonical};

use super::counts::{self, LaneName, Shape, unanswered};
use super::{members, plan, trace};
use crate::changes::{Changes, Refusal, Saved};
use crate::plan::Start;
use crate::readings::shown;

/// The page of a session.
#[derive(Debug)]
pub struct SessionDashboard {
    changes: Changes,
    shape: Shape,
    lanes: OnceLock<Vec<LaneName>>,
    planner: Planner,
}

impl SessionDashboard {
    /// The page of a session that runs.
    #[must_use]
    pub fn new(changes: Changes) -> Self {
        let shape = counts::shape(changes.control());
        Self { changes, shape, lanes: OnceLock::new(), planner: Planner::default() }
    }

    /// The lanes, which never change; empty until the loop has answered once.
    fn lanes(&self) -> &[LaneName] {
        if let Some(lanes) = self.lanes.get() {
            return lanes;
        }
        match counts::lanes(self.changes.control()) {
            Ok(lanes) => self.lanes.get_or_init(|| lanes),
            Err(_) => &[],
        }
    }
}

/// A lane as an object.
pub(super) fn lane_view(lane: &LaneName, object: &Object) -> ObjectView {
    ObjectView {
        object: object.to_string(),
        kind: object.kind(),
        name: object.name(),
        from: Some(lane.from.clone()),
        to: Some(lane.to.clone()),
        ..ObjectView::default()
    }
}

impl Source for SessionDashboard {
    fn language(&self) -> Language {
        if self.changes.by_rules() { Language::Commands } else { Language::Links }
    }

    fn revision(&self) -> u64 {
        self.changes.count()
    }

    fn objects(&self, most: usize) -> Objects {
        let mut objects: Vec<ObjectView> = Vec::new();
        let mut more = 0;
        match self.shape {
            Shape::Rules => {
                let lane =
                    |lane: &LaneName| lane_view(lane, &Object::Lane(lane.name.as_str().into()));
                objects.extend(self.lanes().iter().map(lane));
                if let Some(rules) = self.changes.control().rules() {
                    let (ruled, total) = ruled_objects(&rules, most.saturating_sub(objects.len()));
                    more = total - ruled.len() as u64;
                    objects.extend(ruled);
                }
            }
            Shape::Links | Shape::Scenario => {
                let ends = self.changes.control().link_ends();
                for link in self.changes.links() {
                    let object = Object::Link(link.name.as_str().into());
                    let lane = self
                        .lanes()
                        .iter()
                        .find(|lane| self.shape == Shape::Links && lane.name == link.name);
                    let [from, to] = match (lane, ends.iter().find(|(name, _)| *name == link.name))
                    {
                        (Some(lane), _) => [Some(lane.from.clone()), Some(lane.to.clone())],
                        (None, Some((_, ends))) => ends.clone().map(Some),
                        (None, None) => [None, None],
                    };
                    objects.push(ObjectView {
                        object: object.to_string(),
                        kind: object.kind(),
                        name: link.name.clone(),
                        from,
                        to,
                        whole: link.whole.clone(),
                        spec: canonical(&link.spec),
                        rate_bps: link_rate(&link.spec),
                        delay_ns: link.spec.pipe.link.delay.0,
                        aqm: link.spec.pipe.queue.aqm.as_ref().map(Into::into),
                        ..ObjectView::default()
                    });
                }
                if self.shape == Shape::Scenario {
                    let path =
                        |lane: &LaneName| lane_view(lane, &Object::Path(lane.name.as_str().into()));
                    objects.extend(self.lanes().iter().map(path));
                }
            }
        }
        let total = objects.len() as u64 + more;
        objects.truncate(most);
        Objects { revision: self.revision(), total, objects }
    }

    fn has(&self, object: &Object) -> bool {
        let lane = |name: &str| self.lanes().iter().any(|lane| lane.name == name);
        match object {
            Object::Link(name) => self.changes.links().iter().any(|link| link.name == **name),
            Object::Path(name) => self.shape == Shape::Scenario && lane(name),
            Object::Lane(name) => self.shape == Shape::Rules && lane(name),
            ruled => {
                let rules = self.changes.control().rules();
                self.shape == Shape::Rules && rules.is_some_and(|rules| has_ruled(&rules, ruled))
            }
        }
    }

    fn read(&self, wanted: &[Object], depth: Depth) -> Result<Vec<(Object, Count)>, Unanswered> {
        counts::read(self.changes.control(), wanted, depth).map_err(unanswered)
    }

    fn members(&self, group: Group) -> Result<Vec<Member>, Unanswered> {
        match self.changes.control().rules() {
            Some(rules) if self.shape == Shape::Rules => {
                members::members(self.changes.control(), &rules, group).map_err(unanswered)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn rule_views(&self) -> Result<Vec<RuleView>, Unanswered> {
        match self.changes.control().rules() {
            Some(rules) if self.shape == Shape::Rules => {
                counts::rule_views(self.changes.control(), &rules).map_err(unanswered)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn condition(&self) -> Condition {
        condition(self.changes.control().within_a_second(), Vec::new())
    }

    fn edit(&self, edit: &Edit) -> Result<Edited, EditError> {
        let link = edit.link.as_deref();
        let done = if edit.check_only {
            self.changes.check(link, &edit.words, &edit.files)
        } else {
            self.changes.change(link, &edit.words, &edit.files)
        };
        self.edited(done, !edit.check_only)
    }

    fn undo(&self, number: u64) -> Result<Edited, EditError> {
        self.edited(self.changes.undo(number)?, true)
    }

    fn changes(&self, after: u64) -> (Vec<ChangeView>, u64) {
        self.changes.log(after)
    }

    fn trace(&self, question: &TraceQuestion) -> Result<Traced, TraceError> {
        if self.shape != Shape::Rules {
            let why = "this session has links and no rules of its own; a packet takes the links \
                       of its direction";
            return Err(TraceError::Impossible(why.to_owned()));
        }
        trace::traced(self.changes.control(), question)
    }

    fn check_plan(&self, text: &str) -> Result<PlanView, PlanError> {
        let saved = self.saved()?;
        let (steps, diagnostics) = plan::read(text, start_of(&saved))?;
        let steps = step_views(&steps);
        Ok(PlanView { text: text.to_owned(), steps, diagnostics, ..PlanView::default() })
    }

    fn start_plan(&self, text: &str) -> Result<PlanView, PlanError> {
        let saved = self.saved()?;
        let (steps, _) = plan::read(text, start_of(&saved))?;
        let changes = self.changes.clone();
        let act = move |step: &PlanStep| {
            let link = step.link.as_deref();
            let done = match &step.words {
                Some(words) => changes.change(link, words, &NoFiles),
                None => changes.restore(&saved, link),
            };
            done.map(drop).map_err(|refusal| refusal.to_string())
        };
        self.planner.start(text, steps, clock::now().0, act)
    }

    fn stop_plan(&self) {
        self.planner.stop();
    }

    fn plan(&self) -> PlanView {
        self.planner.view()
    }
}

/// The configuration with which a plan begins.
fn start_of(saved: &Saved) -> Start<'_> {
    match saved {
        Saved::Links(links) => Start::Links(links),
        Saved::Rules(rules) => Start::Rules(rules),
    }
}

impl SessionDashboard {
    fn saved(&self) -> Result<Saved, PlanError> {
        self.changes.saved().map_err(|refusal| PlanError::Impossible(refusal.to_string()))
    }

    fn edited(
        &self,
        done: Result<crate::changes::Changed, Refusal>,
        applied: bool,
    ) -> Result<Edited, EditError> {
        let views = |diagnostics: &weir_rules::Diagnostics| {
            diagnostics.iter().map(Into::into).collect::<Vec<_>>()
        };
        match done {
            Ok(changed) => Ok(Edited {
                accepted: true,
                applied,
                change: changed.number,
                revision: self.revision(),
                links: changed.links.iter().map(shown).collect::<Vec<SessionLink>>(),
                diagnostics: views(&changed.diagnostics),
                rendered: changed.diagnostics.render(false),
                commands: changed.commands,
                ..Edited::default()
            }),
            Err(Refusal::Words(diagnostics)) => Ok(Edited {
                revision: self.revision(),
                diagnostics: views(&diagnostics),
                rendered: diagnostics.render(false),
                ..Edited::default()
            }),
            Err(error @ Refusal::NoSuchLink { .. }) => Err(EditError::Unknown(error.to_string())),
            Err(Refusal::Impossible(why)) => Err(EditError::Impossible(why)),
            Err(Refusal::NoAnswer(error)) => Err(EditError::Busy(error.to_string())),
        }
    }
}

/// The condition of a loop that gave this report, with further known problems.
pub(super) fn condition(
    report: Result<weir_linux::live::LiveReport, NoAnswer>,
    mut problems: Vec<String>,
) -> Condition {
    match report {
        Ok(report) => {
            let events = report.events.iter();
            problems.extend(events.map(|event| format!("{}: {}", event.interface, event.fault)));
            let status = if problems.is_empty() { "ok" } else { "degraded" };
            Condition { status, problems, realtime: report.realtime, workers: report.workers }
        }
        Err(error) => {
            problems.insert(0, error.to_string());
            Condition { status: "stalled", problems, ..Condition::default() }
        }
    }
}
