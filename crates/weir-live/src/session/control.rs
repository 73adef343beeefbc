//! Control of a running session: change, observe and stop it from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_core::{Emulator, Nanos};
use weir_linux::clock;
use weir_linux::live::{Change, LiveHandle, LiveReport, NoAnswer};
use weir_linux::port::AnyPort;
use weir_measure::series::LinkSeries;
use weir_rules::LinkSpec;
use weir_rules::classify::{Classifier, Pass, Place, PlaceInterface};
use weir_rules::ruleset::Ruleset;

use super::config::{Link, NamedLink};
use super::error::ChangeError;
use super::results::{Snapshot, snapshot};
use super::state::{Direction, State};
use crate::observe::Recording;

/// A handle of a running session. Clones control the same session, from any thread. After the
/// session has ended, or while its loop does not answer, calls that need the loop fail with
/// [`NoAnswer`].
#[derive(Clone, Debug)]
pub struct Control {
    handle: LiveHandle,
    stop: Arc<AtomicBool>,
    recording: Option<Recording>,
    state: Arc<Mutex<State>>,
}

impl Control {
    pub(super) fn new(
        handle: LiveHandle,
        stop: Arc<AtomicBool>,
        recording: Option<Recording>,
        state: State,
    ) -> Self {
        Self { handle, stop, recording, state: Arc::new(Mutex::new(state)) }
    }

    /// The names of the links that [`Control::set_link`] can change.
    pub fn links(&self) -> Vec<String> {
        self.state().links.iter().map(|named| named.link.name.clone()).collect()
    }

    /// The links that [`Control::set_link`] can change, as they are in force.
    pub fn current_links(&self) -> Vec<Link> {
        self.state().links.iter().map(|named| named.link.clone()).collect()
    }

    /// The number and name of each link of a scenario, in which rules lead packets over several
    /// links. Empty if each lane has one link, or if rules have pipes without names.
    pub(crate) fn inner_links(&self) -> Vec<(u16, String)> {
        let state = self.state();
        let named = state.links.iter().filter(|_| state.rules.is_some());
        named.map(|named| (named.id, named.link.name.clone())).collect()
    }

    /// The number in the engine of each link with a name.
    pub(crate) fn numbered_links(&self) -> Vec<(u16, Link)> {
        self.state().links.iter().map(|named| (named.id, named.link.clone())).collect()
    }

    /// The names of the two ends of each link with a name.
    pub(crate) fn link_ends(&self) -> Vec<(String, [String; 2])> {
        let ends = |named: &NamedLink| (named.link.name.clone(), named.ends.clone());
        self.state().links.iter().map(ends).collect()
    }

    /// The names of the two ends of each lane, in the order of the lanes.
    pub(crate) fn lane_ends(&self) -> Vec<[String; 2]> {
        let ends = |direction: &Direction| [direction.from.clone(), direction.to.clone()];
        self.state().directions.iter().map(ends).collect()
    }

    /// The counters of all lanes. Waits at most a second for the answer of the loop.
    pub(crate) fn within_a_second(&self) -> Result<LiveReport, NoAnswer> {
        self.handle.within(Duration::from_secs(1)).brief_report()
    }

    /// The parameters of a link; `None` when no link has this name.
    pub fn link(&self, name: &str) -> Option<LinkSpec> {
        let state = self.state();
        state
            .links
            .iter()
            .find(|named| named.link.name == name)
            .map(|found| found.link.spec.clone())
    }

    /// Changes a link. Packets inside stay; the change is in force when this returns.
    ///
    /// # Errors
    /// There is no such link, the change would affect the handling of offload trains, or the loop
    /// does not answer.
    pub fn set_link(&self, name: &str, spec: &LinkSpec) -> Result<(), ChangeError> {
        let mut state = self.state();
        let Some(index) = state.links.iter().position(|named| named.link.name == name) else {
            let names: Vec<&str> = state.links.iter().map(|named| &*named.link.name).collect();
            return Err(ChangeError::NoSuchLink { name: name.to_owned(), known: names.join(", ") });
        };
        let named = &state.links[index];
        if named.link.spec.gso != spec.gso {
            return Err(ChangeError::Offloads { name: name.to_owned() });
        }
        let done = match &named.scheduler {
            None => self.handle.set_pipe(named.id, &spec.pipe),
            Some(scheduler) => {
                let (id, scheduler, pipe) = (named.id, Arc::clone(scheduler), spec.pipe.clone());
                let change = move |engine: &mut Emulator, now| {
                    engine.set_link(now, id, &scheduler, &pipe.link, &pipe.queue);
                };
                self.handle.with_engines(change).map(drop)
            }
        };
        // A loop that has not answered in time makes the change later.
        if done != Err(NoAnswer::Ended) {
            state.replace(index, clock::now(), spec);
        }
        Ok(done?)
    }

    /// The rules in force; `None` in a session without rules.
    pub fn rules(&self) -> Option<Arc<Ruleset>> {
        self.state().rules.as_ref().map(|rules| Arc::clone(rules.ruleset()))
    }

    /// The rules, in source form and compiled, and the place where they examine packets; `None`
    /// without rules.
    pub(crate) fn compiled_rules(&self) -> Option<(Arc<Ruleset>, Arc<Classifier>, Place)> {
        let state = self.state();
        let rules = state.rules.as_ref()?;
        let classifier = Arc::clone(rules.classifier());
        Some((Arc::clone(rules.ruleset()), classifier, rules.place().clone()))
    }

    /// The name of each lane, with the passes in which rules examine its packets.
    pub(crate) fn lane_passes(&self) -> Vec<(String, Vec<Pass>)> {
        let state = self.state();
        let lane = |lane: &Direction| (lane.name.clone(), lane.passes.clone());
        state.directions.iter().map(lane).collect()
    }

    /// Puts other rules in force, between two packets. Unchanged parts stay as they are: remaining
    /// rules keep their counters, and packets inside stay.
    ///
    /// Derive `new` from [`Control::rules`] by applying commands to a copy, because the ruleset
    /// assigns the rule identities to which the counters belong. Returns whether anything changed.
    ///
    /// # Errors
    /// The session has no rules, or its loop does not answer.
    pub fn set_rules(&self, new: &Arc<Ruleset>) -> Result<bool, ChangeError> {
        let mut state = self.state();
        let rules = state.rules.as_mut().ok_or(ChangeError::NoRules)?;
        let changes = rules.replace(new);
        if changes.is_empty() {
            return Ok(false);
        }
        let change: Change = Arc::new(move |engine, now| {
            changes.apply(now, engine);
        });
        self.handle.set_rules(rules.classifier(), &change)?;
        Ok(true)
    }

    /// Compiles the rules again for new addresses of the interfaces.
    ///
    /// # Errors
    /// The session has no rules, or its loop does not answer.
    pub fn relocate_rules(&self, interfaces: Vec<PlaceInterface>) -> Result<(), ChangeError> {
        let mut state = self.state();
        let rules = state.rules.as_mut().ok_or(ChangeError::NoRules)?;
        rules.relocate(interfaces);
        let nothing: Change = Arc::new(|_: &mut Emulator, _: Nanos| {});
        Ok(self.handle.set_rules(rules.classifier(), &nothing)?)
    }

    /// Replaces the port with index `port` by the ports `with`, one for each worker, for example
    /// when an interface has come back. The new ports send the queued packets.
    ///
    /// # Errors
    /// The loop does not answer.
    pub fn replace_port(&self, port: usize, with: Vec<AnyPort>) -> Result<(), NoAnswer> {
        self.handle.replace_port(port, with)
    }

    /// The current results, in the form of [`LiveSession::stop`](super::LiveSession::stop).
    ///
    /// # Errors
    /// The loop does not answer.
    pub fn snapshot(&self) -> Result<Snapshot, NoAnswer> {
        let report = self.handle.report()?;
        Ok(snapshot(&report, self.series(), &self.state()))
    }

    /// The counters of all lanes, without those of rules and pipes. This is quick, however many
    /// rules and pipes there are.
    ///
    /// # Errors
    /// The loop does not answer.
    pub fn counters(&self) -> Result<LiveReport, NoAnswer> {
        self.handle.brief_report()
    }

    /// The current series of each lane; empty if none are recorded.
    pub fn series(&self) -> Vec<LinkSeries> {
        self.recording.as_ref().map(Recording::series).unwrap_or_default()
    }

    /// The live loop itself, for reading the engine's queues and instances.
    pub fn engine(&self) -> &LiveHandle {
        &self.handle
    }

    /// Waits until all lanes have been empty for a moment, but at most two seconds. When a program
    /// ends, its last packets and the end of its connections are often still inside.
    pub fn drain(&self) {
        let deadline = Instant::now() + LONGEST_DRAIN;
        let mut empty_since = None;
        while Instant::now() < deadline {
            let Ok(report) = self.counters() else { return };
            let empty = report.lanes.iter().all(|lane| lane.counters.backlog_packets == 0);
            let since = *empty_since.get_or_insert_with(Instant::now);
            if !empty {
                empty_since = None;
            } else if since.elapsed() >= EMPTY_FOR {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the session's links, so that a wait for its programs returns. Packets inside stay
    /// inside and count as backlog. [`LiveSession::stop`](super::LiveSession::stop) returns the
    /// results afterwards.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // This fails if the loop has already ended.
        let _ = self.handle.stop();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lanes that were empty for this long count as drained: an answer to the last arrival would have
/// arrived by then.
const EMPTY_FOR: Duration = Duration::from_millis(20);
/// The longest wait for packets inside to arrive.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
