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

use super::fair_queue::{Bounds, FLOWS, FairQueue, LIMIT, QUANTUM};
use super::flow_queues::{Context, FlowPolicy};
use super::{Discipline, Row, Traits};
use crate::aqm::codel::{self, Arith, CeSelector, Control, Law};
use crate::aqm::{Seen, Verdict};
use crate::settings::{Count, Number};
use crate::units::Nanos;
use crate::{choice, settings};

settings! {
    /// Settings of FQ-CoDel: those of the queues, and those of `CoDel`.
    struct Settings {
        limit: u32 = LIMIT,
        flows: u32 = FLOWS,
        quantum: u32 = QUANTUM,
        memory_limit: u64 = Number::new(1, 1 << 40, "bytes", 32 << 20, "most bytes inside"),
        drop_batch: u32 = Count::new(
            1,
            65_536,
            "packets",
            64,
            "most packets that are dropped together when there is no room",
        ),
        target: Nanos = codel::TARGET,
        interval: Nanos = codel::INTERVAL,
        ecn: bool = codel::ECN.or(true),
        mtu: u64 = codel::MTU,
        ce_threshold: Nanos = codel::CE_THRESHOLD,
        ce_selector: CeSelector = codel::CE_SELECTOR,
        arith: Arith = codel::ARITH,
        count: Counted = Counted::setting(Counted::Flow, "whose bytes mtu is compared with"),
    }
}

choice! {
    /// The bytes that are compared with `mtu`.
    enum Counted {
        Flow = "flow",
        All = "all",
    }
}

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
        let Settings { limit, flows, quantum, memory_limit: memory, drop_batch: batch, .. } =
            Settings::of(discipline);
        let Settings {
            target, interval, ecn, mtu, ce_threshold, ce_selector, arith, count, ..
        } = Settings::of(discipline);
        let law = Law::new(&codel::Settings {
            target,
            interval,
            ecn,
            mtu,
            ce_threshold,
            ce_selector,
            arith,
        });
        Self::with(
            discipline,
            &Bounds { limit, flows, quantum, memory, batch },
            Controlled { law, counts_all: count == Counted::All },
        )
    }
}

/// State of one queue.
#[derive(Debug, Default)]
pub struct State(Control);

impl FlowPolicy for Controlled {
    type State = State;

    #[inline]
    fn leave(
        &mut self,
        state: &mut State,
        now: Nanos,
        packet: &Seen,
        context: &Context,
    ) -> Verdict {
        let bytes = if self.counts_all { context.all_bytes } else { context.queue.bytes };
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

pub(super) const ROW: Row = Row {
    name: "fq_codel",
    aliases: &["fq-codel"],
    summary: "a queue for each flow, served in turns, new flows first, with CoDel for each",
    source: "RFC 8290",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: true,
        flow: &[],
    },
};
