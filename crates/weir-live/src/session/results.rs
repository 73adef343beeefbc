//! The results of a session, while it runs and after its end.

use std::time::SystemTime;

use weir_core::Nanos;
use weir_core::stats::LinkStats;
use weir_linux::live::{LiveReport, StopReason};
use weir_linux::topology::{End, Note};
use weir_measure::series::LinkSeries;
use weir_report::{CaptureReport, LinkResult, PipeResult, RuleResult, RunInfo, RunResult};

use super::config::NamedLink;
use super::state::State;
use crate::links::{link_result, with_configured};
use crate::rules;

/// The results of a session up to one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time since the links started.
    pub elapsed: Nanos,
    /// The result of each lane, in the order of the lanes. In a scenario, the results of its links
    /// come first, and each lane is a path over them.
    pub links: Vec<LinkResult>,
    /// The result of each rule; empty in a session without rules, and in a scenario.
    pub rules: Vec<RuleResult>,
    /// The result of each pipe and scheduler of the rules; empty in a session without rules, and in
    /// a scenario.
    pub pipes: Vec<PipeResult>,
}

/// The results of a session that has ended.
#[derive(Debug)]
pub struct Finished {
    pub(super) report: LiveReport,
    /// The end of each port, in the order of the ports.
    pub(super) ends: Vec<End>,
    pub(super) snapshot: Snapshot,
    pub(super) capture: Option<CaptureReport>,
    pub(super) started: SystemTime,
    /// The notes of [`Place::close`](super::Place::close).
    pub(super) leftovers: Vec<Note>,
}

impl Finished {
    /// The report of the live loop.
    #[must_use]
    pub fn report(&self) -> &LiveReport {
        &self.report
    }

    /// The results of links, rules and pipes.
    #[must_use]
    pub fn results(&self) -> &Snapshot {
        &self.snapshot
    }

    /// When the links started.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// The report of the capture; `None` without a capture.
    #[must_use]
    pub fn capture(&self) -> Option<&CaptureReport> {
        self.capture.as_ref()
    }

    /// Whether the session ended because an interface disappeared.
    #[must_use]
    pub fn port_vanished(&self) -> bool {
        matches!(self.report.stopped, Some(StopReason::PortVanished(_)))
    }

    /// Warnings about the run and its results, for example about faults of ports, frames that were
    /// not read, a capture with gaps, packets that passed unshaped, and changes to the machine that
    /// could not be undone.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = super::warnings::of(&self.report, &self.ends);
        match &self.capture {
            Some(CaptureReport { error: Some(error), .. }) => {
                warnings.push(format!("the capture is incomplete: {error}"));
            }
            Some(CaptureReport { dropped, .. }) if *dropped > 0 => warnings.push(format!(
                "the capture lacks {dropped} records: the disk was slower than the link"
            )),
            _ => {}
        }
        warnings.extend(self.leftovers.iter().map(|note| note.what.clone()));
        warnings
    }

    /// All results as a results document. `info` is the caller's information about the run. The
    /// document does not include the warnings.
    #[must_use]
    pub fn into_result(self, info: RunInfo) -> RunResult {
        let Snapshot { links, rules, pipes, .. } = self.snapshot;
        RunResult::new(info, links)
            .with_rules(rules, pipes)
            .with_late_causes(self.report.late_causes)
    }
}

/// Converts a report of the live loop, with the series of its lanes, to results.
pub(super) fn snapshot(report: &LiveReport, series: Vec<LinkSeries>, state: &State) -> Snapshot {
    let mut series = series.into_iter();
    let lanes = report.lanes.iter().zip(&state.directions);
    let elapsed = report.at.since(report.started);
    let links = lanes.map(|(lane, direction)| {
        let link = state.link_of(lane.pipe);
        let configured = link.map(|index| state.configured(index, report.at));
        let series = series.next().unwrap_or_default();
        link_result((&direction.from, &direction.to), lane, series, configured)
    });
    let mut links: Vec<LinkResult> = links.collect();
    let (rules, pipes) = match &state.rules {
        // In a scenario, rules only lead packets from link to link. The results are therefore those
        // of the links, which have names, and of the paths.
        Some(_) if !state.links.is_empty() => {
            links = inner_links(report, state).chain(links.into_iter().map(path)).collect();
            Default::default()
        }
        Some(active) => rules::results(active.ruleset(), report),
        None => Default::default(),
    };
    Snapshot { elapsed, links, rules, pipes }
}

/// The results of the links of a scenario, in the order of the file.
fn inner_links<'a>(
    report: &'a LiveReport,
    state: &'a State,
) -> impl Iterator<Item = LinkResult> + 'a {
    let nothing = LinkStats::default();
    state.links.iter().enumerate().map(move |(index, NamedLink { link, id, ends, .. })| {
        let found = report.pipes.binary_search_by_key(id, |pipe| pipe.0);
        let stats = found.map_or(&nothing, |index| &report.pipes[index].1);
        let [from, to] = ends;
        let result = LinkResult::from_stats(&link.name, from, to, stats);
        with_configured(result, state.configured(index, report.at))
    })
}

/// The results of a lane as the results of a path. The prefix of the name distinguishes the path
/// from a link with the name of the lane.
fn path(lane: LinkResult) -> LinkResult {
    LinkResult { name: format!("path {}", lane.name), ..lane }
}
