//! Devices: what stands between a scheduler and the wire, and keeps packets that no scheduler
//! decides about any more.
//!
//! # Model
//! A chain of *stages*, each a first-in first-out queue with a *feeder*:
//! ```text
//!               feeder            feeder                feeder
//! scheduler ──► (service) ─► [stage 0] ──► (service) ─► [stage 1] ─ … ─► (service) ─► [ring] ──► wire
//!      ◄── stopped while full ──┘  ◄────── or drops ──────┘        ◄─ DQL, completions ──┘
//! ```
//! A feeder takes a packet from what is before it, keeps it for its stage's service time, and puts
//! it in. It takes one at a time, and none while its stage is full; or, when the stage does not
//! block, takes them all and drops what finds no room. So a stage that blocks makes those before it
//! fill up, back to the scheduler.
//!
//! A transmission *ring* is the last stage, and its feeder is the processor: service time is what
//! the driver needs for a packet. What a ring has and other stages have not is that its places do
//! not become free when a packet leaves, but when the device has *reported* it and the processor
//! has dealt with the report, which it does between two packets. Reports are coalesced: one for
//! several packets, or one for those of some time. With [`Dql`] the ring is also closed while it
//! holds more bytes than were found necessary.
//!
//! A software switch has stages before its last queue: traffic manager (the scheduler), egress
//! queue, interface queue (the ring).
//!
//! # Order
//! All that happens at one time happens in this order, and begins again after each step until
//! nothing more happens: a packet has left the wire; a report is dealt with; a feeder has finished,
//! the one next to the wire first; a feeder takes a packet, in the same order; the wire begins with
//! a packet; the scheduler is asked for one.
//!
//! # Guarantees
//! Packets leave in the order in which the scheduler gave them. Every packet that came from it is
//! started by the wire, dropped at a stage and counted there, or inside ([`DeviceStats`]). Another
//! configuration keeps packets and their order; a device that is taken away is first emptied by the
//! wire.
//!
//! # Differences from Linux
//! A place is a packet on the wire: scatter and gather, which use several descriptors for one, are
//! not modelled. A ring has room for any packet while one place is free, as a driver that stops
//! early enough for its largest. Reports cost the processor nothing.
//!
//! # Validation
//! `tests/it/device.rs` holds it against a model that looks at every nanosecond, `tests/it/dql_ring.rs`
//! against published figures.

mod config;
mod dql;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::gate::QueueLimit;
use crate::packet::{Packet, PacketId, PacketList, Pool};
use crate::units::Nanos;

pub use config::{Completion, DEFAULT_RING, DeviceConfig, Done, StageConfig};
pub use dql::{DQL_MOST, Dql, DqlConfig};
pub use weir_measure::stats::DeviceStats;

/// A device at work. Its driver asks it for the next packet whenever the wire is free
/// ([`Device::read`]), gives it one whenever it wants one ([`Device::wants`]), and lets it go on in
/// between ([`Device::advance`]).
#[derive(Debug)]
pub(crate) struct Device {
    config: Arc<DeviceConfig>,
    ring: Stage,
    dql: Option<Dql>,
    /// What is before the ring, from the scheduler on.
    stages: Vec<Stage>,
    /// What the packet on the wire keeps of the ring.
    on_wire: Size,
    /// Done, but not reported. Empty while each is reported by itself and the processor is free.
    done: Size,
    /// When the first of them was.
    done_since: Nanos,
    packets: u32,
    /// It takes no more packets.
    leaving: bool,
    starved_since: Option<Nanos>,
    /// When that last ended.
    starved_until: Option<Nanos>,
    /// What stages had no room for, with their numbers.
    dropped: Vec<(PacketId, usize)>,
}

/// What one or several packets take of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    packets: u32,
    bytes: u64,
}

#[derive(Debug)]
struct Stage {
    config: StageConfig,
    queue: PacketList,
    /// Places in use. Of a ring, those of packets that are done and not reported too.
    used: Size,
    /// What the feeder has, and when it puts that in.
    hand: Option<(PacketId, Nanos)>,
}

/// What a device is doing, for views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceView {
    /// Packets inside, those not counted that the wire has started with.
    pub packets: u32,
    /// Places of the ring in use, those among them that the device has not reported.
    pub ring_packets: u32,
    /// Bytes of the ring in use.
    pub ring_bytes: u64,
    /// The limit that was learnt, bytes; `None` without one.
    pub dql_limit: Option<u32>,
}

impl Device {
    /// An empty device.
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
            leaving: false,
            starved_since: None,
            starved_until: None,
            dropped: Vec::new(),
        }
    }

    /// When it goes on by itself; [`Nanos::MAX`] while it waits for the wire or for packets.
    #[inline]
    pub(crate) fn next_event(&self) -> Nanos {
        if self.is_at_rest() {
            return Nanos::MAX;
        }
        let hand = |stage: &Stage| stage.hand.map_or(Nanos::MAX, |(_, done)| done);
        self.stages.iter().map(hand).fold(self.report_due().min(hand(&self.ring)), Nanos::min)
    }

    /// Whether no packet is inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Whether it waits for a packet from the scheduler.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        !self.leaving && self.may_feed(0)
    }

    /// Whether it is to go when it is empty.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Takes a packet from the scheduler, where [`Self::wants`] holds.
    #[inline]
    pub(crate) fn give(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId) {
        self.packets += 1;
        self.feed(0, now, pool, packet);
    }

    /// Does what is due at `now`. What has found no room waits for [`Self::pop_dropped`].
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, pool: &mut Pool) {
        while !self.is_at_rest()
            && (self.report(now) || self.put(now, pool) || self.take(now, pool))
        {}
    }

    /// Whether it only waits for the wire or for packets: always so of a ring alone that takes no
    /// time.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.done.packets == 0 && self.ring.hand.is_none() && self.stages.is_empty()
    }

    /// A packet that found no room, and at which stage.
    pub(crate) fn pop_dropped(&mut self) -> Option<(PacketId, usize)> {
        self.dropped.pop()
    }

    /// The packet that the wire starts with now.
    #[inline]
    pub(crate) fn read(&mut self, now: Nanos, pool: &Pool) -> Option<PacketId> {
        let packet = self.ring.queue.pop_front(pool)?;
        self.packets -= 1;
        let size = Size::of(pool, packet);
        match self.config.completion.when {
            Done::Read => self.is_done(now, size),
            Done::Sent => self.on_wire = size,
        }
        Some(packet)
    }

    /// The packet on the wire has left.
    pub(crate) fn sent(&mut self, now: Nanos) {
        let size = core::mem::take(&mut self.on_wire);
        if size.packets > 0 {
            self.is_done(now, size);
        }
    }

    /// Notes whether the wire is idle from `now` on although packets are there for it. Says for how
    /// long it has been, and whether that begins now. What begins when it ended goes on.
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

    /// Takes over another configuration. Packets stay, in order, as near to the wire as they were;
    /// what stands in stages that are gone stands at the end of the first that is left.
    pub(crate) fn configure(&mut self, now: Nanos, pool: &mut Pool, config: &Arc<DeviceConfig>) {
        self.leaving = false;
        if self.config == *config {
            return;
        }
        self.resize(pool, config);
        match (&mut self.dql, config.dql) {
            (Some(dql), Some(bounds)) => dql.configure(bounds),
            (dql, bounds) => {
                // What is in the ring will be reported to a limit that has not seen it come.
                let inside = u32::try_from(self.ring.used.bytes).unwrap_or(u32::MAX);
                *dql = bounds.map(|bounds| Dql::new(now, bounds));
                dql.iter_mut().for_each(|dql| dql.queued(inside));
            }
        }
        self.config = config.clone();
    }

    /// Takes no more packets: what is inside goes to the wire, as fast as that takes it.
    pub(crate) fn leave(&mut self, now: Nanos, pool: &mut Pool) {
        self.configure(now, pool, &Arc::default());
        self.leaving = true;
    }

    /// Takes every packet out, in order.
    pub(crate) fn drain(&mut self, pool: &mut Pool) -> PacketList {
        let mut all = PacketList::default();
        for stage in core::iter::once(&mut self.ring).chain(self.stages.iter_mut().rev()) {
            stage.move_to(&mut all, pool);
            stage.used = Size::default();
        }
        (self.packets, self.on_wire, self.done) = (0, Size::default(), Size::default());
        all
    }

    /// What it is doing.
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

// Steps; each does one thing and says whether there was one to do. A stage's number counts from the
// scheduler; the ring's is the last.
impl Device {
    /// Deals with a report of the device that is due, unless the processor is busy with a packet.
    #[inline]
    fn report(&mut self, now: Nanos) -> bool {
        if self.report_due() > now {
            return false;
        }
        let done = core::mem::take(&mut self.done);
        self.free(now, done);
        true
    }

    /// Frees places of the ring.
    #[inline]
    fn free(&mut self, now: Nanos, Size { packets, bytes }: Size) {
        self.ring.used.packets -= packets;
        self.ring.used.bytes -= bytes;
        if let Some(dql) = &mut self.dql {
            dql.completed(now, bytes.min(u64::from(dql.in_flight())) as u32);
        }
    }

    /// Puts what a feeder has finished with into its stage.
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

    /// Lets a feeder that is free take a packet from the stage before its own.
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

    /// Hands a packet to a stage's feeder. One that needs no time has put it in.
    #[inline]
    fn feed(&mut self, number: usize, now: Nanos, pool: &mut Pool, packet: PacketId) {
        let stage = self.stage(number);
        if stage.config.service == Nanos::ZERO {
            return self.arrive(number, pool, packet);
        }
        stage.hand = Some((packet, now.saturating_add(stage.config.service)));
    }

    /// A packet has come to a stage.
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

    /// Puts a packet into a stage, whether there is room or not.
    #[inline]
    fn push(&mut self, number: usize, pool: &mut Pool, packet: PacketId, size: Size) {
        let stage = self.stage(number);
        stage.queue.push_back(pool, packet);
        stage.used.add(size);
        if let Some(dql) = self.dql.as_mut().filter(|_| number == self.stages.len()) {
            dql.queued(u32::try_from(size.bytes).unwrap_or(u32::MAX));
        }
    }

    /// Notes that the device is done with a packet of `size`.
    #[inline]
    fn is_done(&mut self, now: Nanos, size: Size) {
        if self.done.packets == 0 {
            let Completion { frames, time, .. } = self.config.completion;
            if (frames <= 1 || time == Nanos::ZERO) && self.ring.hand.is_none() {
                return self.free(now, size);
            }
            self.done_since = now;
        }
        self.done.add(size);
    }

    /// When a report is due; [`Nanos::MAX`] when there is none, or while the processor is busy and
    /// does not look.
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

    /// Makes the stages what another configuration says, counted from the wire.
    fn resize(&mut self, pool: &mut Pool, config: &DeviceConfig) {
        while self.stages.len() > config.stages.len() {
            // What was to come later stands behind.
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

    /// Whether its feeder may take a packet: it has none, and the stage is not full, or does not
    /// care.
    #[inline]
    fn is_open(&self) -> bool {
        self.hand.is_none() && (self.has_room() || !self.config.blocking)
    }

    /// Whether it is not full.
    #[inline]
    fn has_room(&self) -> bool {
        match self.config.limit {
            QueueLimit::Packets(most) => self.used.packets < most.max(1),
            QueueLimit::Bytes(most) => self.used.bytes < most.max(1),
        }
    }

    /// Whether a packet of `size` finds all the room that it needs; any does in an empty stage.
    fn fits(&self, size: Size) -> bool {
        self.used.packets == 0
            || match self.config.limit {
                QueueLimit::Packets(most) => self.used.packets.saturating_add(size.packets) <= most,
                QueueLimit::Bytes(most) => self.used.bytes.saturating_add(size.bytes) <= most,
            }
    }

    /// Puts its packets and its feeder's at the end of `list`, in order.
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

/// What a device counts of a packet's length: the frame as the driver has it, without what framing
/// adds on the wire.
pub(crate) fn bytes(packet: &Packet) -> u64 {
    u64::from(packet.len) + u64::from(packet.link_header)
}

/// The device that a link is made with.
pub(crate) fn make(now: Nanos, config: Option<&Arc<DeviceConfig>>) -> Option<Box<Device>> {
    config.map(|config| Box::new(Device::new(now, config.clone())))
}
