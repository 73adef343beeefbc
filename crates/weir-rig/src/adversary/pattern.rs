//! Arrival patterns for the search: a few numbers describe many packets.

use serde::{Deserialize, Serialize};
use weir_core::rng::Stream;

use crate::Lengths;
use crate::flows::{FlowSet, Group};
use crate::trace::{Arrival, Trace};

/// The weights of the groups, and the acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pattern {
    /// The weight of each group.
    pub(super) weights: Vec<u32>,
    pub(super) acts: Vec<Act>,
}

/// Consecutive flows of one group that each send the same packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Act {
    /// The start time of the first flow, in bytes of the link.
    pub(super) at: u64,
    /// The time between the starts of consecutive flows, in bytes of the link.
    pub(super) gap: u32,
    /// The index of the group.
    pub(super) group: u32,
    /// The index of the first flow within its group, and the number of flows.
    pub(super) first: u32,
    pub(super) count: u32,
    /// The number of packets that each flow sends, and their length in bytes.
    pub(super) packets: u32,
    pub(super) len: u32,
}

/// The patterns that a search may use.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) flows: FlowSet,
    /// The smallest and the largest weight of a group; `None` keeps the weights of the set.
    pub(super) weights: Option<(u32, u32)>,
    /// The groups from which the search picks its victim: the flow that should get the worst
    /// service.
    pub(super) victims: Vec<u32>,
}

impl Space {
    pub(super) fn groups(&self) -> &[Group] {
        self.flows.groups()
    }

    /// A random number in `0..n`; 0 when `n` is 0.
    pub(super) fn pick(random: &mut Stream, n: usize) -> usize {
        random.below(n.min(u32::MAX as usize).max(1) as u32) as usize
    }

    /// A random length that the packets of a group may have. The two ends of a range, and the
    /// longest length of a mixture, are the most likely.
    pub(super) fn length(&self, group: u32, random: &mut Stream) -> u32 {
        let lengths = self.groups()[group as usize].lengths;
        match lengths {
            Lengths::Fixed(len) => len,
            Lengths::Bimodal | Lengths::Uniform(..) if random.below(3) == 0 => lengths.shortest(),
            Lengths::Uniform(..) if random.below(2) == 0 => lengths.draw(random),
            Lengths::Bimodal | Lengths::Uniform(..) => lengths.longest(),
            Lengths::Imix => [40, 576, 1500, 1500][Self::pick(random, 4)],
        }
    }

    /// Clamps the fields of an act to their allowed ranges.
    pub(super) fn mend(&self, act: &mut Act) {
        act.group = act.group.min(self.groups().len() as u32 - 1);
        let group = &self.groups()[act.group as usize];
        act.first = act.first.min(group.count - 1);
        act.count = act.count.clamp(1, group.count - act.first);
        act.packets = act.packets.clamp(1, MAX_PACKETS_OF_FLOW);
        act.at = act.at.min(LATEST);
        act.gap = act.gap.min(LARGEST_GAP);
        act.len = match group.lengths {
            Lengths::Uniform(least, most) => act.len.clamp(least, most),
            Lengths::Fixed(len) => len,
            Lengths::Bimodal if act.len <= 64 => 64,
            Lengths::Imix if act.len <= 40 => 40,
            Lengths::Imix if act.len <= 576 => 576,
            Lengths::Bimodal | Lengths::Imix => 1500,
        };
    }

    /// The packets of the pattern, at most `most`, ordered by time. Packets of equal time keep the
    /// order of their acts. `None` when the flow set or the trace is invalid.
    pub(super) fn trace(&self, pattern: &Pattern, most: usize) -> Option<Trace> {
        let mut groups = self.groups().to_vec();
        for (group, &weight) in groups.iter_mut().zip(&pattern.weights) {
            group.weight = weight;
        }
        let starts: Vec<u32> = groups
            .iter()
            .scan(0, |next, group| Some(std::mem::replace(next, *next + group.count)))
            .collect();
        let mut arrivals = Vec::new();
        for act in &pattern.acts {
            let room = most.saturating_sub(arrivals.len());
            let packet = |n: u32, _| {
                let time = act.at + u64::from(n) * u64::from(act.gap);
                Arrival { time, flow: starts[act.group as usize] + act.first + n, len: act.len }
            };
            let packets = (0..act.count).flat_map(|n| (0..act.packets).map(move |p| (n, p)));
            arrivals.extend(packets.take(room).map(|(n, p)| packet(n, p)));
        }
        arrivals.sort_by_key(|arrival| arrival.time);
        Trace::new(FlowSet::new(groups).ok()?, arrivals).ok()
    }

    /// A start pattern: one of the arrangements that are known to give bad service.
    pub(super) fn begin(&self, random: &mut Stream) -> Pattern {
        let victim = self.victims[Self::pick(random, self.victims.len())];
        let mut pattern = Pattern {
            weights: self.groups().iter().map(|group| group.weight).collect(),
            acts: Vec::new(),
        };
        self.choose_weights(&mut pattern, victim, random);
        let packets = 1 << random.below(4);
        let bytes: u64 = self
            .groups()
            .iter()
            .map(|group| u64::from(group.count) * u64::from(group.lmax))
            .sum::<u64>()
            * packets;
        let within = |random: &mut Stream, span: u64| {
            ((u128::from(random.bits()) * u128::from(span)) >> 64) as u64
        };
        let (others_at, own): (u64, Vec<(u64, u32)>) = match random.below(4) {
            // The victim joins when all other flows have a backlog.
            0 => (0, vec![(1 + within(random, bytes), 1 << random.below(4))]),
            // The victim gets ahead. The other flows arrive later, as does one more packet of the
            // victim.
            1 => (
                within(random, 40_000),
                vec![(0, 1 << random.below(6)), (within(random, 60_000), 1)],
            ),
            // All flows start together. The victim may send more packets than the other flows.
            2 => (0, vec![(0, 1 << random.below(7))]),
            // The victim sends single packets, spread over the time in which the packets of the
            // other flows are sent.
            _ => (0, (0..8).map(|n| (1 + n * bytes / 8 + within(random, bytes / 8), 1)).collect()),
        };
        for (number, group) in (0..).zip(self.groups()) {
            let first = u32::from(number == victim);
            if group.count > first {
                let len = self.length(number, random);
                let count = group.count - first;
                pattern.acts.push(Act {
                    at: others_at,
                    gap: 0,
                    group: number,
                    first,
                    count,
                    packets: packets as u32,
                    len,
                });
            }
        }
        for (at, packets) in own {
            pattern.acts.push(Act {
                at,
                gap: 0,
                group: victim,
                first: 0,
                count: 1,
                packets,
                len: self.length(victim, random),
            });
        }
        // Shuffles the acts, since their order decides the order of packets that arrive together.
        for n in (1..pattern.acts.len()).rev() {
            pattern.acts.swap(n, Self::pick(random, n + 1));
        }
        pattern.acts.iter_mut().for_each(|act| self.mend(act));
        pattern
    }

    fn choose_weights(&self, pattern: &mut Pattern, victim: u32, random: &mut Stream) {
        let Some((least, most)) = self.weights else { return };
        match random.below(3) {
            0 => {}
            1 => (0..)
                .zip(&mut pattern.weights)
                .for_each(|(group, weight)| *weight = if group == victim { most } else { least }),
            _ => pattern
                .weights
                .iter_mut()
                .for_each(|weight| *weight = least + random.below(most - least + 1)),
        }
    }
}

/// The latest start of an act, in bytes of the link: the time of about 45,000 packets of 1500
/// bytes.
const LATEST: u64 = 1 << 26;
/// The largest time between the starts of consecutive flows, in bytes of the link.
const LARGEST_GAP: u32 = 1 << 20;
const MAX_PACKETS_OF_FLOW: u32 = 4096;
