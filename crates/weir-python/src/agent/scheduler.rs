//! The agent as a scheduler: the action is the priority that is served first. The other priorities
//! follow in their order. Flows of one priority share a FIFO.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::packet::{PacketId, PacketList, Store};
use weir_core::sched::{Discipline, External, ExternalFactory, FlowSlot, FlowSpec, Traits};
use weir_core::settings::{self, Row};

use super::state::{Shared, Sums, current, lock, row};

pub(super) struct Factory;

static ROW: Row<Traits> = row(Traits {
    complexity: "O(number of flows)",
    weighted: false,
    work_conserving: true,
    classifies: false,
    flow: &[],
});

impl settings::Factory for Factory {
    type Traits = Traits;

    fn row(&self) -> &'static Row<Traits> {
        &ROW
    }
}

impl ExternalFactory for Factory {
    fn make(&self, _discipline: &Discipline) -> Box<dyn External> {
        Box::new(AgentScheduler { agent: current(), flows: Vec::new(), len: 0, backlog: 0 })
    }
}

#[derive(Debug)]
struct AgentScheduler {
    agent: Shared,
    /// The packets of each priority, each with its id, length, arrival and flow.
    flows: Vec<VecDeque<(PacketId, u32, Nanos, u32)>>,
    len: usize,
    backlog: u64,
}

impl AgentScheduler {
    /// Changes the sums of a priority, and notes when its first packet arrived.
    fn set(&self, place: usize, change: impl FnOnce(&mut Sums)) {
        let mut agent = lock(&self.agent);
        let flows = &mut agent.scheduler.flows;
        while flows.len() <= place {
            flows.push(Sums::default());
        }
        let sums = &mut flows[place];
        change(sums);
        sums.head = self.flows[place].front().map(|(_, _, arrived, _)| *arrived);
    }
}

impl External for AgentScheduler {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let place = spec.priority as usize;
        while self.flows.len() <= place {
            self.flows.push(VecDeque::new());
        }
        self.set(place, |sums| sums.weight = spec.weight.into());
        FlowSlot(place as u32)
    }

    fn change_flow(
        &mut self,
        _now: Nanos,
        _store: &mut dyn Store,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.set(slot.0 as usize, |sums| sums.weight = spec.weight.into());
    }

    fn remove_flow(
        &mut self,
        _now: Nanos,
        store: &mut dyn Store,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut list = PacketList::default();
        let place = slot.0 as usize;
        let (mut packets, mut bytes) = (0, 0);
        self.flows[place].retain(|&(id, len, _, of)| {
            if of == flow {
                list.push_back(store, id);
                (packets, bytes) = (packets + 1, bytes + u64::from(len));
            }
            of != flow
        });
        self.len -= packets as usize;
        self.backlog -= bytes;
        self.set(place, |sums| {
            sums.packets -= packets;
            sums.bytes -= bytes;
        });
        list
    }

    fn enqueue(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let (len, place) = (store.len(packet), slot.0 as usize);
        self.flows[place].push_back((packet, len, now, store.flow(packet)));
        self.len += 1;
        self.backlog += u64::from(len);
        self.set(place, |sums| {
            sums.packets += 1;
            sums.bytes += u64::from(len);
        });
        None
    }

    fn dequeue(&mut self, now: Nanos, _store: &mut dyn Store) -> Option<PacketId> {
        let first = lock(&self.agent).action.first().copied().unwrap_or_default() as usize;
        let waits = |place: &usize| self.flows.get(*place).is_some_and(|queue| !queue.is_empty());
        let place = Some(first).filter(waits).or_else(|| (0..self.flows.len()).find(waits))?;
        let (packet, len, arrived, _) = self.flows[place].pop_front()?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        self.set(place, |sums| {
            sums.packets -= 1;
            sums.bytes -= u64::from(len);
            sums.left += 1;
            sums.left_bytes += u64::from(len);
            sums.wait_sum += now.since(arrived).0;
        });
        Some(packet)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}
