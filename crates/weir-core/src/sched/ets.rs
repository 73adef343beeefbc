//! ETS: enhanced transmission selection, strict priorities before deficit round robin.
//!
//! # Model
//! Flows of the first `strict` priorities are served by priority: a packet leaves only when no
//! packet with a lower `pri` waits, and packets of one priority leave in the order of arrival. When
//! no packet of a strict priority waits, the other flows share the link in proportion to their
//! weights, by deficit round robin.
//!
//! # Reference
//! IEEE 802.1Q, enhanced transmission selection; Shreedhar and Varghese, "Efficient Fair Queuing
//! Using Deficit Round-Robin", IEEE/ACM Transactions on Networking 4(3), 1996; the manual page
//! tc-ets(8) of Linux.
//!
//! # Parameters
//! `strict` 0..64, default 0: the flows with a `pri` below this number are served by priority.
//! `pri` 0..63, default 0. `weight` 1..65536, default 1, and `lmax` in bytes, default 1500, as in
//! `drr`, for the flows that share the link by weight.
//!
//! # Complexity
//! O(1) for each packet, as in `prio` and `drr`.
//!
//! # Guarantees
//! A packet of a strict priority waits for the packet in transmission, for earlier packets of its
//! own priority and for packets of lower priority numbers. The bounds of `drr` hold for the other
//! flows over any time in which no packet of a strict priority waits. Flows of strict priorities
//! that fill the link starve all other flows.
//!
//! # Differences from Linux/FreeBSD
//! Decisions are those of Linux for the same bands: a flow gets its quantum when it becomes busy,
//! and its next quantum when a packet finds too little credit (`variant linux` of `drr`). Linux has
//! up to 16 bands, each with its quantum in bytes; here quanta follow from weights and `lmax`, and
//! several flows may have one strict priority. FreeBSD has no such scheduler.
//!
//! # Validation
//! Tests compare the order with a plain model of bands for random traffic, and check flows that
//! change from a strict priority to a weight while they have packets.

use super::prio::PRIORITY;
use super::{
    Discipline, FlowSlot, FlowSpec, LMAX, MAX_PRIORITY, Prio, RoundRobin, Row, Scheduler, Traits,
    WEIGHT,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings;
use crate::settings::Count;
use crate::slab::Slab;
use crate::units::Nanos;

settings! {
    /// Settings of enhanced transmission selection.
    struct Settings {
        strict: u32 = Count::new(
            0,
            MAX_PRIORITY + 1,
            "",
            0,
            "number of strict priorities, which are served before the flows with weights",
        ),
    }
}

/// The scheduler with strict priorities before deficit round robin.
#[derive(Debug)]
pub struct Ets {
    /// The priorities below this number are strict.
    strict: u32,
    /// The flows of strict priorities.
    urgent: Prio,
    /// The flows that share the link by weight.
    sharing: RoundRobin,
    flows: Slab<Place>,
}

/// The part of the scheduler in which the packets of a flow wait.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Whether this part is [`Ets::urgent`], not [`Ets::sharing`].
    is_strict: bool,
    /// The flow's slot in this part.
    slot: FlowSlot,
}

impl Ets {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            strict: Settings::of(discipline).strict,
            urgent: Prio::default(),
            sharing: RoundRobin::of_linux(),
            flows: Slab::default(),
        }
    }

    /// Adds a flow to the part of the scheduler for its priority.
    fn place(&mut self, now: Nanos, spec: &FlowSpec) -> Place {
        let is_strict = spec.priority.min(MAX_PRIORITY) < self.strict;
        let slot = match is_strict {
            true => self.urgent.add_flow(now, spec),
            false => self.sharing.add_flow(now, spec),
        };
        Place { is_strict, slot }
    }

    /// Removes a flow from its part, and returns its waiting packets.
    fn leave<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        place: Place,
        flow: u32,
    ) -> PacketList {
        match place.is_strict {
            true => self.urgent.remove_flow(now, store, place.slot, flow),
            false => self.sharing.remove_flow(now, store, place.slot, flow),
        }
    }
}

impl Scheduler for Ets {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let place = self.place(now, spec);
        FlowSlot(self.flows.insert(place))
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let old = *self.flows.at(slot.0);
        let is_strict = spec.priority.min(MAX_PRIORITY) < self.strict;
        match (old.is_strict, is_strict) {
            (true, true) => self.urgent.change_flow(now, store, old.slot, spec),
            (false, false) => self.sharing.change_flow(now, store, old.slot, spec),
            _ => {
                let mut packets = self.leave(now, store, old, spec.flow);
                *self.flows.at_mut(slot.0) = self.place(now, spec);
                while let Some(packet) = packets.pop_front(store) {
                    let refused = self.enqueue(now, store, slot, packet);
                    debug_assert!(refused.is_none(), "both parts accept every packet");
                }
            }
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        match self.flows.remove(slot.0) {
            Some(place) => self.leave(now, store, place, flow),
            None => PacketList::default(),
        }
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let place = *self.flows.at(slot.0);
        match place.is_strict {
            true => self.urgent.enqueue(now, store, place.slot, packet),
            false => self.sharing.enqueue(now, store, place.slot, packet),
        }
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        self.urgent.dequeue(now, store).or_else(|| self.sharing.dequeue(now, store))
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.urgent.may_bypass() && self.sharing.may_bypass()
    }

    #[inline]
    fn len(&self) -> usize {
        self.urgent.len() + self.sharing.len()
    }

    fn backlog(&self) -> u64 {
        self.urgent.backlog() + self.sharing.backlog()
    }
}

pub(super) const ROW: Row = Row {
    name: "ets",
    aliases: &[],
    summary: "enhanced transmission selection: strict priorities, then deficit round \
              robin (Linux's ets)",
    source: "IEEE 802.1Q; Shreedhar and Varghese 1996",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[PRIORITY, WEIGHT, LMAX],
    },
};
