//! The row of an AQM in the table, and the properties that it states besides names and parameters.

use crate::settings;

/// The row of an AQM in [`super::TABLE`].
pub type Row = settings::Row<Traits>;

/// The abilities of an AQM.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Whether it can mark packets instead of dropping them.
    pub marks: bool,
    /// Whether it distinguishes flows, by the hash of their headers.
    pub classifies: bool,
}
