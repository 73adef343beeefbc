//! COBALT: `CoDel` for flows that respond to drops and marks, and BLUE for flows that do not.
//!
//! # Model
//! `CoDel` increases its drop rate while packets wait too long. When packets no longer wait too
//! long, it resets its drop rate at once, so that a sender that does not respond fills the queue
//! before drops become frequent again. COBALT counts drops and marks, and its drop rate grows with
//! this count. After congestion, COBALT reduces the count as gradually as it raised the count
//! before, and resumes from the current count when congestion returns. In addition, BLUE raises a
//! drop probability each time the queue overflows, and lowers that probability while the queue is
//! empty.
//!
//! # Equations
//! A *signal* is a drop or a mark. The count is `n`, and the next signal is due `interval / √n`
//! after the previous one. The queue is congested for a packet that waited longer than `target` and
//! longer than the transmission of four packets of size `mtu`:
//!
//! * congested, and a signal is due: the packet is marked, or dropped if it cannot be marked, and
//!   `n` grows by 1;
//! * not congested: `n` falls by 1 for each signal that is due.
//!
//! BLUE: `p` grows by 1/256 when the queue overflows and falls by 1/4096 when it is empty, each at
//! most once per `target`. Each packet is dropped with probability `p`; BLUE does not mark.
//!
//! On a link with a rate, the target is at least the transmission time of 1.5 packets of size
//! `mtu`. The interval grows by the same amount as the target, and is at least two targets.
//!
//! # Reference
//! Hoeiland-Joergensen, Taht and Morton, "Piece of CAKE", IEEE LANMAN 2018; Palmei et al., "Design
//! and evaluation of COBALT queue discipline", IEEE LANMAN 2019; `CAKE` in Linux.
//!
//! # Parameters
//! `target` 1us..10s, default 5ms, and `interval` 2us..4s, default 100ms, as for `CoDel`. `ecn`,
//! default on. `mtu` 0..4194304 bytes, default 1500. `variant` `published`, `linux` or `linux-6.1`,
//! default `published`: see the differences below. `increment` 0..1, default 1/256, and
//! `decrement` 0..1, default 1/4096: the steps of BLUE.
//!
//! # Complexity
//! O(1) for each packet, and one step for each signal that falls due in a time without congestion.
//!
//! # Guarantees
//! The last packet of a queue is not dropped.
//!
//! # Statistics
//! `count`: `n`. `dropping`: 1 while congested. `drop_next`: the time of the next signal in ns.
//! `probability`: `p` in parts of 2^32.
//!
//! # Differences from Linux/FreeBSD
//! Linux implements COBALT only within `cake`. In Linux, a queue that was never congested begins
//! with `1/√n` = 0, so that its second late packet gets a signal at once; `variant linux` does so
//! too. With `variant published`, as in ns-3, the queue begins with `1/√n` = 1, and the first
//! signal comes after an interval. `variant linux-6.1` is `linux` with the roots of kernels before
//! 6.12. These kernels compute `1/√n` for `n` below 16 by four steps of Newton's method. Four steps
//! are too few for `n` = 2: the result is low by 0.06 %, and with the default interval the next
//! signal comes 40 us early.
//!
//! Linux polls an empty queue together with the other queues of CAKE. This implementation does not
//! poll: when the next packet arrives, it applies the changes that a poll about every `target`
//! would have made.
//!
//! # Validation
//! Tests compare roots with exact values, check the steps of BLUE, and compare one long idle time
//! with polls every `target`.

use alloc::vec::Vec;

use super::codel::{ECN, INTERVAL, MTU, TARGET};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings::{Fraction, Part, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::{NANOS_PER_SEC, Nanos};
use crate::{choice, settings};

settings! {
    /// Settings of COBALT.
    struct Settings {
        target: Nanos = TARGET,
        interval: Nanos = INTERVAL,
        ecn: bool = ECN.or(true),
        mtu: u64 = MTU,
        variant: Variant = Variant::setting(Variant::Published, FIRST_SIGNAL),
        increment: Fraction = Part::new(
            0,
            UNIT,
            UNIT / 256,
            "step by which BLUE's probability rises when the queue overflows",
        ),
        // 1/4096 in billionths.
        decrement: Fraction = Part::new(
            0,
            UNIT,
            244_141,
            "step by which BLUE's probability falls when the queue is empty",
        ),
    }
}

choice! {
    /// The implementation that determines the time of a queue's first signal, the accuracy of the
    /// distances between later signals, and the rounding of transmission times.
    pub(crate) enum Variant {
        Published = "published",
        Linux = "linux",
        Linux61 = "linux-6.1",
    }
}

impl Variant {
    /// The transmission time of `bytes` bytes on a link of `rate` bit/s, in ns; 0 for a rate of 0.
    pub(crate) fn packet_time(self, bytes: u64, rate: u64) -> u64 {
        if rate == 0 {
            return 0;
        }
        match self {
            Self::Published => bytes * 8 * NANOS_PER_SEC / rate,
            Self::Linux | Self::Linux61 => {
                // Linux multiplies by the transmission time of a byte, a number of 34 significant
                // bits.
                let byte = (NANOS_PER_SEC << 34) / (rate / 8).max(64);
                let excess = (64 - byte.leading_zeros()).saturating_sub(34);
                (bytes * (byte >> excess)) >> (34 - excess)
            }
        }
    }
}

/// The description of the setting `variant`.
pub(crate) const FIRST_SIGNAL: &str = "first signal: an interval after the first late packet, \
     or with the second late packet as in Linux; linux-6.1: with the square roots of kernels \
     before 6.12";

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
            settings.variant.packet_time(settings.mtu, setup.rate),
            setup.stream.clone(),
        );
        law.ecn = settings.ecn;
        law.follow(settings.variant);
        (law.increment, law.decrement) = (part(settings.increment), part(settings.decrement));
        Self { state: Control::new(&law), law }
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

    fn variables(&self) -> Vec<(&'static str, u64)> {
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

/// The settings in the units of the algorithm; many queues can share them. Times are in ns.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    target: u64,
    interval: u64,
    /// The transmission time of four packets of size `mtu`, in ns.
    few: u64,
    /// The steps of BLUE's probability, in parts of 2^32.
    increment: u32,
    decrement: u32,
    ecn: bool,
    /// `1 - 1/√n` of a queue that was never congested, in parts of 2^32.
    below_one: u32,
    /// The values of `1/√n` for small `n`, in parts of 2^32.
    roots: &'static [u32; 16],
    stream: Stream,
}

impl Law {
    /// The law for a link that transmits the longest packet in `packet` ns. `packet` is 0 if the
    /// link has no rate.
    pub(crate) fn new(target: u64, interval: u64, packet: u64, stream: Stream) -> Self {
        let longer = target.max(packet.saturating_mul(3) / 2);
        Self {
            target: longer,
            interval: (interval + (longer - target)).max(longer.saturating_mul(2)),
            few: packet.saturating_mul(4),
            increment: 1 << 24,
            decrement: 1 << 20,
            ecn: true,
            below_one: 0,
            roots: &ROOTS,
            stream,
        }
    }

    /// Sets the time of the first signal and the distances between signals as `variant` specifies.
    pub(crate) fn follow(&mut self, variant: Variant) {
        (self.below_one, self.roots) = match variant {
            Variant::Published => (0, &ROOTS),
            Variant::Linux => (u32::MAX, &ROOTS),
            Variant::Linux61 => (u32::MAX, &ROOTS_OF_LINUX_6_1),
        };
    }
}

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// The time at which the next signal is due; with `n` = 0, the time until which the queue
    /// counts as in use.
    drop_next: u64,
    /// The time at which BLUE's probability last changed.
    changed: u64,
    /// `n`.
    count: u32,
    /// `1 - 1/√n`, in parts of 2^32.
    below_one: u32,
    /// The probability of BLUE, in parts of 2^32.
    probability: u32,
    /// Whether the queue is congested.
    dropping: bool,
    /// Whether the queue was found empty and no packet has arrived since.
    empty: bool,
}

const _: () = assert!(size_of::<Control>() == 32, "the state and its queue fill one cache line");

impl Control {
    /// The state of a queue that was never congested.
    pub(crate) fn new(law: &Law) -> Self {
        Self { below_one: law.below_one, ..Self::default() }
    }

    /// Ends the idle time if the queue was empty before this arrival.
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
        self.leave_congested(law, now, delay > law.target && delay > law.few, packet, is_last)
    }

    /// Decides about a packet that waited longer than the target, or that leaves while the count or
    /// BLUE's probability is not 0.
    #[inline(never)]
    fn leave_congested(
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
            self.set_count(law, self.count.saturating_add(1));
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

    /// Raises BLUE's probability and makes a signal due, because the queue had no room.
    pub(crate) fn overflowed(&mut self, law: &Law, now: Nanos) {
        if now.0.saturating_sub(self.changed) > law.target {
            self.probability = self.probability.saturating_add(law.increment);
            self.changed = now.0;
        }
        self.dropping = true;
        self.drop_next = now.0;
        self.count = self.count.max(1);
    }

    /// Lowers the probability and the count, because the queue was found empty.
    pub(crate) fn emptied(&mut self, law: &Law, now: Nanos) {
        self.empty = true;
        if self.probability > 0 && now.0.saturating_sub(self.changed) > law.target {
            self.probability = self.probability.saturating_sub(law.decrement);
            self.changed = now.0;
        }
        self.dropping = false;
        if self.count > 0 && now.0 >= self.drop_next {
            self.set_count(law, self.count - 1);
            self.drop_next = self.after(law, self.drop_next);
        }
    }

    /// Applies the changes that polls of the empty queue every `target` until `now` would have
    /// made.
    fn catch_up(&mut self, law: &Law, now: u64) {
        if self.probability > 0 {
            let times = now.saturating_sub(self.changed) / law.target;
            let decrease = u64::from(law.decrement).saturating_mul(times);
            self.probability =
                self.probability.saturating_sub(u32::try_from(decrease).unwrap_or(u32::MAX));
            self.changed = self.changed.saturating_add(times.saturating_mul(law.target));
        }
        self.count_down(law, now);
    }

    /// Whether nothing is left of an earlier congestion, and the queue was not in use for an
    /// interval.
    pub(crate) fn is_at_rest(&self, now: Nanos) -> bool {
        self.probability == 0 && self.count == 0 && now.0 >= self.drop_next
    }

    /// Reduces the count by one for each signal that was due.
    fn count_down(&mut self, law: &Law, now: u64) {
        while self.count > 0 && now >= self.drop_next {
            self.set_count(law, self.count - 1);
            self.drop_next = self.after(law, self.drop_next);
        }
    }

    /// Sets `n` and computes `1/√n`. For counts from 16 on, the new count may differ by at most 1
    /// from the old count, so that one step of Newton's method finds the root.
    fn set_count(&mut self, law: &Law, count: u32) {
        debug_assert!(
            (count as usize) < law.roots.len() || count.abs_diff(self.count) <= 1,
            "the root of {count} does not follow from that of {}",
            self.count
        );
        self.count = count;
        let small = law.roots.get(count as usize).copied();
        self.below_one = !small.unwrap_or_else(|| improved(!self.below_one, count));
    }

    /// The time of the signal that follows a signal at `time`.
    fn after(&self, law: &Law, time: u64) -> u64 {
        // On a link of a few bits per second the interval is minutes long, so that the product
        // exceeds 64 bits.
        time.saturating_add(((u128::from(law.interval) * u128::from(!self.below_one)) >> 32) as u64)
    }
}

/// One step of Newton's method for `1/√count`, in parts of 2^32. For counts from 16 on, a step from
/// the root of a neighbouring count is practically exact.
const fn improved(root: u32, count: u32) -> u32 {
    let squared = (root as u64 * root as u64) >> 32;
    let rest = (3u64 << 32).wrapping_sub(count as u64 * squared) >> 2;
    (rest.wrapping_mul(root as u64) >> 31) as u32
}

/// `1/√n` for small `n`, for which a single step of Newton's method would be inaccurate.
static ROOTS: [u32; 16] = roots(8);
/// `1/√n` for small `n` in Linux before 6.12. The value for 2 is low by 0.06 %.
static ROOTS_OF_LINUX_6_1: [u32; 16] = roots(4);

/// `1/√n` for small `n`, each computed by `steps` steps from the value for `n - 1`.
const fn roots(steps: u32) -> [u32; 16] {
    let mut roots = [u32::MAX; 16];
    let (mut count, mut root) = (1, u32::MAX);
    while count < roots.len() {
        let mut step = 0;
        while step < steps {
            root = improved(root, count as u32);
            step += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
}

pub(super) const ROW: Row = Row {
    name: "cobalt",
    aliases: &[],
    summary: "CoDel that reduces its drop rate gradually, with BLUE for senders that do not \
              respond",
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
        let packet = Variant::Published.packet_time(1500, rate);
        Law::new(5 * MS, 100 * MS, packet, Stream::new(1, 1, Purpose::Aqm))
    }

    fn seen(arrived: u64, ecn: Ecn) -> Seen {
        Seen { len: 1500, arrived: Nanos(arrived), header: Header { ecn, ..Header::default() } }
    }

    #[test]
    fn roots_of_small_counts_are_exact() {
        for (count, &root) in ROOTS.iter().enumerate().skip(1) {
            let exact = libm::exp2(32.0) / libm::sqrt(count as f64);
            assert!((f64::from(root) - exact).abs() < 1.5, "{count}: {root} {exact}");
        }
    }

    #[test]
    fn the_root_of_2_is_low_before_linux_6_12() {
        let after = |variant, count| {
            let mut law = law(0);
            law.follow(variant);
            let mut state = Control::new(&law);
            state.set_count(&law, count);
            state.after(&law, 0)
        };
        assert_eq!(after(Variant::Linux, 2), 70_710_678);
        assert_eq!(after(Variant::Linux61, 2), 70_670_846);
        for count in [1, 3, 4, 15] {
            let late = after(Variant::Linux, count) - after(Variant::Linux61, count);
            assert!(late < 3, "{count}: {late} ns");
        }
    }

    #[test]
    fn the_variants_differ_in_the_first_signal() {
        let variants = [(Variant::Published, 107), (Variant::Linux, 8), (Variant::Linux61, 8)];
        for (variant, at) in variants {
            let mut law = law(0);
            law.follow(variant);
            let mut state = Control::new(&law);
            let first = seen(MS, Ecn::NotEct);
            assert_eq!(state.leave(&mut law, Nanos(MS), &first, false), Verdict::Pass);
            // A packet that has waited for 6 ms leaves each ms from the seventh on.
            let first = (7..200).find(|&time| {
                let packet = seen((time - 6) * MS, Ecn::NotEct);
                state.leave(&mut law, Nanos(time * MS), &packet, false) != Verdict::Pass
            });
            assert_eq!(first, Some(at), "{variant:?}");
        }
    }

    #[test]
    fn roots_are_accurate_to_one_percent_up_and_down() {
        let (law, mut state) = (law(0), Control::default());
        for count in (1..2000u32).chain((1..2000).rev()) {
            state.set_count(&law, count);
            let root = u128::from(!state.below_one);
            // root² · count is 1, in parts of 2^64.
            let one = root * root * u128::from(count);
            assert!(one.abs_diff(1 << 64) < 1 << 57, "{count}: {root}");
        }
    }

    #[test]
    fn the_time_of_a_packet_is_rounded_as_in_linux() {
        // 1500 bytes at 3 Mbit/s take 4 ms; the time of a byte, 2666.6… ns, is rounded down.
        assert_eq!(Variant::Published.packet_time(1500, 3_000_000), 4_000_000);
        assert_eq!(Variant::Linux.packet_time(1500, 3_000_000), 3_999_999);
        assert_eq!(Variant::Linux.packet_time(1500, 8_000_000), 1_500_000);
        assert_eq!(Variant::Linux.packet_time(1500, 0), 0);
        // Rates below 64 byte/s count as 64 byte/s, and the largest product fits.
        assert_eq!(Variant::Linux.packet_time(64, 1), NANOS_PER_SEC);
        assert_eq!(Variant::Linux.packet_time(1 << 22, 1), NANOS_PER_SEC << 16);
        assert_eq!(Variant::Linux.packet_time(1 << 22, 400_000_000_000), 83_886);
    }

    #[test]
    fn slow_links_have_longer_targets() {
        let fast = law(1_000_000_000);
        assert_eq!((fast.target, fast.interval, fast.few), (5 * MS, 100 * MS, 48_000));
        // The transmission of 1500 bytes takes 12 ms.
        let slow = law(1_000_000);
        assert_eq!((slow.target, slow.interval, slow.few), (18 * MS, 113 * MS, 48 * MS));
        assert_eq!(law(100_000).interval, 2 * 180 * MS);
    }

    #[test]
    fn intervals_of_minutes_do_not_overflow() {
        let slow = law(100);
        assert_eq!(slow.interval, 360_000 * MS);
        let mut state = Control::default();
        state.set_count(&slow, 4);
        // The result is half the interval, within the error of a 32-bit root.
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
            // The second signal is due interval/√2 later.
            assert_eq!(decide(1180, 10), Verdict::Pass);
            assert_eq!(decide(1181, 10), signal);
        }
    }

    #[test]
    fn blue_rises_with_overflows_and_falls_while_empty() {
        let (law, mut state) = (law(0), Control::default());
        for ms in [10, 12, 14, 16] {
            state.overflowed(&law, Nanos(ms * MS));
        }
        assert_eq!(state.probability, 2 << 24, "at most one step per target");
        state.emptied(&law, Nanos(30 * MS));
        assert_eq!(state.probability, (2 << 24) - (1 << 20));
        (0..1000).for_each(|n| state.overflowed(&law, Nanos((100 + 6 * n) * MS)));
        assert_eq!(state.probability, u32::MAX);
        state.emptied(&law, Nanos(10_000 * MS));
        state.arrive(&law, Nanos(1_000_000_000 * MS));
        assert_eq!((state.probability, state.count), (0, 0));
    }

    #[test]
    fn an_unresponsive_flow_has_random_drops_except_its_last_packet() {
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

    /// A queue becomes empty after `count` signals and stays empty for `gap` ms; the next signal is
    /// due after `first` ms. Returns the state of the queue at the next arrival, and its state
    /// after polls every `target`.
    fn idle_states(count: u32, probability: u32, gap: u64, first: u64) -> (Control, Control) {
        let law = law(0);
        let mut state = Control {
            probability,
            changed: 1000 * MS,
            drop_next: (1000 + first) * MS,
            ..Control::default()
        };
        // The root follows the count in steps of 1: a larger step would leave a wrong root.
        (1..=count).for_each(|count| state.set_count(&law, count));
        let mut polled = state.clone();
        state.empty = true;
        let end = (1000 + gap) * MS;
        let mut now = 1000 * MS;
        while now + law.target <= end {
            now += law.target;
            // Each poll is 1 ns late, so that more than `target` has passed.
            polled.changed = polled.changed.min(now - law.target);
            polled.emptied(&law, Nanos(now + 1));
            polled.changed = polled.changed.min(now);
            while polled.count > 0 && now >= polled.drop_next {
                polled.emptied(&law, Nanos(now));
            }
        }
        state.arrive(&law, Nanos(end));
        (state, polled)
    }

    #[test]
    fn an_idle_time_after_many_signals_is_caught_up_in_one_step() {
        let (state, polled) = idle_states(47, 0, 619, 0);
        assert_eq!((state.count, polled.count), (14, 14));
    }

    proptest! {
        #[test]
        fn an_idle_time_is_caught_up_in_one_step(
            count in 0u32..50,
            probability in 0u32..1 << 26,
            gap in 0u64..2_000,
            first in 0u64..20,
        ) {
            let (state, polled) = idle_states(count, probability, gap, first);
            prop_assert_eq!(state.probability, polled.probability);
            prop_assert!(polled.count.abs_diff(state.count) <= 1);
        }
    }
}
