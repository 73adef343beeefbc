//! Small random changes of a pattern. Each changed pattern is the candidate of one try.

use weir_core::rng::Stream;

use super::pattern::{Act, Pattern, Space};

impl Space {
    /// A changed copy of `pattern`. `worst` is the pattern's worst interval.
    pub(super) fn neighbour(
        &self,
        pattern: &Pattern,
        worst: (u64, u64),
        random: &mut Stream,
    ) -> Pattern {
        let mut changed = pattern.clone();
        for _ in 0..=random.below(3) {
            if changed.acts.is_empty() || random.below(8) == 0 {
                self.change_list(&mut changed, worst, random);
            } else if self.weights.is_some() && random.below(10) == 0 {
                self.change_weight(&mut changed, random);
            } else {
                let index = Self::pick(random, changed.acts.len());
                self.change_act(&mut changed.acts[index], worst, random);
            }
        }
        changed.acts.iter_mut().for_each(|act| self.mend(act));
        changed
    }

    /// Adds or removes an act, or swaps two acts.
    fn change_list(&self, pattern: &mut Pattern, worst: (u64, u64), random: &mut Stream) {
        let acts = &mut pattern.acts;
        match random.below(4) {
            0 if acts.len() > 1 => {
                acts.remove(Self::pick(random, acts.len()));
            }
            1 if acts.len() > 1 => {
                let (a, b) = (Self::pick(random, acts.len()), Self::pick(random, acts.len()));
                acts.swap(a, b);
            }
            2 if !acts.is_empty() && acts.len() < MAX_ACTS => {
                let mut twin = acts[Self::pick(random, acts.len())];
                self.change_act(&mut twin, worst, random);
                acts.push(twin);
            }
            _ if acts.len() < MAX_ACTS => {
                let group = Self::pick(random, self.groups().len()) as u32;
                let count = self.groups()[group as usize].count;
                let (first, count) =
                    if random.below(2) == 0 { (0, 1) } else { (random.below(count), count) };
                let (at, len) = (near(worst, random), self.length(group, random));
                acts.push(Act {
                    at,
                    gap: 0,
                    group,
                    first,
                    count,
                    packets: 1 << random.below(4),
                    len,
                });
            }
            _ => {}
        }
    }

    fn change_weight(&self, pattern: &mut Pattern, random: &mut Stream) {
        let Some((least, most)) = self.weights else { return };
        let index = Self::pick(random, pattern.weights.len());
        pattern.weights[index] = match random.below(4) {
            0 => least,
            1 => most,
            2 => least + random.below(most - least + 1),
            _ => (pattern.weights[index] + random.below(3)).saturating_sub(1).clamp(least, most),
        };
    }

    fn change_act(&self, act: &mut Act, worst: (u64, u64), random: &mut Stream) {
        match random.below(8) {
            // An earlier or later start, by a distance with a wide range of magnitudes.
            0 | 1 => {
                let by = random.bits() >> (40 + random.below(24));
                act.at = if random.below(2) == 0 {
                    act.at.saturating_add(by)
                } else {
                    act.at.saturating_sub(by)
                };
            }
            2 => act.at = near(worst, random),
            3 => act.len = self.length(act.group, random),
            4 => {
                act.packets = match random.below(4) {
                    0 => act.packets.saturating_mul(2),
                    1 => act.packets / 2,
                    2 => act.packets.saturating_add(1),
                    _ => act.packets.saturating_sub(1),
                }
            }
            5 | 6 => self.change_flows(act, random),
            _ => {
                act.gap =
                    [0, 1, act.len / 2, act.len, random.below(4 * act.len)][Self::pick(random, 5)];
            }
        }
    }

    /// Changes the flows that send: all of a group, all but the first, only the first, or a part.
    /// One change in six first draws another group.
    fn change_flows(&self, act: &mut Act, random: &mut Stream) {
        if random.below(6) == 0 {
            act.group = Self::pick(random, self.groups().len()) as u32;
        }
        let all = self.groups()[act.group as usize].count;
        (act.first, act.count) = match random.below(6) {
            0 => (0, all),
            1 => (1, all),
            2 => (0, 1),
            3 => (act.first, act.count / 2 + 1),
            4 => (act.first + act.count / 2, act.count / 2),
            _ => (random.below(all), 1 + random.below(all)),
        };
    }
}

/// A random time close to either end of the worst interval.
fn near(worst: (u64, u64), random: &mut Stream) -> u64 {
    let end = if random.below(3) == 0 { worst.1 } else { worst.0 };
    (end + [0, 1, 2, 750, 1499, 1500, 1501][Space::pick(random, 7)])
        .saturating_sub([0, 1, 64, 1500][Space::pick(random, 4)])
}

const MAX_ACTS: usize = 40;
