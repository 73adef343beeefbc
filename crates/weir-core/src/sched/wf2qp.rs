//! WF2Q+: worst-case fair weighted fair queueing.
//!
//! # Model
//! Think of a fluid that serves all flows with packets at once, each at a rate by its weight. A
//! packet has a start `S` and a finish `F` in that fluid's time, the virtual time `V`. Of the
//! packets whose start has come (`S ≤ V`, *eligible*), the one that finishes first goes. Because a
//! packet that the fluid would not yet have begun must wait, no flow gets ahead by more than a
//! packet, and because the earliest finish goes first, none falls behind by more than one.
//!
//! # Reference
//! Bennett and Zhang, "Hierarchical packet fair queueing algorithms", IEEE/ACM Transactions on
//! Networking 5(5), 1997.
//!
//! # Symbols
//! `w` weight of a flow, `W` sum of the weights of all active flows, `L` length of a packet in
//! bytes. A packet at the head of its queue has `S = max(F of the one before, V)` when it finds the
//! queue empty and `S = F of the one before` otherwise, and `F = S + L / w`. At each service `V`
//! grows by `L / W`, and to the least `S` when nothing is eligible. A flow is active while it has
//! packets, and after that until `V` reaches its `F`: the fluid is still serving packets that left
//! early.
//!
//! ```text
//! S, F, V   63 ........................ 40 | 39 .......... 20 | 19 ........... 0
//!           bytes for each unit of weight  | fraction
//!                                            that is compared   and that is not
//! ```
//! `1 / w` is a fraction of 40 bits, wrong by less than `w / 2^40`, which is 6 parts in 10^8 for
//! the largest weight. Times are compared without their last 20 bits, 1/16 byte for the largest
//! weight and less for all others. Of equal finishes that of the flow with the lower place goes
//! first. In a busy period that never ends, all times are set back together before `V` nears the
//! end of its range; this costs one look at each active flow for 7 MB times the sum of their
//! weights, so nothing.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! Flows whose packets take equally long, `L / w`, are served in the order in which they start
//! again. They are therefore kept in queues that need no sorting, and only the first of each is
//! inspected: up to eight kinds of flows cost O(1), regardless of their number. All others, such as
//! flows with packets of many lengths, cost O(log N) for each packet and N flows, by two
//! tournaments: of eligible flows by `F`, and of those that are not by the `S` of the packet they
//! have or, when they are idle, would have. A change there moves up only as far as it makes a
//! difference. This bound holds for every pattern, on average over the packets of a busy period:
//! many flows that the fluid finishes at one time leave together. A single flow is compared with
//! none.
//!
//! # Guarantees
//! Let a flow have packets from some time on, `L_k` its largest, `L` the largest of all,
//! `φ = w / W` with `W` the most that the sum of weights comes to. Its bytes since then are at
//! least `φ` of all bytes less `L_k + φ L`, whatever flows come and go: one packet of its own, and
//! its share of the one that was on the wire. In a set of flows that does not change it is
//! `L_k + φ (L − L_k)`, the least possible, and the flow is never ahead by more than `(1 − φ) L_k`.
//!
//! # Differences from Linux/FreeBSD
//! dummynet's accepts weights up to 100 and has 28 bits of fraction. Linux has none.
//!
//! # Validation
//! These bounds against exact integer arithmetic in the property tests over the table, with random
//! weights, sizes, and other flows that come and go. The order of packets against plain loops over
//! all flows.

use alloc::vec::Vec;

use super::chains::{CLASSES, Classes, HEADS, NONE};
use super::stamp::{BACK, FRACTION, LARGEST, LIMIT, inverse, service, weight};
use super::tournament::Tournament;
use super::waiting::Waiting;
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;

/// WF2Q+.
#[derive(Debug)]
pub struct Wf2qPlus {
    flows: Lines<Flow>,
    /// Flows with packets, in order of `S` and of `F` at once.
    heads: Classes,
    /// Flows with packets that are in no chain and whose head may go, by `F`.
    eligible: Tournament,
    /// Active flows that are in no chain and either may not go yet or had no packets when they were
    /// added, by `S`.
    waiting: Waiting,
    /// `V`.
    virtual_time: u64,
    /// `W`.
    weight_sum: u64,
    /// `1 / W`, as a fraction of 64 bits, for the `W` that is beside it.
    inverse_sum: u64,
    inverse_of: u64,
    /// The only active flow, which is then in no other structure, or [`NO_FLOW`].
    lone: u32,
    len: u32,
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
    /// 0 of a place that no flow has.
    weight: u32,
    /// It counts in the sum of weights.
    active: bool,
    /// What the head takes of the flow's time, `L / w`, and whether that is what the one before it
    /// took.
    service: u64,
    repeats: bool,
    /// The class that its head was in last.
    class: u8,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills one cache line");

impl Flow {
    /// Gives the head its finish.
    #[inline]
    fn finish_head(&mut self) {
        let service = service(self.list.front_len(), self.inverse);
        self.repeats = service == core::mem::replace(&mut self.service, service);
        self.finish = self.start + service;
    }
}

impl Wf2qPlus {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Lines::default(),
            heads: Classes::default(),
            eligible: Tournament::default(),
            waiting: Waiting::default(),
            virtual_time: discipline.epoch() % LIMIT,
            weight_sum: 0,
            inverse_sum: 0,
            inverse_of: 0,
            lone: NO_FLOW,
            len: 0,
            backlog: 0,
        }
    }

    /// What `len` bytes take of the fluid's time: `L / W`.
    #[inline]
    fn share(&mut self, len: u32) -> u64 {
        if self.inverse_of != self.weight_sum {
            self.inverse_of = self.weight_sum;
            self.inverse_sum = u64::MAX / self.weight_sum.max(1);
        }
        let served = u64::from(len.min(LARGEST)) << FRACTION;
        ((u128::from(served) * u128::from(self.inverse_sum)) >> 64) as u64
    }

    /// The flow that goes next, as it is compared, and its chain, or [`HEADS`] of one that is in
    /// none; [`NONE`] when no head may go.
    #[inline(always)] // Measured: see the module of schedulers.
    fn first(&self) -> (u64, usize) {
        let first = self.heads.first(self.virtual_time);
        let top = self.eligible.top();
        if top < first.0 { (top, HEADS) } else { first }
    }

    /// Puts the only active flow where it belongs among others.
    #[inline(never)]
    fn join(&mut self) {
        let slot = core::mem::replace(&mut self.lone, NO_FLOW);
        if slot != NO_FLOW {
            self.place(slot);
        }
    }

    /// Serves the only active flow.
    #[inline(always)] // Measured: see the module of schedulers.
    fn serve_lone<P: Store>(&mut self, pool: &mut P) -> PacketId {
        let flow = self.flows.at_mut(self.lone);
        let len = flow.list.front_len();
        let (packet, more) = flow.list.take_first(pool);
        let start = core::mem::replace(&mut flow.start, flow.finish);
        flow.active = more;
        if more {
            flow.finish_head();
        } else {
            self.lone = NO_FLOW;
        }
        self.virtual_time = self.virtual_time.max(self.eligible.rounded(start)) + self.share(len);
        self.len -= 1;
        self.backlog -= u64::from(len);
        if !more {
            self.weight_sum = 0;
        }
        if self.virtual_time >= LIMIT {
            self.join();
            self.regroup(BACK, self.eligible.slot_bits());
        }
        packet
    }

    /// Puts a flow with packets where its head belongs.
    #[inline(always)] // Measured: see the module of schedulers.
    fn place(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let mut chain = HEADS;
        if flow.repeats {
            chain = self.heads.chain_of(flow.service, flow.class);
            flow.class = (chain / 2 % CLASSES) as u8;
        }
        let (start, finish) = (flow.start, flow.finish);
        self.put(slot, chain, start, finish);
    }

    /// Puts a flow into the chains of its class, or elsewhere if it has no place there or `chain`
    /// is [`HEADS`].
    #[inline(always)] // Measured: see the module of schedulers.
    fn put(&mut self, slot: u32, chain: usize, start: u64, finish: u64) {
        let start_rounded = self.eligible.rounded(start);
        if chain < HEADS && self.heads.put(chain, start_rounded, self.eligible.key(slot, finish)) {
            return;
        }
        if start_rounded <= self.virtual_time {
            self.eligible.set(slot, finish);
        } else {
            self.waiting.put(slot, start);
        }
    }

    /// Lets in what `V` has reached: heads become eligible, and with flows that have none the fluid
    /// is finished.
    #[inline(always)] // Measured: see the module of schedulers.
    fn admit(&mut self) {
        if self.waiting.may_be_due(self.virtual_time) {
            self.admit_due();
        }
    }

    #[inline(never)]
    fn admit_due(&mut self) {
        while let Some(slot) = self.waiting.take_due(self.virtual_time) {
            self.reach(slot);
        }
    }

    /// `V` has come to a flow that waited for it.
    #[inline]
    fn reach(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        if flow.list.is_empty() {
            flow.active = false;
            self.weight_sum -= u64::from(flow.weight);
        } else {
            self.place(slot);
        }
    }

    /// Moves `V` on to where something becomes eligible.
    #[inline(never)]
    fn jump(&mut self) -> (u64, usize) {
        loop {
            let next = self.heads.least_start().min(self.waiting.first());
            if next == NONE {
                return (NONE, HEADS);
            }
            self.virtual_time = self.virtual_time.max(next);
            self.admit();
            let first = self.first();
            if first.0 != NONE {
                return first;
            }
        }
    }

    /// Says which flows and packets will be asked for soon.
    #[inline(always)] // Measured: see the module of schedulers.
    fn look_ahead<P: Store>(&self, chain: usize, pool: &mut P) {
        self.flows.prefetch(self.eligible.slot(self.heads.behind(chain, 5)));
        let next = self.eligible.slot(self.heads.behind(chain, 2));
        if let Some(packet) = self.flows.get(next).and_then(|flow| flow.list.front()) {
            pool.prefetch(packet);
        }
    }

    /// The end of a busy period: the fluid is done with everything.
    fn rest(&mut self) {
        while let Some(slot) = self.waiting.take_due(NONE - 1) {
            self.flows.at_mut(slot).active = false;
        }
        self.weight_sum = 0;
    }

    /// Reduces all times by `by`, and sorts the flows of the chains again; `bits` are the low bits
    /// of their keys that hold the place.
    #[cold]
    #[inline(never)]
    fn regroup(&mut self, by: u64, bits: u64) {
        self.virtual_time -= by;
        let heads: Vec<u32> =
            self.heads.take_all().into_iter().map(|key| (key & bits) as u32).collect();
        let mut earlier = |slot| {
            let flow = self.flows.at_mut(slot);
            flow.start = flow.start.saturating_sub(by);
            flow.finish = flow.finish.saturating_sub(by);
        };
        self.eligible.set_back(by, &mut earlier);
        self.waiting.set_back(by, bits, &mut earlier);
        heads.iter().copied().for_each(earlier);
        for slot in heads {
            self.place(slot);
        }
    }
}

impl Scheduler for Wf2qPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let weight = weight(spec);
        let inverse = inverse(weight);
        let slot = self.flows.insert(Flow {
            list: PacketList::default(),
            start: 0,
            finish: 0,
            inverse,
            weight,
            active: false,
            service: 0,
            repeats: false,
            class: 0,
        });
        let bits = self.eligible.slot_bits();
        self.eligible.make_room(slot);
        self.waiting.make_room(slot);
        if self.eligible.slot_bits() != bits {
            self.regroup(0, bits);
        }
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _pool: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let weight = weight(spec);
        self.join();
        let flow = self.flows.at_mut(slot.0);
        if flow.weight == weight {
            return;
        }
        let old = core::mem::replace(&mut flow.weight, weight);
        flow.inverse = inverse(weight);
        if flow.active {
            self.weight_sum = self.weight_sum + u64::from(weight) - u64::from(old);
        }
        if flow.list.is_empty() {
            return;
        }
        let key = self.eligible.key(slot.0, flow.finish);
        flow.finish_head();
        let (start, finish) = (flow.start, flow.finish);
        if self.heads.remove(key) {
            self.place(slot.0);
        } else if self.eligible.rounded(start) <= self.virtual_time {
            self.eligible.set(slot.0, finish);
        }
        // One that waits does so by its start, which stays.
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        self.join();
        let Some(flow) = self.flows.get_mut(slot.0).filter(|flow| flow.weight != 0) else {
            return PacketList::default();
        };
        let list = core::mem::take(&mut flow.list);
        let (start, finish) = (flow.start, flow.finish);
        let weight = core::mem::take(&mut flow.weight);
        if core::mem::take(&mut flow.active) {
            self.weight_sum -= u64::from(weight);
            if !self.heads.remove(self.eligible.key(slot.0, finish)) {
                self.eligible.clear(slot.0);
                self.waiting.remove(slot.0, start);
            }
        }
        self.flows.release(slot.0);
        let (packets, bytes) = list.measure(pool);
        self.len -= packets as u32;
        self.backlog -= bytes;
        if self.len == 0 {
            self.rest();
        }
        list
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
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
            // The fluid has not finished with it: it already waits, by its new start.
            flow.start = flow.finish;
            flow.finish_head();
            return None;
        }
        flow.active = true;
        flow.start = self.virtual_time;
        flow.finish_head();
        self.weight_sum += u64::from(flow.weight);
        if self.weight_sum == u64::from(flow.weight) {
            self.lone = slot.0;
            return None;
        }
        if self.lone != NO_FLOW {
            self.join();
        }
        self.place(slot.0);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        if self.lone != NO_FLOW {
            return Some(self.serve_lone(pool));
        }
        let (mut key, mut chain) = self.first();
        if key == NONE {
            (key, chain) = self.jump();
            if key == NONE {
                return None;
            }
        }
        let slot = self.eligible.slot(key);
        if chain == HEADS {
            self.eligible.clear(slot);
        }
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let (packet, more) = flow.list.take_first(pool);
        flow.start = flow.finish;
        let (start, class) = (flow.start, flow.class);
        self.len -= 1;
        self.backlog -= u64::from(len);
        if more {
            flow.finish_head();
            let (finish, repeats) = (flow.finish, flow.repeats);
            let alone = u64::from(flow.weight) == self.weight_sum;
            self.virtual_time += self.share(len);
            if alone {
                self.lone = slot;
            } else {
                // Flows from the chain of a class take the time of that class.
                let chain = if repeats { chain & !1 } else { HEADS };
                if chain < HEADS {
                    self.put(slot, chain, start, finish);
                } else {
                    self.place(slot);
                }
            }
        } else {
            self.virtual_time += self.share(len);
            self.waiting.put_served(slot, class, start);
        }
        if chain < HEADS {
            self.heads.pop(chain);
            if self.flows.bound() > FAR {
                self.look_ahead(chain, pool);
            }
        }
        if self.len == 0 {
            self.rest();
        } else {
            self.admit();
        }
        if self.virtual_time >= LIMIT {
            self.join();
            self.regroup(BACK, self.eligible.slot_bits());
        }
        Some(packet)
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

/// No flow.
const NO_FLOW: u32 = u32::MAX;
/// From so many flows on they do not fit into a cache.
const FAR: u32 = 1 << 12;
pub(super) const ROW: Row = Row {
    name: "wf2q+",
    aliases: &["wf2qp", "wf2q"],
    summary: "worst-case fair weighted fair queueing: each flow gets its share to within one packet",
    source: "Bennett and Zhang 1997",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
