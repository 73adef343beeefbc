//! The interface of an observer: captures, plots, and anything else that sees packets.
//!
//! An observer runs on a thread of its own. Each worker writes its events into bounded rings of its
//! own, without waiting, locking or allocating. The observer's thread merges the rings by time and
//! calls the observer. What does not fit into a ring is counted and not waited for, so a slow
//! observer costs records and no packet. Without an observer none of this costs anything.

use weir_core::Nanos;
use weir_core::stats::{DropReason, LinkCounters};

use super::report::LiveEvent;

/// Sees what happens on a link, shortly afterwards and on a thread of its own.
///
/// The records of one worker come in the order in which they were made; those of several workers
/// are merged by time.
pub trait Observer: Send {
    /// Whether [`Observer::on_arrival`] and [`Observer::on_departure`] are called: each frame's
    /// bytes are then prepared as they are on the wire. Asked once, before the loop starts.
    fn wants_frames(&self) -> bool {
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

    /// A sample period has passed; called once for each lane.
    fn on_sample(&mut self, sample: &Sample<'_>) {
        let _ = sample;
    }

    /// Something happened to a port.
    fn on_event(&mut self, event: &LiveEvent) {
        let _ = event;
    }

    /// The loop has ended, and this is the last call. `missed` frames were left out because the
    /// observer was too slow.
    fn on_end(&mut self, missed: u64) {
        let _ = missed;
    }
}

/// An arrival: a frame as the sender's stack passed it on. It may be a train, and its checksum may
/// be partial.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalEvent<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// When it arrived, on the monotonic clock.
    pub at: Nanos,
    /// The frame, from the link-layer header on.
    pub frame: &'a [u8],
    /// Wire packets in it.
    pub segments: u16,
}

/// The departure or loss of a packet.
#[derive(Clone, Copy, Debug)]
pub struct DepartureEvent<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// When the kernel took it, or when it was lost.
    pub at: Nanos,
    /// Its due time.
    pub due: Nanos,
    /// When it arrived.
    pub arrived: Nanos,
    /// When it left its queue.
    pub dequeued: Nanos,
    /// What became of it.
    pub outcome: Outcome,
    /// The wire packet, from the link-layer header on, checksums complete. A train kept whole is
    /// one frame.
    pub frame: &'a [u8],
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent.
    Delivered {
        /// Marked with congestion experienced.
        marked: bool,
        /// The bit that was inverted, counted from the network-layer header.
        corrupted: Option<u32>,
        /// It is an additional copy.
        duplicate: bool,
    },
    /// It was lost.
    Dropped(DropReason),
}

/// A lane's state at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Index of the lane.
    pub lane: u16,
    /// When, on the monotonic clock.
    pub at: Nanos,
    /// Counters since the start.
    pub counters: &'a LinkCounters,
    /// Packets in the queue of the lane's pipe now; where there are rules, which may use many
    /// pipes, all packets inside.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
}
