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
        let seen = &mut agent.aqm;
        seen.arrived += 1;
        (seen.packets, seen.bytes) = (queue.packets.into(), queue.bytes);
        if queue.full {
            seen.full += 1;
            return Verdict::Pass;
        }
        // One draw for each packet that fits, whatever the action.
        let drawn = f64::from(self.stream.bits32()) / 4_294_967_296.0;
        if drawn < probability {
            if packet.header.ecn.is_capable() {
                seen.marked += 1;
                return Verdict::Mark(MarkReason::Early);
            }
            seen.dropped += 1;
            return Verdict::Drop(DropReason::Early);
        }
        (seen.packets, seen.bytes) = (seen.packets + 1, seen.bytes + u64::from(packet.len));
        Verdict::Pass
    }

    fn leave(&mut self, now: Nanos, packet: &weir_core::aqm::Seen, queue: &QueueState) -> Verdict {
        let seen = &mut lock(&self.agent).aqm;
        let wait = now.since(packet.arrived).0;
        seen.sent += 1;
        seen.sent_bytes += u64::from(packet.len);
        seen.wait_sum += wait;
        seen.wait_max = seen.wait_max.max(wait);
        (seen.packets, seen.bytes) = (queue.packets.into(), queue.bytes);
        Verdict::Pass
    }
}
