//! Schedulers that the program adds to the table while it runs.
//!
//! [`Scheduler`] has functions that are compiled for each store of packets, so it cannot be a trait
//! object. [`External`] is the same interface with a store behind a reference, without batches,
//! bypass and predictions of room. [`AddedScheduler`] implements [`Scheduler`] for an [`External`]
//! scheduler, at the cost of one virtual call for each call and each access to a packet.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Traits};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings::Factory;
use crate::stats::DropReason;
use crate::units::Nanos;

/// The factory of a scheduler that is added to [`super::ADDED`].
pub trait ExternalFactory: Factory<Traits = Traits> {
    /// Creates a scheduler.
    fn make(&self, discipline: &Discipline) -> Box<dyn External>;
}

/// A scheduler behind a pointer. Each function has the contract of the function of [`Scheduler`]
/// with the same name.
pub trait External: Debug + Send {
    /// Adds a flow and returns its slot.
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot;

    /// Changes a flow's settings.
    fn change_flow(&mut self, now: Nanos, store: &mut dyn Store, slot: FlowSlot, spec: &FlowSpec);

    /// Removes a flow, and returns its waiting packets in order.
    fn remove_flow(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList;

    /// Adds a packet. Returns the packet that must be dropped, if any.
    #[must_use]
    fn enqueue(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId>;

    /// Removes and returns the next packet.
    fn dequeue(&mut self, now: Nanos, store: &mut dyn Store) -> Option<PacketId>;

    /// Returns a packet that was dropped since the last call.
    fn pop_refused(&mut self, _store: &mut dyn Store) -> Option<(PacketId, DropReason)> {
        None
    }

    /// The earliest time at which the next packet may be released.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// The number of packets inside.
    fn len(&self) -> usize;

    /// Whether there are no packets inside.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the network-layer bytes of the packets inside.
    fn backlog(&self) -> u64;

    /// The scheduler's own counters, by name.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A scheduler that the program has added.
#[derive(Debug)]
pub struct AddedScheduler(Box<dyn External>);

impl AddedScheduler {
    /// The scheduler of a discipline of the kind [`Kind::Added`].
    ///
    /// # Panics
    /// The discipline is of another kind.
    pub fn new(discipline: &Discipline) -> Self {
        match discipline.kind() {
            Kind::Added(added) => Self(added.0.make(discipline)),
            kind => unreachable!("{kind:?} is in the table"),
        }
    }
}

impl Scheduler for AddedScheduler {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.0.add_flow(now, spec)
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.0.change_flow(now, store, slot, spec);
    }

    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        self.0.remove_flow(now, store, slot, flow)
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.0.enqueue(now, store, slot, packet)
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        self.0.dequeue(now, store)
    }

    fn pop_refused<P: Store>(&mut self, store: &mut P) -> Option<(PacketId, DropReason)> {
        self.0.pop_refused(store)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }

    // An added scheduler may refuse any packet, for reasons that only it knows.
    fn accepts_all(&self) -> bool {
        false
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn backlog(&self) -> u64 {
        self.0.backlog()
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.0.variables()
    }
}
