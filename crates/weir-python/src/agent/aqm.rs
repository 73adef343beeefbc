//! The agent as an AQM: the action is the probability with which a packet is dropped, or marked if
//! it is ECN-capable.

use weir_core::Nanos;
use weir_core::aqm::{Aqm, External, ExternalFactory, Policy, QueueState, Setup, Traits, Verdict};
use weir_core::rng::Stream;
use weir_core::settings::{self, Row};
use weir_core::stats::{DropReason, MarkReason};

use super::state::{Shared, current, lock, row};

pub(super) struct Factory;

static ROW: Row<Traits> = row(Traits { marks: true, classifies: false });

impl settings::Factory for Factory {
    type Traits = Traits;

    fn row(&self) -> &'static Row<Traits> {
        &ROW
    }
}

impl ExternalFactory for Factory {
    fn make(&self, _policy: &Policy, setup: &Setup) -> Box<dyn External> {
        Box::new(AgentAqm { agent: current(), stream: setup.stream.clone() })
    }
}

#[derive(Debug)]
struct AgentAqm {
    agent: Shared,
    stream: Stream,
}

impl Aqm for AgentAqm {
    fn arrive(
        &mut self,
        _now: Nanos,
        packet: &weir_core::aqm::Seen,
        queue: &QueueState,
    ) -> Verdict {
        let mut agent = lock(&self.agent);
        let probability = agent.action.first().copied().unwrap_or_default();
        let sums = &mut agent.aqm;
        sums.arrived += 1;
        (sums.packets, sums.bytes) = (queue.packets.into(), queue.bytes);
        if queue.full {
            sums.full += 1;
            return Verdict::Pass;
        }
        // One draw for each packet that fits, whatever the action.
        let drawn = f64::from(self.stream.bits32()) / 4_294_967_296.0;
        if drawn < probability {
            if packet.header.ecn.is_capable() {
                sums.marked += 1;
                return Verdict::Mark(MarkReason::Early);
            }
            sums.dropped += 1;
            return Verdict::Drop(DropReason::Early);
        }
        (sums.packets, sums.bytes) = (sums.packets + 1, sums.bytes + u64::from(packet.len));
        Verdict::Pass
    }

    fn leave(&mut self, now: Nanos, packet: &weir_core::aqm::Seen, queue: &QueueState) -> Verdict {
        let sums = &mut lock(&self.agent).aqm;
        let wait = now.since(packet.arrived).0;
        sums.sent += 1;
        sums.sent_bytes += u64::from(packet.len);
        sums.wait_sum += wait;
        sums.wait_max = sums.wait_max.max(wait);
        (sums.packets, sums.bytes) = (queue.packets.into(), queue.bytes);
        Verdict::Pass
    }
}
