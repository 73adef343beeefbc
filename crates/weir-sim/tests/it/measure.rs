//! Measurements: identities of the counters, series that add up to the counters, and the peak of
//! each interval.

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::stats::DropReason;
use weir_core::{Nanos, Probability, Rate};
use weir_sim::endpoint::{Context, Endpoint};
use weir_sim::measure::{FlowName, LinkName, Names, Plan, Settings};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

/// A world in which two flows pass a link of 10 Mbit/s and then a link of 1 Mbit/s. Each link has a
/// short queue, and loses and duplicates `percent` of the packets.
fn world(percent: u8, engine: bool) -> World {
    let mut network = Network::new(3);
    let share = |p: u8| Probability::new(f64::from(p) / 100.0).unwrap();
    for bps in [10_000_000, 1_000_000] {
        let config = PipeConfig {
            link: LinkConfig {
                capacity: Capacity::Constant(Rate::new(bps).unwrap()),
                delay: Nanos::from_micros(700),
                loss: if percent == 0 { Loss::None } else { Loss::Bernoulli(share(percent)) },
                duplicate: share(percent),
                ..LinkConfig::default()
            },
            queue: FlowsetConfig {
                limit: Some(QueueLimit::Packets(20)),
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
    for group in 0..2 {
        let forward = vec![PortId(0), PortId(1)];
        let source = Cbr::new(
            FlowId(group),
            500 + group * 700,
            28,
            700_000,
            Nanos::from_micros(900),
            Nanos::from_secs(9),
        );
        world.add_flow(
            &FlowSpec { forward, group, ..FlowSpec::default() },
            Box::new(source),
            Box::new(Sink),
        );
    }
    world
}

fn names() -> Names {
    let flow = |name: &str| FlowName {
        name: name.into(),
        kind: "cbr".into(),
        from: "a".into(),
        to: "c".into(),
    };
    let link = |name: &str| LinkName {
        name: name.into(),
        rate_bps: Some(1_000_000),
        ..LinkName::default()
    };
    Names {
        scenario: "pair".into(),
        flows: vec![flow("small"), flow("large")],
        links: vec![link("fast"), link("slow")],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_identity_holds_and_series_add_up(
        percent in 0u8..20,
        engine in any::<bool>(),
        warmup in 0u64..900_000_000,
        end in 1_000_000_000u64..2_000_000_000,
        interval in 1_000_000u64..400_000_000,
        samples in 1u32..12,
    ) {
        let measure = Settings { interval: Nanos(interval), samples };
        let plan = Plan { seed: 3, warmup: Nanos(warmup), end: Nanos(end), measure };
        let outcome = plan.run(&mut world(percent, engine), &names(), &mut |_| {});
        let whole = (Plan { warmup: Nanos(0), ..plan }).run(
            &mut world(percent, engine),
            &names(),
            &mut |_| {},
        );
        prop_assert_eq!(&outcome.series, &whole.series);
        for (n, flow) in outcome.flows.iter().enumerate() {
            prop_assert!(flow.balanced(), "{flow:?}");
            prop_assert_eq!(flow.delay_ns.count, flow.received);
            let total = &whole.flows[n];
            prop_assert_eq!(total.carried, 0);
            let samples = &outcome.series.flows[n];
            prop_assert_eq!(samples.len(), outcome.series.len());
            prop_assert_eq!(
                samples.iter().map(|s| s.received_bytes).sum::<u64>(),
                total.received_bytes
            );
            prop_assert_eq!(samples.iter().map(|s| s.lost).sum::<u64>(), total.lost);
            prop_assert_eq!(
                samples.iter().map(|s| u128::from(s.delay_sum_ns)).sum::<u128>(),
                total.delay_ns.sum
            );
        }
        for (n, link) in outcome.links.iter().enumerate() {
            prop_assert!(link.counters.balanced(), "{link:?}");
            let samples = &outcome.series.links[n];
            prop_assert_eq!(
                samples.iter().map(|s| s.bytes_out).sum::<u64>(),
                whole.links[n].counters.bytes_out
            );
            prop_assert_eq!(
                samples.iter().map(|s| s.drops()).sum::<u64>(),
                whole.links[n].counters.total_drops()
            );
            prop_assert_eq!(
                samples.iter().map(|s| s.queue_packets.max()).max(),
                Some(whole.links[n].counters.peak_queue_packets)
            );
            prop_assert!(samples.iter().all(|s| s.queue_packets.min() <= s.queue_packets.max()));
        }
        let lost: u64 = whole.flows.iter().map(|f| f.lost).sum();
        prop_assert_eq!(lost, whole.links.iter().map(|l| l.counters.total_drops()).sum::<u64>());
    }
}

/// Sends bursts that end long before the next sample.
#[derive(Debug)]
struct Bursts {
    next: Nanos,
    packets: u64,
}

impl Endpoint for Bursts {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        for _ in 0..self.packets {
            let mut packet = Packet::default();
            (packet.len, packet.header) = (125, 28);
            context.send(packet);
        }
        self.packets += 1;
        self.next = self.next.saturating_add(Nanos::from_secs(1));
    }

    fn next_event(&self) -> Nanos {
        self.next
    }
}

#[test]
fn an_interval_never_loses_a_peak_however_short() {
    for engine in [false, true] {
        let mut network = Network::new(1);
        // At 1 Gbit/s a packet takes 1 us, so a burst of seven packets ends after 7 us.
        let link = LinkConfig {
            capacity: Capacity::Constant(Rate::new(1_000_000_000).unwrap()),
            ..LinkConfig::default()
        };
        let queue =
            FlowsetConfig { limit: Some(QueueLimit::Packets(1000)), ..FlowsetConfig::default() };
        let config = PipeConfig { link, queue, scheduler: None };
        let port =
            if engine { network.add_engine_pipe(&config) } else { network.add_pipe(&config) };
        let mut world = World::new(network);
        let bursts = Bursts { next: Nanos::from_millis(333), packets: 3 };
        world.add_flow(
            &FlowSpec { forward: vec![port], ..FlowSpec::default() },
            Box::new(bursts),
            Box::new(Sink),
        );
        let measure = Settings { interval: Nanos::from_secs(1), samples: 10 };
        let plan = Plan { end: Nanos::from_secs(5), measure, ..Plan::default() };
        let outcome = plan.run(&mut world, &Names::default(), &mut |_| {});
        let peaks: Vec<u64> =
            outcome.series.links[0].iter().map(|s| s.queue_packets.max()).collect();
        assert_eq!(
            peaks,
            [2, 3, 4, 5, 6],
            "a burst waits except for the packet on the wire; engine: {engine}"
        );
        assert!(
            outcome.series.links[0]
                .iter()
                .all(|s| s.queue_packets.min() == 0 && s.queue_packets.mean() == 0.0)
        );
        assert_eq!(outcome.links[0].counters.peak_queue_packets, 6);
    }
}

#[test]
fn results_of_a_run_match_values_computed_by_hand() {
    // 1000 B at 1 Mbit/s take 8 ms. Packets are sent every 10 ms, so none waits.
    let mut network = Network::new(1);
    let capacity = Capacity::Constant(Rate::new(1_000_000).unwrap());
    let link = LinkConfig { capacity, delay: Nanos::from_millis(1), ..LinkConfig::default() };
    let port =
        network.add_pipe(&PipeConfig { link, queue: FlowsetConfig::default(), scheduler: None });
    let mut world = World::new(network);
    let source = Cbr::new(FlowId(0), 1000, 28, 800_000, Nanos::ZERO, Nanos::from_secs(9));
    world.add_flow(
        &FlowSpec { forward: vec![port], ..FlowSpec::default() },
        Box::new(source),
        Box::new(Sink),
    );
    let plan = Plan { warmup: Nanos::from_secs(1), end: Nanos::from_secs(2), ..Plan::default() };
    let outcome = plan.run(&mut world, &names(), &mut |_| {});
    let flow = &outcome.flows[0];
    assert_eq!(
        (flow.sent, flow.received, flow.lost),
        (100, 100, 0),
        "one of the two seconds is counted"
    );
    assert_eq!(
        (outcome.bps(flow.received_bytes), outcome.bps(flow.goodput_bytes)),
        (800_000.0, 777_600.0)
    );
    assert_eq!(
        (flow.delay_ns.min, flow.delay_ns.max, flow.delay_ns.mean(), flow.jitter_ns),
        (9_000_000, 9_000_000, 9e6, 0.0)
    );
    assert_eq!(flow.delay_ns.quantile(0.5), 9_000_000);
    assert_eq!(
        (outcome.links[0].queue_ns.max, outcome.utilisation(&outcome.links[0])),
        (0, Some(0.8))
    );
    assert_eq!(outcome.fairness.get("cbr"), None, "there is one flow only");
}

#[test]
fn the_queue_of_each_class_is_counted_separately() {
    let mut network = Network::new(1);
    let discipline = weir_core::sched::Discipline::default();
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(1_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let queues = [
        FlowsetConfig { limit: Some(QueueLimit::Packets(5)), ..FlowsetConfig::default() },
        FlowsetConfig::default(),
    ];
    let config = SchedulerConfig { discipline, ..SchedulerConfig::default() };
    let port = network.add_scheduler(&config, &link, &FlowsetConfig::default(), &queues);
    let mut world = World::new(network);
    for class in 0..2 {
        let source =
            Cbr::new(FlowId(u32::from(class)), 1000, 28, 700_000, Nanos::ZERO, Nanos::from_secs(2));
        let spec =
            FlowSpec { forward: vec![port], class, group: class.into(), ..FlowSpec::default() };
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    let plan = Plan { end: Nanos::from_secs(60), ..Plan::default() };
    let outcome = plan.run(&mut world, &names(), &mut |_| {});
    let link = &outcome.links[0];
    assert_eq!(link.classes.iter().map(|c| c.packets).sum::<u64>(), link.counters.packets_out);
    for (class, flow) in link.classes.iter().zip(&outcome.flows) {
        assert_eq!(
            (class.packets, class.bytes, class.queue_ns.count),
            (flow.received, flow.received_bytes, flow.received)
        );
        assert_eq!(class.reasons, flow.reasons);
    }
    assert!(
        link.classes[0].reasons.drops(DropReason::QueueFull) > 0 && outcome.fairness["cbr"] <= 1.0
    );
}
