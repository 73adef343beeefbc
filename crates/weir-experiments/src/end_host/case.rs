//! The cases of the experiment, and the network, which is the same in the kernel and the simulator.

/// A case: the place of the queue, the offload of segmentation, and the number of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) place: Place,
    pub(super) offload: bool,
    pub(super) flows: u32,
}

/// The host that has the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    EndHost,
    Router,
}

/// The waiting packets of one run: mean and 99th percentile, in segments of 1500 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) mean: f64,
    pub(super) p99: f64,
}

/// Rate of the link in bit/s, and the limit of its queue in packets.
pub(super) const RATE: u64 = 10_000_000;
pub(super) const QUEUE: u32 = 300;
/// Network-layer bytes of a full packet, and its transmission time in ms.
pub(super) const PACKET: u64 = 1500;
pub(super) const PACKET_MS: f64 = PACKET as f64 * 8e3 / RATE as f64;
/// Segments of a train with TSO: 64 KiB.
pub(super) const TRAIN: u8 = 44;
