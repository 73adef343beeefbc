//! Traffic from the text of a scenario to its arrivals: mean rates, times, headers, and invalid
//! settings.

use std::collections::BTreeMap;
use std::io;

use weir_core::config::{Capacity, LinkConfig, PipeConfig};
use weir_core::{Nanos, Rate};
use weir_rules::Files;
use weir_sim::network::{FlowCount, FlowSpec, Network, Observer};
use weir_sim::packet::Packet;
use weir_sim::traffic::{COMMON, KINDS, Placement, Spec, TRANSPORT};
use weir_sim::world::World;

/// The files that the scenarios of the tests name.
fn files() -> BTreeMap<String, String> {
    let csv = "0,1500\n0.25,40\n1,576\n";
    BTreeMap::from([
        ("a.csv".to_owned(), csv.to_owned()),
        ("bad.csv".to_owned(), "0,ten".to_owned()),
    ])
}

/// A world with one traffic entry over a fast link with a delay of 1 ms in each direction.
fn world(text: &str, seed: u64) -> World {
    let mut network = Network::new(seed);
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::MAX),
        delay: Nanos::from_millis(1),
        ..LinkConfig::default()
    };
    let pipe = PipeConfig { link, ..PipeConfig::default() };
    let (forward, back) = (vec![network.add_pipe(&pipe)], vec![network.add_pipe(&pipe)]);
    let mut world = World::new(network);
    let spec: Spec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let plan = spec.check(&files()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let flows = [FlowSpec { forward, back, ..FlowSpec::default() }];
    plan.install(&mut world, &Placement { flows: &flows, seed, number: 3 });
    world
}

fn count(text: &str, seed: u64, end: Nanos) -> FlowCount {
    let mut world = world(text, seed);
    world.run(end);
    world.network().counts()[0].clone()
}

#[test]
fn open_loop_traffic_has_its_mean_rate() {
    let thousand = Nanos::from_secs(1000);
    for (text, bps, within) in [
        ("kind = 'cbr'\nrate = '1Mbit/s'", 1e6, 1e-5),
        ("kind = 'cbr'\ninterval = '8ms'", 1e6, 1e-5),
        ("kind = 'poisson'\nrate = '5Mbit/s'\nsize = 500", 5e6, 0.004),
        ("kind = 'poisson'\ninterval = '8ms'", 1e6, 0.01),
        // Shape 2 and scale 4 ms: 125 packets per second.
        ("kind = 'pareto'\nscale = '4ms'", 1e6, 0.05),
        ("kind = 'pareto'\nrate = '2Mbit/s'\nshape = 2.5", 2e6, 0.02),
        ("kind = 'on-off'\nrate = '4Mbit/s'\non = '100ms'\noff = '300ms'", 1e6, 0.06),
        (
            "kind = 'on-off'\nrate = '4Mbit/s'\non = '100ms'\noff = '300ms'\nperiods = \
             'pareto'\nshape = 1.9",
            1e6,
            0.2,
        ),
        (
            "kind = 'on-off'\nrate = '4Mbit/s'\non = '100ms'\noff = '300ms'\nperiods = 'constant'",
            1e6,
            0.001,
        ),
        (
            "kind = 'markov'\nstates = [{ rate = '3Mbit/s', hold = '50ms' }, { hold = '100ms' }]",
            1e6,
            0.05,
        ),
        (
            "kind = 'markov'\ngaps = 'exponential'\nstates = [{ rate = '3Mbit/s', leave = [0, 20] \
             }, { leave = [10, 0] }]",
            1e6,
            0.05,
        ),
        // 200 bytes every 20 ms, during 1 s of 2.35 s.
        ("kind = 'voip'", 80e3 / 2.35, 0.15),
        ("kind = 'voip'\ncodec = 'g729'\nsilence = '0s'", 24e3, 0.001),
        ("kind = 'imix'\nrate = '2Mbit/s'", 2e6, 0.01),
        (
            "kind = 'imix'\nrate = '2Mbit/s'\ngaps = 'exponential'\nmix = [[100, 1], [1000, 1]]",
            2e6,
            0.01,
        ),
        ("kind = 'trace'\nfile = 'a.csv'\nrepeat = true", 2116.0 * 8.0 / 1.5, 0.001),
        ("kind = 'probe'", 64.0 * 800.0, 1e-4),
        ("kind = 'ping'", 84.0 * 80.0, 1e-4),
    ] {
        let measured = count(text, 1, thousand).sent_bytes as f64 * 8.0 / 1000.0;
        assert!((measured / bps - 1.0).abs() <= within, "{text}: {measured}, expected {bps}");
    }
}

#[derive(Debug, Default)]
struct Seen(std::sync::Arc<std::sync::Mutex<Vec<(Nanos, Packet)>>>);

impl Observer for Seen {
    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        self.0.lock().unwrap().push((now, *packet));
    }
}

fn arrivals(text: &str, end: Nanos) -> Vec<(Nanos, Packet)> {
    let seen = Seen::default();
    let list = seen.0.clone();
    let mut world = world(text, 1);
    world.observe(Box::new(seen));
    world.run(end);
    drop(world);
    std::sync::Arc::into_inner(list).unwrap().into_inner().unwrap()
}

#[test]
fn a_trace_arrives_at_its_times_with_its_lengths() {
    let packets = arrivals("kind = 'trace'\nfile = 'a.csv'\nstart = '2s'", Nanos::from_secs(9));
    // The link delays each packet by 1 ms and by its transmission time at 400 Gbit/s.
    let expected = [(2_001_000_030, 1500), (2_251_000_001, 40), (3_001_000_012, 576)];
    let measured: Vec<(u64, u32)> =
        packets.iter().map(|(now, packet)| (now.0, packet.len)).collect();
    assert_eq!(measured.len(), 3);
    for (measured, expected) in measured.iter().zip(expected) {
        assert!(
            measured.0.abs_diff(expected.0) <= 1 && measured.1 == expected.1,
            "{measured:?} {expected:?}"
        );
    }
}

#[test]
fn packets_carry_the_fields_of_the_settings() {
    let packets = arrivals(
        "kind = 'cbr'\nrate = '1M'\nsize = '500B'\necn = 'ect1'\ndeadline = '20us'\nstop = '1s'",
        Nanos::from_secs(9),
    );
    assert_eq!(packets.len(), 250);
    let (_, packet) = packets[17];
    assert_eq!(
        (packet.ecn, packet.label, packet.len, packet.payload()),
        (weir_core::packet::Ecn::Ect1, 20_000, 500, 472)
    );
    assert_eq!(packet.seq, 17);
    assert_eq!(arrivals("kind = 'voip'", Nanos::from_secs(20))[0].1.payload(), 160);
    assert_eq!(arrivals("kind = 'probe'\nlabel = 7", Nanos::from_secs(1))[0].1.label, 7);
}

#[test]
fn pings_measure_round_trips() {
    let count = count("kind = 'ping'\ninterval = '10ms'\nstop = '1s'", 1, Nanos::from_secs(2));
    assert_eq!((count.opened, count.completed, count.received), (100, 100, 100));
    assert!((count.completion_ns.mean() - 2e6).abs() < 20.0, "{}", count.completion_ns.mean());
}

#[test]
fn starts_are_spread_by_their_jitter_and_follow_the_seed() {
    let first = |seed| {
        let seen = Seen::default();
        let list = seen.0.clone();
        let mut world = world("kind = 'cbr'\nrate = '1M'\nstart = '1s'\nstart_jitter = '1s'", seed);
        world.observe(Box::new(seen));
        world.run(Nanos::from_secs(3));
        list.lock().unwrap()[0].0
    };
    let starts: Vec<Nanos> = (0..40).map(first).collect();
    assert!(starts.iter().all(|&at| at >= Nanos::from_secs(1) && at < Nanos::from_millis(2002)));
    assert!(
        starts.iter().any(|at| at.0 < 1_250_000_000)
            && starts.iter().any(|at| at.0 > 1_750_000_000)
    );
    assert_eq!(first(7), first(7));
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_gives_others() {
    for text in [
        "kind = 'poisson'\nrate = '1M'",
        "kind = 'voip'",
        "kind = 'imix'\nrate = '1M'",
        "kind = 'pareto'\nrate = '1M'",
    ] {
        let run = |seed| {
            let count = count(text, seed, Nanos::from_secs(60));
            (count.sent, count.sent_bytes)
        };
        assert_eq!(run(1), run(1));
        assert!((2..9).any(|seed| run(seed) != run(1)), "{text}");
    }
}

/// Binary files, which cannot be read as text.
struct Binary;

impl Files for Binary {
    fn read(&self, _path: &str) -> io::Result<String> {
        Err(io::Error::other("not text"))
    }

    fn read_bytes(&self, _path: &str) -> io::Result<Vec<u8>> {
        Ok(vec![0; 40])
    }
}

#[test]
fn an_invalid_setting_is_refused_by_name() {
    for (text, setting, words) in [
        ("kind = 'cbr'", "rate", "give `rate` or `interval`"),
        ("kind = 'cbr'\nrate = '1M'\ninterval = '1ms'", "interval", "either `rate` or `interval`"),
        ("kind = 'cbr'\nrate = '1M'\nsize = 20", "size", "from 28 bytes"),
        ("kind = 'cbr'\ninterval = '0s'", "interval", "above 0"),
        ("kind = 'cbr'\nrate = '1M'\nstart = '2s'\nstop = '1s'", "stop", "later than `start`"),
        ("kind = 'cbr'\nrate = '1M'\ndscp = 64", "dscp", "from 0 to 63"),
        (
            "kind = 'cbr'\nrate = '1M'\nlabel = 1\ndeadline = '1s'",
            "deadline",
            "either `label` or `deadline`",
        ),
        ("kind = 'pareto'\nrate = '1M'\nshape = 1", "shape", "above 1"),
        ("kind = 'pareto'\nrate = '1M'\nscale = '4ms'", "scale", "one of"),
        ("kind = 'pareto'\nscale = '4ms'\nshape = nan", "shape", "0.1"),
        ("kind = 'on-off'\nrate = '1M'\non = '0s'\noff = '1s'", "on", "above 0"),
        ("kind = 'on-off'\nrate = '1bit/s'\non = '1ms'\noff = '1s'", "on", "make it longer"),
        ("kind = 'markov'\nstates = []", "states", "from 1 to 1000"),
        (
            "kind = 'markov'\nstates = [{ hold = '1s' }]",
            "states",
            "state 1 leads to no state that sends",
        ),
        ("kind = 'markov'\nstates = [{ rate = '1M' }]", "states", "`hold`, or `leave`"),
        (
            "kind = 'markov'\nstates = [{ rate = '1M', hold = '1s', next = [1, 2] }]",
            "next",
            "has 2 entries",
        ),
        ("kind = 'markov'\nstates = [{ rate = '1M', leave = [5] }]", "leave", "not all 0"),
        ("kind = 'imix'\nrate = '1M'\nmix = []", "mix", "not all 0"),
        ("kind = 'imix'\nrate = '1M'\nmix = [[10, 1]]", "mix", "from 28 bytes"),
        ("kind = 'trace'\nfile = 'b.csv'", "file", "cannot read `b.csv`"),
        ("kind = 'trace'\nfile = 'bad.csv'", "file", "line 1"),
        ("kind = 'trace'\nfile = 'a'", "format", "`csv` or `pcap`"),
        ("kind = 'trace'\nfile = 'a.csv'\nspeed = 0", "speed", "0.000001"),
    ] {
        let spec: Spec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let error = spec.check(&files()).unwrap_err();
        assert_eq!(error.setting, setting, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    let spec: Spec = toml::from_str("kind = 'trace'\nfile = 'a.pcap'").unwrap();
    assert!(spec.check(&Binary).unwrap_err().to_string().contains("not a capture"));
}

/// A table of the settings of every kind, in the form of the documentation.
fn kinds_in_markdown() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let over = if kind.transport { " Over TCP." } else { "" };
        text += &format!("### `{}`\n\n{}{over}\n\n", kind.name, kind.summary.trim());
        text += "| setting | what it is |\n|---|---|\n";
        for (name, words) in kind.settings {
            text += &format!("| `{name}` | {} |\n", words.trim());
        }
        text += "\n";
    }
    text
}

#[test]
fn the_documentation_has_every_kind_and_setting() {
    const BEGIN: &str = "<!-- kinds: written by the tests -->\n";
    const END: &str = "<!-- end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/traffic.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (kinds, after) = rest.split_once(END).unwrap();
    let current = kinds_in_markdown();
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{current}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            kinds, current,
            "docs/traffic.md is not up to date; WEIR_UPDATE_DOCS=1 cargo test -p weir-sim writes it"
        );
    }
    for name in COMMON.iter().chain(TRANSPORT) {
        assert!(
            before.contains(&format!("| `{name}` |")),
            "docs/traffic.md does not have `{name}`"
        );
    }
}
