//! `CoDel`: drops packets when the sojourn time has been above a target for a whole interval.
//!
//! # Model
//! A queue that absorbs a short burst is useful; a queue that never empties only adds delay.
//! `CoDel` checks the sojourn time of each packet that reaches the head. When the sojourn time has
//! been above `target` for a whole `interval`, `CoDel` drops one packet, and then drops packets at
//! a growing rate until a packet has waited for less than `target`. It needs neither the rate of
//! the link nor the length of the queue, and its two settings fit most networks.
//!
//! # Equations
//! `t` is the time at which the last drop was due, and `n` is the number of drops since dropping
//! began. The next drop is at
//!
//! ```text
//! t + interval / √n
//! ```
//!
//! If a queue begins to drop again less than 16 intervals after its next drop would have been due,
//! it resumes with the last `n`, less the `n` with which the last dropping state began. `arith`
//! selects how the root is computed:
//!
//! * `linux`: time is in ticks of 1.024 us. `1/√n` has 16 bits, and each drop improves it by one
//!   step of Newton's method. The first values are inaccurate: for `n` from 1 to 8 they are 65535,
//!   32769, 36864, 31968, 28935, 26481, 24588 and 23037 parts of 65536. The second gap is therefore
//!   half an interval and not 0.71 intervals.
//! * `ns3`: as `linux`, but the time to the next mark begins when a packet was marked, not when the
//!   mark was due.
//! * `rfc`: time is in ns, and the root is exact to the ns.
//!
//! # Reference
//! Nichols and Jacobson, "Controlling queue delay", ACM Queue 10(5), 2012; RFC 8289.
//!
//! # Parameters
//! `target` 1us..10s, default 5ms: the acceptable standing delay; 5 to 10 % of the interval.
//! `interval` 2us..4s, default 100ms: about the longest round-trip time of the traffic. `ecn`,
//! default off: ECN-capable packets are marked instead of dropped. `mtu` 0..4194304 bytes, default
//! 1500: no drop while at most this many bytes wait behind a packet; 0 means the length of the
//! largest packet so far, as in RFC 8289. `ce_threshold`, default 0 for none: packets that waited
//! longer than this time are always marked. `ce_selector` `any` or `ect1`: whether `ce_threshold`
//! applies to all ECN-capable packets or only to ECT(1). `arith` `linux`, `rfc` or `ns3`, default
//! `linux`: the arithmetic, as described above.
//!
//! # Complexity
//! O(1) without a division. With `arith rfc`, each drop takes a division and a square root.
//!
//! # Guarantees
//! No packet is dropped while packets wait for less than `target`, or while fewer than `mtu` bytes
//! wait. The last packet of a queue is not dropped.
//!
//! # Statistics
//! `count`: `n`. `dropping`: 1 in the dropping state, else 0. `drop_next`: the time of the next
//! drop, in ns.
//!
//! # Differences from Linux/FreeBSD
//! `arith linux` makes the same decisions as Linux, packet by packet, but time does not wrap after
//! 73 minutes. In Linux, in the first 16 intervals after time 0 or after a wrap, a queue that
//! overflowed before its first dropping state resumes a drop rate with a root of 0 and loses all
//! its packets but the last. This does not occur here. `mtu` counts from the network layer, so 1500
//! corresponds to 1514 in Linux. ns-3 drops as Linux does and marks less often (see above). Linux
//! drops no packet while exactly `mtu` bytes wait; ns-3 may.
//!
//! # Validation
//! Tests compare drops, times and states with ns-3 and with recordings of Linux. A property test
//! checks that the law spaces the drops of a busy queue. Decisions about single packets are
//! compared with the published loop, which may drop several packets in one dequeue.

use alloc::vec::Vec;

use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::packet::Ecn;
use crate::settings::{Number, Setting, Switch, Time};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;
use crate::{choice, settings};

settings! {
    /// Settings of `CoDel`.
    pub(crate) struct Settings {
        target: Nanos = TARGET,
        interval: Nanos = INTERVAL,
        ecn: bool = ECN,
        mtu: u64 = MTU,
        ce_threshold: Nanos = CE_THRESHOLD,
        ce_selector: CeSelector = CE_SELECTOR,
        arith: Arith = ARITH,
    }
}

choice! {
    /// The packets that `ce_threshold` marks.
    pub(crate) enum CeSelector {
        Any = "any",
        Ect1 = "ect1",
    }
}

choice! {
    /// The arithmetic of times and roots.
    pub(crate) enum Arith {
        Linux = "linux",
        Rfc = "rfc",
        Ns3 = "ns3",
    }
}

/// `CoDel` for one queue.
#[derive(Debug)]
pub struct Codel {
    law: Law,
    state: Control,
}

impl Codel {
    /// A new AQM, before the first packet.
    pub fn new(policy: &Policy, _setup: &Setup) -> Self {
        Self { law: Law::new(&Settings::of(policy)), state: Control::default() }
    }
}

impl Aqm for Codel {
    #[inline]
    fn arrive(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.state.leave(&mut self.law, now, packet, queue.bytes)
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let Control { count, dropping, drop_next, .. } = self.state;
        [
            ("count", count.into()),
            ("dropping", dropping.into()),
            ("drop_next", self.law.in_ns(drop_next)),
        ]
        .into()
    }
}

/// The settings in the units of the algorithm; many queues can share them. Times are in ticks: ns
/// shifted right by `shift`.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    target: u64,
    interval: u64,
    /// `interval` squared, from which the exact root is computed.
    square: u64,
    ce_threshold: u64,
    /// No packet is dropped while at most this many bytes wait behind it.
    mtu: u64,
    /// Whether `mtu` grows to the length of the largest packet.
    grows: bool,
    ecn: bool,
    /// Whether `ce_threshold` applies only to ECT(1).
    ce_ect1_only: bool,
    /// Whether the root is exact (`arith rfc`).
    exact: bool,
    /// Whether the gap to the next mark begins when the last packet was marked, rather than when
    /// the mark was due.
    from_mark: bool,
    shift: u32,
}

impl Law {
    pub(crate) fn new(settings: &Settings) -> Self {
        let exact = settings.arith == Arith::Rfc;
        let from_mark = settings.arith == Arith::Ns3;
        let shift = if exact { 0 } else { TICK };
        let interval = settings.interval.0 >> shift;
        Self {
            target: settings.target.0 >> shift,
            interval,
            square: if exact { interval * interval } else { 0 },
            ce_threshold: match settings.ce_threshold {
                Nanos::ZERO => u64::MAX,
                threshold => threshold.0 >> shift,
            },
            mtu: settings.mtu.saturating_sub(from_mark.into()),
            grows: settings.mtu == 0,
            ecn: settings.ecn,
            ce_ect1_only: settings.ce_selector == CeSelector::Ect1,
            exact,
            from_mark,
            shift,
        }
    }

    /// The target in ticks.
    pub(crate) fn target(&self) -> u64 {
        self.target
    }

    /// Sets the target for the next packet, in ticks.
    #[inline]
    pub(crate) fn set_target(&mut self, ticks: u64) {
        self.target = ticks;
    }

    pub(crate) fn in_ns(&self, ticks: u64) -> u64 {
        ticks << self.shift
    }

    /// Whether the packet can be marked instead of dropped.
    #[inline]
    fn may_mark(&self, packet: &Seen) -> bool {
        self.ecn && packet.header.ecn.is_capable()
    }

    /// The verdict about a packet that is not dropped: a mark if it waited longer than
    /// `ce_threshold`.
    #[inline]
    fn pass(&self, delay: u64, packet: &Seen) -> Verdict {
        let ecn = packet.header.ecn;
        if delay > self.ce_threshold
            && if self.ce_ect1_only { ecn == Ecn::Ect1 } else { ecn.is_capable() }
        {
            return Verdict::Mark(MarkReason::CeThreshold);
        }
        Verdict::Pass
    }
}

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// The time at which the delay will have been above the target for an interval; 0 while the
    /// delay is below the target or at most `mtu` bytes wait.
    first_above: u64,
    /// The time of the next drop in the dropping state; afterwards, the time at which the next drop
    /// would have been due.
    drop_next: u64,
    /// `n`, and its value when dropping began.
    count: u32,
    last_count: u32,
    /// `1/√n` in parts of 2^16.
    inverse_root: u16,
    dropping: bool,
    /// Whether the previous packet was dropped, except by the first drop of a dropping state. The
    /// next packet then decides whether the next drop is scheduled or dropping ends.
    owes: bool,
}

const _: () = assert!(size_of::<Control>() == 32, "the state and its queue fill one cache line");

impl Control {
    /// Decides about the packet at the head, while `bytes` bytes wait behind it.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        law: &mut Law,
        now: Nanos,
        packet: &Seen,
        bytes: u64,
    ) -> Verdict {
        if law.grows {
            law.mtu = law.mtu.max(packet.len.into());
        }
        let now = now.0 >> law.shift;
        let delay = now.saturating_sub(packet.arrived.0 >> law.shift);
        if delay < law.target || bytes <= law.mtu {
            self.first_above = 0;
            (self.dropping, self.owes) = (false, false);
            return law.pass(delay, packet);
        }
        self.leave_late(law, now, delay, packet)
    }

    /// Decides about a packet that waited at least as long as the target.
    #[inline(never)]
    fn leave_late(&mut self, law: &Law, now: u64, delay: u64, packet: &Seen) -> Verdict {
        let for_long = self.first_above != 0 && now + u64::from(law.exact) > self.first_above;
        if self.first_above == 0 {
            self.first_above = now.saturating_add(law.interval);
        }
        if !for_long {
            (self.dropping, self.owes) = (false, false);
            return law.pass(delay, packet);
        }
        if !self.dropping {
            self.begin(law, now);
        } else {
            if core::mem::take(&mut self.owes) {
                self.drop_next = self.after(law, self.drop_next);
            }
            if now < self.drop_next {
                return law.pass(delay, packet);
            }
            self.count = self.count.wrapping_add(1);
            self.improve_root(law);
            self.owes = !law.may_mark(packet);
            if !self.owes {
                self.drop_next = self.after(law, if law.from_mark { now } else { self.drop_next });
            }
        }
        if law.may_mark(packet) {
            Verdict::Mark(MarkReason::Target)
        } else {
            Verdict::Drop(DropReason::Target)
        }
    }

    fn begin(&mut self, law: &Law, now: u64) {
        self.dropping = true;
        let gained = self.count.wrapping_sub(self.last_count);
        // Before the first dropping state there is no drop rate that could be resumed. An overflow
        // may have raised the count before that state, but it does not compute the root of the new
        // count.
        let lately =
            self.last_count > 0 && now < self.drop_next.saturating_add(LATELY * law.interval);
        if gained > 1 && lately {
            self.count = gained;
            self.improve_root(law);
        } else {
            (self.count, self.inverse_root) = (1, u16::MAX);
        }
        self.last_count = self.count;
        self.drop_next = self.after(law, now);
    }

    /// The time of the next drop after a drop at `time`.
    fn after(&self, law: &Law, time: u64) -> u64 {
        let gap = if law.exact {
            (law.square / u64::from(self.count.max(1))).isqrt()
        } else {
            (law.interval * u64::from(self.inverse_root)) >> 16
        };
        time.saturating_add(gap)
    }

    /// One step of Newton's method for `1/√n`, computed with 32 bits of which 16 are kept. Far from
    /// the root, such as after a sudden growth of `n`, the step overshoots and numbers wrap, as
    /// they do in Linux.
    fn improve_root(&mut self, law: &Law) {
        if law.exact {
            return;
        }
        let root = u64::from(self.inverse_root) << 16;
        let squared = (root * root) >> 32;
        let three = 3u64 << 32;
        let rest = three.wrapping_sub(u64::from(self.count) * squared) >> 2;
        self.inverse_root = (rest.wrapping_mul(root) >> 47) as u16;
    }

    /// Ends the dropping state, because the scheduler found the queue empty.
    pub(crate) fn emptied(&mut self) {
        self.first_above = 0;
        (self.dropping, self.owes) = (false, false);
    }

    /// Raises the drop rate, because the queue had no room for `packets` packets.
    pub(crate) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.wrapping_add(packets);
    }
}

/// Linux's tick is 2^10 ns.
const TICK: u32 = 10;
/// The queue forgets its drop rate this many intervals after its next drop would have been due.
const LATELY: u64 = 16;

pub(crate) const TARGET: Time =
    Time::new(1_000, 10_000_000_000, 5_000_000, "acceptable standing delay");

/// The square of the interval must fit in 64 bits.
pub(crate) const INTERVAL: Time = Time::new(
    2_000,
    4_000_000_000,
    100_000_000,
    "how long the delay must be above target before packets are dropped",
);

pub(crate) const ECN: Switch =
    Switch::new(false, "marks ECN-capable packets instead of dropping them");

pub(crate) const MTU: Number = Number::new(
    0,
    4_194_304,
    "bytes",
    1500,
    "no drop while at most this many bytes wait; 0: the largest packet so far",
);

pub(crate) const CE_THRESHOLD: Time =
    Time::new(0, 10_000_000_000, 0, "packets that waited longer are marked; 0: none");

pub(crate) const CE_SELECTOR: Setting<CeSelector> =
    CeSelector::setting(CeSelector::Any, "which packets ce_threshold marks");

pub(crate) const ARITH: Setting<Arith> = Arith::setting(
    Arith::Linux,
    "arithmetic: ticks and approximate roots as in Linux or ns-3, or exact roots",
);

pub(super) const ROW: Row = Row {
    name: "codel",
    aliases: &[],
    summary: "drops at a growing rate once packets have waited longer than a target for an \
              interval",
    source: "RFC 8289",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::Kind;

    fn law(settings: &[(&str, &str)]) -> Law {
        let mut policy = Policy::new(Kind::Codel);
        settings.iter().for_each(|(name, value)| policy.set(name, value).unwrap());
        Law::new(&Settings::of(&policy))
    }

    #[test]
    fn one_step_of_newton_gives_the_roots_of_linux() {
        let law = law(&[]);
        let mut state = Control { count: 1, inverse_root: u16::MAX, ..Control::default() };
        let mut roots = [state.inverse_root; 8];
        for root in &mut roots[1..] {
            state.count += 1;
            state.improve_root(&law);
            *root = state.inverse_root;
        }
        assert_eq!(roots, [65_535, 32_769, 36_864, 31_968, 28_935, 26_481, 24_588, 23_037]);
    }

    #[test]
    fn the_exact_root_is_exact() {
        let law = law(&[("arith", "rfc"), ("interval", "4s")]);
        for count in [1, 2, 3, 5, 100, 12_345, u32::MAX] {
            let gap = u128::from(Control { count, ..Control::default() }.after(&law, 0));
            let square = 16 * 10u128.pow(18);
            assert!(
                gap * gap * u128::from(count) <= square
                    && (gap + 1) * (gap + 1) * u128::from(count) > square,
                "{count}"
            );
        }
    }

    #[test]
    fn a_sudden_growth_of_the_count_is_harmless() {
        let law = law(&[]);
        for packets in [2, 64, 1 << 20, u32::MAX] {
            let mut state = Control { count: 1, inverse_root: u16::MAX, ..Control::default() };
            state.overflowed(packets);
            for _ in 0..100 {
                state.improve_root(&law);
                assert!(state.after(&law, 1 << 40) <= (1 << 40) + law.interval);
            }
        }
    }

    #[test]
    fn ce_threshold_marks_the_packets_of_the_selector() {
        let seen = |ecn| Seen {
            len: 1500,
            arrived: Nanos::ZERO,
            header: crate::packet::Header { ecn, dscp: 0, hash: 0 },
        };
        for (selector, marked) in
            [("any", [false, true, true, true]), ("ect1", [false, true, false, false])]
        {
            let mut law = law(&[("ce_threshold", "1ms"), ("ce_selector", selector)]);
            for (ecn, marked) in
                [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().zip(marked)
            {
                let mut decide =
                    |us| Control::default().leave(&mut law, Nanos::from_micros(us), &seen(ecn), 0);
                assert_eq!(decide(900), Verdict::Pass);
                assert_eq!(
                    decide(1100) == Verdict::Mark(MarkReason::CeThreshold),
                    marked,
                    "{selector} {ecn:?}"
                );
            }
        }
    }
}
