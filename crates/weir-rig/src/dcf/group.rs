//! Groups of equal stations, which form the cells that are simulated and computed.

/// Equal stations that always have packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The number of stations.
    pub stations: u32,
    /// The data rate in bit/s; 0 for the rate of the medium.
    pub rate_bps: u64,
    /// The user priority, which selects the access category with `edca queue`.
    pub priority: u32,
    /// The length of packets in bytes.
    pub len: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self { stations: 1, rate_bps: 0, priority: 0, len: PACKET }
    }
}

/// The packet length in the comparison, in bytes.
pub const PACKET: u32 = 1500;
