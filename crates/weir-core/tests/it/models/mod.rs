//! Simple models of the schedulers that order packets by virtual times, and of a device
//! ([`device`]). The models of schedulers visit every flow at each step and use numbers that never
//! wrap, so that they contain nothing but the rules themselves.

pub(crate) mod device;

use std::collections::{BTreeMap, VecDeque};

/// A model of a scheduler. Each flow has the number of its slot in the scheduler under test.
pub(crate) trait Model {
    fn add(&mut self, slot: u32, weight: u32);
    fn change(&mut self, slot: u32, weight: u32);
    fn remove(&mut self, slot: u32);
    fn send(&mut self, slot: u32, len: u32);
    /// Takes the next packet, and returns its flow.
    fn take(&mut self) -> Option<u32>;
}

/// Virtual time with 40 bits of fraction. Most models compare only the upper 20 of them.
pub(crate) type Time = i128;

/// The part of a virtual time that most models compare.
pub(crate) fn compared(time: Time) -> Time {
    time >> 20
}

/// The virtual time that a packet of `len` bytes takes.
pub(crate) fn service(len: u32, weight: u32) -> Time {
    Time::from(len.min(1 << 18)) * ((1 << 40) / Time::from(weight))
}

/// A flow: the lengths of its packets, and the stamps of the first packet. A flow without packets
/// keeps the stamps of its last packet. In KPS, both of its stamps are then the time at which the
/// flow may start again.
#[derive(Debug, Default)]
struct Flow {
    weight: u32,
    packets: VecDeque<u32>,
    start: Time,
    finish: Time,
    /// For WF2Q+, whether the fluid is still serving the flow; for KPS, whether the flow is in a
    /// wheel.
    active: bool,
}

impl Flow {
    /// Computes the finish of the first packet.
    fn finish_head(&mut self) {
        self.finish = self.start + service(self.packets[0], self.weight);
    }
}

type Flows = BTreeMap<u32, Flow>;

fn waiting(flows: &Flows) -> impl Iterator<Item = (&u32, &Flow)> {
    flows.iter().filter(|(_, flow)| !flow.packets.is_empty())
}

/// Start-time fair queueing, or self-clocked fair queueing (`by_finish`).
pub(crate) struct SelfClocked {
    pub(crate) by_finish: bool,
    pub(crate) virtual_time: Time,
    flows: Flows,
    /// The latest finish of the packets that were taken so far.
    latest: Time,
}

impl SelfClocked {
    pub(crate) fn new(by_finish: bool, epoch: u64) -> Self {
        Self { by_finish, virtual_time: Time::from(epoch), flows: Flows::new(), latest: 0 }
    }

    fn reset_if_empty(&mut self) {
        if waiting(&self.flows).count() == 0 {
            self.virtual_time = self.virtual_time.max(self.latest);
        }
    }
}

impl Model for SelfClocked {
    fn add(&mut self, slot: u32, weight: u32) {
        self.flows.insert(slot, Flow { weight, ..Flow::default() });
    }

    fn change(&mut self, slot: u32, weight: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        flow.weight = weight;
        if !flow.packets.is_empty() {
            flow.finish_head();
        }
    }

    fn remove(&mut self, slot: u32) {
        self.flows.remove(&slot);
        self.reset_if_empty();
    }

    fn send(&mut self, slot: u32, len: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        flow.packets.push_back(len);
        if flow.packets.len() == 1 {
            flow.start = flow.finish.max(self.virtual_time);
            flow.finish_head();
        }
    }

    fn take(&mut self) -> Option<u32> {
        let stamp = |flow: &Flow| if self.by_finish { flow.finish } else { flow.start };
        let (&slot, _) =
            waiting(&self.flows).min_by_key(|(slot, flow)| (compared(stamp(flow)), **slot))?;
        self.virtual_time = self.virtual_time.max(stamp(&self.flows[&slot]));
        let flow = self.flows.get_mut(&slot).unwrap();
        self.latest = self.latest.max(flow.finish);
        flow.packets.pop_front();
        if !flow.packets.is_empty() {
            flow.start = flow.finish;
            flow.finish_head();
        }
        self.reset_if_empty();
        Some(slot)
    }
}

/// WF2Q+.
pub(crate) struct Wf2qPlus {
    virtual_time: Time,
    flows: Flows,
}

impl Wf2qPlus {
    pub(crate) fn new(epoch: u64) -> Self {
        Self { virtual_time: Time::from(epoch), flows: Flows::new() }
    }

    fn reset_if_empty(&mut self) {
        if waiting(&self.flows).count() == 0 {
            self.flows.values_mut().for_each(|flow| flow.active = false);
        }
    }

    /// Deactivates the flows that the fluid has finished.
    fn retire(&mut self) {
        let now = compared(self.virtual_time);
        for flow in self
            .flows
            .values_mut()
            .filter(|flow| flow.packets.is_empty() && compared(flow.finish) <= now)
        {
            flow.active = false;
        }
    }
}

impl Model for Wf2qPlus {
    fn add(&mut self, slot: u32, weight: u32) {
        self.flows.insert(slot, Flow { weight, ..Flow::default() });
    }

    fn change(&mut self, slot: u32, weight: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        flow.weight = weight;
        if !flow.packets.is_empty() {
            flow.finish_head();
        }
    }

    fn remove(&mut self, slot: u32) {
        self.flows.remove(&slot);
        self.reset_if_empty();
    }

    fn send(&mut self, slot: u32, len: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        flow.packets.push_back(len);
        if flow.packets.len() == 1 {
            flow.start = if flow.active { flow.finish } else { self.virtual_time };
            flow.active = true;
            flow.finish_head();
        }
    }

    fn take(&mut self) -> Option<u32> {
        let slot = loop {
            let now = compared(self.virtual_time);
            let eligible = waiting(&self.flows).filter(|(_, flow)| compared(flow.start) <= now);
            if let Some((&slot, _)) =
                eligible.min_by_key(|(slot, flow)| (compared(flow.finish), **slot))
            {
                break slot;
            }
            // No packet is eligible: advance to the next start, or to the time at which the fluid
            // finishes a flow.
            let active = self.flows.values().filter(|flow| flow.active);
            let next = active
                .map(|flow| if flow.packets.is_empty() { flow.finish } else { flow.start })
                .min()?;
            self.virtual_time = self.virtual_time.max(compared(next) << 20);
            self.retire();
        };
        let weights: u128 = self
            .flows
            .values()
            .filter(|flow| flow.active)
            .map(|flow| u128::from(flow.weight))
            .sum();
        let flow = self.flows.get_mut(&slot).unwrap();
        let len = flow.packets.pop_front().unwrap().min(1 << 18);
        let inverse = u128::from(u64::MAX) / weights;
        self.virtual_time += (((u128::from(len) << 40) * inverse) >> 64) as Time;
        if !flow.packets.is_empty() {
            flow.start = flow.finish;
            flow.finish_head();
        }
        self.retire();
        self.reset_if_empty();
        Some(slot)
    }
}

/// Weighted fair queueing, or WF2Q (`only_eligible`). Every waiting packet has stamps of its own,
/// which are computed anew when its flow's weight changes. Virtual time advances in pieces, each up
/// to the next time at which the fluid has served all packets of a flow.
pub(crate) struct FluidClocked {
    only_eligible: bool,
    flows: BTreeMap<u32, Stamped>,
    /// The virtual time.
    now: Time,
    /// Bytes of service for which virtual time has not advanced, with 40 bits of fraction.
    left_over: Time,
}

/// A flow with stamps for each of its packets.
#[derive(Debug)]
struct Stamped {
    weight: u32,
    /// Length, start and finish.
    packets: VecDeque<(u32, Time, Time)>,
    /// The virtual time at which the fluid finishes the flow.
    end: Time,
}

impl FluidClocked {
    pub(crate) fn new(only_eligible: bool, epoch: u64) -> Self {
        Self { only_eligible, flows: BTreeMap::new(), now: Time::from(epoch), left_over: 0 }
    }

    /// Advances the fluid by a packet that was served.
    fn serve(&mut self, len: u32) {
        self.left_over += Time::from(len.min(1 << 18)) << 40;
        loop {
            let live = || self.flows.values().filter(|flow| flow.end > self.now);
            let weights: Time = live().map(|flow| Time::from(flow.weight)).sum();
            let Some(end) = live().map(|flow| flow.end).min() else {
                self.left_over = 0;
                return;
            };
            let bytes = (end - self.now) * weights;
            if bytes > self.left_over {
                self.now += self.left_over / weights;
                self.left_over %= weights;
                return;
            }
            self.left_over -= bytes;
            self.now = end;
        }
    }

    fn reset_if_empty(&mut self) {
        if self.flows.values().all(|flow| flow.packets.is_empty()) {
            let last = self.flows.values().map(|flow| flow.end).max().unwrap_or(0);
            (self.now, self.left_over) = (self.now.max(last), 0);
        }
    }
}

impl Model for FluidClocked {
    fn add(&mut self, slot: u32, weight: u32) {
        self.flows.insert(slot, Stamped { weight, packets: VecDeque::new(), end: 0 });
    }

    fn change(&mut self, slot: u32, weight: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        let old = std::mem::replace(&mut flow.weight, weight);
        if flow.end > self.now {
            flow.end = self.now + (flow.end - self.now) * Time::from(old) / Time::from(weight);
        }
        if old == weight {
            return;
        }
        let most = 1 << 60;
        let waiting: Time = flow.packets.iter().map(|&(len, ..)| service(len, weight)).sum();
        flow.end = (flow.end - waiting).min(self.now + most);
        if !flow.packets.is_empty() {
            flow.end = flow.end.max(self.now - most);
        }
        for (len, start, finish) in &mut flow.packets {
            (*start, *finish) = (flow.end, flow.end + service(*len, weight));
            flow.end = *finish;
        }
    }

    fn remove(&mut self, slot: u32) {
        self.flows.remove(&slot);
        self.reset_if_empty();
    }

    fn send(&mut self, slot: u32, len: u32) {
        let flow = self.flows.get_mut(&slot).unwrap();
        let start = flow.end.max(self.now);
        flow.end = start + service(len, flow.weight);
        flow.packets.push_back((len, start, flow.end));
    }

    fn take(&mut self) -> Option<u32> {
        let heads = || {
            self.flows.iter().filter_map(|(&slot, flow)| {
                flow.packets.front().map(|&(_, start, finish)| (slot, start, finish))
            })
        };
        let first = heads().map(|(_, start, _)| compared(start)).min()?;
        if self.only_eligible && first << 20 > self.now {
            (self.now, self.left_over) = (first << 20, 0);
        }
        let may_leave = |start| !self.only_eligible || compared(start) <= compared(self.now);
        let next = heads()
            .filter(|&(_, start, _)| may_leave(start))
            .min_by_key(|&(slot, _, finish)| (compared(finish), slot));
        let (slot, ..) = next?;
        let (len, ..) = self.flows.get_mut(&slot).unwrap().packets.pop_front().unwrap();
        self.serve(len);
        self.reset_if_empty();
        Some(slot)
    }
}

/// KPS: the rounded start of a flow determines the flow's place in a timer wheel. The parameter
/// `slot` of the functions is the number of a flow, as in all models, and not a slot of a wheel.
pub(crate) struct Kps {
    flows: BTreeMap<u32, KpsFlow>,
    virtual_time: Time,
    /// Number of placements so far, which orders the flows within a slot of a wheel.
    placement: u64,
}

/// A flow. While it is in a wheel (`flow.active`), `begin` is the beginning of its slot, and
/// `placement` orders the flows within the slot.
#[derive(Debug, Default)]
struct KpsFlow {
    flow: Flow,
    max_packet: u32,
    eligible: bool,
    begin: Time,
    placement: u64,
}

impl KpsFlow {
    /// The base-2 logarithm of the length of the slots in the flow's wheel.
    fn width(&self) -> u32 {
        (1..).find(|width| 1 << width >= service(self.max_packet, self.flow.weight)).unwrap()
    }

    fn finish_head(&mut self) {
        self.max_packet = self.max_packet.max(self.flow.packets[0].min(1 << 18));
        self.flow.finish_head();
    }
}

impl Kps {
    pub(crate) fn new(epoch: u64) -> Self {
        Self { flows: BTreeMap::new(), virtual_time: Time::from(epoch), placement: 0 }
    }

    /// Puts a flow into a slot of a wheel. A flow without packets becomes inactive instead if its
    /// slot has begun.
    fn place(&mut self, slot: u32) {
        let state = self.flows.get_mut(&slot).unwrap();
        let width = state.width();
        let (length, half) = (1 << width, 1 << (width - 1));
        let mut begin = (state.flow.start + half).div_euclid(length) * length - half;
        if state.flow.packets.is_empty() {
            begin += length;
        }
        let eligible = begin <= self.virtual_time;
        state.flow.active = !eligible || !state.flow.packets.is_empty();
        if !state.flow.active {
            return;
        }
        // A wheel has 64 slots. Occupied slots stay where they are, so the flow must be placed
        // within 63 slots of them.
        let others = self.flows.iter().filter(|(other, flow)| {
            **other != slot
                && flow.flow.active
                && flow.eligible == eligible
                && flow.width() == width
        });
        let others: Vec<Time> = others.map(|(_, flow)| flow.begin).collect();
        if let (Some(first), Some(last)) = (others.iter().min(), others.iter().max()) {
            begin = if begin < *first {
                begin.max(last - 63 * length)
            } else {
                begin.min(first + 63 * length)
            };
        }
        self.placement += 1;
        let state = self.flows.get_mut(&slot).unwrap();
        (state.eligible, state.begin, state.placement) = (eligible, begin, self.placement);
    }

    /// The flows in the wheels of eligible flows, or in the wheels of flows that are not eligible.
    fn in_wheels(&self, eligible: bool) -> impl Iterator<Item = (&u32, &KpsFlow)> {
        self.flows.iter().filter(move |(_, flow)| flow.flow.active && flow.eligible == eligible)
    }

    /// Moves the flows out of the slots that have begun: a flow with packets becomes eligible, a
    /// flow without packets inactive.
    fn admit(&mut self) {
        loop {
            let due = self.in_wheels(false).filter(|(_, flow)| flow.begin <= self.virtual_time);
            let Some((&slot, _)) = due.min_by_key(|(_, flow)| (flow.begin, flow.placement)) else {
                return;
            };
            self.flows.get_mut(&slot).unwrap().flow.active = false;
            self.place(slot);
        }
    }

    fn reset_if_empty(&mut self) {
        if self.flows.values().all(|flow| flow.flow.packets.is_empty()) {
            self.flows.values_mut().for_each(|flow| flow.flow.active = false);
        }
    }
}

impl Model for Kps {
    fn add(&mut self, slot: u32, weight: u32) {
        self.flows.insert(
            slot,
            KpsFlow {
                flow: Flow { weight, ..Flow::default() },
                max_packet: 1500,
                ..KpsFlow::default()
            },
        );
    }

    fn change(&mut self, slot: u32, weight: u32) {
        let now = self.virtual_time;
        let state = self.flows.get_mut(&slot).unwrap();
        if (state.flow.weight, state.max_packet) == (weight, 1500) {
            return;
        }
        let active = std::mem::replace(&mut state.flow.active, false);
        (state.flow.weight, state.max_packet) = (weight, 1500);
        if !state.flow.packets.is_empty() {
            state.finish_head();
        }
        let most = 2 << state.width();
        state.flow.start = state.flow.start.clamp(now - most, now + most);
        state.flow.finish = state.flow.start;
        if !state.flow.packets.is_empty() {
            state.finish_head();
        }
        if active {
            self.place(slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.flows.remove(&slot);
        self.reset_if_empty();
    }

    fn send(&mut self, slot: u32, len: u32) {
        let state = self.flows.get_mut(&slot).unwrap();
        state.flow.packets.push_back(len);
        if state.flow.packets.len() > 1 {
            return;
        }
        state.flow.start = if state.flow.active {
            state.flow.finish.max(self.virtual_time)
        } else {
            self.virtual_time
        };
        state.flow.active = false;
        state.finish_head();
        self.place(slot);
    }

    fn take(&mut self) -> Option<u32> {
        while self.in_wheels(true).count() == 0 {
            let next = self.in_wheels(false).map(|(_, flow)| flow.begin).min()?;
            self.virtual_time = self.virtual_time.max(next);
            self.admit();
        }
        let due = |flow: &KpsFlow| flow.begin + (2 << flow.width());
        let (&slot, _) =
            self.in_wheels(true).min_by_key(|(_, flow)| (due(flow), flow.placement))?;
        let weights: u128 = self
            .flows
            .values()
            .filter(|flow| flow.flow.active)
            .map(|flow| u128::from(flow.flow.weight))
            .sum();
        let state = self.flows.get_mut(&slot).unwrap();
        let len = state.flow.packets.pop_front().unwrap().min(1 << 18);
        state.flow.active = false;
        self.virtual_time +=
            (((u128::from(len) << 40) * (u128::from(u64::MAX) / weights)) >> 64) as Time;
        state.flow.start = state.flow.finish;
        if !state.flow.packets.is_empty() {
            state.finish_head();
        }
        self.place(slot);
        self.admit();
        self.reset_if_empty();
        Some(slot)
    }
}
