//! A plain pipe: one FIFO with tail drop, a rate and a delay, in the fewest steps.
//!
//! What becomes of a packet here is known when it comes: it starts when the one before it has left,
//! and nothing that comes later changes that. So it is told then, and whoever asks keeps the packet
//! and the time; a pipe of the [`Emulator`](crate::Emulator) may need two events and a place in the
//! pool. Simulations of many hops are made of such pipes.
//!
//! It may also be asked ahead: where all packets come from one other pipe, which tells their times,
//! they can be submitted with these times long before. Counters and queue lengths are nevertheless
//! those of the moment at which they are asked for.
//!
//! **Invariant:** for the same arrivals a plain pipe gives the same departures and drops, at the
//! same times, as the engine's pipe with the same configuration. `tests/it/plain.rs` holds both side
//! by side, and a pipe that is asked ahead beside one that is not.
//!
//! # Model
//! A packet waits while the one before it is on the wire or waits itself: those are the packets
//! whose *start* is still to come.
//!
//! # Counting
//! Nobody looks at counters before a time that is known, the *horizon*: the end of a run, or when a
//! meter looks next. A packet that has left before the horizon is counted at once, as if it had
//! been there; of the others the pipe keeps what is left to count, until [`PlainPipe::catch_up`].
//! So the counters are right whenever somebody looks, and most packets cost no second step. Over a
//! link that is faster than the one before it, packets of one length go without a wait and with one
//! latency: those are counted together.

use alloc::collections::VecDeque;

use crate::config::{Capacity, PipeConfig};
use crate::gate::Bounds;
use crate::link::{Overhead, Serializer, Timed};
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

/// A plain pipe. What every packet touches comes first.
#[derive(Debug)]
pub struct PlainPipe {
    /// When the packet that came last is off the wire.
    last_done: Nanos,
    delay: Nanos,
    overhead: Overhead,
    bounds: Bounds,
    serializer: Serializer,
    /// What a packet like the last takes: nearly all have one of two lengths, and mostly one alone
    /// goes one way.
    last: Timed,
    /// Packets that wait when the last one comes, and before them those that have started by then
    /// but will be asked for.
    queue: VecDeque<Waiting>,
    /// How many these are: submitted ahead, they start behind the horizon.
    started: usize,
    /// Bytes of those that have not.
    bytes: u64,
    /// Packets that are to be counted together.
    alike: Alike,
    stats: LinkStats,
    /// Packets that were counted as they came, and have not left.
    inside: VecDeque<Leaving>,
    /// Packets that were submitted ahead and are not counted yet.
    coming: VecDeque<Coming>,
}

/// Packets that did not wait, of one length and with one latency: they come one after the other, so
/// they are counted together.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    total: Nanos,
    len: u32,
    count: u32,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Until then.
    start: Nanos,
    len: u32,
}

/// A packet that is to be counted when it leaves.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    due: Nanos,
    len: u32,
}

/// A packet that is to be counted when it comes.
#[derive(Clone, Copy, Debug)]
struct Coming {
    came: Nanos,
    len: u32,
    /// `None` for a packet that is lost.
    passage: Option<Passage>,
}

/// The way of a packet through the pipe.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// When it is on the wire.
    start: Nanos,
    /// When it is at the other end.
    due: Nanos,
    /// Packets that waited when it came.
    ahead: u32,
}

impl PlainPipe {
    /// A pipe as configured, or `None` when the configuration asks for more than a plain pipe has:
    /// a rate that is not constant, an AQM, a mask, loss, jitter or any other impairment.
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
        if *link != plain_link
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
            coming: VecDeque::new(),
        })
    }

    /// Takes a packet of `len` network-layer bytes that stands for `segments` wire packets and
    /// comes at `now`, which may be ahead of time but not before the packet submitted last.
    /// Counters and queue are not asked for before `horizon`, which never goes back. Returns when
    /// it arrives at the other end.
    ///
    /// # Errors
    /// [`DropReason::QueueFull`]: it is lost at `now`.
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
                self.count_coming(now, len, &passage);
                self.count_leaving(len);
            }
        } else {
            self.count_later(now, len, passage, horizon);
        }
        Ok(due)
    }

    /// Counts what has happened until `now`, `now` included. To be called before counters or queue
    /// are looked at.
    #[inline]
    pub fn catch_up(&mut self, now: Nanos) {
        self.count_alike();
        if !self.coming.is_empty() || !self.inside.is_empty() {
            self.count_until(now);
        }
    }

    /// Packets that wait at `now`, and their bytes; the one on the wire is not among them.
    pub fn queue_length(&mut self, now: Nanos) -> (u64, u64) {
        if self.coming.is_empty() {
            self.advance(now, now);
            return ((self.queue.len() - self.started) as u64, self.bytes);
        }
        // Of those in the queue some have started by now, and some, at the end, are still to come.
        let started = self.queue.partition_point(|waiting| waiting.start <= now);
        let waits =
            |coming: &Coming| coming.passage.is_some_and(|passage| passage.start > coming.came);
        let here = self.queue.len() - self.coming.iter().filter(|&coming| waits(coming)).count();
        let bytes =
            self.queue.range(started.min(here)..here).map(|waiting| u64::from(waiting.len)).sum();
        (here.saturating_sub(started) as u64, bytes)
    }

    /// The most packets that waited at once since the last call, or since counting began; counts on
    /// from what waits at `now`.
    pub fn take_peak(&mut self, now: Nanos) -> u64 {
        self.count_alike();
        let (waiting, _) = self.queue_length(now);
        core::mem::replace(&mut self.stats.counters.peak_queue_packets, waiting)
    }

    /// Counters and latencies, as of the last [`Self::catch_up`]. Latencies count when a packet
    /// comes, so those of packets inside are among them.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Begins to count anew. What is inside is carried over.
    pub fn zero(&mut self, now: Nanos) {
        self.count_alike();
        let (packets, _) = self.queue_length(now);
        self.stats.zero(packets);
    }

    /// Lets packets start until `now`.
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

    /// A packet is lost.
    #[cold]
    fn refuse(&mut self, now: Nanos, len: u32, horizon: Nanos) {
        if now < horizon && self.coming.is_empty() {
            self.count_lost(len);
        } else {
            self.coming.push_back(Coming { came: now, len, passage: None });
        }
    }

    /// Keeps what is left to count of a packet that leaves at the horizon or behind it.
    #[inline(never)]
    fn count_later(&mut self, now: Nanos, len: u32, passage: Passage, horizon: Nanos) {
        if now < horizon && self.coming.is_empty() {
            self.count_coming(now, len, &passage);
            self.inside.push_back(Leaving { due: passage.due, len });
        } else {
            self.coming.push_back(Coming { came: now, len, passage: Some(passage) });
        }
    }

    #[inline(never)]
    fn count_until(&mut self, now: Nanos) {
        while let Some(&Coming { came, len, passage }) = self.coming.front()
            && came <= now
        {
            self.coming.pop_front();
            match passage {
                None => self.count_lost(len),
                Some(passage) => {
                    self.count_coming(came, len, &passage);
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
        // Those that have started by now will not be asked for any more.
        while self.started > 0 && self.queue.front().is_some_and(|waiting| waiting.start <= now) {
            self.queue.pop_front();
            self.started -= 1;
        }
    }

    fn count_lost(&mut self, len: u32) {
        let counters = &mut self.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        counters.count_drop(DropReason::QueueFull);
    }

    #[inline]
    fn count_coming(&mut self, came: Nanos, len: u32, passage: &Passage) {
        let counters = &mut self.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        counters.backlog_packets += 1;
        counters.peak_queue_packets = counters.peak_queue_packets.max(u64::from(passage.ahead) + 1);
        self.stats.queue_ns.record(passage.start.since(came).0);
        self.stats.total_ns.record(passage.due.since(came).0);
    }

    /// Counts packets that did not wait and have left.
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

    #[inline]
    fn count_leaving(&mut self, len: u32) {
        let counters = &mut self.stats.counters;
        counters.backlog_packets -= 1;
        counters.packets_out += 1;
        counters.bytes_out += u64::from(len);
    }
}
