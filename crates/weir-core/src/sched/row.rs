//! The row of a scheduler in the table, and the properties that it states besides names and
//! parameters.

use crate::settings::{self, Parameter};

/// The row of a scheduler in [`super::TABLE`]. Its parameters are the settings of the scheduler
/// itself, as [`super::Discipline`] holds them.
pub type Row = settings::Row<Traits>;

/// The cost and the properties of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The cost for each packet.
    pub complexity: &'static str,
    /// Whether flows that always have packets send bytes in proportion to their weights.
    pub weighted: bool,
    /// Whether it serves a packet whenever one is inside.
    pub work_conserving: bool,
    /// Whether it distinguishes flows by the headers of packets.
    pub classifies: bool,
    /// The parameters of a flow, which the user sets on a `queue`.
    pub flow: &'static [Parameter],
}
