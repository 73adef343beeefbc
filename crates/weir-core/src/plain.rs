//! A plain pipe: a FIFO with tail drop, a rate and a delay, at the lowest cost.
//!
//! The departure time of a packet is known when the packet arrives: its transmission starts when
//! the packet before it has left the wire, and no later event changes that time.
//! [`PlainPipe::submit`] therefore returns the time at which the packet arrives at the other end,
//! and the caller keeps the packet. A pipe of the [`Emulator`](crate::Emulator) may need two events
//! and a slot in the pool instead. Simulations of many hops consist of plain pipes.
//!
//! Packets may also be submitted ahead of time: if all packets come from one other pipe, their
//! arrival times are known in advance. Counters and queue lengths always refer to the time of the
//! query.
//!
//! **Invariant:** for the same arrivals, a plain pipe produces the same departures and drops at the
//! same times as the engine's pipe with the same configuration. `tests/it/plain.rs` compares both,
//! and also compares submissions ahead of time with submissions at the time of arrival.
//!
//! # Model
//! A packet waits while the packet before it waits or is on the wire. The waiting packets are those
//! with a *start* in the future.
//!
//! # Counting
//! The *horizon* is a time before which no counter is read: the end of a run, or the next sample of
//! a meter. A packet that leaves before the horizon is counted completely at submission. For any
//! other packet the pipe stores the remaining counts until [`PlainPipe::catch_up`]. Counters are
//! therefore correct whenever they are read, and most packets need no second step. On a link that
//! is faster than the one before it, packets of equal length pass without waiting and with equal
//! latency; the pipe counts such packets together.

use alloc::collections::VecDeque;

use crate::config::{Capacity, PipeConfig};
use crate::gate::Bounds;
use crate::link::{Overhead, Serializer, Timed};
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

/// A plain pipe. The fields that every packet touches come first.
#[derive(Debug)]
pub struct PlainPipe {
    /// Time at which the last packet leaves the wire.
    last_done: Nanos,
    delay: Nanos,
    overhead: Overhead,
    bounds: Bounds,
    serializer: Serializer,
    /// The length and the serialisation time of the last packet. Most paths carry packets of one
    /// length, so that the time is seldom computed anew.
    last: Timed,
    /// Packets that waited at the last arrival, in order. In front of them are packets that had
    /// already started; a query for a time before their start must still count them.
    queue: VecDeque<Waiting>,
    /// Number of packets at the front of `queue` that had started at the last arrival. The last
    /// arrival may have been submitted ahead of time, so these packets may start after the horizon.
    started: usize,
    /// Bytes of the packets that have not started.
    bytes: u64,
    alike: Alike,
    stats: LinkStats,
    /// Packets with a counted arrival and a departure that is not counted yet.
    inside: VecDeque<Leaving>,
    /// Packets that were submitted ahead of time and are not counted yet.
    pending: VecDeque<Pending>,
}

/// Consecutive packets that did not wait and have the same length and latency. They are counted
/// together.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    /// The latency of each packet.
    total: Nanos,
    len: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Time at which the transmission starts.
    start: Nanos,
    len: u32,
}

/// A packet with a departure that is not counted yet.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// Time at which the packet arrives at the other end.
    due: Nanos,
    len: u32,
}

/// A packet with an arrival that is not counted yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    arrived: Nanos,
    len: u32,
    /// `None` for a dropped packet.
    passage: Option<Passage>,
}

/// The times of a packet in the pipe.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// Time at which the transmission starts.
    start: Nanos,
    /// Time at which the packet arrives at the other end.
    due: Nanos,
    /// Number of packets that waited when the packet arrived.
    ahead: u32,
}

impl PlainPipe {
    /// A pipe with this configuration; `None` if a plain pipe does not support it because of a
    /// trace, a schedule, a profile, a device, a scheduler, loss, jitter or another impairment, or
    /// because of any setting of the queue except its limit, weight, largest packet and priority.
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
        if config.scheduler.is_some()
            || *link != plain_link
            || *queue != plain_queue
            || matches!(link.capacity, Capacity::Trace(_))
        {
            return None;
        }
        let limit = queue
            .limit
            .unwrap_or_else(|| crate::config::default_limit(link, crate::sched::Kind::Fifo));
        Some(Self {
            last_done: Nanos::ZERO,
            delay: link.delay,
            overhead: link.overhead,
            bounds: limit.into(),
            serializer: Serializer::new(Nanos::ZERO, link.capacity.clone(), link.burst),
            last: Timed::default(),
            queue: VecDeque::new(),
            started: 0,
            bytes: 0,
            alike: Alike::default(),
            stats: LinkStats::default(),
            inside: VecDeque::new(),
            pending: VecDeque::new(),
        })
    }

    /// Submits a packet of `len` network-layer bytes that represents `segments` wire packets and
    /// arrives at `now`. `now` may be in the future, but not before the previous submission. The
    /// caller reads no counter and no queue length before `horizon`, which never decreases. Returns
    /// when the packet arrives at the other end.
    ///
    /// # Errors
    /// [`DropReason::QueueFull`]: the packet is dropped at `now`.
    #[inline]
    pub fn submit(
        &mut self,
        now: Nanos,
        len: u32,
        segments: u16,
        horizon: Nanos,
    ) -> Result<Nanos, DropReason> {
        if !self.queue.is_empty() {
            self.advance(now, horizon);
        }
        let waiting = self.queue.len() - self.started;
        if self.bounds.exclude(waiting as u32, self.bytes, len) {
            self.refuse(now, len, horizon);
            return Err(DropReason::QueueFull);
        }
        let start = now.max(self.last_done);
        let done = self.serializer.start_like(
            start,
            self.overhead.wire_bytes(len, segments),
            &mut self.last,
        );
        let due = done.saturating_add(self.delay);
        self.last_done = done;
        let alike = &mut self.alike;
        if start == now
            && due < horizon
            && due.since(now) == alike.total
            && len == alike.len
            && alike.count < u32::MAX
        {
            alike.count += 1;
            return Ok(due);
        }
        if start > now {
            self.queue.push_back(Waiting { start, len });
            self.bytes += u64::from(len);
        }
        let passage = Passage { start, due, ahead: waiting as u32 };
        if due < horizon {
            if start == now {
                self.count_alike();
                self.alike = Alike { total: due.since(now), len, count: 1 };
            } else {
                self.count_arrival(now, len, &passage);
                self.count_leaving(len);
            }
        } else {
            self.count_later(now, len, passage, horizon);
        }
        Ok(due)
    }

    /// Counts all events until `now`, inclusive. Call it before reading counters or queue lengths.
    #[inline]
    pub fn catch_up(&mut self, now: Nanos) {
        self.count_alike();
        if !self.pending.is_empty() || !self.inside.is_empty() {
            self.count_until(now);
        }
    }

    /// Packets that wait at `now`, and their bytes, without the packet on the wire.
    pub fn queue_length(&mut self, now: Nanos) -> (u64, u64) {
        if self.pending.is_empty() {
            self.advance(now, now);
            return ((self.queue.len() - self.started) as u64, self.bytes);
        }
        // The packets at the front of the queue have started by now, and those at the end have not
        // arrived yet.
        let started = self.queue.partition_point(|waiting| waiting.start <= now);
        let waits = |pending: &Pending| {
            pending.passage.is_some_and(|passage| passage.start > pending.arrived)
        };
        let here = self.queue.len() - self.pending.iter().filter(|&pending| waits(pending)).count();
        let bytes =
            self.queue.range(started.min(here)..here).map(|waiting| u64::from(waiting.len)).sum();
        (here.saturating_sub(started) as u64, bytes)
    }

    /// The largest number of packets that waited at one time since the previous call or reset.
    /// Counting restarts from the packets that wait at `now`.
    pub fn take_peak(&mut self, now: Nanos) -> u64 {
        self.count_alike();
        let (waiting, _) = self.queue_length(now);
        core::mem::replace(&mut self.stats.counters.peak_queue_packets, waiting)
    }

    /// Counters and latencies as of the last [`Self::catch_up`]. A latency is counted when the
    /// packet arrives at the pipe, so the packets inside are included.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Resets the counters. Packets inside are carried over.
    pub fn zero(&mut self, now: Nanos) {
        self.count_alike();
        let (packets, _) = self.queue_length(now);
        self.stats.zero(packets);
    }

    /// Marks the packets with a start until `now` as started. Removes from the front of the queue
    /// the packets that no later query needs.
    #[inline]
    fn advance(&mut self, now: Nanos, horizon: Nanos) {
        while let Some(&Waiting { start, len }) = self.queue.get(self.started)
            && start <= now
        {
            self.bytes -= u64::from(len);
            if start <= horizon && self.started == 0 {
                self.queue.pop_front();
            } else {
                self.started += 1;
            }
        }
    }

    #[cold]
    fn refuse(&mut self, now: Nanos, len: u32, horizon: Nanos) {
        if now < horizon && self.pending.is_empty() {
            self.count_lost(len);
        } else {
            self.pending.push_back(Pending { arrived: now, len, passage: None });
        }
    }

    /// Stores the remaining counts of a packet that leaves at the horizon or later.
    #[inline(never)]
    fn count_later(&mut self, now: Nanos, len: u32, passage: Passage, horizon: Nanos) {
        if now < horizon && self.pending.is_empty() {
            self.count_arrival(now, len, &passage);
            self.inside.push_back(Leaving { due: passage.due, len });
        } else {
            self.pending.push_back(Pending { arrived: now, len, passage: Some(passage) });
        }
    }

    /// Counts the stored arrivals and departures until `now`.
    #[inline(never)]
    fn count_until(&mut self, now: Nanos) {
        while let Some(&Pending { arrived, len, passage }) = self.pending.front()
            && arrived <= now
        {
            self.pending.pop_front();
            match passage {
                None => self.count_lost(len),
                Some(passage) => {
                    self.count_arrival(arrived, len, &passage);
                    self.inside.push_back(Leaving { due: passage.due, len });
                }
            }
        }
        while let Some(&Leaving { due, len }) = self.inside.front()
            && due <= now
        {
            self.inside.pop_front();
            self.count_leaving(len);
        }
        // No later query refers to the packets that have started by now.
        while self.started > 0 && self.queue.front().is_some_and(|waiting| waiting.start <= now) {
            self.queue.pop_front();
            self.started -= 1;
        }
    }

    /// Counts a packet that found the queue full.
    fn count_lost(&mut self, len: u32) {
        let counters = &mut self.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        counters.count_drop(DropReason::QueueFull);
    }

    /// Counts the arrival of a packet that was not dropped, and its latencies.
    #[inline]
    fn count_arrival(&mut self, arrived: Nanos, len: u32, passage: &Passage) {
        let counters = &mut self.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        counters.backlog_packets += 1;
        counters.peak_queue_packets = counters.peak_queue_packets.max(u64::from(passage.ahead) + 1);
        self.stats.queue_ns.record(passage.start.since(arrived).0);
        self.stats.total_ns.record(passage.due.since(arrived).0);
    }

    /// Counts the packets that did not wait and have left.
    #[inline(never)]
    fn count_alike(&mut self) {
        let Alike { total, len, count } = core::mem::take(&mut self.alike);
        if count == 0 {
            return;
        }
        let (packets, bytes) = (u64::from(count), u64::from(len) * u64::from(count));
        let counters = &mut self.stats.counters;
        counters.packets_in += packets;
        counters.bytes_in += bytes;
        counters.packets_out += packets;
        counters.bytes_out += bytes;
        counters.peak_queue_packets = counters.peak_queue_packets.max(1);
        self.stats.queue_ns.record_many(0, packets);
        self.stats.total_ns.record_many(total.0, packets);
    }

    /// Counts the departure of a packet with a counted arrival.
    #[inline]
    fn count_leaving(&mut self, len: u32) {
        let counters = &mut self.stats.counters;
        counters.backlog_packets -= 1;
        counters.packets_out += 1;
        counters.bytes_out += u64::from(len);
    }
}
