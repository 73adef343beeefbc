//! Switches in scenarios: stages with service times, back-pressure into the pipeline, deadlines by
//! path, and the published measurements of FIFO+.

use proptest::prelude::*;
use weir_rules::NoFiles;
use weir_sim::build::build;
use weir_sim::measure::Outcome;
use weir_sim::run::{Progress, Ran, run_points};
use weir_sim::scenario::{self, Edited, parse};

/// Four hosts at one switch with the settings `switch`. A packet of 1000 bytes takes 1 ms on the
/// link between `c` and the switch, and no time on the other links.
fn star(switch: &str, traffic: &str) -> String {
    format!(
        r#"
duration = "2s"
node = [
    {{ name = "a" }}, {{ name = "b" }}, {{ name = "c" }}, {{ name = "d" }},
    {{ name = "s", kind = "switch", {switch} }},
]
[[link]]
between = ["a", "s"]
[[link]]
between = ["b", "s"]
[[link]]
between = ["s", "c"]
spec = "bw 8Mbit/s"
[[link]]
between = ["s", "d"]
{traffic}
"#
    )
}

/// Packets of 1000 bytes from `from` to `to`, one each `interval`, until 1 s.
fn flow(name: &str, from: &str, to: &str, interval: &str) -> String {
    format!(
        r#"
[[traffic]]
name = "{name}"
from = "{from}"
to = "{to}"
kind = "cbr"
interval = "{interval}"
stop = "1s"
"#
    )
}

fn ran(edited: &Edited, threads: usize) -> Vec<Ran> {
    let checked = scenario::parse_edited(edited, "t.toml", "--set", &NoFiles);
    let scenario = checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics));
    let points = scenario::points(edited, &scenario, "t.toml", &NoFiles).unwrap();
    run_points(points, threads, &Progress::default(), &|_, _, _| None).unwrap().unwrap()
}

fn outcome(text: &str) -> Outcome {
    ran(&Edited::new(text), 1).remove(0).outcomes.remove(0)
}

fn refusal(switch: &str) -> String {
    parse(&star(switch, ""), "t.toml", &NoFiles).diagnostics.to_string()
}

fn drops(outcome: &Outcome, port: &str) -> u64 {
    let link = outcome.links.iter().find(|link| link.name == port).unwrap();
    assert!(link.counters.balanced(), "{link:?}");
    link.counters.total_drops()
}

#[test]
fn the_sum_of_the_stages_is_the_delay_and_the_slowest_is_the_rate() {
    let stages = r#"parser = "2us", stages = ["1us", "5us", "3us"], egress_time = "4us""#;
    // One packet each 10 ms does not wait. The link to `d` takes no time.
    let alone = outcome(&star(stages, &flow("f", "a", "d", "10ms")));
    let delay = &alone.flows[0].delay_ns;
    assert_eq!((delay.min, delay.max, delay.count), (15_000, 15_000, 100));
    // 1,000,000 packets a second arrive from two inputs, and 200,000 pass: one each 5 us.
    let both = flow("f", "a", "d", "2us") + &flow("g", "b", "d", "2us");
    let busy = outcome(&star(stages, &both));
    let received = busy.flows[0].received + busy.flows[1].received;
    // At the end of the traffic, each of the two buffers holds 1024 packets, which arrive later.
    assert!((202_040..=202_060).contains(&received), "{received}");
    assert!(busy.flows[0].received.abs_diff(busy.flows[1].received) <= 2, "inputs take turns");
    assert_eq!(busy.flows.iter().map(|flow| flow.lost).sum::<u64>(), drops(&busy, "s"));
    // A slower stage halves the rate, wherever it is.
    for stages in [r#"stages = ["10us", "1us"]"#, r#"stages = ["1us", "10us"]"#] {
        let slow = outcome(&star(stages, &both));
        let received = slow.flows[0].received + slow.flows[1].received;
        assert!((102_040..=102_060).contains(&received), "{received}");
    }
    // Twelve stages are allowed.
    let twelve = format!("stages = [{}]", [r#""1us""#; 12].join(", "));
    let delay = outcome(&star(&twelve, &flow("f", "a", "d", "10ms"))).flows[0].delay_ns.clone();
    assert_eq!((delay.min, delay.max), (12_000, 12_000));
}

#[test]
fn the_egress_pipeline_limits_the_rate_of_an_output() {
    let slow = r#"pipeline = 0, egress_time = "100us", egress = 1, interface = 1"#;
    let outcome = outcome(&star(slow, &flow("f", "a", "d", "50us")));
    // 20,000 packets arrive in a second and 10,000 pass. The 64 packets that wait in the strict
    // queue at the end of this second arrive later.
    assert!((10_060..=10_070).contains(&outcome.flows[0].received), "{:?}", outcome.flows[0]);
}

#[test]
fn a_full_traffic_manager_holds_the_pipeline_and_loses_nothing() {
    let queues = r#"manager = "strict-n queues 8 depth 4", egress = 1, interface = 1"#;
    // 1667 packets in a second for an output that sends 1000 a second, and 100 for an idle one.
    let traffic = flow("f", "a", "c", "600us") + &flow("g", "b", "d", "10ms");
    let drop = outcome(&star(queues, &traffic));
    assert!((655..=662).contains(&drops(&drop, "s>c")), "{}", drops(&drop, "s>c"));
    assert_eq!((drops(&drop, "s"), drop.flows[1].lost), (0, 0));
    let fast = drop.flows[1].delay_ns.max;
    assert!(fast <= 30_000, "packets for another output do not wait: {fast}");

    let holds = format!("{queues}, manager_blocks = true");
    let held = outcome(&star(&holds, &traffic));
    assert_eq!(held.flows.iter().map(|flow| flow.lost).sum::<u64>(), 0);
    assert_eq!((held.flows[0].received, held.flows[0].inside), (1667, 0));
    // The packets that were lost in the run without `manager_blocks` wait in the input buffer in
    // this run.
    let link = held.links.iter().find(|link| link.name == "s").unwrap();
    assert!((650..=667).contains(&link.counters.peak_queue_packets), "{link:?}");
    // The two inputs share one pipeline. A packet for the idle output waits behind the held packet,
    // behind the packet in the stage, and behind one more packet of the other input, which is
    // served first. It does not wait behind the whole buffer of that input.
    let behind = held.flows[1].delay_ns.max;
    assert!((900_000..=3_010_000).contains(&behind), "{behind}");

    // A small buffer drops at the input, and only there.
    let small = format!("{holds}, input_buffer = 10");
    let small = outcome(&star(&small, &traffic));
    assert_eq!(drops(&small, "s>c"), 0);
    assert!((640..=662).contains(&drops(&small, "s")), "{}", drops(&small, "s"));
}

#[test]
fn every_manager_that_blocks_loses_no_packet() {
    for manager in ["sp-pifo queues 2 depth 3", "pifo limit 3", "fifo", "drr"] {
        let switch = format!(
            r#"manager = "{manager}", queue = 3, manager_blocks = true, egress = 1, interface = 1, program = "prio", parser = "1us""#
        );
        let traffic = flow("f", "a", "c", "600us") + &flow("g", "b", "c", "10ms");
        let outcome = outcome(&star(&switch, &traffic));
        let received: Vec<u64> = outcome.flows.iter().map(|flow| flow.received).collect();
        assert_eq!(received, [1667, 100], "{manager}");
        assert_eq!(drops(&outcome, "s>c"), 0, "{manager}");
        assert_eq!(outcome.flows.iter().map(|flow| flow.lost).sum::<u64>(), 0, "{manager}");
    }
}

#[test]
fn hostile_values_of_stages_are_refused_with_what_is_allowed() {
    assert_eq!(refusal(r#"parser = "1us", stages = ["1ns"]"#), "");
    let thirteen = format!("stages = [{}]", [r#""1us""#; 13].join(", "));
    for (settings, expected) in [
        (thirteen.as_str(), "13 match-action stages are too many: a pipeline has at most 12"),
        (r#"stages = ["0s"]"#, "`stages` must be 1ns..1s for each packet"),
        (r#"stages = ["1us", "2s"]"#, "`stages` must be 1ns..1s for each packet"),
        (r#"parser = "0ns""#, "`parser` must be 1ns..1s for each packet"),
        (r#"egress_time = "1001ms""#, "`egress_time` must be 0s..1s for each packet"),
        (r#"pipeline = 5, parser = "1us""#, "either `pipeline`, or `parser` and `stages`"),
        (r#"pipeline = 0, stages = ["1us"]"#, "either `pipeline`, or `parser` and `stages`"),
        (r#"pipeline = 0, manager_blocks = true"#, "needs a pipeline in which packets wait"),
        (r#"manager = "aifo", manager_blocks = true"#, "`aifo` drops by other rules"),
        (r#"manager = "fq_codel", manager_blocks = true"#, "`fq_codel` drops by other rules"),
        (r#"parser = "fast""#, "`fast` is no time"),
        (r#"program = "fifo+ clock 0ns""#, "`0ns` is out of range for `clock`"),
        (r#"program = "fifo+ late 2s""#, "`2s` is out of range for `late`"),
    ] {
        let refusal = refusal(settings);
        assert!(refusal.contains(expected), "{settings}: {refusal}");
    }
    // The queues of switches count towards the limit on ports and queues.
    let mut text = String::from("duration = \"1s\"\n");
    for n in 0..8 {
        text += &format!("[[node]]\nname = \"s{n}\"\nkind = \"switch\"\nports = 1024\n");
    }
    for n in 0..7_200 {
        text += &format!(
            "[[node]]\nname = \"h{n}\"\n[[link]]\nbetween = [\"h{n}\", \"s{}\"]\n",
            n / 900
        );
    }
    let refusal = parse(&text, "t.toml", &NoFiles).diagnostics.to_string();
    assert!(refusal.contains("too many queues"), "{}", &refusal[..refusal.len().min(500)]);
}

#[test]
fn a_deadline_by_path_grows_with_each_switch_that_has_a_program() {
    let chain = |traffic: &str| {
        let mut text =
            String::from("duration = \"1s\"\n[[node]]\nname = \"h1\"\n[[node]]\nname = \"h2\"\n");
        for n in 1..=3 {
            text += &format!("[[node]]\nname = \"s{n}\"\nkind = \"switch\"\n");
            text += if n == 2 { "" } else { "program = \"fifo+\"\n" };
        }
        for (a, b) in [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "h2")] {
            text += &format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\n");
        }
        text + &format!(
            "[[traffic]]\nfrom = \"h1\"\nto = \"h2\"\nkind = \"cbr\"\ninterval = \
             \"100ms\"\n{traffic}\n"
        )
    };
    let label = |traffic: &str| {
        let checked = parse(&chain(traffic), "t.toml", &NoFiles);
        let scenario = checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        let labels = Labels::default();
        let mut world = build(&scenario, 1).unwrap().world;
        world.observe(Box::new(Watch(labels.clone())));
        world.run(weir_core::Nanos::from_millis(500));
        let labels = labels.lock().unwrap().clone();
        assert_eq!(labels.len(), 5);
        labels[0]
    };
    assert_eq!(label("deadline = \"10ms\""), 10_000_000);
    // Two of the three switches have a program.
    assert_eq!(label("deadline = \"10ms\"\ndeadline_per_switch = \"3ms\""), 16_000_000);
    assert_eq!(
        label("deadline = \"25920000s\"\ndeadline_per_switch = \"25920000s\""),
        900 * 86_400_000_000_000
    );
    let checked = parse(&chain("deadline_per_switch = \"3ms\""), "t.toml", &NoFiles);
    let refusal = checked.diagnostics.to_string();
    assert!(refusal.contains("deadline_per_switch") && refusal.contains("`deadline`"), "{refusal}");
}

/// The labels of packets that arrive.
type Labels = std::sync::Arc<std::sync::Mutex<Vec<u64>>>;

#[derive(Debug)]
struct Watch(Labels);

impl weir_sim::network::Observer for Watch {
    fn arrived(&mut self, _now: weir_core::Nanos, packet: &weir_sim::packet::Packet) {
        self.0.lock().unwrap().push(packet.label);
    }
}

const PATH: &str = include_str!("../../../../experiments/examples/fifo-plus-path.toml");
const CROSS: &str = include_str!("../../../../experiments/examples/fifo-plus.toml");

/// A flow's time in switches, ms: the mean and the quantile `q`.
fn waits(outcome: &Outcome, flow: &str, q: f64) -> (f64, f64) {
    let flow = outcome.flows.iter().find(|own| own.name == flow).unwrap();
    (flow.switches_ns.mean() / 1e6, flow.switches_ns.quantile(q) as f64 / 1e6)
}

fn assert_near(ours: f64, published: f64) {
    assert!((ours / published - 1.0).abs() < 0.2, "{ours} for {published}");
}

#[test]
fn the_scenario_of_one_path_gives_the_published_waits() {
    let mut edited = Edited::new(PATH);
    edited.set("duration", "240s").unwrap();
    edited.set("warmup", "180s").unwrap();
    let ran = ran(&edited, 2);
    for (ran, published) in ran.iter().zip([(815.0, 997.0), (177.0, 465.0)]) {
        let (mean, tail) = waits(&ran.outcomes[0], "h1", 0.999);
        assert_near(mean, published.0);
        assert_near(tail, published.1);
    }
}

#[test]
fn the_scenario_of_cross_traffic_gives_the_published_waits() {
    let mut edited = Edited::new(CROSS);
    edited.set("duration", "200s").unwrap();
    let ran = ran(&edited, 2);
    let published = [
        [(359.0, 462.0), (229.0, 287.0), (163.0, 204.0)],
        [(48.0, 163.0), (46.0, 154.0), (50.0, 167.0)],
    ];
    for (ran, published) in ran.iter().zip(published) {
        for (host, published) in ["h1", "h2", "h3"].iter().zip(published) {
            let (mean, tail) = waits(&ran.outcomes[0], host, 0.99);
            assert_near(mean, published.0);
            assert_near(tail, published.1);
        }
    }
}

#[test]
fn the_scenario_of_cross_traffic_gives_the_same_on_any_number_of_threads() {
    let mut edited = Edited::new(CROSS);
    edited.set("duration", "20s").unwrap();
    let text = |threads| {
        ran(&edited, threads).iter().map(|ran| format!("{:?}", ran.outcomes)).collect::<String>()
    };
    assert_eq!(text(1), text(3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever the settings, every packet has arrived, is counted as lost, or is inside. In the
    /// end none is inside. If all queues block, the outputs lose none.
    #[test]
    fn packets_are_conserved_through_all_stages(
        stages in prop::collection::vec(1u32..2000, 0..13),
        parser in prop::option::of(1u32..2000),
        egress_us in 0u32..1500,
        sizes in (1u32..40, 1u32..6, 1u32..6, 1u32..20),
        manager in prop::sample::select(vec!["strict-n queues 3", "sp-pifo queues 3", "pifo limit 4", "fifo", "drr"]),
        (manager_blocks, egress_blocks, interface_blocks) in any::<(bool, bool, bool)>(),
        intervals in prop::collection::vec(100u32..3000, 3),
        until in 1u64..40,
    ) {
        prop_assume!(parser.is_some() || !stages.is_empty());
        let (input, egress, interface, depth) = sizes;
        let manager = if manager.ends_with("queues 3") {
            format!("{manager} depth {depth}")
        } else {
            manager.to_owned()
        };
        let stages: Vec<String> = stages.iter().map(|us| format!("\"{us}us\"")).collect();
        let parser = parser.map_or(String::new(), |us| format!("parser = \"{us}us\", "));
        let switch = format!(
            "{parser}stages = [{}], manager = \"{manager}\", queue = {depth}, program = \"lstf \
             slack 100ms late 3us\", input_buffer = {input}, egress = {egress}, interface = \
             {interface}, egress_time = \"{egress_us}us\", manager_blocks = {manager_blocks}, \
             egress_blocks = {egress_blocks}, interface_blocks = {interface_blocks}",
            stages.join(", ")
        );
        let ends = [("a", "c"), ("b", "c"), ("a", "d")];
        let traffic: String = ends
            .iter()
            .zip(&intervals)
            .enumerate()
            .map(|(n, ((from, to), us))| {
                flow(&format!("f{n}"), from, to, &format!("{us}us"))
                    .replace("stop = \"1s\"", "stop = \"40ms\"")
            })
            .collect();
        let checked = parse(&star(&switch, &traffic), "t.toml", &NoFiles);
        let scenario = checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        let mut built = build(&scenario, 1).unwrap();
        for end in [until, 100_000] {
            built.world.run(weir_core::Nanos::from_millis(end));
            let network = built.world.network();
            let inside: u64 = network.counts().iter().map(|count| count.inside()).sum();
            prop_assert_eq!(inside, network.packets().len() as u64);
            for port in 0..network.ports() {
                let stats = network.stats(weir_sim::network::PortId(port)).unwrap();
                prop_assert!(stats.counters.balanced(), "{:?}", stats.counters);
            }
        }
        let network = built.world.network();
        prop_assert_eq!((network.packets().len(), network.held()), (0, 0));
        for (number, name) in built.names.links.iter().enumerate() {
            let stats = network.stats(weir_sim::network::PortId(number as u32)).unwrap();
            if manager_blocks && egress_blocks && interface_blocks && name.name.starts_with("s>") {
                prop_assert_eq!(stats.counters.total_drops(), 0, "{}", name.name);
            }
        }
    }
}
