//! FQ-PIE: a queue with its own PIE for each flow, served in rounds, new flows first.
//!
//! # Model
//! Packets are hashed by addresses, ports and protocol to one of many queues, which are served in
//! rounds of `quantum` bytes as in `fq_codel`: a flow that has just started, or sends little, is
//! served before flows that have used their quantum. Each queue has its own PIE, which drops or
//! marks arriving packets with a probability that holds the queue's delay at the target. When there
//! is no room, the packet at the head of the queue with the most bytes is dropped.
//!
//! # Reference
//! Ramakrishnan et al., "FQ-PIE queue discipline in the Linux kernel", LCN Symposium 2019; for PIE
//! RFC 8033, for the queues RFC 8290.
//!
//! # Parameters
//! `limit` 1..10000000 packets, default 10240. `flows` 1..65536, default 1024: the number of
//! queues. `quantum` 64..1048576 bytes, default 1500. `variant`, `target`, `tupdate`, `hz`,
//! `alpha`, `beta`, `max_burst`, `max_ecnth`, `capdrop`, `derand`, `onoff` and `bytemode` as in the
//! AQM `pie`. `ecn`, default on. `qdelay`, default ts. For `onoff`, a queue's limit is `limit`
//! divided by `flows`.
//!
//! # Complexity
//! O(1) for each packet, and one more round for each further quantum of a longer packet. Idle
//! queues cost nothing: updates of their probabilities are computed when their next packet arrives.
//!
//! # Guarantees
//! Packets of a flow leave in order. Queues that always have packets send the same number of bytes,
//! to within two quanta and a packet, less the packets that PIE drops. PIE drops no packet that
//! finds less than two packets of the variant's mean length in its queue (see `pie`).
//!
//! # Statistics
//! `dropped` and `marked`: packets that PIE dropped and marked.
//!
//! # Differences from Linux/FreeBSD
//! `variant linux` drops the arriving packet when there is no room, as Linux does.
//! `variant dummynet` resets the PIE of a queue whenever the queue becomes busy, as dummynet does.
//! `onoff` compares a queue's packets, not its bytes, with a third of the limit. Linux's
//! `ecn_prob`, in percent, corresponds to `max_ecnth`. In Linux and dummynet, `ecn` is off by
//! default. Linux updates 2048 queues at a time, so that each further 2048 queues make the period a
//! tick longer; `variant linux` does so too, but here each queue has its own update times. With
//! `variant linux`, the drop probability may rise above 1. Until it has fallen again, PIE drops
//! every packet that finds 3000 bytes or more in its queue, which determines the rate of an
//! unresponsive flow. Sizes count from the network layer on: a quantum of 1500 corresponds to 1514
//! in Linux and dummynet. dummynet drops from the queue with the most packets rather than bytes,
//! and still serves a queue that has exactly used up its credit.
//!
//! # Validation
//! Tests compare one flow with the AQM `pie` alone, packet by packet, check the overflow of each
//! variant, and use random traffic to check conservation and order.

use alloc::vec::Vec;

use super::fair_queue::{Bounds, FLOWS, FairQueue, LIMIT, QUANTUM};
use super::flow_queues::{Context, FlowPolicy};
use super::{Discipline, Row, Traits};
use crate::aqm::jiffies::HZ;
use crate::aqm::pie_law::{self, Law};
use crate::aqm::pie_settings::{self as pie, Derand, Qdelay, Variant};
use crate::aqm::{Seen, Verdict};
use crate::rng::{Purpose, Stream};
use crate::settings;
use crate::settings::Fraction;
use crate::units::Nanos;

settings! {
    /// Settings of FQ-PIE: the settings of the queues and of PIE. By default, marks are on, and
    /// delays come from timestamps.
    struct Settings {
        limit: u32 = LIMIT,
        flows: u32 = FLOWS,
        quantum: u32 = QUANTUM,
        variant: Variant = pie::VARIANT,
        target: Nanos = pie::TARGET,
        tupdate: Nanos = pie::TUPDATE,
        hz: u32 = HZ,
        alpha: Fraction = pie::ALPHA,
        beta: Fraction = pie::BETA,
        max_burst: Nanos = pie::MAX_BURST,
        max_ecnth: Fraction = pie::MAX_ECNTH,
        ecn: bool = pie::ECN.or(true),
        capdrop: bool = pie::CAPDROP,
        derand: Derand = pie::DERAND,
        qdelay: Qdelay = Qdelay::setting(Qdelay::Timestamp, pie::QDELAY),
        onoff: bool = pie::ONOFF,
        bytemode: bool = pie::BYTEMODE,
    }
}

impl Settings {
    /// The settings of PIE for each queue.
    fn of_pie(self) -> pie::Settings {
        let Self { variant, target, tupdate, hz, alpha, beta, max_burst, max_ecnth, .. } = self;
        let Self { ecn, capdrop, derand, qdelay, onoff, bytemode, .. } = self;
        pie::Settings {
            variant,
            target,
            tupdate,
            hz,
            alpha,
            beta,
            max_burst,
            max_ecnth,
            ecn,
            capdrop,
            derand,
            qdelay,
            onoff,
            bytemode,
            mean_pkt: 0,
        }
    }
}

/// The FQ-PIE scheduler.
pub type FqPie = FairQueue<Proportional>;

/// PIE for each of many queues.
#[derive(Debug)]
pub struct Proportional {
    law: Law,
    stream: Stream,
    dropped: u64,
    marked: u64,
}

impl FqPie {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let Settings { limit, flows, quantum, .. } = settings;
        let pie = settings.of_pie();
        let law = Law::new(&pie, limit / flows, u64::MAX).of_queues(&pie, flows);
        let stream = Stream::new(discipline.seed(), 0, Purpose::Scheduler);
        let bounds = Bounds { limit, flows, quantum, memory: u64::MAX, batch: 1 };
        Self::with(discipline, &bounds, Proportional { law, stream, dropped: 0, marked: 0 })
    }
}

/// The state of one queue; `None` before its first packet, and between a reset and the next packet.
#[derive(Debug, Default)]
pub struct State(Option<pie_law::State>);

impl FlowPolicy for Proportional {
    type State = State;

    #[inline]
    fn arrive(
        &mut self,
        state: &mut State,
        now: Nanos,
        packet: &Seen,
        context: &Context,
    ) -> Verdict {
        let state = state.0.get_or_insert_with(|| self.law.state());
        let verdict = self.law.arrive(state, now, packet, &context.queue, &mut self.stream);
        match verdict {
            Verdict::Drop(_) => self.dropped += 1,
            Verdict::Mark(_) => self.marked += 1,
            Verdict::Pass | Verdict::Admit => {}
        }
        verdict
    }

    #[inline]
    fn leave(
        &mut self,
        state: &mut State,
        now: Nanos,
        packet: &Seen,
        context: &Context,
    ) -> Verdict {
        let state = state.0.get_or_insert_with(|| self.law.state());
        self.law.leave(state, now, packet, &context.queue);
        Verdict::Pass
    }

    fn emptied(&mut self, state: &mut State, _now: Nanos) {
        if self.law.forgets() {
            state.0 = None;
        }
    }

    fn overflowed(&mut self, state: &mut State, _now: Nanos, _packets: u32) {
        if let Some(state) = &mut state.0 {
            state.dropped();
        }
    }

    fn drops_tail(&self) -> bool {
        self.law.drops_tail()
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::from([("dropped", self.dropped), ("marked", self.marked)])
    }
}

pub(super) const ROW: Row = Row {
    name: "fq_pie",
    aliases: &["fq-pie"],
    summary: "a queue with its own PIE for each flow, served in rounds, new flows first",
    source: "Ramakrishnan et al. 2019",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: true,
        flow: &[],
    },
};
