//! The meter: throughput, losses and queues over time, for every port and every group of flows.
//!
//! The meter samples the queues a few times per interval and reads the counters at the end of the
//! interval. It does nothing when packets pass, so its cost depends on simulated time and the
//! number of ports and groups, not on traffic. The longest queue of an interval in packets is
//! exact, because ports record their peaks. The shortest, the mean, and all lengths in bytes come
//! from the samples.

use weir_core::Nanos;
use weir_measure::scenario::RunSeries;
use weir_measure::series::{FlowPeriod, LinkPeriod};

use crate::network::{FlowCount, Network, PortId};

/// The settings of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of an interval. The meter multiplies it by a whole number if ports, flows and
    /// duration would need too much memory.
    pub interval: Nanos,
    /// Number of queue samples in each interval.
    pub samples: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Nanos(100_000_000), samples: 10 }
    }
}

impl Settings {
    /// Settings for a run of this length. The interval is a round time that gives 300 to 750
    /// intervals.
    pub fn for_duration(duration: Nanos) -> Self {
        let wanted = (duration.0 / 750).max(1);
        let power = 10u64.pow(wanted.ilog10());
        let round = [1, 2, 5, 10]
            .into_iter()
            .map(|n| n * power)
            .find(|&round| round >= wanted)
            .unwrap_or(wanted);
        Self { interval: Nanos(round), ..Self::default() }
    }
}

/// Records a [`RunSeries`].
#[derive(Debug)]
pub(crate) struct Meter {
    start: Nanos,
    interval: Nanos,
    /// Samples per interval.
    samples: u64,
    /// Number of samples until now.
    ticks: u64,
    /// Counters at the last reading.
    seen_links: Vec<LinkPeriod>,
    seen_flows: Vec<FlowPeriod>,
    /// Counters of the present interval.
    open_links: Vec<LinkPeriod>,
    open_flows: Vec<FlowPeriod>,
    /// The closed intervals of each port.
    links: Vec<Vec<LinkPeriod>>,
    /// The closed intervals of each group of flows.
    flows: Vec<Vec<FlowPeriod>>,
    /// The longest queue of each port since the last reset.
    peaks: Vec<u64>,
}

impl Meter {
    /// A meter for a run from now until `end`.
    pub(crate) fn new(settings: Settings, network: &Network, end: Nanos) -> Self {
        let (ports, groups) = (network.ports() as usize, network.counts().len());
        let samples = u64::from(settings.samples.clamp(1, 1000));
        let asked = settings.interval.0.max(samples);
        let intervals =
            (end.since(network.now()).0 / asked).saturating_mul((ports + groups) as u64);
        let interval = Nanos(asked.saturating_mul(intervals.div_ceil(MAX_INTERVALS).max(1)));
        let mut meter = Self {
            start: network.now(),
            interval,
            samples,
            ticks: 0,
            seen_links: Vec::new(),
            seen_flows: Vec::new(),
            open_links: vec![LinkPeriod::default(); ports],
            open_flows: Vec::new(),
            links: vec![Vec::new(); ports],
            flows: Vec::new(),
            peaks: vec![0; ports],
        };
        meter.store_counters(network);
        meter
    }

    /// Time of the next sample.
    pub(crate) fn next(&self) -> Nanos {
        let (whole, part) = ((self.ticks + 1) / self.samples, (self.ticks + 1) % self.samples);
        let since = whole
            .saturating_mul(self.interval.0)
            .saturating_add(part * (self.interval.0 / self.samples));
        self.start.saturating_add(Nanos(since))
    }

    /// Samples all queues, and closes the interval if it is over.
    pub(crate) fn tick(&mut self, network: &mut Network) {
        self.sample(network);
        self.ticks += 1;
        if self.ticks.is_multiple_of(self.samples) {
            self.read(network);
            self.close();
        }
    }

    fn closed(&self) -> usize {
        (self.ticks / self.samples) as usize
    }

    /// Prepares for a reset of the counters.
    pub(crate) fn before_zero(&mut self, network: &mut Network) {
        self.read(network);
        self.seen_links.fill(LinkPeriod::default());
        self.seen_flows.fill(FlowPeriod::default());
        self.peaks.fill(0);
    }

    /// Returns the series, and the longest queue of each port since the last reset.
    pub(crate) fn finish(mut self, network: &mut Network) -> (RunSeries, Vec<u64>) {
        let now = network.now();
        self.read(network);
        let end_ns = now.since(self.start).0;
        if (self.closed() as u64).saturating_mul(self.interval.0) < end_ns {
            self.close();
        } else {
            // Events at the very end belong to the last interval.
            for (intervals, open) in self.links.iter_mut().zip(&self.open_links) {
                if let Some(last) = intervals.last_mut() {
                    last.add(open);
                }
            }
            for (intervals, open) in self.flows.iter_mut().zip(&self.open_flows) {
                if let Some(last) = intervals.last_mut() {
                    last.add(open);
                }
            }
        }
        (
            RunSeries {
                interval_ns: self.interval.0,
                end_ns,
                links: self.links,
                flows: self.flows,
            },
            self.peaks,
        )
    }

    /// Samples the length of all queues.
    fn sample(&mut self, network: &mut Network) {
        for (port, open) in self.open_links.iter_mut().enumerate() {
            let (packets, bytes) = network.queue_length(PortId(port as u32));
            open.queue_packets.include(packets, 1);
            open.queue_bytes.include(bytes, 1);
        }
    }

    /// Adds the counts since the last reading to the present interval.
    fn read(&mut self, network: &mut Network) {
        for port in 0..self.open_links.len() {
            let peak = network.take_peak(PortId(port as u32));
            self.peaks[port] = self.peaks[port].max(peak);
            self.open_links[port].queue_packets.peak(peak);
        }
        let (seen_links, seen_flows) =
            (std::mem::take(&mut self.seen_links), std::mem::take(&mut self.seen_flows));
        self.store_counters(network);
        for ((open, now), before) in
            self.open_links.iter_mut().zip(&self.seen_links).zip(&seen_links)
        {
            open.add(&now.since(before));
        }
        for (group, (open, now)) in self.open_flows.iter_mut().zip(&self.seen_flows).enumerate() {
            let before = seen_flows.get(group).copied().unwrap_or_default();
            open.add(&now.since(&before));
        }
    }

    /// Stores all counters, and makes room for new groups.
    fn store_counters(&mut self, network: &Network) {
        self.seen_links =
            (0..network.ports()).map(|port| seen_link(network, PortId(port))).collect();
        self.seen_flows = network.counts().iter().map(seen_flow).collect();
        let closed = self.flows.first().map_or(self.closed(), Vec::len);
        self.open_flows.resize(self.seen_flows.len(), FlowPeriod::default());
        self.flows.resize_with(self.seen_flows.len(), || vec![FlowPeriod::default(); closed]);
    }

    fn close(&mut self) {
        for (intervals, open) in self.links.iter_mut().zip(&mut self.open_links) {
            intervals.push(std::mem::take(open));
        }
        for (intervals, open) in self.flows.iter_mut().zip(&mut self.open_flows) {
            intervals.push(std::mem::take(open));
        }
    }
}

fn seen_link(network: &Network, port: PortId) -> LinkPeriod {
    network.stats(port).map(|stats| LinkPeriod::totals(&stats.counters)).unwrap_or_default()
}

fn seen_flow(count: &FlowCount) -> FlowPeriod {
    FlowPeriod {
        sent: count.sent,
        sent_bytes: count.sent_bytes,
        received: count.received,
        received_bytes: count.received_bytes,
        goodput_bytes: count.goodput_bytes,
        lost: count.reasons.total_drops(),
        marked: count.marked,
        delay_sum_ns: u64::try_from(count.delay_ns.sum()).unwrap_or(u64::MAX),
    }
}

/// Maximum number of intervals, summed over all ports and groups. They take about 60 MB. A run that
/// would exceed this maximum gets longer intervals.
const MAX_INTERVALS: u64 = 500_000;
