//! STFQ: start-time fair queueing. Stochastic fairness queueing is `sfq`, as in Linux.
//!
//! # Model
//! Every packet has a start `S` and a finish `F` in virtual time. A packet starts at the finish of
//! the flow's previous packet or at the current virtual time `V`, whichever is later, and takes as
//! much virtual time as its length divided by the flow's weight. The packet with the least start is
//! served, and `V` is the start of the packet in service. When no packet is left, `V` advances to
//! the latest finish.
//!
//! # Reference
//! Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated Services
//! Packet Switching Networks", IEEE/ACM Transactions on Networking 5(5), 1997.
//!
//! # Symbols
//! `S = max(V, F of the flow's previous packet)`, `F = S + L / w`, with `L` the length of the
//! packet in bytes and `w` the flow's weight. Times have 40 bits of fraction, of which 20 count in
//! comparisons. If starts are equal, the flow with the lower index in the scheduler is served
//! first. A new weight applies from the flow's head packet on.
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
//! the flow's weight. This holds even if the link's rate changes, which is the purpose of the
//! algorithm. Let a flow have a link of its own, with the flow's share of the rate. Under this
//! scheduler its packets leave later than there, by at most the time in which one packet of each
//! other flow is sent.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements start-time fair queueing. Papers also call it SFQ, but Linux's `sfq` hashes
//! flows into queues and serves these in rounds, without weights and without virtual time.
//!
//! # Validation
//! Property tests compare the order of packets with that of a model that visits all flows at each
//! step, also with virtual times near the end of their range, and check the bound above in exact
//! arithmetic.

use super::self_clocked::SelfClocked;
use super::{Row, Traits, WEIGHT};

/// The start-time fair queueing scheduler.
pub type StartTime = SelfClocked<false>;

pub(super) const ROW: Row = Row {
    name: "stfq",
    aliases: &["start-time"],
    summary: "start-time fair queueing: least virtual start first, fair on links of any rate",
    source: "Goyal, Vin and Cheng 1997",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
