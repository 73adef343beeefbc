//! The entries of a watch's record, and the merging of consecutive equal readings into one entry.

use std::time::Duration;

use serde::Serialize;
use weir_measure::watch::{Counters, Event, EventKind, Queue, QueueId, Run, Transmission};

/// One entry of a record. In JSON, `type` is the kind of entry. Times are `CLOCK_MONOTONIC`, in ns.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Entry<'a> {
    /// The start of the watch.
    Watch { version: &'a str, clock: &'a str },
    /// A new queue.
    Queue {
        id: QueueId,
        time_ns: u64,
        label: String,
        #[serde(flatten)]
        queue: &'a Queue,
    },
    /// A vanished queue.
    Gone { id: QueueId, time_ns: u64 },
    /// Consecutive equal readings.
    Readings(Readings),
    /// An enqueue.
    Enqueue(Change),
    /// A dequeue.
    Dequeue(Change),
    /// Counters since the creation of the queue; written when they change.
    Counters {
        queue: QueueId,
        time_ns: u64,
        #[serde(flatten)]
        counters: Counters,
    },
    /// The state of a transmission queue; written when it changes.
    Transmission {
        time_ns: u64,
        #[serde(flatten)]
        ring: &'a Transmission,
    },
    /// A remark for the reader.
    Remark { time_ns: u64, text: &'a str },
}

/// Consecutive equal readings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Readings {
    pub(super) queue: QueueId,
    /// Time of the first reading.
    pub(super) time_ns: u64,
    /// Time of the last reading.
    pub(super) until_ns: u64,
    pub(super) samples: u64,
    pub(super) qlen: u32,
    pub(super) backlog_bytes: u32,
}

/// An enqueue or dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    pub(super) queue: QueueId,
    pub(super) time_ns: u64,
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// The number of packets in the queue after the event.
    pub(super) qlen: u32,
    /// The bytes in the queue after the event.
    pub(super) backlog_bytes: u32,
    /// The discipline's drop counter after the event.
    pub(super) drops: u32,
    /// The number of the processor on which the event happened.
    pub(super) cpu: u32,
    /// Whether a change before this event was not recorded.
    pub(super) after_gap: bool,
}

impl Entry<'static> {
    pub(super) fn of(event: &Event) -> Self {
        let &Event { queue, time, kind, packets, bytes, qlen, backlog, drops, cpu, after_gap } =
            event;
        let change = Change {
            queue,
            time_ns: time,
            packets,
            bytes,
            qlen,
            backlog_bytes: backlog,
            drops,
            cpu,
            after_gap,
        };
        match kind {
            EventKind::Enqueue => Entry::Enqueue(change),
            EventKind::Dequeue => Entry::Dequeue(change),
        }
    }
}

/// Merges runs of readings that differ only in time. A source ends its runs whenever it delivers
/// readings, even if a queue has not changed.
#[derive(Debug)]
pub(super) struct Merger {
    /// The entries to which further equal readings may be added.
    open: std::collections::BTreeMap<QueueId, Readings>,
    /// The maximum duration of a merged entry. Without a maximum, an unchanged queue would not
    /// appear in the growing file.
    longest_ns: u64,
}

impl Default for Merger {
    fn default() -> Self {
        Self { open: std::collections::BTreeMap::new(), longest_ns: LONGEST_NS }
    }
}

impl Merger {
    /// Sets the maximum duration of an entry.
    pub(super) fn end_after(&mut self, longest: Duration) {
        self.longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Adds a run. Returns the previous entry of the queue if the run ends that entry.
    pub(super) fn push(&mut self, run: &Run) -> Option<Readings> {
        let begun = Readings {
            queue: run.queue,
            time_ns: run.first,
            until_ns: run.last,
            samples: run.count.into(),
            qlen: run.qlen,
            backlog_bytes: run.backlog,
        };
        let Some(open) = self.open.get_mut(&run.queue) else {
            self.open.insert(run.queue, begun);
            return None;
        };
        let same = (open.qlen, open.backlog_bytes) == (run.qlen, run.backlog);
        if same && run.last.saturating_sub(open.time_ns) < self.longest_ns {
            open.until_ns = run.last;
            open.samples += u64::from(run.count);
            return None;
        }
        Some(std::mem::replace(open, begun))
    }

    /// Ends the open entry of a queue and returns it. Called when the queue vanishes, and before an
    /// enqueue or dequeue of the queue is written.
    pub(super) fn end(&mut self, queue: QueueId) -> Option<Readings> {
        self.open.remove(&queue)
    }

    /// Ends and returns all open entries.
    pub(super) fn end_all(&mut self) -> impl Iterator<Item = Readings> + use<> {
        std::mem::take(&mut self.open).into_values()
    }
}

/// The default of [`Merger::longest_ns`].
const LONGEST_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(queue: QueueId, first: u64, count: u32, qlen: u32) -> Run {
        Run { queue, first, last: first + u64::from(count) - 1, count, qlen, backlog: qlen * 100 }
    }

    #[test]
    fn equal_consecutive_readings_become_one_entry_and_none_is_lost() {
        let mut merger = Merger::default();
        let runs = [
            run(0, 0, 10, 3),
            run(1, 5, 1, 3),
            run(0, 20, 5, 3),
            run(0, 30, 1, 4),
            run(1, 40, 2, 3),
            run(0, 50, 7, 3),
        ];
        let mut all: Vec<Readings> = runs.iter().filter_map(|run| merger.push(run)).collect();
        all.extend(merger.end(1));
        all.extend(merger.end_all());
        let seen: Vec<_> =
            all.iter().map(|r| (r.queue, r.time_ns, r.until_ns, r.samples, r.qlen)).collect();
        assert_eq!(
            seen,
            [(0, 0, 24, 15, 3), (0, 30, 30, 1, 4), (1, 5, 41, 3, 3), (0, 50, 56, 7, 3)]
        );
    }

    #[test]
    fn an_unchanged_queue_has_an_entry_each_second() {
        let mut merger = Merger::default();
        let entries: usize =
            (0..40).filter_map(|n| merger.push(&run(0, n * 100_000_000, 1000, 0))).count();
        assert_eq!(entries, 3);
        merger.end_after(Duration::from_millis(200));
        let entries: usize =
            (40..80).filter_map(|n| merger.push(&run(0, n * 100_000_000, 1000, 0))).count();
        assert!((12..=20).contains(&entries), "{entries}");
    }
}
