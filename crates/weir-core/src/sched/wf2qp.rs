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
//! S, F, V   63 ........................ 40 | 39 .......... 20 | 19 ........... 0
//!           bytes for each unit of weight  | fraction
//!                                            that is compared   and that is not
//! ```
//! `1 / w` is a fraction of 40 bits, wrong by less than `w / 2^40`, which is 6 parts in 10^8 for the largest weight. Times are
//! compared without their last 20 bits, 1/16 byte for the largest weight and less for all others. Of equal finishes that of
//! the flow with the lower place goes first. In a busy period that never ends, all times are set back together before `V` nears
//! the end of its range; this costs one look at each active flow for 7 MB times the sum of their weights, so nothing.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows, by two tournaments: of eligible flows by `F`, and of those that are not by the `S` of
//! the packet they have or, when they are idle, would have. A change there goes up only as far as it makes a difference.
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
//! and goings of other flows. The order of packets against plain loops over all flows.

use super::stamp::{BACK, FRACTION, LARGEST, LIMIT, inverse, service, weight};
use super::tournament::Tournament;
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// WF2Q+.
#[derive(Debug)]
pub struct Wf2qPlus {
    flows: Slab<Flow>,
    /// Flows whose head may go, by `F`.
    eligible: Tournament,
    /// Active flows whose head may not go yet, or that have none, by `S`.
    waiting: Tournament,
    /// `V`.
    virtual_time: u64,
    /// `W`.
    weight_sum: u64,
    /// `1 / W`, as a fraction of 64 bits.
    inverse_sum: u64,
    len: usize,
    backlog: u64,
}

/// A flow: its packets and the times of the first.
#[derive(Debug)]
#[repr(align(64))]
struct Flow {
    start: u64,
    finish: u64,
    /// `1 / w`.
    inverse: u64,
    list: PacketList,
    weight: u32,
    /// It counts in the sum of weights.
    active: bool,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

impl Flow {
    /// Gives the head its finish.
    #[inline]
    fn finish_head(&mut self) {
        self.finish = self.start + service(self.list.front_len(), self.inverse);
    }
}

impl Wf2qPlus {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Slab::default(),
            eligible: Tournament::default(),
            waiting: Tournament::default(),
            virtual_time: discipline.epoch() % LIMIT,
            weight_sum: 0,
            inverse_sum: 0,
            len: 0,
            backlog: 0,
        }
    }

    #[inline]
    fn set_weight_sum(&mut self, sum: u64) {
        self.weight_sum = sum;
        self.inverse_sum = u64::MAX / sum.max(1);
    }

    /// Whether the fluid has begun with what starts at `start`.
    #[inline]
    fn has_come(&self, start: u64) -> bool {
        start <= self.virtual_time | !self.eligible.rounded(u64::MAX)
    }

    /// Puts a flow with packets where its head belongs.
    #[inline]
    fn place(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        let (start, finish) = (flow.start, flow.finish);
        if self.has_come(start) {
            self.eligible.set(slot, finish);
        } else {
            self.waiting.set(slot, start);
        }
    }

    fn displace(&mut self, slot: u32) {
        self.eligible.clear(slot);
        self.waiting.clear(slot);
    }

    /// Lets in what `V` has reached: heads become eligible, and with flows that have none the fluid is finished.
    #[inline]
    fn admit(&mut self) {
        while let Some((start, slot)) = self.waiting.first() {
            if start > self.virtual_time {
                break;
            }
            self.waiting.clear(slot);
            let flow = self.flows.at_mut(slot);
            if flow.list.is_empty() {
                flow.active = false;
                let weight = u64::from(flow.weight);
                self.set_weight_sum(self.weight_sum - weight);
            } else {
                self.eligible.set(slot, flow.finish);
            }
        }
    }

    /// Moves `V` on to where something becomes eligible.
    #[cold]
    fn jump(&mut self) {
        while self.eligible.is_empty()
            && let Some((start, _)) = self.waiting.first()
        {
            self.virtual_time = self.virtual_time.max(start);
            self.admit();
        }
    }

    /// The end of a busy period: the fluid is done with everything.
    fn rest(&mut self) {
        while let Some((_, slot)) = self.waiting.first() {
            self.waiting.clear(slot);
            self.flows.at_mut(slot).active = false;
        }
        self.weight_sum = 0;
    }

    /// Sets all times back, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn set_back(&mut self) {
        self.virtual_time -= BACK;
        for tournament in [&mut self.eligible, &mut self.waiting] {
            tournament.set_back(BACK, |slot| {
                let flow = self.flows.at_mut(slot);
                flow.start = flow.start.saturating_sub(BACK);
                flow.finish = flow.finish.saturating_sub(BACK);
            });
        }
    }
}

impl Scheduler for Wf2qPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let weight = weight(spec);
        let inverse = inverse(weight);
        let slot = self.flows.insert(Flow { list: PacketList::default(), start: 0, finish: 0, inverse, weight, active: false });
        self.eligible.make_room(slot);
        self.waiting.make_room(slot);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(&mut self, _now: Nanos, _pool: &mut P, slot: FlowSlot, spec: &FlowSpec) {
        let weight = weight(spec);
        let flow = self.flows.at_mut(slot.0);
        if flow.weight == weight {
            return;
        }
        let old = core::mem::replace(&mut flow.weight, weight);
        flow.inverse = inverse(weight);
        let (active, empty) = (flow.active, flow.list.is_empty());
        if active {
            self.set_weight_sum(self.weight_sum + u64::from(weight) - u64::from(old));
        }
        if !empty {
            self.flows.at_mut(slot.0).finish_head();
            self.displace(slot.0);
            self.place(slot.0);
        }
    }

    fn remove_flow<P: Store>(&mut self, _now: Nanos, pool: &mut P, slot: FlowSlot, _flow: u32) -> PacketList {
        let Some(flow) = self.flows.remove(slot.0) else { return PacketList::default() };
        self.displace(slot.0);
        if flow.active {
            self.set_weight_sum(self.weight_sum - u64::from(flow.weight));
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
        let len = pool.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        let flow = self.flows.at_mut(slot.0);
        let was_empty = flow.list.is_empty();
        flow.list.push_back_of(pool, packet, len);
        if !was_empty {
            return None;
        }
        if flow.active {
            // The fluid has not finished with it: it waits already, by what is now its start.
            flow.start = flow.finish;
            flow.finish_head();
            return None;
        }
        flow.active = true;
        flow.start = self.virtual_time;
        flow.finish_head();
        let (weight, finish) = (u64::from(flow.weight), flow.finish);
        self.set_weight_sum(self.weight_sum + weight);
        self.eligible.set(slot.0, finish);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        if self.eligible.is_empty() {
            self.jump();
        }
        let (_, slot) = self.eligible.first()?;
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let packet = flow.list.pop_front(pool)?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        let served = u128::from(u64::from(len.min(LARGEST)) << FRACTION);
        self.virtual_time += ((served * u128::from(self.inverse_sum)) >> 64) as u64;
        flow.start = flow.finish;
        let stays = !flow.list.is_empty();
        if stays {
            flow.finish_head();
        }
        let (start, finish) = (flow.start, flow.finish);
        if stays && self.has_come(start) {
            self.eligible.set(slot, finish);
        } else {
            self.eligible.clear(slot);
            self.waiting.set(slot, start);
        }
        if self.len == 0 {
            self.rest();
        } else {
            self.admit();
        }
        if self.virtual_time >= LIMIT {
            self.set_back();
        }
        Some(packet)
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

pub(super) const ROW: Row = Row {
    name: "wf2q+",
    aliases: &["wf2qp", "wf2q"],
    summary: "worst-case fair weighted fair queueing: each flow gets its share to within one packet",
    source: "Bennett and Zhang 1997",
    complexity: "O(log N)",
    weighted: true,
    work_conserving: true,
    classifies: false,
    parameters: &[WEIGHT],
};
