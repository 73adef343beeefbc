//! The common part of weighted fair queueing and WF2Q: every packet gets the times at which the
//! fluid starts and finishes it.
//!
//! A packet starts at the time that the fluid has at the packet's arrival, or at the finish of the
//! flow's previous packet, whichever is later. While the flow has packets, the finish of the
//! previous packet is the later time, with one exception. Packets can be slightly late, so that the
//! fluid may have finished a flow that still has packets in the scheduler. A packet that arrives at
//! such a time has a start later than the finish of the previous packet. Such a *gap* is recorded
//! until the packet reaches the head of its queue. All other starts follow from the start of the
//! head packet, so only that start is stored.

use alloc::vec::Vec;
use core::fmt::Debug;
use core::num::NonZeroU32;

use super::gps::Fluid;
use super::stamp::{LIMIT, inverse, service, weight};
use super::{Discipline, FlowSlot, FlowSpec, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// The head packets of the flows, sorted so that the next packet to serve can be found.
pub trait Heads: Debug + Default {
    /// Makes room for the flow at `slot`.
    fn make_room(&mut self, slot: u32);

    /// Sets the start and finish of the head packet of the flow at `slot`.
    fn set(&mut self, slot: u32, start: u128, finish: u128);

    /// Removes the head packet of the flow at `slot`, if there is one.
    fn clear(&mut self, slot: u32);

    /// The decision at the fluid's time `now`: `Ok` with the flow to serve next, `Err` with the
    /// earliest time at which a head packet may leave if none may leave now, or `None` if there are
    /// no packets.
    fn next(&self, now: u128) -> Option<Result<u32, u128>>;

    /// The number of nodes on the longest path through the tree of head packets.
    fn depth(&self) -> u64;
}

/// A scheduler that serves packets in the order of [`Heads`], by the clock of the [`Fluid`].
#[derive(Debug)]
pub struct FluidClocked<H> {
    flows: Slab<Flow>,
    heads: H,
    fluid: Fluid,
    gaps: Gaps,
    len: usize,
    backlog: u64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Flow {
    /// The finish of the last waiting packet or, if no packet waits, of the last packet that left.
    end: u128,
    /// The lower half of the head packet's start. It determines the start, because the start is
    /// near the fluid's time.
    start: u64,
    /// `1 / w`.
    inverse: u64,
    list: PacketList,
    weight: NonZeroU32,
    /// The flow's first gap, or [`NONE`].
    first_gap: u32,
    /// The flow's last gap, or [`NONE`].
    last_gap: u32,
    /// The number of packets that have arrived, modulo 2^32.
    arrived: u32,
    /// The number of packets that have left, modulo 2^32.
    departed: u32,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

impl<H: Heads> FluidClocked<H> {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Slab::default(),
            heads: H::default(),
            fluid: Fluid::starting_at(APART + u128::from(discipline.epoch() % LIMIT)),
            gaps: Gaps::default(),
            len: 0,
            backlog: 0,
        }
    }

    /// The start of a head packet, from the lower half of the start.
    fn in_full(&self, start: u64) -> u128 {
        let now = self.fluid.now();
        now.saturating_add_signed(i128::from(start.wrapping_sub(now as u64) as i64))
    }
}

impl<H: Heads> Scheduler for FluidClocked<H> {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let weight = NonZeroU32::MIN.saturating_add(weight(spec) - 1);
        let (inverse, list) = (inverse(weight.get()), PacketList::default());
        let (first_gap, last_gap) = (NONE, NONE);
        let slot = self.flows.insert(Flow {
            end: 0,
            start: 0,
            inverse,
            list,
            weight,
            first_gap,
            last_gap,
            arrived: 0,
            departed: 0,
        });
        self.heads.make_room(slot);
        self.fluid.make_room(slot);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let weight = NonZeroU32::MIN.saturating_add(weight(spec) - 1);
        let now = self.fluid.now();
        let flow = self.flows.at_mut(slot.0);
        if flow.weight == weight {
            return;
        }
        let old = core::mem::replace(&mut flow.weight, weight);
        flow.inverse = inverse(weight.get());
        // The fluid keeps the flow's bytes. Waiting packets get new consecutive times, and the last
        // packet finishes when the fluid has served these bytes.
        if flow.end > now {
            flow.end = now + (flow.end - now) * u128::from(old.get()) / u128::from(weight.get());
        }
        let (mut rest, mut waiting) = (flow.list, 0);
        while let Some(packet) = rest.pop_front(store) {
            waiting += u128::from(service(store.len(packet), flow.inverse));
        }
        let mut start = flow.end.saturating_sub(waiting).min(now + APART);
        if !flow.list.is_empty() {
            start = start.max(now - APART);
            self.gaps.forget(flow);
            flow.start = start as u64;
            self.heads.set(
                slot.0,
                start,
                start + u128::from(service(flow.list.front_len(), flow.inverse)),
            );
        }
        flow.end = start + waiting;
        self.fluid.set(slot.0, weight.get(), flow.end);
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(mut flow) = self.flows.remove(slot.0) else { return PacketList::default() };
        self.gaps.forget(&mut flow);
        self.heads.clear(slot.0);
        self.fluid.remove(slot.0);
        let (packets, bytes) = flow.list.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        if self.len == 0 {
            self.fluid.rest();
        }
        flow.list
    }

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
        let now = self.fluid.now();
        let flow = self.flows.at_mut(slot.0);
        let was_empty = flow.list.is_empty();
        flow.list.push_back_of(store, packet, len);
        let start = flow.end.max(now);
        if !was_empty && start > flow.end {
            self.gaps.append(flow, start);
        }
        flow.arrived = flow.arrived.wrapping_add(1);
        flow.end = start + u128::from(service(len, flow.inverse));
        if was_empty {
            flow.start = start as u64;
            self.heads.set(slot.0, start, flow.end);
        }
        self.fluid.set(slot.0, flow.weight.get(), flow.end);
        None
    }

    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        let slot = loop {
            match self.heads.next(self.fluid.now())? {
                Ok(slot) => break slot,
                Err(start) => self.fluid.skip_to(start),
            }
        };
        let start = self.in_full(self.flows.at(slot).start);
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let packet = flow.list.pop_front(store)?;
        flow.departed = flow.departed.wrapping_add(1);
        self.len -= 1;
        self.backlog -= u64::from(len);
        if flow.list.is_empty() {
            self.heads.clear(slot);
        } else {
            let after = start + u128::from(service(len, flow.inverse));
            let start = self.gaps.take_head(flow).unwrap_or(after);
            flow.start = start as u64;
            self.heads.set(
                slot,
                start,
                start + u128::from(service(flow.list.front_len(), flow.inverse)),
            );
        }
        self.fluid.serve(len);
        if self.len == 0 {
            self.fluid.rest();
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

    fn variables(&self) -> Vec<(&'static str, u64)> {
        [
            ("depth of the fluid's tree", self.fluid.depth()),
            ("depth of the heads", self.heads.depth()),
        ]
        .into()
    }
}

/// Packets that start later than their predecessors finish.
#[derive(Debug, Default)]
struct Gaps {
    all: Vec<Gap>,
    free: Vec<u32>,
}

/// The gap before one packet.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The start of the packet.
    start: u128,
    /// The number of packets of the flow that arrived before this packet, modulo 2^32.
    packet: u32,
    /// The flow's next gap, or [`NONE`].
    next: u32,
}

impl Gaps {
    /// Records that the packet that arrives now starts at `start`.
    #[cold]
    fn append(&mut self, flow: &mut Flow, start: u128) {
        let gap = Gap { start, packet: flow.arrived, next: NONE };
        let id = self.free.pop().unwrap_or(self.all.len() as u32);
        match self.all.get_mut(id as usize) {
            Some(place) => *place = gap,
            None => self.all.push(gap),
        }
        match self.all.get_mut(flow.last_gap as usize) {
            Some(last) => last.next = id,
            None => flow.first_gap = id,
        }
        flow.last_gap = id;
    }

    /// If there is a gap before the flow's head packet, removes the gap and returns the start of
    /// the packet.
    #[inline]
    fn take_head(&mut self, flow: &mut Flow) -> Option<u128> {
        let gap = *self.all.get(flow.first_gap as usize)?;
        if gap.packet != flow.departed {
            return None;
        }
        self.free.push(flow.first_gap);
        flow.first_gap = gap.next;
        if gap.next == NONE {
            flow.last_gap = NONE;
        }
        Some(gap.start)
    }

    fn forget(&mut self, flow: &mut Flow) {
        while let Some(gap) = self.all.get(flow.first_gap as usize) {
            self.free.push(flow.first_gap);
            flow.first_gap = gap.next;
        }
        flow.last_gap = NONE;
    }
}

/// The largest distance by which a change of weight puts a flow ahead of or behind the fluid: 1 MiB
/// for each unit of weight. Virtual time begins later than this, so that a start is never negative.
const APART: u128 = 1 << 60;
/// No gap.
const NONE: u32 = u32::MAX;
