//! Complete congestion controls over a bottleneck, under the conditions for which they were
//! designed and under others.

use weir_core::aqm::{self, Policy};
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::key::FlowKey;
use weir_core::sched::{self, Discipline};
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::tcp::cc::{Choice, Kind};
use weir_sim::tcp::{Config, ends};
use weir_sim::world::World;

/// A link of `mbit` Mbit/s with a round trip of `ms`, half of it in each direction.
fn link(mbit: u64, ms: u64) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Constant(Rate::new(mbit * 1_000_000).unwrap()),
        delay: Nanos::from_micros(ms * 500),
        ..LinkConfig::default()
    }
}

fn queue(packets: u32, aqm: Option<Policy>) -> FlowsetConfig {
    FlowsetConfig { limit: Some(QueueLimit::Packets(packets)), aqm, ..FlowsetConfig::default() }
}

/// The results of flows between warm-up and end.
struct Outcome {
    /// Goodput of each flow divided by the link's rate.
    shares: Vec<f64>,
    /// Mean, 99th percentile and maximum of the time in the bottleneck's queue in ms.
    queue_ms: [f64; 3],
    /// Mean one-way delay of each flow in ms.
    delay_ms: Vec<f64>,
    drops: u64,
    marks: u64,
}

/// Runs one flow for each congestion control over a bottleneck that `make` adds to the network.
fn run(
    controls: &[Kind],
    mbit: u64,
    ms: u64,
    make: impl Fn(&mut Network) -> PortId,
    warm: u64,
    seconds: u64,
) -> Outcome {
    let mut network = Network::new(3);
    let there = make(&mut network);
    let back = network.add_pipe(&PipeConfig {
        link: link(1000, ms),
        queue: queue(10_000, None),
        scheduler: None,
    });
    let mut world = World::new(network);
    for (n, &kind) in controls.iter().enumerate() {
        let flow = FlowId(n as u32);
        let key = FlowKey { src_port: 1000 + n as u16, ..FlowKey::default() };
        let spec = FlowSpec {
            forward: vec![there],
            back: vec![back],
            key,
            group: n as u32,
            ..FlowSpec::default()
        };
        let config = Config {
            control: Choice::new(kind),
            start: Nanos::from_millis(n as u64 * 20),
            ..Config::default()
        };
        let (source, sink) = ends(flow, &config);
        world.add_flow(&spec, source, sink);
    }
    world.run(Nanos::from_secs(warm));
    world.network_mut().zero();
    world.run(Nanos::from_secs(warm + seconds));
    let network = world.network();
    let stats = network.stats(there).unwrap();
    let ms = |ns: u64| ns as f64 / 1e6;
    Outcome {
        shares: network
            .counts()
            .iter()
            .map(|count| count.goodput_bytes as f64 * 8.0 / (mbit * seconds * 1_000_000) as f64)
            .collect(),
        queue_ms: [
            stats.queue_ns.mean() / 1e6,
            ms(stats.queue_ns.quantile(0.99)),
            ms(stats.queue_ns.max()),
        ],
        delay_ms: network.counts().iter().map(|count| count.delay_ns.mean() / 1e6).collect(),
        drops: stats.counters.total_drops(),
        marks: stats.counters.reasons().total_marks(),
    }
}

impl Outcome {
    fn show(&self, what: &str) {
        println!(
            "{what}: shares {:.3?}, queue {:.2?} ms (mean, p99, max), delay {:.2?} ms, {} drops, \
             {} marks",
            self.shares, self.queue_ms, self.delay_ms, self.drops, self.marks
        );
    }
}

#[test]
fn dctcp_fills_a_link_with_a_queue_that_marks_above_a_step() {
    // Packets that find more than 20 waiting packets are marked. At this rate, 20 packets take 2.4
    // ms.
    let mut red = Policy::new(aqm::Kind::Red);
    for (name, value) in [
        ("min", "20"),
        ("max", "20"),
        ("w", "1"),
        ("max_p", "1"),
        ("gentle", "off"),
        ("ecn", "on"),
        ("harddrop", "off"),
    ] {
        red.set(name, value).unwrap();
    }
    let make = |network: &mut Network| {
        network.add_pipe(&PipeConfig {
            link: link(100, 10),
            queue: queue(500, Some(red)),
            scheduler: None,
        })
    };
    let dctcp = run(&[Kind::Dctcp], 100, 10, make, 5, 10);
    dctcp.show("DCTCP");
    assert!(
        dctcp.shares[0] > 0.94,
        "goodput over 0.94 of the link's rate; headers leave at most 0.965"
    );
    assert!(dctcp.queue_ms[1] < 6.0 && dctcp.queue_ms[0] < 3.0, "the queue stays short");
    assert!(dctcp.marks > 0 && dctcp.drops == 0);
    let two = run(&[Kind::Dctcp, Kind::Dctcp], 100, 10, make, 5, 20);
    two.show("two of them");
    assert!(two.shares.iter().all(|share| (0.3..0.65).contains(share)), "they share it");
}

#[test]
fn prague_and_cubic_share_a_dual_queue() {
    let scheduler = SchedulerConfig {
        discipline: Discipline::new(sched::Kind::DualPi2),
        ..SchedulerConfig::default()
    };
    for (mbit, ms) in [(40, 20), (40, 10), (100, 30), (20, 40)] {
        let make = |network: &mut Network| {
            network.add_scheduler(&scheduler, &link(mbit, ms), &FlowsetConfig::default(), &[])
        };
        let outcome = run(&[Kind::Prague, Kind::Cubic], mbit, ms, make, 30, 100);
        outcome.show(&format!("Prague and CUBIC, {mbit} Mbit/s {ms} ms"));
        let [prague, cubic] = outcome.shares[..] else { panic!("two flows") };
        assert!(
            (0.5..2.0).contains(&(prague / cubic)),
            "{mbit} Mbit/s, {ms} ms: {prague} and {cubic}"
        );
        assert!(prague + cubic > 0.85, "{mbit} Mbit/s, {ms} ms: {prague} and {cubic}");
        let one_way = ms as f64 / 2.0;
        assert!(
            outcome.delay_ms[0] < one_way + 2.5,
            "Prague's packets wait {} ms",
            outcome.delay_ms[0] - one_way
        );
    }
}

#[test]
fn dctcp_takes_too_large_a_share_of_a_classic_queue() {
    let scheduler = SchedulerConfig {
        discipline: Discipline::new(sched::Kind::DualPi2),
        ..SchedulerConfig::default()
    };
    let make = |network: &mut Network| {
        network.add_scheduler(&scheduler, &link(40, 20), &FlowsetConfig::default(), &[])
    };
    // Packets of DCTCP carry ECT(0), so they wait in the classic queue and are marked as rarely as
    // classic packets are dropped.
    let outcome = run(&[Kind::Dctcp, Kind::NewReno], 40, 20, make, 10, 40);
    outcome.show("DCTCP and NewReno in the classic queue");
    assert!(outcome.shares[0] > 3.0 * outcome.shares[1], "{:?}", outcome.shares);
}

#[test]
fn bbr_fills_the_link_and_keeps_a_deep_buffer_nearly_empty() {
    let make = |network: &mut Network| {
        network.add_pipe(&PipeConfig {
            link: link(10, 40),
            queue: queue(1000, None),
            scheduler: None,
        })
    };
    let bbr = run(&[Kind::Bbr], 10, 40, make, 5, 40);
    bbr.show("BBR");
    // A queue of one bandwidth-delay product takes 40 ms.
    assert!(bbr.shares[0] > 0.9, "{}", bbr.shares[0]);
    assert!(bbr.queue_ms[2] < 60.0 && bbr.queue_ms[0] < 20.0, "{:?} ms", bbr.queue_ms);
    let cubic = run(&[Kind::Cubic], 10, 40, make, 5, 40);
    cubic.show("CUBIC");
    assert!(
        cubic.queue_ms[0] > 10.0 * bbr.queue_ms[0],
        "CUBIC fills the buffer, since only losses slow it down"
    );
}

#[test]
fn bbr_keeps_its_rate_where_packets_are_lost_by_chance() {
    let make = |network: &mut Network| {
        let mut link = link(10, 40);
        link.loss = weir_core::config::Loss::Bernoulli(weir_core::Probability::new(0.02).unwrap());
        network.add_pipe(&PipeConfig { link, queue: queue(200, None), scheduler: None })
    };
    let bbr = run(&[Kind::Bbr], 10, 40, make, 5, 30);
    bbr.show("BBR");
    let reno = run(&[Kind::NewReno], 10, 40, make, 5, 30);
    reno.show("NewReno");
    assert!(
        bbr.shares[0] > 0.85 && reno.shares[0] < 0.5,
        "{} and {}",
        bbr.shares[0],
        reno.shares[0]
    );
}

#[test]
fn ledbat_uses_an_empty_link_and_gives_way_to_cubic() {
    // 200 packets take 240 ms, more than twice LEDBAT's target.
    let make = |network: &mut Network| {
        network.add_pipe(&PipeConfig {
            link: link(10, 40),
            queue: queue(200, None),
            scheduler: None,
        })
    };
    let alone = run(&[Kind::Ledbat], 10, 40, make, 100, 30);
    alone.show("LEDBAT");
    assert!(alone.shares[0] > 0.94, "{}", alone.shares[0]);
    assert!(
        (85.0..115.0).contains(&alone.queue_ms[0]),
        "the queue is {} ms, the target 100",
        alone.queue_ms[0]
    );
    assert_eq!(alone.drops, 0);
    let both = run(&[Kind::Ledbat, Kind::Cubic], 10, 40, make, 30, 60);
    both.show("LEDBAT and CUBIC");
    assert!(both.shares[0] < 0.2 * (both.shares[0] + both.shares[1]), "{:?}", both.shares);
}
