//! SFQ: start-time fair queueing. Not the stochastic fairness queueing that Linux calls `sfq`.
//!
//! # Model
//! Every packet has a start `S` and a finish `F` in virtual time: it starts where the flow's packet
//! before it finishes, or at the present virtual time `V` when the flow had none, and takes its
//! length over the flow's weight. The packet with the least start goes, and `V` is the start of the
//! packet that is in service. When no packet is left, `V` moves to the latest finish.
//!
//! # Reference
//! Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated Services
//! Packet Switching Networks", IEEE/ACM Transactions on Networking 5(5), 1997.
//!
//! # Symbols
//! `S = max(V, F of the one before)`, `F = S + L / w`, with `L` the length of the packet in bytes
//! and `w` the flow's weight. Times have 40 bits of fraction, of which 20 count when they are
//! compared. Of equal starts that of the flow with the lower place goes first. A new weight holds
//! from the packet at the head on.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows, by one tournament; virtual time costs nothing.
//!
//! # Guarantees
//! Over any time in which two flows always have packets, their bytes over their weights differ by
//! at most `L_1 / w_1 + L_2 / w_2`, one largest packet of each. This holds for any changes of the
//! link's rate, which is the purpose of the discipline. A packet leaves later than it would by its
//! flow's share alone by up to one packet of each of the other flows.
//!
//! # Differences from Linux/FreeBSD
//! Linux's `sfq` hashes flows into queues and serves these in rounds; it has no weights and no
//! virtual time. Neither system has the discipline described here.
//!
//! # Validation
//! The order of packets against plain loops over all flows, the bound above against exact
//! arithmetic, and times near the end of their range, in property tests.

use super::self_clocked::SelfClocked;
use super::{Row, Traits, WEIGHT};

/// Start-time fair queueing.
pub type StartTime = SelfClocked<false>;

pub(super) const ROW: Row = Row {
    name: "sfq",
    aliases: &["stfq"],
    summary: "start-time fair queueing: least virtual start first, fair on links of any rate (not Linux's stochastic sfq)",
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
