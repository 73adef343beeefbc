//! PIE for one queue: the control law and the state. The law and the state are separate types,
//! because the queues of one scheduler share the law.
//!
//! [`super::pie`] describes the algorithm.

use super::jiffies;
use super::pace::{Method, Pace};
use super::pie_settings::{Derand, Qdelay, Settings, Variant};
use super::proportional::{Gain, ONE, Periods, happens, moved, probability, reduced};
use super::{QueueState, Seen, Verdict};
use crate::rng::Stream;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// The method that measures the delay of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// The sojourn time of the packet that left last.
    Timestamp,
    /// The queue's length divided by its departure rate.
    DepartureRate,
}

/// The settings of PIE, with times in ns and probabilities in parts of 2^56.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    variant: Variant,
    measure: Measure,
    target: u64,
    tupdate: u64,
    alpha: Gain,
    beta: Gain,
    max_burst: u64,
    max_ecnth: u64,
    ecn: bool,
    capdrop: bool,
    derand: bool,
    onoff: bool,
    /// The factor of `p` for each byte of a packet, in parts of 2^32; 0 when the length is ignored.
    per_byte: u64,
    /// No packet is dropped while at most this many bytes wait.
    least_bytes: u64,
    /// With `onoff`, the queue lengths in packets and in bytes from which PIE becomes active.
    active_packets: u32,
    active_bytes: u64,
}

/// The state of PIE for one queue.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The probability, which exceeds 1 only in Linux, and its sum over the packets since the last
    /// drop, or since the last mark that a random draw selected.
    pub(crate) p: u64,
    sum: u64,
    /// The current delay, and the delay at the last update, in ns.
    delay: u64,
    old: u64,
    /// The rest of the burst allowance in ns: no packet is dropped while it lasts.
    burst: u64,
    periods: Periods,
    /// Whether PIE is active, which it always is without `onoff`.
    active: bool,
    /// The time of the last departure, for Linux's burst allowance.
    last_departure: Option<Nanos>,
    pace: Pace,
}

impl Law {
    /// The law for these settings, for a queue with these limits.
    pub(crate) fn new(settings: &Settings, limit_packets: u32, limit_bytes: u64) -> Self {
        let variant = settings.variant;
        let measure = match (settings.qdelay, variant) {
            (Qdelay::DepartureRate, _) | (Qdelay::Auto, Variant::Dummynet) => {
                Measure::DepartureRate
            }
            (Qdelay::Timestamp, _) | (Qdelay::Auto, _) => Measure::Timestamp,
        };
        let (mean, least_bytes) = match (u64::from(settings.mean_pkt), variant) {
            (0, Variant::Rfc) => (1000, 2000),
            (0, Variant::Linux) => (1500, 2999),
            (0, Variant::Dummynet) => (800, 1600),
            (mean, Variant::Linux) => (mean, 2 * mean - 1),
            (mean, _) => (mean, 2 * mean),
        };
        Self {
            variant,
            measure,
            target: settings.target.0,
            tupdate: match variant {
                Variant::Linux => jiffies::period(settings.tupdate.0, settings.hz),
                Variant::Rfc | Variant::Dummynet => settings.tupdate.0,
            },
            alpha: Gain::per_second(settings.alpha),
            beta: Gain::per_second(settings.beta),
            max_burst: settings.max_burst.0,
            max_ecnth: probability(settings.max_ecnth),
            ecn: settings.ecn,
            capdrop: settings.capdrop,
            derand: match settings.derand {
                Derand::Auto => variant != Variant::Rfc,
                Derand::Off => false,
                Derand::On => true,
            },
            onoff: settings.onoff,
            per_byte: if settings.bytemode { (1 << 32) / mean } else { 0 },
            least_bytes,
            active_packets: limit_packets / 3,
            active_bytes: limit_bytes / 3,
        }
    }

    /// The law for each of `queues` queues of a scheduler. Linux updates [`AT_ONCE`] queues in one
    /// run of its timer, and further queues in the following ticks.
    pub(crate) fn of_queues(self, settings: &Settings, queues: u32) -> Self {
        let more = u64::from(queues.div_ceil(AT_ONCE).saturating_sub(1));
        match self.variant {
            Variant::Linux => {
                Self { tupdate: self.tupdate + jiffies::span(more, settings.hz), ..self }
            }
            Variant::Rfc | Variant::Dummynet => self,
        }
    }

    /// Whether each queue of a scheduler resets its state when a packet arrives at the empty queue.
    pub(crate) fn forgets(&self) -> bool {
        self.variant == Variant::Dummynet
    }

    /// Whether a scheduler of many queues drops the arriving packet when it has no room.
    pub(crate) fn drops_tail(&self) -> bool {
        self.variant == Variant::Linux
    }

    /// The state of an empty queue.
    pub(crate) fn state(&self) -> State {
        State {
            p: 0,
            sum: 0,
            delay: 0,
            old: 0,
            burst: self.max_burst,
            periods: Periods::default(),
            active: !self.onoff,
            last_departure: None,
            pace: Pace::default(),
        }
    }
}

impl State {
    /// Notes that a packet was dropped, but not by PIE. Such a drop also signals congestion to the
    /// sender.
    pub(crate) fn dropped(&mut self) {
        self.sum = 0;
    }

    pub(crate) fn delay(&self) -> Nanos {
        Nanos(self.delay)
    }

    pub(crate) fn burst(&self) -> Nanos {
        Nanos(self.burst)
    }
}

// Decisions about packets.
impl Law {
    #[inline]
    pub(crate) fn arrive(
        &self,
        state: &mut State,
        now: Nanos,
        packet: &Seen,
        queue: &QueueState,
        stream: &mut Stream,
    ) -> Verdict {
        self.catch_up(state, now, queue.bytes);
        let decided = if queue.full {
            Verdict::Pass
        } else if state.active
            && state.burst == 0
            && self.hits(state, packet.len, queue.bytes, stream)
        {
            self.signal(state, packet)
        } else {
            Verdict::Pass
        };
        // A drop signals congestion to the sender, whatever its reason.
        if queue.full || matches!(decided, Verdict::Drop(_)) {
            state.sum = 0;
        }
        if state.p == 0 || !state.active {
            self.update_idle(state, queue);
        }
        decided
    }

    /// Whether the packet is selected for a drop or mark.
    #[inline]
    fn hits(&self, state: &mut State, len: u32, bytes: u64, stream: &mut Stream) -> bool {
        let delay = if self.variant == Variant::Linux { state.delay } else { state.old };
        if delay < self.target / 2 && state.p < FIFTH || bytes <= self.least_bytes {
            return false;
        }
        let p = match self.per_byte {
            0 => state.p,
            per_byte => ((u128::from(state.p) * u128::from(per_byte * u64::from(len))) >> 32)
                .min(u128::from(self.most())) as u64,
        };
        if self.derand {
            // Linux's sum wraps too.
            state.sum = if p == 0 { 0 } else { state.sum.wrapping_add(p) };
            if state.sum < MIN_SUM {
                return false;
            }
            if state.sum >= MAX_SUM {
                return true;
            }
        }
        let hit = happens(p, stream.bits());
        if hit {
            state.sum = 0;
        }
        hit
    }

    /// The verdict about a selected packet: a mark if the packet is ECN-capable and the probability
    /// is low enough, else a drop.
    fn signal(&self, state: &State, packet: &Seen) -> Verdict {
        let enough =
            state.p < self.max_ecnth || self.variant == Variant::Linux && state.p == self.max_ecnth;
        if self.ecn && enough && packet.header.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }

    /// While the probability is 0, renews the burst allowance if the delay has been low; in Linux,
    /// [`Self::step`] renews it instead. With `onoff`, deactivates PIE when the queue is idle, and
    /// activates it when the queue is a third full.
    fn update_idle(&self, state: &mut State, queue: &QueueState) {
        if !state.active {
            if queue.packets >= self.active_packets || queue.bytes >= self.active_bytes {
                *state = State { active: true, ..self.state() };
            }
            return;
        }
        let half = self.target / 2;
        let short = state.delay < half && state.old < half;
        if short && self.variant != Variant::Linux {
            state.burst = self.max_burst;
        }
        let idle = queue.packets == 0
            && if self.variant == Variant::Rfc {
                state.delay == 0 && state.old == 0
            } else {
                short
            };
        if self.onoff && idle {
            state.active = false;
        }
    }

    /// Measures the delay at the departure of `packet`; `queue` does not count this packet.
    #[inline]
    pub(crate) fn leave(&self, state: &mut State, now: Nanos, packet: &Seen, queue: &QueueState) {
        self.catch_up(state, now, queue.bytes + u64::from(packet.len));
        match self.measure {
            Measure::Timestamp => {
                let empty = queue.packets == 0 && self.variant != Variant::Dummynet;
                state.delay = if empty { 0 } else { now.since(packet.arrived).0 };
                if self.variant == Variant::Linux {
                    let last = state.last_departure.replace(now).unwrap_or(now);
                    state.burst = state.burst.saturating_sub(now.since(last).0);
                }
            }
            Measure::DepartureRate => {
                let took = state.pace.leaves(self.method(), now, packet.len, queue.bytes);
                if self.variant == Variant::Linux {
                    state.burst = state.burst.saturating_sub(took);
                }
            }
        }
    }
}

// The control law.
impl Law {
    fn method(&self) -> Method {
        if self.variant == Variant::Linux { Method::Linux } else { Method::Rfc }
    }

    /// The largest probability: 1, or almost 256 in Linux.
    fn most(&self) -> u64 {
        if self.variant == Variant::Linux { u64::MAX } else { ONE }
    }

    /// `p` changed by `change`. In Linux, a probability beyond the largest one falls back to 1.
    fn moved(&self, p: u64, change: i128) -> u64 {
        match self.variant {
            Variant::Linux => {
                u64::try_from(i128::from(p).saturating_add(change).max(0)).unwrap_or(ONE)
            }
            Variant::Rfc | Variant::Dummynet => moved(p, change, ONE),
        }
    }

    /// Computes the updates that are due; the queue has held `bytes` bytes since the last packet.
    #[inline]
    fn catch_up(&self, state: &mut State, now: Nanos, bytes: u64) {
        let ended = state.periods.ended(now, self.tupdate);
        if ended > 0 {
            self.update(state, ended, bytes);
        }
    }

    /// Computes `updates` updates, between which the queue did not change. Once the delay equals
    /// that of the previous update, every update with the same gain adds the same amount, so that
    /// these updates become one step.
    #[inline(never)]
    fn update(&self, state: &mut State, updates: u64, bytes: u64) {
        if !state.active {
            return;
        }
        let mut remaining = updates;
        while remaining > 0 {
            let before = (state.p, state.old);
            self.step(state, bytes);
            remaining -= 1;
            if state.old != before.1 || self.sense(state, bytes) != state.old {
                continue;
            }
            if state.p == before.0 {
                return self.spend(state, remaining);
            }
            // Without a delay, `p` decays; but not in Linux while packets wait.
            if state.old > 0 || self.variant == Variant::Linux && bytes > 0 {
                remaining -= self.leap(state, remaining);
            }
        }
    }

    /// The delay at an update, in ns.
    fn sense(&self, state: &State, bytes: u64) -> u64 {
        match self.measure {
            Measure::DepartureRate => state.pace.delay(self.method(), bytes),
            Measure::Timestamp if bytes == 0 && self.variant == Variant::Dummynet => 0,
            Measure::Timestamp => state.delay,
        }
    }

    fn step(&self, state: &mut State, bytes: u64) {
        state.delay = self.sense(state, bytes);
        let (delay, old) = (state.delay, state.old);
        state.p = self.moved(state.p, self.change(state.p, delay, old));
        if delay == 0 && old == 0 {
            state.p -= match self.variant {
                Variant::Rfc => state.p.div_ceil(50),
                Variant::Linux if bytes > 0 => 0,
                Variant::Linux | Variant::Dummynet => state.p >> 6,
            };
        }
        state.old = delay;
        self.spend(state, 1);
        let half = self.target / 2;
        let known = self.measure == Measure::Timestamp || state.pace.is_known();
        if self.variant == Variant::Linux && state.p == 0 && delay < half && old < half && known {
            (state.burst, state.sum, state.last_departure, state.pace) =
                (self.max_burst, 0, None, Pace::default());
        }
    }

    /// Reduces the burst allowance by the time of `updates` updates. With Linux, departures reduce
    /// it instead.
    fn spend(&self, state: &mut State, updates: u64) {
        if self.variant != Variant::Linux {
            state.burst = state.burst.saturating_sub(updates.saturating_mul(self.tupdate));
        }
    }

    /// The change of the probability `p` by one update with this delay and the previous one.
    fn change(&self, p: u64, delay: u64, old: u64) -> i128 {
        let [delay, old, target] = [delay, old, self.target].map(i128::from);
        let full = self.alpha.times(delay - target).saturating_add(self.beta.times(delay - old));
        let mut change = reduced(full, band(p).2);
        if self.capdrop && p >= TENTH && change > FIFTIETH {
            change = FIFTIETH;
        }
        if self.variant == Variant::Linux && delay > LONG {
            change += FIFTIETH;
        }
        change
    }

    /// Computes up to `most` updates with the same gain in one step, and returns their number. The
    /// delay must be constant, and `p` must not decay.
    fn leap(&self, state: &mut State, most: u64) -> u64 {
        let change = self.change(state.p, state.delay, state.delay);
        let (low, high, _) = band(state.p);
        if self.variant == Variant::Linux && low == TENTH && change > 0 {
            state.p = risen(state.p, u64::try_from(change).unwrap_or(u64::MAX), most);
            return most;
        }
        let room = if change > 0 {
            high.saturating_sub(state.p + 1)
        } else {
            state.p.saturating_sub(low + 1)
        };
        let fit = u128::from(room) / change.unsigned_abs().max(1);
        let updates = u64::try_from(fit).unwrap_or(u64::MAX).min(most);
        state.p = self.moved(state.p, change.saturating_mul(i128::from(updates)));
        self.spend(state, updates);
        updates
    }
}

/// Linux's `p` after `times` steps of `step`: a step beyond 2^64 leads to 1.
fn risen(p: u64, step: u64, times: u64) -> u64 {
    let fit = (u64::MAX - p) / step;
    match times.checked_sub(fit + 1) {
        None => p + step * times,
        Some(more) => ONE + step * (more % ((u64::MAX - ONE) / step + 1)),
    }
}

/// The range of probabilities with the same gain as `p`, and the number of bits by which that gain
/// is shifted below the full gain.
fn band(p: u64) -> (u64, u64, u32) {
    let mut low = 0;
    for (edge, bits) in BANDS {
        if p < edge {
            return (low, edge, bits);
        }
        low = edge;
    }
    (low, ONE, 0)
}

/// Upper ends of probability ranges, each with the number of bits by which the gain is shifted down
/// within the range.
const BANDS: [(u64, u32); 6] = [
    (ONE / 1_000_000, 11),
    (ONE / 100_000, 9),
    (ONE / 10_000, 7),
    (ONE / 1_000, 5),
    (ONE / 100, 3),
    (ONE / 10, 1),
];
/// The number of queues that Linux updates in one run of its timer.
const AT_ONCE: u32 = 2048;
const TENTH: u64 = ONE / 10;
const FIFTH: u64 = ONE / 5;
/// A change of the probability by 0.02.
const FIFTIETH: i128 = (ONE / 50) as i128;
/// The sum of probabilities from which the draw decides: 0.85. Below it, no packet is selected.
const MIN_SUM: u64 = ONE / 20 * 17;
/// The sum of probabilities from which every packet is selected: 8.5.
const MAX_SUM: u64 = ONE / 2 * 17;
/// The delay in ns above which Linux raises the probability faster.
const LONG: i128 = 250_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aqm::{Kind, Policy};
    use crate::settings::{Domain, Fraction, UNIT};
    use proptest::prelude::*;

    fn law(settings: &[(&str, &str)]) -> Law {
        let mut policy = Policy::new(Kind::Pie);
        for (name, value) in settings {
            policy.set(name, value).unwrap();
        }
        Law::new(&Settings::of(&policy), 300, u64::MAX)
    }

    const VARIANTS: [&str; 3] = ["rfc", "linux", "dummynet"];

    #[test]
    fn gains_follow_the_table() {
        let law = law(&[("capdrop", "off")]);
        let full = law.change(ONE / 2, 115_000_000, 15_000_000);
        // 0.125 / s × 100 ms + 1.25 / s × 100 ms.
        assert!(full.abs_diff((ONE / 80 * 11) as i128) < 100, "{full}");
        for (billionths, scale) in [
            (0, 2048),
            (999, 2048),
            (1_000, 512),
            (9_999, 512),
            (10_000, 128),
            (100_000, 32),
            (1_000_000, 8),
            (10_000_000, 2),
            (99_999_999, 2),
        ] {
            // The argument is one part larger, because `probability` rounds down.
            assert_eq!(
                law.change(probability(Fraction(billionths)) + 1, 115_000_000, 15_000_000),
                full / scale,
                "{billionths}"
            );
        }
        for p in [0, 1, TENTH - 1, TENTH, ONE - 1, ONE] {
            let (low, high, _) = band(p);
            assert!(low <= p && (p < high || p == ONE));
        }
    }

    #[test]
    fn above_ten_percent_the_probability_rises_by_at_most_two_percent() {
        for variant in VARIANTS {
            let capped = law(&[("variant", variant)]);
            let free = law(&[("variant", variant), ("capdrop", "off")]);
            let change = |law: &Law, p| law.change(p, 240_000_000, 100_000_000);
            assert_eq!(change(&capped, TENTH), FIFTIETH);
            assert!(change(&free, TENTH) > FIFTIETH && change(&capped, TENTH - 1) > FIFTIETH);
            // The size of a decrease is not bounded.
            assert!(capped.change(ONE, 0, 200_000_000) < -10 * FIFTIETH);
            let more = if variant == "linux" { FIFTIETH } else { 0 };
            assert_eq!(
                capped.change(ONE / 2, 251_000_000, 251_000_000),
                FIFTIETH + more,
                "{variant}"
            );
        }
    }

    #[test]
    fn each_variant_lets_p_decay_as_documented() {
        for (variant, bytes, part) in [
            ("rfc", 0, 0.98),
            ("linux", 0, 63.0 / 64.0),
            ("linux", 1, 1.0),
            ("dummynet", 0, 63.0 / 64.0),
        ] {
            let law = law(&[("variant", variant), ("qdelay", "ts"), ("alpha", "0")]);
            let mut state = State { p: ONE / 2, ..law.state() };
            law.step(&mut state, bytes);
            assert!((state.p as f64 / (ONE as f64 / 2.0) - part).abs() < 1e-12, "{variant}");
        }
    }

    #[test]
    fn marks_stop_at_the_threshold_and_linux_includes_the_threshold() {
        let packet = Seen {
            len: 1000,
            arrived: Nanos::ZERO,
            header: crate::packet::Header { ecn: crate::packet::Ecn::Ect0, ..Default::default() },
        };
        for (variant, at) in VARIANTS.into_iter().zip([false, true, false]) {
            let law = law(&[("variant", variant), ("ecn", "on"), ("max_ecnth", "0.3")]);
            let marks = |p| {
                law.signal(&State { p, ..law.state() }, &packet) == Verdict::Mark(MarkReason::Early)
            };
            assert_eq!(
                [law.max_ecnth - 1, law.max_ecnth, law.max_ecnth + 1].map(marks),
                [true, at, false],
                "{variant}"
            );
        }
    }

    #[test]
    fn linux_updates_many_queues_over_several_ticks() {
        let mut policy = Policy::new(Kind::Pie);
        policy.set("variant", "linux").unwrap();
        let settings = Settings::of(&policy);
        for (queues, ms) in [(1, 20), (2048, 20), (2049, 24), (65_536, 20 + 31 * 4)] {
            let law = Law::new(&settings, 1, 1).of_queues(&settings, queues);
            assert_eq!(law.tupdate, ms * 1_000_000, "{queues}");
        }
    }

    #[test]
    fn linux_falls_back_to_one_beyond_256() {
        let law = law(&[("variant", "linux"), ("qdelay", "ts")]);
        let state = State { p: u64::MAX - 1, delay: 100_000_000, old: 100_000_000, ..law.state() };
        let mut next = state.clone();
        law.step(&mut next, 1000);
        assert_eq!(next.p, ONE);
        let mut later = state.clone();
        law.update(&mut later, u64::MAX / 2, 1000);
        assert!(later.p >= ONE);
    }

    /// Whether two states are equal to within the rounding.
    fn same(a: &State, b: &State) -> bool {
        let of = |s: &State| (s.delay, s.old, s.burst, s.pace, s.last_departure);
        // Division and decay have rounding errors that do not add up exactly.
        of(a) == of(b) && a.p.abs_diff(b.p) <= 4096
    }

    proptest! {
        #[test]
        fn many_updates_in_one_step_equal_single_updates(
            variant in 0usize..3,
            measure in 1u32..3,
            p in prop_oneof![0..=ONE, 0..=ONE / 100_000],
            delay in prop_oneof![Just(0u64), 0u64..400_000_000],
            old in 0u64..400_000_000,
            pace in 0u64..50_000_000,
            bytes in prop_oneof![Just(0u64), 1u64..200_000],
            updates in 1u64..5000,
            alpha in prop_oneof![Just("0.125"), Just("0"), Just("0.000001"), Just("3")],
        ) {
            let measure = if measure == 1 { "ts" } else { "dre" };
            let law = law(&[("variant", VARIANTS[variant]), ("qdelay", measure), ("alpha", alpha)]);
            let state = State { p, delay, old, pace: Pace::of(pace), ..law.state() };
            let (mut at_once, mut stepped) = (state.clone(), state);
            law.update(&mut at_once, updates, bytes);
            (0..updates).for_each(|_| law.step(&mut stepped, bytes));
            prop_assert!(same(&at_once, &stepped), "{:?}\n{:?}", at_once, stepped);
        }

        #[test]
        fn a_long_idle_time_takes_few_steps(
            variant in 0usize..3,
            p in 0..=ONE,
            delay in prop_oneof![Just(0), any::<u64>()],
            old in any::<u64>(),
            bytes in 0u64..1 << 45,
            pace in any::<u64>(),
            alpha in 0u64..32_000_000_000,
        ) {
            let alpha = Domain::Fraction { least: 0, most: 32 * UNIT }.write(alpha);
            for measure in ["ts", "dre"] {
                let law =
                    law(&[("variant", VARIANTS[variant]), ("qdelay", measure), ("alpha", &alpha)]);
                let mut state = State { p, delay, old, pace: Pace::of(pace), ..law.state() };
                law.update(&mut state, u64::MAX / 2, bytes);
                prop_assert!(state.p <= law.most());
            }
        }
    }
}
