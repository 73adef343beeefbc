//! SCFQ: self-clocked fair queueing.
//!
//! # Model
//! Every packet has a finish `F` in virtual time: it starts where the flow's packet before it
//! finishes, or at the present virtual time `V` when the flow had none, and takes its length over
//! the flow's weight. The packet with the least finish goes, and `V` is the finish of the packet
//! that is in service.
//!
//! # Reference
//! Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", IEEE INFOCOM 1994.
//!
//! # Symbols
//! `S = max(V, F of the one before)`, `F = S + L / w`, with `L` the length of the packet in bytes
//! and `w` the flow's weight. Times have 40 bits of fraction, of which 20 count when they are
//! compared. Of equal finishes that of the flow with the lower place goes first. A new weight holds
//! from the packet at the head on; `V` never goes back for it.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows, by one tournament; virtual time costs nothing.
//!
//! # Guarantees
//! Over any time in which two flows always have packets, their bytes over their weights differ by
//! at most `L_1 / w_1 + L_2 / w_2`, one largest packet of each. Delay is worse than with an
//! independent clock: a flow that starts to send does so after the finish in service, so its first
//! packet may wait for one of each other flow, regardless of its weight.
//!
//! # Differences from Linux/FreeBSD
//! Neither has it.
//!
//! # Validation
//! The order of packets against plain loops over all flows, the bound above against exact
//! arithmetic, and times near the end of their range, in property tests.

use super::self_clocked::SelfClocked;
use super::{Row, Traits, WEIGHT};

/// Self-clocked fair queueing.
pub type FinishTime = SelfClocked<true>;

pub(super) const ROW: Row = Row {
    name: "scfq",
    aliases: &[],
    summary: "self-clocked fair queueing: least virtual finish first, by the clock of the packet in service",
    source: "Golestani 1994",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
