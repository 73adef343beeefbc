//! The configuration of a session that is in force: what changes replace, and results name.

use super::config::{Link, NamedLink};
use crate::rules::ActiveRules;

/// The configuration in force.
#[derive(Debug)]
pub(super) struct State {
    /// One for each lane.
    pub(super) directions: Vec<Direction>,
    pub(super) links: Vec<NamedLink>,
    pub(super) rules: Option<ActiveRules>,
}

impl State {
    /// The link that a lane through this pipe has; none where rules decide what packets meet.
    pub(super) fn link_of(&self, pipe: u16) -> Option<&Link> {
        let found = self.links.iter().find(|named| named.id == pipe)?;
        self.rules.is_none().then_some(&found.link)
    }
}

/// The names of a lane's ends in results.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) from: String,
    pub(super) to: String,
}
