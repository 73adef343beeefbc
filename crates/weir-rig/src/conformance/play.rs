//! Plays a case: performs the arrivals and dequeues in order of time, and records the outcome of
//! each packet.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde::Serializer;
use weir_core::Nanos;
use weir_core::aqm::{Aqm, Maker, Setup};
use weir_core::gate::Bounds;
use weir_core::packet::PacketId;
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Fifo, FlowSpec, Scheduler, Visitor};
use weir_core::stamped::Released;
use weir_core::stats::{DropCounts, DropReason, MarkCounts, MarkReason};

use super::case::{Arrival, Case, Service};
use super::expectation::Wanted;
use crate::managed::{Arriving, Managed, Open, Watch};
use weir_rules::manager::Manager;

/// The outcome of one play of a case.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "CasePlay")]
pub struct Play {
    /// The seed.
    pub seed: u64,
    /// Drops and dequeues by time.
    pub events: Vec<Event>,
    /// The counters of all packets.
    pub counts: Counts,
    /// The counters of each flow.
    pub flows: BTreeMap<u32, Counts>,
    /// The algorithm's state variables at the end.
    pub figures: BTreeMap<&'static str, u64>,
    /// The state after each dequeue.
    #[serde(skip)]
    pub after: Vec<Snapshot>,
}

/// A drop or a dequeue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CaseEvent")]
pub struct Event {
    /// The time in ns.
    pub at_ns: u64,
    /// `drop`, `dequeue`, or `empty` for a dequeue that found nothing.
    pub what: &'static str,
    /// The drop reason, or the mark reason of a dequeued packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The packet's number in the order of arrivals, from 0.
    pub packet: u32,
    /// The packet's flow.
    pub flow: u32,
    /// The packet's length in bytes.
    pub bytes: u32,
    /// The packet's sojourn time in ns.
    pub waited_ns: u64,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that departed, with or without a mark.
    pub delivered: u64,
    /// Bytes of the packets that departed.
    pub delivered_bytes: u64,
    /// Dropped packets by reason.
    pub drops: DropCounts,
    /// Marked packets by reason.
    pub marks: MarkCounts,
}

impl Counts {
    /// Packets that remain in the queue.
    pub fn left(&self) -> u64 {
        self.arrived - self.delivered - self.dropped()
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.total()
    }

    /// Packets marked for any reason.
    pub fn marked(&self) -> u64 {
        self.marks.total()
    }
}

/// The counts as the results document shows them.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "CaseCounts")]
struct CountsDocument {
    /// Packets that arrived.
    arrived: u64,
    /// Packets that departed, with or without a mark.
    delivered: u64,
    /// Bytes of the packets that departed.
    delivered_bytes: u64,
    /// Packets that remain in the queue.
    left: u64,
    /// Dropped packets by reason.
    drops: DropCounts,
    /// Marked packets by reason.
    marks: MarkCounts,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { arrived, delivered, delivered_bytes, drops, marks } = *self;
        let left = self.left();
        CountsDocument { arrived, delivered, delivered_bytes, left, drops, marks }
            .serialize(serializer)
    }
}

impl JsonSchema for Counts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        CountsDocument::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        CountsDocument::json_schema(generator)
    }
}

/// The state after a dequeue.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Packets in the queue.
    pub backlog: u64,
    /// Packets dropped so far.
    pub drops: u64,
    /// Packets marked so far.
    pub marks: u64,
    /// The algorithm's state variables; empty when the case expects none.
    pub figures: Vec<(&'static str, u64)>,
}

/// Plays a case with one seed.
pub(super) fn play(case: &Case, seed: u64) -> Play {
    match &case.manager {
        Manager::None => play_with(case, seed, Fifo::default(), Open),
        Manager::Aqm(policy) => policy.make_with(WithAqm { case, seed }),
        Manager::Scheduler(discipline) => {
            discipline.seeded(seed).visit(WithScheduler { case, seed })
        }
    }
}

struct WithAqm<'a> {
    case: &'a Case,
    seed: u64,
}

impl Maker for WithAqm<'_> {
    type Output = Play;

    fn with<A: Aqm + std::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Play {
        let Bounds { packets: limit_packets, bytes: limit_bytes } = self.case.limit.into();
        let stream = Stream::new(self.seed, 0, Purpose::Aqm);
        let aqm = make(&Setup { rate: self.case.rate, limit_packets, limit_bytes, stream });
        play_with(self.case, self.seed, Fifo::default(), aqm)
    }
}

struct WithScheduler<'a> {
    case: &'a Case,
    seed: u64,
}

impl Visitor for WithScheduler<'_> {
    type Output = Play;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Play {
        play_with(self.case, self.seed, scheduler, Open)
    }
}

fn play_with<S: Scheduler, A: Aqm>(case: &Case, seed: u64, scheduler: S, aqm: A) -> Play {
    let expected = case.arrivals.len().min(1 << 16);
    let queue =
        Managed::new(scheduler, std::iter::once((FlowSpec::default(), aqm)), case.limit, expected);
    let wants_variables =
        case.expected.iter().any(|expected| matches!(expected.wanted, Wanted::Variable { .. }));
    let mut player =
        Player { queue, record: Record::new(&case.arrivals, seed), next: 0, wants_variables };
    match &case.service {
        Service::Times(times) => {
            for &at in times {
                player.arrivals_until(at);
                player.dequeue(at);
            }
        }
        Service::Link { rate, burst, from, until } => player.serve(*rate, *burst, *from, *until),
    }
    player.arrivals_until(u64::MAX);
    let mut play = player.record.play;
    play.figures = player.queue.variables().into_iter().collect();
    play
}

struct Player<'a, S, A> {
    queue: Managed<S, A>,
    record: Record<'a>,
    /// The index of the next arrival.
    next: usize,
    wants_variables: bool,
}

impl<S: Scheduler, A: Aqm> Player<'_, S, A> {
    /// Performs the arrivals until `end`, inclusive.
    fn arrivals_until(&mut self, end: u64) {
        while let Some(arrival) =
            self.record.arrivals.get(self.next).filter(|arrival| arrival.at <= end)
        {
            let &Arrival { at, len, header, flow } = arrival;
            self.record.arriving = self.next as u32;
            self.record.count(flow, |counts| counts.arrived += 1);
            self.next += 1;
            let offered =
                self.queue.offer(Nanos(at), &Arriving { queue: 0, len, header }, &mut self.record);
            if let Err(reason) = offered {
                self.record.drop(at, self.record.arriving, reason);
            }
        }
    }

    /// Dequeues a packet and returns its length; `None` when no packet was dequeued.
    fn dequeue(&mut self, at: u64) -> Option<u32> {
        let taken = self.queue.take(Nanos(at), &mut self.record);
        match &taken {
            Some((id, packet)) => self.record.delivered(at, *id, packet),
            None => self.record.push(Event {
                at_ns: at,
                what: "empty",
                reason: None,
                packet: 0,
                flow: 0,
                bytes: 0,
                waited_ns: 0,
            }),
        }
        let counts = &self.record.play.counts;
        let variables = if self.wants_variables { self.queue.variables() } else { Vec::new() };
        let snapshot = Snapshot {
            backlog: self.queue.packets() as u64,
            drops: counts.dropped(),
            marks: counts.marked(),
            figures: variables,
        };
        self.record.play.after.push(snapshot);
        taken.map(|(_, packet)| packet.len)
    }

    /// Serves the queue as a link that sends whenever it is free. The moment at which the link
    /// becomes free is computed from all bits sent since the last idle period, so rounding errors
    /// do not add up. An idle link accumulates a credit of at most `burst` bytes.
    fn serve(&mut self, rate: u64, burst: u64, from: u64, until: u64) {
        let time_of =
            |bits: u128| u64::try_from(bits * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
        let saved = time_of(u128::from(burst) * 8);
        let (mut begin, mut bits) = (from, 0u128);
        loop {
            let free = begin.saturating_add(time_of(bits));
            self.arrivals_until(free);
            let mut now = free.max(from);
            if self.queue.packets() == 0 {
                // The queue is empty: the link sends again at the next arrival.
                let Some(arrival) = self.record.arrivals.get(self.next) else { return };
                now = now.max(arrival.at);
                self.arrivals_until(now);
            }
            if now >= until {
                return;
            }
            if self.queue.packets() == 0 {
                continue;
            }
            if now > free.saturating_add(saved) {
                (begin, bits) = (now - saved, 0);
            }
            match self.dequeue(now) {
                Some(len) => bits += u128::from(len) * 8,
                // The scheduler holds packets back although the link is free. Cases do not support
                // such a scheduler, so the play ends.
                None if self.queue.packets() > 0 => return,
                None => {}
            }
        }
    }
}

/// Records the events and counts of a play.
struct Record<'a> {
    arrivals: &'a [Arrival],
    /// For each packet in the queue, its number in the order of arrivals.
    numbers: BTreeMap<PacketId, u32>,
    /// The number of the most recent arrival.
    arriving: u32,
    play: Play,
}

impl<'a> Record<'a> {
    fn new(arrivals: &'a [Arrival], seed: u64) -> Self {
        Self {
            arrivals,
            numbers: BTreeMap::new(),
            arriving: 0,
            play: Play { seed, ..Play::default() },
        }
    }

    fn count(&mut self, flow: u32, change: impl Fn(&mut Counts)) {
        change(&mut self.play.counts);
        change(self.play.flows.entry(flow).or_default());
    }

    fn push(&mut self, event: Event) {
        self.play.events.push(event);
    }

    fn event(
        &self,
        at: u64,
        number: u32,
        what: &'static str,
        reason: Option<&'static str>,
    ) -> Event {
        let Arrival { at: arrived, len, flow, .. } = self.arrivals[number as usize];
        Event { at_ns: at, what, reason, packet: number, flow, bytes: len, waited_ns: at - arrived }
    }

    fn drop(&mut self, at: u64, number: u32, reason: DropReason) {
        let event = self.event(at, number, "drop", Some(reason.name()));
        self.count(event.flow, |counts| counts.drops.add(reason, 1));
        self.push(event);
    }

    fn delivered(&mut self, at: u64, id: PacketId, packet: &Released) {
        let number = self.numbers.remove(&id).unwrap_or(self.arriving);
        let event = self.event(at, number, "dequeue", packet.mark.map(MarkReason::name));
        self.count(event.flow, |counts| {
            counts.delivered += 1;
            counts.delivered_bytes += u64::from(packet.len);
            if let Some(reason) = packet.mark {
                counts.marks.add(reason, 1);
            }
        });
        self.push(event);
    }
}

impl Watch for Record<'_> {
    fn entered(&mut self, id: PacketId) {
        self.numbers.insert(id, self.arriving);
    }

    fn dropped(&mut self, now: Nanos, id: PacketId, _packet: &Released, reason: DropReason) {
        let number = self.numbers.remove(&id).unwrap_or(self.arriving);
        self.drop(now.0, number, reason);
    }
}
