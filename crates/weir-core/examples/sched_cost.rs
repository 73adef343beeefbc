//! What a scheduler costs: drives one alone, on descriptors of 16 bytes, and prints the CPU time of an enqueue and a dequeue.
//!
//! `sched_cost ALG ramp|random FLOWS PAIRS [BATCH] [name=value…]`; ALG `none` is the driver without a scheduler, FLOWS a list of
//! `COUNT:WEIGHT`. For instruction counts run it under callgrind with two numbers of pairs and divide the difference.

use std::process::ExitCode;
use std::time::Instant;

use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::packet::PacketId;
use weir_core::sched::{Discipline, FlowSlot, FlowSpec, Kind, Scheduler, Visitor};

/// Bytes of every packet.
const LEN: u32 = 1500;
/// Packets of a flow at the top of the ramp, and of an average flow under random arrivals.
const TOP: usize = 20;
const QUEUED: usize = 10;
/// Times that a measurement is made.
const RUNS: usize = 7;

struct Run {
    weights: Vec<u32>,
    random: bool,
    pairs: usize,
    batch: usize,
}

/// Nanoseconds of a pair in each run, and a hash of the order of flows.
struct Outcome {
    ns: Vec<f64>,
    order: u64,
}

impl Visitor for Run {
    type Output = Outcome;

    fn visit<S: Scheduler + core::fmt::Debug>(self, mut scheduler: S) -> Outcome {
        let mut store = Descriptors::new(self.weights.len() * (TOP + 1));
        let add = |(flow, &weight)| scheduler.add_flow(Nanos::ZERO, &FlowSpec { flow, weight, max_packet: LEN, ..FlowSpec::default() });
        let slots: Vec<FlowSlot> = (0u32..).zip(&self.weights).map(add).collect();
        let mut driver = Driver { scheduler, slots, run: self, order: 0, random: 1, batch: Vec::new(), out: Vec::new() };
        let ns = (0..RUNS).map(|_| driver.measure(&mut store)).collect();
        Outcome { ns, order: driver.order }
    }
}

struct Driver<S> {
    scheduler: S,
    slots: Vec<FlowSlot>,
    run: Run,
    order: u64,
    random: u64,
    batch: Vec<(FlowSlot, PacketId)>,
    out: Vec<PacketId>,
}

impl<S: Scheduler> Driver<S> {
    /// Fills, passes pairs, drains; gives the nanoseconds of a pair.
    fn measure(&mut self, store: &mut Descriptors) -> f64 {
        let flows = self.slots.len();
        let (mut pairs, batch) = (0, self.run.batch);
        if !self.run.random {
            let start = Instant::now();
            while pairs < self.run.pairs {
                (0..TOP * flows).step_by(batch).for_each(|from| self.put(store, batch.min(TOP * flows - from), |n| (from + n) % flows));
                (0..TOP * flows).step_by(batch).for_each(|from| self.take(store, batch.min(TOP * flows - from)));
                pairs += TOP * flows;
            }
            return start.elapsed().as_nanos() as f64 / pairs as f64;
        }
        (0..QUEUED * flows).for_each(|n| self.put(store, 1, |_| n % flows));
        self.random_pairs(store, 20 * flows);
        let start = Instant::now();
        self.random_pairs(store, self.run.pairs);
        let took = start.elapsed().as_nanos() as f64 / self.run.pairs as f64;
        (0..QUEUED * flows).for_each(|_| self.take(store, 1));
        took
    }

    #[inline(never)]
    fn random_pairs(&mut self, store: &mut Descriptors, pairs: usize) {
        let flows = self.slots.len() as u64;
        let (mut random, batch) = (self.random, self.run.batch);
        for _ in 0..pairs / batch {
            self.put(store, batch, |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (((random >> 32) * flows) >> 32) as usize
            });
            self.take(store, batch);
        }
        self.random = random;
    }

    #[inline(always)]
    fn put(&mut self, store: &mut Descriptors, packets: usize, mut flow: impl FnMut(usize) -> usize) {
        if self.run.batch == 1 {
            let flow = flow(0);
            let packet = store.allocate(LEN, flow as u32);
            let refused = self.scheduler.enqueue(Nanos::ZERO, store, self.slots[flow], packet);
            assert!(refused.is_none());
            return;
        }
        self.batch.clear();
        for n in 0..packets {
            let flow = flow(n);
            self.batch.push((self.slots[flow], store.allocate(LEN, flow as u32)));
        }
        self.scheduler.enqueue_batch(Nanos::ZERO, store, &self.batch, &mut self.out);
    }

    #[inline(always)]
    fn take(&mut self, store: &mut Descriptors, packets: usize) {
        if self.run.batch == 1 {
            let packet = self.scheduler.dequeue(Nanos::ZERO, store).expect("there is one");
            self.count(store, packet);
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        self.scheduler.dequeue_batch(Nanos::ZERO, store, packets, &mut out);
        for packet in out.drain(..) {
            self.count(store, packet);
        }
        self.out = out;
    }

    #[inline(always)]
    fn count(&mut self, store: &mut Descriptors, packet: PacketId) {
        let (_, flow) = store.release(packet);
        self.order = (self.order.rotate_left(5) ^ u64::from(flow)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// No scheduler: a ring of packets.
#[derive(Debug)]
struct Ring {
    all: Vec<PacketId>,
    put: usize,
    take: usize,
}

impl Scheduler for Ring {
    fn add_flow(&mut self, _: Nanos, spec: &FlowSpec) -> FlowSlot {
        FlowSlot(spec.flow)
    }

    fn change_flow<P: weir_core::packet::Store>(&mut self, _: Nanos, _: &mut P, _: FlowSlot, _: &FlowSpec) {}

    fn remove_flow<P: weir_core::packet::Store>(&mut self, _: Nanos, _: &mut P, _: FlowSlot, _: u32) -> weir_core::packet::PacketList {
        weir_core::packet::PacketList::default()
    }

    #[inline]
    fn enqueue<P: weir_core::packet::Store>(&mut self, _: Nanos, _: &mut P, _: FlowSlot, packet: PacketId) -> Option<PacketId> {
        let most = self.all.len() - 1;
        self.all[self.put & most] = packet;
        self.put += 1;
        None
    }

    #[inline]
    fn dequeue<P: weir_core::packet::Store>(&mut self, _: Nanos, _: &mut P) -> Option<PacketId> {
        let most = self.all.len() - 1;
        let packet = self.all[self.take & most];
        self.take += 1;
        Some(packet)
    }

    fn len(&self) -> usize {
        self.put - self.take
    }

    fn backlog(&self) -> u64 {
        0
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(outcome) = run(&words) else {
        eprintln!("usage: sched_cost ALG|none ramp|random COUNT:WEIGHT,… PAIRS [BATCH] [name=value…]");
        return ExitCode::from(2);
    };
    let mut ns = outcome.ns;
    ns.sort_by(f64::total_cmp);
    println!(
        "{:<40} {:6.1} ns (least {:.1}, most {:.1})  order {:016x}",
        words.join(" "),
        ns[RUNS / 2],
        ns[0],
        ns[RUNS - 1],
        outcome.order
    );
    ExitCode::SUCCESS
}

fn run(words: &[String]) -> Option<Outcome> {
    let [algorithm, pattern, flows, pairs, rest @ ..] = words else { return None };
    let mut weights = Vec::new();
    for group in flows.split(',') {
        let (count, weight) = group.split_once(':')?;
        weights.extend(std::iter::repeat_n(weight.parse::<u32>().ok()?, count.parse().ok()?));
    }
    let random = match pattern.as_str() {
        "ramp" => false,
        "random" => true,
        _ => return None,
    };
    let batch = rest.first().and_then(|word| word.parse().ok()).unwrap_or(1);
    let run = Run { random, pairs: pairs.parse().ok()?, batch, weights };
    if algorithm == "none" {
        let places = (run.weights.len() * (TOP + 1)).next_power_of_two();
        return Some(run.visit(Ring { all: vec![Descriptors::new(1).allocate(0, 0); places], put: 0, take: 0 }));
    }
    let mut discipline = Discipline::new(Kind::from_name(algorithm)?);
    for setting in rest.iter().filter_map(|word| word.split_once('=')) {
        discipline.set(setting.0, setting.1).ok()?;
    }
    Some(discipline.visit(run))
}
