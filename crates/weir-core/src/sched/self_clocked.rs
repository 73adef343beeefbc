//! The common part of start-time and self-clocked fair queueing: virtual time is the start or the
//! finish of the packet in service, so that it takes no computation.
//!
//! Times are those of [`super::stamp`]. A packet that arrives at a flow without packets starts at
//! `V` or at the finish of the flow's last packet, whichever is later. Otherwise it starts at the
//! finish of the packet before it, and its times are computed when it becomes the head packet. This
//! gives the same times as a computation at the arrival, since `V` is never later than the finish
//! of the last packet of a flow with packets.

use core::num::NonZeroU32;

use super::stamp::{BACK, LIMIT, in_era, inverse, service, weight};
use super::tournament::Tournament;
use super::{Discipline, FlowSlot, FlowSpec, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// A scheduler that serves packets by finish or by start (the *stamp*), and uses the stamp of the
/// packet in service as virtual time.
#[derive(Debug)]
pub struct SelfClocked<const BY_FINISH: bool> {
    flows: Slab<Flow>,
    /// The flows with packets, by the stamp that determines the order.
    heads: Tournament,
    /// `V`.
    virtual_time: u64,
    /// The latest finish of all served packets.
    latest: u64,
    /// The number of set-backs of all times so far.
    era: u64,
    len: usize,
    backlog: u64,
}

/// A flow: its packets, and the times of the first packet or, without packets, of the last packet
/// that left.
#[derive(Debug)]
#[repr(align(64))]
struct Flow {
    start: u64,
    finish: u64,
    /// The era of these times; for a flow with packets always the current era.
    era: u64,
    /// `1 / w`.
    inverse: u64,
    list: PacketList,
    weight: NonZeroU32,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

impl Flow {
    /// Computes the finish of the head packet.
    #[inline]
    fn finish_head(&mut self) {
        self.finish = self.start + service(self.list.front_len(), self.inverse);
    }

    /// The stamp that determines the order of service.
    #[inline]
    fn stamp<const BY_FINISH: bool>(&self) -> u64 {
        if BY_FINISH { self.finish } else { self.start }
    }
}

impl<const BY_FINISH: bool> SelfClocked<BY_FINISH> {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Slab::default(),
            heads: Tournament::default(),
            virtual_time: discipline.epoch() % LIMIT,
            latest: 0,
            era: 0,
            len: 0,
            backlog: 0,
        }
    }

    /// Ends a busy period: later packets start no earlier than the latest finish.
    #[inline]
    fn rest(&mut self) {
        self.virtual_time = self.virtual_time.max(self.latest);
    }

    /// Reduces all times, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn set_back(&mut self) {
        self.virtual_time -= BACK;
        self.latest = self.latest.saturating_sub(BACK);
        self.era += 1;
        self.heads.set_back(BACK, |slot| {
            let flow = self.flows.at_mut(slot);
            flow.start = flow.start.saturating_sub(BACK);
            flow.finish = flow.finish.saturating_sub(BACK);
            flow.era = self.era;
        });
    }
}

impl<const BY_FINISH: bool> Scheduler for SelfClocked<BY_FINISH> {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let weight = NonZeroU32::MIN.saturating_add(weight(spec) - 1);
        let inverse = inverse(weight.get());
        let slot = self.flows.insert(Flow {
            start: 0,
            finish: 0,
            era: self.era,
            inverse,
            list: PacketList::default(),
            weight,
        });
        self.heads.make_room(slot);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let weight = NonZeroU32::MIN.saturating_add(weight(spec) - 1);
        let flow = self.flows.at_mut(slot.0);
        if flow.weight == weight {
            return;
        }
        (flow.weight, flow.inverse) = (weight, inverse(weight.get()));
        if !flow.list.is_empty() {
            flow.finish_head();
            let stamp = flow.stamp::<BY_FINISH>();
            self.heads.set(slot.0, stamp);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(flow) = self.flows.remove(slot.0) else { return PacketList::default() };
        self.heads.clear(slot.0);
        let (packets, bytes) = flow.list.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        if self.len == 0 {
            self.rest();
        }
        flow.list
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
        if was_empty {
            flow.start = in_era(flow.finish, flow.era, self.era).max(self.virtual_time);
            flow.era = self.era;
            flow.finish_head();
            let stamp = flow.stamp::<BY_FINISH>();
            self.heads.set(slot.0, stamp);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        let (_, slot) = self.heads.first()?;
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let packet = flow.list.pop_front(store)?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        // A stamp can be earlier than V only after an increase of the flow's weight.
        self.virtual_time = self.virtual_time.max(flow.stamp::<BY_FINISH>());
        self.latest = self.latest.max(flow.finish);
        if flow.list.is_empty() {
            self.heads.clear(slot);
            if self.len == 0 {
                self.rest();
            }
        } else {
            flow.start = flow.finish;
            flow.finish_head();
            let stamp = flow.stamp::<BY_FINISH>();
            self.heads.set(slot, stamp);
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
