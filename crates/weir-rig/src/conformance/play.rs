//! Plays a case: performs the arrivals and dequeues in order of time, and records the outcome of
//! each packet.

use std::collections::BTreeMap;

use weir_core::Nanos;
use weir_core::aqm::{Aqm, Maker, Setup};
use weir_core::config::QueueLimit;
use weir_core::gate::Bounds;
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Discipline, Fifo, FlowSlot, FlowSpec, Scheduler, Tree, TreeNode, Visitor};

use super::case::{Arrival, Case, Flow, Service, Subject};
use super::expectation::Wanted;
use super::pipe;
use super::record::{Play, Record};
use crate::managed::{Arriving, Managed, NoAqm};
use weir_rules::manager::Manager;

/// Plays a case with one seed.
pub(super) fn play(case: &Case, seed: u64) -> Play {
    let manager = match &case.subject {
        Subject::Pipe(spec) => return pipe::play(case, spec, seed),
        Subject::Missing(_) => return Play { seed, ..Play::default() },
        Subject::Manager(manager) => manager,
    };
    match manager {
        Manager::None => play_one(case, seed, NoAqm),
        Manager::Aqm(policy) => policy.make_with(WithAqm { case, seed }),
        Manager::Scheduler(discipline) if case.classes.is_empty() => {
            discipline.seeded(seed).visit(WithScheduler { case, seed })
        }
        Manager::Scheduler(discipline) => play_tree(case, seed, discipline),
    }
}

/// Plays a case with the AQM that it is given.
struct WithAqm<'a> {
    case: &'a Case,
    seed: u64,
}

impl Maker for WithAqm<'_> {
    type Output = Play;

    fn with<A: Aqm + std::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Play {
        let Bounds { packets: limit_packets, bytes: limit_bytes } = self.case.limit.into();
        let stream = Stream::new(self.seed, 0, Purpose::Aqm);
        let aqm = make(&Setup { rate: self.case.rate, limit_packets, limit_bytes, stream });
        play_one(self.case, self.seed, aqm)
    }
}

/// Plays a case with one queue and its AQM.
fn play_one<A: Aqm>(case: &Case, seed: u64, aqm: A) -> Play {
    let mut scheduler = Fifo::default();
    let slot = scheduler.add_flow(Nanos::ZERO, &FlowSpec::default());
    play_with(case, seed, scheduler, std::iter::once((slot, aqm, case.limit)))
}

/// Plays a case with the scheduler that it is given.
struct WithScheduler<'a> {
    case: &'a Case,
    seed: u64,
}

impl Visitor for WithScheduler<'_> {
    type Output = Play;

    fn visit<S: Scheduler + std::fmt::Debug>(self, mut scheduler: S) -> Play {
        let Self { case, seed } = self;
        if case.flows.is_empty() {
            let slot = scheduler.add_flow(Nanos::ZERO, &FlowSpec::default());
            return play_with(case, seed, scheduler, std::iter::once((slot, NoAqm, case.limit)));
        }
        let slots: Vec<FlowSlot> =
            case.flows.iter().map(|flow| scheduler.add_flow(Nanos::ZERO, &flow.spec)).collect();
        let queues =
            slots.into_iter().zip(&case.flows).map(|(slot, flow)| (slot, NoAqm, flow.limit));
        play_with(case, seed, scheduler, queues)
    }
}

/// Plays a case with its flows in a tree of schedulers.
fn play_tree(case: &Case, seed: u64, root: &Discipline) -> Play {
    let mut tree = Tree::new(&root.seeded(seed));
    let mut nodes: Vec<TreeNode> = Vec::new();
    for class in &case.classes {
        let above = class.parent.map_or(Tree::ROOT, |parent| nodes[parent]);
        let scheduler = class.scheduler.seeded(seed);
        nodes.push(tree.add_node(Nanos::ZERO, above, &class.spec, &scheduler));
    }
    let slot = |flow: &Flow| {
        let node = flow.class.map_or(Tree::ROOT, |class| nodes[class]);
        (tree.add_flow_in(Nanos::ZERO, node, &flow.spec), NoAqm, flow.limit)
    };
    let queues: Vec<_> = case.flows.iter().map(slot).collect();
    play_with(case, seed, tree, queues.into_iter())
}

fn play_with<S: Scheduler, A: Aqm>(
    case: &Case,
    seed: u64,
    scheduler: S,
    queues: impl Iterator<Item = (FlowSlot, A, QueueLimit)>,
) -> Play {
    let expected_packets = case.arrivals.len().min(1 << 16);
    let wants_variables =
        case.expected.iter().any(|expected| matches!(expected.wanted, Wanted::Variable { .. }));
    let mut player = Player {
        queue: Managed::with_slots(scheduler, queues, expected_packets),
        numbers: case.flows.iter().zip(0..).map(|(flow, queue)| (flow.number, queue)).collect(),
        record: Record::new(&case.arrivals, seed),
        next: 0,
        wants_variables,
    };
    match &case.service {
        Service::Times(times) => {
            for &at in times {
                player.arrivals_until(at);
                player.dequeue(at);
            }
        }
        Service::Link { rate, burst, from, until } => player.serve(*rate, *burst, *from, *until),
    }
    player.arrivals_until(u64::MAX);
    let mut play = player.record.play;
    play.variables = player.queue.variables().into_iter().collect();
    play
}

struct Player<'a, S, A> {
    queue: Managed<S, A>,
    /// The number of each flow's queue, by the flow's number; empty when the case states no flows.
    numbers: BTreeMap<u32, u32>,
    record: Record<'a>,
    /// The index of the next arrival.
    next: usize,
    /// Whether the case expects state variables, so that they must be recorded.
    wants_variables: bool,
}

impl<S: Scheduler, A: Aqm> Player<'_, S, A> {
    /// Performs the arrivals until `end`, inclusive.
    fn arrivals_until(&mut self, end: u64) {
        while let Some(arrival) =
            self.record.arrivals.get(self.next).filter(|arrival| arrival.at <= end)
        {
            let &Arrival { at, len, header, flow, hosts } = arrival;
            let queue = self.numbers.get(&flow).copied().unwrap_or(0);
            self.record.arriving = self.next as u32;
            self.record.count(flow, |counts| counts.arrived += 1);
            self.next += 1;
            let arriving = Arriving { queue, len, header };
            let offered = self.queue.offer_between(Nanos(at), &arriving, hosts, &mut self.record);
            if let Err(reason) = offered {
                self.record.drop(at, self.record.arriving, reason);
            }
        }
    }

    /// Dequeues a packet and returns its length; `None` when no packet was dequeued.
    fn dequeue(&mut self, at: u64) -> Option<u32> {
        let taken = self.queue.take(Nanos(at), &mut self.record);
        match &taken {
            Some((id, packet)) => self.record.delivered(at, *id, packet),
            None => self.record.empty(at),
        }
        let variables = if self.wants_variables { self.queue.variables() } else { Vec::new() };
        self.record.after(self.queue.packets() as u64, variables);
        taken.map(|(_, packet)| packet.len)
    }

    /// Serves the queue as a link that sends whenever it is free. The moment at which the link
    /// becomes free is computed from all bits sent since the last idle period, so rounding errors
    /// do not add up. If that moment is in the past, the time since then is the credit of the link.
    /// The credit is at most the time of `burst` bytes, and a link that has not sent yet has this
    /// maximum.
    fn serve(&mut self, rate: u64, burst: u64, from: u64, until: u64) {
        let time_of = |bits: u128| {
            i128::try_from(bits * 1_000_000_000 / u128::from(rate)).unwrap_or(i128::MAX)
        };
        let max_credit = time_of(u128::from(burst) * 8);
        let (mut begin, mut bits) = (i128::from(from) - max_credit, 0u128);
        let mut now = from;
        loop {
            let free = begin.saturating_add(time_of(bits));
            now = now.max(u64::try_from(free.max(0)).unwrap_or(u64::MAX));
            self.arrivals_until(now);
            if self.queue.packets() == 0 {
                // The queue is empty: the link sends again at the next arrival.
                let Some(arrival) = self.record.arrivals.get(self.next) else { return };
                now = now.max(arrival.at);
                self.arrivals_until(now);
            }
            if now >= until {
                return;
            }
            if self.queue.packets() == 0 {
                continue;
            }
            if i128::from(now) - max_credit > free {
                (begin, bits) = (i128::from(now) - max_credit, 0);
            }
            match self.dequeue(now) {
                Some(len) => bits += u128::from(len) * 8,
                // The scheduler holds packets back although the link is free. Cases with a link do
                // not support such a scheduler, so the play ends.
                None if self.queue.packets() > 0 => return,
                None => {}
            }
        }
    }
}
