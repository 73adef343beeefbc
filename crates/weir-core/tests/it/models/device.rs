//! A naive model of a device: at every nanosecond it performs all steps that are possible.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::config::QueueLimit;
use weir_core::device::{DeviceConfig, Done, Dql, StageConfig};

/// A packet that left the wire or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// The end of the transmission, or the time of the drop.
    pub(crate) time: u64,
    pub(crate) frame: u32,
    pub(crate) left_scheduler: u64,
    /// The start of the transmission; for a dropped packet, the time of the drop.
    pub(crate) started: u64,
    pub(crate) lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    frame: u32,
    len: u32,
    segments: u16,
    left_scheduler: u64,
}

/// A stage: its queue, the packet in service with its remaining time, and the packets that occupy
/// places.
struct Stage {
    config: StageConfig,
    queue: VecDeque<Packet>,
    in_service: Option<(Packet, u64)>,
    places: Vec<Packet>,
}

/// An unbounded queue, a device behind it, and a wire that takes one nanosecond per byte.
pub(crate) struct Model {
    config: DeviceConfig,
    time: u64,
    scheduler: VecDeque<Packet>,
    stages: Vec<Stage>,
    dql: Option<Dql>,
    /// Packets that are complete but not reported, with the times of completion.
    unreported: Vec<(Packet, u64)>,
    /// The packet on the wire, its start, and the remaining time.
    wire: Option<(Packet, u64, u64)>,
    events: Vec<Event>,
    was_starved: bool,
    /// Number and total duration of the wire's starvations.
    starved: (u64, u64),
    most_bytes: u64,
}

impl Model {
    pub(crate) fn new(config: &DeviceConfig) -> Self {
        let stage = |config: &StageConfig| Stage {
            config: *config,
            queue: VecDeque::new(),
            in_service: None,
            places: Vec::new(),
        };
        Self {
            config: config.clone(),
            time: 0,
            scheduler: VecDeque::new(),
            stages: config.stages.iter().chain([&config.ring]).map(stage).collect(),
            dql: config.dql.map(|dql| Dql::new(Nanos::ZERO, dql)),
            unreported: Vec::new(),
            wire: None,
            events: Vec::new(),
            was_starved: false,
            starved: (0, 0),
            most_bytes: 0,
        }
    }

    pub(crate) fn submit(&mut self, time: u64, frame: u32, len: u32, segments: u16) {
        while self.time < time {
            self.tick();
        }
        self.settle();
        self.scheduler.push_back(Packet { frame, len, segments, left_scheduler: 0 });
        self.settle();
    }

    /// Advances the time until all packets have left, and returns the events.
    pub(crate) fn finish(&mut self) -> Vec<Event> {
        while self.wire.is_some() || !self.scheduler.is_empty() || self.inside() > 0 {
            self.tick();
        }
        std::mem::take(&mut self.events)
    }

    pub(crate) fn starved(&self) -> (u64, u64) {
        self.starved
    }

    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Advances the time by one nanosecond.
    fn tick(&mut self) {
        self.settle();
        let starved = self.wire.is_none()
            && (self.inside() > 0 || !self.scheduler.is_empty() && !self.open(0));
        self.starved.0 += u64::from(starved && !self.was_starved);
        self.starved.1 += u64::from(starved);
        self.was_starved = starved;
        self.time += 1;
        if let Some((_, _, left)) = &mut self.wire {
            *left -= 1;
        }
        for stage in &mut self.stages {
            if let Some((_, left)) = &mut stage.in_service {
                *left = left.saturating_sub(1);
            }
        }
        self.settle();
    }

    /// Performs steps until no step is possible.
    fn settle(&mut self) {
        while self.step() {}
    }

    /// Performs the first step that is possible. Returns whether there was one.
    fn step(&mut self) -> bool {
        let ring = self.stages.len() - 1;
        if let Some((packet, started, 0)) = self.wire {
            self.wire = None;
            let Packet { frame, left_scheduler, .. } = packet;
            self.events.push(Event {
                time: self.time,
                frame,
                left_scheduler,
                started,
                lost: false,
            });
            if self.config.completion.when == Done::Sent {
                self.unreported.push((packet, self.time));
            }
            return true;
        }
        if self.report() {
            return true;
        }
        for number in (0..=ring).rev() {
            if let Some((packet, 0)) = self.stages[number].in_service {
                self.stages[number].in_service = None;
                self.arrive(number, packet);
                return true;
            }
        }
        for number in (1..=ring).rev() {
            if !self.stages[number - 1].queue.is_empty() && self.open(number) {
                let packet = self.stages[number - 1].queue.pop_front().unwrap();
                self.stages[number - 1].places.retain(|p| p.frame != packet.frame);
                self.stages[number].in_service =
                    Some((packet, self.stages[number].config.service.0));
                return true;
            }
        }
        if self.wire.is_none()
            && let Some(packet) = self.stages[ring].queue.pop_front()
        {
            self.wire = Some((packet, self.time, u64::from(packet.len)));
            if self.config.completion.when == Done::Read {
                self.unreported.push((packet, self.time));
            }
            return true;
        }
        if !self.scheduler.is_empty() && self.open(0) {
            let packet =
                Packet { left_scheduler: self.time, ..self.scheduler.pop_front().unwrap() };
            self.stages[0].in_service = Some((packet, self.stages[0].config.service.0));
            let queued = self
                .stages
                .iter()
                .flat_map(|s| s.queue.iter().copied().chain(s.in_service.map(|(p, _)| p)));
            self.most_bytes = self.most_bytes.max(queued.map(|p| u64::from(p.len)).sum());
            return true;
        }
        false
    }

    /// Reports the complete packets if a report is due. Returns whether it was due.
    fn report(&mut self) -> bool {
        let completion = self.config.completion;
        let Some(&(_, first)) = self.unreported.first() else { return false };
        let packets: u32 = self.unreported.iter().map(|(p, _)| u32::from(p.segments)).sum();
        let ring = self.stages.last_mut().unwrap();
        if ring.in_service.is_some()
            || packets < completion.frames && self.time < first + completion.time.0
        {
            return false;
        }
        let bytes = self.unreported.iter().map(|(p, _)| p.len).sum();
        ring.places.retain(|p| self.unreported.iter().all(|(done, _)| done.frame != p.frame));
        self.unreported.clear();
        if let Some(dql) = &mut self.dql {
            dql.completed(Nanos(self.time), bytes);
        }
        true
    }

    /// Puts a packet with completed service into the queue of stage `number`, or drops it.
    fn arrive(&mut self, number: usize, packet: Packet) {
        let is_ring = number + 1 == self.stages.len();
        let stage = &mut self.stages[number];
        let (packets, bytes) = stage.used();
        let fits = match stage.config.limit {
            QueueLimit::Packets(most) => packets + u64::from(packet.segments) <= u64::from(most),
            QueueLimit::Bytes(most) => bytes + u64::from(packet.len) <= most,
        };
        if !stage.config.blocking && packets > 0 && !fits {
            let Packet { frame, left_scheduler, .. } = packet;
            self.events.push(Event {
                time: self.time,
                frame,
                left_scheduler,
                started: self.time,
                lost: true,
            });
            return;
        }
        stage.queue.push_back(packet);
        stage.places.push(packet);
        if let Some(dql) = self.dql.as_mut().filter(|_| is_ring) {
            dql.queued(packet.len);
        }
    }

    /// Whether stage `number` may take a packet from the part before it.
    fn open(&self, number: usize) -> bool {
        let stage = &self.stages[number];
        let (packets, bytes) = stage.used();
        let room = match stage.config.limit {
            QueueLimit::Packets(most) => packets < u64::from(most.max(1)),
            QueueLimit::Bytes(most) => bytes < most.max(1),
        };
        let allowed =
            number + 1 < self.stages.len() || self.dql.as_ref().is_none_or(|dql| dql.avail() >= 0);
        stage.in_service.is_none() && (room || !stage.config.blocking) && allowed
    }

    /// Number of packets in the stages.
    fn inside(&self) -> usize {
        self.stages.iter().map(|s| s.queue.len() + usize::from(s.in_service.is_some())).sum()
    }
}

impl Stage {
    /// Wire packets and bytes that occupy places.
    fn used(&self) -> (u64, u64) {
        self.places.iter().fold((0, 0), |(packets, bytes), p| {
            (packets + u64::from(p.segments), bytes + u64::from(p.len))
        })
    }
}
