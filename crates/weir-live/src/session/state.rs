//! The configuration of a session that is in force: what changes replace, and results name.

use super::config::NamedLink;
use crate::rules::ActiveRules;

/// The configuration in force.
#[derive(Debug)]
pub(super) struct State {
    /// One for each lane.
    pub(super) directions: Vec<Direction>,
    pub(super) links: Vec<NamedLink>,
    pub(super) rules: Option<ActiveRules>,
}

/// The names of a lane's ends in results.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) from: String,
    pub(super) to: String,
}
