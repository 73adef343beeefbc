//! A plain pipe: one FIFO with tail drop, a rate and a delay, in the fewest steps.
//!
//! What becomes of a packet here is known when it comes: it starts when the one before it has left, and nothing that comes later
//! changes that. So it needs one event, its arrival at the other end, where a pipe of the [`Emulator`](crate::Emulator) may need
//! two and a place in the pool. Simulations of many hops are made of such pipes.
//!
//! **Invariant:** for the same arrivals a plain pipe gives the same departures and drops, at the same times, as the engine's pipe
//! with the same configuration. `tests/plain.rs` holds both side by side.
//!
//! # Model
//! ```text
//! line:  | done ≤ now: on its way | on the wire | waiting … |
//!          ^ front                  ^ wire
//! ```
//! A packet waits while the one before it is on the wire or waits itself. The *done* of each is all that is kept.

use alloc::collections::VecDeque;

use crate::config::{Capacity, PipeConfig, QueueLimit};
use crate::link::{Overhead, Serializer};
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

/// A plain pipe.
#[derive(Debug)]
pub struct PlainPipe {
    serializer: Serializer,
    overhead: Overhead,
    delay: Nanos,
    max_packets: usize,
    max_bytes: u64,
    /// Packets inside, in the order in which they came.
    line: VecDeque<Inside>,
    /// How many at the front of the line have left the wire, by the last look.
    left: usize,
    /// When the packet that came last is off the wire.
    last_done: Nanos,
    /// Bytes of the packets that have not left the wire, by the last look.
    bytes: u64,
    stats: LinkStats,
}

/// A packet inside.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// When it is off the wire.
    done: Nanos,
    frame: u32,
    len: u32,
}

impl PlainPipe {
    /// A pipe as configured, or `None` when the configuration asks for more than a plain pipe has: a rate that is not constant,
    /// an AQM, a mask, loss, jitter or any other impairment.
    pub fn new(config: &PipeConfig) -> Option<Self> {
        let (link, queue) = (&config.link, &config.queue);
        let plain_link = crate::config::LinkConfig {
            capacity: link.capacity.clone(),
            burst: link.burst,
            overhead: link.overhead,
            delay: link.delay,
            ..Default::default()
        };
        let plain_queue = crate::config::FlowsetConfig {
            weight: queue.weight,
            max_packet: queue.max_packet,
            priority: queue.priority,
            limit: queue.limit,
            ..Default::default()
        };
        if *link != plain_link || *queue != plain_queue || matches!(link.capacity, Capacity::Trace(_)) {
            return None;
        }
        let limit = queue.limit.unwrap_or_else(|| crate::config::default_limit(link, crate::sched::Kind::Fifo));
        let (max_packets, max_bytes) = match limit {
            QueueLimit::Packets(packets) => (packets as usize, u64::MAX),
            QueueLimit::Bytes(bytes) => (usize::MAX, bytes),
        };
        Some(Self {
            serializer: Serializer::new(Nanos::ZERO, link.capacity.clone(), link.burst),
            overhead: link.overhead,
            delay: link.delay,
            max_packets,
            max_bytes,
            line: VecDeque::new(),
            left: 0,
            last_done: Nanos::ZERO,
            bytes: 0,
            stats: LinkStats::default(),
        })
    }

    /// Takes a packet of `len` network-layer bytes that stands for `segments` wire packets. Its waiting time is counted now.
    ///
    /// # Errors
    /// [`DropReason::QueueFull`]; the packet stays the caller's.
    #[inline]
    pub fn submit(&mut self, now: Nanos, frame: u32, len: u32, segments: u16) -> Result<(), DropReason> {
        let counters = &mut self.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        self.look(now);
        let (waiting, bytes) = self.waiting();
        let counters = &mut self.stats.counters;
        if waiting >= self.max_packets || waiting > 0 && bytes + u64::from(len) > self.max_bytes {
            counters.count_drop(DropReason::QueueFull);
            return Err(DropReason::QueueFull);
        }
        let start = now.max(self.last_done);
        counters.peak_queue_packets = counters.peak_queue_packets.max(waiting as u64 + 1);
        let done = self.serializer.start(start, self.overhead.wire_bytes(len, segments), Nanos::ZERO);
        self.last_done = done;
        counters.backlog_packets += 1;
        self.stats.queue_ns.record(start.since(now).0);
        self.stats.total_ns.record(done.saturating_add(self.delay).since(now).0);
        self.line.push_back(Inside { done, frame, len });
        self.bytes += u64::from(len);
        Ok(())
    }

    /// When the next packet arrives at the other end; [`Nanos::MAX`] when there is none inside.
    #[inline]
    pub fn next_due(&self) -> Nanos {
        self.line.front().map_or(Nanos::MAX, |first| first.done.saturating_add(self.delay))
    }

    /// Takes the next packet if it is due: its frame, and when it was due.
    #[inline]
    pub fn pop(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        let due = self.next_due();
        if due > now {
            return None;
        }
        let Inside { frame, len, .. } = self.line.pop_front()?;
        match self.left {
            0 => self.bytes -= u64::from(len),
            _ => self.left -= 1,
        }
        let counters = &mut self.stats.counters;
        counters.backlog_packets -= 1;
        counters.packets_out += 1;
        counters.bytes_out += u64::from(len);
        Some((frame, due))
    }

    /// Packets that wait at `now`, and their bytes; the one on the wire is not among them.
    pub fn queue_length(&mut self, now: Nanos) -> (u64, u64) {
        self.look(now);
        let (packets, bytes) = self.waiting();
        (packets as u64, bytes)
    }

    /// The most packets that waited at once since the last call, or since counting began; counts on from what waits at `now`.
    pub fn take_peak(&mut self, now: Nanos) -> u64 {
        self.look(now);
        let (waiting, _) = self.waiting();
        core::mem::replace(&mut self.stats.counters.peak_queue_packets, waiting as u64)
    }

    /// Counters and latencies. Latencies count when a packet comes, so those of packets inside are among them.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Begins to count anew. What is inside is carried over.
    pub fn zero(&mut self, now: Nanos) {
        self.look(now);
        let (packets, _) = self.waiting();
        self.stats.zero(packets as u64);
    }

    /// Notes which packets have left the wire.
    #[inline]
    fn look(&mut self, now: Nanos) {
        while let Some(inside) = self.line.get(self.left)
            && inside.done <= now
        {
            self.bytes -= u64::from(inside.len);
            self.left += 1;
        }
    }

    /// Packets behind the one on the wire, and their bytes.
    #[inline]
    fn waiting(&self) -> (usize, u64) {
        match self.line.get(self.left) {
            None => (0, 0),
            Some(wire) => (self.line.len() - self.left - 1, self.bytes - u64::from(wire.len)),
        }
    }
}
