//! KPS: a fluid scheduler approximated by interleaved stratified timer wheels.
//!
//! # Model
//! As in WF2Q+, a packet has a start `S` and a finish `F` in a virtual time `V`. It is *eligible*
//! when `V` has reached its start, and the eligible packet with the earliest finish is served
//! first. In KPS, however, times are rounded, so that no sorting is needed. Flows are grouped into
//! *strata* by the virtual time of their largest packet: its length divided by the flow's weight.
//! This time is rounded up to the next power of two. Each stratum has two timer wheels, in which a
//! slot takes the rounded time: in one wheel, flows wait for their start; in the other, eligible
//! flows wait for service. The slots of the strata are *interleaved*: the slots of one stratum
//! begin in the middle of slots of the stratum below. No two strata therefore have a slot that
//! begins at the same moment, and the slot that is due first is always unambiguous.
//!
//! # Reference
//! Karsten, "Approximation of generalized processor sharing with interleaved stratified timer
//! wheels", IEEE/ACM Transactions on Networking 18(3), 2010; first published as "SI-WF2Q: WF2Q
//! approximation with small constant execution overhead", IEEE INFOCOM 2006. Only the abstracts of
//! both papers were available. They describe the wheels, constant and near-optimal delay and
//! fairness, and O(1) complexity. The rounding of times, the breaking of ties, the layout of the
//! wheels and the bounds below are our own, so the order may differ from that of the author's
//! programs.
//!
//! # Symbols
//! `w` weight of a flow, `W` sum of the weights of all active flows, `L` length of a packet in
//! bytes, `σ` length of the slots of the flow's stratum: the least power of two with
//! `lmax / w ≤ σ`. `S`, `F` and `V` are as in WF2Q+, not rounded. A packet is eligible from the
//! beginning of the slot in which `S` lies. It is due two slots later, which is no earlier than
//! `F`. The flow that is due earliest is served; within a slot, flows are in the order of their
//! insertion. A flow without packets is active until the end of the slot in which its `F` lies.
//! Times have 40 bits of fraction and wrap around at 2^64.
//!
//! # Parameters
//! `weight` 1..65536, default 1. `lmax` 64..65536 bytes, default 1500: the flow's largest packet. A
//! longer packet raises `lmax` until the flow is configured again. After a change of either
//! setting, `S` is at most two slots of the new length from `V`.
//!
//! # Complexity
//! O(1) for each packet on average, regardless of the number of flows: each packet moves its flow
//! from one slot to another at most twice. The search for the due slot inspects each stratum in
//! use. There are at most 29 strata, and only one if all flows have equal weights and packet sizes.
//!
//! # Guarantees
//! Let `φ = w / W`, and let `L` be the largest packet of all flows. A flow that always has packets
//! is behind its share by at most `2 w σ + φ L`, less than `4 lmax + φ L`, and ahead by at most
//! `w σ + lmax`, less than `3 lmax`. If `V` passes more than 60 slots of a stratum with one packet,
//! because other flows send packets that are much longer, flows in these slots are no longer served
//! in the order of their slots.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements KPS. A version for dummynet was used to compare KPS with QFQ, but was not
//! part of FreeBSD.
//!
//! # Validation
//! Property tests compare the order of packets with that of a model that visits all flows at each
//! step, and check the bounds above in exact arithmetic. The rig checks that fairness does not
//! depend on the number of flows. The measurements in the paper are not compared.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use super::stamp::{FRACTION, LARGEST, inverse, service, weight};
use super::wheel_slots::{Ends, NONE, Ring, begin};
use super::{
    Discipline, FlowSlot, FlowSpec, LMAX, MAX_PACKET, MIN_PACKET, Row, Scheduler, Traits, WEIGHT,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// The KPS scheduler.
#[derive(Debug)]
pub struct Kps {
    flows: Slab<Flow>,
    /// The strata, each created at its first use.
    strata: [Option<Box<Stratum>>; STRATA],
    /// The strata in which flows wait for their start, one bit each.
    waiting: u32,
    /// The strata in which eligible flows wait for service, one bit each.
    eligible: u32,
    /// `V`.
    virtual_time: u64,
    /// `W`.
    weight_sum: u64,
    /// `1 / W`, with 64 bits of fraction.
    inverse_sum: u64,
    len: usize,
    backlog: u64,
}

#[derive(Debug)]
struct Stratum {
    waiting: Ring,
    eligible: Ring,
}

impl Stratum {
    fn ring(&mut self, wheel: Wheel) -> &mut Ring {
        if wheel == Wheel::Eligible { &mut self.eligible } else { &mut self.waiting }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wheel {
    /// The flow is in no wheel, because it is not active.
    None,
    /// The flow waits for its start or, without packets, until it is no longer active.
    Waiting,
    /// The flow waits for service.
    Eligible,
}

/// A flow: its packets, the times of its head packet, and its position in a slot. Without packets,
/// both times are the finish of its last packet.
#[derive(Debug)]
#[repr(align(64))]
struct Flow {
    start: u64,
    finish: u64,
    /// `1 / w`.
    inverse: u64,
    list: PacketList,
    weight: NonZeroU32,
    max_packet: u32,
    /// The next and the previous flow in the slot, or [`NONE`].
    next: u32,
    previous: u32,
    wheel: Wheel,
    stratum: u8,
    /// The index of the flow's slot in the wheel.
    place: u8,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

impl Flow {
    /// Computes the finish of the head packet, and raises the flow's largest packet to the length
    /// of the head packet.
    #[inline]
    fn finish_head(&mut self) {
        let len = self.list.front_len();
        self.max_packet = self.max_packet.max(len.min(LARGEST));
        self.finish = self.start.wrapping_add(service(len, self.inverse));
    }

    /// The binary logarithm of the slot length of the flow's stratum.
    #[inline]
    fn width(&self) -> u32 {
        u64::BITS - (service(self.max_packet, self.inverse) - 1).leading_zeros()
    }
}

impl Kps {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Slab::default(),
            strata: [const { None }; STRATA],
            waiting: 0,
            eligible: 0,
            virtual_time: discipline.epoch(),
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

    /// Adds a flow that is in no wheel to the slot of its head packet. A flow without packets waits
    /// until the end of the slot of its finish; if `V` has reached this end, it is not active.
    #[inline]
    fn place(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let width = flow.width();
        let stratum = (width - NARROWEST) as usize;
        let idle = u64::from(flow.list.is_empty()) << width;
        let from = begin(flow.start, width).wrapping_add(idle);
        let has_started = is_not_after(from, self.virtual_time);
        flow.stratum = stratum as u8;
        if has_started && idle != 0 {
            let weight = u64::from(flow.weight.get());
            return self.set_weight_sum(self.weight_sum - weight);
        }
        flow.wheel = if has_started { Wheel::Eligible } else { Wheel::Waiting };
        let bits = if has_started { &mut self.eligible } else { &mut self.waiting };
        *bits |= 1 << stratum;
        let rings = self.strata[stratum].get_or_insert_with(|| {
            Box::new(Stratum { waiting: Ring::new(width), eligible: Ring::new(width) })
        });
        let ring = rings.ring(flow.wheel);
        flow.place = ring.fill(from);
        let ends = &mut ring.ends[usize::from(flow.place)];
        (flow.next, flow.previous) = (NONE, ends.last);
        let previous = core::mem::replace(&mut ends.last, slot);
        if let Some(previous) = self.flows.get_mut(previous) {
            previous.next = slot;
        } else {
            ends.first = slot;
        }
    }

    /// Removes a flow from its slot, if it is in one.
    #[inline]
    fn displace(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let (next, previous, place, wheel) = (flow.next, flow.previous, flow.place, flow.wheel);
        let stratum = usize::from(flow.stratum);
        flow.wheel = Wheel::None;
        let Some(rings) = self.strata[stratum].as_mut().filter(|_| wheel != Wheel::None) else {
            return;
        };
        let ring = rings.ring(wheel);
        let Ends { first, last } = &mut ring.ends[usize::from(place)];
        match self.flows.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => *first = next,
        }
        match self.flows.get_mut(next) {
            Some(next) => next.previous = previous,
            None => *last = previous,
        }
        if *first == NONE {
            ring.empty(place);
            if ring.front().is_none() {
                let bits =
                    if wheel == Wheel::Eligible { &mut self.eligible } else { &mut self.waiting };
                *bits &= !(1 << stratum);
            }
        }
    }

    /// The earliest time of the strata in `bits`, as its distance from `V`, and its stratum. The
    /// time of a stratum is `later` slots after the first used slot of its `wheel`.
    #[inline]
    fn earliest(&self, wheel: Wheel, mut bits: u32, later: u64) -> Option<(i64, usize)> {
        let mut earliest: Option<(i64, usize)> = None;
        while bits != 0 {
            let stratum = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let Some(rings) = &self.strata[stratum] else { continue };
            let ring = if wheel == Wheel::Eligible { &rings.eligible } else { &rings.waiting };
            let Some(front) = ring.front() else { continue };
            let time = front.wrapping_add(later << (stratum as u32 + NARROWEST));
            let away = time.wrapping_sub(self.virtual_time) as i64;
            if earliest.is_none_or(|(least, _)| away < least) {
                earliest = Some((away, stratum));
            }
        }
        earliest
    }

    /// Moves flows out of the slots that `V` has reached: flows with packets become eligible, and
    /// flows without packets are no longer active.
    #[inline]
    fn admit(&mut self) {
        while let Some((away, stratum)) = self.earliest(Wheel::Waiting, self.waiting, 0)
            && away <= 0
        {
            self.admit_slot(stratum);
        }
    }

    /// Moves flows out of the first slot of the waiting wheel of a stratum.
    fn admit_slot(&mut self, stratum: usize) {
        let Some(rings) = &self.strata[stratum] else { return };
        let place = rings.waiting.front_index();
        let mut slot = rings.waiting.ends[usize::from(place)].first;
        while let Some(flow) = self.flows.get(slot) {
            let following = flow.next;
            self.displace(slot);
            self.place(slot);
            slot = following;
        }
    }

    /// Advances `V` until a flow is eligible.
    #[cold]
    fn jump(&mut self) {
        while self.eligible == 0
            && let Some((away, _)) = self.earliest(Wheel::Waiting, self.waiting, 0)
        {
            self.virtual_time = self.virtual_time.wrapping_add(away.max(0) as u64);
            self.admit();
        }
    }

    /// Ends a busy period: no flow is active any more.
    fn rest(&mut self) {
        while let Some((_, stratum)) = self.earliest(Wheel::Waiting, self.waiting, 0) {
            let Some(rings) = &self.strata[stratum] else { break };
            let slot = rings.waiting.ends[usize::from(rings.waiting.front_index())].first;
            self.displace(slot);
        }
        self.weight_sum = 0;
    }
}

impl Scheduler for Kps {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let (weight, max_packet) = limits(spec);
        FlowSlot(self.flows.insert(Flow {
            start: 0,
            finish: 0,
            inverse: inverse(weight.get()),
            list: PacketList::default(),
            weight,
            max_packet,
            next: NONE,
            previous: NONE,
            wheel: Wheel::None,
            stratum: 0,
            place: 0,
        }))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let (weight, max_packet) = limits(spec);
        let flow = self.flows.at(slot.0);
        let (old, active) = (flow.weight, flow.wheel != Wheel::None);
        if (old, flow.max_packet) == (weight, max_packet) {
            return;
        }
        self.displace(slot.0);
        let now = self.virtual_time;
        let flow = self.flows.at_mut(slot.0);
        (flow.weight, flow.inverse, flow.max_packet) = (weight, inverse(weight.get()), max_packet);
        if !flow.list.is_empty() {
            flow.finish_head();
        }
        let most = 2 << flow.width();
        let away = (flow.start.wrapping_sub(now) as i64).clamp(-most, most);
        flow.start = now.wrapping_add(away as u64);
        if flow.list.is_empty() {
            flow.finish = flow.start;
        } else {
            flow.finish_head();
        }
        if active {
            self.set_weight_sum(self.weight_sum + u64::from(weight.get()) - u64::from(old.get()));
            self.place(slot.0);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(flow) = self.flows.get(slot.0) else { return PacketList::default() };
        if flow.wheel != Wheel::None {
            let weight = u64::from(flow.weight.get());
            self.set_weight_sum(self.weight_sum - weight);
        }
        self.displace(slot.0);
        let list = self.flows.remove(slot.0).map(|flow| flow.list).unwrap_or_default();
        let (packets, bytes) = list.measure(store);
        self.len -= packets;
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
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let len = store.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        let flow = self.flows.at_mut(slot.0);
        let was_empty = flow.list.is_empty();
        flow.list.push_back_of(store, packet, len);
        if !was_empty {
            return None;
        }
        if flow.wheel == Wheel::None {
            flow.start = self.virtual_time;
            let weight = u64::from(flow.weight.get());
            self.set_weight_sum(self.weight_sum + weight);
        } else {
            let is_served = is_not_after(flow.finish, self.virtual_time);
            flow.start = if is_served { self.virtual_time } else { flow.finish };
            self.displace(slot.0);
        }
        self.flows.at_mut(slot.0).finish_head();
        self.place(slot.0);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        if self.eligible == 0 {
            self.jump();
        }
        let (_, stratum) = self.earliest(Wheel::Eligible, self.eligible, 2)?;
        let ring = &self.strata[stratum].as_ref()?.eligible;
        let slot = ring.ends[usize::from(ring.front_index())].first;
        self.displace(slot);
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let packet = flow.list.pop_front(store)?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        let served = u128::from(u64::from(len.min(LARGEST)) << FRACTION);
        self.virtual_time =
            self.virtual_time.wrapping_add(((served * u128::from(self.inverse_sum)) >> 64) as u64);
        flow.start = flow.finish;
        if !flow.list.is_empty() {
            flow.finish_head();
        }
        self.place(slot);
        if self.len == 0 {
            self.rest();
        } else {
            self.admit();
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

/// A flow's weight and largest packet, within their ranges.
fn limits(spec: &FlowSpec) -> (NonZeroU32, u32) {
    (
        NonZeroU32::MIN.saturating_add(weight(spec) - 1),
        spec.max_packet.clamp(MIN_PACKET, MAX_PACKET),
    )
}

/// Whether `time` is not after `other`, for two times that are near each other.
#[inline]
fn is_not_after(time: u64, other: u64) -> bool {
    time.wrapping_sub(other) as i64 <= 0
}

/// The binary logarithm of the slot length of the lowest stratum: the time of the smallest `lmax`
/// with the largest weight.
const NARROWEST: u32 = FRACTION + MIN_PACKET.ilog2() - super::MAX_WEIGHT.ilog2();
/// The number of strata, up to the longest packet with the least weight.
const STRATA: usize = (FRACTION + LARGEST.ilog2() - NARROWEST + 1) as usize;

pub(super) const ROW: Row = Row {
    name: "kps",
    aliases: &[],
    summary: "interleaved stratified timer wheels: near-exact shares in constant time",
    source: "Karsten 2010",
    parameters: &[],
    traits: Traits {
        complexity: "O(1)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, LMAX],
    },
};
