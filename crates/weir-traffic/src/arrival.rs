//! A packet as its receiver sees it.

use crate::payload::Stamp;

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The packet's stamp.
    pub stamp: Stamp,
    /// Time of arrival, ns on the clock of [`crate::clock`].
    pub at_ns: u64,
    /// Network-layer bytes.
    pub bytes: u32,
    /// Bytes of the IP and UDP headers, which `bytes` includes.
    pub headers: u8,
    /// Whether the packet arrived with congestion experienced.
    pub marked: bool,
}

impl Arrival {
    /// Bytes of payload.
    pub fn payload(&self) -> u64 {
        u64::from(self.bytes) - u64::from(self.headers)
    }
}
