//! Workloads: the arrivals at the link and their times.
//!
//! The arrivals of workloads other than `Backlogged` do not depend on the scheduler. Two schedulers
//! therefore see the same packets at the same times for the same seed.

use std::collections::VecDeque;

use weir_core::rng::{Purpose, Stream};

use crate::Lengths;
use crate::flows::FlowSet;
use crate::trace::{Arrival, Trace};

/// The arrivals of a measurement.
#[derive(Clone, Copy, Debug)]
pub enum Workload<'a> {
    /// Every flow always has at least two packets, with at least twice the bytes of the set's
    /// longest packet in total, so that no flow is ever idle, even on an ideal link. Each departure
    /// is replaced at once. The run ends after `packets` departures.
    Backlogged {
        /// Packets that the link sends.
        packets: u64,
    },
    /// Flows send bursts of 1 to 8 packets at random times. The offered load alternates between 0.7
    /// and 1.2 of the link's rate, so that backlogs come and go.
    OnOff {
        /// Packets that arrive.
        packets: u64,
    },
    /// One flow after the other sends twenty packets, at twice the link's rate. The next round
    /// starts when the link has caught up.
    Ramp {
        /// Packets that arrive.
        packets: u64,
    },
    /// The arrivals of a trace.
    Trace(&'a Trace),
}

/// The state of a workload during a run.
#[derive(Debug)]
pub(super) struct Source<'a> {
    arrivals: Arrivals<'a>,
    /// The run ends after this many packets; with `None`, when all packets have departed.
    most: Option<u64>,
}

/// The origin of the arrivals.
#[derive(Debug)]
enum Arrivals<'a> {
    /// Arrivals that replace departures.
    Replenished(Replenished),
    /// Arrivals that were generated in advance.
    Made { all: Vec<Arrival>, next: usize },
    /// Arrivals of a trace.
    Given { all: &'a [Arrival], next: usize },
}

/// Keeps every flow backlogged.
#[derive(Debug)]
struct Replenished {
    pending: VecDeque<Arrival>,
    flows: Vec<Supply>,
    /// The minimum backlog of each flow in bytes.
    least: u64,
    random: Stream,
}

/// A flow's packets that are not yet transmitted.
#[derive(Debug)]
struct Supply {
    lengths: Lengths,
    packets: u64,
    bytes: u64,
}

impl Replenished {
    fn new(flows: &FlowSet, seed: u64) -> Self {
        let supply = flows
            .flows()
            .map(|flow| Supply { lengths: flow.lengths, packets: 0, bytes: 0 })
            .collect();
        let random = Stream::new(seed, 0, Purpose::Generator);
        let mut replenished = Self {
            pending: VecDeque::new(),
            flows: supply,
            least: 2 * u64::from(flows.longest()),
            random,
        };
        (0..flows.len()).for_each(|flow| replenished.supply(0, flow));
        replenished
    }

    /// Adds packets to a flow until it has its minimum backlog.
    fn supply(&mut self, time: u64, flow: u32) {
        let supply = &mut self.flows[flow as usize];
        while supply.packets < 2 || supply.bytes < self.least {
            let len = supply.lengths.draw(&mut self.random);
            supply.packets += 1;
            supply.bytes += u64::from(len);
            self.pending.push_back(Arrival { time, flow, len });
        }
    }

    fn departs(&mut self, now: u64, flow: u32, len: u32) {
        let supply = &mut self.flows[flow as usize];
        supply.packets = supply.packets.saturating_sub(1);
        supply.bytes = supply.bytes.saturating_sub(len.into());
        self.supply(now, flow);
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(workload: &Workload<'a>, flows: &FlowSet, seed: u64) -> Self {
        let made = |all| Self { arrivals: Arrivals::Made { all, next: 0 }, most: None };
        match *workload {
            Workload::Backlogged { packets } => Self {
                arrivals: Arrivals::Replenished(Replenished::new(flows, seed)),
                most: Some(packets),
            },
            Workload::OnOff { packets } => made(on_off(flows, packets, seed)),
            Workload::Ramp { packets } => made(ramp(flows, packets, seed)),
            Workload::Trace(trace) => {
                Self { arrivals: Arrivals::Given { all: trace.arrivals(), next: 0 }, most: None }
            }
        }
    }

    /// The time of the next arrival.
    pub(super) fn next(&self) -> Option<u64> {
        match &self.arrivals {
            Arrivals::Replenished(replenished) => {
                replenished.pending.front().map(|arrival| arrival.time)
            }
            Arrivals::Made { all, next } => all.get(*next).map(|arrival| arrival.time),
            Arrivals::Given { all, next } => all.get(*next).map(|arrival| arrival.time),
        }
    }

    pub(super) fn take(&mut self) -> Option<Arrival> {
        let (all, next) = match &mut self.arrivals {
            Arrivals::Replenished(replenished) => return replenished.pending.pop_front(),
            Arrivals::Made { all, next } => (all.as_slice(), next),
            Arrivals::Given { all, next } => (*all, next),
        };
        let arrival = all.get(*next).copied();
        *next += 1;
        arrival
    }

    /// A packet of `flow` starts its transmission, or a dequeue drops it.
    pub(super) fn departs(&mut self, now: u64, flow: u32, len: u32) {
        if let Arrivals::Replenished(replenished) = &mut self.arrivals {
            replenished.departs(now, flow, len);
        }
    }

    /// Whether the run has ended when the link has sent `sent` packets.
    pub(super) fn is_over(&self, sent: u64) -> bool {
        self.most.is_some_and(|most| sent >= most)
    }

    /// Whether no more packets will arrive, whatever departs.
    pub(super) fn has_ended(&self) -> bool {
        !self.is_steady() && self.next().is_none()
    }

    /// Whether every flow always has packets.
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.arrivals, Arrivals::Replenished(_))
    }
}

fn on_off(flows: &FlowSet, packets: u64, seed: u64) -> Vec<Arrival> {
    let lengths: Vec<Lengths> = flows.flows().map(|flow| flow.lengths).collect();
    let mut random = Stream::new(seed, 1, Purpose::Generator);
    let (mut all, mut time) = (Vec::new(), 0u64);
    for burst in 0u64.. {
        let flow = random.below(lengths.len() as u32);
        let mut bytes = 0u64;
        for _ in 0..=random.below(8) {
            if all.len() as u64 >= packets {
                return all;
            }
            let len = lengths[flow as usize].draw(&mut random);
            all.push(Arrival { time, flow, len });
            bytes += u64::from(len);
        }
        let tenths = if burst / 256 % 2 == 0 { 12 } else { 7 };
        // A random time with a mean of the burst's transmission time divided by the load.
        time += bytes * 20 * u64::from(random.below(1000)) / (1000 * tenths);
    }
    all
}

fn ramp(flows: &FlowSet, packets: u64, seed: u64) -> Vec<Arrival> {
    let mut random = Stream::new(seed, 2, Purpose::Generator);
    let (mut all, mut time) = (Vec::new(), 0u64);
    loop {
        let mut bytes = 0u64;
        for flow in flows.flows() {
            for _ in 0..20 {
                if all.len() as u64 >= packets {
                    return all;
                }
                let len = flow.lengths.draw(&mut random);
                all.push(Arrival { time: time + bytes / 2, flow: flow.number, len });
                bytes += u64::from(len);
            }
        }
        time += bytes;
    }
}
