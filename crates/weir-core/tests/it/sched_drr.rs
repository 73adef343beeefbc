//! Deficit round robin, and `ets`, which serves strict priorities before deficit round robin: the
//! order compared with that of a plain model, and the position of a flow that becomes busy.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::sched::{Discipline, Kind, Scheduler, Visitor};

use super::common::Rig;

/// The model: a list of packets for each strict priority, and a ring of the other flows.
#[derive(Default)]
struct Bands {
    /// Priorities below this number are strict.
    strict: u32,
    /// Flow and length of the waiting packets of each strict priority.
    urgent: BTreeMap<u32, VecDeque<(u32, u32)>>,
    flows: BTreeMap<u32, Flow>,
    /// The flows of other priorities that have packets, in the order of their turns.
    ring: VecDeque<u32>,
}

#[derive(Default)]
struct Flow {
    priority: u32,
    quantum: u32,
    credit: u32,
    queue: VecDeque<u32>,
}

impl Bands {
    /// Adds a flow, or changes its weight and priority.
    fn set(&mut self, flow: u32, weight: u32, priority: u32) {
        let state = self.flows.entry(flow).or_default();
        let old = std::mem::replace(&mut state.priority, priority);
        state.quantum = QUANTUM * weight;
        let mut packets: Vec<u32> = Vec::new();
        if old < self.strict && old != priority {
            let queue = self.urgent.entry(old).or_default();
            packets = queue.iter().filter(|p| p.0 == flow).map(|p| p.1).collect();
            queue.retain(|p| p.0 != flow);
        } else if old >= self.strict && priority < self.strict {
            packets = state.queue.drain(..).collect();
            self.ring.retain(|&other| other != flow);
        }
        packets.into_iter().for_each(|len| self.send(flow, len));
    }

    fn send(&mut self, flow: u32, len: u32) {
        let state = self.flows.get_mut(&flow).unwrap();
        if state.priority < self.strict {
            self.urgent.entry(state.priority).or_default().push_back((flow, len));
            return;
        }
        if state.queue.is_empty() {
            state.credit = state.quantum;
            self.ring.push_back(flow);
        }
        state.queue.push_back(len);
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        if let Some(packet) = self.urgent.values_mut().find_map(VecDeque::pop_front) {
            return Some(packet);
        }
        loop {
            let flow = *self.ring.front()?;
            let state = self.flows.get_mut(&flow).unwrap();
            let len = state.queue[0];
            if len > state.credit {
                state.credit += state.quantum;
                self.ring.rotate_left(1);
                continue;
            }
            state.credit -= len;
            state.queue.pop_front();
            if state.queue.is_empty() {
                self.ring.pop_front();
            }
            return Some((flow, len));
        }
    }
}

/// Runs random operations on a scheduler and on the model.
struct Compare<'a> {
    strict: u32,
    operations: &'a [Operation],
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Flow and length.
    Send(u32, u32),
    Take,
    /// Flow, weight and priority.
    Change(u32, u32, u32),
}

impl Visitor for Compare<'_> {
    type Output = ();

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) {
        let mut rig = Rig::new(scheduler);
        let mut bands = Bands { strict: self.strict, ..Bands::default() };
        for flow in 0..FLOWS {
            // Flow 0 is never strict and always has the least weight, 1, so that each quantum is
            // `QUANTUM` times the weight.
            let (weight, priority) = if flow == 0 { (1, 63) } else { (flow, flow) };
            assert_eq!(rig.add(weight, QUANTUM, priority), flow);
            bands.set(flow, weight, priority);
        }
        for &operation in self.operations {
            match operation {
                Operation::Send(flow, len) => {
                    rig.send(flow, len);
                    bands.send(flow, len);
                }
                Operation::Take => assert_eq!(rig.take(), bands.take()),
                Operation::Change(flow, weight, priority) => {
                    rig.change(flow, weight, priority);
                    bands.set(flow, weight, priority);
                }
            }
        }
        while rig.inside() > 0 {
            assert_eq!(rig.take(), bands.take());
        }
        assert_eq!((bands.take(), rig.scheduler.len(), rig.scheduler.backlog()), (None, 0, 0));
    }
}

fn discipline(kind: Kind, name: &str, value: &str) -> Discipline {
    let mut discipline = Discipline::new(kind);
    discipline.set(name, value).unwrap();
    discipline
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn ets_and_the_variant_of_linux_serve_in_the_order_of_the_model(
        strict in 0u32..5,
        operations in proptest::collection::vec(prop_oneof![
            9 => (0..FLOWS, prop_oneof![40u32..=1500, Just(9000)]).prop_map(|(f, l)| Operation::Send(f, l)),
            8 => Just(Operation::Take),
            1 => (1..FLOWS, 1u32..6, 0u32..8).prop_map(|(f, w, p)| Operation::Change(f, w, p)),
        ], 1..400),
    ) {
        let operations = &operations[..];
        let ets = discipline(Kind::Ets, "strict", &strict.to_string());
        ets.visit(Compare { strict, operations });
        let drr = discipline(Kind::RoundRobin, "variant", "linux");
        drr.visit(Compare { strict: 0, operations });
    }
}

/// The order of the flows when flow 1 becomes busy after the first packet of flow 0 has left.
struct Latecomer;

impl Visitor for Latecomer {
    type Output = Vec<u32>;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Vec<u32> {
        let mut rig = Rig::new(scheduler);
        (0..2).for_each(|_| _ = rig.add(1, QUANTUM, 0));
        (0..3).for_each(|_| rig.send(0, 1500));
        let mut order = vec![rig.take().unwrap().0];
        rig.send(1, 1500);
        order.extend(std::iter::from_fn(|| rig.take()).map(|packet| packet.0));
        order
    }
}

#[test]
fn in_linux_a_flow_that_becomes_busy_is_before_the_flow_that_used_its_credit() {
    assert_eq!(Discipline::new(Kind::RoundRobin).visit(Latecomer), [0, 0, 1, 0]);
    let linux = discipline(Kind::RoundRobin, "variant", "linux");
    assert_eq!(linux.visit(Latecomer), [0, 1, 0, 0]);
    assert_eq!(Discipline::new(Kind::Ets).visit(Latecomer), [0, 1, 0, 0]);
}

const FLOWS: u32 = 6;
const QUANTUM: u32 = 1500;
