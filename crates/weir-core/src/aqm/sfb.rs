//! Stochastic fair BLUE: a drop probability for each flow, stored in bins that flows share, and a
//! rate limit for flows that do not respond.
//!
//! # Model
//! There are 8 levels of 16 bins. A hash gives a flow one bin in each level. A bin counts the
//! waiting packets of its flows, and has a probability like that of BLUE. The probability of a
//! packet is the lowest of its flow's bins. A flow that responds shares each bin with other flows,
//! but hardly ever shares all 8 bins with a flow that does not respond. A flow that responds but
//! sends more than its share settles at the rate that the other flows leave over. The probability
//! of a flow that does not respond reaches 1 in all its bins, and the flow is limited to a low
//! fixed rate.
//!
//! A flow that shares all its bins with a flow that does not respond would be limited permanently,
//! so the hash changes at intervals. For the time `db` before each change, a second set of bins
//! with the next hash also learns which flows do not respond.
//!
//! # Equations
//! For each arriving packet, in each of its bins:
//! ```text
//! bin empty:                    p <- p - decrement
//! target or more packets in it: p <- p + increment
//! ```
//! Then, with the lowest `p` and the fewest packets over the levels, the first line that applies:
//! ```text
//! fewest packets >= max:   dropped
//! p = 1:                   dropped, unless there is a token
//! p < 1:                   selected with probability p
//! ```
//! A selected packet is marked, or dropped if it is not ECN-capable or `ecn` is off. If p > 1/2,
//! the fraction (2p - 1)/p of the selected packets is dropped even if ECN-capable. Tokens come at
//! `penalty_rate`. Probabilities are multiples of 1/(2^16 - 1), as in Linux.
//!
//! # Reference
//! Feng, Kandlur, Saha and Shin, "Stochastic fair blue: a queue management algorithm for enforcing
//! fairness", IEEE INFOCOM 2001; Linux's `sch_sfb` by Chroboczek and Dumazet.
//!
//! # Parameters
//! Names and defaults are those of Linux. `target` should be less than `max`. With `rehash 0ms` the
//! hash does not change. `variant` steady|linux, default steady: how flows that do not respond get
//! tokens, see the differences below. `hz`, 100 to 1000, default 250: Linux's ticks per second, for
//! `variant linux`.
//!
//! # Complexity
//! O(levels) for each packet. The state takes 2 KiB, and eight bytes for each packet that waits.
//!
//! # Guarantees
//! All flows with a probability of 1 share `penalty_rate`, with bursts of up to `penalty_burst`
//! packets; with `variant linux` they may get less.
//!
//! # Differences from Linux/FreeBSD
//! FreeBSD does not implement SFB. Linux always marks; here `ecn` can be switched off. Linux adds
//! tokens only when none is left: those for the time since the last such check, in whole ticks, or
//! at first since the creation of the queue. The first burst, of the initial tokens, is thus
//! followed by a second burst for the age of the queue. Each later check restarts the time even if
//! it adds no token, so flows that send faster than `penalty_rate` then get none. `variant linux`
//! does the same, as if the queue had existed for a long time; `variant steady` gives such flows
//! `penalty_rate`. In Linux, SFB contains a queue or a scheduler; here SFB works in front of any
//! scheduler.
//!
//! # Validation
//! Property tests compare the bins with the packets that wait, packet by packet. Tests check one
//! flow that does not respond among several that do.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::jiffies::HZ;
use super::red::parameters::ECN;
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings::{Count, Fraction, Number, Part, Time, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::{NANOS_PER_SEC, Nanos};
use crate::{choice, settings};

/// Stochastic fair BLUE.
#[derive(Debug)]
pub struct Sfb {
    sets: Box<[Set; 2]>,
    /// The index of the set with the probabilities in force.
    active: usize,
    rules: Rules,
    /// The time at which the hash last changed; `None` before the first packet.
    rehashed: Option<Nanos>,
    /// Flows that do not respond may together send this many packets before they need new tokens.
    tokens: u64,
    /// The time from which new tokens count; `None` is a time long ago.
    filled: Option<Nanos>,
    /// For each packet that waits, its hash in each set; 0 if the packet is in no bin of that set.
    waiting: VecDeque<[u32; 2]>,
    stream: Stream,
}

/// The settings of SFB in the units of the algorithm.
#[derive(Debug)]
struct Rules {
    /// The time between changes of the hash in ns; 0: the hash does not change.
    rehash: u64,
    /// The setting `db` in ns.
    warmup: u64,
    max: u32,
    target: u32,
    /// The steps of a bin's probability, in parts of 2^16 - 1.
    increment: u16,
    decrement: u16,
    penalty_rate: u64,
    penalty_burst: u64,
    ecn: bool,
    variant: Variant,
    hz: u32,
}

/// Bins, and the perturbation of the hash that selects them.
#[derive(Clone, Debug, Default)]
struct Set {
    perturbation: u64,
    bins: [[Bin; BINS]; LEVELS],
}

/// The waiting packets of the flows of a bin, and the bin's probability.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    packets: u32,
    p: u16,
}

choice! {
    /// How flows that do not respond get tokens.
    enum Variant {
        /// Tokens accrue at `penalty_rate`.
        Steady = "steady",
        /// New tokens count the whole ticks since the last check that found no token.
        Linux = "linux",
    }
}

settings! {
    /// Settings of SFB.
    struct Settings {
        rehash: Nanos =
            Time::new(0, DAY, 600 * NANOS_PER_SEC, "time between changes of the hash; 0: none"),
        db: Nanos = Time::new(
            0,
            DAY,
            60 * NANOS_PER_SEC,
            "time before each change of the hash during which the next hash also learns which \
             flows do not respond",
        ),
        max: u32 = Count::new(1, 1 << 24, "packets", 25, "packets of a flow that may wait"),
        target: u32 = Count::new(
            1,
            1 << 24,
            "packets",
            20,
            "number of packets in a bin from which its probability rises",
        ),
        increment: Fraction =
            Part::new(0, UNIT, UNIT / 2000, "step by which the probability of a bin rises"),
        decrement: Fraction =
            Part::new(0, UNIT, UNIT / 6000, "step by which the probability of a bin falls"),
        penalty_rate: u64 = Number::new(
            0,
            1_000_000,
            "packets/s",
            10,
            "rate at which flows that do not respond may send",
        ),
        penalty_burst: u64 =
            Number::new(0, 1 << 24, "packets", 20, "packets that may pass at once from flows that \
                                                    do not respond"),
        ecn: bool = ECN.or(true),
        variant: Variant =
            Variant::setting(Variant::Steady, "how flows that do not respond get tokens"),
        hz: u32 = HZ,
    }
}

const DAY: u64 = 86_400 * NANOS_PER_SEC;

impl Sfb {
    /// A new AQM with all probabilities 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let mut stream = setup.stream.clone();
        let settings = Settings::of(policy);
        let part = |part: Fraction| (part.0 * u64::from(ONE)).div_ceil(UNIT) as u16;
        let rules = Rules {
            rehash: settings.rehash.0,
            warmup: settings.db.0,
            max: settings.max,
            target: settings.target,
            increment: part(settings.increment),
            decrement: part(settings.decrement),
            penalty_rate: settings.penalty_rate,
            penalty_burst: settings.penalty_burst,
            ecn: settings.ecn,
            variant: settings.variant,
            hz: settings.hz,
        };
        let mut sets = Box::new([Set::default(), Set::default()]);
        sets.iter_mut().for_each(|set| set.perturbation = stream.bits());
        let tokens = rules.penalty_burst;
        Self {
            sets,
            active: 0,
            rules,
            rehashed: None,
            tokens,
            filled: None,
            waiting: VecDeque::new(),
            stream,
        }
    }

    /// Changes the hash when it is due; returns whether to learn flows for the next hash.
    fn rehash_if_due(&mut self, now: Nanos) -> bool {
        let since = match self.rehashed {
            Some(at) => now.since(at).0,
            None => {
                self.rehashed = Some(now);
                if self.rules.variant == Variant::Steady {
                    self.filled = Some(now);
                }
                0
            }
        };
        if self.rules.rehash == 0 {
            return false;
        }
        if since > self.rules.rehash {
            self.sets[self.active].perturbation = self.stream.bits();
            self.active ^= 1;
            self.rehashed = Some(now);
            return false;
        }
        self.rules.warmup > 0 && since.saturating_add(self.rules.warmup) > self.rules.rehash
    }

    /// Takes a token for a packet of a flow that does not respond; returns whether the packet must
    /// be dropped because there is none.
    fn is_punished(&mut self, now: Nanos) -> bool {
        if self.tokens == 0 {
            self.tokens = self.rules.new_tokens(self.filled, now);
            if self.tokens > 0 || self.rules.variant == Variant::Linux {
                self.filled = Some(now);
            }
            if self.tokens == 0 {
                return true;
            }
        }
        self.tokens -= 1;
        false
    }

    /// The verdict about a packet with the probability `p`, which is less than 1.
    fn draw_verdict(&mut self, p: u16, packet: &Seen) -> Verdict {
        let draw = (self.stream.bits32() >> 16) as u16;
        if draw >= p {
            return Verdict::Pass;
        }
        let too_often = p > ONE / 2 && u32::from(draw) < 2 * u32::from(p - ONE / 2);
        if too_often || !self.rules.ecn || !packet.header.ecn.is_capable() {
            Verdict::Drop(DropReason::Early)
        } else {
            Verdict::Mark(MarkReason::Early)
        }
    }
}

impl Rules {
    /// The tokens for the time from `filled` until `now`, of which at most 10 s count; `None` is a
    /// time long ago.
    fn new_tokens(&self, filled: Option<Nanos>, now: Nanos) -> u64 {
        let tokens = match self.variant {
            Variant::Steady => {
                let age = filled.map_or(u64::MAX, |filled| now.since(filled).0);
                let age = age.min(10 * NANOS_PER_SEC);
                age * self.penalty_rate / NANOS_PER_SEC
            }
            Variant::Linux => {
                let hz = u64::from(self.hz);
                let tick = |time: Nanos| time.0 / (NANOS_PER_SEC / hz);
                let age = filled.map_or(u64::MAX, |filled| tick(now).saturating_sub(tick(filled)));
                let age = age.min(10 * hz);
                age * self.penalty_rate / hz
            }
        };
        tokens.min(self.penalty_burst)
    }

    /// Updates the probabilities of a flow's bins; returns the lowest of them, and the fewest
    /// packets in any of the bins.
    fn update(&self, set: &mut Set, hash: u32) -> (u16, u32) {
        let (mut least, mut fewest) = (u16::MAX, u32::MAX);
        for (level, bins) in set.bins.iter_mut().enumerate() {
            let bin = &mut bins[index(hash, level)];
            if bin.packets == 0 {
                bin.p = bin.p.saturating_sub(self.decrement);
            } else if bin.packets >= self.target {
                bin.p = bin.p.saturating_add(self.increment);
            }
            least = least.min(bin.p);
            fewest = fewest.min(bin.packets);
        }
        (least, fewest)
    }
}

impl Set {
    /// The flow's hash in this set, which is never 0.
    fn hash(&self, flow: u32) -> u32 {
        let x = (u64::from(flow) ^ self.perturbation).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32).max(1)
    }

    /// Counts a packet in its bins.
    fn enter(&mut self, hash: u32) {
        for (level, bins) in self.bins.iter_mut().enumerate() {
            bins[index(hash, level)].packets += 1;
        }
    }

    /// Removes a packet from the counts of its bins.
    fn leave(&mut self, hash: u32) {
        for (level, bins) in self.bins.iter_mut().enumerate() {
            let bin = &mut bins[index(hash, level)];
            bin.packets = bin.packets.saturating_sub(1);
        }
    }
}

/// The index of a flow's bin in a level. Each level uses four bits of the flow's hash.
#[inline]
fn index(hash: u32, level: usize) -> usize {
    (hash >> (4 * level)) as usize % BINS
}

impl Aqm for Sfb {
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        if queue.packets == 0 && !self.waiting.is_empty() {
            // A change of configuration removed packets without calls of `leave`.
            self.waiting.clear();
            self.sets
                .iter_mut()
                .flat_map(|set| set.bins.as_flattened_mut())
                .for_each(|bin| bin.packets = 0);
        }
        if queue.full {
            return Verdict::Pass;
        }
        let learns = self.rehash_if_due(now);
        let (active, other) = (self.active, self.active ^ 1);
        let mut hashes = [0; 2];
        hashes[active] = self.sets[active].hash(packet.header.hash);
        let (p, fewest) = self.rules.update(&mut self.sets[active], hashes[active]);
        if fewest >= self.rules.max {
            return Verdict::Drop(DropReason::Forced);
        }
        let verdict = if p == ONE {
            if learns {
                hashes[other] = self.sets[other].hash(packet.header.hash);
                self.rules.update(&mut self.sets[other], hashes[other]);
            }
            if self.is_punished(now) { Verdict::Drop(DropReason::Penalty) } else { Verdict::Pass }
        } else {
            self.draw_verdict(p, packet)
        };
        if !matches!(verdict, Verdict::Drop(_)) {
            for (set, hash) in self.sets.iter_mut().zip(hashes).filter(|&(_, hash)| hash != 0) {
                set.enter(hash);
            }
            self.waiting.push_back(hashes);
        }
        verdict
    }

    fn leave(&mut self, _now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        // Packets that waited before this AQM existed are not in any bin, and leave first.
        if (queue.packets as usize) < self.waiting.len()
            && let Some(hashes) = self.waiting.pop_front()
        {
            for (set, hash) in self.sets.iter_mut().zip(hashes).filter(|&(_, hash)| hash != 0) {
                set.leave(hash);
            }
        }
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let bins = || self.sets[self.active].bins.as_flattened().iter();
        let most = bins().map(|bin| bin.p).max().unwrap_or(0);
        let sum: u64 = bins().map(|bin| u64::from(bin.p)).sum();
        let parts = |p: u64| p * ((1 << 32) / u64::from(ONE));
        vec![
            ("probability", parts(u64::from(most))),
            ("mean_probability", parts(sum / (LEVELS * BINS) as u64)),
            ("fullest_bin", bins().map(|bin| u64::from(bin.packets)).max().unwrap_or(0)),
            ("tokens", self.tokens),
        ]
    }
}

const LEVELS: usize = 8;
const BINS: usize = 16;
/// The probability 1.
const ONE: u16 = u16::MAX;

pub(super) const ROW: Row = Row {
    name: "sfb",
    aliases: &["stochastic-fair-blue"],
    summary: "BLUE in bins that flows share, with a rate limit for flows that do not respond",
    source: "Feng, Kandlur, Saha and Shin, INFOCOM 2001; Linux, sch_sfb",
    traits: Traits { marks: true, classifies: true },
    parameters: Settings::PARAMETERS,
};
