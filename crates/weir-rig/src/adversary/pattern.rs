//! Patterns of arrivals for the search: few numbers that describe many packets.

use serde::{Deserialize, Serialize};
use weir_core::rng::Stream;

use crate::Lengths;
use crate::flows::{FlowSet, Group};
use crate::trace::{Arrival, Trace};

/// Weights, and the acts of the flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pattern {
    /// Weight of each group.
    pub(super) weights: Vec<u32>,
    pub(super) acts: Vec<Act>,
}

/// Some neighbouring flows of a group send the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Act {
    /// When the first of them begins, in bytes of the link.
    pub(super) at: u64,
    /// How much later each next one does.
    pub(super) gap: u32,
    pub(super) group: u32,
    /// The first of the flows, by its place in the group, and how many there are.
    pub(super) first: u32,
    pub(super) count: u32,
    /// Packets of each flow, and their length.
    pub(super) packets: u32,
    pub(super) len: u32,
}

/// What a search may choose among.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) flows: FlowSet,
    /// Least and largest weight that a group may get; `None` to leave weights as they are.
    pub(super) weights: Option<(u32, u32)>,
    /// Groups of which a flow may be the victim.
    pub(super) victims: Vec<u32>,
}

impl Space {
    /// The groups.
    pub(super) fn groups(&self) -> &[Group] {
        self.flows.groups()
    }

    /// A number of `0..n`; 0 when `n` is 0.
    pub(super) fn pick(random: &mut Stream, n: usize) -> usize {
        random.below(n.min(u32::MAX as usize).max(1) as u32) as usize
    }

    /// One of the lengths that packets of a group may have: the longest and the shortest more often
    /// than others.
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

    /// Moves an act into its allowed range.
    pub(super) fn mend(&self, act: &mut Act) {
        act.group = act.group.min(self.groups().len() as u32 - 1);
        let group = &self.groups()[act.group as usize];
        act.first = act.first.min(group.count - 1);
        act.count = act.count.clamp(1, group.count - act.first);
        act.packets = act.packets.clamp(1, MOST_PACKETS_OF_FLOW);
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

    /// The pattern as packets, in order of time; those of one time in the order of the acts. There
    /// are at most `most`.
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

    /// A pattern to begin with: one of the arrangements that are known to be unkind.
    pub(super) fn begin(&self, random: &mut Stream) -> Pattern {
        let victim = self.victims[Self::pick(random, self.victims.len())];
        let mut pattern = Pattern {
            weights: self.groups().iter().map(|group| group.weight).collect(),
            acts: Vec::new(),
        };
        self.choose_weights(&mut pattern, victim, random);
        let packets = 1 << random.below(4);
        let crowd: u64 = self
            .groups()
            .iter()
            .map(|group| u64::from(group.count) * u64::from(group.lmax))
            .sum::<u64>()
            * packets;
        let within = |random: &mut Stream, span: u64| {
            ((u128::from(random.bits()) * u128::from(span)) >> 64) as u64
        };
        let (others_at, own): (u64, Vec<(u64, u32)>) = match random.below(4) {
            // All others are there, and the victim comes.
            0 => (0, vec![(1 + within(random, crowd), 1 << random.below(4))]),
            // The victim is there and gets ahead, then the crowd comes; and the victim again.
            1 => (
                within(random, 40_000),
                vec![(0, 1 << random.below(6)), (within(random, 60_000), 1)],
            ),
            // All at once, and for long.
            2 => (0, vec![(0, 1 << random.below(7))]),
            // The victim sends packet after packet, none before the last has left.
            _ => (0, (0..8).map(|n| (1 + n * crowd / 8 + within(random, crowd / 8), 1)).collect()),
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
        // The order at one moment: any order of the acts.
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

/// Latest beginning of an act: some ten thousand packets after the first.
const LATEST: u64 = 1 << 26;
const LARGEST_GAP: u32 = 1 << 20;
const MOST_PACKETS_OF_FLOW: u32 = 4096;
