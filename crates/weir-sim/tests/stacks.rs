//! Real stacks in the simulator: what they send over a lossy link of 10 Mbit/s arrives, fast enough, and twice the same.
#![cfg(any(feature = "smoltcp", feature = "quic"))]

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::{Nanos, Probability, Rate};
use weir_sim::endpoint::Endpoint;
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::stack::Load;
use weir_sim::world::World;

const RATE: u64 = 10_000_000;

/// Two directions of 10 Mbit/s and 10 ms each, the forward one with losses.
fn network(loss: f64) -> (Network, [PortId; 2]) {
    let mut network = Network::new(5);
    let pipe = |loss: Loss| PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(RATE).unwrap()),
            delay: Nanos::from_millis(10),
            loss,
            ..LinkConfig::default()
        },
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(50)), ..FlowsetConfig::default() },
    };
    let there = pipe(Loss::Bernoulli(Probability::new(loss).unwrap()));
    let ports = [network.add_pipe(&there), network.add_pipe(&pipe(Loss::None))];
    (network, ports)
}

/// What a run says of itself, to be compared with another run.
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

fn run<S: Endpoint + 'static, R: Endpoint + 'static>(loss: f64, ends: (S, R), until: Nanos) -> Outcome {
    let (network, [there, back]) = network(loss);
    let mut world = World::new(network);
    let spec = FlowSpec { forward: vec![there], back: vec![back], ..FlowSpec::default() };
    world.add_flow(&spec, Box::new(ends.0), Box::new(ends.1));
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

/// Runs twice; bulk for 20 s, then a given number of bytes.
fn arrives_fast_and_twice_the_same<S: Endpoint + 'static, R: Endpoint + 'static>(make: impl Fn(Load) -> (S, R)) {
    let seconds = 20;
    let bulk = run(LOSS, make(Load::Bulk), Nanos::from_secs(seconds));
    println!("{bulk:?}");
    assert_eq!(bulk, run(LOSS, make(Load::Bulk), Nanos::from_secs(seconds)), "the same input gives the same run");
    let share = (bulk.goodput_bytes * 8) as f64 / (RATE * seconds) as f64;
    assert!((0.8..1.0).contains(&share), "goodput is {share} of the link");
    assert!(bulk.lost > 0 && bulk.retransmitted > 0 && bulk.completed == 0, "{bulk:?}");

    let bytes = 3_000_001;
    let some = run(LOSS, make(Load::Bytes(bytes)), Nanos::from_secs(30));
    assert_eq!((some.goodput_bytes, some.completed), (bytes, 1), "every byte arrives once");
    let least = bytes * 8 * 1000 / (RATE / 1_000_000);
    assert!(some.completion > least, "{} ns are fewer than the link needs", some.completion);
}

/// Every thousandth packet: few enough that a window of Reno's still fills the link.
const LOSS: f64 = 0.001;

#[cfg(feature = "smoltcp")]
mod smoltcp {
    use weir_sim::stack::smoltcp::{Control, Options, pair};

    use super::*;

    #[test]
    fn tcp_fills_a_lossy_link() {
        for control in [Control::Reno, Control::Cubic] {
            arrives_fast_and_twice_the_same(|load| pair(FlowId(0), load, Options { control, buffer: 64_000, ..Options::default() }));
        }
    }

    #[test]
    fn tcp_delivers_everything_when_a_tenth_is_lost() {
        let bytes = 100_000;
        let ends = pair(FlowId(0), Load::Bytes(bytes), Options::default());
        let outcome = run(0.1, ends, Nanos::from_secs(600));
        assert_eq!((outcome.goodput_bytes, outcome.completed), (bytes, 1));
    }
}

#[cfg(feature = "quic")]
mod quic {
    use weir_sim::stack::quic::{Control, Options, pair};

    use super::*;

    #[test]
    fn quic_fills_a_lossy_link() {
        for control in [Control::NewReno, Control::Cubic] {
            arrives_fast_and_twice_the_same(|load| pair(FlowId(0), load, Options { control, ..Options::default() }));
        }
    }

    #[test]
    fn quic_delivers_everything_when_a_tenth_is_lost() {
        let bytes = 100_000;
        let ends = pair(FlowId(0), Load::Bytes(bytes), Options::default());
        let outcome = run(0.1, ends, Nanos::from_secs(600));
        assert_eq!((outcome.goodput_bytes, outcome.completed), (bytes, 1));
    }
}
