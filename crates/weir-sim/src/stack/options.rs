//! Settings of a connection of a real stack.

use weir_core::Nanos;

use crate::endpoint::EndpointId;

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The congestion control of the stack.
    pub control: Control,
    /// The receive window: maximum number of bytes in flight or unread.
    pub window: u32,
    /// Size of the largest packet including the IPv4 header, 1280 to 9000. QUIC begins with packets
    /// of 1228 bytes and searches for larger sizes up to this one.
    pub mtu: u16,
    /// The time at which the connection is opened.
    pub start: Nanos,
    /// The time at which both ends stop sending, even with data left to send.
    pub stop: Nanos,
    /// The label of packets: a rank or a deadline.
    pub label: u64,
    /// Seed of all random draws of the stack.
    pub seed: u64,
    /// The owner: the endpoint that counts what the connection delivers. It gets
    /// [`crate::endpoint::Notice::Delivered`] from the sink, and [`crate::endpoint::Notice::Done`]
    /// from the source when everything is acknowledged. Without an owner, the connection counts
    /// itself. After the connection has ended, neither of its endpoints sends anything.
    pub owner: Option<EndpointId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            control: Control::NewReno,
            window: 1 << 20,
            mtu: 1500,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            label: 0,
            seed: 1,
            owner: None,
        }
    }
}

/// A congestion control that both stacks implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Reno. Its results are the same on all machines.
    NewReno,
    /// CUBIC. The last bits of its results may differ between machines, because both stacks compute
    /// it with floating-point powers and roots.
    Cubic,
}

/// The amount of data that a sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Unlimited.
    Bulk,
    /// This many bytes, and then the end of the stream.
    Bytes(u64),
    /// The amounts that [`crate::endpoint::Notice::Write`] announces, until
    /// [`crate::endpoint::Notice::Close`].
    Written,
}
