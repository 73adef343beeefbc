//! Paths through the network as lists of hops, and plain ports.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::plain::PlainPipe;

/// A place in a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// The port, with the queue through which the path enters it, where it names one; or the end.
    pub(super) port: u32,
    /// Whether it is joined to the port before it.
    pub(super) joined: bool,
}

impl Hop {
    /// The end of a path.
    pub(super) const END: Self = Self { port: u32::MAX, joined: false };

    #[inline]
    pub(super) fn is_end(self) -> bool {
        self.port == Self::END.port
    }
}

/// A plain port.
#[derive(Debug)]
pub(super) struct PlainPort {
    pub(super) pipe: PlainPipe,
    /// Packets that will leave it, in the order of their times.
    pub(super) exits: VecDeque<Exit>,
}

/// A packet that will leave a port. It has the fields of a `Mover` itself, so that they are
/// written in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub(super) due: Nanos,
    pub(super) number: u32,
    pub(super) place: u32,
    pub(super) len: u32,
    pub(super) segments: u8,
    pub(super) tell: bool,
    pub(super) lost: bool,
}

/// Bits of a port's number in a path; the bits above are the number of the queue, plus one.
pub(super) const PORT_BITS: u32 = 20;
/// Mask of these bits.
pub(super) const PORT: u32 = (1 << PORT_BITS) - 1;
