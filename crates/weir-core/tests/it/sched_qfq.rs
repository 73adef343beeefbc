//! QFQ compared with a model that visits every flow; properties that QFQ and QFQ+ share.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::packet::PacketId;
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Visitor};

/// QFQ by its definition: without groups, bitmaps and slots, and with times that never wrap.
struct Model {
    epoch: u128,
    virtual_time: u128,
    flows: BTreeMap<u32, ModelFlow>,
    /// Weights of removed flows, each with the virtual time until which it counts.
    removed: Vec<(u32, u128)>,
    /// Number of placements so far, which orders flows with equal times.
    placements: u64,
}

#[derive(Default)]
struct ModelFlow {
    weight: u32,
    /// The largest packet in bytes.
    lmax: u32,
    /// Start of the first packet, or the finish of the last packet if none waits.
    start: u128,
    placement: u64,
    /// Virtual time until which the weight of a flow without packets counts.
    counts_until: u128,
    queue: VecDeque<u32>,
}

impl ModelFlow {
    /// 2^32 divided by the weight, rounded up.
    fn inverse(&self) -> u128 {
        (1u128 << 32).div_ceil(u128::from(self.weight))
    }

    /// The unit in which the times of the flow are compared.
    fn unit(&self) -> u128 {
        (u128::from(self.lmax.min(1 << 21)) * self.inverse()).next_power_of_two().max(1 << 22)
    }

    /// The start, rounded down to a multiple of the unit.
    fn rounded(&self) -> u128 {
        self.start / self.unit() * self.unit()
    }

    fn busy(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Model {
    fn new(epoch: u64) -> Self {
        let epoch = u128::from(epoch);
        Self {
            epoch,
            virtual_time: epoch,
            flows: BTreeMap::new(),
            removed: Vec::new(),
            placements: 0,
        }
    }

    /// The sum of the weights that count at the current virtual time.
    fn weights(&self) -> u128 {
        let counts = |f: &&ModelFlow| f.busy() || f.counts_until > self.virtual_time;
        let flows: u128 = self.flows.values().filter(counts).map(|f| u128::from(f.weight)).sum();
        flows
            + self
                .removed
                .iter()
                .filter(|r| r.1 > self.virtual_time)
                .map(|r| u128::from(r.0))
                .sum::<u128>()
    }

    fn add(&mut self, flow: u32, weight: u32, lmax: u32) {
        let (weight, lmax) = (weight.clamp(1, 65_536), lmax.clamp(64, 65_536));
        self.flows.insert(flow, ModelFlow { weight, lmax, ..ModelFlow::default() });
    }

    fn put(&mut self, flow: u32, len: u32) {
        let f = &self.flows[&flow];
        if len > f.lmax {
            let weight = f.weight;
            self.set(flow, weight, len);
        }
        let now = self.virtual_time;
        let f = self.flows.get_mut(&flow).unwrap();
        f.queue.push_back(len);
        if f.queue.len() == 1 {
            f.start = if f.counts_until > now { f.start.max(now) } else { now };
            self.place(flow);
        }
    }

    /// Places a backlogged flow behind the other flows with equal times. Its rounded start becomes
    /// at most 30 units later than the earliest of the other flows with the same unit.
    fn place(&mut self, flow: u32) {
        let unit = self.flows[&flow].unit();
        let others =
            self.flows.iter().filter(|(id, f)| **id != flow && f.busy() && f.unit() == unit);
        let first = others.map(|(_, f)| f.rounded()).min();
        self.placements += 1;
        let f = self.flows.get_mut(&flow).unwrap();
        f.placement = self.placements;
        if let Some(first) = first
            && f.rounded() > first + 30 * unit
        {
            f.start = first + 30 * unit;
        }
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        let starts = self.flows.values().filter(|f| f.busy()).map(ModelFlow::rounded);
        self.virtual_time = self.virtual_time.max(starts.min()?);
        let now = self.virtual_time;
        let eligible = self.flows.iter().filter(|(_, f)| f.busy() && f.rounded() <= now);
        let (&flow, _) = eligible
            .min_by_key(|(_, f)| (f.rounded() + 2 * f.unit(), f.unit(), f.placement))
            .unwrap();
        let weights = self.weights();
        let f = self.flows.get_mut(&flow).unwrap();
        let len = f.queue.pop_front().unwrap();
        let charged = u128::from(len.min(1 << 21));
        self.virtual_time += (charged * ((1 << 48) / weights)) >> 16;
        let before = f.rounded();
        f.start += charged * f.inverse();
        if !f.busy() {
            f.counts_until = until(f, self.virtual_time);
        } else if f.rounded() != before {
            self.placements += 1;
            f.placement = self.placements;
        }
        self.reset_if_idle();
        Some((flow, len))
    }

    /// Resets the model if no flow has packets.
    fn reset_if_idle(&mut self) {
        if self.flows.values().all(|f| !f.busy()) {
            self.flows.values_mut().for_each(|f| f.counts_until = 0);
            self.removed.clear();
            self.virtual_time = self.epoch;
        }
    }

    fn change(&mut self, flow: u32, weight: u32, lmax: u32) {
        let longest = self.flows[&flow].queue.iter().copied().max().unwrap_or(0);
        let limits = (weight.clamp(1, 65_536), lmax.clamp(64, 65_536).max(longest));
        if limits != (self.flows[&flow].weight, self.flows[&flow].lmax) {
            self.set(flow, limits.0, limits.1);
        }
    }

    fn set(&mut self, flow: u32, weight: u32, lmax: u32) {
        let now = self.virtual_time;
        let f = self.flows.get_mut(&flow).unwrap();
        let old = f.unit();
        (f.weight, f.lmax) = (weight, lmax);
        let unit = f.unit();
        if f.busy() {
            if unit != old {
                f.start = f.start.clamp(now, now + unit);
                self.place(flow);
            }
        } else {
            let start = if f.counts_until > now { f.start.max(now) } else { now };
            f.start = if unit == old { start } else { start.min(now + unit) };
            f.counts_until = until(f, now);
        }
    }

    fn remove(&mut self, flow: u32) {
        let f = self.flows.remove(&flow).unwrap();
        self.removed
            .push((f.weight, if f.busy() { until(&f, self.virtual_time) } else { f.counts_until }));
        if f.busy() {
            self.reset_if_idle();
        }
    }
}

/// The virtual time until which the weight of a flow without packets counts.
fn until(flow: &ModelFlow, now: u128) -> u128 {
    if flow.start > now { flow.rounded() + flow.unit() } else { 0 }
}

/// A `usize` selects a flow. `Put` has a length; `Add` and `Change` end with a weight and a largest
/// packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add(u32, u32),
    Put(usize, u32),
    Take,
    Change(usize, u32, u32),
    Remove(usize),
}

/// A scheduler on which operations are performed, with its packets and flows.
pub(super) struct Player<S> {
    scheduler: S,
    store: Descriptors,
    flows: BTreeMap<u32, FlowSlot>,
    next: u32,
}

impl<S: Scheduler> Player<S> {
    pub(super) fn new(scheduler: S) -> Self {
        Self { scheduler, store: Descriptors::new(16), flows: BTreeMap::new(), next: 0 }
    }

    /// Performs an operation; adds flow and length of a served packet to `served`.
    pub(super) fn play(&mut self, operation: Operation, served: &mut Vec<(u32, u32)>) {
        let nth = |n: usize| {
            self.flows.iter().nth(n % self.flows.len().max(1)).map(|(&flow, &slot)| (flow, slot))
        };
        match operation {
            Operation::Add(weight, max_packet) => {
                self.add(&FlowSpec { flow: self.next, weight, max_packet, ..FlowSpec::default() });
            }
            Operation::Put(n, len) => {
                let Some((flow, _)) = nth(n) else { return };
                self.put_of(flow, len);
            }
            Operation::Take => {
                let packet = self.scheduler.dequeue(Nanos::ZERO, &mut self.store);
                served.extend(packet.map(|packet| self.release(packet)));
            }
            Operation::Change(n, weight, max_packet) => {
                let Some((flow, slot)) = nth(n) else { return };
                let spec = FlowSpec { flow, weight, max_packet, ..FlowSpec::default() };
                self.scheduler.change_flow(Nanos::ZERO, &mut self.store, slot, &spec);
            }
            Operation::Remove(n) => {
                let Some((flow, slot)) = nth(n) else { return };
                self.flows.remove(&flow);
                let mut list = self.scheduler.remove_flow(Nanos::ZERO, &mut self.store, slot, flow);
                while let Some(packet) = list.pop_front(&self.store) {
                    self.store.release(packet);
                }
            }
        }
    }

    pub(super) fn add(&mut self, spec: &FlowSpec) {
        self.flows.insert(spec.flow, self.scheduler.add_flow(Nanos::ZERO, spec));
        self.next = spec.flow + 1;
    }

    pub(super) fn put_of(&mut self, flow: u32, len: u32) {
        let packet = self.store.allocate(len, flow);
        assert_eq!(
            self.scheduler.enqueue(Nanos::ZERO, &mut self.store, self.flows[&flow], packet),
            None
        );
    }

    /// Performs several [`Operation::Put`] with one call of the scheduler.
    fn put(&mut self, batch: &[Operation]) {
        let mut packets = Vec::new();
        for operation in batch {
            let &Operation::Put(n, len) = operation else {
                unreachable!("a batch has operations of one kind")
            };
            if let Some((&flow, &slot)) = self.flows.iter().nth(n % self.flows.len().max(1)) {
                packets.push((slot, self.store.allocate(len, flow)));
            }
        }
        let mut refused = Vec::new();
        self.scheduler.enqueue_batch(Nanos::ZERO, &mut self.store, &packets, &mut refused);
        assert_eq!(refused, []);
    }

    /// Performs several [`Operation::Take`] with one call of the scheduler.
    fn take(&mut self, most: usize, served: &mut Vec<(u32, u32)>) {
        let mut packets = Vec::new();
        self.scheduler.dequeue_batch(Nanos::ZERO, &mut self.store, most, &mut packets);
        served.extend(packets.into_iter().map(|packet| self.release(packet)));
    }

    fn release(&mut self, packet: PacketId) -> (u32, u32) {
        let (len, flow) = self.store.release(packet);
        (flow, len)
    }
}

/// A model of a scheduler, on which operations are performed.
pub(super) trait Reference {
    fn flows(&self) -> Vec<u32>;
    fn add(&mut self, flow: u32, weight: u32, lmax: u32);
    fn put(&mut self, flow: u32, len: u32);
    fn take(&mut self) -> Option<(u32, u32)>;
    fn change(&mut self, flow: u32, weight: u32, lmax: u32);
    fn remove(&mut self, flow: u32);

    /// Performs an operation; `next` is the number of the next flow.
    fn play(&mut self, next: &mut u32, operation: Operation, served: &mut Vec<(u32, u32)>) {
        let flows = self.flows();
        let nth = |n: usize| flows.get(n % flows.len().max(1)).copied();
        match operation {
            Operation::Add(weight, lmax) => {
                self.add(*next, weight, lmax);
                *next += 1;
            }
            Operation::Put(n, len) => nth(n).into_iter().for_each(|flow| self.put(flow, len)),
            Operation::Take => served.extend(self.take()),
            Operation::Change(n, weight, lmax) => {
                nth(n).into_iter().for_each(|flow| self.change(flow, weight, lmax));
            }
            Operation::Remove(n) => nth(n).into_iter().for_each(|flow| self.remove(flow)),
        }
    }
}

impl Reference for Model {
    fn flows(&self) -> Vec<u32> {
        self.flows.keys().copied().collect()
    }
    fn add(&mut self, flow: u32, weight: u32, lmax: u32) {
        self.add(flow, weight, lmax);
    }
    fn put(&mut self, flow: u32, len: u32) {
        self.put(flow, len);
    }
    fn take(&mut self) -> Option<(u32, u32)> {
        self.take()
    }
    fn change(&mut self, flow: u32, weight: u32, lmax: u32) {
        self.change(flow, weight, lmax);
    }
    fn remove(&mut self, flow: u32) {
        self.remove(flow);
    }
}

fn agree(epoch: u64, operations: &[Operation]) -> Result<(), TestCaseError> {
    let discipline = Discipline::new(Kind::Qfq).starting_at(epoch);
    discipline.visit(Compare { model: Model::new(epoch), operations })
}

/// Compares the order of a scheduler with that of a model.
pub(super) struct Compare<'a, M> {
    pub(super) model: M,
    pub(super) operations: &'a [Operation],
}

impl<M: Reference> Visitor for Compare<'_, M> {
    type Output = Result<(), TestCaseError>;

    fn visit<S: Scheduler + core::fmt::Debug>(mut self, scheduler: S) -> Self::Output {
        let mut player = Player::new(scheduler);
        let (mut next, mut got, mut expected) = (0, Vec::new(), Vec::new());
        let rest = std::iter::repeat_n(&Operation::Take, self.operations.len());
        for (n, &operation) in self.operations.iter().chain(rest).enumerate() {
            player.play(operation, &mut got);
            self.model.play(&mut next, operation, &mut expected);
            prop_assert_eq!(got.last(), expected.last(), "after operation {}, {:?}", n, operation);
            prop_assert_eq!(got.len(), expected.len());
        }
        prop_assert_eq!((player.scheduler.len(), player.scheduler.backlog()), (0, 0));
        Ok(())
    }
}

/// Performs operations one by one; returns the served packets in order.
pub(super) struct Order<'a>(pub(super) &'a [Operation]);

impl Visitor for Order<'_> {
    type Output = Vec<(u32, u32)>;

    fn visit<S: Scheduler + core::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let (mut player, mut served) = (Player::new(scheduler), Vec::new());
        let rest = std::iter::repeat_n(&Operation::Take, self.0.len());
        self.0.iter().chain(rest).for_each(|&operation| player.play(operation, &mut served));
        served
    }
}

/// Performs consecutive operations of one kind with one call of the scheduler; returns the served
/// packets in order.
struct InBatches<'a>(&'a [Operation]);

impl Visitor for InBatches<'_> {
    type Output = Vec<(u32, u32)>;

    fn visit<S: Scheduler + core::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let (mut player, mut served) = (Player::new(scheduler), Vec::new());
        let same =
            |a: &Operation, b: &Operation| std::mem::discriminant(a) == std::mem::discriminant(b);
        for batch in self.0.chunk_by(same).chain([&vec![Operation::Take; self.0.len()][..]]) {
            match batch[0] {
                Operation::Put(..) => player.put(batch),
                Operation::Take => player.take(batch.len(), &mut served),
                _ => batch.iter().for_each(|&operation| player.play(operation, &mut served)),
            }
        }
        served
    }
}

pub(super) fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..5, 2 => 1u32..200, 1 => 1u32..=65_536, 1 => Just(65_535), 1 => Just(65_536)]
}

pub(super) fn lmax() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(1500), 1 => Just(64), 1 => 64u32..10_000, 1 => Just(65_536)]
}

pub(super) fn length() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 1u32..1501, 3 => Just(1500), 3 => Just(64), 1 => Just(0), 1 => 1u32..70_000, 1 => Just(4 << 20)]
}

pub(super) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        2 => (weight(), lmax()).prop_map(|(w, l)| Operation::Add(w, l)),
        30 => (0usize..40, length()).prop_map(|(f, len)| Operation::Put(f, len)),
        30 => Just(Operation::Take),
        2 => (0usize..40, weight(), lmax()).prop_map(|(f, w, l)| Operation::Change(f, w, l)),
        1 => (0usize..40).prop_map(Operation::Remove),
    ];
    proptest::collection::vec(operation, 1..600)
}

/// Origins of virtual time: 0, and values shortly before 2^53, half of its range, three quarters of
/// its range, and the end.
pub(super) fn epoch() -> impl Strategy<Value = u64> {
    let near = |end: u64| (20u32..56).prop_map(move |bits| end.wrapping_sub(1 << bits));
    prop_oneof![Just(0u64), near(0), near(1 << 63), near(3 << 62), near(1 << 53)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn qfq_serves_in_the_order_of_the_model(epoch in epoch(), operations in operations()) {
        agree(epoch, &operations)?;
    }

    /// Many flows of a few kinds, as in practice: long queues and no changes.
    #[test]
    fn qfq_serves_in_the_order_of_the_model_when_flows_are_alike(
        epoch in epoch(),
        weights in proptest::collection::vec(1u32..5, 2..60),
        sends in proptest::collection::vec((0usize..60, 40u32..1501), 1..400),
    ) {
        let mut operations: Vec<Operation> =
            weights.iter().map(|&weight| Operation::Add(weight, 1500)).collect();
        for (n, &(flow, len)) in sends.iter().enumerate() {
            operations.push(Operation::Put(flow, len));
            if n % 3 != 0 {
                operations.push(Operation::Take);
            }
        }
        agree(epoch, &operations)?;
    }

    #[test]
    fn qfqp_with_single_flows_serves_like_qfq(epoch in epoch(), operations in operations()) {
        let mut single = Discipline::new(Kind::QfqPlus).starting_at(epoch);
        single.set("m", "1").unwrap();
        let qfq = Discipline::new(Kind::Qfq).starting_at(epoch);
        prop_assert_eq!(single.visit(Order(&operations)), qfq.visit(Order(&operations)));
    }

    /// The schedulers are those with batch functions of their own.
    #[test]
    fn batches_keep_the_order_of_single_calls(operations in operations(), m in 0u32..=16) {
        let mut some = vec![
            Discipline::new(Kind::RoundRobin),
            Discipline::new(Kind::Qfq),
            Discipline::new(Kind::QfqPlus),
        ];
        some[2].set("m", &m.to_string()).unwrap();
        for discipline in some {
            prop_assert_eq!(
                discipline.visit(InBatches(&operations)),
                discipline.visit(Order(&operations)),
                "{:?}",
                discipline
            );
        }
    }

    /// The origin and the wrap of virtual time do not matter, if the origin is a multiple of all
    /// units.
    #[test]
    fn the_order_does_not_depend_on_the_origin_of_virtual_time(
        operations in operations(),
        multiple in 0u64..1024,
        m in 0u32..=16,
    ) {
        let mut some = [Discipline::new(Kind::Qfq), Discipline::new(Kind::QfqPlus)];
        some[1].set("m", &m.to_string()).unwrap();
        for discipline in some {
            prop_assert_eq!(
                discipline.starting_at(multiple << 54).visit(Order(&operations)),
                discipline.visit(Order(&operations))
            );
        }
    }
}

/// Keeps flows of the given weights and largest packets backlogged until `packets` packets have
/// left. Returns the bytes of each flow.
struct Shares<'a> {
    flows: &'a [(u32, u32)],
    packets: usize,
}

impl Visitor for Shares<'_> {
    type Output = Vec<u64>;

    fn visit<S: Scheduler + core::fmt::Debug>(self, scheduler: S) -> Vec<u64> {
        let mut player = Player::new(scheduler);
        let mut served = Vec::new();
        for (n, &(weight, len)) in self.flows.iter().enumerate() {
            player.play(Operation::Add(weight, len), &mut served);
            player.put_of(n as u32, len);
            player.put_of(n as u32, len);
        }
        let mut bytes = vec![0; self.flows.len()];
        for _ in 0..self.packets {
            player.play(Operation::Take, &mut served);
            let (flow, len) = served.pop().expect("all flows have packets");
            bytes[flow as usize] += u64::from(len);
            player.put_of(flow, len);
        }
        bytes
    }
}

/// Asserts that backlogged flows share bytes by weight, to within the guarantee of QFQ.
fn assert_shares(flows: &[(u32, u32)], packets: usize) {
    for kind in [Kind::Qfq, Kind::QfqPlus] {
        let bytes = Discipline::new(kind).visit(Shares { flows, packets });
        let all: u128 = bytes.iter().map(|&b| u128::from(b)).sum();
        let weights: u128 = flows.iter().map(|f| u128::from(f.0)).sum();
        let largest = flows.iter().map(|f| u128::from(f.1)).max().unwrap();
        for (&(weight, len), &got) in flows.iter().zip(&bytes) {
            let share = all * u128::from(weight) / weights;
            // The guarantee of QFQ is `3 w σ` plus a share of the largest packets, where `w` is the
            // weight and `σ` the unit of the flow's times. `w σ` is less than two of the flow's
            // largest packets.
            let bound = 7 * u128::from(len) + 2 * largest * u128::from(weight) / weights + 1;
            assert!(
                share.abs_diff(u128::from(got)) <= bound,
                "{kind:?}: {weight} of {weights} got {got}, not {share} ± {bound}"
            );
        }
    }
}

#[test]
fn weights_and_lengths_at_their_limits_share_by_weight() {
    assert_shares(&[(1, 64), (65_536, 65_536), (65_535, 64), (1, 65_536)], 400_000);
    assert_shares(&[(65_536, 65_536); 40], 20_000);
    assert_shares(&[(1, 65_536), (1, 64), (1, 1500)], 100_000);
}

#[test]
fn heavy_and_light_flows_share_by_weight() {
    let mut flows = vec![(1, 1500); 1000];
    flows.push((100, 1500));
    assert_shares(&flows, 50_000);
}

/// 400 GB in one busy period: virtual time wraps more than twenty times.
#[test]
fn shares_hold_over_a_busy_period_longer_than_the_range_of_times() {
    assert_shares(&[(1, 2 << 20), (2, 2 << 20)], 200_000);
}

#[test]
fn the_maximum_number_of_flows_is_served_in_turn() {
    for kind in [Kind::RoundRobin, Kind::Qfq, Kind::QfqPlus] {
        let flows = vec![(1, 1500); 65_536];
        let bytes = Discipline::new(kind).visit(Shares { flows: &flows, packets: 3 * 65_536 });
        assert!(bytes.iter().all(|&bytes| (1500..=5 * 1500).contains(&bytes)), "{kind:?}");
    }
}

/// Flows that never had packets do not affect other flows. (In QFQ+, they affect the flows of their
/// aggregates.)
#[test]
fn idle_flows_do_not_affect_the_order() {
    let busy = [Operation::Add(100, 1500), Operation::Add(1, 1500), Operation::Add(3, 500)];
    let puts = (0..3000).map(|n| Operation::Put(n % 3, 500)).collect::<Vec<_>>();
    let without = [&busy[..], &puts].concat();
    let with = [&busy[..], &[Operation::Add(1, 1500); 1000], &puts].concat();
    let qfq = Discipline::new(Kind::Qfq);
    assert_eq!(qfq.visit(Order(&with)), qfq.visit(Order(&without)));
}
