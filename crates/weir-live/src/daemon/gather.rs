//! Collects the counters of the engines. Each engine's counters are copied between two packets and
//! added up outside the live loop.

use std::collections::BTreeMap;

use weir_control::api::Lengths;
use weir_control::api::{LengthView, LinkSample, QueueCounters};
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
    /// Queueing delay and total delay. `None` where there are many links, since packets wait during
    /// the copy.
    times: Option<Box<(Histogram, Histogram)>>,
}

impl Gathered {
    pub(super) fn of(engine: &Emulator) -> Self {
        let few = engine.schedulers().take(FEW_LINKS + 1).count() <= FEW_LINKS;
        let link = |id| {
            let stats = engine.stats(id)?;
            let times = few.then(|| Box::new((stats.queue_ns.clone(), stats.total_ns.clone())));
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
            links: engine.schedulers().filter_map(link).collect(),
            queues: engine.queues().map(queue).collect(),
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

    /// The views of the API: links and queues by number.
    pub(super) fn views(self) -> (BTreeMap<u16, LinkSample>, BTreeMap<u16, QueueCounters>) {
        (self.links.into_iter().map(|(number, link)| (number, link.view())).collect(), self.queues)
    }
}

impl Link {
    fn add(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.queue = (self.queue.0 + other.queue.0, self.queue.1 + other.queue.1);
        self.instances += other.instances;
        if let (Some(own), Some(others)) = (&mut self.times, &other.times) {
            own.0.merge(&others.0);
            own.1.merge(&others.1);
        }
    }

    fn view(self) -> LinkSample {
        let time = |which: fn(&(Histogram, Histogram)) -> &Histogram| {
            self.times.as_deref().map(|times| Latency::from(which(times))).unwrap_or_default()
        };
        LinkSample {
            counters: self.counters.clone(),
            queue_packets: self.queue.0,
            queue_bytes: self.queue.1,
            instances: self.instances,
            queue_ns: time(|times| &times.0),
            total_ns: time(|times| &times.1),
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
        Some((id, LengthView { packets, bytes, sent, sent_bytes, drops }))
    };
    let queue = |id| {
        let mut sum = LengthView::default();
        for flow in engine.flows_of(id, None, MOST_FLOWS) {
            let (packets, drops) = (flow.totals.queued_packets, flow.totals.reasons.total_drops());
            let sent = flow.totals.packets.saturating_sub(packets + drops);
            sum.merge(&LengthView {
                packets,
                bytes: flow.totals.queued_bytes,
                sent,
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

/// The most links for which latencies are copied: the two histograms of a link have about 30 KB.
const FEW_LINKS: usize = 64;
/// The most flows of a queue that are added up between two packets.
const MOST_FLOWS: usize = 4096;
