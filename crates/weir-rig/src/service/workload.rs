//! Workloads: what arrives at the link, and when.
//!
//! Loads that are not steady are made in advance and come whatever the scheduler does, so that two
//! schedulers of one seed see the same packets at the same instants.

use std::collections::VecDeque;

use weir_core::rng::{Purpose, Stream};

use crate::Lengths;
use crate::flows::FlowSet;
use crate::trace::{Arrival, Trace};

/// What arrives.
#[derive(Clone, Copy, Debug)]
pub enum Workload<'a> {
    /// Every flow always has packets: two at least, and at least twice the bytes of the set's
    /// longest packet, so that no ideal link would be done with them. What leaves is replaced at
    /// once. Ends after `packets`.
    Backlogged {
        /// Packets that the link sends.
        packets: u64,
    },
    /// Flows send bursts of 1 to 8 packets at random moments. What they offer changes between seven
    /// tenths and twelve tenths of the link, so that backlogs come and go.
    OnOff {
        /// Packets that arrive.
        packets: u64,
    },
    /// Flow after flow sends twenty packets, at twice the link's rate, until all have; then, when
    /// the link has caught up, again.
    Ramp {
        /// Packets that arrive.
        packets: u64,
    },
    /// Arrivals that were written down.
    Trace(&'a Trace),
}

/// Arrivals as the link takes them.
#[derive(Debug)]
pub(super) struct Source<'a> {
    arrivals: Arrivals<'a>,
    /// After so many packets it is over; `None` when it is when everything has left.
    most: Option<u64>,
}

#[derive(Debug)]
enum Arrivals<'a> {
    /// In answer to departures.
    Answers(Answers),
    /// Known in advance.
    Made { all: Vec<Arrival>, place: usize },
    /// Known in advance, and borrowed.
    Given { all: &'a [Arrival], place: usize },
}

/// Flows that are kept supplied.
#[derive(Debug)]
struct Answers {
    pending: VecDeque<Arrival>,
    flows: Vec<Supply>,
    /// Bytes that each flow has at least.
    least: u64,
    random: Stream,
}

/// A flow's packets that have not gone on the wire.
#[derive(Debug)]
struct Supply {
    lengths: Lengths,
    packets: u64,
    bytes: u64,
}

impl Answers {
    fn new(flows: &FlowSet, seed: u64) -> Self {
        let supply = flows
            .flows()
            .map(|flow| Supply { lengths: flow.lengths, packets: 0, bytes: 0 })
            .collect();
        let random = Stream::new(seed, 0, Purpose::Generator);
        let mut answers = Self {
            pending: VecDeque::new(),
            flows: supply,
            least: 2 * u64::from(flows.longest()),
            random,
        };
        (0..flows.len()).for_each(|flow| answers.supply(0, flow));
        answers
    }

    /// Gives a flow what it lacks.
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
        let made = |all| Self { arrivals: Arrivals::Made { all, place: 0 }, most: None };
        match *workload {
            Workload::Backlogged { packets } => {
                Self { arrivals: Arrivals::Answers(Answers::new(flows, seed)), most: Some(packets) }
            }
            Workload::OnOff { packets } => made(on_off(flows, packets, seed)),
            Workload::Ramp { packets } => made(ramp(flows, packets, seed)),
            Workload::Trace(trace) => {
                Self { arrivals: Arrivals::Given { all: trace.arrivals(), place: 0 }, most: None }
            }
        }
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> Option<u64> {
        match &self.arrivals {
            Arrivals::Answers(answers) => answers.pending.front().map(|arrival| arrival.time),
            Arrivals::Made { all, place } => all.get(*place).map(|arrival| arrival.time),
            Arrivals::Given { all, place } => all.get(*place).map(|arrival| arrival.time),
        }
    }

    /// The next packet.
    pub(super) fn take(&mut self) -> Option<Arrival> {
        let (all, place) = match &mut self.arrivals {
            Arrivals::Answers(answers) => return answers.pending.pop_front(),
            Arrivals::Made { all, place } => (all.as_slice(), place),
            Arrivals::Given { all, place } => (*all, place),
        };
        let arrival = all.get(*place).copied();
        *place += 1;
        arrival
    }

    /// A packet of `flow` goes on the wire.
    pub(super) fn departs(&mut self, now: u64, flow: u32, len: u32) {
        if let Arrivals::Answers(answers) = &mut self.arrivals {
            answers.departs(now, flow, len);
        }
    }

    /// Whether observation ends when the link has sent `sent` packets.
    pub(super) fn is_over(&self, sent: u64) -> bool {
        self.most.is_some_and(|most| sent >= most)
    }

    /// Whether nothing will arrive any more, whatever leaves.
    pub(super) fn has_ended(&self) -> bool {
        !self.is_steady() && self.next().is_none()
    }

    /// Whether every flow always has packets.
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.arrivals, Arrivals::Answers(_))
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
        // On average the time that the link takes for the burst, over the load.
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
