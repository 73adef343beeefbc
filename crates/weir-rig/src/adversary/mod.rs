//! The adversary: a search for arrivals under which a scheduler gives the worst service.
//!
//! A pattern consists of a few acts. In each act, some flows of a group each send a number of
//! packets of one length, starting at a given time. The search starts with arrangements that are
//! known to be bad, such as one flow that joins all other flows, or that gets ahead before the
//! other flows arrive. It then changes start times, lengths, packet counts and flows step by step,
//! and also weights if these may change. It measures each pattern with [`crate::service`] and
//! accepts a pattern unless its score is much lower than that of the last accepted pattern. The
//! tolerance shrinks to zero over a cycle of 400 tries. The next cycle starts either from the worst
//! pattern found so far or from new random patterns.
//!
//! The random numbers of a try depend only on the seed and the number of the try. Equal seeds
//! therefore find equal patterns, and a resumed search finds what an uninterrupted search would
//! have found.

mod moves;
mod pattern;
mod state;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Discipline, MAX_WEIGHT};

use crate::flows::FlowSet;
use crate::service::{self, Class, Exact, Service, Workload};
use crate::trace::Trace;
use pattern::{Pattern, Space};
pub use state::StateError;
use state::{Scored, State, VERSION};

/// The quantity to maximise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// B-WFI in packets of the flow's maximum length.
    #[default]
    Packets,
    /// B-WFI as a fraction of the scheduler's bound. The score is 0 for a scheduler without a
    /// bound.
    OfBound,
    /// The excess delay, in packets of the set's maximum length: the part of a packet's delay that
    /// the backlog of its own flow, at the flow's share of the link, does not explain.
    Delay,
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packets => "B-WFI in packets",
            Self::OfBound => "B-WFI in parts of the bound",
            Self::Delay => "delay in packets",
        })
    }
}

/// The parameters of a search.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The scheduler.
    pub discipline: Discipline,
    /// The flows. Packet lengths stay within the lengths that the set allows.
    pub flows: FlowSet,
    /// The quantity to maximise.
    pub objective: Objective,
    /// The index of the group that gives the score; `None` for the group with the highest score.
    pub class: Option<usize>,
    /// The smallest and the largest weight that the search may give to a group; `None` keeps the
    /// weights of the set.
    pub weights: Option<(u32, u32)>,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of patterns to try, including the tries before a resumed search was interrupted.
    pub evaluations: u64,
}

impl Hunt {
    /// A search for the worst B-WFI, in packets, of any flow. The search may give each group a
    /// weight from 1 to 100.
    pub fn new(discipline: Discipline, flows: FlowSet, seed: u64) -> Self {
        Self {
            discipline,
            flows,
            objective: Objective::default(),
            class: None,
            weights: Some(WEIGHTS),
            seed,
            evaluations: 20_000,
        }
    }

    /// A description of the search: everything that determines the result, except the number of
    /// tries.
    fn words(&self) -> String {
        let Self { discipline, flows, objective, class, weights, seed, .. } = self;
        let mut words = format!("the worst {objective} of {}", discipline.row().name);
        for (parameter, value) in discipline.changed() {
            words += &format!(" {} {value}", parameter.name);
        }
        words += &format!(" on {flows}");
        if let Some(class) = class {
            words += &format!(", group {class}");
        }
        if let Some((least, most)) = weights {
            words += &format!(", weights {least}..{most}");
        }
        words + &format!(", seed {seed}")
    }
}

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Patterns tried.
    pub evaluations: u64,
    /// The highest score so far, in millionths of the objective's unit. A higher score means worse
    /// service.
    pub score: i64,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The worst arrivals, with the flows and their weights. A new measurement gives the same
    /// service.
    pub trace: Trace,
    /// The service under these arrivals.
    pub service: Service,
    /// The index of the group that contains the worst flow.
    pub class: usize,
    /// Patterns tried.
    pub evaluations: u64,
}

impl Found {
    /// The service of the group that contains the worst flow.
    pub fn worst(&self) -> &Class {
        &self.service.classes[self.class]
    }
}

/// Runs the search. If `state` names an existing file, the search continues from it; the search
/// keeps that file up to date. The file is complete at every moment, so the process may be killed
/// at any time. `watch` is called after every few tries and may end the search early.
///
/// # Errors
/// [`StateError`] when the file cannot be read or written, or belongs to another search.
pub fn search(
    hunt: &Hunt,
    state: Option<&Path>,
    mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Found, StateError> {
    let groups = hunt.flows.groups().len();
    let victims = match hunt.class {
        Some(class) => vec![class.min(groups - 1) as u32],
        None => (0..groups as u32).collect(),
    };
    let weights = hunt.weights.map(|(least, most)| {
        let least = least.clamp(1, MAX_WEIGHT);
        (least, most.clamp(least, MAX_WEIGHT))
    });
    let space = Space { flows: hunt.flows.clone(), weights, victims };
    let search = Search { hunt, space };
    let what = hunt.words();
    let saved = state.map(|path| State::load(path, &what)).transpose()?.flatten();
    let nothing = || State {
        version: VERSION,
        what,
        evaluations: 0,
        here: Scored::default(),
        best: Scored::default(),
    };
    let mut at = saved.unwrap_or_else(nothing);
    while at.evaluations < hunt.evaluations {
        search.step(&mut at);
        if at.evaluations % STEPS == 0 || at.evaluations == hunt.evaluations {
            if let Some(path) = state {
                at.save(path)?;
            }
            if watch(&Progress { evaluations: at.evaluations, score: at.best.score }).is_break() {
                break;
            }
        }
    }
    Ok(search.found(&at))
}

/// A search with the space of patterns that it may use.
struct Search<'a> {
    hunt: &'a Hunt,
    space: Space,
}

impl Search<'_> {
    fn step(&self, at: &mut State) {
        let mut random = Stream::new(self.hunt.seed, at.evaluations, Purpose::Generator);
        let (cycle, step) = (at.evaluations / CYCLE, at.evaluations % CYCLE);
        at.evaluations += 1;
        // Cycles alternate: even cycles start from new patterns, odd cycles from the worst pattern
        // so far.
        let begins = cycle.is_multiple_of(2) && step < BEGINNINGS;
        if step == 0 {
            at.here = if begins { Scored::default() } else { at.best.clone() };
        }
        let pattern = if begins {
            self.space.begin(&mut random)
        } else {
            self.space.neighbour(&at.here.pattern, at.here.worst, &mut random)
        };
        let there = self.scored(pattern);
        let tolerance = if begins {
            0
        } else {
            at.here.score / TOLERANCE_DIVISOR * (CYCLE - step) as i64 / CYCLE as i64
        };
        if there.score + tolerance >= at.here.score {
            at.here = there;
        }
        if at.here.score > at.best.score {
            at.best = at.here.clone();
        }
    }

    fn scored(&self, pattern: Pattern) -> Scored {
        let Some(trace) = self.space.trace(&pattern, MAX_PACKETS) else {
            return Scored::default();
        };
        let (_, score, worst) = self.worst(&trace);
        Scored { pattern, score, worst }
    }

    /// The group with the worst service under a trace, the group's score, and the interval of its
    /// B-WFI.
    fn worst(&self, trace: &Trace) -> (usize, i64, (u64, u64)) {
        let owed = service::owed(&self.hunt.discipline, trace);
        let groups = self.space.victims.iter().map(|&group| group as usize);
        let scores =
            groups.map(|group| (group, self.score(trace, &owed[group]), owed[group].interval));
        scores.max_by_key(|(_, score, _)| *score).unwrap_or_default()
    }

    fn score(&self, trace: &Trace, owed: &service::Owed) -> i64 {
        let largest = trace.flows().groups().iter().map(|group| group.lmax).max().unwrap_or(1);
        match self.hunt.objective {
            Objective::Packets => (owed.bwfi / Exact::whole(owed.lmax)).millionths(),
            Objective::OfBound => owed.bound.map_or(0, |bound| (owed.bwfi / bound).millionths()),
            Objective::Delay => (owed.excess / Exact::whole(largest)).millionths(),
        }
    }

    /// The worst pattern as a trace. The trace is cut at the end of the worst interval, unless the
    /// cut changes the score.
    fn found(&self, at: &State) -> Found {
        let whole = self.space.trace(&at.best.pattern, MAX_PACKETS);
        let whole = whole.or_else(|| Trace::new(self.hunt.flows.clone(), Vec::new()).ok());
        let Some(whole) = whole else { unreachable!("a trace may have no arrivals") };
        let until = |end: u64| {
            whole.arrivals().iter().copied().filter(|arrival| arrival.time < end).collect()
        };
        let cut = Trace::new(whole.flows().clone(), until(at.best.worst.1)).ok();
        let mut trace = cut.filter(|cut| self.worst(cut).1 == at.best.score).unwrap_or(whole);
        let service = service::measure(
            &self.hunt.discipline,
            trace.flows(),
            &Workload::Trace(&trace),
            self.hunt.seed,
        );
        let (class, ..) = self.worst(&trace);
        let worst = &service.classes[class];
        trace.notes = vec![
            format!("found in {} tries: {}", at.evaluations, self.hunt.words()),
            format!(
                "flow {}: B-WFI {:.4} packets of {} bytes",
                worst.worst_flow,
                worst.bwfi_packets(),
                worst.group.lmax
            ),
            format!(
                "over the bytes {} to {} of the link",
                worst.worst_interval.0, worst.worst_interval.1
            ),
        ];
        Found { trace, service, class, evaluations: at.evaluations }
    }
}

/// The default range of weights: the weights that dummynet allows for a flow.
const WEIGHTS: (u32, u32) = (1, 100);
/// The number of tries in a cycle.
const CYCLE: u64 = 400;
/// In a cycle that starts from new patterns, each of the first `BEGINNINGS` tries draws a new
/// pattern. The other tries of the cycle change patterns step by step, starting from the worst
/// drawn pattern.
const BEGINNINGS: u64 = 40;
/// The divisor of the initial tolerance: the search at first accepts a pattern with a score that is
/// lower than the previous one by up to 1/20.
const TOLERANCE_DIVISOR: i64 = 20;
/// The number of tries between two saves of the state, each followed by a call of `watch`.
const STEPS: u64 = 32;
/// The maximum number of packets in a pattern.
const MAX_PACKETS: usize = 40_000;
