//! Rows of the table of schedulers: names, sources, and parameters with their ranges.

use crate::settings::{Parameter, Scope};

/// A scheduler's row in [`super::TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the command language.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// One line that says what it does.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Cost of a packet.
    pub complexity: &'static str,
    /// Flows that always have packets get bytes by their weights.
    pub weighted: bool,
    /// It gives a packet whenever it has one.
    pub work_conserving: bool,
    /// It tells flows apart by itself, by what packets carry in their headers.
    pub classifies: bool,
    /// Parameters.
    pub parameters: &'static [Parameter],
}

impl Row {
    /// Parameters of the scheduler itself, as [`super::Discipline`] holds them.
    pub fn settings(&self) -> impl Iterator<Item = &'static Parameter> {
        self.parameters.iter().filter(|p| p.scope == Scope::Scheduler)
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }
}
