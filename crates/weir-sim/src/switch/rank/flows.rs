//! Programs with ranks that the traffic manager computes: from the state of a flow (shares, sizes,
//! service, priorities), or from the arrival.
//!
//! # Model
//! The traffic manager keeps the state of flows, because only it knows when a packet is served; see
//! the table of ranks in [`weir_core::sched`]. It therefore distinguishes flows by addresses and
//! ports, and keeps the order within each flow.
//!
//! `srpt` and `sjf` read a packet's label if its source sets one: the bytes that its flow still has
//! to send, or the bytes of the whole job. `prio` uses the class of a flow, 0 first.
//!
//! # Reference
//! Goyal, Vin and Cheng, "Start-time fair queueing", SIGCOMM 1996; Schrage 1968; Alizadeh et al.,
//! "pFabric", SIGCOMM 2013; Nuyens and Wierman, "The foreground-background queue: a survey", 2008.

use weir_core::sched::Ranking;

use super::{Row, Traits};

pub(super) const STFQ: Row =
    row("stfq", "flows share the link", "Goyal, Vin and Cheng 1996", Ranking::Stfq);
pub(super) const SRPT: Row =
    row("srpt", "the flow with the least left to send goes first", "Schrage 1968", Ranking::Srpt);
pub(super) const SJF: Row =
    row("sjf", "the smallest job goes first", "Alizadeh et al. 2013", Ranking::Sjf);
pub(super) const LAS: Row =
    row("las", "the flow that has sent least goes first", "Nuyens and Wierman 2008", Ranking::Las);
pub(super) const PRIO: Row = row("prio", "strict priority by class", "practice", Ranking::Prio);
pub(super) const ARRIVAL: Row = row("arrival", "first in, first out", "practice", Ranking::Arrival);

const fn row(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    ranking: Ranking,
) -> Row {
    let traits = Traits { ranking, knows_flows: true, make: |_, _| None };
    Row { name, aliases: &[], summary, source, parameters: &[], traits }
}
