//! What is seen: queues, runs of readings, events, counters; and the [`Sink`] that takes them in.

use alloc::format;
use alloc::string::String;
use serde::Serialize;

/// Number of a queue within one recording, in the order of appearance. A queue that comes back has
/// a new one.
pub type QueueId = u32;

/// A traffic control handle, `major:minor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// What a root hangs below.
    pub const ROOT: Handle = Handle(u32::MAX);
}

/// As `tc` writes it: hexadecimal, `8001:`, `1:2a`, `root`; and `none` for the zero that the
/// kernel's default disciplines have.
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

impl Serialize for Handle {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One queue: a queueing discipline of a device, a band of a `pfifo_fast`, or a queue of Weir
/// itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// The device that it belongs to.
    pub device: String,
    /// Where the device is, as it was asked for; `None` in the caller's own namespace.
    pub netns: Option<String>,
    /// The discipline: `tbf`, `htb`; `band` for a band.
    pub kind: String,
    /// Its handle; [`none`](Handle) for those that `tc` does not show.
    pub handle: Handle,
    /// The class that it hangs below.
    pub parent: Handle,
    /// Which of the three bands of a `pfifo_fast`, 0 is served first.
    pub band: Option<u8>,
    /// Whether the device hands its packets to it.
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

/// Readings of one queue that were equal and followed each other. Times are `CLOCK_MONOTONIC`, in
/// ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which queue.
    pub queue: QueueId,
    /// When the first of them was taken.
    pub first: u64,
    /// When the last was.
    pub last: u64,
    /// How many there are, at least 1.
    pub count: u32,
    /// Packets that waited.
    pub qlen: u32,
    /// Bytes that waited; 0 for bands, which are not counted in bytes.
    pub backlog: u32,
}

/// What happened to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A packet was put in.
    Enqueue,
    /// Packets, or none, were taken out.
    Dequeue,
}

/// One packet put into or taken out of a root discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which queue.
    pub queue: QueueId,
    /// When, `CLOCK_MONOTONIC` in ns.
    pub time: u64,
    /// What happened.
    pub kind: EventKind,
    /// Packets that came or went: a driver may take several at once, and 0 when there was none to
    /// take.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u32,
    /// Packets that waited afterwards.
    pub qlen: u32,
    /// Bytes that waited afterwards.
    pub backlog: u32,
    /// The discipline's count of drops then.
    pub drops: u32,
    /// The processor on which it happened.
    pub cpu: u32,
    /// Whether the length does not follow from the event before: something happened in between that
    /// was not recorded.
    pub after_gap: bool,
}

/// A queue's counters since it was made, as `tc -s` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets put back because the device was busy.
    pub requeues: u64,
    /// Times that a limit held something back.
    pub overlimits: u64,
}

/// A device's transmission queue: what dynamic queue limits (DQL) let into its ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transmission {
    /// The device.
    pub device: String,
    /// Where it is, as for a [`Queue`].
    pub netns: Option<String>,
    /// Number of its transmission queue.
    pub queue: u32,
    /// Bytes that may be in the ring.
    pub limit: u64,
    /// Bytes that are.
    pub inflight: u64,
}

/// Takes in what a [`Source`](crate::Source) sees, in the order of time for each queue.
pub trait Sink {
    /// A queue is there now: at the start, or since `time`.
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue);
    /// A queue is there no longer.
    fn vanished(&mut self, time: u64, id: QueueId);
    /// Readings.
    fn runs(&mut self, runs: &[Run]);
    /// Events.
    fn events(&mut self, events: &[Event]) {
        let _ = events;
    }
    /// A queue's counters at a moment.
    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters);
    /// Transmission queues at a moment.
    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        let _ = (time, queues);
    }
    /// Something that the reader of the results must know.
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
