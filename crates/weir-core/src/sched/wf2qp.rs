//! WF2Q+: worst-case fair weighted fair queueing.
//!
//! # Model
//! Think of a fluid that serves all flows with packets simultaneously, each at a rate in proportion
//! to its weight. A packet has a start `S` and a finish `F` in that fluid's time, the virtual time
//! `V`. Of the packets that have started (`S ≤ V`, *eligible*), the scheduler serves the packet
//! with the earliest finish. A packet that the fluid would not yet have started must wait, so that
//! no flow gets ahead by more than a packet. The earliest finish is served first, so that no flow
//! falls behind by more than a packet.
//!
//! # Reference
//! Bennett and Zhang, "Hierarchical packet fair queueing algorithms", IEEE/ACM Transactions on
//! Networking 5(5), 1997.
//!
//! # Symbols
//! `w` weight of a flow, `W` sum of the weights of all active flows, `L` length of a packet in
//! bytes. A packet at the head of its queue has `S = max(F of the flow's previous packet, V)` if it
//! found the queue empty and `S = F of the flow's previous packet` otherwise, and `F = S + L / w`.
//! At each service `V` grows by `L / W`; when no packet is eligible, `V` advances to the least `S`.
//! A flow is active while it has packets, and after that until `V` reaches its `F`, because the
//! fluid is still serving packets that left early.
//!
//! ```text
//! S, F, V   63 ........................ 40 | 39 .......... 20 | 19 ........... 0
//!           bytes for each unit of weight  | fraction
//!                                            that is compared   and that is not
//! ```
//! `1 / w` has 40 bits of fraction and a relative error below `w / 2^40`, which is 6 parts in 10^8
//! for the largest weight. Times are compared without their last 20 bits, 1/16 byte for the largest
//! weight and less for all other weights. If finishes are equal, the flow with the lower index in
//! the scheduler is served first. In a busy period that never ends, all times are set back together
//! before `V` nears the end of its range. This visits each active flow once for every `7 MB · W`
//! of traffic, so that its cost is negligible.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! Flows with packets that take the same virtual time, `L / w`, are served in the order of their
//! starts. They are therefore kept in queues that need no sorting, and only the first flow of each
//! queue is inspected: up to eight kinds of flows cost O(1), regardless of the number of flows. All
//! other flows, such as flows with packets of many lengths, take part in two tournaments. With N
//! flows, these cost O(log N) for each packet. One orders eligible flows by `F`. The other orders
//! the other active flows by `S` of their head packet or, without packets, by the earliest `S` of
//! their next packet. This cost holds for every pattern of arrivals, on average over the packets of
//! a busy period, since many flows that the fluid finishes at one time are removed together. A
//! single flow needs no comparison.
//!
//! # Guarantees
//! Let a flow have packets from some time on, let `L_k` be its largest packet and `L` the largest
//! packet of all flows, and let `φ = w / W` with `W` the largest value of the sum of weights. The
//! flow's bytes since then are at least the share `φ` of all bytes less `L_k + φ L`: one packet of
//! the flow, plus its share of the packet that was in transmission. This holds even when other
//! flows start and stop. With a constant set of busy flows the bound is `L_k + φ (L − L_k)`, the
//! least possible, and the flow is never ahead by more than `(1 − φ) L_k`.
//!
//! # Differences from Linux/FreeBSD
//! dummynet's WF2Q+ accepts weights up to 100 and has 28 bits of fraction. Linux does not implement
//! WF2Q+.
//!
//! # Validation
//! The property tests over the table check these bounds in exact integer arithmetic, with random
//! weights and sizes, and with other flows that start and stop. Tests also compare the order of
//! packets with that of a model that visits all flows at each step.

use alloc::vec::Vec;

use super::chains::{CLASSES, Classes, HEADS, NONE};
use super::stamp::{BACK, FRACTION, LARGEST, LIMIT, inverse, service, weight};
use super::tournament::Tournament;
use super::waiting::Waiting;
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;

/// The WF2Q+ scheduler.
#[derive(Debug)]
pub struct Wf2qPlus {
    flows: Lines<Flow>,
    /// Flows with packets, in chains that are sorted both by `S` and by `F`.
    heads: Classes,
    /// Flows that are in no chain and have an eligible head packet, by `F`.
    eligible: Tournament,
    /// Active flows that are in no chain, by `S`. When they were added, they were not yet eligible
    /// or had no packets.
    waiting: Waiting,
    /// `V`.
    virtual_time: u64,
    /// `W`.
    weight_sum: u64,
    /// `1 / W` with 64 bits of fraction.
    inverse_sum: u64,
    /// The value of `W` for which `inverse_sum` was computed.
    inverse_of: u64,
    /// The only active flow while it is in no other structure; otherwise [`NO_FLOW`].
    lone: u32,
    len: u32,
    backlog: u64,
}

/// A flow: its packets and the times of the first packet.
#[derive(Debug)]
#[repr(align(64))]
struct Flow {
    start: u64,
    finish: u64,
    /// `1 / w`.
    inverse: u64,
    list: PacketList,
    /// The weight; 0 marks an unused slot.
    weight: u32,
    /// Whether the flow counts in the sum of weights.
    active: bool,
    /// The virtual time that the head packet takes, `L / w`.
    service: u64,
    /// Whether the packet before the head packet took the same virtual time.
    repeats: bool,
    /// The class of the flow's latest head packet.
    class: u8,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills one cache line");

impl Flow {
    /// Computes the finish of the head packet.
    #[inline]
    fn finish_head(&mut self) {
        let service = service(self.list.front_len(), self.inverse);
        self.repeats = service == core::mem::replace(&mut self.service, service);
        self.finish = self.start + service;
    }
}

impl Wf2qPlus {
    /// An empty scheduler.
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

    /// The virtual time by which `len` bytes advance `V`: `L / W`.
    #[inline]
    fn share(&mut self, len: u32) -> u64 {
        if self.inverse_of != self.weight_sum {
            self.inverse_of = self.weight_sum;
            self.inverse_sum = u64::MAX / self.weight_sum.max(1);
        }
        let served = u64::from(len.min(LARGEST)) << FRACTION;
        ((u128::from(served) * u128::from(self.inverse_sum)) >> 64) as u64
    }

    /// The key and the chain of the flow to serve next. The key consists of the flow's finish and
    /// slot; it is [`NONE`] if no packet is eligible. The chain of a flow in no chain is [`HEADS`].
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn first(&self) -> (u64, usize) {
        let first = self.heads.first(self.virtual_time);
        let top = self.eligible.top();
        if top < first.0 { (top, HEADS) } else { first }
    }

    /// Adds the flow `lone`, if there is one, to the chains or tournaments.
    #[inline(never)]
    fn join(&mut self) {
        let slot = core::mem::replace(&mut self.lone, NO_FLOW);
        if slot != NO_FLOW {
            self.place(slot);
        }
    }

    /// Serves the only active flow.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Adds a flow with packets to the chain or tournament of its head packet.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Adds a flow to a chain of its class, or to a tournament if the chains do not accept the flow
    /// or `chain` is [`HEADS`].
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Removes from `waiting` the flows that `V` has reached: flows with packets become eligible,
    /// and flows without packets become inactive, because the fluid has finished them.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Handles a flow that `V` has reached: it becomes eligible, or inactive if it has no packets.
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

    /// Advances `V` until a packet is eligible; returns the same as [`Self::first`].
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

    /// Prefetches the flows and packets that will be served soon.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn look_ahead<P: Store>(&self, chain: usize, pool: &mut P) {
        self.flows.prefetch(self.eligible.slot(self.heads.behind(chain, 5)));
        let next = self.eligible.slot(self.heads.behind(chain, 2));
        if let Some(packet) = self.flows.get(next).and_then(|flow| flow.list.front()) {
            pool.prefetch(packet);
        }
    }

    /// Ends a busy period: the fluid has finished all flows.
    fn rest(&mut self) {
        while let Some(slot) = self.waiting.take_due(NONE - 1) {
            self.flows.at_mut(slot).active = false;
        }
        self.weight_sum = 0;
    }

    /// Reduces all times by `by`, and adds the flows of the chains anew. The keys in the chains
    /// have the slot of the flow in the low bits `bits`.
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
        // The start of a flow in `waiting` does not change, so that the flow keeps its position.
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
            // The fluid has not finished the flow, which is already in `waiting`, sorted by its new
            // start.
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
                // All head packets in a chain take the virtual time of the chain's class.
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
/// With more flows than this, the flows that will be served soon are prefetched.
const FAR: u32 = 1 << 12;
pub(super) const ROW: Row = Row {
    name: "wf2q+",
    aliases: &["wf2qp", "wf2q"],
    summary: "worst-case fair weighted fair queueing: each flow gets its share to within one \
              packet",
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
