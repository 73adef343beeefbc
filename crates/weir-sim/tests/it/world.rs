//! The world: accounting that balances, an order of events that does not depend on the
//! implementation of ports, and repeatable runs.

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::{Nanos, Probability, Rate};
use weir_sim::measure::{Names, Outcome, Plan as MeasurePlan, Settings};
use weir_sim::network::{FlowSpec, Network, Observer, PortId};
use weir_sim::packet::{Flags, FlowId};
use weir_sim::random::Draws;
use weir_sim::traffic::{Constant, Sending, Sink, Source};
use weir_sim::world::World;

/// A random network.
#[derive(Clone, Debug)]
struct Plan {
    /// Rate in kbit/s, delay in us, queue in packets, loss in %, duplication in %.
    ports: Vec<(u64, u64, u32, u8, u8)>,
    /// Ports of the path, packet length, rate in kbit/s, start in us.
    flows: Vec<(Vec<usize>, u32, u64, u64)>,
}

fn plan(impaired: bool) -> impl Strategy<Value = Plan> {
    let chance = move || if impaired { 0u8..20 } else { 0u8..1 };
    let ports =
        prop::collection::vec((50u64..20_000, 0u64..30_000, 0u32..30, chance(), chance()), 1..6);
    let flows = prop::collection::vec(
        (prop::collection::vec(0usize..6, 0..5), 40u32..1500, 10u64..10_000, 0u64..100_000),
        1..6,
    );
    (ports, flows).prop_map(|(ports, mut flows)| {
        for flow in &mut flows {
            flow.0.iter_mut().for_each(|port| *port %= ports.len());
        }
        Plan { ports, flows }
    })
}

fn world(plan: &Plan, engine: bool) -> World {
    let mut network = Network::new(7);
    for &(kbit, us, queue, loss, copies) in &plan.ports {
        let percent = |p: u8| Probability::new(f64::from(p) / 100.0).unwrap();
        let config = PipeConfig {
            link: LinkConfig {
                capacity: Capacity::Constant(Rate::new(kbit * 1000).unwrap()),
                delay: Nanos::from_micros(us),
                loss: if loss == 0 { Loss::None } else { Loss::Bernoulli(percent(loss)) },
                duplicate: percent(copies),
                ..LinkConfig::default()
            },
            queue: FlowsetConfig {
                limit: Some(QueueLimit::Packets(queue)),
                ..FlowsetConfig::default()
            },
            scheduler: None,
        };
        if engine {
            network.add_engine_pipe(&config)
        } else {
            network.add_pipe(&config)
        };
    }
    let mut world = World::new(network);
    for (number, (ports, len, kbit, start)) in plan.flows.iter().enumerate() {
        let forward = ports.iter().map(|&port| PortId(port as u32)).collect();
        let spec = FlowSpec { forward, group: number as u32, ..FlowSpec::default() };
        let mut sending =
            Sending { until: Nanos::from_secs(1), ..Sending::of(FlowId(number as u32), 28) };
        sending.from = Nanos::from_micros(*start);
        // The hosts of every other flow request a notice when packets have left.
        sending.packet.flags = if number % 2 == 1 { Flags::TELL } else { Flags::default() };
        let source = Source::of(Constant::rate(*len, kbit * 1000), Draws::new(0, 0, 0), sending);
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    world
}

/// The results of a run, as text.
fn results(world: &World) -> String {
    let network = world.network();
    let ports: Vec<_> = (0..network.ports())
        .map(|port| network.stats(PortId(port)).map(|s| (s.counters.clone(), s.queue_ns.mean())))
        .collect();
    let flows: Vec<_> = network
        .counts()
        .iter()
        .map(|c| (c.sent, c.received, c.reasons, c.delay_ns.mean(), c.delay_ns.max()))
        .collect();
    format!("{ports:?} {flows:?}")
}

#[derive(Debug)]
struct Onlooker;

impl Observer for Onlooker {}

proptest! {
    #[test]
    fn every_packet_arrives_or_is_counted_as_lost(plan in plan(true)) {
        let mut world = world(&plan, false);
        // After the last packet is sent, the network becomes empty.
        world.run(Nanos::from_secs(100_000));
        prop_assert_eq!(world.network().packets().len(), 0);
        let sum = |f: fn(&weir_sim::network::FlowCount) -> u64| {
            world.network().counts().iter().map(f).sum::<u64>()
        };
        let copies: u64 = (0..world.network().ports())
            .filter_map(|p| world.network().stats(PortId(p)))
            .map(|s| s.counters.duplicated)
            .sum();
        prop_assert_eq!(
            sum(|c| c.sent) + copies,
            sum(|c| c.received) + sum(|c| c.reasons.total_drops())
        );
    }

    #[test]
    fn two_runs_of_one_plan_are_the_same(plan in plan(true)) {
        let run = || {
            let mut world = world(&plan, false);
            world.run(Nanos::from_secs(2));
            results(&world)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn a_run_in_pieces_is_the_run(
        plan in plan(true),
        pieces in prop::collection::vec(0u64..2_000_000_000, 0..5),
    ) {
        let mut whole = world(&plan, false);
        whole.run(Nanos::from_secs(2));
        let mut pieced = world(&plan, false);
        let mut pieces = pieces;
        pieces.sort_unstable();
        for piece in pieces {
            pieced.run(Nanos(piece));
        }
        pieced.run(Nanos::from_secs(2));
        prop_assert_eq!(results(&whole), results(&pieced));
    }

    /// An observer must see every step, so ports are passed separately while there is one.
    #[test]
    fn ports_passed_in_one_step_give_the_same_results_as_separate_steps(
        plan in plan(false),
        warmup in 0u64..500_000_000,
        interval in 1_000_000u64..300_000_000,
    ) {
        let run = |observed: bool| {
            let mut world = world(&plan, false);
            if observed {
                world.observe(Box::new(Onlooker));
            }
            let measure = Settings { interval: Nanos(interval), samples: 3 };
            let plan =
                MeasurePlan { seed: 7, warmup: Nanos(warmup), end: Nanos::from_secs(1), measure };
            let outcome = plan.run(&mut world, &Names::default(), &mut |_| {});
            let rest: Vec<_> = (0..world.network().ports())
                .map(|port| world.network_mut().queue_length(PortId(port)))
                .collect();
            (Outcome { events: 0, ..outcome }, results(&world), rest)
        };
        prop_assert_eq!(run(false), run(true));
    }

    #[test]
    fn a_plain_port_and_a_port_of_the_engine_give_the_same_results(plan in plan(false)) {
        // With one port, the order of events of different ports at the same time does not matter.
        let plan = Plan {
            ports: vec![plan.ports[0]],
            flows: plan.flows.into_iter().map(|f| (vec![0], f.1, f.2, f.3)).collect(),
        };
        let run = |engine| {
            let mut world = world(&plan, engine);
            world.run(Nanos::from_secs(100_000));
            results(&world)
        };
        prop_assert_eq!(run(false), run(true));
    }
}
