//! Rows of the table of AQMs: names, sources, and parameters with their ranges.

use crate::settings::Parameter;

/// An AQM's row in [`super::TABLE`].
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
    /// It can mark packets instead of dropping them.
    pub marks: bool,
    /// It tells flows apart by itself, by what packets carry in their headers.
    pub classifies: bool,
    /// Parameters.
    pub parameters: &'static [Parameter],
}
