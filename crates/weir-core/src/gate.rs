//! The gate of a queue: it decides which packets enter the queue.
//!
//! The engine, plain pipes and the rig use the same rule: the AQM, if there is one, and the queue's
//! limit. The AQM is asked first, and only [`Verdict::Admit`] lets a packet into a full queue.

use crate::aqm::{Aqm, QueueState, Seen, Verdict};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// The limit of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u32),
    /// At most this many bytes.
    Bytes(u64),
}

/// The limit of a queue as a maximum of packets and of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of packets; [`u32::MAX`] if the limit is in bytes.
    pub packets: u32,
    /// Maximum number of network-layer bytes; [`u64::MAX`] if the limit is in packets.
    pub bytes: u64,
}

impl From<QueueLimit> for Bounds {
    fn from(limit: QueueLimit) -> Self {
        match limit {
            QueueLimit::Packets(packets) => Self { packets, bytes: u64::MAX },
            QueueLimit::Bytes(bytes) => Self { packets: u32::MAX, bytes },
        }
    }
}

impl Bounds {
    /// Whether a packet of `len` bytes exceeds the limit of a queue that holds `packets` packets of
    /// `bytes` bytes in total. An empty queue accepts a packet of any length.
    #[inline]
    pub fn exclude(&self, packets: u32, bytes: u64, len: u32) -> bool {
        packets >= self.packets || packets > 0 && bytes + u64::from(len) > self.bytes
    }
}

/// The gate of a queue, and the length of the queue, in 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    bytes: u64,
    max_bytes: u64,
    packets: u32,
    max_packets: u32,
}

const _: () = assert!(size_of::<Gate>() == 24);

impl Gate {
    /// The gate of an empty queue.
    pub fn new(bounds: Bounds) -> Self {
        Self { bytes: 0, max_bytes: bounds.bytes, packets: 0, max_packets: bounds.packets }
    }

    /// Changes the limit. Waiting packets stay.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        (self.max_packets, self.max_bytes) = (bounds.packets, bounds.bytes);
    }

    /// Number of packets that wait.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Network-layer bytes of the packets that wait.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Decides whether a queue without an AQM accepts a packet of `len` bytes.
    ///
    /// # Errors
    /// [`DropReason::QueueFull`] if the packet does not fit.
    #[inline]
    pub fn admit(&self, len: u32) -> Result<(), DropReason> {
        if self.excludes(len) { Err(DropReason::QueueFull) } else { Ok(()) }
    }

    /// Decides whether a queue with the AQM `aqm` accepts a packet. Returns the mark reason if the
    /// packet is marked.
    ///
    /// # Errors
    /// The AQM's drop reason, or [`DropReason::QueueFull`].
    // With plain `inline`, the rig contains calls of this function, and PI2 takes 410 instructions
    // per packet instead of 390.
    #[inline(always)]
    pub fn admit_by<A: Aqm>(
        &self,
        aqm: &mut A,
        now: Nanos,
        packet: &Seen,
    ) -> Result<Option<MarkReason>, DropReason> {
        let full = self.excludes(packet.len);
        let queue = QueueState { packets: self.packets, bytes: self.bytes, full };
        match aqm.arrive(now, packet, &queue) {
            Verdict::Drop(reason) => Err(reason),
            Verdict::Admit => Ok(None),
            _ if full => Err(DropReason::QueueFull),
            Verdict::Mark(reason) => Ok(Some(reason)),
            Verdict::Pass => Ok(None),
        }
    }

    /// The verdict of the AQM `aqm` on a departing packet. The caller has already counted this
    /// packet out with [`Self::leave`].
    #[inline]
    pub fn release_by<A: Aqm>(&self, aqm: &mut A, now: Nanos, packet: &Seen) -> Verdict {
        let queue = QueueState { packets: self.packets, bytes: self.bytes, full: false };
        aqm.leave(now, packet, &queue)
    }

    /// Counts a packet that enters the queue.
    #[inline]
    pub fn enter(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    /// Counts a packet that leaves the queue.
    #[inline]
    pub fn leave(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }

    #[inline]
    fn excludes(&self, len: u32) -> bool {
        let bounds = Bounds { packets: self.max_packets, bytes: self.max_bytes };
        bounds.exclude(self.packets, self.bytes, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Header;

    struct Always(Verdict);

    impl Aqm for Always {
        fn arrive(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
            self.0
        }

        fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
            self.0
        }
    }

    #[test]
    fn an_empty_queue_takes_any_packet_and_a_full_queue_takes_none() {
        let mut gate = Gate::new(QueueLimit::Bytes(1000).into());
        assert_eq!(gate.admit(5000), Ok(()));
        gate.enter(600);
        assert_eq!((gate.admit(400), gate.admit(401)), (Ok(()), Err(DropReason::QueueFull)));
        gate.leave(600);
        gate.set_bounds(QueueLimit::Packets(1).into());
        gate.enter(1);
        assert_eq!(gate.admit(1), Err(DropReason::QueueFull));
    }

    #[test]
    fn only_an_explicit_verdict_lets_a_packet_into_a_full_queue() {
        let mut gate = Gate::new(QueueLimit::Packets(1).into());
        let packet = Seen { len: 100, arrived: Nanos::ZERO, header: Header::default() };
        let early = (Verdict::Drop(DropReason::Early), Verdict::Mark(MarkReason::Early));
        let admit = |gate: &Gate, verdict| gate.admit_by(&mut Always(verdict), Nanos(1), &packet);
        assert_eq!(admit(&gate, Verdict::Pass), Ok(None));
        assert_eq!(admit(&gate, early.1), Ok(Some(MarkReason::Early)));
        gate.enter(100);
        assert_eq!(admit(&gate, Verdict::Pass), Err(DropReason::QueueFull));
        assert_eq!(admit(&gate, early.1), Err(DropReason::QueueFull));
        assert_eq!(admit(&gate, early.0), Err(DropReason::Early));
        assert_eq!(admit(&gate, Verdict::Admit), Ok(None));
    }
}
