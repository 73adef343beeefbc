//! The record of a play: the events by time, the counts, and the state after each dequeue.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde::Serializer;
use weir_core::Nanos;
use weir_core::packet::PacketId;
use weir_core::stamped::Released;
use weir_core::stats::{DropCounts, DropReason, MarkCounts, MarkReason};

use super::case::Arrival;
use crate::managed::Watch;

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
    #[serde(rename = "figures")]
    pub variables: BTreeMap<&'static str, u64>,
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
    /// Departures of packets that had departed before.
    pub duplicates: u64,
    /// Packets that departed with an inverted bit.
    pub corrupted: u64,
    /// Packets that departed directly after a packet that had arrived later.
    pub out_of_order: u64,
    /// The sum of the sojourn times of the packets that departed, in ns.
    pub waited_ns: u64,
}

impl Counts {
    /// Packets that neither departed nor were dropped.
    pub fn remaining(&self) -> u64 {
        self.arrived + self.duplicates - self.delivered - self.dropped()
    }

    /// The mean sojourn time of the packets that departed, in us; 0 when none departed.
    pub fn mean_wait_us(&self) -> f64 {
        self.waited_ns as f64 / 1000.0 / self.delivered.max(1) as f64
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
    /// Packets that neither departed nor were dropped.
    left: u64,
    /// Dropped packets by reason.
    drops: DropCounts,
    /// Marked packets by reason.
    marks: MarkCounts,
    /// Departures of packets that had departed before.
    duplicates: u64,
    /// Packets that departed with an inverted bit.
    corrupted: u64,
    /// Packets that departed directly after a packet that had arrived later.
    out_of_order: u64,
    /// The mean sojourn time of the packets that departed, in us.
    mean_wait_us: f64,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { arrived, delivered, delivered_bytes, drops, marks, .. } = *self;
        let Self { duplicates, corrupted, out_of_order, .. } = *self;
        let (left, mean_wait_us) = (self.remaining(), self.mean_wait_us());
        CountsDocument {
            arrived,
            delivered,
            delivered_bytes,
            left,
            drops,
            marks,
            duplicates,
            corrupted,
            out_of_order,
            mean_wait_us,
        }
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
    pub variables: Vec<(&'static str, u64)>,
}

/// Records the events and counts of a play.
pub(super) struct Record<'a> {
    pub(super) arrivals: &'a [Arrival],
    /// For each packet in the queue, its number in the order of arrivals.
    numbers: BTreeMap<PacketId, u32>,
    /// The number of the most recent arrival.
    pub(super) arriving: u32,
    /// The packet that departed last.
    last: Option<u32>,
    pub(super) play: Play,
}

impl<'a> Record<'a> {
    pub(super) fn new(arrivals: &'a [Arrival], seed: u64) -> Self {
        Self {
            arrivals,
            numbers: BTreeMap::new(),
            arriving: 0,
            last: None,
            play: Play { seed, ..Play::default() },
        }
    }

    pub(super) fn count(&mut self, flow: u32, change: impl Fn(&mut Counts)) {
        change(&mut self.play.counts);
        change(self.play.flows.entry(flow).or_default());
    }

    /// Records that a dequeue found no packet.
    pub(super) fn empty(&mut self, at: u64) {
        self.play.events.push(Event {
            at_ns: at,
            what: "empty",
            reason: None,
            packet: 0,
            flow: 0,
            bytes: 0,
            waited_ns: 0,
        });
    }

    /// Records the state after a dequeue.
    pub(super) fn after(&mut self, backlog: u64, variables: Vec<(&'static str, u64)>) {
        let counts = &self.play.counts;
        let (drops, marks) = (counts.dropped(), counts.marked());
        self.play.after.push(Snapshot { backlog, drops, marks, variables });
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

    pub(super) fn drop(&mut self, at: u64, number: u32, reason: DropReason) {
        let event = self.event(at, number, "drop", Some(reason.name()));
        self.count(event.flow, |counts| counts.drops.add(reason, 1));
        self.play.events.push(event);
    }

    /// Records the departure of a packet that [`Watch::entered`] announced.
    pub(super) fn delivered(&mut self, at: u64, id: PacketId, packet: &Released) {
        let number = self.numbers.remove(&id).unwrap_or(self.arriving);
        self.departed(at, number, packet.mark);
    }

    pub(super) fn departed(&mut self, at: u64, number: u32, mark: Option<MarkReason>) {
        let event = self.event(at, number, "dequeue", mark.map(MarkReason::name));
        let late = self.last.is_some_and(|last| number < last);
        self.last = Some(number);
        self.count(event.flow, |counts| {
            counts.delivered += 1;
            counts.delivered_bytes += u64::from(event.bytes);
            counts.waited_ns += event.waited_ns;
            counts.out_of_order += u64::from(late);
            if let Some(reason) = mark {
                counts.marks.add(reason, 1);
            }
        });
        self.play.events.push(event);
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
