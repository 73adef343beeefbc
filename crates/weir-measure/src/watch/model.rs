//! The data model of readings: queues, runs of readings, events, counters, and the [`Sink`] that
//! accepts them.

use alloc::format;
use alloc::string::String;
use serde::Serialize;

/// Number of a queue, unique among the queues that a sink receives. A source numbers its queues in
/// the order in which they appear. A queue that vanishes and reappears gets a new number.
pub type QueueId = u32;

/// A traffic control handle, `major:minor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// The parent of a root discipline.
    pub const ROOT: Handle = Handle(u32::MAX);
}

/// Formats like `tc`: hexadecimal, `8001:`, `1:2a`, `root`. The zero handle, which the kernel's
/// default disciplines have, is `none`.
impl core::fmt::Display for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.0 >> 16, self.0 & 0xffff) {
            _ if *self == Handle::ROOT => write!(f, "root"),
            (0, 0) => write!(f, "none"),
            (major, 0) => write!(f, "{major:x}:"),
            (major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

impl schemars::JsonSchema for Handle {
    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "Handle".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

impl Serialize for Handle {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One queue: a queueing discipline of a device, a band of a `pfifo_fast`, or a queue of Weir
/// itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Name of the device.
    pub device: String,
    /// Network namespace of the device in the user's notation; `None` for the caller's own.
    pub netns: Option<String>,
    /// The discipline, such as `tbf` or `htb`; `band` for a band.
    pub kind: String,
    /// The discipline's handle; 0 for a discipline that the kernel creates by default.
    pub handle: Handle,
    /// Handle of the parent class.
    pub parent: Handle,
    /// The band of a `pfifo_fast`; band 0 is served first.
    pub band: Option<u8>,
    /// Whether this is the device's root discipline. The device hands its packets to the root, or,
    /// if the root is an `mq`, to the root's children.
    pub root: bool,
}

impl Queue {
    /// A short name: `eth0 tbf 8001:`, `eth0 pfifo parent 1:2a`, `tap0 band 1`.
    #[must_use]
    pub fn label(&self) -> String {
        let place = self.netns.as_ref().map(|netns| format!("@{netns}")).unwrap_or_default();
        let own = match (self.band, self.handle) {
            (Some(band), _) => format!("band {band}"),
            (None, Handle(0)) if self.root || self.parent == Handle::ROOT => self.kind.clone(),
            (None, Handle(0)) => format!("{} parent {}", self.kind, self.parent),
            (None, handle) => format!("{} {handle}", self.kind),
        };
        format!("{}{place} {own}", self.device)
    }
}

/// Consecutive equal readings of one queue. Times are `CLOCK_MONOTONIC`, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The queue.
    pub queue: QueueId,
    /// Time of the first reading.
    pub first: u64,
    /// Time of the last reading.
    pub last: u64,
    /// Number of readings, at least 1.
    pub count: u32,
    /// Waiting packets.
    pub qlen: u32,
    /// Waiting bytes; 0 for bands, which are not counted in bytes.
    pub backlog: u32,
}

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A packet was enqueued.
    Enqueue,
    /// One or more packets were dequeued together.
    Dequeue,
}

/// One enqueue or dequeue of a discipline to which a device hands its packets: its root, or a child
/// of an `mq` root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The queue.
    pub queue: QueueId,
    /// Time of the event, `CLOCK_MONOTONIC` in ns.
    pub time: u64,
    /// The kind of event.
    pub kind: EventKind,
    /// Packets of the event. The kernel may dequeue several at once.
    pub packets: u32,
    /// Bytes of these packets.
    pub bytes: u32,
    /// Waiting packets after the event.
    pub qlen: u32,
    /// Waiting bytes after the event.
    pub backlog: u32,
    /// The discipline's drop counter after the event.
    pub drops: u32,
    /// Number of the processor on which the event happened.
    pub cpu: u32,
    /// Whether a change before this event was not recorded, so that the length does not follow from
    /// the previous event.
    pub after_gap: bool,
}

/// The kinds of event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEventKind {
    /// The device is about to hand the packet to its discipline.
    Arrive,
    /// The discipline has released the packet.
    Leave,
    /// The device hands the packet to its driver.
    Sent,
    /// The packet is dropped, by the discipline or elsewhere.
    Free,
}

/// An event of one packet of a device, which may be an offload train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Time of the event, `CLOCK_MONOTONIC` in ns.
    pub time: u64,
    /// The kind of event.
    pub kind: PacketEventKind,
    /// A number that identifies the packet until it is freed.
    pub packet: u64,
    /// Hash of addresses, ports and protocol, with a secret key of the source.
    pub flow: u64,
    /// Bytes of all wire packets, with their headers.
    pub bytes: u32,
    /// Number of wire packets.
    pub packets: u32,
    /// Bytes of each wire packet but the last; 0 for a single packet.
    pub segment: u32,
    /// Traffic class.
    pub tos: u8,
}

/// A queue's counters since its creation, as `tc -s` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Counters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets that were requeued because the device was busy.
    pub requeues: u64,
    /// Number of times at which a limit delayed a packet.
    pub overlimits: u64,
}

/// A device's transmission queue under dynamic queue limits (DQL).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transmission {
    /// Name of the device.
    pub device: String,
    /// Network namespace of the device, as in [`Queue`].
    pub netns: Option<String>,
    /// Number of the transmission queue.
    pub queue: u32,
    /// The limit on `inflight` that DQL has set, in bytes.
    pub limit: u64,
    /// Bytes in the queue's ring: the driver has accepted them and not yet reported them as sent.
    pub inflight: u64,
}

/// Receives the readings of a source, in the order of time for each queue.
pub trait Sink {
    /// A queue appeared: it existed at the start, or was created at `time`.
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue);
    /// A queue vanished.
    fn vanished(&mut self, time: u64, id: QueueId);
    /// Delivers readings.
    fn runs(&mut self, runs: &[Run]);
    /// Delivers events.
    fn events(&mut self, events: &[Event]) {
        let _ = events;
    }
    /// Delivers events of single packets, in the order of time.
    fn packets(&mut self, events: &[PacketEvent]) {
        let _ = events;
    }
    /// Reports that this many events have been lost since the beginning.
    fn lost(&mut self, time: u64, events: u64) {
        let _ = (time, events);
    }
    /// Reports that no packet waited in any queue at this time.
    fn empty(&mut self, time: u64) {
        let _ = time;
    }
    /// Delivers a queue's counters at a moment.
    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters);
    /// Delivers the state of transmission queues at a moment.
    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        let _ = (time, queues);
    }
    /// Delivers a remark for the reader of the results.
    fn remark(&mut self, time: u64, text: &str);
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::{Handle, Queue};

    #[test]
    fn handles_are_formatted_like_tc() {
        let text = |number| Handle(number).to_string();
        assert_eq!(
            [text(0x8001_0000), text(0x1_002a), text(u32::MAX), text(0)],
            ["8001:", "1:2a", "root", "none"]
        );
    }

    #[test]
    fn labels_distinguish_the_queues_of_a_device() {
        let queue = |kind: &str, handle, parent, band, root| Queue {
            device: "eth0".into(),
            netns: Some("left".into()),
            kind: kind.into(),
            handle: Handle(handle),
            parent: Handle(parent),
            band,
            root,
        };
        assert_eq!(queue("tbf", 0x8001_0000, u32::MAX, None, true).label(), "eth0@left tbf 8001:");
        assert_eq!(
            queue("bfifo", 0, 0x8001_0001, None, false).label(),
            "eth0@left bfifo parent 8001:1"
        );
        assert_eq!(queue("pfifo_fast", 0, u32::MAX, None, true).label(), "eth0@left pfifo_fast");
        assert_eq!(queue("band", 0, u32::MAX, Some(2), false).label(), "eth0@left band 2");
    }
}
