//! The interface of an observer: captures, plots, and any other code that reads packets.
//!
//! An observer runs on its own thread. Each worker writes its events into its own bounded
//! rings, without waiting, locking or allocating. The observer's thread merges the rings by time
//! and calls the observer. An event that does not fit into a ring is discarded, so a slow observer
//! misses events but delays no packet. Discarded frames are counted.

use weir_core::Nanos;
use weir_core::stats::{DropReason, LinkCounters};

use super::report::LiveEvent;

/// Receives the events of a link, shortly after they happen, on its own thread.
///
/// The events of one worker arrive in the order in which they were written; the events of several
/// workers are merged by time.
pub trait Observer: Send {
    /// Whether [`Observer::on_arrival`] and [`Observer::on_departure`] are called. This function is
    /// called once, before the loop starts.
    fn wants_frames(&self) -> bool {
        false
    }

    /// Whether [`Observer::on_departure`] is called for dropped packets only, and
    /// [`Observer::on_arrival`] not at all. This costs less than passing all frames. It has an
    /// effect only if [`Observer::wants_frames`] is true. This function is called once, before the
    /// loop starts.
    fn wants_drops_only(&self) -> bool {
        false
    }

    /// A frame arrived.
    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        let _ = event;
    }

    /// A packet was sent or lost.
    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        let _ = event;
    }

    /// A sample period has ended; called once for each lane.
    fn on_sample(&mut self, sample: &Sample<'_>) {
        let _ = sample;
    }

    /// An event of a port, such as a fault.
    fn on_event(&mut self, event: &LiveEvent) {
        let _ = event;
    }

    /// The loop has ended; this is the last call. `missed` frames were left out because the
    /// observer was too slow.
    fn on_end(&mut self, missed: u64) {
        let _ = missed;
    }
}

/// The arrival of a frame as the sender's stack passed it on. The frame may be a train, and its
/// checksum may be partial.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalEvent<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// Arrival time, on the monotonic clock.
    pub at: Nanos,
    /// The frame, from the link-layer header on.
    pub frame: &'a [u8],
    /// Number of wire packets in the frame.
    pub segments: u16,
}

/// The departure or loss of a packet.
#[derive(Clone, Copy, Debug)]
pub struct DepartureEvent<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// When the kernel accepted the packet, or when the packet was lost.
    pub at: Nanos,
    /// The packet's due time.
    pub due: Nanos,
    /// When the packet arrived.
    pub arrived: Nanos,
    /// When the packet left its queue. If it passed several queues, its arrival plus the time in
    /// all of them.
    pub dequeued: Nanos,
    /// Whether the packet was sent or dropped.
    pub outcome: Outcome,
    /// The wire packet, from the link-layer header on, with complete checksums. A train kept whole
    /// is one frame with a partial checksum.
    pub frame: &'a [u8],
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet was sent.
    Delivered {
        /// Whether the packet is marked with congestion experienced.
        marked: bool,
        /// The position of the inverted bit, counted from the network-layer header, if the packet
        /// is corrupted.
        corrupted: Option<u32>,
        /// Whether the packet is an additional copy.
        duplicate: bool,
    },
    /// The packet was lost, for this reason.
    Dropped(DropReason),
}

/// A lane's state at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// Time of the sample, on the monotonic clock.
    pub at: Nanos,
    /// Counters since the start.
    pub counters: &'a LinkCounters,
    /// Packets in the queue of the lane's pipe now. With rules, which may use many pipes: all
    /// packets inside.
    pub queue_packets: u64,
    /// Network-layer bytes of these packets.
    pub queue_bytes: u64,
    /// Maximum of `queue_packets` since the previous sample. With several workers, this is the
    /// greatest peak of a single worker.
    pub peak_packets: u64,
    /// Maximum of `queue_bytes` since the previous sample. With several workers, this is the
    /// greatest peak of a single worker.
    pub peak_bytes: u64,
}
