//! The meter: throughput, losses and queues over time, for every port and every group of flows.
//!
//! It looks at counters a few times in each interval and does nothing when packets pass, so its
//! cost depends on simulated time and the number of ports, not on traffic. The greatest queue of an
//! interval is exact, for ports keep their peaks; the least and the mean are of ten looks.

use serde::Serialize;
use weir_core::Nanos;

use crate::network::{FlowCount, Network, PortId};

/// What is measured over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of an interval. Made longer, by a whole factor, where ports, flows and duration would
    /// need too much memory.
    pub interval: Nanos,
    /// How often queues are looked at in each interval.
    pub looks: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Nanos(100_000_000), looks: 10 }
    }
}

impl Settings {
    /// An interval that reads well for a run of this length: a round time with 300 to 750
    /// intervals, 100 ms at most.
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

/// Least, mean and greatest value within an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Envelope {
    /// Least value seen.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// Sum of what was seen.
    pub sum: u64,
    /// How often it was looked at.
    pub looks: u64,
}

impl Envelope {
    /// The mean of what was seen; 0 when it was never looked at.
    pub fn mean(&self) -> f64 {
        if self.looks == 0 { 0.0 } else { self.sum as f64 / self.looks as f64 }
    }

    /// Takes one more value into account.
    pub fn include(&mut self, value: u64) {
        self.min = if self.looks == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum += value;
        self.looks += 1;
    }
}

/// What a port did in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkSample {
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Their network-layer bytes.
    pub bytes_out: u64,
    /// Packets lost.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets that waited; the greatest is exact.
    pub queue_packets: Envelope,
    /// Bytes that waited, as far as they were looked at.
    pub queue_bytes: Envelope,
}

/// What a group of flows did in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowSample {
    /// Packets sent.
    pub sent: u64,
    /// Their network-layer bytes.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Their network-layer bytes.
    pub received_bytes: u64,
    /// Payload bytes that reached the application.
    pub goodput_bytes: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets that arrived marked.
    pub marked: u64,
    /// Sum of the one-way delays of what arrived, ns.
    pub delay_sum_ns: u64,
}

/// What happened over time. Sample `n` of each list is of the time from `n · interval` on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// When the last interval ended; it may be cut short, ns.
    pub end_ns: u64,
    /// Samples of each port.
    pub links: Vec<Vec<LinkSample>>,
    /// Samples of each group of flows.
    pub flows: Vec<Vec<FlowSample>>,
}

impl Series {
    /// How many intervals there are.
    pub fn len(&self) -> usize {
        self.end_ns.div_ceil(self.interval_ns.max(1)) as usize
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of interval `n`, ns.
    pub fn span_ns(&self, n: usize) -> u64 {
        let start = (n as u64).saturating_mul(self.interval_ns);
        self.end_ns.saturating_sub(start).min(self.interval_ns)
    }
}

/// Records a [`Series`].
#[derive(Debug)]
pub(crate) struct Meter {
    start: Nanos,
    interval: Nanos,
    /// Looks in an interval.
    looks: u64,
    /// Looks so far.
    ticks: u64,
    /// Counters at the last reading.
    seen_links: Vec<LinkSample>,
    seen_flows: Vec<FlowSample>,
    /// The interval that is being filled.
    open_links: Vec<LinkSample>,
    open_flows: Vec<FlowSample>,
    links: Vec<Vec<LinkSample>>,
    flows: Vec<Vec<FlowSample>>,
    /// The greatest queue of each port since counting began.
    peaks: Vec<u64>,
}

impl Meter {
    /// A meter for a run from now until `end`.
    pub(crate) fn new(settings: Settings, network: &Network, end: Nanos) -> Self {
        let (ports, groups) = (network.ports() as usize, network.counts().len());
        let looks = u64::from(settings.looks.clamp(1, 1000));
        let asked = settings.interval.0.max(looks);
        let samples = (end.since(network.now()).0 / asked).saturating_mul((ports + groups) as u64);
        let interval = Nanos(asked.saturating_mul(samples.div_ceil(MOST_SAMPLES).max(1)));
        let mut meter = Self {
            start: network.now(),
            interval,
            looks,
            ticks: 0,
            seen_links: Vec::new(),
            seen_flows: Vec::new(),
            open_links: vec![LinkSample::default(); ports],
            open_flows: Vec::new(),
            links: vec![Vec::new(); ports],
            flows: Vec::new(),
            peaks: vec![0; ports],
        };
        meter.see(network);
        meter
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Nanos {
        let (whole, part) = ((self.ticks + 1) / self.looks, (self.ticks + 1) % self.looks);
        let since = whole
            .saturating_mul(self.interval.0)
            .saturating_add(part * (self.interval.0 / self.looks));
        self.start.saturating_add(Nanos(since))
    }

    /// Looks at all queues, and closes the interval when it is over.
    pub(crate) fn tick(&mut self, network: &mut Network) {
        self.look(network);
        self.ticks += 1;
        if self.ticks.is_multiple_of(self.looks) {
            self.read(network);
            self.close();
        }
    }

    /// Intervals that are over.
    fn closed(&self) -> usize {
        (self.ticks / self.looks) as usize
    }

    /// Counting is about to begin anew.
    pub(crate) fn before_zero(&mut self, network: &mut Network) {
        self.read(network);
        self.seen_links.fill(LinkSample::default());
        self.seen_flows.fill(FlowSample::default());
        self.peaks.fill(0);
    }

    /// What was recorded until now, and the greatest queue of each port since counting began.
    pub(crate) fn finish(mut self, network: &mut Network) -> (Series, Vec<u64>) {
        let now = network.now();
        self.read(network);
        let end_ns = now.since(self.start).0;
        if (self.closed() as u64).saturating_mul(self.interval.0) < end_ns {
            self.close();
        } else {
            // What happens at the very end belongs to the last interval.
            for (samples, open) in self.links.iter_mut().zip(&self.open_links) {
                if let Some(last) = samples.last_mut() {
                    last.add(open);
                }
            }
            for (samples, open) in self.flows.iter_mut().zip(&self.open_flows) {
                if let Some(last) = samples.last_mut() {
                    last.add(open);
                }
            }
        }
        (
            Series { interval_ns: self.interval.0, end_ns, links: self.links, flows: self.flows },
            self.peaks,
        )
    }

    /// Looks at the length of all queues.
    fn look(&mut self, network: &mut Network) {
        for (port, open) in self.open_links.iter_mut().enumerate() {
            let (packets, bytes) = network.queue_length(PortId(port as u32));
            open.queue_packets.include(packets);
            open.queue_bytes.include(bytes);
        }
    }

    /// Adds to the open interval what was counted since the last reading.
    fn read(&mut self, network: &mut Network) {
        for port in 0..self.open_links.len() {
            let peak = network.take_peak(PortId(port as u32));
            self.peaks[port] = self.peaks[port].max(peak);
            self.open_links[port].queue_packets.max =
                self.open_links[port].queue_packets.max.max(peak);
        }
        let (seen_links, seen_flows) =
            (std::mem::take(&mut self.seen_links), std::mem::take(&mut self.seen_flows));
        self.see(network);
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

    /// Notes all counters, and makes room for groups that are new.
    fn see(&mut self, network: &Network) {
        self.seen_links =
            (0..network.ports()).map(|port| LinkSample::seen(network, PortId(port))).collect();
        self.seen_flows = network.counts().iter().map(FlowSample::seen).collect();
        let closed = self.flows.first().map_or(self.closed(), Vec::len);
        self.open_flows.resize(self.seen_flows.len(), FlowSample::default());
        self.flows.resize_with(self.seen_flows.len(), || vec![FlowSample::default(); closed]);
    }

    fn close(&mut self) {
        for (samples, open) in self.links.iter_mut().zip(&mut self.open_links) {
            samples.push(std::mem::take(open));
        }
        for (samples, open) in self.flows.iter_mut().zip(&mut self.open_flows) {
            samples.push(std::mem::take(open));
        }
    }
}

impl LinkSample {
    fn seen(network: &Network, port: PortId) -> Self {
        let Some(stats) = network.stats(port) else { return Self::default() };
        let c = &stats.counters;
        let (drops, marks) = (c.total_drops(), c.reasons().total_marks());
        let (packets_in, bytes_in, packets_out, bytes_out) =
            (c.packets_in, c.bytes_in, c.packets_out, c.bytes_out);
        Self { packets_in, bytes_in, packets_out, bytes_out, drops, marks, ..Self::default() }
    }

    /// What was counted since an earlier reading; queues are left out.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            packets_in: self.packets_in.saturating_sub(before.packets_in),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            packets_out: self.packets_out.saturating_sub(before.packets_out),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
            drops: self.drops.saturating_sub(before.drops),
            marks: self.marks.saturating_sub(before.marks),
            ..Self::default()
        }
    }

    /// Adds counts; the peak of the queue too, its looks not.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.drops += other.drops;
        self.marks += other.marks;
        self.queue_packets.max = self.queue_packets.max.max(other.queue_packets.max);
    }
}

impl FlowSample {
    fn seen(count: &FlowCount) -> Self {
        Self {
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

    /// What was counted since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received: self.received.saturating_sub(before.received),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            goodput_bytes: self.goodput_bytes.saturating_sub(before.goodput_bytes),
            lost: self.lost.saturating_sub(before.lost),
            marked: self.marked.saturating_sub(before.marked),
            delay_sum_ns: self.delay_sum_ns.saturating_sub(before.delay_sum_ns),
        }
    }

    /// Adds counts.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.goodput_bytes += other.goodput_bytes;
        self.lost += other.lost;
        self.marked += other.marked;
        self.delay_sum_ns += other.delay_sum_ns;
    }
}

/// Samples of all ports and groups together, before intervals are made longer: some 60 MB.
const MOST_SAMPLES: u64 = 500_000;
