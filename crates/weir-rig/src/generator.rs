//! The generator: arrivals are drawn in advance, so that drawing them costs nothing while the clock
//! runs.
//!
//! The arrivals are in a ring that is read repeatedly in order, so that the processor's prefetch
//! hides the memory accesses. A ring of random arrivals must be long. In a short ring, some flows
//! have noticeably fewer arrivals than the mean, and then no backlog. With a thousand arrivals per
//! flow, the standard deviation is 3 %.

use weir_core::rng::{Purpose, Stream};
use weir_core::sched::FlowSlot;

use crate::flows::{Flow, FlowSet};
use crate::plan::Order;

/// A packet to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) slot: FlowSlot,
    pub(crate) flow: u32,
    pub(crate) len: u32,
}

/// The arrivals of a plan. `slots[n]` is the scheduler's slot for flow n.
pub(crate) fn arrivals(flows: &FlowSet, order: &Order, seed: u64, slots: &[FlowSlot]) -> Vec<Made> {
    let made = |flow: u32, len| Made { slot: slots[flow as usize], flow, len };
    if let Order::Trace(trace) = order {
        return trace.arrivals().iter().map(|arrival| made(arrival.flow, arrival.len)).collect();
    }
    let all: Vec<Flow> = flows.flows().collect();
    let mut next = Choice::new(order, flows.len(), seed);
    let mut lengths = Stream::new(seed, 1, Purpose::Generator);
    let ring = if *order == Order::Ramp { RING_IN_TURN } else { RING };
    let rounds = ring.div_ceil(all.len()).max(ROUNDS);
    (0..all.len() * rounds)
        .map(|_| {
            let flow = next.flow();
            made(flow, all[flow as usize].lengths.draw(&mut lengths))
        })
        .collect()
}

/// The state that chooses the flow of the next arrival.
enum Choice {
    Ramp { flows: u32, next: u32 },
    Random { flows: u32, random: Stream },
    Zipf { cumulated: Vec<u64>, ranked: Vec<u32>, random: Stream },
    Bursty { flows: u32, random: Stream, flow: u32, remaining: u32 },
}

impl Choice {
    fn new(order: &Order, flows: u32, seed: u64) -> Self {
        let mut random = Stream::new(seed, 0, Purpose::Generator);
        match order {
            Order::Ramp | Order::Trace(_) => Self::Ramp { flows, next: 0 },
            Order::Random => Self::Random { flows, random },
            Order::Bursty => Self::Bursty { flows, random, flow: 0, remaining: 0 },
            Order::Zipf => {
                let mut ranked: Vec<u32> = (0..flows).collect();
                for last in (1..flows).rev() {
                    ranked.swap(last as usize, random.below(last + 1) as usize);
                }
                let shares = (1..=u64::from(flows)).map(|rank| (1 << 40) / rank);
                let cumulated = shares.scan(0, |sum, share| {
                    *sum += share;
                    Some(*sum)
                });
                Self::Zipf { cumulated: cumulated.collect(), ranked, random }
            }
        }
    }

    fn flow(&mut self) -> u32 {
        match self {
            Self::Ramp { flows, next } => {
                let flow = *next;
                *next = if flow + 1 == *flows { 0 } else { flow + 1 };
                flow
            }
            Self::Random { flows, random } => random.below(*flows),
            Self::Zipf { cumulated, ranked, random } => {
                let sum = cumulated.last().copied().unwrap_or(1);
                let at = ((u128::from(random.bits()) * u128::from(sum)) >> 64) as u64;
                ranked[cumulated.partition_point(|bound| *bound <= at)]
            }
            Self::Bursty { flows, random, flow, remaining } => {
                if *remaining == 0 {
                    (*flow, *remaining) = (random.below(*flows), 1 + random.below(LONGEST_BURST));
                }
                *remaining -= 1;
                *flow
            }
        }
    }
}

/// The minimum length of a random ring: a thousand arrivals for each of a thousand flows.
const RING: usize = 1 << 20;
/// The minimum length of a ring with an order that is not random.
const RING_IN_TURN: usize = 1 << 16;
/// The minimum number of arrivals per flow in the ring; a mean number when the order is random.
const ROUNDS: usize = 4;
/// The maximum number of packets in a burst; the mean is 16.
const LONGEST_BURST: u32 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn flows_of(order: &Order, set: &str, seed: u64) -> Vec<u32> {
        let set: FlowSet = set.parse().unwrap();
        let slots: Vec<FlowSlot> = (0..set.len()).map(FlowSlot).collect();
        arrivals(&set, order, seed, &slots).iter().map(|made| made.flow).collect()
    }

    #[test]
    fn a_ramp_visits_the_flows_in_turn() {
        let flows = flows_of(&Order::Ramp, "7:w1,3:w2", 1);
        assert!(flows.iter().enumerate().all(|(n, flow)| *flow as usize == n % 10));
    }

    #[test]
    fn every_order_reaches_every_flow_and_is_the_same_for_the_same_seed() {
        for name in Order::names() {
            let order = Order::from_name(name).unwrap();
            let flows = flows_of(&order, "50:w1", 3);
            let mut counts = [0; 50];
            flows.iter().for_each(|flow| counts[*flow as usize] += 1);
            assert!(counts.iter().all(|count| *count > 100), "{name}: {counts:?}");
            assert_eq!(flows, flows_of(&order, "50:w1", 3));
            assert_eq!(flows == flows_of(&order, "50:w1", 4), order == Order::Ramp, "{name}");
        }
    }

    #[test]
    fn zipf_gives_the_first_rank_most_arrivals_and_bursts_are_consecutive() {
        let mut counts = [0u32; 100];
        flows_of(&Order::Zipf, "100:w1", 1).iter().for_each(|flow| counts[*flow as usize] += 1);
        counts.sort_unstable();
        // The first rank gets 1 / H(100) of the arrivals, the second rank half of that.
        let all = f64::from(counts.iter().sum::<u32>());
        let shares = (f64::from(counts[99]) / all, f64::from(counts[98]) / all);
        assert!((0.18..0.21).contains(&shares.0) && (0.08..0.11).contains(&shares.1), "{shares:?}");
        let flows = flows_of(&Order::Bursty, "1000:w1", 1);
        let changes = flows.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((14..19).contains(&(flows.len() / changes)));
    }
}
