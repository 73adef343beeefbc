//! Hops of paths, plain ports, and packets between two ports.

use std::collections::VecDeque;

use weir_core::key::FlowKey;
use weir_core::plain::PlainPipe;
use weir_core::{Action, Arrival, Nanos};

#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// The number of the port, with the number of the queue if the path selects a queue; or the end
    /// of the path.
    pub(super) port: u32,
    /// Whether the port is joined to the one before it.
    pub(super) joined: bool,
}

impl Hop {
    pub(super) const END: Self = Self { port: u32::MAX, joined: false };

    #[inline]
    pub(super) fn is_end(self) -> bool {
        self.port == Self::END.port
    }
}

/// A packet between two ports, which waits until the next one has room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The gated port that the packet has left.
    pub(super) from: u32,
    /// The port that must have room for the packet.
    pub(super) port: u32,
    /// Index of the packet's next hop.
    pub(super) next_hop: u32,
    pub(super) arrival: Arrival,
    pub(super) key: FlowKey,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) struct PlainPort {
    pub(super) pipe: PlainPipe,
    /// Packets that will leave the port, in order of time.
    pub(super) exits: VecDeque<Exit>,
}

/// A packet that will leave a port. The fields of `Mover` are repeated here so that they are
/// written in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) due: Nanos,
    pub(super) number: u32,
    pub(super) next_hop: u32,
    pub(super) len: u32,
    pub(super) segments: u8,
    pub(super) tell: bool,
    pub(super) lost: bool,
}

/// Number of bits of a hop that hold the number of the port. The bits above hold the number of the
/// queue plus one.
pub(super) const PORT_BITS: u32 = 20;
/// The bits of a hop that hold the number of the port.
pub(super) const PORT: u32 = (1 << PORT_BITS) - 1;
