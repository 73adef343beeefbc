//! The agent as a scheduler: the action is the priority that is served first. While this
//! priority has no packets, the lowest-numbered priority with packets is served. Flows of one
//! priority share a FIFO.

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
        Box::new(AgentScheduler { agent: current(), queues: Vec::new(), len: 0, backlog: 0 })
    }
}

#[derive(Debug)]
struct AgentScheduler {
    agent: Shared,
    /// The packets of each priority, each with its id, length, arrival and flow.
    queues: Vec<VecDeque<(PacketId, u32, Nanos, u32)>>,
    len: usize,
    backlog: u64,
}

impl AgentScheduler {
    /// Changes the sums of a priority, and notes when the packet at its head arrived.
    fn set(&self, place: usize, change: impl FnOnce(&mut Sums)) {
        let mut agent = lock(&self.agent);
        let priorities = &mut agent.scheduler.priorities;
        while priorities.len() <= place {
            priorities.push(Sums::default());
        }
        let sums = &mut priorities[place];
        change(sums);
        sums.head = self.queues[place].front().map(|(_, _, arrived, _)| *arrived);
    }
}

impl External for AgentScheduler {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let place = spec.priority as usize;
        while self.queues.len() <= place {
            self.queues.push(VecDeque::new());
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
        self.queues[place].retain(|&(id, len, _, of)| {
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
        self.queues[place].push_back((packet, len, now, store.flow(packet)));
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
        let waits = |place: &usize| self.queues.get(*place).is_some_and(|queue| !queue.is_empty());
        let place = Some(first).filter(waits).or_else(|| (0..self.queues.len()).find(waits))?;
        let (packet, len, arrived, _) = self.queues[place].pop_front()?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        self.set(place, |sums| {
            sums.packets -= 1;
            sums.bytes -= u64::from(len);
            sums.sent += 1;
            sums.sent_bytes += u64::from(len);
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
