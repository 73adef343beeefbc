//! The configuration that is in force in a session. Changes replace parts of it, and results refer
//! to it.

use weir_core::Nanos;
use weir_core::link::{ConfiguredMeans, LinkHistory};
use weir_rules::LinkSpec;
use weir_rules::classify::Pass;

use super::config::NamedLink;
use crate::rules::ActiveRules;

/// The configuration in force, and the earlier configurations of the links.
#[derive(Debug)]
pub(super) struct State {
    /// The names and passes of each lane, in the order of the lanes.
    pub(super) directions: Vec<Direction>,
    /// The links that can be changed by name.
    pub(super) links: Vec<NamedLink>,
    /// The history of each of these links.
    histories: Vec<LinkHistory>,
    /// When the links started, on the monotonic clock.
    started: Nanos,
    pub(super) rules: Option<ActiveRules>,
}

impl State {
    /// The state of a session whose links start at `started`, on the monotonic clock.
    pub(super) fn new(
        started: Nanos,
        directions: Vec<Direction>,
        links: Vec<NamedLink>,
        rules: Option<ActiveRules>,
    ) -> Self {
        let histories = vec![LinkHistory::default(); links.len()];
        Self { directions, links, histories, started, rules }
    }

    /// The index of the named link that has this pipe; `None` where rules decide each packet's
    /// path.
    pub(super) fn link_of(&self, pipe: u16) -> Option<usize> {
        let found = self.links.iter().position(|named| named.id == pipe)?;
        self.rules.is_none().then_some(found)
    }

    /// Records that the link with this index has another specification since `now`.
    pub(super) fn replace(&mut self, index: usize, now: Nanos, spec: &LinkSpec) {
        let old = std::mem::replace(&mut self.links[index].link.spec, spec.clone());
        let at = now.since(self.started);
        self.histories[index].change(at, &old.pipe.link, &spec.pipe.link);
    }

    /// The specification in force of the link with this index, and the means over all its
    /// specifications until `now`.
    pub(super) fn configured(&self, index: usize, now: Nanos) -> (&LinkSpec, ConfiguredMeans) {
        let spec = &self.links[index].link.spec;
        (spec, self.histories[index].means(&spec.pipe.link, now.since(self.started)))
    }
}

/// The names of a lane and of its ends in results, and where rules examine its packets.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) name: String,
    pub(super) passes: Vec<Pass>,
    pub(super) from: String,
    pub(super) to: String,
}
