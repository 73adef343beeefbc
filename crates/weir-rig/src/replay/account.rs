//! The metrics of a row. The first pass over a recording computes the kernel's own row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_measure::document::Number;
use weir_measure::exact::Exact;
use weir_measure::histogram::Histogram;
use weir_measure::latency::Latency;
use weir_measure::packets::{Entry, Fate, Head, Packet};
use weir_measure::stats::DropCounts;

use super::curve::Curve;
use super::file::{MAX_FLOWS, MAX_INSIDE, Recording, RecordingError};
use super::results::{Content, Fairness, QueueLength, Row};

/// The results of the first pass over a recording.
pub(super) struct Survey {
    pub(super) head: Head,
    pub(super) content: Content,
    pub(super) flows: Flows,
    /// The largest packet in bytes.
    pub(super) longest: u32,
    /// The metrics of the kernel's own queue.
    kernel: Account,
}

impl Survey {
    /// The kernel's row.
    pub(super) fn row(&self) -> Row {
        let kind = &self.head.discipline;
        let inner = kind.inner.as_ref().map(|inner| format!(" + {inner}")).unwrap_or_default();
        let mut row = self.kernel.row(format!("kernel: {}{inner}", kind.kind), &self.flows);
        row.unknown = self.content.unknown;
        row.left -= row.unknown;
        row
    }
}

/// The flows of a recording, numbered in the order in which they appear.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The number of each flow, by the hash in the recording.
    numbers: BTreeMap<u32, u32>,
    /// Bytes that each flow sent.
    offered: Vec<u64>,
}

impl Flows {
    pub(super) fn len(&self) -> usize {
        self.offered.len()
    }

    /// The number of the flow with this hash; 0 for a hash that is in no packet.
    pub(super) fn number(&self, hash: u32) -> u32 {
        self.numbers.get(&hash).copied().unwrap_or(0)
    }

    fn add(&mut self, packet: &Packet) -> Result<(), RecordingError> {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(packet.flow).or_insert(next);
        if number == next {
            if self.offered.len() == MAX_FLOWS {
                return Err(RecordingError::Flows);
            }
            self.offered.push(0);
        }
        self.offered[number as usize] += u64::from(packet.bytes);
        Ok(())
    }
}

/// Reads the whole recording, checks it, and computes the kernel's row.
pub(super) fn survey(recording: &Recording) -> Result<Survey, RecordingError> {
    let mut pass = recording.pass()?;
    let mut survey = Survey {
        head: pass.head.clone(),
        content: Content::default(),
        flows: Flows::default(),
        longest: 0,
        kernel: Account::default(),
    };
    let mut inside = Inside::default();
    while let Some(entry) = pass.next()? {
        let content = &mut survey.content;
        match entry {
            Entry::Packet(packet) => {
                content.packets += 1;
                content.bytes += u64::from(packet.bytes);
                content.bypassed += u64::from(packet.fate == Fate::Bypassed);
                content.unknown += u64::from(packet.fate == Fate::Unknown);
                survey.longest = survey.longest.max(packet.bytes);
                survey.flows.add(&packet)?;
                inside.until(packet.time, &survey.flows, &mut survey.kernel);
                inside.arrive(&packet, &mut survey.kernel)?;
            }
            Entry::Lost { events, .. } => {
                content.lost_events = content.lost_events.saturating_add(events);
            }
            Entry::Changed(_) => content.changes += 1,
            Entry::End(end) => {
                content.duration_ns = end.time;
                content.strays = end.strays.into();
                content.kernel_drops = end.kernel_drops.into();
            }
        }
    }
    if survey.content.packets == 0 {
        return Err(RecordingError::Empty(recording.path()));
    }
    survey.content.flows = survey.flows.len() as u64;
    inside.until(u64::MAX, &survey.flows, &mut survey.kernel);
    Ok(survey)
}

/// The packets in the kernel's queue, by the time at which they depart or are dropped.
#[derive(Default)]
struct Inside {
    /// Each packet with the time at which it leaves, and its number in the order of arrivals.
    heap: BinaryHeap<Reverse<(u64, u64, Leaving)>>,
    /// Number of arrivals so far.
    count: u64,
}

/// The flow's hash, bytes, arrival time, whether the packet is dropped, and whether it departs with
/// a new mark.
type Leaving = (u32, u32, u64, bool, bool);

impl Inside {
    fn arrive(&mut self, packet: &Packet, account: &mut Account) -> Result<(), RecordingError> {
        self.count += 1;
        match packet.wait {
            // The time that the packet was inside is unknown, so the packet does not count as
            // queued.
            None if packet.fate == Fate::Unknown => account.arrived += 1,
            None => account.arrive(packet.time),
            Some(wait) if packet.fate == Fate::Dropped && wait <= ON_ARRIVAL => {
                account.refuse(packet.time);
            }
            Some(wait) => {
                account.arrive(packet.time);
                if self.heap.len() == MAX_INSIDE {
                    return Err(RecordingError::Inside);
                }
                let is_dropped = packet.fate == Fate::Dropped;
                let leaving = (packet.flow, packet.bytes, packet.time, is_dropped, packet.marked);
                self.heap.push(Reverse((packet.time + wait, self.count, leaving)));
            }
        }
        Ok(())
    }

    /// Performs the departures and drops up to a time, inclusive.
    fn until(&mut self, time: u64, flows: &Flows, account: &mut Account) {
        while let Some(&Reverse((at, _, leaving))) = self.heap.peek() {
            if at > time {
                break;
            }
            self.heap.pop();
            let (flow, bytes, arrived, is_dropped, marked) = leaving;
            if is_dropped {
                account.drop(at);
            } else {
                account.depart(at, at - arrived, (flows.number(flow), bytes), marked);
            }
        }
    }
}

/// Collects the metrics of a row.
#[derive(Debug, Default)]
pub(super) struct Account {
    arrived: u64,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
    marked: u64,
    delays: Histogram,
    lengths: Exact,
    /// The present length of the queue, and the time of its last change.
    queued: u64,
    since: u64,
    /// The times of the first arrival and of the last departure, ns.
    first: Option<u64>,
    last: u64,
    /// Departed bytes, packets and sum of delays of each flow.
    flows: Vec<(u64, u64, u128)>,
    curve: Curve,
}

impl Account {
    /// Counts a packet that arrives at the queue.
    pub(super) fn arrive(&mut self, at: u64) {
        self.arrived += 1;
        self.first.get_or_insert(at);
        self.change(at, self.queued + 1);
    }

    /// Counts the departure of a packet of this flow with this many bytes.
    pub(super) fn depart(&mut self, at: u64, delay: u64, (flow, bytes): (u32, u32), marked: bool) {
        self.change(at, self.queued - 1);
        self.delivered += 1;
        self.delivered_bytes += u64::from(bytes);
        self.marked += u64::from(marked);
        self.delays.record(delay);
        self.curve.delay(at, delay);
        self.last = self.last.max(at);
        let index = flow as usize;
        if self.flows.len() <= index {
            self.flows.resize(index + 1, (0, 0, 0));
        }
        let flow = &mut self.flows[index];
        *flow = (flow.0 + u64::from(bytes), flow.1 + 1, flow.2 + u128::from(delay));
    }

    /// Counts the drop of a queued packet.
    pub(super) fn drop(&mut self, at: u64) {
        self.change(at, self.queued - 1);
        self.dropped += 1;
    }

    /// Counts a packet that arrives and is dropped without having been queued.
    fn refuse(&mut self, at: u64) {
        self.arrived += 1;
        self.first.get_or_insert(at);
        self.dropped += 1;
    }

    /// Changes the length of the queue. A length that lasts no time does not count, such as the
    /// length before a drop on arrival.
    fn change(&mut self, at: u64, queued: u64) {
        if at > self.since {
            self.lengths.record(self.queued, at - self.since);
            self.curve.length(self.since, at, self.queued);
        }
        (self.queued, self.since) = (queued, at);
    }

    /// The row of a discipline of this name.
    pub(super) fn row(&self, name: String, flows: &Flows) -> Row {
        let span = self.last.saturating_sub(self.first.unwrap_or(0)).max(1);
        Row {
            name,
            delivered: self.delivered,
            delivered_bytes: self.delivered_bytes,
            dropped: self.dropped,
            drops: None::<DropCounts>,
            marked: self.marked,
            left: self.arrived - self.delivered - self.dropped,
            unknown: 0,
            delay_ns: Latency::from(&self.delays),
            throughput_bps: Number::new(self.delivered_bytes as f64 * 8e9 / span as f64),
            queue_packets: QueueLength {
                mean: Number::new(self.lengths.mean()),
                p99: self.lengths.quantile(0.99),
                max: self.lengths.max(),
            },
            fairness: self.fairness(&flows.offered),
            curve: self.curve.clone(),
        }
    }

    fn fairness(&self, offered: &[u64]) -> Fairness {
        let level = level(offered, self.delivered_bytes);
        let got = |flow: usize| self.flows.get(flow).map_or(0, |flow| flow.0) as f64;
        let shares: Vec<f64> = (0..offered.len())
            .map(|flow| (got(flow), level.min(offered[flow] as f64)))
            .filter(|(_, fair)| *fair > 0.0)
            .map(|(got, fair)| got / fair)
            .collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let index = if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 };
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let mut delays: Vec<u64> = self
            .flows
            .iter()
            .filter(|flow| flow.1 > 0)
            .map(|flow| u64::try_from(flow.2 / u128::from(flow.1)).unwrap_or(u64::MAX))
            .collect();
        delays.sort_unstable();
        Fairness {
            index: Number::new(index),
            least_share: Number::new(if least.is_finite() { least } else { 1.0 }),
            flow_delay_p50_ns: delays.get(delays.len().saturating_sub(1) / 2).copied().unwrap_or(0),
        }
    }
}

/// The level of a max-min fair division of `total` bytes among flows that need `offered` bytes: no
/// flow gets more bytes than this.
fn level(offered: &[u64], total: u64) -> f64 {
    let mut needs = offered.to_vec();
    needs.sort_unstable();
    let mut remaining = total as f64;
    for (index, &need) in needs.iter().enumerate() {
        let each = remaining / (needs.len() - index) as f64;
        if need as f64 >= each {
            return each;
        }
        remaining -= need as f64;
    }
    needs.last().map_or(0.0, |&need| need as f64)
}

/// A packet that the kernel drops no later than this after its arrival, in ns, is taken as dropped
/// on arrival: it does not count as queued.
const ON_ARRIVAL: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fair_level_gives_no_flow_more_than_it_needs() {
        // Of 100 bytes the small flow gets its 10, and the two large ones 45 each.
        assert_eq!(level(&[10, 80, 90], 100), 45.0);
        assert_eq!(level(&[10, 20], 30), 20.0);
        assert_eq!(level(&[], 5), 0.0);
    }

    #[test]
    fn queue_lengths_are_weighted_by_time() {
        let mut account = Account::default();
        account.arrive(0);
        account.arrive(10);
        account.depart(20, 20, (0, 100), false);
        account.depart(40, 30, (0, 100), true);
        let flows = Flows { offered: vec![200], ..Flows::default() };
        let row = account.row("x".into(), &flows);
        // One packet for 10 ns, two for 10 ns, one for 20 ns.
        assert_eq!(row.queue_packets.mean, Number::new(1.25));
        assert_eq!((row.queue_packets.max, row.marked, row.left), (2, 1, 0));
        assert_eq!(row.throughput_bps, Number::new(200.0 * 8e9 / 40.0));
        assert_eq!(row.fairness.index, Number::new(1.0));
    }
}
