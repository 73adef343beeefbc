//! One packet as a receiver saw it.

use crate::payload::Stamp;

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its stamp.
    pub stamp: Stamp,
    /// When it arrived, in ns on the clock of [`crate::clock`].
    pub at_ns: u64,
    /// Network-layer bytes.
    pub bytes: u32,
    /// Bytes of them that are IP and UDP headers.
    pub headers: u8,
    /// It carries the mark of congestion.
    pub marked: bool,
}

impl Arrival {
    /// Bytes of payload.
    pub fn payload(&self) -> u64 {
        u64::from(self.bytes) - u64::from(self.headers)
    }
}
