//! Measures the simulator's cost per TCP segment, and prints the results of the textbook dumbbell:
//! four TCP flows and one UDP flow over 10 Mbit/s, with a round trip of 38 ms.
//!
//! `tcp_cost [seconds] [queue] [control] [settings…]`: the queue is `plain` (default), `engine`, or
//! the name of an AQM or a scheduler. The congestion control is `cubic` (default) or another one.
//! The settings are pairs of a name and a value, for the congestion control.

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::tcp::cc::{Choice, Kind};
use weir_sim::tcp::{Config, ends};
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize, default: &'static str| words.get(n).map_or(default, String::as_str);
    let seconds: u64 = word(0, "60").parse().expect("a number of seconds");
    let mut control = Choice::new(Kind::from_name(word(2, "cubic")).expect("no such control"));
    for pair in words.get(3..).unwrap_or_default().chunks_exact(2) {
        control.set(&pair[0], &pair[1]).expect("no such setting");
    }
    let mut network = Network::new(1);
    let narrow = pipe(10, 18);
    let bottleneck = queue(&mut network, &narrow, word(1, "plain"));
    let back = network.add_pipe(&narrow);
    let access: Vec<_> = (0..10).map(|_| network.add_pipe(&pipe(100, 1))).collect();
    let mut world = World::new(network);
    for n in 0..5u32 {
        let [forth, home] = [access[n as usize * 2], access[n as usize * 2 + 1]];
        let key = FlowKey {
            src: n.into(),
            dst: 100,
            src_port: 1000 + n as u16,
            dst_port: 80,
            proto: 6,
            ..FlowKey::default()
        };
        let spec = FlowSpec {
            forward: vec![forth, bottleneck],
            back: vec![back, home],
            group: n,
            key,
            ..FlowSpec::default()
        };
        let flow = FlowId(n);
        if n == 4 {
            let source = Cbr::new(flow, 1028, 28, 1_028_000, Nanos::from_millis(50), Nanos::MAX);
            world.add_flow(&spec, Box::new(source), Box::new(Sink));
        } else {
            let start = Nanos::from_millis(100 * u64::from(n));
            let config =
                Config { control, start, ack_delay: Nanos::from_millis(200), ..Config::default() };
            let (source, sink) = ends(flow, &config);
            world.add_flow(&spec, source, sink);
        }
    }
    world.run(Nanos::from_secs(5));
    world.network_mut().zero();
    let (start, events) = (on_processor(), world.events());
    world.run(Nanos::from_secs(seconds));
    let spent = on_processor() - start;
    report(&world, bottleneck, seconds - 5);
    let out = world.network().stats(bottleneck).map_or(0, |stats| stats.counters.packets_out);
    let million = out as f64 / spent / 1e6;
    println!(
        "{} events in {spent:.3} s of processor: {:.1} ns a bottleneck packet, {million:.2} \
         million/s",
        world.events() - events,
        spent * 1e9 / out as f64
    );
}

fn pipe(mbit: u64, ms: u64) -> PipeConfig {
    PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(mbit * 1_000_000).unwrap()),
            delay: Nanos::from_millis(ms),
            overhead: Overhead { per_packet: 2, ..Overhead::NONE },
            ..LinkConfig::default()
        },
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(1000)), ..FlowsetConfig::default() },
        scheduler: None,
    }
}

fn queue(network: &mut Network, narrow: &PipeConfig, name: &str) -> PortId {
    if let Some(kind) = weir_core::aqm::Kind::from_name(name) {
        let mut pipe = narrow.clone();
        pipe.queue.aqm = Some(kind.into());
        return network.add_engine_pipe(&pipe);
    }
    match name {
        "plain" => network.add_pipe(narrow),
        "engine" => network.add_engine_pipe(narrow),
        _ => {
            let kind = weir_core::sched::Kind::from_name(name).expect("no such queue");
            let config = SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() };
            network.add_scheduler(&config, &narrow.link, &FlowsetConfig::default(), &[])
        }
    }
}

fn report(world: &World, bottleneck: PortId, seconds: u64) {
    let counts = world.network().counts();
    let rates: Vec<f64> =
        counts.iter().map(|count| count.goodput_bytes as f64 * 8e-6 / seconds as f64).collect();
    let tcp = &rates[..4];
    let sum: f64 = tcp.iter().sum();
    let jain = sum * sum / (4.0 * tcp.iter().map(|rate| rate * rate).sum::<f64>());
    let again: u64 = counts.iter().map(|count| count.retransmitted).sum();
    println!(
        "TCP {sum:.2} Mbit/s {tcp:.2?}, Jain {jain:.3}, UDP {:.2}; {again} segments sent again",
        rates[4]
    );
    let Some(stats) = world.network().stats(bottleneck) else { return };
    let (ms, delay) = (|q| stats.queue_ns.quantile(q) as f64 / 1e6, &stats.queue_ns);
    let (p50, p99) = (ms(0.5), ms(0.99));
    let counters = &stats.counters;
    println!(
        "queue mean {:.1} p50 {p50:.1} p99 {p99:.1} ms, {} packets, {} lost",
        delay.mean() / 1e6,
        counters.packets_out,
        counters.total_drops()
    );
}

/// Processor time in seconds that this process has used.
fn on_processor() -> f64 {
    let stat =
        std::fs::read_to_string("/proc/self/schedstat").expect("this example needs Linux's /proc");
    stat.split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .expect("its first number is in nanoseconds")
        / 1e9
}
