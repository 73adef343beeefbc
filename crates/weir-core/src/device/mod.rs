//! Devices: stages between a scheduler and the wire. The scheduler no longer controls the packets
//! in them.
//!
//! # Model
//! A device is a chain of *stages*, each a first-in first-out queue with a *feeder*:
//! ```text
//!               feeder            feeder                feeder
//! scheduler ──► (service) ─► [stage 0] ──► (service) ─► [stage 1] ─ … ─► (service) ─► [ring] ──► wire
//!      ◄── stopped while full ──┘  ◄────── or drops ──────┘        ◄─ DQL, completions ──┘
//! ```
//! A feeder takes a packet from the previous stage, holds it for the service time of its
//! own stage, and adds it to that stage. It handles one packet at a time. A blocking stage stops
//! its feeder while it is full, so the previous stages fill up, back to the scheduler. The feeder
//! of a dropping stage takes every packet, and drops those that do not fit.
//!
//! The last stage is the transmission *ring*. Its feeder is the processor, and its service time is
//! the processor's time for a packet. A place in the ring does not become free when a packet
//! leaves, as in other stages, but when the device has *reported* the packet and the processor has
//! handled the report. The processor handles reports between two packets. Reports are coalesced:
//! one report covers several packets, or the packets of a period. With [`Dql`] the ring is also
//! closed while it holds more bytes than necessary.
//!
//! A software switch has a traffic manager (the scheduler), an egress queue (a stage), and an
//! interface queue (the ring).
//!
//! A *gated* device passes each packet to the wire only when the driver of the engine permits it.
//! Packets then wait in the ring, in the stages and in the scheduler: a driver that has no room for
//! a packet holds the whole chain back, without a loss if all stages are blocking.
//!
//! # Order
//! All events at one time happen in the following order, which restarts after each step until no
//! event is left: a packet leaves the wire; a report is handled; a feeder finishes (the feeder
//! closest to the wire first); a feeder takes a packet (in the same order); the wire starts with a
//! packet; the scheduler hands over a packet.
//!
//! # Guarantees
//! Packets leave in the order in which they left the scheduler. Every packet from the scheduler is
//! either transmitted, or dropped at a stage and counted there ([`DeviceStats`]), or still inside
//! the device. A new configuration keeps packets and their order. A device that a new configuration
//! removes stays until all its packets have been transmitted.
//!
//! # Differences from Linux
//! A place holds one wire packet: scatter-gather, which uses several descriptors for one packet, is
//! not modelled. A ring accepts a packet of any size while one place is free, like the ring of a
//! network driver that stops early enough for its largest packet. Handling a report takes no
//! processor time.
//!
//! # Validation
//! `tests/it/device.rs` compares the device with a model that visits every nanosecond, and
//! `tests/it/dql_ring.rs` with published results.

mod config;
mod dql;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::gate::QueueLimit;
use crate::packet::{Packet, PacketId, PacketList, Pool};
use crate::units::Nanos;

pub use config::{Completion, DEFAULT_RING, DeviceConfig, Done, StageConfig};
pub use dql::{DQL_MAX, Dql, DqlConfig};
pub use weir_measure::stats::DeviceStats;

/// A running device. The link takes the next packet whenever the wire is free
/// ([`Device::take_for_wire`]), adds a packet whenever the device accepts one ([`Device::wants`]),
/// and otherwise advances the device ([`Device::advance`]).
#[derive(Debug)]
pub(crate) struct Device {
    config: Arc<DeviceConfig>,
    ring: Stage,
    dql: Option<Dql>,
    /// The stages before the ring, in the order in which packets pass them.
    stages: Vec<Stage>,
    /// The part of the ring that the packet on the wire occupies.
    on_wire: Size,
    /// Packets that are complete but not reported. Empty if each packet is reported at once and the
    /// processor is free.
    done: Size,
    /// Time at which the first packet in `done` was completed.
    done_since: Nanos,
    /// Packets inside that the wire has not begun to transmit.
    packets: u32,
    /// Whether the wire may take a packet, if the device is gated.
    permitted: bool,
    /// Whether the device accepts no more packets.
    leaving: bool,
    /// The time of the last call of [`Device::note_starved`], if the wire has starved since then.
    starved_since: Option<Nanos>,
    /// The end of the most recent starvation: a time in which the wire was idle although packets
    /// for it existed.
    starved_until: Option<Nanos>,
    /// Dropped packets, each with the number of its stage.
    dropped: Vec<(PacketId, usize)>,
}

/// The places and bytes that packets occupy in a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    packets: u32,
    bytes: u64,
}

/// A running stage: a queue and its feeder.
#[derive(Debug)]
struct Stage {
    config: StageConfig,
    queue: PacketList,
    /// Places in use. In the ring, these include packets that are complete but not reported.
    used: Size,
    /// The feeder's packet, and the time at which the feeder adds it to the stage.
    hand: Option<(PacketId, Nanos)>,
}

/// The state of a device, for views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceView {
    /// Packets inside that the wire has not begun to transmit.
    pub packets: u32,
    /// Places in use in the ring, including unreported packets.
    pub ring_packets: u32,
    /// Bytes in use in the ring.
    pub ring_bytes: u64,
    /// The current limit of DQL in bytes; `None` without DQL.
    pub dql_limit: Option<u32>,
}

impl Device {
    pub(crate) fn new(now: Nanos, config: Arc<DeviceConfig>) -> Self {
        let stages = config.stages.iter().copied().map(Stage::new).collect();
        let dql = config.dql.map(|dql| Dql::new(now, dql));
        Self {
            ring: Stage::new(config.ring),
            config,
            dql,
            stages,
            on_wire: Size::default(),
            done: Size::default(),
            done_since: Nanos::ZERO,
            packets: 0,
            permitted: true,
            leaving: false,
            starved_since: None,
            starved_until: None,
            dropped: Vec::new(),
        }
    }

    /// The time of the next event; [`Nanos::MAX`] while the device waits for the wire or for
    /// packets.
    #[inline]
    pub(crate) fn next_event(&self) -> Nanos {
        if self.is_at_rest() {
            return Nanos::MAX;
        }
        let hand = |stage: &Stage| stage.hand.map_or(Nanos::MAX, |(_, done)| done);
        self.stages.iter().map(hand).fold(self.report_due().min(hand(&self.ring)), Nanos::min)
    }

    /// Whether the device contains no packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Whether the device accepts a packet from the scheduler.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        !self.leaving && self.may_feed(0)
    }

    /// Whether the device is removed when it is empty.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Accepts a packet from the scheduler; [`Self::wants`] must hold.
    #[inline]
    pub(crate) fn give(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId) {
        self.packets += 1;
        self.feed(0, now, pool, packet);
    }

    /// Handles all events due at `now`. Dropped packets are available from [`Self::pop_dropped`].
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, pool: &mut Pool) {
        while !self.is_at_rest()
            && (self.report(now) || self.put(now, pool) || self.take(now, pool))
        {}
    }

    /// Whether the device certainly waits only for the wire or for packets. This is always true for
    /// a device that has only a ring, no service time, and completions that are reported at once,
    /// and never for a device with stages before the ring.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.done.packets == 0 && self.ring.hand.is_none() && self.stages.is_empty()
    }

    /// The next dropped packet, and the number of its stage.
    pub(crate) fn pop_dropped(&mut self) -> Option<(PacketId, usize)> {
        self.dropped.pop()
    }

    /// Takes the next packet for the wire out of the ring, if the device may pass it.
    #[inline]
    pub(crate) fn take_for_wire(&mut self, now: Nanos, pool: &Pool) -> Option<PacketId> {
        if self.config.gated && !self.permitted {
            return None;
        }
        let packet = self.ring.queue.pop_front(pool)?;
        self.permitted = false;
        self.packets -= 1;
        let size = Size::of(pool, packet);
        match self.config.completion.when {
            Done::Read => self.record_done(now, size),
            Done::Sent => self.on_wire = size,
        }
        Some(packet)
    }

    /// Permits the wire to take one more packet; permits do not add up.
    pub(crate) fn permit(&mut self) {
        self.permitted = true;
    }

    /// Records that the packet on the wire has left.
    pub(crate) fn sent(&mut self, now: Nanos) {
        let size = core::mem::take(&mut self.on_wire);
        if size.packets > 0 {
            self.record_done(now, size);
        }
    }

    /// Records whether the wire is idle from `now` on although packets for it exist. Returns for
    /// how long the wire has starved since the previous call, and whether a new starvation begins.
    /// A starvation that resumes at the time at which the previous one ended is not new.
    pub(crate) fn note_starved(&mut self, now: Nanos, starved: bool) -> (Nanos, bool) {
        let since = core::mem::replace(&mut self.starved_since, starved.then_some(now));
        if since.is_some() {
            self.starved_until = Some(now);
        }
        (
            since.map_or(Nanos::ZERO, |since| now.since(since)),
            starved && self.starved_until != Some(now),
        )
    }

    /// Applies a new configuration. Packets keep their order and their distance to the wire;
    /// packets of removed stages go to the end of the first remaining stage.
    pub(crate) fn configure(&mut self, now: Nanos, pool: &mut Pool, config: &Arc<DeviceConfig>) {
        self.leaving = false;
        if self.config == *config {
            return;
        }
        self.resize(pool, config);
        match (&mut self.dql, config.dql) {
            (Some(dql), Some(bounds)) => dql.configure(bounds),
            (dql, bounds) => {
                // Completions of bytes that are inside now will be reported to the new limit, so
                // the new limit must count these bytes as queued.
                let inside = u32::try_from(self.ring.used.bytes).unwrap_or(u32::MAX);
                *dql = bounds.map(|bounds| Dql::new(now, bounds));
                dql.iter_mut().for_each(|dql| dql.queued(inside));
            }
        }
        // A device that becomes gated passes its first packet without a permit, as a new one does.
        self.permitted |= !self.config.gated;
        self.config = config.clone();
    }

    /// Accepts no more packets. Packets inside go to the wire as fast as the wire takes them.
    /// Only a packet that the ring's feeder holds may wait for the end of its service time.
    pub(crate) fn leave(&mut self, now: Nanos, pool: &mut Pool) {
        self.configure(now, pool, &Arc::default());
        self.leaving = true;
    }

    /// Removes every packet, in order.
    pub(crate) fn drain(&mut self, pool: &mut Pool) -> PacketList {
        let mut all = PacketList::default();
        for stage in core::iter::once(&mut self.ring).chain(self.stages.iter_mut().rev()) {
            stage.move_to(&mut all, pool);
            stage.used = Size::default();
        }
        (self.packets, self.on_wire, self.done) = (0, Size::default(), Size::default());
        all
    }

    pub(crate) fn view(&self) -> DeviceView {
        let Size { packets, bytes } = self.ring.used;
        DeviceView {
            packets: self.packets,
            ring_packets: packets,
            ring_bytes: bytes,
            dql_limit: self.dql.as_ref().map(Dql::limit),
        }
    }
}

// The steps `report`, `put` and `take`, and their helpers. A step performs one action and returns
// whether there was one. Stages are numbered from the scheduler on; the ring is the last.
impl Device {
    /// Handles a report that is due, unless the processor is busy with a packet.
    #[inline]
    fn report(&mut self, now: Nanos) -> bool {
        if self.report_due() > now {
            return false;
        }
        let done = core::mem::take(&mut self.done);
        self.free(now, done);
        true
    }

    #[inline]
    fn free(&mut self, now: Nanos, Size { packets, bytes }: Size) {
        self.ring.used.packets -= packets;
        self.ring.used.bytes -= bytes;
        if let Some(dql) = &mut self.dql {
            dql.completed(now, bytes.min(u64::from(dql.in_flight())) as u32);
        }
    }

    /// Adds a packet to its stage when the feeder has finished with it.
    #[inline]
    fn put(&mut self, now: Nanos, pool: &mut Pool) -> bool {
        let due = |stage: &mut Stage| {
            stage.hand.take_if(|(_, done)| *done <= now).map(|(packet, _)| packet)
        };
        if let Some(packet) = due(&mut self.ring) {
            self.arrive(self.stages.len(), pool, packet);
            return true;
        }
        for number in (0..self.stages.len()).rev() {
            if let Some(packet) = due(&mut self.stages[number]) {
                self.arrive(number, pool, packet);
                return true;
            }
        }
        false
    }

    /// Moves a packet from a stage to the next feeder if that feeder is free.
    #[inline]
    fn take(&mut self, now: Nanos, pool: &mut Pool) -> bool {
        for number in (1..=self.stages.len()).rev() {
            if self.stages[number - 1].queue.is_empty() || !self.may_feed(number) {
                continue;
            }
            let before = &mut self.stages[number - 1];
            let Some(packet) = before.queue.pop_front(pool) else { continue };
            let Size { packets, bytes } = Size::of(pool, packet);
            before.used.packets -= packets;
            before.used.bytes -= bytes;
            self.feed(number, now, pool, packet);
            return true;
        }
        false
    }

    /// Whether the feeder of a stage may take a packet.
    #[inline]
    fn may_feed(&self, number: usize) -> bool {
        if let Some(stage) = self.stages.get(number) {
            return stage.is_open();
        }
        self.ring.is_open() && self.dql.as_ref().is_none_or(|dql| dql.avail() >= 0)
    }

    /// Hands a packet to the feeder of a stage. Without service time the packet enters the stage at
    /// once.
    #[inline]
    fn feed(&mut self, number: usize, now: Nanos, pool: &mut Pool, packet: PacketId) {
        let stage = self.stage(number);
        if stage.config.service == Nanos::ZERO {
            return self.arrive(number, pool, packet);
        }
        stage.hand = Some((packet, now.saturating_add(stage.config.service)));
    }

    /// Handles the arrival of a packet at a stage: adds it or drops it.
    #[inline]
    fn arrive(&mut self, number: usize, pool: &mut Pool, packet: PacketId) {
        let size = Size::of(pool, packet);
        let stage = self.stage(number);
        if !stage.config.blocking && !stage.fits(size) {
            self.packets -= 1;
            return self.dropped.push((packet, number));
        }
        self.push(number, pool, packet, size);
    }

    /// Adds a packet to a stage, even if it does not fit.
    #[inline]
    fn push(&mut self, number: usize, pool: &mut Pool, packet: PacketId, size: Size) {
        let stage = self.stage(number);
        stage.queue.push_back(pool, packet);
        stage.used.add(size);
        if let Some(dql) = self.dql.as_mut().filter(|_| number == self.stages.len()) {
            dql.queued(u32::try_from(size.bytes).unwrap_or(u32::MAX));
        }
    }

    /// Records that the device has completed a packet of `size`.
    #[inline]
    fn record_done(&mut self, now: Nanos, size: Size) {
        if self.done.packets == 0 {
            let Completion { frames, time, .. } = self.config.completion;
            if (frames <= 1 || time == Nanos::ZERO) && self.ring.hand.is_none() {
                return self.free(now, size);
            }
            self.done_since = now;
        }
        self.done.add(size);
    }

    /// The time of the next report; [`Nanos::MAX`] if none is due, or while the processor is busy.
    #[inline]
    fn report_due(&self) -> Nanos {
        if self.done.packets == 0 || self.ring.hand.is_some() {
            return Nanos::MAX;
        }
        let Completion { frames, time, .. } = self.config.completion;
        if self.done.packets >= frames {
            self.done_since
        } else {
            self.done_since.saturating_add(time)
        }
    }

    #[inline]
    fn stage(&mut self, number: usize) -> &mut Stage {
        self.stages.get_mut(number).unwrap_or(&mut self.ring)
    }

    /// Adapts the stages to a new configuration. Stages are matched from the wire on.
    fn resize(&mut self, pool: &mut Pool, config: &DeviceConfig) {
        while self.stages.len() > config.stages.len() {
            // The packets of the removed stages are behind those of the first remaining stage.
            let mut first = self.stages.remove(0);
            let mut behind = PacketList::default();
            if let Some((packet, _)) = self.stage(0).hand.take() {
                behind.push_back(pool, packet);
            }
            first.move_to(&mut behind, pool);
            while let Some(packet) = behind.pop_front(pool) {
                self.push(0, pool, packet, Size::of(pool, packet));
            }
        }
        while self.stages.len() < config.stages.len() {
            self.stages.insert(0, Stage::new(StageConfig::default()));
        }
        self.ring.config = config.ring;
        for (stage, config) in self.stages.iter_mut().zip(&config.stages) {
            stage.config = *config;
        }
    }
}

impl Stage {
    fn new(config: StageConfig) -> Self {
        Self { config, queue: PacketList::default(), used: Size::default(), hand: None }
    }

    /// Whether the feeder of this stage may take a packet: the feeder is free, and the stage either
    /// drops packets or is not full.
    #[inline]
    fn is_open(&self) -> bool {
        self.hand.is_none() && (self.has_room() || !self.config.blocking)
    }

    /// Whether the stage has a free place.
    #[inline]
    fn has_room(&self) -> bool {
        match self.config.limit {
            QueueLimit::Packets(most) => self.used.packets < most.max(1),
            QueueLimit::Bytes(most) => self.used.bytes < most.max(1),
        }
    }

    /// Whether a packet of `size` fits completely. An empty stage accepts any packet.
    fn fits(&self, size: Size) -> bool {
        self.used.packets == 0
            || match self.config.limit {
                QueueLimit::Packets(most) => self.used.packets.saturating_add(size.packets) <= most,
                QueueLimit::Bytes(most) => self.used.bytes.saturating_add(size.bytes) <= most,
            }
    }

    /// Appends the packets of the stage and of its feeder to `list`, in order.
    fn move_to(&mut self, list: &mut PacketList, pool: &mut Pool) {
        while let Some(packet) = self.queue.pop_front(pool) {
            list.push_back(pool, packet);
        }
        if let Some((packet, _)) = self.hand.take() {
            list.push_back(pool, packet);
        }
    }
}

impl Size {
    fn of(pool: &Pool, packet: PacketId) -> Self {
        let packet = pool.get(packet);
        Self { packets: u32::from(packet.segments.max(1)), bytes: bytes(packet) }
    }

    fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes += other.bytes;
    }
}

/// A packet's length as a device counts it: the driver's frame without the framing of the wire.
pub(crate) fn bytes(packet: &Packet) -> u64 {
    u64::from(packet.len) + u64::from(packet.link_header)
}

/// The device of a new link.
pub(crate) fn make(now: Nanos, config: Option<&Arc<DeviceConfig>>) -> Option<Box<Device>> {
    config.map(|config| Box::new(Device::new(now, config.clone())))
}
