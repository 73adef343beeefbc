//! A sink that keeps statistics of all readings and events.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::envelope::periods;
use super::model::{Counters, Event, Queue, QueueId, Run, Sink, Transmission};
use super::queue::Measured;
use crate::exact::Exact;

/// A remark for the reader of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Time to which the remark refers, `CLOCK_MONOTONIC` in ns; `None` for the whole watch.
    pub time: Option<u64>,
    /// The text.
    pub text: String,
}

/// A device's transmission queue over the watch.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Name of the device.
    pub device: String,
    /// Network namespace of the device in the user's notation; `None` for the caller's own.
    pub netns: Option<String>,
    /// Number of the transmission queue.
    pub queue: u32,
    /// The limit that dynamic queue limits set, in bytes, at each reading.
    pub limit: Exact,
    /// Bytes in the ring, at each reading.
    pub inflight: Exact,
    /// The limit at the last reading.
    pub last_limit: u64,
}

/// Statistics of all readings and events.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    queues: Vec<Measured>,
    /// The index into `queues` for the number of each queue. Of vanished queues, only the last
    /// [`MOST_QUEUES`] are kept.
    indices: BTreeMap<QueueId, usize>,
    /// The vanished queues that still have an index, the oldest first.
    vanished: VecDeque<QueueId>,
    rings: Vec<Ring>,
    remarks: Vec<Remark>,
    more_remarks: u64,
    unmeasured: u64,
    /// The times of the first and the last reading or event.
    span: Option<(u64, u64)>,
}

impl Tally {
    /// An empty tally.
    #[must_use]
    pub fn new() -> Tally {
        Tally::default()
    }

    /// The queues in the order of their appearance, including vanished ones.
    #[must_use]
    pub fn queues(&self) -> &[Measured] {
        &self.queues
    }

    /// The transmission queues of all devices that have any.
    #[must_use]
    pub fn rings(&self) -> &[Ring] {
        &self.rings
    }

    /// The first thousand remarks.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Number of remarks that were discarded because a thousand remarks were already stored.
    #[must_use]
    pub fn more_remarks(&self) -> u64 {
        self.more_remarks
    }

    /// Number of queues that were not measured because 1024 queues already had statistics.
    #[must_use]
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured
    }

    /// Times of the first and the last reading or event, `CLOCK_MONOTONIC` in ns.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Adds a remark on the whole watch.
    pub fn note(&mut self, text: &str) {
        self.keep_remark(None, text);
    }

    /// Ends the watch: a length known from events is counted until the last observed moment.
    pub fn finish(&mut self) {
        let Some((_, last)) = self.span else { return };
        self.queues
            .iter_mut()
            .filter(|queue| queue.until.is_none())
            .for_each(|queue| queue.hold_until(last));
    }

    fn keep_remark(&mut self, time: Option<u64>, text: &str) {
        if self.remarks.len() < MOST_REMARKS {
            self.remarks.push(Remark { time, text: text.to_owned() });
        } else {
            self.more_remarks += 1;
        }
    }

    /// Extends the span of the watch to `time`, at its start or at its end.
    fn saw(&mut self, time: u64) {
        let (first, last) = self.span.get_or_insert((time, time));
        (*first, *last) = ((*first).min(time), (*last).max(time));
    }

    /// The measurements of a queue; `None` if the queue has no statistics.
    fn measured(&mut self, id: QueueId) -> Option<&mut Measured> {
        self.indices.get(&id).map(|&index| &mut self.queues[index])
    }

    /// The index of the latest vanished queue at the place of `queue`.
    fn predecessor(&self, queue: &Queue) -> Option<usize> {
        let same = |kept: &Measured| {
            let old = &kept.queue;
            kept.until.is_some()
                && (&old.device, &old.netns, old.root, old.band)
                    == (&queue.device, &queue.netns, queue.root, queue.band)
                && (queue.root || old.parent == queue.parent)
        };
        self.queues.iter().rposition(same)
    }

    /// Notes that a queue has vanished. If too many vanished queues have an index, forgets the
    /// oldest index.
    fn forget_vanished(&mut self, id: QueueId) {
        self.vanished.push_back(id);
        if self.vanished.len() > MOST_QUEUES
            && let Some(oldest) = self.vanished.pop_front()
        {
            self.indices.remove(&oldest);
        }
    }
}

impl Sink for Tally {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        self.saw(time);
        if self.queues.len() >= MOST_QUEUES {
            let Some(index) = self.predecessor(queue) else {
                if self.unmeasured == 0 {
                    self.keep_remark(
                        Some(time),
                        &format!("more than {MOST_QUEUES} queues: the others have no statistics"),
                    );
                }
                self.unmeasured += 1;
                return;
            };
            self.queues[index].succeed(queue);
            self.indices.insert(id, index);
            return;
        }
        self.indices.insert(id, self.queues.len());
        let origin = self.span.map_or(time, |(first, _)| first);
        let capacity = |queues: usize| (ALL_PERIODS / queues.next_power_of_two()).min(MOST_PERIODS);
        let (before, now) = (capacity(self.queues.len().max(1)), capacity(self.queues.len() + 1));
        if now < before {
            self.queues.iter_mut().for_each(|queue| queue.periods.limit(now));
        }
        self.queues.push(Measured::new(id, queue.clone(), time, periods(origin, now)));
    }

    fn vanished(&mut self, time: u64, id: QueueId) {
        self.saw(time);
        if let Some(queue) = self.measured(id) {
            queue.vanish(time);
        }
        self.forget_vanished(id);
    }

    fn runs(&mut self, runs: &[Run]) {
        for run in runs.iter().filter(|run| run.count > 0) {
            self.saw(run.last);
            if let Some(queue) = self.measured(run.queue) {
                queue.run(run);
            }
        }
    }

    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.saw(event.time);
            if let Some(queue) = self.measured(event.queue) {
                queue.event(event);
            }
        }
    }

    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters) {
        self.saw(time);
        if let Some(queue) = self.measured(id) {
            queue.count(time, counters);
        }
    }

    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        self.saw(time);
        for seen in queues {
            let same = |ring: &Ring| {
                (&ring.device, &ring.netns, ring.queue) == (&seen.device, &seen.netns, seen.queue)
            };
            let index = self.rings.iter().position(same).unwrap_or(self.rings.len());
            if index == MOST_QUEUES {
                continue;
            }
            if index == self.rings.len() {
                let (device, netns, queue) = (seen.device.clone(), seen.netns.clone(), seen.queue);
                self.rings.push(Ring {
                    device,
                    netns,
                    queue,
                    limit: Exact::default(),
                    inflight: Exact::default(),
                    last_limit: 0,
                });
            }
            let ring = &mut self.rings[index];
            ring.limit.record(seen.limit, 1);
            ring.inflight.record(seen.inflight, 1);
            ring.last_limit = seen.limit;
        }
    }

    fn remark(&mut self, time: u64, text: &str) {
        self.saw(time);
        self.keep_remark(Some(time), text);
    }
}

/// Maximum number of queues with statistics, including vanished ones, and of transmission queues.
const MOST_QUEUES: usize = 1024;
const MOST_REMARKS: usize = 1000;
/// Maximum number of periods of a queue: more than a screen shows, so that a report allows zooming.
const MOST_PERIODS: usize = 1 << 16;
/// Maximum number of periods of all queues together, 72 bytes each.
const ALL_PERIODS: usize = 1 << 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::pace::{Method, Pace};
    use crate::watch::summary::Summary;
    use crate::watch::tests::queue;

    fn run(queue: QueueId, first: u64, last: u64, count: u32, qlen: u32) -> Run {
        Run { queue, first, last, count, qlen, backlog: qlen * 1514 }
    }

    #[test]
    fn a_discipline_that_is_replaced_without_end_takes_bounded_memory() {
        let mut tally = Tally::new();
        for id in 0..5000 {
            let time = u64::from(id) * 10_000_000;
            tally.appeared(time, id, &queue("eth0", "tbf", 0x8001_0000 + (id << 16), true));
            tally.counters(time, id, &Counters::default());
            tally.runs(&[run(id, time, time + 5_000_000, 100, id % 7)]);
            tally.counters(time + 1, id, &Counters { drops: 1, ..Counters::default() });
            tally.vanished(time + 9_000_000, id);
            tally.remark(time, "replaced");
        }
        assert_eq!(
            (tally.queues().len(), tally.remarks().len(), tally.more_remarks()),
            (MOST_QUEUES, MOST_REMARKS, 4000)
        );
        assert!(tally.indices.len() <= MOST_QUEUES + 1);
        assert!(
            tally.queues().iter().map(|queue| queue.periods().as_slice().len()).sum::<usize>()
                <= ALL_PERIODS
        );
        let summary = Summary::of(&tally, Method::Loop, 50.0, &Pace::default());
        assert_eq!(
            summary.devices[0].samples, 500_000,
            "every reading belongs to one of the queues"
        );
        assert_eq!(
            summary.devices[0].qdiscs.iter().filter_map(|queue| queue.drops).sum::<u64>(),
            5000
        );
        assert_eq!(
            summary.devices[0].qdiscs.iter().map(|queue| queue.instances).sum::<u64>(),
            5000
        );
    }
}
