//! COBALT: `CoDel` for flows that respond, and BLUE for those that do not.
//!
//! # Model
//! `CoDel` drops faster and faster while packets wait too long. When they no longer do, it forgets
//! its drop rate at once, so a sender that does not respond fills the queue before the drops become
//! frequent again. COBALT counts down as it counted up: it leaves the dropping state slowly, and
//! resumes at the count it had. Beside it, BLUE raises a drop probability each time the queue
//! overflows, and lowers it while the queue is empty.
//!
//! # Equations
//! With `n` the count, the next signal is `interval / √n` after the previous one. A packet finds
//! the queue congested if it waited longer than `target` and longer than four packets of size `mtu`
//! take on the link:
//!
//! * congested and due: the packet is marked, or else dropped, and `n` grows by 1;
//! * not congested: `n` falls by 1 for each signal that would have been due.
//!
//! BLUE: `p` grows by 1/256 when the queue overflows and falls by 1/4096 when it is empty, each at
//! most once per `target`. Each packet is dropped with probability `p`; BLUE does not mark.
//!
//! On a link with a rate, the target is at least 1.5 packets of size `mtu`, and the interval grows
//! by as much, to at least two targets.
//!
//! # Reference
//! Hoeiland-Joergensen, Taht and Morton, "Piece of CAKE", IEEE LANMAN 2018; Palmei et al., "Design
//! and evaluation of COBALT queue discipline", IEEE LANMAN 2019; `CAKE` in Linux.
//!
//! # Parameters
//! `target` 1us..10s, default 5ms, and `interval` 2us..4s, default 100ms, as for `CoDel`. `ecn`,
//! default on. `mtu` 0..4194304 bytes, default 1500. `increment` 0..1, default 1/256, and
//! `decrement` 0..1, default 1/4096: the steps of BLUE.
//!
//! # Complexity
//! O(1) for each packet, and one step for each signal that was not needed after a time without
//! congestion.
//!
//! # Guarantees
//! The last packet of a queue is not dropped.
//!
//! # Figures
//! `count`: `n`. `dropping`: 1 while congested. `drop_next`: the time of the next signal in ns.
//! `probability`: `p` in parts of 2^32.
//!
//! # Differences from Linux/FreeBSD
//! Linux has it only within `cake`. In Linux, a queue that was never congested begins with a root
//! of zero, so its second late packet is signalled at once; here, as in ns-3, it begins with the
//! root of 1. Linux polls an empty queue about every `target`; this implementation applies the same
//! changes when the next packet arrives.
//!
//! # Validation
//! Roots against exact ones, the steps of BLUE, and an idle time against polls every `target`.

use alloc::vec::Vec;

use super::codel::{ECN, INTERVAL, MTU, TARGET};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings;
use crate::settings::{Fraction, Part, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::{NANOS_PER_SEC, Nanos};

settings! {
    /// Settings of COBALT.
    struct Settings {
        target: Nanos = TARGET,
        interval: Nanos = INTERVAL,
        ecn: bool = ECN.or(true),
        mtu: u64 = MTU,
        increment: Fraction = Part::new(
            0,
            UNIT,
            UNIT / 256,
            "what BLUE's probability grows by when the queue overflows",
        ),
        // 1/4096 in billionths.
        decrement: Fraction = Part::new(
            0,
            UNIT,
            244_141,
            "what BLUE's probability falls by when the queue is empty",
        ),
    }
}

/// COBALT for one queue.
#[derive(Debug)]
pub struct Cobalt {
    law: Law,
    state: Control,
}

impl Cobalt {
    /// A new AQM, before the first packet.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let part = |part: Fraction| u32::try_from((part.0 << 32) / UNIT).unwrap_or(u32::MAX);
        let mut law = Law::new(
            settings.target.0,
            settings.interval.0,
            settings.mtu,
            setup.rate,
            setup.stream.clone(),
        );
        law.ecn = settings.ecn;
        (law.increment, law.decrement) = (part(settings.increment), part(settings.decrement));
        Self { law, state: Control::default() }
    }
}

impl Aqm for Cobalt {
    #[inline]
    fn arrive(&mut self, now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        self.state.arrive(&self.law, now);
        if queue.full {
            self.state.overflowed(&self.law, now);
        }
        Verdict::Pass
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        let verdict = self.state.leave(&mut self.law, now, packet, queue.packets == 0);
        if queue.packets == 0 {
            self.state.emptied(&self.law, now);
        }
        verdict
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let Control { count, dropping, drop_next, probability, .. } = self.state;
        [
            ("count", count.into()),
            ("dropping", dropping.into()),
            ("drop_next", drop_next),
            ("probability", probability.into()),
        ]
        .into()
    }
}

/// Settings, which many queues can share. Times are in ns.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    target: u64,
    interval: u64,
    /// The time that four packets take on the link.
    few: u64,
    increment: u32,
    decrement: u32,
    ecn: bool,
    stream: Stream,
}

impl Law {
    /// For packets of `mtu` bytes on a link of `rate` bit/s, 0 for none.
    pub(crate) fn new(target: u64, interval: u64, mtu: u64, rate: u64, stream: Stream) -> Self {
        let packet = (mtu * 8 * NANOS_PER_SEC).checked_div(rate).unwrap_or(0);
        let longer = target.max(packet.saturating_mul(3) / 2);
        Self {
            target: longer,
            interval: (interval + (longer - target)).max(longer.saturating_mul(2)),
            few: packet.saturating_mul(4),
            increment: 1 << 24,
            decrement: 1 << 20,
            ecn: true,
            stream,
        }
    }
}

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// When the next signal is due; at rest, the time until which the queue counts as in use.
    drop_next: u64,
    /// When BLUE's probability was last changed.
    changed: u64,
    /// `n`.
    count: u32,
    /// How much `1/√n` is below 1, in parts of 2^32.
    below_one: u32,
    /// The probability of BLUE, in parts of 2^32.
    probability: u32,
    dropping: bool,
    /// No packet has arrived since the queue was found empty.
    empty: bool,
}

const _: () =
    assert!(size_of::<Control>() == 32, "with the queue it belongs to, it fills a cache line");

impl Control {
    /// A packet arrives: if the queue was empty, the idle time ends.
    #[inline]
    pub(crate) fn arrive(&mut self, law: &Law, now: Nanos) {
        if self.empty {
            self.empty = false;
            self.catch_up(law, now.0);
        }
    }

    /// Decides about the packet at the head.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        law: &mut Law,
        now: Nanos,
        packet: &Seen,
        is_last: bool,
    ) -> Verdict {
        let delay = now.since(packet.arrived).0;
        let now = now.0;
        if delay <= law.target && self.count == 0 && self.probability == 0 {
            self.dropping = false;
            self.drop_next = now.saturating_add(law.interval);
            return Verdict::Pass;
        }
        self.is_in_use(law, now, delay > law.target && delay > law.few, packet, is_last)
    }

    /// The same for a queue that is or was congested.
    #[inline(never)]
    fn is_in_use(
        &mut self,
        law: &mut Law,
        now: u64,
        congested: bool,
        packet: &Seen,
        is_last: bool,
    ) -> Verdict {
        let (due, mut late) = (self.count > 0 && now >= self.drop_next, now > self.drop_next);
        if congested && !self.dropping {
            self.drop_next = self.after(law, now);
        }
        self.dropping = congested;
        if congested {
            self.count = self.count.max(1);
        }
        let mut verdict = Verdict::Pass;
        if due && congested {
            let marks = law.ecn && packet.header.ecn.is_capable();
            verdict = if marks {
                Verdict::Mark(MarkReason::Target)
            } else {
                Verdict::Drop(DropReason::Target)
            };
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.after(law, self.drop_next);
            late = now > self.drop_next;
        } else if due {
            self.count_down(law, now);
            late = now > self.drop_next;
        }
        if self.probability > 0
            && law.stream.bits32() < self.probability
            && !matches!(verdict, Verdict::Drop(_))
        {
            verdict = Verdict::Drop(DropReason::Early);
        }
        if self.count == 0 {
            self.drop_next = now.saturating_add(law.interval);
        } else if late && !matches!(verdict, Verdict::Drop(_)) {
            self.drop_next = now;
        }
        if is_last && matches!(verdict, Verdict::Drop(_)) { Verdict::Pass } else { verdict }
    }

    /// The queue had no room for a packet.
    pub(crate) fn overflowed(&mut self, law: &Law, now: Nanos) {
        if now.0.saturating_sub(self.changed) > law.target {
            self.probability = self.probability.saturating_add(law.increment);
            self.changed = now.0;
        }
        self.dropping = true;
        self.drop_next = now.0;
        self.count = self.count.max(1);
    }

    /// The scheduler asked for a packet and the queue was empty.
    pub(crate) fn emptied(&mut self, law: &Law, now: Nanos) {
        self.empty = true;
        if self.probability > 0 && now.0.saturating_sub(self.changed) > law.target {
            self.probability = self.probability.saturating_sub(law.decrement);
            self.changed = now.0;
        }
        self.dropping = false;
        if self.count > 0 && now.0 >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(law, self.drop_next);
        }
    }

    /// Applies what polls of an empty queue every `target` until now would have done.
    fn catch_up(&mut self, law: &Law, now: u64) {
        if self.probability > 0 {
            let times = now.saturating_sub(self.changed) / law.target;
            let less = u64::from(law.decrement).saturating_mul(times);
            self.probability =
                self.probability.saturating_sub(u32::try_from(less).unwrap_or(u32::MAX));
            self.changed = self.changed.saturating_add(times.saturating_mul(law.target));
        }
        self.count_down(law, now);
    }

    /// Whether an empty queue has nothing to remember.
    pub(crate) fn is_at_rest(&self, law: &Law, now: Nanos) -> bool {
        let mut later = self.clone();
        later.catch_up(law, now.0);
        later.probability == 0 && later.count == 0 && now.0 >= later.drop_next
    }

    /// Counts down by one for each signal that was due.
    fn count_down(&mut self, law: &Law, now: u64) {
        while self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.after(law, self.drop_next);
        }
    }

    /// Sets the count to one that differs by at most 1 from the count of the current root, from
    /// which one step of Newton's method finds the next root.
    fn set_count(&mut self, count: u32) {
        debug_assert!(
            (count as usize) < ROOTS.len() || count.abs_diff(self.count) <= 1,
            "the root of {count} does not follow from that of {}",
            self.count
        );
        self.count = count;
        let root =
            ROOTS.get(count as usize).copied().unwrap_or_else(|| improved(!self.below_one, count));
        self.below_one = !root;
    }

    fn after(&self, law: &Law, time: u64) -> u64 {
        // On a link of a few bits per second the interval takes minutes, and the product exceeds a
        // word.
        time.saturating_add(((u128::from(law.interval) * u128::from(!self.below_one)) >> 32) as u64)
    }
}

/// One step of Newton's method for `1/√count`, in parts of 2^32. From the root of a neighbour above
/// 16 it is practically exact.
const fn improved(root: u32, count: u32) -> u32 {
    let squared = (root as u64 * root as u64) >> 32;
    let rest = (3u64 << 32).wrapping_sub(count as u64 * squared) >> 2;
    (rest.wrapping_mul(root as u64) >> 31) as u32
}

/// The roots of small counts, where one step would be far off.
const ROOTS: [u32; 16] = {
    let mut roots = [u32::MAX; 16];
    let (mut count, mut root) = (1, u32::MAX);
    while count < roots.len() {
        let mut step = 0;
        while step < 4 {
            root = improved(root, count as u32);
            step += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
};

pub(super) const ROW: Row = Row {
    name: "cobalt",
    aliases: &[],
    summary: "CoDel that comes down as slowly as it went up, with BLUE for senders that do not respond",
    source: "Palmei et al. 2019; CAKE in Linux",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Ecn, Header};
    use crate::rng::Purpose;

    const MS: u64 = 1_000_000;

    fn law(rate: u64) -> Law {
        Law::new(5 * MS, 100 * MS, 1500, rate, Stream::new(1, 1, Purpose::Aqm))
    }

    fn seen(arrived: u64, ecn: Ecn) -> Seen {
        Seen { len: 1500, arrived: Nanos(arrived), header: Header { ecn, ..Header::default() } }
    }

    #[test]
    fn roots_are_exact_to_a_hundredth_up_and_down() {
        let mut state = Control::default();
        for count in (1..2000u32).chain((1..2000).rev()) {
            state.set_count(count);
            let root = u128::from(!state.below_one);
            // The square of the root times the count is 1, in parts of 2^64.
            let one = root * root * u128::from(count);
            assert!(one.abs_diff(1 << 64) < 1 << 57, "{count}: {root}");
        }
    }

    #[test]
    fn slow_links_have_longer_targets() {
        let fast = law(1_000_000_000);
        assert_eq!((fast.target, fast.interval, fast.few), (5 * MS, 100 * MS, 48_000));
        // 1500 bytes take 12 ms.
        let slow = law(1_000_000);
        assert_eq!((slow.target, slow.interval, slow.few), (18 * MS, 113 * MS, 48 * MS));
        assert_eq!(law(100_000).interval, 2 * 180 * MS);
    }

    #[test]
    fn signals_are_spaced_by_minutes_where_the_interval_takes_them() {
        let slow = law(100);
        assert_eq!(slow.interval, 360_000 * MS);
        let mut state = Control::default();
        state.set_count(4);
        // Half the interval, within the error of a root of 32 bits.
        assert!(state.after(&slow, 0).abs_diff(180_000 * MS) < 1000, "{}", state.after(&slow, 0));
    }

    #[test]
    fn the_first_signal_comes_an_interval_after_the_first_late_packet() {
        for (ecn, signal) in [
            (Ecn::NotEct, Verdict::Drop(DropReason::Target)),
            (Ecn::Ect0, Verdict::Mark(MarkReason::Target)),
        ] {
            let (mut law, mut state) = (law(0), Control::default());
            let mut decide = |now: u64, delay: u64| {
                state.leave(&mut law, Nanos(now * MS), &seen((now - delay) * MS, ecn), false)
            };
            assert_eq!(decide(1000, 1), Verdict::Pass);
            assert_eq!(decide(1010, 10), Verdict::Pass);
            assert_eq!(decide(1109, 10), Verdict::Pass);
            assert_eq!(decide(1110, 10), signal);
            assert_eq!(decide(1111, 10), Verdict::Pass);
            // The second signal is due an interval over the root of 2 later.
            assert_eq!(decide(1180, 10), Verdict::Pass);
            assert_eq!(decide(1181, 10), signal);
        }
    }

    #[test]
    fn blue_steps_up_with_overflows_and_down_with_emptiness() {
        let (law, mut state) = (law(0), Control::default());
        for ms in [10, 12, 14, 16] {
            state.overflowed(&law, Nanos(ms * MS));
        }
        assert_eq!(state.probability, 2 << 24, "no more than once in a target");
        state.emptied(&law, Nanos(30 * MS));
        assert_eq!(state.probability, (2 << 24) - (1 << 20));
        (0..1000).for_each(|n| state.overflowed(&law, Nanos((100 + 6 * n) * MS)));
        assert_eq!(state.probability, u32::MAX);
        state.emptied(&law, Nanos(10_000 * MS));
        state.arrive(&law, Nanos(1_000_000_000 * MS));
        assert_eq!((state.probability, state.count), (0, 0));
    }

    #[test]
    fn an_unresponsive_flow_is_dropped_at_random_but_for_its_last_packet() {
        let (mut law, mut state) =
            (law(0), Control { probability: 1 << 31, changed: 1, ..Control::default() });
        let mut drops = 0;
        for n in 0..10_000 {
            let now = 1000 * MS + n;
            drops += u32::from(
                state.leave(&mut law, Nanos(now), &seen(now, Ecn::Ect0), false)
                    == Verdict::Drop(DropReason::Early),
            );
            assert_eq!(
                state.leave(&mut law, Nanos(now), &seen(now, Ecn::Ect0), true),
                Verdict::Pass
            );
        }
        assert!((4800..5200).contains(&drops), "{drops}");
    }

    /// A queue that becomes empty after `count` signals is left alone for `gap` ms, with the next
    /// signal due after `first` ms. Returns its state when the next packet arrives, and the state
    /// that polls every target would have given it.
    fn rests(count: u32, probability: u32, gap: u64, first: u64) -> (Control, Control) {
        let law = law(0);
        let mut state = Control {
            probability,
            changed: 1000 * MS,
            drop_next: (1000 + first) * MS,
            ..Control::default()
        };
        // The root follows the count in steps of 1: a larger step would leave a wrong root.
        (1..=count).for_each(|count| state.set_count(count));
        let mut asked = state.clone();
        state.empty = true;
        let end = (1000 + gap) * MS;
        let mut now = 1000 * MS;
        while now + law.target <= end {
            now += law.target;
            // Polls a little late, so that the time has passed.
            asked.changed = asked.changed.min(now - law.target);
            asked.emptied(&law, Nanos(now + 1));
            asked.changed = asked.changed.min(now);
            while asked.count > 0 && now >= asked.drop_next {
                asked.emptied(&law, Nanos(now));
            }
        }
        state.arrive(&law, Nanos(end));
        (state, asked)
    }

    #[test]
    fn a_rest_after_many_signals_is_caught_up_with() {
        let (state, asked) = rests(47, 0, 619, 0);
        assert_eq!((state.count, asked.count), (14, 14));
    }

    proptest! {
        /// An idle time has the effect that polls every target would have had.
        #[test]
        fn a_rest_is_caught_up_with(
            count in 0u32..50,
            probability in 0u32..1 << 26,
            gap in 0u64..2_000,
            first in 0u64..20,
        ) {
            let (state, asked) = rests(count, probability, gap, first);
            prop_assert_eq!(state.probability, asked.probability);
            prop_assert!(asked.count.abs_diff(state.count) <= 1);
        }
    }
}
