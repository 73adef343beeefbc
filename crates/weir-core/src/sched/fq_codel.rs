//! FQ-CoDel: a queue with its own `CoDel` for each flow, served in rounds, new flows first.
//!
//! # Model
//! Packets are hashed by addresses, ports and protocol to one of many queues, which are served in
//! rounds of `quantum` bytes. A flow that has just started, or sends little, is served before flows
//! that have used their quantum, so that a call or a lookup does not wait behind a download. Each
//! queue has its own `CoDel`, which prevents a standing queue. When there is no room, packets at
//! the head of the queue with the most bytes are dropped: up to `drop_batch` packets or half of its
//! bytes, whichever comes first.
//!
//! # Reference
//! Hoeiland-Joergensen et al., "The Flow Queue `CoDel` Packet Scheduler and Active Queue Management
//! Algorithm", RFC 8290.
//!
//! # Parameters
//! `limit` 1..10000000 packets, default 10240. `flows` 1..65536, default 1024: the number of
//! queues. `quantum` 64..1048576 bytes, default 1500. `memory_limit` bytes, default 32 MiB.
//! `drop_batch` 1..65536, default 64. `target`, `interval`, `ecn` (default on), `mtu`,
//! `ce_threshold`, `ce_selector` and `arith` as in the AQM `codel`. `count` `flow` or `all`,
//! default `flow`: whether `mtu` is compared with the bytes of the flow's queue, as in RFC 8289 and
//! ns-3, or of all queues, as in Linux.
//!
//! # Complexity
//! O(1) for each packet, and one more round for each further quantum of a longer packet. A drop for
//! lack of room inspects the queues of a few groups; a group has about the square root of `flows`
//! queues.
//!
//! # Guarantees
//! Packets of a flow leave in order. Queues that always have packets send the same number of bytes,
//! to within two quanta and a packet, less the packets that `CoDel` drops. With `count flow`,
//! `CoDel` does not drop the last packet of a queue.
//!
//! # Differences from Linux/FreeBSD
//! Sizes count from the network layer on: a quantum of 1500 corresponds to 1514 in Linux.
//! `memory_limit` counts the bytes of packets, while Linux counts the memory allocated for them.
//! Linux's `CoDel` compares `mtu` with the bytes of all queues, as `count all` does here.
//! dummynet's FQ-CoDel has no memory limit and drops one packet at a time.
//!
//! # Validation
//! Tests repeat ns-3's cases of five flows, overload and credits, and use random traffic to check
//! conservation and the order within each flow against plain lists.

use super::fair_queue::{Bounds, FLOWS, FairQueue, LIMIT, QUANTUM};
use super::flow_queues::{Context, FlowPolicy};
use super::{Discipline, Row, Traits};
use crate::aqm::codel::{self, Arith, CeSelector, Control, Law};
use crate::aqm::{Seen, Verdict};
use crate::settings::{Count, Number};
use crate::units::Nanos;
use crate::{choice, settings};

settings! {
    /// Settings of FQ-CoDel: the settings of the queues and of `CoDel`.
    struct Settings {
        limit: u32 = LIMIT,
        flows: u32 = FLOWS,
        quantum: u32 = QUANTUM,
        memory_limit: u64 =
            Number::new(1, 1 << 40, "bytes", 32 << 20, "largest number of bytes inside"),
        drop_batch: u32 = Count::new(
            1,
            65_536,
            "packets",
            64,
            "largest number of packets that are dropped together when there is no room",
        ),
        target: Nanos = codel::TARGET,
        interval: Nanos = codel::INTERVAL,
        ecn: bool = codel::ECN.or(true),
        mtu: u64 = codel::MTU,
        ce_threshold: Nanos = codel::CE_THRESHOLD,
        ce_selector: CeSelector = codel::CE_SELECTOR,
        arith: Arith = codel::ARITH,
        count: Counted = Counted::setting(Counted::Flow, "whether `mtu` is compared with the bytes \
                                                          of the flow's queue or of all queues"),
    }
}

choice! {
    /// The backlog that is compared with `mtu`.
    enum Counted {
        Flow = "flow",
        All = "all",
    }
}

/// The FQ-CoDel scheduler.
pub type FqCodel = FairQueue<Controlled>;

/// `CoDel` for each of many queues.
#[derive(Debug)]
pub struct Controlled {
    law: Law,
    /// Whether `mtu` is compared with the bytes of all queues.
    counts_all: bool,
}

impl FqCodel {
    /// An empty scheduler.
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

/// The state of one queue.
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
    summary: "a queue with its own CoDel for each flow, served in rounds, new flows first",
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
