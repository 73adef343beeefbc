//! What a row of the table of AQMs says besides names and parameters.

use crate::settings;

/// An AQM's row in [`super::TABLE`].
pub type Row = settings::Row<Traits>;

/// What an AQM can do.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// It can mark packets instead of dropping them.
    pub marks: bool,
    /// It tells flows apart by what packets carry in their headers.
    pub classifies: bool,
}
