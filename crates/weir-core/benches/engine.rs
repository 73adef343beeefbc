//! The cost of a packet in the engine: submission and polling with one link and with many links,
//! with and without loss and jitter, and with a link without a rate.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit,
};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos, Probability, Rate};

/// Packets per measurement.
const PACKETS: u32 = 100_000;

fn link(bps: u64, delay: Nanos) -> LinkConfig {
    LinkConfig {
        capacity: Rate::new(bps).map_or(Capacity::Unlimited, Capacity::Constant),
        delay,
        ..LinkConfig::default()
    }
}

/// Adds 1 % loss and 1 ms of jitter that keeps the order.
fn impaired(link: LinkConfig) -> LinkConfig {
    let distribution = Arc::new(Distribution::normal());
    let jitter = Jitter {
        amount: Nanos::from_millis(1),
        distribution,
        correlation: Probability::ZERO,
        may_reorder: false,
    };
    LinkConfig {
        jitter: Some(jitter),
        loss: Probability::new(0.01).map_or(Loss::None, Loss::Bernoulli),
        ..link
    }
}

fn emulator(link: &LinkConfig, mask: FlowMask) -> Emulator {
    let mut emulator = Emulator::new(1, Limits::default());
    let queue =
        FlowsetConfig { mask, limit: Some(QueueLimit::Packets(100)), ..FlowsetConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link: link.clone(), queue, scheduler: None });
    emulator
}

/// Submits a packet every `gap` ns, to `links` links in a scattered order, and takes the departures
/// that are due. Returns the time of the last packet in ns.
fn run(emulator: &mut Emulator, out: &mut Vec<Departure>, start: u64, gap: u64, links: u32) -> u64 {
    let mut now = start;
    for n in 0..PACKETS {
        now += gap;
        // Consecutive packets use links that are far apart in memory.
        let customer = (n.wrapping_mul(2_654_435_761)) % links;
        let key = FlowKey { dst: customer.into(), ..FlowKey::default() };
        let arrival = Arrival {
            frame: n,
            len: 1000,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        emulator.poll(Nanos(now), out);
        let _ = black_box(emulator.submit(Nanos(now), arrival, &key, Action::Pipe(1)));
        out.clear();
    }
    now
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(PACKETS.into())).sample_size(20);
    // 1000 bytes every 10 us are 800 Mbit/s in total. Each link has a load of 80 % and a delay of
    // 10 ms.
    for (links, impairments) in
        [(1u32, false), (100, false), (10_000, false), (1, true), (10_000, true)]
    {
        let mask = if links == 1 {
            FlowMask::default()
        } else {
            FlowMask { dst_ip: u32::MAX, ..FlowMask::default() }
        };
        let plain = link(1_000_000_000 / u64::from(links), Nanos::from_millis(10));
        let (name, config) = if impairments {
            ("rate+delay+loss+jitter", impaired(plain))
        } else {
            ("rate+delay", plain)
        };
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

criterion_group!(benches, engine);
criterion_main!(benches);
