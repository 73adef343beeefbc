//! SCFQ: self-clocked fair queueing.
//!
//! # Model
//! Every packet has a finish `F` in virtual time. A packet starts at the finish of the flow's
//! previous packet, or at the current virtual time `V` if the flow has no packets, and takes as
//! much virtual time as its length divided by the flow's weight. The packet with the least finish
//! is served, and `V` is the finish of the packet in service.
//!
//! # Reference
//! Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", IEEE INFOCOM 1994.
//!
//! # Symbols
//! `S = max(V, F of the flow's previous packet)`, `F = S + L / w`, with `L` the length of the
//! packet in bytes and `w` the flow's weight. Times have 40 bits of fraction, of which 20 count in
//! comparisons. If finishes are equal, the flow with the lower index in the scheduler is served
//! first. A new weight applies from the flow's head packet on; `V` never decreases because of a new
//! weight.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows, by one tournament; virtual time takes no computation.
//!
//! # Guarantees
//! Over any time in which two flows always have packets, the bytes that they send, divided by their
//! weights, differ by at most `L_1 / w_1 + L_2 / w_2`, the largest packet of each flow divided by
//! the flow's weight. The delay is worse than in WFQ, whose virtual time follows a fluid: a flow
//! that becomes busy starts at the finish of the packet in service, so that its first packet may
//! wait for one packet of each other flow, regardless of its weight.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements SCFQ.
//!
//! # Validation
//! Property tests compare the order of packets with that of a model that visits all flows at each
//! step, also with virtual times near the end of their range, and check the bound above in exact
//! arithmetic.

use super::self_clocked::SelfClocked;
use super::{Row, Traits, WEIGHT};

/// The SCFQ scheduler.
pub type FinishTime = SelfClocked<true>;

pub(super) const ROW: Row = Row {
    name: "scfq",
    aliases: &[],
    summary: "self-clocked fair queueing: least virtual finish first, by the clock of the packet \
              in service",
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
