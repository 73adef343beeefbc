//! The configuration that is in force in a session. Changes replace parts of it, and results refer
//! to it.

use weir_rules::classify::Pass;

use super::config::{Link, NamedLink};
use crate::rules::ActiveRules;

/// The configuration in force.
#[derive(Debug)]
pub(super) struct State {
    /// The names and passes of each lane, in the order of the lanes.
    pub(super) directions: Vec<Direction>,
    /// The links that can be changed by name.
    pub(super) links: Vec<NamedLink>,
    /// The rules; `None` in a session without rules.
    pub(super) rules: Option<ActiveRules>,
}

impl State {
    /// The named link that has this pipe; `None` where rules decide each packet's path.
    pub(super) fn link_of(&self, pipe: u16) -> Option<&Link> {
        let found = self.links.iter().find(|named| named.id == pipe)?;
        self.rules.is_none().then_some(&found.link)
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
