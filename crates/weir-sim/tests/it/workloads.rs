//! Traffic over a transport: loads, sizes, incast, pages, reuse of flow numbers. Tests that need
//! exact times use a trivial transport with a fixed window instead of TCP.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::config::{Capacity, LinkConfig, PipeConfig};
use weir_core::{Nanos, Rate};
use weir_sim::endpoint::{Context, Endpoint, EndpointId, Notice};
use weir_sim::network::{FlowCount, FlowSpec, Network, Observer};
use weir_sim::packet::{Flags, FlowId, Packet};
use weir_sim::random::Cdf;
use weir_sim::traffic::{Opening, Placement, Spec, Supply, Transport};
use weir_sim::world::World;

/// A transport of segments with 1000 payload bytes and a fixed number of them in flight, without
/// losses and without a handshake.
#[derive(Clone, Copy, Debug)]
struct Window(u64);

#[derive(Debug)]
struct Sending {
    flow: FlowId,
    owner: Option<EndpointId>,
    window: u64,
    written: u64,
    closed: bool,
    sent: u64,
    acked: u64,
}

#[derive(Debug)]
struct Receiving {
    owner: Option<EndpointId>,
}

impl Transport for Window {
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
        let Opening { supply, owner, .. } = *opening;
        let (written, closed) = match supply {
            Supply::Unlimited => (u64::MAX, false),
            Supply::Bytes(bytes) => (bytes, true),
            Supply::Written => (0, false),
        };
        let sending =
            Sending { flow, owner, window: self.0 * 1000, written, closed, sent: 0, acked: 0 };
        (Box::new(sending), Box::new(Receiving { owner }))
    }

    fn protocol(&self) -> u8 {
        6
    }
}

/// A packet with 40 bytes of headers.
fn packet(flow: FlowId, payload: u32, seq: u64) -> Packet {
    let mut packet = Packet::default();
    (packet.flow, packet.len, packet.header, packet.seq) = (flow, payload + 40, 40, seq);
    packet
}

impl Sending {
    fn transmit(&mut self, context: &mut Context<'_>) {
        while self.sent < self.written && self.sent < self.acked + self.window {
            let payload = (self.written - self.sent).min(1000) as u32;
            context.send(packet(self.flow, payload, self.sent));
            self.sent += u64::from(payload);
        }
        let done = self.closed && self.acked == self.written;
        if let Some(owner) = self.owner.take_if(|_| done) {
            context.tell(owner, self.flow, Notice::Done);
        }
    }
}

impl Endpoint for Sending {
    fn start(&mut self, context: &mut Context<'_>) {
        self.transmit(context);
    }

    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        self.acked = packet.ack;
        self.transmit(context);
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        match notice {
            Notice::Write(bytes) => self.written += bytes,
            _ => self.closed = true,
        }
        self.transmit(context);
    }
}

impl Endpoint for Receiving {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let payload = packet.payload();
        context.count(packet.flow).goodput_bytes += u64::from(payload);
        if let Some(owner) = self.owner {
            context.tell(owner, packet.flow, Notice::Delivered(payload.into()));
        }
        let mut ack = self::packet(packet.flow, 0, 0);
        ack.ack = packet.seq + u64::from(payload);
        ack.flags = Flags::BACK;
        context.send(ack);
    }
}

/// A world with `sources` hosts that each have 100 Gbit/s to a switch, and `rate` from the switch
/// to one destination. The delay is 500 us in each direction.
fn world(text: &str, window: Option<u64>, rate: u64, sources: usize) -> World {
    let mut network = Network::new(1);
    let pipe = |bps, us| PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(bps).unwrap()),
            delay: Nanos::from_micros(us),
            ..LinkConfig::default()
        },
        queue: weir_core::config::FlowsetConfig {
            limit: Some(weir_core::config::QueueLimit::Packets(100_000)),
            ..weir_core::config::FlowsetConfig::default()
        },
        scheduler: None,
    };
    let shared = network.add_pipe(&pipe(rate, 250));
    let back = network.add_pipe(&pipe(100_000_000_000, 500));
    let own: Vec<_> = (0..sources).map(|_| network.add_pipe(&pipe(100_000_000_000, 250))).collect();
    let mut world = World::new(network);
    let spec: Spec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let files = BTreeMap::from([("own.csv".to_owned(), "1000,0.5\n2000,1".to_owned())]);
    let mut plan = spec.check(&files).unwrap_or_else(|error| panic!("{text}: {error}"));
    if let Some(window) = window {
        plan = plan.with_transport(Arc::new(Window(window)));
    }
    let flows: Vec<FlowSpec> = own
        .iter()
        .map(|&own| FlowSpec {
            forward: vec![own, shared],
            back: vec![back],
            ..FlowSpec::default()
        })
        .collect();
    plan.install(&mut world, &Placement { flows: &flows, seed: 1, number: 9 });
    world
}

fn run(text: &str, window: Option<u64>, rate: u64, sources: usize, end: Nanos) -> FlowCount {
    let mut world = world(text, window, rate, sources);
    world.run(end);
    world.network().counts()[0].clone()
}

const GIGABIT: u64 = 1_000_000_000;

#[test]
fn flows_offer_their_load() {
    for text in [
        "kind = 'flows'\nsizes = '20KB'\nrate = '100Mbit/s'",
        "kind = 'flows'\nsizes = '20KB'\nload = 0.1\nof = '1Gbit/s'",
        "kind = 'flows'\nsizes = '20KB'\nper_second = 625",
    ] {
        let count = run(text, Some(100), GIGABIT, 1, Nanos::from_secs(40));
        // 25,000 arrivals are expected, with a standard deviation of 0.6 %.
        assert!((count.opened as f64 / 25_000.0 - 1.0).abs() < 0.02, "{text}: {}", count.opened);
        assert!(count.opened - count.completed < 20, "{text}: {count:?}");
        // The shortest time for 20 packets of 1040 bytes, the delays and the last acknowledgement.
        assert!(count.completion_ns.min() >= 1_166_400, "{}", count.completion_ns.min());
        assert!(count.completion_ns.mean() < 1_300_000.0, "{}", count.completion_ns.mean());
    }
}

#[test]
fn sizes_follow_their_distribution() {
    let web_search = include_str!("../../data/web-search.csv");
    let data_mining = include_str!("../../data/data-mining.csv");
    for (name, text) in [
        ("'web-search'", web_search),
        ("'data-mining'", data_mining),
        ("{ kind = 'file', path = 'own.csv' }", "1000,0.5\n2000,1"),
    ] {
        let cdf = Cdf::read(text).unwrap();
        let scenario = format!("kind = 'flows'\nsizes = {name}\nper_second = 1000\nflows = 2000");
        let written = Written::default();
        let list = written.0.clone();
        let spec: Spec = toml::from_str(&scenario).unwrap();
        let files = BTreeMap::from([("own.csv".to_owned(), text.to_owned())]);
        let plan = spec.check(&files).unwrap().with_transport(Arc::new(written));
        let mut world = World::new(Network::new(1));
        plan.install(&mut world, &Placement { flows: &[FlowSpec::default()], seed: 3, number: 1 });
        world.run(Nanos::from_secs(10));
        let mut sizes = list.lock().unwrap().clone();
        assert_eq!(sizes.len(), 2000);
        sizes.sort_unstable();
        for (index, &size) in sizes.iter().enumerate() {
            if sizes.get(index + 1).is_none_or(|&next| next > size) {
                let share = (index + 1) as f64 / 2000.0;
                // The Kolmogorov–Smirnov bound; sizes are also rounded.
                assert!(
                    (share - cdf.share(size as f64 + 0.5)).abs() < 1.95 / libm::sqrt(2000.0),
                    "{name}: {size}"
                );
            }
        }
    }
}

/// A transport that carries nothing, and records the size of each flow.
#[derive(Debug, Default)]
struct Written(Arc<std::sync::Mutex<Vec<u64>>>);

#[derive(Debug)]
struct Silent(Option<(EndpointId, FlowId)>);

impl Endpoint for Silent {
    fn start(&mut self, context: &mut Context<'_>) {
        if let Some((owner, flow)) = self.0 {
            context.tell(owner, flow, Notice::Done);
        }
    }

    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}
}

impl Transport for Written {
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
        if let Supply::Bytes(bytes) = opening.supply {
            self.0.lock().unwrap().push(bytes);
        }
        (Box::new(Silent(opening.owner.map(|owner| (owner, flow)))), Box::new(Silent(None)))
    }

    fn protocol(&self) -> u8 {
        6
    }
}

#[test]
fn a_hundred_thousand_short_flows_reuse_the_numbers_of_a_few() {
    let mut world = world(
        "kind = 'flows'\nsizes = '2KB'\nper_second = 10000\nflows = 100000",
        Some(10),
        10 * GIGABIT,
        1,
    );
    world.run(Nanos::from_secs(12));
    let count = world.network().counts()[0].clone();
    assert_eq!(
        (count.opened, count.completed, count.goodput_bytes),
        (100_000, 100_000, 200_000_000)
    );
    // About ten flows are open at once. Numbers are reused, so the next number is small.
    assert!(world.next_flow().0 < 60, "{:?}", world.next_flow());
    assert!(world.network().packets().is_empty());
}

#[test]
fn users_have_one_flow_at_a_time() {
    let text = "kind = 'flows'\nsizes = '10KB'\nusers = 5\nthink = '9ms'";
    let count = run(text, Some(100), GIGABIT, 1, Nanos::from_secs(20));
    // A flow takes about 1.1 ms, so each user starts one flow per 10.1 ms.
    assert!(
        (count.completed as f64 / (5.0 * 20.0 / 0.010_1) - 1.0).abs() < 0.03,
        "{}",
        count.completed
    );
    assert!(count.opened - count.completed <= 5);
}

#[test]
fn a_response_takes_a_round_trip_on_a_connection_that_is_kept() {
    let one = |text: &str| run(text, Some(1000), 10 * GIGABIT, 1, Nanos::from_secs(30));
    let kept = one("kind = 'requests'\nsizes = '50KB'\npersistent = true\nthink = '10ms'");
    assert!(kept.completed > 2000 && kept.opened - kept.completed <= 1, "{kept:?}");
    // The request takes 500 us. 50 packets of 1040 bytes take 42 us plus 500 us.
    assert!(
        (kept.completion_ns.mean() / 1_041_700.0 - 1.0).abs() < 0.01,
        "{}",
        kept.completion_ns.mean()
    );
    let anew = one("kind = 'requests'\nsizes = '50KB'\nthink = '10ms'\nusers = 3");
    assert!(anew.completed > 6000);
    assert!(
        (anew.completion_ns.mean() / 1_041_700.0 - 1.0).abs() < 0.02,
        "{}",
        anew.completion_ns.mean()
    );
}

/// The arrival time of each packet with data, and whether the packet goes back, as requests do from
/// the sink to the source.
#[derive(Debug, Default)]
struct Times(Arc<std::sync::Mutex<Vec<(Nanos, bool)>>>);

impl Observer for Times {
    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        if packet.len != 40 {
            self.0.lock().unwrap().push((now, packet.flags.has(Flags::BACK)));
        }
    }
}

#[test]
fn all_servers_answer_at_once() {
    let times = Times::default();
    let list = times.0.clone();
    let mut world = world(
        "kind = 'incast'\nsize = '1000B'\ninterval = '10ms'\nqueries = 3",
        Some(10),
        GIGABIT,
        40,
    );
    world.observe(Box::new(times));
    world.run(Nanos::from_secs(1));
    let count = &world.network().counts()[0];
    assert_eq!((count.opened, count.completed), (3, 3));
    let seen = list.lock().unwrap().clone();
    let requests: Vec<u64> = seen.iter().filter(|(_, back)| *back).map(|(now, _)| now.0).collect();
    assert_eq!(requests.len(), 120);
    for (query, heard) in requests.chunks(40).enumerate() {
        // Requests of 200 bytes leave one after the other at 100 Gbit/s, 16 ns each.
        assert!(
            heard[0].abs_diff(query as u64 * 10_000_000 + 500_016) <= 1
                && heard[39] - heard[0] <= 40 * 16,
            "{heard:?}"
        );
    }
    // Forty packets of 1040 bytes at 1 Gbit/s, one after the other.
    let least = 500_016 + 500_000 + 40 * 8_320;
    assert!(
        count.completion_ns.min() >= least && count.completion_ns.max() <= least + 2_000,
        "{:?}",
        count.completion_ns
    );
    assert_eq!(count.goodput_bytes, 120_000);
}

#[test]
fn the_next_query_waits_for_the_last() {
    let count = run(
        "kind = 'incast'\ntotal = '1MB'\ninterval = '1us'\nqueries = 50",
        Some(2000),
        GIGABIT,
        10,
        Nanos::from_secs(2),
    );
    assert_eq!((count.opened, count.completed), (50, 50));
    // 1 MB and its headers take 8.3 ms.
    assert!(
        count.completion_ns.min() > 9_300_000 && count.completion_ns.max() < 9_400_000,
        "{:?}",
        count.completion_ns
    );
    assert_eq!(count.goodput_bytes, 50_000_000);
}

#[test]
fn a_page_is_a_document_and_its_objects_over_a_few_connections() {
    let text = "kind = 'web'\ndocument = '10KB'\nobject = '5KB'\nobjects = 12\nparse = '0s'\nread \
                = '50ms'";
    let count = run(text, Some(1000), 100 * GIGABIT, 1, Nanos::from_secs(20));
    assert!(count.completed > 300 && count.opened - count.completed <= 1, "{count:?}");
    // Three rounds of request and response: one for the document, and two for six objects each.
    assert!(
        (count.completion_ns.mean() / 3e6 - 1.0).abs() < 0.01,
        "{}",
        count.completion_ns.mean()
    );
    assert!(count.goodput_bytes.abs_diff(count.completed * 70_000) <= 70_000, "{count:?}");
    let one = run(
        &format!("{text}\nconnections = 1"),
        Some(1000),
        100 * GIGABIT,
        1,
        Nanos::from_secs(20),
    );
    assert!((one.completion_ns.mean() / 13e6 - 1.0).abs() < 0.01, "{}", one.completion_ns.mean());
}

#[test]
fn pages_of_the_published_model_have_its_mean_size() {
    let count =
        run("kind = 'web'\nread = '1s'", Some(1000), 100 * GIGABIT, 1, Nanos::from_secs(40_000));
    let mean = count.goodput_bytes as f64 / count.completed as f64;
    // 10,710 bytes and 5.64 objects of 7,758 bytes. In the model, objects have a standard deviation
    // of 126,168 bytes.
    let expected = 10_710.0 + 5.64 * 7_758.0;
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} {expected}");
}

#[test]
fn the_same_traffic_goes_over_tcp() {
    for (text, sources, completed) in [
        ("kind = 'tcp'\nbytes = '1MB'", 1, 1),
        ("kind = 'flows'\nsizes = '20KB'\nper_second = 200\nflows = 1000\ncc = 'newreno'", 1, 1000),
        (
            "kind = 'requests'\nsizes = '50KB'\npersistent = true\nthink = '10ms'\nstop = '10s'",
            1,
            500,
        ),
        ("kind = 'requests'\nsizes = '50KB'\nthink = '10ms'\nstop = '10s'", 1, 500),
        ("kind = 'web'\nread = '100ms'\nstop = '10s'", 1, 30),
        ("kind = 'incast'\nsize = '20KB'\nqueries = 100", 20, 100),
        ("kind = 'incast'\nsize = '20KB'\nqueries = 100\npersistent = false", 20, 100),
    ] {
        let mut world = world(text, None, GIGABIT, sources);
        world.run(Nanos::from_secs(60));
        let count = world.network().counts()[0].clone();
        assert!(count.completed >= completed, "{text}: {count:?}");
        assert_eq!(count.opened, count.completed, "{text}");
        assert!(world.network().packets().is_empty(), "{text}");
        assert!(count.goodput_bytes > 0 && count.reasons.total_drops() == 0, "{text}: {count:?}");
    }
}

#[test]
fn real_stacks_are_traffic_where_they_are_built() {
    for (name, built) in [("smoltcp", cfg!(feature = "smoltcp")), ("quic", cfg!(feature = "quic"))]
    {
        let text = format!("kind = 'stack'\nstack = '{name}'\nbytes = '1MB'");
        if built {
            let count = run(&text, None, GIGABIT, 1, Nanos::from_secs(60));
            assert_eq!(
                (count.opened, count.completed, count.goodput_bytes),
                (1, 1, 1_000_000),
                "{name}"
            );
        } else {
            let spec: Spec = toml::from_str(&text).unwrap();
            let error = spec.check(&BTreeMap::new()).unwrap_err().to_string();
            assert!(error.contains(&format!("--features weir-sim/{name}")), "{error}");
        }
    }
}

#[test]
fn runs_repeat() {
    for text in [
        "kind = 'flows'\nsizes = 'web-search'\nload = 0.5\nof = '1Gbit/s'",
        "kind = 'web'\nread = '100ms'",
        "kind = 'incast'\nsize = '100KB'",
    ] {
        let results = || {
            let count = run(text, None, GIGABIT, 8, Nanos::from_secs(5));
            format!("{count:?}")
        };
        assert_eq!(results(), results(), "{text}");
    }
}

#[test]
fn an_invalid_setting_is_refused_by_name() {
    for (text, setting, words) in [
        ("kind = 'tcp'\nbytes = 0", "bytes", "above 0"),
        ("kind = 'tcp'\ncc = 'cubik'", "cc", "did you mean `cubic`?"),
        ("kind = 'tcp'\ncc = 'cubic fish 3'", "cc", "`fish` is no setting of `cubic`"),
        ("kind = 'tcp'\nmss = 10", "mss", "from 64"),
        ("kind = 'tcp'\nack_every = 0", "ack_every", "from 1"),
        ("kind = 'flows'\nsizes = '1KB'", "rate", "one of"),
        ("kind = 'flows'\nsizes = '1KB'\nrate = '1M'\nusers = 3", "rate", "one of"),
        ("kind = 'flows'\nsizes = '1KB'\nload = 0.5", "of", "part of"),
        ("kind = 'flows'\nsizes = '1KB'\nload = -1\nof = '1M'", "load", "above 0"),
        ("kind = 'flows'\nsizes = '1KB'\nrate = '1M'\nthink = '1s'", "think", "`users`"),
        ("kind = 'flows'\nsizes = '1KB'\nper_second = 0", "per_second", "above 0"),
        (
            "kind = 'flows'\nsizes = { kind = 'pareto', shape = 1, mean = '1KB' }\nrate = '1M'",
            "sizes",
            "above 1",
        ),
        (
            "kind = 'flows'\nsizes = { kind = 'pareto', shape = 0.9, scale = '1KB' }\nrate = '1M'",
            "sizes",
            "mean must be finite",
        ),
        (
            "kind = 'flows'\nsizes = { kind = 'file', path = 'no.csv' }\nrate = '1M'",
            "sizes",
            "cannot read `no.csv`",
        ),
        ("kind = 'requests'\nsizes = '1KB'\nusers = 0", "users", "above 0"),
        ("kind = 'web'\nconnections = 0", "connections", "above 0"),
        ("kind = 'stack'\nstack = 'linux'", "stack", "allowed: smoltcp, quic"),
        ("kind = 'incast'", "size", "`size` or `total`"),
        ("kind = 'incast'\nsize = 1\ntotal = 2", "total", "either"),
    ] {
        let spec: Spec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let error = spec.check(&BTreeMap::new()).unwrap_err();
        assert_eq!(error.setting, setting, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    let error = toml::from_str::<Spec>("kind = 'flows'\nsizes = 'websearch'\nrate = '1M'")
        .unwrap_err()
        .to_string();
    assert!(error.contains("allowed: `web-search`"), "{error}");
}
