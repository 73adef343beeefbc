//! DualPI2: a low-latency queue and a classic queue, coupled by one controller.
//!
//! # Model
//! Packets of the L4S service (ECT(1) or CE) wait in a low-latency queue, all other packets in a
//! classic queue. As in `pi2`, a controller holds a delay at a target: the longer one of the delays
//! of the two queues. Low-latency packets are marked with a probability proportional to the
//! controller's output, and classic packets are dropped or marked with the square of the output.
//! This balances the rates of both kinds of senders, although the low-latency queue has a delay of
//! one millisecond and the classic queue of fifteen. Low-latency packets that have waited longer
//! than a threshold, the *step*, are always marked. The low-latency queue has priority, but the
//! classic queue has a guaranteed share.
//!
//! # Equations
//! At each update, `d` is the delay of the older of the two head packets, and `d_old` is the
//! value of `d` at the previous update:
//!
//! ```text
//! p' ← p' + α (d − target) + β (d − d_old)       within 0 and 1
//! classic:      p_C = p'²
//! low latency:  p_L = k p', or 1 for packets that have waited longer than the step
//! ```
//!
//! When `k p'` exceeds 1 the queues are overloaded: classic packets are then dropped with
//! probability `p_C` even if they are ECN-capable, and low-latency packets are dropped with
//! probability `p_C` and otherwise marked. With `drop_on_overload off`, `p'` is at most `1 / k`,
//! and ECN-capable packets are dropped only when they do not fit.
//!
//! # Reference
//! De Schepper, Briscoe and White, RFC 9332, 2023; De Schepper et al., "PI²", CoNEXT 2016; for the
//! ECN field, RFC 9331.
//!
//! # Parameters
//! Names and defaults are those of Linux. `limit` 1..10000000 packets in both queues together,
//! default 10000. `target`, 1us to 10s, default 15 ms. `tupdate`, 1us to 10s, default 16 ms.
//! `alpha` and `beta`, 0 to 4096 in 1/s, default 0.16 and 3.2; they suit round trips up to 100 ms.
//! `coupling_factor` 1..255, default 2: `k`. `step_thresh`, 0 to 10s, default 1 ms. `step_packets`
//! 0..10000000, default 0: if not 0, the step is this number of packets in the low-latency queue,
//! in place of the time `step_thresh`. `min_qlen_step` 0..10000000 packets, default 0: the step
//! does not apply while the low-latency queue is shorter. `drop_on_overload` off|on, default on.
//! `drop_dequeue` off|on, default on: packets are dropped or marked by the probabilities when they
//! leave; off: when they arrive. `c_protection` 0..100 %, default 10: the classic queue's share
//! while both queues have packets. `schedule` wrr|tshift, default wrr: `wrr` serves the queues by
//! that share; `tshift` serves the queue with the older head packet, where a low-latency packet
//! counts as older by the setting `tshift` (0 to 10s, default 50 ms). `decide` random|recur,
//! default random, is how packets are chosen to be dropped or marked: `random` draws for each
//! packet; `recur` sums the probabilities of a queue's packets, and each time that the sum exceeds
//! 1, chooses a packet and reduces the sum by 1. `ect` l4s|any, default l4s: with `any`, ECT(0)
//! packets are low-latency packets too.
//!
//! # Complexity
//! O(1). The updates since the last packet are computed in one step when a packet arrives or
//! leaves.
//!
//! # Guarantees
//! Packets leave in order within each of the two queues. No packet is dropped or marked by a
//! probability while fewer than 3000 bytes wait. With `schedule wrr`, while both queues have
//! packets, the bytes that the classic queue sends differ from the share `c_protection` of all
//! bytes by at most one packet of each queue. Low-latency packets are dropped only on overload or
//! at the limit.
//!
//! # Statistics
//! `base` is `p'`, `probability` is `p_C` and `coupled` is `k p'`, in parts of 2^32. `low` and
//! `classic`: the number of packets in each queue. `dropped`: packets dropped by a probability.
//!
//! # Differences from Linux/FreeBSD
//! FreeBSD does not implement DualPI2. Linux has a limit on memory besides the limit on packets,
//! splits offload trains on demand, and checks `min_qlen_step` when a packet arrives. Here trains
//! are always split, and `min_qlen_step` is checked when a packet leaves. RFC 9332 uses the delay
//! of the classic queue alone. Its first example has a time-shifted schedule and selects packets by
//! sums, as with the settings `schedule tshift` and `decide recur`.
//!
//! # Validation
//! Tests compare `p'` with a computation in floating point, and the order of packets with a model
//! that keeps the queues as lists. They check the counts of drops and marks of each kind, with and
//! without overload, and the share of the classic queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::aqm::pi2::{self, MIN_BYTES, coupled, is_l4s, squared};
use crate::aqm::proportional::{Controller, ONE, Periods, coarse, happens};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::{Count, Fraction, Switch, Time};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;
use crate::{choice, settings};

/// The DualPI2 scheduler.
#[derive(Debug)]
pub struct DualPi2 {
    low: Queue,
    classic: Queue,
    controller: Controller,
    periods: Periods,
    plan: Plan,
    /// The credit of the classic queue in bytes times percent: above 0 it is the classic queue's
    /// turn.
    credit: i64,
    stream: Stream,
    refused: VecDeque<(PacketId, DropReason)>,
    dropped: u64,
}

settings! {
    /// Settings of DualPI2.
    struct Settings {
        limit: u32 = packets(1, 10_000, "largest number of packets in both queues together"),
        target: Nanos = pi2::TARGET,
        tupdate: Nanos = pi2::TUPDATE,
        alpha: Fraction = pi2::ALPHA,
        beta: Fraction = pi2::BETA,
        coupling_factor: u64 = pi2::COUPLING_FACTOR,
        step_thresh: Nanos =
            span(1_000_000, "sojourn time above which low-latency packets are marked"),
        step_packets: u32 =
            packets(0, 0, "the step as a number of packets; 0: as the time `step_thresh`"),
        min_qlen_step: u32 = packets(0, 0, "length of the queue below which the step does not \
                                            apply"),
        drop_on_overload: bool =
            Switch::new(true, "drops packets of both queues on overload"),
        drop_dequeue: bool =
            Switch::new(true, "drops or marks packets when they leave; off: when they arrive"),
        c_protection: u32 =
            Count::new(0, 100, "%", 10, "the classic queue's share while both queues have packets"),
        schedule: Schedule = Schedule::setting(Schedule::Wrr, "serves the queues by \
                                                               `c_protection`, or the older head \
                                                               first"),
        tshift: Nanos = span(50_000_000, "time by which a low-latency packet counts as older"),
        decide: Decide =
            Decide::setting(Decide::Random, "selects packets by random draws, or by sums of \
                                             probabilities"),
        ect: Ect = Ect::setting(Ect::L4s, "low-latency packets: ECT(1) and CE, or also ECT(0)"),
    }
}

choice! {
    /// The rule that chooses the next queue.
    enum Schedule {
        Wrr = "wrr",
        TimeShifted = "tshift",
    }
}

choice! {
    /// The method that selects packets with a given probability.
    enum Decide {
        Random = "random",
        Recur = "recur",
    }
}

choice! {
    /// The packets of the low-latency queue.
    enum Ect {
        L4s = "l4s",
        Any = "any",
    }
}

/// The settings in the units of the scheduler.
#[derive(Debug)]
struct Plan {
    limit: usize,
    tupdate: u64,
    coupling: u64,
    step: Step,
    min_qlen_step: u32,
    drop_on_overload: bool,
    drop_dequeue: bool,
    /// The shares of the classic and of the low-latency queue, in percent.
    shares: (i64, i64),
    /// The time by which a low-latency packet counts as older, if the schedule is by age.
    tshift: Option<Nanos>,
    /// Whether packets are selected by sums of probabilities, not by random draws.
    recur: bool,
    /// Whether ECT(0) packets are low-latency packets too.
    any_ect: bool,
}

/// The threshold above which a low-latency packet is always marked.
#[derive(Clone, Copy, Debug)]
enum Step {
    Time(Nanos),
    Packets(u32),
}

#[derive(Debug, Default)]
struct Queue {
    list: PacketList,
    packets: u32,
    bytes: u64,
    /// The sum of the probabilities of the queue's packets, less 1 for each selection.
    sum: u64,
}

/// The decision about a packet by its probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    None,
    Mark(MarkReason),
    Drop,
}

impl DualPi2 {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let (share, coupling) = (i64::from(settings.c_protection), settings.coupling_factor);
        let plan = Plan {
            limit: settings.limit as usize,
            tupdate: settings.tupdate.0,
            coupling,
            step: match settings.step_packets {
                0 => Step::Time(settings.step_thresh),
                packets => Step::Packets(packets),
            },
            min_qlen_step: settings.min_qlen_step,
            drop_on_overload: settings.drop_on_overload,
            drop_dequeue: settings.drop_dequeue,
            shares: (share, 100 - share),
            tshift: (settings.schedule == Schedule::TimeShifted).then_some(settings.tshift),
            recur: settings.decide == Decide::Recur,
            any_ect: settings.ect == Ect::Any,
        };
        let most = if plan.drop_on_overload { ONE } else { ONE / coupling };
        Self {
            low: Queue::default(),
            classic: Queue::default(),
            controller: Controller::new(settings.alpha, settings.beta, settings.target, most),
            periods: Periods::default(),
            plan,
            credit: 0,
            stream: Stream::new(discipline.seed(), 0, Purpose::Scheduler),
            refused: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Computes the updates that are due. Every arrival and departure does this before it changes a
    /// queue, so the head packets are those at the times of the updates.
    #[inline]
    fn catch_up<P: Store>(&mut self, now: Nanos, store: &P) {
        let ended = self.periods.ended(now, self.plan.tupdate);
        if ended > 0 {
            self.update(ended, store);
        }
    }

    /// Computes the `updates` updates that have become due, with the current head packets.
    #[inline(never)]
    fn update<P: Store>(&mut self, updates: u64, store: &P) {
        let period = self.plan.tupdate;
        let heads = [&self.low, &self.classic]
            .map(|queue| queue.list.front().map(|head| store.arrived(head)));
        match heads.into_iter().flatten().min() {
            None => self.controller.hold(Nanos::ZERO, updates),
            Some(oldest) => {
                let first =
                    self.periods.next().saturating_sub(Nanos(updates.saturating_mul(period)));
                self.controller.wait(first.since(oldest), period, updates);
            }
        }
    }

    /// Whether it is the low-latency queue's turn. At least one of the queues has packets.
    #[inline]
    fn is_low_next<P: Store>(&self, store: &P) -> bool {
        match (self.low.list.front(), self.classic.list.front(), self.plan.tshift) {
            (None, ..) => false,
            (Some(_), None, _) => true,
            (Some(_), Some(_), None) => self.credit <= 0,
            (Some(low), Some(classic), Some(shift)) => {
                store.arrived(low) <= store.arrived(classic).saturating_add(shift)
            }
        }
    }

    /// Decides whether a packet is marked or dropped, by the probability of the packet's queue.
    #[inline]
    fn signal(&mut self, low: bool, is_capable: bool) -> Signal {
        let p = self.controller.p;
        if p == 0 || self.backlog() < MIN_BYTES {
            return Signal::None;
        }
        let k = self.plan.coupling;
        let overload = p.saturating_mul(k) > ONE;
        if !low {
            return match self.decide(false, squared(p)) {
                false => Signal::None,
                true if is_capable && !overload => Signal::Mark(MarkReason::Early),
                true => Signal::Drop,
            };
        }
        if overload && self.plan.drop_on_overload && self.decide(true, squared(p)) {
            return Signal::Drop;
        }
        if overload || self.decide(true, coupled(p, k)) {
            Signal::Mark(MarkReason::Coupled)
        } else {
            Signal::None
        }
    }

    /// Whether a packet of a queue is selected with probability `p`.
    #[inline]
    fn decide(&mut self, low: bool, p: u64) -> bool {
        if !self.plan.recur {
            return happens(p, self.stream.bits());
        }
        let queue = if low { &mut self.low } else { &mut self.classic };
        queue.sum += p;
        let hit = queue.sum > ONE;
        if hit {
            queue.sum -= ONE;
        }
        hit
    }

    /// Marks a low-latency packet if its sojourn time exceeds the step. If the step is a number of
    /// packets, marks the packet if more than this number remain in the queue.
    #[inline]
    fn step<P: Store>(&self, now: Nanos, store: &mut P, packet: PacketId) {
        let beyond = match self.plan.step {
            Step::Time(step) => now.since(store.arrived(packet)) > step,
            Step::Packets(step) => self.low.packets > step,
        };
        if beyond && self.low.packets >= self.plan.min_qlen_step {
            store.mark(packet, MarkReason::Step);
        }
    }
}

impl Queue {
    #[inline]
    fn push<P: Store>(&mut self, store: &mut P, packet: PacketId, len: u32) {
        self.list.push_back_of(store, packet, len);
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    #[inline]
    fn pop<P: Store>(&mut self, store: &P) -> Option<(PacketId, u32)> {
        let len = self.list.front_len();
        let packet = self.list.pop_front(store)?;
        self.packets -= 1;
        self.bytes -= u64::from(len);
        Some((packet, len))
    }

    fn take_flow<P: Store>(&mut self, store: &mut P, flow: u32) -> PacketList {
        let taken = self.list.take_flow(store, flow);
        let (packets, bytes) = taken.measure(store);
        self.packets -= packets as u32;
        self.bytes -= bytes;
        taken
    }
}

impl Scheduler for DualPi2 {
    fn add_flow(&mut self, _now: Nanos, _spec: &FlowSpec) -> FlowSlot {
        FlowSlot::default()
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut low = self.low.take_flow(store, flow);
        let mut classic = self.classic.take_flow(store, flow);
        // The packets of both queues in order of arrival.
        let mut removed = PacketList::default();
        loop {
            let from = match (low.front(), classic.front()) {
                (None, None) => return removed,
                (Some(_), None) => &mut low,
                (None, Some(_)) => &mut classic,
                (Some(a), Some(b)) if store.arrived(a) < store.arrived(b) => &mut low,
                (Some(_), Some(_)) => &mut classic,
            };
            if let Some(packet) = from.pop_front(store) {
                removed.push_back(store, packet);
            }
        }
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.catch_up(now, store);
        if self.is_empty() {
            // As if each queue had just sent a packet of 1500 bytes.
            let (classic, low) = self.plan.shares;
            self.credit = 1500 * (classic - low);
        }
        if self.len() >= self.plan.limit {
            self.refused.push_back((packet, DropReason::QueueFull));
            return None;
        }
        let ecn = store.header(packet).ecn;
        let low = is_l4s(ecn) || self.plan.any_ect && ecn.is_capable();
        if !self.plan.drop_dequeue {
            match self.signal(low, ecn.is_capable()) {
                Signal::None => {}
                Signal::Mark(reason) => store.mark(packet, reason),
                Signal::Drop => {
                    self.dropped += 1;
                    self.refused.push_back((packet, DropReason::Early));
                    return None;
                }
            }
        }
        let len = store.len(packet);
        let queue = if low { &mut self.low } else { &mut self.classic };
        queue.push(store, packet, len);
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        // A caller that drains the scheduler gets all packets without AQM decisions.
        let all = now == Nanos::MAX;
        if !all {
            self.catch_up(now, store);
        }
        loop {
            let low = self.is_low_next(store);
            let (packet, len) = if low { self.low.pop(store) } else { self.classic.pop(store) }?;
            if all {
                return Some(packet);
            }
            let is_capable = store.header(packet).ecn.is_capable();
            if self.plan.drop_dequeue {
                match self.signal(low, is_capable) {
                    Signal::None => {}
                    Signal::Mark(reason) => store.mark(packet, reason),
                    Signal::Drop => {
                        self.dropped += 1;
                        self.refused.push_back((packet, DropReason::Early));
                        continue;
                    }
                }
            }
            let (share, rest) = self.plan.shares;
            if low {
                self.step(now, store, packet);
                self.credit += if self.classic.packets > 0 { share * i64::from(len) } else { 0 };
            } else {
                self.credit -= if self.low.packets > 0 { rest * i64::from(len) } else { 0 };
            }
            return Some(packet);
        }
    }

    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front()
    }

    fn accepts_all(&self) -> bool {
        false
    }

    #[inline]
    fn len(&self) -> usize {
        (self.low.packets + self.classic.packets) as usize
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.low.bytes + self.classic.bytes
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let p = self.controller.p;
        Vec::from([
            ("base", coarse(p)),
            ("probability", coarse(squared(p))),
            ("coupled", coarse(coupled(p, self.plan.coupling))),
            ("low", u64::from(self.low.packets)),
            ("classic", u64::from(self.classic.packets)),
            ("dropped", self.dropped),
        ])
    }
}

const fn packets(least: u32, default: u32, summary: &'static str) -> Count {
    Count::new(least, 10_000_000, "packets", default, summary)
}

const fn span(default: u64, summary: &'static str) -> Time {
    Time::new(0, 10_000_000_000, default, summary)
}

pub(super) const ROW: Row = Row {
    name: "dualpi2",
    aliases: &[],
    summary: "two queues coupled by one controller: the L4S service beside classic traffic",
    source: "RFC 9332",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: true,
        flow: &[],
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Ecn, Packet, Pool};
    use crate::sched::Kind;

    fn dualpi2(settings: &[(&str, &str)]) -> (DualPi2, Pool) {
        let mut discipline = Discipline::new(Kind::DualPi2);
        for (name, value) in settings {
            discipline.set(name, value).unwrap();
        }
        (DualPi2::new(&discipline), Pool::new(1000))
    }

    /// Returns how many of 10,000 packets are marked and how many are dropped if the controller's
    /// output `p'` is `p` and enough packets wait.
    fn signals(settings: &[(&str, &str)], p: u64, low: bool, is_capable: bool) -> [usize; 2] {
        let (mut scheduler, _) = dualpi2(settings);
        (scheduler.controller.p, scheduler.classic.bytes) = (p, MIN_BYTES);
        let all: Vec<_> = (0..10_000).map(|_| scheduler.signal(low, is_capable)).collect();
        let reason = if low { MarkReason::Coupled } else { MarkReason::Early };
        [Signal::Mark(reason), Signal::Drop]
            .map(|kind| all.iter().filter(|&&signal| signal == kind).count())
    }

    #[test]
    fn classic_probability_is_squared_and_low_latency_is_coupled() {
        for (decide, within) in [("recur", 1), ("random", 150)] {
            for (low, is_capable, expected) in
                [(false, false, [0, 400]), (false, true, [400, 0]), (true, true, [4000, 0])]
            {
                let got = signals(&[("decide", decide)], ONE / 5, low, is_capable);
                assert!(
                    got.iter()
                        .zip(expected)
                        .all(|(got, expected)| got.abs_diff(expected) <= within),
                    "{decide} {low}: {got:?}"
                );
            }
            let got = signals(&[("decide", decide), ("coupling_factor", "4")], ONE / 5, true, true);
            assert!(got[0].abs_diff(8000) <= within && got[1] == 0);
        }
    }

    #[test]
    fn on_overload_ecn_capable_packets_are_dropped_too() {
        let recur = ("decide", "recur");
        assert_eq!(signals(&[recur], ONE / 5 * 3, false, true), [0, 3599]);
        assert_eq!(signals(&[recur], ONE / 5 * 3, true, true), [6401, 3599]);
        // With `drop_on_overload off`, the probability is at most that at which all low-latency
        // packets are marked.
        let no_drops = [recur, ("drop_on_overload", "off"), ("alpha", "4096")];
        let (mut scheduler, _) = dualpi2(&no_drops);
        scheduler.controller.hold(Nanos::from_secs(1), 100);
        assert_eq!(scheduler.controller.p, ONE / 2);
        assert_eq!(signals(&no_drops, ONE / 2, true, true)[1], 0);
        assert_eq!(signals(&no_drops, ONE / 2, false, true), [2499, 0]);
    }

    #[test]
    fn short_queues_have_no_drops_by_probability() {
        let (mut scheduler, _) = dualpi2(&[]);
        (scheduler.controller.p, scheduler.classic.bytes) = (ONE, MIN_BYTES - 1);
        assert_eq!(
            (scheduler.signal(false, false), scheduler.signal(true, true)),
            (Signal::None, Signal::None)
        );
    }

    #[test]
    fn the_step_marks_low_latency_packets_by_time_or_by_number() {
        let ms = Nanos::from_millis;
        for (settings, marks) in [
            (&[][..], [false, true, true, true]),
            (&[("step_thresh", "2500us")], [false, false, false, true]),
            (&[("step_packets", "2")], [true, false, false, false]),
            (&[("min_qlen_step", "2")], [false, true, false, false]),
        ] {
            let (mut scheduler, mut pool) = dualpi2(settings);
            for ecn in [Ecn::Ect1, Ecn::Ce, Ecn::Ect1, Ecn::Ect1, Ecn::Ect0] {
                let packet = pool.insert(Packet { len: 100, ecn, ..Packet::default() }).unwrap();
                assert_eq!(
                    scheduler.enqueue(Nanos::ZERO, &mut pool, FlowSlot::default(), packet),
                    None
                );
            }
            let mut taken = |time| {
                scheduler.dequeue(time, &mut pool).map(|packet| pool.mark_of(packet)).unwrap()
            };
            let expected = marks.map(|marked| marked.then_some(MarkReason::Step));
            assert_eq!(
                [taken(ms(1)), taken(Nanos(1_000_001)), taken(ms(2)), taken(ms(3))],
                expected,
                "{settings:?}"
            );
            // The step does not apply to the classic queue.
            assert_eq!(taken(ms(4)), None);
        }
    }
}
