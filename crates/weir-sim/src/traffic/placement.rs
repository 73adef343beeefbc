//! The place of traffic in a world, and the settings that all kinds share.

use weir_core::Nanos;
use weir_core::packet::Ecn;

use crate::network::FlowSpec;

/// The settings that all kinds share, after the checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// The earliest start.
    pub(super) start: Nanos,
    /// The traffic begins at a random time within this span after `start`.
    pub(super) jitter: Nanos,
    /// When the traffic ends.
    pub(super) until: Nanos,
    pub(super) ecn: Ecn,
    pub(super) dscp: u8,
    /// Label of the packets.
    pub(super) label: u64,
    /// The amount that is added to the label for each switch with a rank program on the path.
    pub(super) per_switch: u64,
}

/// The place of traffic in a world.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// Source, destination, class and group of each flow. The traffic sets protocol and DSCP of the
    /// keys. Joint traffic ([`Plan::joint`](super::Plan::joint)) takes one flow for each source,
    /// all other traffic takes a single flow.
    pub flows: &'a [FlowSpec],
    /// The seed of the run.
    pub seed: u64,
    /// Number of this traffic in the run, which selects its random streams. Each call of
    /// [`Plan::install`](super::Plan::install) has a different number.
    pub number: u64,
}
