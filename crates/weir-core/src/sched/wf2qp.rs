//! WF2Q+: worst-case fair weighted fair queueing.
//!
//! # Model
//! Think of a fluid that serves all flows with packets at once, each at a rate by its weight. A packet has a start `S` and a
//! finish `F` in that fluid's time, the virtual time `V`. Of the packets whose start has come (`S ≤ V`, *eligible*), the one that
//! finishes first goes. Because a packet that the fluid would not yet have begun must wait, no flow gets ahead by more than
//! a packet, and because the earliest finish goes first, none falls behind by more than one.
//!
//! # Reference
//! Bennett and Zhang, "Hierarchical packet fair queueing algorithms", IEEE/ACM Transactions on Networking 5(5), 1997.
//!
//! # Symbols
//! `w` weight of a flow, `W` sum of the weights of all active flows, `L` length of a packet in bytes.
//! A packet at the head of its queue has `S = max(F of the one before, V)` when it finds the queue empty and `S = F of the one
//! before` otherwise, and `F = S + L / w`. At each service `V` grows by `L / W`, and to the least `S` when nothing is eligible.
//! A flow is active while it has packets, and after that until `V` reaches its `F`: the fluid is still serving what went early.
//!
//! ```text
//! S, F, V   63 ........................ 40 | 39 ........................ 0
//!           bytes for each unit of weight  | fraction
//! ```
//! `1 / w` is a fraction of 40 bits, wrong by less than `w / 2^40`, which is 6 parts in 10^8 for the largest weight. `V` starts at 0
//! whenever all queues are empty. In a busy period that never ends, all times are set back together before `V` nears the end of
//! its range; this costs one look at each flow for at least 1 MB times the sum of weights, so nothing.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows with packets: three heaps, of eligible flows by `F`, of those that are not by `S`, and of
//! idle ones by `F`.
//!
//! # Guarantees
//! Let a flow have packets from some time on, `L_k` its largest, `L` the largest of all, `φ = w / W` with `W` the most that the sum of
//! weights comes to. Its bytes since then are at least `φ` of all bytes less `L_k + φ L`, whatever flows come and go: one packet of
//! its own, and its share of the one that was on the wire. In a set of flows that does not change it is
//! `L_k + φ (L − L_k)`, the least possible, and the flow is never ahead by more than `(1 − φ) L_k`.
//!
//! # Differences from Linux/FreeBSD
//! dummynet's accepts weights up to 100 and has 28 bits of fraction. Linux has none.
//!
//! # Validation
//! These bounds against exact integer arithmetic in the property tests over the table, with random weights, sizes and comings
//! and goings of other flows.

use super::{Discipline, FlowSlot, FlowSpec, MAX_WEIGHT, Row, Scheduler, WEIGHT};
use crate::heap::EventHeap;
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// WF2Q+. Virtual times stand in the heaps as [`Nanos`], which to them is a number to sort by.
#[derive(Debug, Default)]
pub struct Wf2qPlus {
    flows: Slab<Flow>,
    /// Flows whose head may go, by `F`.
    eligible: EventHeap,
    /// Flows whose head may not go yet, by `S`.
    waiting: EventHeap,
    /// Active flows without packets, by `F`.
    idle: EventHeap,
    /// `V`.
    virtual_time: u64,
    /// `W`.
    weight_sum: u64,
    len: usize,
    backlog: u64,
}

/// A flow: its packets and the times of the first.
#[derive(Debug)]
struct Flow {
    list: PacketList,
    start: u64,
    finish: u64,
    /// `1 / w`.
    inverse: u64,
    weight: u32,
    /// It counts in the sum of weights.
    active: bool,
}

impl Flow {
    /// Gives the head its finish.
    #[inline]
    fn finish_head(&mut self) {
        let len = self.list.front_len();
        self.finish = self.start + u64::from(len.min(LARGEST)) * self.inverse;
    }
}

impl Wf2qPlus {
    /// An empty one.
    pub fn new(_discipline: &Discipline) -> Self {
        Self::default()
    }

    /// Puts a flow with packets where its head belongs.
    #[inline]
    fn place(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        if flow.start <= self.virtual_time {
            self.eligible.set(slot, Nanos(flow.finish));
        } else {
            self.waiting.set(slot, Nanos(flow.start));
        }
    }

    /// Takes a flow out of whichever heap it is in.
    fn displace(&mut self, slot: u32) {
        for heap in [&mut self.eligible, &mut self.waiting, &mut self.idle] {
            heap.set(slot, Nanos::MAX);
        }
    }

    /// Makes eligible what `V` has reached; when that is nothing, moves `V` on to the next start.
    #[inline]
    fn make_eligible(&mut self) {
        if self.eligible.len() == 0
            && let Some((Nanos(start), _)) = self.waiting.first()
        {
            self.virtual_time = self.virtual_time.max(start);
        }
        while let Some((Nanos(start), slot)) = self.waiting.first() {
            if start > self.virtual_time {
                break;
            }
            self.waiting.set(slot, Nanos::MAX);
            self.eligible.set(slot, Nanos(self.flows.at(slot).finish));
        }
    }

    /// Lets go of idle flows that the fluid has finished with.
    #[inline]
    fn retire(&mut self) {
        while let Some((Nanos(finish), slot)) = self.idle.first() {
            if finish > self.virtual_time {
                break;
            }
            self.idle.set(slot, Nanos::MAX);
            let flow = self.flows.at_mut(slot);
            flow.active = false;
            self.weight_sum -= u64::from(flow.weight);
        }
    }

    /// The end of a busy period: the fluid is done with everything.
    fn rest(&mut self) {
        self.virtual_time = u64::MAX;
        self.retire();
        self.virtual_time = 0;
    }

    /// Sets all times back, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn rebase(&mut self) {
        let by = self.virtual_time - MARGIN;
        self.virtual_time = MARGIN;
        for slot in 0..self.flows.bound() {
            let Some(flow) = self.flows.get_mut(slot) else { continue };
            flow.start = flow.start.saturating_sub(by);
            flow.finish = flow.finish.saturating_sub(by);
            let (active, empty) = (flow.active, flow.list.is_empty());
            let finish = flow.finish;
            self.displace(slot);
            if active && empty {
                self.idle.set(slot, Nanos(finish));
            } else if !empty {
                self.place(slot);
            }
        }
    }
}

impl Scheduler for Wf2qPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let weight = spec.weight.clamp(1, MAX_WEIGHT);
        let inverse = ONE / u64::from(weight);
        FlowSlot(self.flows.insert(Flow { list: PacketList::default(), start: 0, finish: 0, inverse, weight, active: false }))
    }

    fn change_flow<P: Store>(&mut self, _now: Nanos, _pool: &mut P, slot: FlowSlot, spec: &FlowSpec) {
        let weight = spec.weight.clamp(1, MAX_WEIGHT);
        let flow = self.flows.at_mut(slot.0);
        if flow.weight == weight {
            return;
        }
        let old = core::mem::replace(&mut flow.weight, weight);
        flow.inverse = ONE / u64::from(weight);
        if flow.active {
            self.weight_sum = self.weight_sum + u64::from(weight) - u64::from(old);
        }
        if !flow.list.is_empty() {
            flow.finish_head();
            self.displace(slot.0);
            self.place(slot.0);
        }
    }

    fn remove_flow<P: Store>(&mut self, _now: Nanos, pool: &mut P, slot: FlowSlot, _flow: u32) -> PacketList {
        self.displace(slot.0);
        let Some(flow) = self.flows.remove(slot.0) else { return PacketList::default() };
        if flow.active {
            self.weight_sum -= u64::from(flow.weight);
        }
        let (packets, bytes) = flow.list.measure(pool);
        self.len -= packets;
        self.backlog -= bytes;
        if self.len == 0 {
            self.rest();
        }
        flow.list
    }

    #[inline]
    fn enqueue<P: Store>(&mut self, _now: Nanos, pool: &mut P, slot: FlowSlot, packet: PacketId) -> Option<PacketId> {
        self.len += 1;
        self.backlog += u64::from(pool.len(packet));
        let flow = self.flows.at_mut(slot.0);
        let was_empty = flow.list.is_empty();
        flow.list.push_back(pool, packet);
        if !was_empty {
            return None;
        }
        if flow.active {
            flow.start = flow.finish.max(self.virtual_time);
            self.idle.set(slot.0, Nanos::MAX);
        } else {
            flow.start = self.virtual_time;
            flow.active = true;
            self.weight_sum += u64::from(flow.weight);
        }
        flow.finish_head();
        self.place(slot.0);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        self.make_eligible();
        let (_, slot) = self.eligible.first()?;
        let flow = self.flows.at_mut(slot);
        let packet = flow.list.pop_front(pool)?;
        let len = pool.len(packet);
        self.virtual_time += u64::from(len.min(LARGEST)) * ONE / self.weight_sum;
        self.len -= 1;
        self.backlog -= u64::from(len);
        if flow.list.is_empty() {
            self.eligible.set(slot, Nanos::MAX);
            self.idle.set(slot, Nanos(flow.finish));
            if self.len == 0 {
                self.rest();
                return Some(packet);
            }
        } else {
            flow.start = flow.finish;
            flow.finish_head();
            if flow.start > self.virtual_time {
                self.eligible.set(slot, Nanos::MAX);
            }
            self.place(slot);
        }
        self.retire();
        if self.virtual_time > HALF {
            self.rebase();
        }
        Some(packet)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

/// One byte for each unit of weight, in virtual time.
const ONE: u64 = 1 << 40;
/// A longer packet counts as this much, so that no time leaves its range. Four times what IPv4 allows.
const LARGEST: u32 = 1 << 18;
/// Times are set back when `V` has come this far.
const HALF: u64 = 1 << 61;
/// They are set back to leave `V` here, since those of a flow that is behind are less.
const MARGIN: u64 = 1 << 60;

pub(super) const ROW: Row = Row {
    name: "wf2q+",
    aliases: &["wf2qp", "wf2q"],
    summary: "worst-case fair weighted fair queueing: each flow gets its share to within one packet",
    source: "Bennett and Zhang 1997",
    complexity: "O(log N)",
    weighted: true,
    work_conserving: true,
    parameters: &[WEIGHT],
};
