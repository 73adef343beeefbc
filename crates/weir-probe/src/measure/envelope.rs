//! A queue over time in bounded memory: least, greatest and mean length in periods of equal length.
//!
//! The period is short at first. When the recording outgrows its places, neighbouring periods are
//! put together in pairs and the period doubles; extremes and sums survive that, so a peak of a
//! single reading is there however long the watch lasts.

use std::collections::VecDeque;

/// What a queue was like in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Least number of packets.
    pub min_packets: u32,
    /// Greatest number of packets.
    pub max_packets: u32,
    /// Fewest bytes.
    pub min_bytes: u32,
    /// Most bytes.
    pub max_bytes: u32,
    /// Readings, or ns for which the length is known.
    pub weight: u64,
    /// Packets dropped, as the counters told within the period.
    pub drops: u64,
    packets: f64,
    bytes: f64,
}

impl Default for Bucket {
    fn default() -> Bucket {
        let (most, least) = (u32::MAX, 0);
        Bucket {
            min_packets: most,
            max_packets: least,
            min_bytes: most,
            max_bytes: least,
            weight: 0,
            drops: 0,
            packets: 0.0,
            bytes: 0.0,
        }
    }
}

impl Bucket {
    /// Whether nothing was read in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.min_packets > self.max_packets
    }

    /// Mean number of packets over all readings of the period, or over its time.
    #[must_use]
    pub fn mean_packets(&self) -> f64 {
        if self.weight == 0 {
            self.least(self.min_packets)
        } else {
            self.packets / self.weight as f64
        }
    }

    /// Mean number of bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        if self.weight == 0 { self.least(self.min_bytes) } else { self.bytes / self.weight as f64 }
    }

    fn least(&self, least: u32) -> f64 {
        if self.is_empty() { 0.0 } else { f64::from(least) }
    }

    /// Takes in a length that was there with a weight.
    pub fn include(&mut self, packets: u32, bytes: u32, weight: u64) {
        (self.min_packets, self.max_packets) =
            (self.min_packets.min(packets), self.max_packets.max(packets));
        (self.min_bytes, self.max_bytes) = (self.min_bytes.min(bytes), self.max_bytes.max(bytes));
        self.weight += weight;
        self.packets += f64::from(packets) * weight as f64;
        self.bytes += f64::from(bytes) * weight as f64;
    }

    /// This period and another as one.
    pub fn merge(&mut self, other: &Bucket) {
        (self.min_packets, self.max_packets) =
            (self.min_packets.min(other.min_packets), self.max_packets.max(other.max_packets));
        (self.min_bytes, self.max_bytes) =
            (self.min_bytes.min(other.min_bytes), self.max_bytes.max(other.max_bytes));
        self.weight += other.weight;
        self.drops += other.drops;
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Periods of equal length, one after the other.
#[derive(Clone, Debug)]
pub struct Envelope {
    origin: u64,
    width: u64,
    capacity: usize,
    buckets: Vec<Bucket>,
}

impl Envelope {
    /// One that begins at `origin` (ns) and has at most `capacity` periods, at least 2.
    #[must_use]
    pub fn new(origin: u64, capacity: usize) -> Envelope {
        Envelope { origin, width: FIRST_WIDTH, capacity: capacity.max(2), buckets: Vec::new() }
    }

    /// When the first period begins, ns.
    #[must_use]
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Length of a period, ns.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The periods so far; those in which nothing was read are [empty](Bucket::is_empty).
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The queue was seen `weight` times (or for so many ns) at this length, evenly from `from` to
    /// `to`, both included.
    pub fn hold(&mut self, from: u64, to: u64, weight: u64, packets: u32, bytes: u32) {
        let (from, to) =
            (from.saturating_sub(self.origin), to.max(from).saturating_sub(self.origin));
        let last = self.reach(to);
        let first = (from / self.width) as usize;
        if first == last {
            self.buckets[last].include(packets, bytes, weight);
            return;
        }
        let span = u128::from(to - from) + 1;
        let mut given = 0;
        for place in first..=last {
            let end = ((place as u64 + 1) * self.width).min(to + 1) - from;
            let so_far = (u128::from(weight) * u128::from(end) / span) as u64;
            self.buckets[place].include(packets, bytes, so_far - given);
            given = so_far;
        }
    }

    /// Packets that were dropped, as known at `time`.
    pub fn drop_packets(&mut self, time: u64, drops: u64) {
        let place = self.reach(time.saturating_sub(self.origin));
        self.buckets[place].drops += drops;
    }

    /// At most so many periods from now on, at least 2.
    pub fn limit(&mut self, capacity: usize) {
        self.capacity = capacity.max(2);
        while self.buckets.len() > self.capacity {
            self.double();
        }
        self.buckets.shrink_to_fit();
    }

    /// The place of a time since the origin, which is there after this.
    fn reach(&mut self, time: u64) -> usize {
        while time / self.width >= self.capacity as u64 {
            self.double();
        }
        let place = (time / self.width) as usize;
        if self.buckets.len() <= place {
            self.buckets.resize(place + 1, Bucket::default());
        }
        place
    }

    fn double(&mut self) {
        self.width *= 2;
        let half = self.buckets.len().div_ceil(2);
        for place in 0..half {
            let mut bucket = self.buckets[2 * place];
            if let Some(other) = self.buckets.get(2 * place + 1) {
                bucket.merge(other);
            }
            self.buckets[place] = bucket;
        }
        self.buckets.truncate(half);
    }
}

/// The last seconds, for a live view: periods of 100 ms.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    slot: u64,
    level: (u32, u32),
    buckets: VecDeque<Bucket>,
}

impl Recent {
    /// Length of a period, ns.
    pub const WIDTH: u64 = 100_000_000;
    /// How many are kept.
    pub const KEPT: usize = 128;

    /// The periods, the oldest first; where nothing was read, the length before holds on with a
    /// weight of 0. The last is unfinished.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Bucket> + ExactSizeIterator {
        self.buckets.iter()
    }

    /// Packets dropped in a second, over the last finished second or what there is of it; 0 before
    /// the first period is over.
    #[must_use]
    pub fn drops_per_second(&self) -> f64 {
        let finished: Vec<u64> =
            self.buckets.iter().rev().skip(1).take(10).map(|bucket| bucket.drops).collect();
        let seconds = finished.len() as f64 * (Recent::WIDTH as f64 / 1e9);
        if finished.is_empty() { 0.0 } else { finished.iter().sum::<u64>() as f64 / seconds }
    }

    pub(super) fn include(&mut self, time: u64, packets: u32, bytes: u32, weight: u64) {
        self.reach(time).include(packets, bytes, weight);
        self.level = (packets, bytes);
    }

    pub(super) fn drop_packets(&mut self, time: u64, drops: u64) {
        self.reach(time).drops += drops;
    }

    fn reach(&mut self, time: u64) -> &mut Bucket {
        let slot = time / Recent::WIDTH;
        if self.buckets.is_empty() {
            self.slot = slot;
            self.buckets.push_back(Bucket::default());
        }
        let passed = slot.saturating_sub(self.slot);
        self.slot += passed;
        for _ in 0..passed.min(Recent::KEPT as u64) {
            if self.buckets.len() == Recent::KEPT {
                self.buckets.pop_front();
            }
            let mut held = Bucket::default();
            held.include(self.level.0, self.level.1, 0);
            self.buckets.push_back(held);
        }
        self.buckets.back_mut().expect("one was pushed above if there was none")
    }
}

/// Length of the first period, ns: shorter than the fastest readings are apart by little.
const FIRST_WIDTH: u64 = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_is_spread_over_its_periods() {
        let mut envelope = Envelope::new(1_000, 1024);
        envelope.hold(1_000, 1_000 + 4 * FIRST_WIDTH - 1, 400, 3, 4500);
        assert_eq!(envelope.buckets().iter().map(|b| b.weight).collect::<Vec<_>>(), [100; 4]);
        envelope.hold(1_000 + 3 * FIRST_WIDTH, 1_000 + 3 * FIRST_WIDTH, 100, 5, 7500);
        let last = envelope.buckets()[3];
        assert_eq!(
            (last.mean_packets(), last.mean_bytes(), last.min_packets, last.max_packets),
            (4.0, 6000.0, 3, 5)
        );
    }

    #[test]
    fn recent_periods_hold_the_length_where_nothing_was_read() {
        let mut recent = Recent::default();
        recent.include(0, 7, 700, 1);
        recent.include(3 * Recent::WIDTH, 1, 100, 1);
        recent.drop_packets(3 * Recent::WIDTH + 1, 4);
        recent.include(4 * Recent::WIDTH, 1, 100, 1);
        let most: Vec<u32> = recent.iter().map(|bucket| bucket.max_packets).collect();
        assert_eq!(most, [7, 7, 7, 7, 1]);
        assert_eq!(recent.drops_per_second(), 10.0);
        recent.include(u64::MAX / 2, 2, 200, 1);
        assert_eq!(recent.iter().len(), Recent::KEPT);
    }

    proptest! {
        #[test]
        fn no_peak_reading_or_drop_is_lost(runs in prop::collection::vec((0u64..1 << 40, 0u64..1 << 22, 1u64..1000, 0u32..50, 0u64..3), 1..60), capacity in 2usize..200) {
            let mut envelope = Envelope::new(0, capacity);
            for &(from, span, weight, packets, drops) in &runs {
                envelope.hold(from, from + span, weight, packets, packets * 100);
                envelope.drop_packets(from, drops);
            }
            envelope.limit(capacity / 2);
            prop_assert!(envelope.buckets().len() <= (capacity / 2).max(2));
            let all = envelope.buckets();
            prop_assert_eq!(all.iter().map(|b| b.weight).sum::<u64>(), runs.iter().map(|r| r.2).sum::<u64>());
            prop_assert_eq!(all.iter().map(|b| b.drops).sum::<u64>(), runs.iter().map(|r| r.4).sum::<u64>());
            for &(from, span, _, packets, _) in &runs {
                for place in [from / envelope.width(), (from + span) / envelope.width()] {
                    let bucket = all[place as usize];
                    prop_assert!(bucket.min_packets <= packets && packets <= bucket.max_packets);
                    prop_assert!(bucket.max_bytes >= packets * 100);
                }
            }
        }
    }
}
