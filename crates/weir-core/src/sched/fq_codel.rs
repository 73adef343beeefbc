//! FQ-CoDel: a queue for each flow, served in turns, new flows first, with `CoDel` for each.
//!
//! # Model
//! Packets are hashed by addresses, ports and protocol to one of many queues. Queues take turns of
//! `quantum` bytes, and a flow that has just begun, or sends little, goes before those that have
//! used their turns. So a call or a lookup does not wait behind a download. Each queue has `CoDel`
//! of its own, which keeps the flow that fills it from standing there. When there is no room, the
//! queue with the most bytes pays: up to `drop_batch` packets, or half of its bytes, go from its
//! head.
//!
//! # Reference
//! Hoeiland-Joergensen et al., "The Flow Queue `CoDel` Packet Scheduler and Active Queue Management
//! Algorithm", RFC 8290.
//!
//! # Parameters
//! `limit` 1..10000000 packets, default 10240. `flows` 1..65536, default 1024: queues. `quantum`
//! 64..1048576 bytes, default 1500. `memory_limit` bytes, default 32 MiB. `drop_batch` 1..65536,
//! default 64. `target`, `interval`, `ecn` (default on), `mtu`, `ce_threshold`, `ce_selector` and
//! `arith` as of the AQM `codel`. `count` `flow` or `all`, default `flow`: whether `mtu` is
//! compared with the bytes of the flow's queue, as RFC 8289 and ns-3 do, or of all queues, as Linux
//! does.
//!
//! # Complexity
//! O(1) for each packet, and one round more for each quantum in a packet longer than that. Making
//! room looks at the queues of a few groups: about the root of `flows`.
//!
//! # Guarantees
//! Order within a flow. Queues that always have packets get the same bytes, to within two quanta
//! and a packet. With `count flow`, the last packet of a queue is not dropped by `CoDel`.
//!
//! # Differences from Linux/FreeBSD
//! Sizes count from the network layer on: a quantum of 1500 is what 1514 is to Linux.
//! `memory_limit` counts bytes of packets, where Linux counts what it has allocated for them.
//! Linux's `CoDel` leaves a flow alone only when no more than `mtu` waits in all queues:
//! `count all`. dummynet's has no memory limit and drops one packet at a time.
//!
//! # Validation
//! Five flows, overload and credits as ns-3 has them; random traffic for conservation and order
//! within each flow, beside a plain list of what each flow has.

use super::fair_queue::{BATCH, FLOWS, FairQueue, LIMIT, MEMORY, QUANTUM};
use super::flow_queues::{Around, FlowPolicy};
use super::{Discipline, Domain, Parameter, Row, Scope};
use crate::aqm::codel::{self, Control, Law};
use crate::aqm::{Seen, Verdict};
use crate::units::Nanos;

/// FQ-CoDel.
pub type FqCodel = FairQueue<Controlled>;

/// `CoDel` for each of many queues.
#[derive(Debug)]
pub struct Controlled {
    law: Law,
    counts_all: bool,
}

impl FqCodel {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        Self::with(
            discipline,
            Controlled { law: Law::new(discipline), counts_all: discipline.get(COUNT.name) != 0 },
        )
    }
}

/// State of one queue.
#[derive(Debug, Default)]
pub struct State(Control);

impl FlowPolicy for Controlled {
    type State = State;

    #[inline]
    fn leave(&mut self, state: &mut State, now: Nanos, packet: &Seen, around: &Around) -> Verdict {
        let bytes = if self.counts_all { around.all_bytes } else { around.queue.bytes };
        state.0.leave(&mut self.law, now, packet, bytes)
    }

    #[inline]
    fn emptied(&mut self, state: &mut State, _now: Nanos) {
        state.0.emptied();
    }

    fn overflowed(&mut self, state: &mut State, _now: Nanos, packets: u32) {
        state.0.overflowed(packets);
    }
}

/// A parameter of `CoDel` as one of the scheduler.
const fn own(parameter: Parameter) -> Parameter {
    Parameter { scope: Scope::Scheduler, ..parameter }
}

const ECN: Parameter = Parameter { default: 1, ..own(codel::ECN) };

const COUNT: Parameter = Parameter {
    name: "count",
    scope: Scope::Scheduler,
    domain: Domain::Choice(&["flow", "all"]),
    default: 0,
    summary: "whose bytes mtu is compared with",
};

pub(super) const ROW: Row = Row {
    name: "fq_codel",
    aliases: &["fq-codel"],
    summary: "a queue for each flow, served in turns, new flows first, with CoDel for each",
    source: "RFC 8290",
    complexity: "O(1)",
    weighted: false,
    work_conserving: true,
    classifies: true,
    parameters: &[
        LIMIT,
        FLOWS,
        QUANTUM,
        MEMORY,
        BATCH,
        own(codel::TARGET),
        own(codel::INTERVAL),
        ECN,
        own(codel::MTU),
        own(codel::CE_THRESHOLD),
        own(codel::CE_SELECTOR),
        own(codel::ARITH),
        COUNT,
    ],
};
