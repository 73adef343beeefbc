//! QFQ+ compared with a model that visits every aggregate and class, and its properties: budgets,
//! turns, the published unfairness, and the automatic choice of `m`.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::sched::{Discipline, FlowSpec, Kind, Scheduler, Visitor};

use super::sched_qfq::{Compare, Operation, Order, Player, Reference, epoch, operations, weight};

/// QFQ+ by its definition: without groups, bitmaps and slots, and with times that never wrap.
struct Model {
    epoch: u128,
    virtual_time: u128,
    classes: BTreeMap<u32, Class>,
    aggregates: BTreeMap<u32, Aggregate>,
    /// Unused numbers of aggregates, the next one last.
    unused: Vec<u32>,
    /// Weights of removed aggregates, each with the virtual time until which it counts.
    removed: Vec<(u128, u128)>,
    placements: u64,
    /// The largest number of classes in an aggregate (`m`).
    most: u32,
    /// The aggregate in service, the bytes that it has sent, and the sent bytes for which virtual
    /// time has not yet advanced.
    service: Option<(u32, u64, u64)>,
}

struct Class {
    aggregate: u32,
    deficit: u64,
    queue: VecDeque<u32>,
}

/// The weight and the `lmax` of a class.
type ClassKind = (u32, u32);

#[derive(Default)]
struct Aggregate {
    kind: ClassKind,
    classes: u32,
    /// Classes with packets, in the order of their turns.
    ring: VecDeque<u32>,
    /// Whether the aggregate is scheduled or in service.
    active: bool,
    start: u128,
    counts_until: u128,
    placement: u64,
}

impl Aggregate {
    fn weight(&self) -> u128 {
        u128::from(self.kind.0) * u128::from(self.classes)
    }

    fn budget(&self) -> u64 {
        u64::from(self.kind.1) * u64::from(self.classes)
    }

    /// The unit in which the times of the aggregate are compared.
    fn unit(&self) -> u128 {
        let inverse = (1u128 << 32).div_ceil(self.kind.0.into());
        (u128::from(self.kind.1.min(LARGEST)) * inverse).next_power_of_two().max(1 << 22)
    }

    fn rounded(&self) -> u128 {
        self.start / self.unit() * self.unit()
    }

    /// The start of the aggregate if packets arrive at the virtual time `now`.
    fn restart(&self, now: u128) -> u128 {
        if self.counts_until > now { self.start.max(now) } else { now }
    }

    /// Makes the aggregate inactive at the virtual time `now`, with the start `start`.
    fn leave(&mut self, start: u128, now: u128) {
        self.start = start;
        self.active = false;
        self.counts_until = if start > now { self.rounded() + self.unit() } else { 0 };
    }
}

impl Model {
    fn new(epoch: u64, most: u32) -> Self {
        Self {
            epoch: epoch.into(),
            virtual_time: epoch.into(),
            classes: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            unused: Vec::new(),
            removed: Vec::new(),
            placements: 0,
            most,
            service: None,
        }
    }

    /// The sum of the weights that count at the current virtual time.
    fn weights(&self) -> u128 {
        let now = self.virtual_time;
        let counts = |a: &&Aggregate| a.active || a.counts_until > now;
        let present: u128 = self.aggregates.values().filter(counts).map(Aggregate::weight).sum();
        present + self.removed.iter().filter(|r| r.1 > now).map(|r| r.0).sum::<u128>()
    }

    /// Advances virtual time by the sent bytes for which it has not yet advanced.
    fn advance(&mut self) {
        let Some((number, _, bytes)) = self.service.as_mut() else { return };
        let most = u64::from(LARGEST) * u64::from(self.aggregates[number].classes);
        let mut rest = std::mem::take(bytes).min(most);
        while rest != 0 {
            let some = rest.min(LARGEST.into());
            self.virtual_time += (u128::from(some) * ((1 << 48) / self.weights())) >> 16;
            rest -= some;
        }
    }

    /// Ends the service of the aggregate in service, if there is one.
    fn end_service(&mut self) {
        self.advance();
        let Some((number, sent, _)) = self.service.take() else { return };
        let now = self.virtual_time;
        let a = self.aggregates.get_mut(&number).unwrap();
        let before = a.rounded();
        let charged = u128::from(sent.min(u64::from(LARGEST) * u64::from(a.classes)));
        a.start += (charged * (1u128 << 32).div_ceil(a.weight())).min(a.unit());
        if a.ring.is_empty() {
            a.leave(a.start, now);
        } else if a.rounded() != before {
            self.placements += 1;
            a.placement = self.placements;
        }
    }

    /// Ends the service of aggregate `number` if it is in service, and advances virtual time.
    fn settle(&mut self, number: u32) {
        if self.service.is_some_and(|service| service.0 == number) {
            self.end_service();
        }
        self.advance();
    }

    /// Changes the number of classes in an aggregate.
    fn resize(&mut self, number: u32, classes: u32) {
        let now = self.virtual_time;
        let a = self.aggregates.get_mut(&number).unwrap();
        let start = a.restart(now);
        let had = std::mem::replace(&mut a.classes, classes);
        if had != 0 && !a.active {
            a.leave(start, now);
        }
    }

    /// Puts class `flow` into an aggregate of kind `kind` that has room. If there is none, adds an
    /// aggregate, which begins at `start` if given.
    fn attach(&mut self, flow: u32, kind: ClassKind, start: Option<u128>) {
        let room = |a: &Aggregate| a.kind == kind && a.classes < self.most;
        let found = self.aggregates.iter().find(|(_, a)| room(a)).map(|(&number, _)| number);
        let number = found.unwrap_or_else(|| {
            let number = self.unused.pop().unwrap_or(self.aggregates.len() as u32);
            self.aggregates.insert(number, Aggregate { kind, ..Aggregate::default() });
            number
        });
        self.settle(number);
        let now = self.virtual_time;
        let a = self.aggregates.get_mut(&number).unwrap();
        if let Some(start) = start.filter(|_| a.classes == 0) {
            a.classes = 1;
            let start = start.clamp(now, now + a.unit());
            a.leave(start, now);
        } else {
            let classes = a.classes + 1;
            self.resize(number, classes);
        }
        self.classes.get_mut(&flow).unwrap().aggregate = number;
    }

    /// Gives class `flow`, which has packets, the last turn in its aggregate, and makes the
    /// aggregate active.
    fn activate(&mut self, flow: u32) {
        let class = self.classes.get_mut(&flow).unwrap();
        let number = class.aggregate;
        let a = self.aggregates.get_mut(&number).unwrap();
        class.deficit = a.kind.1.into();
        a.ring.push_back(flow);
        if !a.active {
            self.advance();
            let now = self.virtual_time;
            let a = self.aggregates.get_mut(&number).unwrap();
            a.start = a.restart(now);
            a.active = true;
            self.place(number);
        }
    }

    /// Places an aggregate behind all other aggregates with equal times. Its rounded start becomes
    /// at most 30 units later than the earliest of the other aggregates with the same unit.
    fn place(&mut self, number: u32) {
        let unit = self.aggregates[&number].unit();
        let others =
            self.aggregates.iter().filter(|(n, a)| **n != number && a.active && a.unit() == unit);
        let first = others.map(|(_, a)| a.rounded()).min();
        self.placements += 1;
        let a = self.aggregates.get_mut(&number).unwrap();
        a.placement = self.placements;
        if let Some(first) = first
            && a.rounded() > first + 30 * unit
        {
            a.start = first + 30 * unit;
        }
    }

    /// Takes a class with packets from the ring of its aggregate, which is not in service.
    fn deactivate(&mut self, flow: u32) {
        let now = self.virtual_time;
        let a = self.aggregates.get_mut(&self.classes[&flow].aggregate).unwrap();
        a.ring.retain(|class| *class != flow);
        if a.ring.is_empty() {
            a.leave(a.start, now);
        }
    }

    /// Takes a class that is not in the ring from its aggregate `number`. Returns the aggregate if
    /// the class was its last one.
    fn detach(&mut self, number: u32) -> Option<Aggregate> {
        match self.aggregates[&number].classes {
            1 => {
                self.unused.push(number);
                self.aggregates.remove(&number)
            }
            classes => {
                self.resize(number, classes - 1);
                None
            }
        }
    }

    /// Moves class `flow` to an aggregate of the kind `kind`.
    fn set(&mut self, flow: u32, kind: ClassKind) {
        let Class { aggregate: number, ref queue, .. } = self.classes[&flow];
        let busy = !queue.is_empty();
        self.settle(number);
        if busy {
            self.deactivate(flow);
        }
        let a = &self.aggregates[&number];
        let start = if a.active { a.start } else { a.restart(self.virtual_time) };
        self.detach(number);
        self.attach(flow, kind, Some(start));
        if busy {
            self.activate(flow);
        }
    }

    fn is_empty(&self) -> bool {
        self.classes.values().all(|class| class.queue.is_empty())
    }

    /// Resets the model when no class has packets.
    fn reset(&mut self) {
        self.end_service();
        self.aggregates.values_mut().for_each(|a| a.counts_until = 0);
        self.removed.clear();
        self.virtual_time = self.epoch;
    }

    /// Whether the aggregate in service may send its next packet.
    fn continues(&self) -> bool {
        let Some((number, sent, _)) = self.service else { return false };
        let a = &self.aggregates[&number];
        let next = a.ring.front().and_then(|flow| self.classes[flow].queue.front());
        next.is_some_and(|&len| sent + u64::from(len) <= a.budget())
    }
}

impl Reference for Model {
    fn flows(&self) -> Vec<u32> {
        self.classes.keys().copied().collect()
    }

    fn add(&mut self, flow: u32, weight: u32, lmax: u32) {
        let kind = (weight.clamp(1, 65_536), lmax.clamp(64, 65_536));
        self.classes.insert(flow, Class { aggregate: 0, deficit: 0, queue: VecDeque::new() });
        self.attach(flow, kind, None);
    }

    fn put(&mut self, flow: u32, len: u32) {
        let (weight, lmax) = self.aggregates[&self.classes[&flow].aggregate].kind;
        if len > lmax {
            self.set(flow, (weight, len));
        }
        let queue = &mut self.classes.get_mut(&flow).unwrap().queue;
        queue.push_back(len);
        if queue.len() == 1 {
            self.activate(flow);
        }
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        if !self.continues() {
            self.end_service();
            let starts = self.aggregates.values().filter(|a| a.active).map(Aggregate::rounded);
            self.virtual_time = self.virtual_time.max(starts.min()?);
            let now = self.virtual_time;
            let eligible = self.aggregates.iter().filter(|(_, a)| a.active && a.rounded() <= now);
            let key = |a: &Aggregate| (a.rounded() + 2 * a.unit(), a.unit(), a.placement);
            let (&number, _) = eligible.min_by_key(|(_, a)| key(a)).unwrap();
            self.service = Some((number, 0, 0));
        }
        let (number, sent, uncounted) = self.service.as_mut().unwrap();
        let a = self.aggregates.get_mut(number).unwrap();
        let flow = a.ring[0];
        let class = self.classes.get_mut(&flow).unwrap();
        let len = class.queue.pop_front().unwrap();
        (*sent, *uncounted) = (*sent + u64::from(len), *uncounted + u64::from(len));
        class.deficit -= u64::from(len);
        match class.queue.front() {
            None => drop(a.ring.pop_front()),
            Some(&next) if u64::from(next) > class.deficit => {
                class.deficit += u64::from(a.kind.1);
                a.ring.rotate_left(1);
            }
            Some(_) => {}
        }
        if self.is_empty() {
            self.reset();
        }
        Some((flow, len))
    }

    fn change(&mut self, flow: u32, weight: u32, lmax: u32) {
        let longest = self.classes[&flow].queue.iter().copied().max().unwrap_or(0);
        let kind = (weight.clamp(1, 65_536), lmax.clamp(64, 65_536).max(longest));
        if kind != self.aggregates[&self.classes[&flow].aggregate].kind {
            self.set(flow, kind);
        }
    }

    fn remove(&mut self, flow: u32) {
        let number = self.classes[&flow].aggregate;
        self.settle(number);
        if !self.classes[&flow].queue.is_empty() {
            self.deactivate(flow);
        }
        if let Some(a) = self.detach(number) {
            self.removed.push((a.weight(), a.counts_until));
        }
        self.classes.remove(&flow);
        if self.is_empty() {
            self.reset();
        }
    }
}

fn qfqp(m: u32) -> Discipline {
    let mut discipline = Discipline::new(Kind::QfqPlus);
    discipline.set("m", &m.to_string()).unwrap();
    discipline
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn qfqp_serves_in_the_order_of_the_model(
        epoch in epoch(),
        m in 2u32..=16,
        operations in operations(),
    ) {
        qfqp(m)
            .starting_at(epoch)
            .visit(Compare { model: Model::new(epoch, m), operations: &operations })?;
    }

    /// Many classes of a few kinds, so that aggregates are full. Some aggregates wait while
    /// others send much longer packets.
    #[test]
    fn qfqp_serves_in_the_order_of_the_model_when_classes_are_alike(
        epoch in epoch(),
        m in 2u32..=16,
        kinds in proptest::collection::vec((weight(), any::<bool>()), 1..4),
        classes in proptest::collection::vec(0usize..4, 2..50),
        sends in proptest::collection::vec((0usize..60, 40u32..1501, 0u32..9), 1..500),
    ) {
        let lmax = |short: bool| if short { 64 } else { 1500 };
        let all: Vec<(u32, u32)> = classes
            .iter()
            .map(|kind| kinds[kind % kinds.len()])
            .map(|(weight, short)| (weight, lmax(short)))
            .collect();
        let mut operations: Vec<Operation> =
            all.iter().map(|&(weight, lmax)| Operation::Add(weight, lmax)).collect();
        for &(class, len, then) in &sends {
            operations.push(Operation::Put(class, len.min(all[class % all.len()].1)));
            match then {
                0 => {
                    let (weight, short) = kinds[class % kinds.len()];
                    operations.push(Operation::Change(class, weight, lmax(short)));
                }
                1..=3 => {}
                _ => operations.push(Operation::Take),
            }
        }
        qfqp(m)
            .starting_at(epoch)
            .visit(Compare { model: Model::new(epoch, m), operations: &operations })?;
    }
}

/// Adds all classes at once and serves them while they always have packets. Returns flow and length
/// of the served packets, in order. `len` gives the length of a flow's next packet, from the
/// numbers of the flow and the packet.
struct Backlogged<'a> {
    classes: &'a [FlowSpec],
    len: fn(u32, usize) -> u32,
    packets: usize,
}

impl Visitor for Backlogged<'_> {
    type Output = Vec<(u32, u32)>;

    fn visit<S: Scheduler + core::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let (mut player, mut served) = (Player::new(scheduler), Vec::new());
        for (n, spec) in (0..).zip(self.classes) {
            player.add(&FlowSpec { flow: n, ..*spec });
        }
        for n in 0..self.classes.len() as u32 {
            (0..2).for_each(|k| player.put_of(n, (self.len)(n, k)));
        }
        for packet in 0..self.packets {
            player.play(Operation::Take, &mut served);
            let flow = served.last().expect("all classes have packets").0;
            player.put_of(flow, (self.len)(flow, packet));
        }
        served
    }
}

/// `count` classes of one weight.
fn classes(count: usize, weight: u32) -> Vec<FlowSpec> {
    vec![FlowSpec { weight, ..FlowSpec::default() }; count]
}

/// The lengths of the runs of consecutive packets of one aggregate, which contains 8 consecutive
/// flows.
fn runs(served: &[(u32, u32)]) -> Vec<usize> {
    served.chunk_by(|a, b| a.0 / 8 == b.0 / 8).map(<[_]>::len).collect()
}

/// Each service of a full aggregate sends the whole budget: 8 packets of `lmax`, one of each class.
/// An aggregate may have two services in succession, but not three.
#[test]
fn an_aggregate_sends_its_whole_budget_in_one_service() {
    let classes = classes(16, 1);
    let order = qfqp(8).visit(Backlogged { classes: &classes, len: |_, _| 1500, packets: 160 });
    let stretches = runs(&order);
    assert!(stretches.iter().all(|run| [8, 16].contains(run)), "{stretches:?}");
    for turn in order.chunks(8) {
        let mut flows: Vec<u32> = turn.iter().map(|served| served.0 % 8).collect();
        flows.sort_unstable();
        assert_eq!(flows, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

/// Times follow from budgets, not from packets: with packets of half the length, the aggregates are
/// served in the same order, each with twice as many packets.
#[test]
fn the_order_of_aggregates_does_not_depend_on_the_packets_at_the_heads() {
    let classes = [classes(8, 1), classes(8, 3), classes(8, 2)].concat();
    let aggregates = |len, packets| -> Vec<u32> {
        let order = qfqp(8).visit(Backlogged { classes: &classes, len, packets });
        let turns = if len(0, 0) == 1500 { order.chunks(8) } else { order.chunks(16) };
        turns.map(|turn| turn[0].0 / 8).collect()
    };
    assert_eq!(aggregates(|_, _| 1500, 2400), aggregates(|_, _| 750, 4800));
}

/// The budget is 1500 bytes for each class. The packets have different lengths.
#[test]
fn no_service_exceeds_the_budget() {
    let classes = classes(24, 1);
    let len = |flow: u32, packet: usize| 1 + (flow * 7919 + packet as u32 * 104_729) % 1500;
    let order = qfqp(8).visit(Backlogged { classes: &classes, len, packets: 5000 });
    for service in order.chunk_by(|a, b| a.0 / 8 == b.0 / 8) {
        let bytes: u32 = service.iter().map(|served| served.1).sum();
        // An aggregate has two services in succession if it is still first after the first service.
        assert!(bytes <= 2 * 8 * 1500, "{bytes}");
    }
    let mean = 5000 / order.chunk_by(|a, b| a.0 / 8 == b.0 / 8).count();
    assert!((8..=24).contains(&mean), "{mean} packets of about 750 bytes in a service");
}

/// As published, idle classes count in the weight of their aggregate. A busy class with seven idle
/// classes in its aggregate gets half of the link against an aggregate of eight busy classes. QFQ
/// gives the class a ninth.
#[test]
fn a_class_gets_the_shares_of_the_idle_classes_in_its_aggregate() {
    let add = [Operation::Add(1, 1500); 16];
    let mut operations = add.to_vec();
    for _ in 0..400 {
        operations.extend((0..9).map(|flow| Operation::Put(flow, 1500)));
    }
    let share = |discipline: Discipline| {
        let order = discipline.visit(Order(&operations));
        order[..720].iter().filter(|served| served.0 == 8).count()
    };
    // Either aggregate may be ahead by one budget of eight packets.
    let (plus, qfq) = (share(qfqp(8)), share(Discipline::new(Kind::Qfq)));
    assert!((352..=368).contains(&plus) && qfq == 80, "{plus} and {qfq}");
}

/// Without `m`, the limits of the queues determine the size of aggregates: min(limit + 1, 8).
#[test]
fn the_queue_limits_choose_the_size_of_aggregates() {
    for (limit, expected) in [(1, 2), (2, 3), (6, 7), (7, 8), (50, 8), (u32::MAX, 8)] {
        let classes = vec![FlowSpec { limit, ..FlowSpec::default() }; 16];
        let order =
            |m| qfqp(m).visit(Backlogged { classes: &classes, len: |_, _| 1500, packets: 400 });
        assert_eq!(order(0), order(expected), "limit {limit}");
        if expected > 2 {
            assert_ne!(order(0), order(expected - 1), "limit {limit}");
        }
    }
}

/// A class that raises its `lmax` again and again, with a longer packet each time, does not gain
/// service: it waits for its old finish in its new aggregate.
#[test]
fn growing_packets_do_not_gain_service() {
    let mut operations = vec![Operation::Add(1, 64), Operation::Add(1, 1500)];
    operations.extend((0..400).map(|n| Operation::Put(0, 64 + n)));
    let steady = (0..400)
        .flat_map(|n| [Operation::Put(1, 1500), Operation::Put(0, 500 + n), Operation::Take]);
    operations.extend(steady);
    let order = qfqp(8).visit(Order(&operations));
    let bytes =
        |flow| order[..400].iter().filter(|s| s.0 == flow).map(|s| u64::from(s.1)).sum::<u64>();
    assert!(bytes(0) <= bytes(1) + 8 * 1500, "{} against {}", bytes(0), bytes(1));
}

/// After a busy period, the scheduler serves the same packets in the same order as a new scheduler.
#[test]
fn a_busy_period_leaves_no_trace() {
    let busy: Vec<Operation> = (0..200)
        .flat_map(|n| [Operation::Put(n % 7, 1500), Operation::Put(n % 3, 90), Operation::Take])
        .collect();
    let kinds =
        [Operation::Add(1, 1500), Operation::Add(5, 1500), Operation::Add(1, 1500)].repeat(3);
    let new = [&kinds[..], &busy].concat();
    let drained = vec![Operation::Take; 300];
    let again = [&kinds[..], &busy, &drained, &busy].concat();
    let (new, again) = (qfqp(4).visit(Order(&new)), qfqp(4).visit(Order(&again)));
    assert_eq!((new.len(), again.len()), (400, 800));
    assert_eq!(new[..], again[400..]);
}

/// In virtual time, a longer packet counts as a packet of this many bytes.
const LARGEST: u32 = 1 << 21;
