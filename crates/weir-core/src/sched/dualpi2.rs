//! DualPI2: two queues, one of them for senders that keep it short, coupled by one controller.
//!
//! # Model
//! Packets of the L4S service (ECT(1), or marked already) wait in a low-latency queue, all others
//! in a classic one. A controller holds the delay of the classic queue, as that of `pi2` does. Its
//! output marks the low-latency packets, and squared it drops or marks the classic ones: that
//! balances the rates of both kinds of senders, although one has a queue of a millisecond and the
//! other one of fifteen. Low-latency packets that have waited longer than a step are marked in any
//! case. They have priority, but leave the classic queue a share.
//!
//! # Equations
//! At each update, with the delay `d` of the older of the two head packets:
//!
//! ```text
//! p' ← p' + α (d − target) + β (d − d_old)       within 0 and 1
//! classic:      p_C = p'²
//! low latency:  p_L = k p', and 1 for packets that have waited longer than the step
//! ```
//!
//! When `k p'` exceeds 1 the queues are overloaded: classic packets are then dropped by `p_C` even
//! if they understand marks, and low-latency ones are dropped by `p_C` and marked otherwise. With
//! `drop_on_overload off`, `p'` stops at `1 / k`, and packets that do not fit are dropped.
//!
//! # Reference
//! De Schepper, Briscoe and White, RFC 9332, 2023; De Schepper et al., "PI²", CoNEXT 2016; for the
//! ECN field, RFC 9331.
//!
//! # Parameters
//! Names and defaults are Linux's. `limit` 1..10000000 packets in both queues, default 10000.
//! `target`, 1us to 10s, default 15 ms. `tupdate`, 1us to 10s, default 16 ms. `alpha` and `beta`, 0
//! to 4096 in 1/s, default 0.16 and 3.2; they suit round trips up to 100 ms. `coupling_factor`
//! 1..255, default 2: `k`. `step_thresh`, 0 to 10s, default 1 ms. `step_packets` 0..10000000,
//! default 0: the step is a queue of more than so many packets; 0 for `step_thresh`.
//! `min_qlen_step` 0..10000000 packets, default 0: in a shorter low-latency queue the step does not
//! count. `drop_on_overload` off|on, default on. `drop_dequeue` off|on, default on: the
//! probabilities count when packets leave; off for when they come. `c_protection` 0..100 %, default
//! 10: the classic queue's share while both have packets. `schedule` wrr|tshift, default wrr: by
//! that share, or the older head goes, where a low-latency one counts as `tshift` older (0 to 10s,
//! default 50 ms). `decide` random|recur, default random: by random draws, or by sums that are as
//! regular as possible. `ect` l4s|any, default l4s: with any, ECT(0) is low-latency too.
//!
//! # Complexity
//! O(1). Updates are computed when packets arrive and leave, all since the last one in one step.
//!
//! # Guarantees
//! Order within each of the two queues. Nothing is dropped or marked by a probability while less
//! than two packets of 1500 bytes stay. While both queues have packets, the bytes of the classic
//! one over those of both differ from `c_protection` by at most a packet of each. Low-latency
//! packets understand marks and are dropped on overload or at the limit only.
//!
//! # Figures
//! `base` is `p'`, `probability` is `p_C` and `coupled` is `k p'`, in parts of 2^32. `low` and
//! `classic`: packets in each queue. `dropped`: packets dropped by a probability.
//!
//! # Differences from Linux/FreeBSD
//! FreeBSD has none. Linux has a limit in memory beside that in packets, splits offload trains on
//! demand, and checks `min_qlen_step` when a packet arrives; here when it leaves. Trains are always
//! split here. RFC 9332 takes the delay of the classic queue alone, gives a time-shifted schedule
//! as its first example, and decides by sums: `schedule tshift`, `decide recur`.
//!
//! # Validation
//! The equation against floating point with the heads' delays; the order against lists; counts of
//! drops and marks for each kind, with and without overload; shares of the classic queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::aqm::pi2::{self, LEAST_BYTES, coupled, is_l4s, squared};
use crate::aqm::proportional::{Controller, ONE, Periods, coarse, happens};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::{Count, Fraction, Switch, Time};
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;
use crate::{choice, settings};

/// DualPI2.
#[derive(Debug)]
pub struct DualPi2 {
    low: Queue,
    classic: Queue,
    controller: Controller,
    periods: Periods,
    plan: Plan,
    /// In bytes times parts of a hundred: above 0 it is the classic queue's turn.
    credit: i64,
    stream: Stream,
    refused: VecDeque<(PacketId, DropReason)>,
    dropped: u64,
}

settings! {
    /// Settings of DualPI2.
    struct Settings {
        limit: u32 = packets(1, 10_000, "packets in both queues"),
        target: Nanos = pi2::TARGET,
        tupdate: Nanos = pi2::TUPDATE,
        alpha: Fraction = pi2::ALPHA,
        beta: Fraction = pi2::BETA,
        coupling_factor: u64 = pi2::COUPLING_FACTOR,
        step_thresh: Nanos =
            span(1_000_000, "low-latency packets that have waited longer are marked"),
        step_packets: u32 = packets(0, 0, "the step as a number of packets; 0: by time"),
        min_qlen_step: u32 = packets(0, 0, "in a shorter queue the step does not count"),
        drop_on_overload: bool =
            Switch::new(true, "when marks no longer help, packets are dropped"),
        drop_dequeue: bool =
            Switch::new(true, "decides when packets leave; off: when they come"),
        c_protection: u32 =
            Count::new(0, 100, "%", 10, "the classic queue's share while both have packets"),
        schedule: Schedule = Schedule::setting(Schedule::Wrr, "by the share, or by age"),
        tshift: Nanos = span(50_000_000, "how much older a low-latency packet counts by age"),
        decide: Decide =
            Decide::setting(Decide::Random, "by draws, or by sums of probabilities"),
        ect: Ect = Ect::setting(Ect::L4s, "low-latency are ECT(1) and CE, or ECT(0) too"),
    }
}

choice! {
    /// How the next queue is chosen.
    enum Schedule {
        Wrr = "wrr",
        TimeShifted = "tshift",
    }
}

choice! {
    /// How a probability becomes a decision.
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

/// What the settings make of the scheduler.
#[derive(Debug)]
struct Plan {
    limit: usize,
    tupdate: u64,
    coupling: u64,
    step: Step,
    min_qlen_step: u32,
    drop_on_overload: bool,
    drop_dequeue: bool,
    /// Shares of the classic queue and of the other, in parts of a hundred.
    shares: (i64, i64),
    /// By how much a low-latency packet counts as older, when age decides.
    tshift: Option<Nanos>,
    recur: bool,
    any_ect: bool,
}

/// When a low-latency packet is marked in any case.
#[derive(Clone, Copy, Debug)]
enum Step {
    Time(Nanos),
    Packets(u32),
}

/// One of the two queues.
#[derive(Debug, Default)]
struct Queue {
    list: PacketList,
    packets: u32,
    bytes: u64,
    /// Sum of probabilities since the last hit.
    sum: u64,
}

/// What a probability makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    None,
    Mark(MarkReason),
    Drop,
}

impl DualPi2 {
    /// An empty one.
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

    /// Computes the updates that are due; the heads have not changed since the last.
    #[inline]
    fn catch_up<P: Store>(&mut self, now: Nanos, store: &P) {
        let ended = self.periods.ended(now, self.plan.tupdate);
        if ended > 0 {
            self.update(ended, store);
        }
    }

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

    /// Whether the low-latency queue's turn has come. One of them has packets.
    #[inline]
    fn low_goes<P: Store>(&self, store: &P) -> bool {
        match (self.low.list.front(), self.classic.list.front(), self.plan.tshift) {
            (None, ..) => false,
            (Some(_), None, _) => true,
            (Some(_), Some(_), None) => self.credit <= 0,
            (Some(low), Some(classic), Some(shift)) => {
                store.arrived(low) <= store.arrived(classic).saturating_add(shift)
            }
        }
    }

    /// What becomes of a packet by the probability of its kind.
    #[inline]
    fn signal(&mut self, low: bool, understands: bool) -> Signal {
        let p = self.controller.p;
        if p == 0 || self.backlog() < LEAST_BYTES {
            return Signal::None;
        }
        let k = self.plan.coupling;
        let overload = p.saturating_mul(k) > ONE;
        if !low {
            return match self.decide(false, squared(p)) {
                false => Signal::None,
                true if understands && !overload => Signal::Mark(MarkReason::Early),
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

    /// Whether an event of probability `p` happens in a queue.
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

    /// Marks a low-latency packet that has waited longer than the step.
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

    /// Takes out the packets of a flow.
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
        // By age.
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
        // A caller that drains the scheduler wants no AQM decisions.
        let all = now == Nanos::MAX;
        if !all {
            self.catch_up(now, store);
        }
        loop {
            let low = self.low_goes(store);
            let (packet, len) = if low { self.low.pop(store) } else { self.classic.pop(store) }?;
            if all {
                return Some(packet);
            }
            let understands = store.header(packet).ecn.is_capable();
            if self.plan.drop_dequeue {
                match self.signal(low, understands) {
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

    fn takes_all(&self) -> bool {
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

    fn figures(&self) -> Vec<(&'static str, u64)> {
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

    /// With the probability `p` and enough that waits: of 10,000 packets, how many are marked and
    /// dropped.
    fn signals(settings: &[(&str, &str)], p: u64, low: bool, understands: bool) -> [usize; 2] {
        let (mut scheduler, _) = dualpi2(settings);
        (scheduler.controller.p, scheduler.classic.bytes) = (p, LEAST_BYTES);
        let all: Vec<_> = (0..10_000).map(|_| scheduler.signal(low, understands)).collect();
        let reason = if low { MarkReason::Coupled } else { MarkReason::Early };
        [Signal::Mark(reason), Signal::Drop]
            .map(|kind| all.iter().filter(|&&signal| signal == kind).count())
    }

    #[test]
    fn classic_packets_meet_the_square_and_low_latency_ones_the_coupled_probability() {
        for (decide, within) in [("recur", 1), ("random", 150)] {
            for (low, understands, expected) in
                [(false, false, [0, 400]), (false, true, [400, 0]), (true, true, [4000, 0])]
            {
                let got = signals(&[("decide", decide)], ONE / 5, low, understands);
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
    fn on_overload_packets_are_dropped_whether_they_understand_marks_or_not() {
        let recur = ("decide", "recur");
        assert_eq!(signals(&[recur], ONE / 5 * 3, false, true), [0, 3599]);
        assert_eq!(signals(&[recur], ONE / 5 * 3, true, true), [6401, 3599]);
        // Otherwise the probability ends where all low-latency packets are marked.
        let spare = [recur, ("drop_on_overload", "off"), ("alpha", "4096")];
        let (mut scheduler, _) = dualpi2(&spare);
        scheduler.controller.hold(Nanos::from_secs(1), 100);
        assert_eq!(scheduler.controller.p, ONE / 2);
        assert_eq!(signals(&spare, ONE / 2, true, true)[1], 0);
        assert_eq!(signals(&spare, ONE / 2, false, true), [2499, 0]);
    }

    #[test]
    fn short_queues_meet_no_probability() {
        let (mut scheduler, _) = dualpi2(&[]);
        (scheduler.controller.p, scheduler.classic.bytes) = (ONE, LEAST_BYTES - 1);
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
            // The classic queue has no step.
            assert_eq!(taken(ms(4)), None);
        }
    }
}
