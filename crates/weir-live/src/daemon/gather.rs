//! Collects the counters of the engines. Each worker copies the counters of its engine between two
//! turns of its loop. The counters of all engines are added up outside the loop.

use std::collections::{BTreeMap, BTreeSet};

use weir_control::api::{LengthView, Lengths, LinkSample, QueueCounters, Snapshot, Times};
use weir_core::histogram::Histogram;
use weir_core::stats::LinkCounters;
use weir_core::{Emulator, Nanos};
use weir_measure::latency::Latency;

/// The counters of one engine, or of several.
#[derive(Default)]
pub(super) struct Gathered {
    links: BTreeMap<u16, Link>,
    queues: BTreeMap<u16, QueueCounters>,
}

/// The counters of a pipe or scheduler.
struct Link {
    counters: LinkCounters,
    /// Packets in the queues of the pipe or scheduler, and their bytes.
    queue: (u64, u64),
    instances: u64,
    /// Queueing delay and total delay. `None` with more than [`FEW_LINKS`] links, because packets
    /// wait while histograms are copied.
    times: Option<Box<Times>>,
}

/// The links and queues of which a worker copies the counters between two turns of its loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Portion {
    links: Vec<u16>,
    queues: Vec<u16>,
    /// Whether the times of the links are copied too.
    with_times: bool,
}

pub(super) fn portions(links: &BTreeSet<u16>, queues: &BTreeSet<u16>) -> Vec<Portion> {
    let [links, queues] = [links, queues].map(|all| all.iter().copied().collect::<Vec<_>>());
    let with_times = links.len() <= FEW_LINKS;
    let at_once = if with_times { LINKS_WITH_TIMES } else { LINKS };
    let of_links = links.chunks(at_once).map(|part| Portion {
        links: part.to_vec(),
        with_times,
        ..Portion::default()
    });
    let of_queues =
        queues.chunks(QUEUES).map(|part| Portion { queues: part.to_vec(), ..Portion::default() });
    of_links.chain(of_queues).collect()
}

impl Gathered {
    pub(super) fn of(engine: &Emulator, portion: &Portion) -> Self {
        let link = |id| {
            let stats = engine.stats(id)?;
            let times = portion.with_times.then(|| {
                Box::new(Times {
                    queue_ns: stats.queue_ns.clone(),
                    total_ns: stats.total_ns.clone(),
                })
            });
            let (queue, instances) = (engine.queue_length(id), engine.instance_count(id) as u64);
            Some((id, Link { counters: stats.counters.clone(), queue, instances, times }))
        };
        let queue = |id| {
            let mut sum = QueueCounters {
                instances: engine.flow_count(id) as u64,
                ..QueueCounters::default()
            };
            for flow in engine.flows_of(id, None, MOST_FLOWS) {
                sum.packets_in += flow.totals.packets;
                sum.bytes_in += flow.totals.bytes;
                sum.reasons.merge(&flow.totals.reasons);
                sum.queue_packets += flow.totals.queued_packets;
                sum.queue_bytes += flow.totals.queued_bytes;
            }
            (id, sum)
        };
        Self {
            links: portion.links.iter().copied().filter_map(link).collect(),
            queues: portion.queues.iter().copied().map(queue).collect(),
        }
    }

    /// Adds the counters of further engines.
    pub(super) fn merge(mut self, other: Self) -> Self {
        for (number, part) in other.links {
            match self.links.get_mut(&number) {
                Some(link) => link.add(&part),
                None => drop(self.links.insert(number, part)),
            }
        }
        for (number, part) in other.queues {
            self.queues.entry(number).or_default().merge(&part);
        }
        self
    }

    pub(super) fn enter(self, snapshot: &mut Snapshot) {
        for (number, link) in self.links {
            snapshot.links.insert(number, link.view());
            if let Some(times) = link.times {
                snapshot.link_times.insert(number, *times);
            }
        }
        snapshot.queues.extend(self.queues);
    }
}

impl Link {
    fn add(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.queue = (self.queue.0 + other.queue.0, self.queue.1 + other.queue.1);
        self.instances += other.instances;
        if let (Some(own), Some(others)) = (&mut self.times, &other.times) {
            own.queue_ns.merge(&others.queue_ns);
            own.total_ns.merge(&others.total_ns);
        }
    }

    fn view(&self) -> LinkSample {
        let time = |which: fn(&Times) -> &Histogram| {
            self.times.as_deref().map(|times| Latency::from(which(times))).unwrap_or_default()
        };
        LinkSample {
            counters: self.counters.clone(),
            queue_packets: self.queue.0,
            queue_bytes: self.queue.1,
            instances: self.instances,
            queue_ns: time(|times| &times.queue_ns),
            total_ns: time(|times| &times.total_ns),
        }
    }
}

/// The current queue lengths of one engine. This copies a few numbers for each pipe, scheduler and
/// queue, and no histogram.
pub(super) fn lengths(engine: &Emulator, now: Nanos) -> Lengths {
    let link = |id| {
        let ((packets, bytes), counters) = (engine.queue_length(id), &engine.stats(id)?.counters);
        let (sent, sent_bytes, drops) =
            (counters.packets_out, counters.bytes_out, counters.total_drops());
        let (received, received_bytes) = (counters.packets_in, counters.bytes_in);
        Some((id, LengthView { packets, bytes, received, received_bytes, sent, sent_bytes, drops }))
    };
    let queue = |id| {
        let mut sum = LengthView::default();
        for flow in engine.flows_of(id, None, MOST_FLOWS) {
            let (packets, drops) = (flow.totals.queued_packets, flow.totals.reasons.total_drops());
            let sent = flow.totals.packets.saturating_sub(packets + drops);
            sum.merge(&LengthView {
                packets,
                bytes: flow.totals.queued_bytes,
                received: flow.totals.packets,
                received_bytes: flow.totals.bytes,
                sent,
                // The engine does not count the bytes that depart from a queue.
                sent_bytes: 0,
                drops,
            });
        }
        (id, sum)
    };
    Lengths {
        at_ns: now.0,
        links: engine.schedulers().filter_map(link).collect(),
        queues: engine.queues().map(queue).collect(),
    }
}

/// Adds the queue lengths of two sets of engines.
pub(super) fn merge_lengths(mut one: Lengths, other: Lengths) -> Lengths {
    for (sums, parts) in [(&mut one.links, other.links), (&mut one.queues, other.queues)] {
        for (number, part) in parts {
            sums.entry(number).or_default().merge(&part);
        }
    }
    one
}

/// The largest number of links at which histograms of delays are copied. The two histograms of a
/// link take about 30 KB.
const FEW_LINKS: usize = 64;
/// Number of links for which a worker copies counters and times between two turns of its loop.
const LINKS_WITH_TIMES: usize = 8;
/// Number of links for which a worker copies the counters between two turns of its loop. This takes
/// some 20 us.
const LINKS: usize = 64;
/// Number of queues for which a worker adds up the flows between two turns of its loop.
const QUEUES: usize = 16;
/// Maximum number of flows of a queue that are added up, because packets wait meanwhile.
const MOST_FLOWS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_links_are_copied_in_many_turns() {
        for count in [0u16, 1, 64, 65, 10_000] {
            let all: BTreeSet<u16> = (0..count).collect();
            let portions = portions(&all, &all);
            let most = if usize::from(count) <= FEW_LINKS { LINKS_WITH_TIMES } else { LINKS };
            assert!(portions.iter().all(|one| one.links.len() <= most));
            assert!(portions.iter().all(|one| one.queues.len() <= QUEUES));
            // A worker copies at most 100 links or queues between two turns.
            let turns = |of: fn(&Portion) -> &Vec<u16>| {
                portions.iter().filter(|one| !of(one).is_empty()).count()
            };
            assert!(turns(|one| &one.links) >= usize::from(count).div_ceil(100));
            assert!(turns(|one| &one.queues) >= usize::from(count).div_ceil(100));
            let links: Vec<u16> = portions.iter().flat_map(|one| one.links.clone()).collect();
            let queues: Vec<u16> = portions.iter().flat_map(|one| one.queues.clone()).collect();
            assert!(links.iter().eq(&all) && queues.iter().eq(&all));
        }
    }
}
