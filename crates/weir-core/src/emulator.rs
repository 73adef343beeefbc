//! The emulator: from a submitted packet to its departure, in the order of time, without a clock.
use alloc::vec::Vec;

use crate::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use crate::key::FlowKey;
use crate::packet::Ecn;
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

/// What the classifier decided for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Through pipe N.
    Pipe(u16),
    /// Into queue (flowset) N.
    Queue(u16),
}

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The driver's handle of the frame; comes back with the departure.
    pub frame: u32,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Bytes of link-layer header in front of it.
    pub link_header: u8,
    /// Wire packets that this one stands for; 1 unless an offload train is kept whole.
    pub segments: u16,
    /// ECN field.
    pub ecn: Ecn,
}

/// A packet that was refused; the driver keeps the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: DropReason,
}

/// A packet that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The driver's handle of the frame. A duplicate has the handle of its original.
    pub frame: u32,
    /// The pipe or scheduler whose link it went through.
    pub link: u16,
    /// What became of it.
    pub fate: Fate,
    /// When it was submitted.
    pub arrived: Nanos,
    /// When it left its queue.
    pub dequeued: Nanos,
    /// When it is to leave; at or before the `now` of the poll that returns it.
    pub due: Nanos,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves towards its destination.
    Deliver {
        /// Mark the packet with congestion experienced.
        mark: bool,
        /// Invert one bit: this number, modulo the number of bits from the network-layer header on.
        corrupt: Option<u32>,
        /// It is a duplicate: the original departs too, and the frame must live until both have.
        duplicate: bool,
    },
    /// It was lost inside.
    Drop(DropReason),
}

/// Bounds on what the engine holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets inside at once.
    pub packets: u32,
    /// Queues and links made on demand.
    pub instances: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4_000_000, instances: 65_536 }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Emulator;

impl Emulator {
    /// An engine without pipes whose every draw follows from `seed`.
    pub fn new(seed: u64, limits: Limits) -> Self {
        let _ = (seed, limits);
        Self
    }
    /// Makes pipe `id`, or changes it; packets inside stay, in order.
    pub fn set_pipe(&mut self, now: Nanos, id: u16, config: &PipeConfig) {
        let _ = (now, id, config);
    }
    /// Makes scheduler `id` with its link, or changes it.
    pub fn set_scheduler(&mut self, now: Nanos, id: u16, config: &SchedulerConfig, link: &LinkConfig) {
        let _ = (now, id, config, link);
    }
    /// Makes queue `id` in front of scheduler `scheduler`, or changes it.
    pub fn set_queue(&mut self, id: u16, scheduler: u16, config: &FlowsetConfig) {
        let _ = (id, scheduler, config);
    }
    /// Takes a packet, or refuses it (the refusal is counted).
    pub fn submit(&mut self, now: Nanos, arrival: Arrival, key: &FlowKey, action: Action) -> Result<(), Rejected> {
        let _ = (now, arrival, key, action);
        Ok(())
    }
    /// Appends what departs until `now`, in the order of due times.
    pub fn poll(&mut self, now: Nanos, out: &mut Vec<Departure>) {
        let _ = (now, out);
    }
    /// When the next packet departs or the state changes by itself; `None` while nothing is inside.
    pub fn next_event(&self) -> Option<Nanos> {
        None
    }
    /// Counters and latencies of the link of pipe or scheduler `id`, over all its instances.
    pub fn stats(&self, id: u16) -> Option<&LinkStats> {
        let _ = id;
        None
    }
    /// Packets waiting in the queues of pipe or scheduler `id` now, and their bytes.
    pub fn queue_length(&self, id: u16) -> (u64, u64) {
        let _ = id;
        (0, 0)
    }
}
