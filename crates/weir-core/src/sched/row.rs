//! What a row of the table of schedulers says besides names and parameters.

use crate::settings::{self, Parameter};

/// A scheduler's row in [`super::TABLE`]. Its parameters are those of the scheduler itself, as
/// [`super::Discipline`] holds them.
pub type Row = settings::Row<Traits>;

/// What a scheduler costs and guarantees.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Cost of a packet.
    pub complexity: &'static str,
    /// Flows that always have packets get bytes by their weights.
    pub weighted: bool,
    /// It gives a packet whenever it has one.
    pub work_conserving: bool,
    /// It tells flows apart by what packets carry in their headers.
    pub classifies: bool,
    /// Parameters of a flow, which are given to a `queue`.
    pub flow: &'static [Parameter],
}
