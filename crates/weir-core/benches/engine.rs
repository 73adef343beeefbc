//! Cost of a packet through the engine alone: submit and poll, through one link and through many; and through each scheduler.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use weir_core::config::{Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::{Ecn, Packet, PacketId, Pool};
use weir_core::sched::{FlowSlot, FlowSpec, Kind, Scheduler};
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos, Probability, Rate};

/// Packets of one measurement.
const PACKETS: u32 = 100_000;

fn link(bps: u64, delay: Nanos) -> LinkConfig {
    LinkConfig { capacity: Rate::new(bps).map_or(Capacity::Unlimited, Capacity::Constant), delay, ..LinkConfig::default() }
}

/// The same with 1 % loss and 1 ms of jitter that keeps order.
fn impaired(link: LinkConfig) -> LinkConfig {
    let distribution = Arc::new(Distribution::normal());
    let jitter = Jitter { amount: Nanos::from_millis(1), distribution, correlation: Probability::ZERO, may_reorder: false };
    LinkConfig { jitter: Some(jitter), loss: Probability::new(0.01).map_or(Loss::None, Loss::Bernoulli), ..link }
}

fn emulator(link: &LinkConfig, mask: FlowMask) -> Emulator {
    let mut emulator = Emulator::new(1, Limits::default());
    let queue = FlowsetConfig { mask, limit: Some(QueueLimit::Packets(100)), ..FlowsetConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link: link.clone(), queue });
    emulator
}

/// One packet every `gap` to `links` links in turn; every departure is taken out.
fn run(emulator: &mut Emulator, out: &mut Vec<Departure>, start: u64, gap: u64, links: u32) -> u64 {
    let mut now = start;
    for n in 0..PACKETS {
        now += gap;
        // A permutation, so that neighbours in time are not neighbours in memory.
        let customer = (n.wrapping_mul(2_654_435_761)) % links;
        let key = FlowKey { dst: customer.into(), ..FlowKey::default() };
        let arrival = Arrival { frame: n, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct };
        emulator.poll(Nanos(now), out);
        let _ = black_box(emulator.submit(Nanos(now), arrival, &key, Action::Pipe(1)));
        out.clear();
    }
    now
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(PACKETS.into())).sample_size(20);
    // 1000 bytes every 10 us are 800 Mbit/s in all; each link runs at 80 % of its rate with 10 ms of delay.
    for (links, impairments) in [(1u32, false), (100, false), (10_000, false), (1, true), (10_000, true)] {
        let mask = if links == 1 { FlowMask::default() } else { FlowMask { dst_ip: u32::MAX, ..FlowMask::default() } };
        let plain = link(1_000_000_000 / u64::from(links), Nanos::from_millis(10));
        let (name, config) = if impairments { ("rate+delay+loss+jitter", impaired(plain)) } else { ("rate+delay", plain) };
        group.bench_function(BenchmarkId::new(name, links), |b| {
            b.iter_batched_ref(
                || {
                    let mut state = (emulator(&config, mask), Vec::new(), 0);
                    for _ in 0..2 {
                        state.2 = run(&mut state.0, &mut state.1, state.2, 10_000, links);
                    }
                    state
                },
                |(emulator, out, start)| run(emulator, out, *start, 10_000, links),
                BatchSize::LargeInput,
            );
        });
    }
    group.bench_function("unlimited", |b| {
        b.iter_batched_ref(
            || (emulator(&link(0, Nanos::ZERO), FlowMask::default()), Vec::new()),
            |(emulator, out)| run(emulator, out, 0, 1_000, 1),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// Packets through each scheduler alone: a thousand flows with ten packets each, and each packet that leaves makes room for one of
/// a flow chosen at random.
fn schedulers(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler");
    group.throughput(Throughput::Elements(PACKETS.into())).sample_size(20);
    for kind in Kind::ALL {
        group.bench_function(BenchmarkId::new(kind.row().name, FLOWS), |b| {
            let (mut scheduler, mut pool) = (kind.build(), Pool::new(u32::MAX));
            let spec = |flow| FlowSpec { flow, weight: 1 << (flow % 3), max_packet: 1500, priority: flow % 64 };
            let slots: Vec<FlowSlot> = (0..FLOWS).map(|flow| scheduler.add_flow(Nanos::ZERO, &spec(flow))).collect();
            let mut random = 1u32;
            let mut put = |scheduler: &mut dyn FnMut(&mut Pool, FlowSlot, PacketId), pool: &mut Pool| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let flow = (random >> 8) % FLOWS;
                let packet = Packet { len: 1000, flow, segments: 1, ..Packet::default() };
                if let Ok(id) = pool.insert(packet) {
                    scheduler(pool, slots[flow as usize], id);
                }
            };
            for _ in 0..10 * FLOWS {
                put(&mut |pool, slot, id| scheduler.enqueue(Nanos::ZERO, pool, slot, id), &mut pool);
            }
            b.iter(|| {
                for _ in 0..PACKETS {
                    if let Some(id) = black_box(scheduler.dequeue(Nanos::ZERO, &mut pool)) {
                        pool.remove(id);
                    }
                    put(&mut |pool, slot, id| scheduler.enqueue(Nanos::ZERO, pool, slot, id), &mut pool);
                }
            });
        });
    }
    group.finish();
}

/// Flows of one scheduler.
const FLOWS: u32 = 1000;

criterion_group!(benches, engine, schedulers);
criterion_main!(benches);
