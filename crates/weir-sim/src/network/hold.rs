//! Packets that wait between a gated port and the next one, and the time that packets spend in
//! traffic managers.
//!
//! # Back-pressure
//! A *gated* port releases a packet only with a permit. The network gives a permit when the packet
//! that was released before has entered the next port. If that port has no room for it, the packet
//! is *held*: the gated port stops, so that its stages and input buffers fill, and no packet is
//! lost in between. Held packets try again after each event of the engine, in the order in which
//! they were stopped. A packet behind a held one waits even if its own next port has room, because
//! the gated port is one pipeline.

use weir_core::Nanos;

use super::hop::Held;
use super::{Network, Port, PortId};
use crate::packet::{Flags, Packet};

impl Network {
    /// Number of packets that wait between a gated port and the next one.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Puts a packet into its next port, or holds it while that port has no room.
    pub(super) fn hand_over(&mut self, held: Held) {
        let Held { from, port, next_hop, arrival, key, action } = held;
        if !self.engine.has_room(self.now, &arrival, &key, action) {
            self.held.push(held);
            self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
            return;
        }
        let outcome = self.engine.submit(self.now, arrival, &key, action);
        self.submitted(arrival.frame, next_hop, port, arrival.label, outcome);
        self.permit(from);
    }

    #[cold]
    pub(super) fn retry_held(&mut self) {
        for held in std::mem::take(&mut self.held) {
            self.hand_over(held);
        }
    }

    /// Lets a gated port release its next packet.
    pub(super) fn permit(&mut self, port: u32) {
        if let Port::Engine(port) = &self.ports[port as usize] {
            self.engine.permit(self.now, port.id);
        }
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
    }

    /// Adds the time that a packet spent in a traffic manager.
    #[cold]
    pub(super) fn add_wait(&mut self, number: u32, time: Nanos) {
        let number = number as usize;
        if self.waited.len() <= number {
            self.waited.resize(number + 1, 0);
        }
        self.waited[number] += time.0;
    }

    /// Gives a copy of a packet the time that its original has spent in traffic managers.
    pub(super) fn copy_wait(&mut self, original: u32, copy: u32) {
        if let Some(&time) = self.waited.get(original as usize) {
            self.add_wait(copy, Nanos(time));
        }
    }

    /// Returns the time that a packet, which has left the network, spent in traffic managers. Sets
    /// the stored time to zero.
    pub(super) fn forget_wait(&mut self, number: u32) -> u64 {
        self.waited.get_mut(number as usize).map_or(0, std::mem::take)
    }

    /// Whether packets have passed rank programs, so that [`Self::count_wait`] must be called for
    /// each packet that arrives.
    #[inline]
    pub(crate) fn counts_waits(&self) -> bool {
        !self.waited.is_empty()
    }

    /// Counts the time that a packet with this number, which has arrived, spent in traffic
    /// managers.
    #[cold]
    pub(crate) fn count_wait(&mut self, number: u32, packet: &Packet) {
        let time = self.forget_wait(number);
        if !packet.flags.has(Flags::BACK) && self.has_programs(packet) {
            self.count(packet.flow).switches_ns.record(time);
        }
    }

    /// Whether a rank program is on the forward path of a packet's flow.
    fn has_programs(&self, packet: &Packet) -> bool {
        let start = self.flows[packet.flow.0 as usize].forward as usize;
        self.paths[start..].iter().take_while(|hop| !hop.is_end()).any(|hop| {
            let port = PortId(hop.port).port().0 as usize;
            matches!(&self.ports[port], Port::Engine(port) if port.labeller.is_some())
        })
    }
}
