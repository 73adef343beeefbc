//! TCP over a dumbbell: flows fill the bottleneck and share it, with and without marks, trains,
//! pacing and small queues; and repeatable runs.

use weir_core::aqm;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowCount, FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::tcp::cc::Kind;
use weir_sim::tcp::{Config, Data, ends};
use weir_sim::world::World;

const MBIT: u64 = 1_000_000;

fn pipe(bps: u64, ms: u64, packets: u32) -> PipeConfig {
    PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(bps).unwrap()),
            delay: Nanos::from_millis(ms),
            ..LinkConfig::default()
        },
        queue: FlowsetConfig {
            limit: Some(QueueLimit::Packets(packets)),
            ..FlowsetConfig::default()
        },
        scheduler: None,
    }
}

/// Flows over 10 Mbit/s with a round trip of 38 ms, each through its own access link.
struct Dumbbell {
    queue: PipeConfig,
    flows: Vec<Config>,
}

impl Dumbbell {
    fn new(flows: Vec<Config>) -> Self {
        Self { queue: pipe(10 * MBIT, 18, 50), flows }
    }

    fn with_aqm(mut self, name: &str, settings: &[(&str, &str)]) -> Self {
        let mut policy = aqm::Policy::new(aqm::Kind::from_name(name).unwrap());
        for (name, text) in settings {
            policy.set(name, text).unwrap();
        }
        self.queue.queue.aqm = Some(policy);
        self
    }

    /// Runs for 5 s without counting, then for `seconds`. Returns the counters of the flows, and
    /// the mean and the peak time in the bottleneck's queue in ms.
    fn run(&self, seconds: u64) -> (Vec<FlowCount>, f64, f64) {
        let mut network = Network::new(1);
        let bottleneck = network.add_pipe(&self.queue);
        let back = network.add_pipe(&pipe(10 * MBIT, 18, 1000));
        let access: Vec<PortId> =
            self.flows.iter().map(|_| network.add_pipe(&pipe(100 * MBIT, 1, 1000))).collect();
        let home: Vec<PortId> =
            self.flows.iter().map(|_| network.add_pipe(&pipe(100 * MBIT, 1, 1000))).collect();
        let mut world = World::new(network);
        for (n, config) in self.flows.iter().enumerate() {
            let key = FlowKey {
                src: n as u128,
                dst: 100,
                src_port: 1000,
                dst_port: 80,
                proto: 6,
                ..FlowKey::default()
            };
            let spec = FlowSpec {
                forward: vec![access[n], bottleneck],
                back: vec![back, home[n]],
                group: n as u32,
                key,
                ..FlowSpec::default()
            };
            let (source, sink) = ends(FlowId(n as u32), config);
            world.add_flow(&spec, source, sink);
        }
        world.run(Nanos::from_secs(5));
        world.network_mut().zero();
        world.run(Nanos::from_secs(5 + seconds));
        let wait = &world.network().stats(bottleneck).unwrap().queue_ns;
        (world.network().counts().to_vec(), wait.mean() / 1e6, wait.max() as f64 / 1e6)
    }
}

fn bulk(kind: Kind, n: u64) -> Config {
    Config { control: kind.into(), start: Nanos::from_millis(100 * n), ..Config::default() }
}

/// The used part of the rate that is available to payload, and Jain's fairness index.
fn shares(counts: &[FlowCount], seconds: u64) -> (f64, f64) {
    let rates: Vec<f64> =
        counts.iter().map(|count| count.goodput_bytes as f64 * 8.0 / seconds as f64).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (sum / (10e6 * 1448.0 / 1500.0), sum * sum / (rates.len() as f64 * squares))
}

#[test]
fn equal_flows_fill_the_bottleneck_and_share_it() {
    for kind in [Kind::NewReno, Kind::Cubic] {
        let flows = (0..4).map(|n| bulk(kind, n)).collect();
        let (counts, _, _) = Dumbbell::new(flows).run(120);
        let (used, jain) = shares(&counts, 120);
        assert!(used > 0.97, "{kind:?} uses {used:.3}");
        assert!(jain > 0.95, "{kind:?} shares by {jain:.3}");
    }
}

#[test]
fn one_newreno_flow_without_a_buffer_uses_three_quarters_and_with_one_all_of_the_link() {
    let flow = vec![bulk(Kind::NewReno, 0)];
    let mut small = Dumbbell::new(flow.clone());
    small.queue = pipe(10 * MBIT, 18, 3);
    let used = shares(&small.run(120).0, 120).0;
    assert!((0.7..0.85).contains(&used), "{used:.3}");
    let used = shares(&Dumbbell::new(flow).run(120).0, 120).0;
    assert!(used > 0.98, "{used:.3}");
}

#[test]
fn with_marks_nothing_is_lost_and_the_queue_stays_short() {
    let flows = (0..4).map(|n| Config { ecn: Some(true), ..bulk(Kind::Cubic, n) }).collect();
    let dumbbell = Dumbbell::new(flows).with_aqm("codel", &[("ecn", "on")]);
    let (counts, wait, _) = dumbbell.run(60);
    let (used, jain) = shares(&counts, 60);
    assert!(used > 0.9 && jain > 0.95, "{used:.3} {jain:.3}");
    assert!(wait < 15.0, "{wait:.1} ms");
    for count in &counts {
        assert_eq!(count.retransmitted, 0);
        assert!(count.marked > 0);
    }
}

#[test]
fn flows_with_trains_pacing_and_small_queues_carry_as_much_as_without() {
    let plain: Vec<Config> = (0..2).map(|n| bulk(Kind::Cubic, n)).collect();
    let with = |change: fn(&mut Config)| {
        let mut flows = plain.clone();
        flows.iter_mut().for_each(change);
        flows
    };
    for flows in [
        with(|c| c.train = 4),
        with(|c| c.pacing = Some(true)),
        with(|c| c.small_queue = Some(4000)),
    ] {
        let dumbbell = Dumbbell::new(flows);
        let (used, _) = shares(&dumbbell.run(60).0, 60);
        assert!(used > 0.95, "{used:.3} with {:?}", dumbbell.flows[0]);
    }
}

#[test]
fn a_small_queue_in_the_host_keeps_the_wait_there_short() {
    let run = |small_queue| {
        let flow = Config {
            small_queue,
            control: Kind::NewReno.into(),
            receive_buffer: 400_000,
            ..Config::default()
        };
        let mut network = Network::new(1);
        // The host's link is the bottleneck. The receiver's window is larger than what the path
        // holds, so packets wait at the host. It is smaller than the queue, so none is lost.
        let host = network.add_pipe(&pipe(10 * MBIT, 0, 1000));
        let wire = network.add_pipe(&pipe(100 * MBIT, 20, 1000));
        let back = network.add_pipe(&pipe(100 * MBIT, 20, 1000));
        let mut world = World::new(network);
        let (source, sink) = ends(FlowId(0), &flow);
        world.add_flow(
            &FlowSpec { forward: vec![host, wire], back: vec![back], ..FlowSpec::default() },
            source,
            sink,
        );
        world.run(Nanos::from_secs(20));
        let sent = world.network().counts()[0].goodput_bytes;
        (sent, world.network().stats(host).unwrap().queue_ns.max() as f64 / 1e6)
    };
    let (much, long) = run(None);
    let (as_much, short) = run(Some(4500));
    assert!(as_much as f64 > 0.99 * much as f64, "{as_much} of {much}");
    // The queue holds three packets, and each takes 1.2 ms.
    assert!(short < 3.7 && long > 200.0, "{short} and {long} ms");
}

#[test]
fn transfers_end_and_are_counted_and_runs_repeat_to_the_packet() {
    let flows: Vec<Config> = (0..6)
        .map(|n| Config {
            data: Data::Bytes(50_000 * (n + 1)),
            ..bulk(if n % 2 == 0 { Kind::Cubic } else { Kind::NewReno }, n)
        })
        .collect();
    let dumbbell = Dumbbell::new(
        flows.into_iter().map(|c| Config { start: c.start + Nanos::from_secs(6), ..c }).collect(),
    );
    let (first, ..) = dumbbell.run(30);
    let (second, ..) = dumbbell.run(30);
    for (n, (a, b)) in first.iter().zip(&second).enumerate() {
        assert_eq!(a.completed, 1);
        assert_eq!(a.goodput_bytes, 50_000 * (n as u64 + 1));
        let key = |c: &FlowCount| {
            (c.sent, c.received, c.retransmitted, c.completion_ns.max(), c.delay_ns.sum())
        };
        assert_eq!(key(a), key(b));
    }
}
