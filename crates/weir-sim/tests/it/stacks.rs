//! Real stacks in the simulator: their goodput over a lossy link of 10 Mbit/s, their notices, and
//! repeatable runs.
#![cfg(any(feature = "smoltcp", feature = "quic"))]

use std::sync::{Arc, Mutex};

#[cfg(feature = "quic")]
use weir_core::aqm::{self, Policy};
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::key::FlowKey;
use weir_core::sched::{self, Discipline};
use weir_core::{Nanos, Probability, Rate};
use weir_sim::endpoint::{Context, Endpoint, EndpointId, Notice};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::stack::{Control, Ends, Load, Options, Stack, ends};
use weir_sim::tcp;
use weir_sim::world::World;

const RATE: u64 = 10_000_000;

/// Two directions of 10 Mbit/s and 10 ms each; the forward direction loses packets.
fn lossy_network(loss: f64) -> (Network, [PortId; 2]) {
    let mut network = Network::new(5);
    let pipe = |loss: Loss| PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(RATE).unwrap()),
            delay: Nanos::from_millis(10),
            loss,
            ..LinkConfig::default()
        },
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(50)), ..FlowsetConfig::default() },
        scheduler: None,
    };
    let there = pipe(Loss::Bernoulli(Probability::new(loss).unwrap()));
    let ports = [network.add_pipe(&there), network.add_pipe(&pipe(Loss::None))];
    (network, ports)
}

/// The results of a run, for comparison with another run.
#[derive(Debug, PartialEq)]
struct Outcome {
    goodput_bytes: u64,
    completed: u64,
    completion: u64,
    sent: u64,
    lost: u64,
    retransmitted: u64,
    events: u64,
}

fn run(loss: f64, ends: Ends, until: Nanos) -> Outcome {
    let (network, [there, back]) = lossy_network(loss);
    let mut world = World::new(network);
    let spec = FlowSpec { forward: vec![there], back: vec![back], ..FlowSpec::default() };
    world.add_flow(&spec, ends.0, ends.1);
    world.run(until);
    let events = world.events();
    let count = &world.network().counts()[0];
    Outcome {
        goodput_bytes: count.goodput_bytes,
        completed: count.completed,
        completion: count.completion_ns.max(),
        sent: count.sent,
        lost: count.reasons.total_drops(),
        retransmitted: count.retransmitted,
        events,
    }
}

/// Runs a bulk transfer for 20 s, twice, and then a transfer of a given number of bytes.
fn arrives_fast_and_twice_the_same(make: impl Fn(Load) -> Ends) {
    let seconds = 20;
    let bulk = run(LOSS, make(Load::Bulk), Nanos::from_secs(seconds));
    println!("{bulk:?}");
    assert_eq!(
        bulk,
        run(LOSS, make(Load::Bulk), Nanos::from_secs(seconds)),
        "the same input gives the same run"
    );
    let share = (bulk.goodput_bytes * 8) as f64 / (RATE * seconds) as f64;
    assert!((0.8..1.0).contains(&share), "goodput is {share} of the link");
    assert!(bulk.lost > 0 && bulk.retransmitted > 0 && bulk.completed == 0, "{bulk:?}");

    let bytes = 3_000_001;
    let some = run(LOSS, make(Load::Bytes(bytes)), Nanos::from_secs(30));
    assert_eq!((some.goodput_bytes, some.completed), (bytes, 1), "every byte arrives once");
    let least = bytes * 8 * 1000 / (RATE / 1_000_000);
    assert!(some.completion > least, "{} ns are fewer than the link needs", some.completion);
}

/// One packet in a thousand: so few that a window of Reno still fills the link.
const LOSS: f64 = 0.001;

fn built() -> impl Iterator<Item = Stack> {
    Stack::ALL.into_iter().filter(|stack| stack.is_built())
}

#[test]
fn stacks_fill_a_lossy_link() {
    for stack in built() {
        for control in [Control::NewReno, Control::Cubic] {
            println!("{stack:?} {control:?}");
            let options = Options { control, window: 64_000, ..Options::default() };
            arrives_fast_and_twice_the_same(|load| ends(stack, FlowId(0), load, options).unwrap());
        }
    }
}

#[test]
fn all_data_arrives_when_a_tenth_of_the_packets_is_lost() {
    for stack in built() {
        for seed in 1..5 {
            let bytes = 100_000;
            let ends =
                ends(stack, FlowId(0), Load::Bytes(bytes), Options { seed, ..Options::default() })
                    .unwrap();
            let outcome = run(0.1, ends, Nanos::from_secs(600));
            assert_eq!((outcome.goodput_bytes, outcome.completed), (bytes, 1), "{stack:?}");
        }
    }
}

/// Writes some data, waits, writes more, and is notified at the end.
#[derive(Debug)]
struct Writer {
    to: EndpointId,
    flow: FlowId,
    next: Nanos,
    heard: Arc<Mutex<Vec<(Notice, Nanos)>>>,
}

impl Endpoint for Writer {
    fn start(&mut self, context: &mut Context<'_>) {
        context.tell(self.to, self.flow, Notice::Write(30_000));
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        self.next = Nanos::MAX;
        context.tell(self.to, self.flow, Notice::Write(5_000));
        context.tell(self.to, self.flow, Notice::Close);
    }

    fn next_event(&self) -> Nanos {
        self.next
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        self.heard.lock().unwrap().push((notice, context.now()));
    }
}

#[test]
fn an_application_writes_in_parts_and_is_notified_at_the_end() {
    for stack in built() {
        let (network, [there, back]) = lossy_network(0.0);
        let mut world = World::new(network);
        let spec = FlowSpec { forward: vec![there], back: vec![back], ..FlowSpec::default() };
        let options = Options { owner: Some(EndpointId(2)), ..Options::default() };
        let (sender, receiver) = ends(stack, FlowId(0), Load::Written, options).unwrap();
        let flow = world.add_flow(&spec, sender, receiver);
        let heard = Arc::default();
        let writer = Writer {
            to: EndpointId(0),
            flow,
            next: Nanos::from_secs(2),
            heard: Arc::clone(&heard),
        };
        assert_eq!(world.add_endpoint(Box::new(writer)), EndpointId(2));
        world.run(Nanos::from_secs(1));
        assert_eq!(world.network().counts()[0].goodput_bytes, 30_000, "{stack:?}");
        world.run(Nanos::from_secs(5));
        assert_eq!(world.network().counts()[0].goodput_bytes, 35_000, "{stack:?}");
        let heard = heard.lock().unwrap();
        let delivered = heard
            .iter()
            .map(|(notice, _)| if let Notice::Delivered(bytes) = notice { *bytes } else { 0 })
            .sum::<u64>();
        assert_eq!(delivered, 35_000, "{stack:?}: {heard:?}");
        let [.., (Notice::Done, at)] = heard[..] else { panic!("{stack:?}: {heard:?}") };
        let least = Nanos::from_millis(2020);
        assert!((least..Nanos::from_millis(2200)).contains(&at), "{stack:?}: {at:?}");
    }
}

#[test]
fn both_ends_are_silent_after_the_end() {
    for stack in built() {
        let (network, [there, back]) = lossy_network(0.05);
        let mut world = World::new(network);
        let spec = FlowSpec { forward: vec![there], back: vec![back], ..FlowSpec::default() };
        let done = Options { start: Nanos::from_secs(1), ..Options::default() };
        let cut = Options { stop: Nanos::from_secs(2), ..Options::default() };
        for (load, options) in [(Load::Bytes(50_000), done), (Load::Bulk, cut)] {
            let (sender, receiver) = ends(stack, world.next_flow(), load, options).unwrap();
            world.add_flow(&spec, sender, receiver);
        }
        world.run(Nanos::from_secs(30));
        let events = world.events();
        let count = &world.network().counts()[0];
        assert_eq!(count.completed, 1, "{stack:?}");
        assert!(count.goodput_bytes > 200_000, "{stack:?}: {} bytes", count.goodput_bytes);
        world.run(Nanos::from_secs(300));
        assert_eq!(world.events(), events, "{stack:?}: something still happens");
    }
}

#[test]
fn stacks_and_the_simulators_own_tcp_share_a_fair_queue() {
    let mut network = Network::new(5);
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(RATE).unwrap()),
        delay: Nanos::from_millis(10),
        ..LinkConfig::default()
    };
    let fair = SchedulerConfig {
        discipline: Discipline::new(sched::Kind::FqCodel),
        ..SchedulerConfig::default()
    };
    let there = network.add_scheduler(&fair, &link, &FlowsetConfig::default(), &[]);
    let back =
        network.add_pipe(&PipeConfig { link, queue: FlowsetConfig::default(), scheduler: None });
    let mut world = World::new(network);
    let mut pairs = vec![tcp::ends(FlowId(0), &tcp::Config::default())];
    for stack in built() {
        pairs
            .push(ends(stack, FlowId(pairs.len() as u32), Load::Bulk, Options::default()).unwrap());
    }
    let flows = pairs.len();
    for (n, (source, sink)) in pairs.into_iter().enumerate() {
        let key = FlowKey { src_port: 1000 + n as u16, ..FlowKey::default() };
        world.add_flow(
            &FlowSpec {
                forward: vec![there],
                back: vec![back],
                key,
                group: n as u32,
                ..FlowSpec::default()
            },
            source,
            sink,
        );
    }
    world.run(Nanos::from_secs(5));
    world.network_mut().zero();
    world.run(Nanos::from_secs(25));
    let rates: Vec<u64> =
        world.network().counts().iter().map(|count| count.goodput_bytes * 8 / 20).collect();
    println!("{rates:?}");
    for &rate in &rates {
        let fair = RATE as f64 * 0.95 / flows as f64;
        assert!((rate as f64 / fair - 1.0).abs() < 0.15, "{rates:?}");
    }
}

#[cfg(feature = "quic")]
#[test]
fn quic_slows_down_for_marks_without_loss() {
    let mut red = Policy::new(aqm::Kind::Red);
    for (name, value) in [
        ("min", "10"),
        ("max", "30"),
        ("max_p", "0.1"),
        ("w", "0.02"),
        ("ecn", "on"),
        ("harddrop", "off"),
    ] {
        red.set(name, value).unwrap();
    }
    let mut network = Network::new(5);
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(RATE).unwrap()),
        delay: Nanos::from_millis(10),
        ..LinkConfig::default()
    };
    let queue = FlowsetConfig {
        aqm: Some(red),
        limit: Some(QueueLimit::Packets(200)),
        ..FlowsetConfig::default()
    };
    let there = network.add_pipe(&PipeConfig { link: link.clone(), queue, scheduler: None });
    let back =
        network.add_pipe(&PipeConfig { link, queue: FlowsetConfig::default(), scheduler: None });
    let mut world = World::new(network);
    let (source, sink) = ends(Stack::Quic, FlowId(0), Load::Bulk, Options::default()).unwrap();
    world.add_flow(
        &FlowSpec { forward: vec![there], back: vec![back], ..FlowSpec::default() },
        source,
        sink,
    );
    world.run(Nanos::from_secs(20));
    let count = &world.network().counts()[0];
    assert!(
        count.marked > 5 && count.reasons.total_drops() == 0,
        "{} marks, {} drops",
        count.marked,
        count.reasons.total_drops()
    );
    assert!(count.goodput_bytes * 8 > RATE * 20 * 8 / 10);
    // 30 packets take 36 ms; 200 would take 240 ms.
    let mean = world.network().stats(there).unwrap().queue_ns.mean();
    assert!(mean < 36e6, "{mean} ns in the queue");
}
