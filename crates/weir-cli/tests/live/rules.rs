//! Tests rules in the language of ipfw and dummynet on real packets: the paths that they select,
//! and their effects.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use serde_json::Value;
use weir_wire::builder::PacketBuilder;
use weir_wire::{flow_key, parse};

use crate::common::{
    Lab, Need, Pairs, Stream, check_accounting, check_count, drops, link_from, load, number, trial,
    until,
};

/// The test that measures when packets arrive.
pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("pipes_in_series_add_up_without_one_pass", &[], chain)]
}

/// The tests that count packets and measure rates.
pub(crate) fn counts() -> Vec<Trial> {
    vec![
        trial("packets_that_draw_the_longer_path_are_overtaken", &[], reordering),
        trial("flows_share_a_link_by_their_weights", &[], weights),
        trial("tags_jumps_and_denials_take_effect_over_ipv4_and_ipv6", &[], tags),
        trial("wrong_rules_are_refused_before_anything_starts", &[], refused),
        trial("traffic_that_no_pipe_shapes_is_a_warning", &[], swapped),
        trial("one_rule_gives_each_of_ten_thousand_customers_a_rate", &[Need::Root], customers),
        trial("two_workers_give_each_customer_the_same_rate", &[Need::Root], two_workers),
    ]
}

/// Sends a stream from left to right along the path that the rules select.
fn through(
    lab: &Lab,
    options: &[&str],
    rules: &str,
    stream: &Stream,
) -> (weir_traffic::stats::Reception, Value) {
    let file = lab.file("test.rules", rules);
    lab.stream_through(&[&["--rules", &file], options].concat(), 7, stream)
}

/// The pipe with this number in a result.
fn pipe(result: &Value, wanted: u64) -> &Value {
    let pipes = result["pipes"].as_array().expect("a result with rules has pipes");
    pipes
        .iter()
        .find(|p| p["number"] == wanted)
        .unwrap_or_else(|| panic!("no pipe {wanted}: {pipes:?}"))
}

/// Packets that the rule with this number matched.
fn matched(result: &Value, wanted: u64) -> u64 {
    let rules = result["rules"].as_array().expect("a result with rules has their counters");
    number(
        rules
            .iter()
            .find(|r| r["number"] == wanted)
            .unwrap_or_else(|| panic!("no rule {wanted}: {rules:?}")),
        "packets",
    )
}

fn reordering(lab: &Lab) {
    let rules = "pipe 1 config delay 20ms\npipe 2 config delay 10ms\n\
                 add 100 prob 0.2 pipe 1 udp from any to any 9000 out\n\
                 add 200 pipe 2 udp from any to any 9000 out\n";
    for options in [&[][..], &["--workers", "2"]] {
        let stream = Stream { count: 6_000, pps: 6_000, ..Stream::default() };
        let (r, result) = through(lab, options, rules, &stream);
        assert_eq!((r.lost, r.duplicated), (0, 0));
        check_count(
            "packets on the longer path",
            number(pipe(&result, 1), "packets_in"),
            stream.count,
            0.2,
        );
        // A packet on the longer path is overtaken unless it is one of the last packets, which no
        // packet on the shorter path follows.
        check_count("packets overtaken", r.reordered, stream.count, 0.2);
        assert_eq!(matched(&result, 100) + matched(&result, 200), stream.count);
        assert!(
            (10_000_000..20_000_000).contains(&r.delay_ns.p50) && r.delay_ns.p99 >= 20_000_000,
            "{:?}",
            r.delay_ns
        );
    }
}

fn weights(lab: &Lab) {
    for scheduler in ["wf2q+", "drr"] {
        let mut shown = Vec::new();
        // On a busy machine one sender may start late, and the other then has the link alone.
        let agrees = (0..3).any(|_| {
            let (heavy, light) = rates_by_weight(lab, scheduler);
            shown.push(format!("{heavy:.0} and {light:.0}"));
            (heavy / (LINK * 10.0 / 11.0) - 1.0).abs() < 0.02
                && (light / (LINK / 11.0) - 1.0).abs() < 0.03
        });
        assert!(agrees, "{scheduler}: {shown:?} bit/s");
    }
}

/// The received rates, in bit/s, of two flows with weights of 10 and 1.
fn rates_by_weight(lab: &Lab, scheduler: &str) -> (f64, f64) {
    let (load, seconds) = (load(), 2);
    let rules = format!(
        "pipe 1 config bw 10Mbit/s\nsched 1 config type {scheduler}\n\
         queue 1 config sched 1 weight 10\nqueue 2 config sched 1 weight 1\n\
         add 100 queue 1 udp from any to any 9001 out\n\
         add 200 queue 2 udp from any to any 9002 out\n"
    );
    let file = lab.file("test.rules", &rules);
    let out = |name: &str| lab.path(name).display().to_string();
    let send = |port| {
        format!(
            "{load} send --to right:{port} -4 --rate 12M --seconds {seconds} --size 1000 \
             --after 0.5 >/dev/null"
        )
    };
    let receive = |port, name| {
        format!("{load} recv --bind 0.0.0.0:{port} --seconds 1.8 --json --out {}", out(name))
    };
    let left = format!("{} & {}; wait", send(9001), send(9002));
    let right = format!("{} & {}; wait", receive(9001, "heavy.json"), receive(9002, "light.json"));
    let result = lab.pair_with(&["--rules", &file], 7, &left, &right);
    assert!(drops(pipe(&result, 1), "queue_full") > 100, "more was offered than fits");
    (lab.reception("heavy.json").bits_per_second, lab.reception("light.json").bits_per_second)
}

fn chain(lab: &Lab) {
    let rules = "disable one_pass\npipe 1 config delay 10ms\npipe 2 config bw 10Mbit/s\n\
                 pipe 3 config delay 15ms loss 5%\n\
                 add 100 pipe 1 udp from any to any 9000 out\n\
                 add 200 pipe 2 udp from any to any 9000 out\n\
                 add 300 count udp from any to any 9000\n\
                 add 400 pipe 3 udp from any to any 9000 out\n";
    let stream = Stream { count: 4_000, pps: 2_000, ..Stream::default() };
    let (r, result) = through(lab, &[], rules, &stream);
    assert!(
        (25_000_000..27_000_000).contains(&r.delay_ns.p50),
        "10 + 0.16 + 15 ms: {:?}",
        r.delay_ns
    );
    assert_eq!(r.reordered, 0);
    check_count("lost in the last pipe", r.lost, stream.count, 0.05);
    for pipe_number in 1..=3 {
        assert_eq!(number(pipe(&result, pipe_number), "packets_in"), stream.count);
    }
    assert_eq!(matched(&result, 300), stream.count);
    assert_eq!(drops(link_from(&result, "left"), "loss_on_link"), r.lost);
}

fn tags(lab: &Lab) {
    let rules = "pipe 1 config delay 30ms\npipe 2 config delay 10ms\n\
                 add 100 count tag 7 ip6 from any to any dst-port 9000 out\n\
                 add 200 skipto 500 udp from any to any dst-port 9000 out\n\
                 add 300 deny udp from any to any out\n\
                 add 500 pipe 1 ip from any to any tagged 7 out via eth0\n\
                 add 600 pipe 2 udp from any to me in\n\
                 add 700 deny udp from any to any dst-port 9001 recv nothere0\n";
    let (load, file, out) =
        (load(), lab.file("test.rules", rules), lab.path("ping.json").display().to_string());
    for (version, any, least) in [("-6", "[::]", 40_000_000), ("-4", "0.0.0.0", 10_000_000)] {
        // Packets to port 9 are denied. The IP version selects the path of packets to port 9000.
        let denied = format!("{load} send --to right:9 {version} --count 5 --size 100 >/dev/null");
        let ping = format!("{load} ping --to right:9000 {version} --count 50 --json --out {out}");
        let echo = format!("{load} echo --bind {any}:9000 --count 50 --seconds 10 >/dev/null");
        let result = lab.pair_with(&["--rules", &file], 7, &format!("{denied}; {ping}"), &echo);
        let round_trip = lab.json("ping.json");
        let median = round_trip["rtt_ns"]["p50"].as_u64().unwrap_or_else(|| panic!("{round_trip}"));
        assert!((least..least + 3_000_000).contains(&median), "{version}: {round_trip}");
        assert_eq!((drops(link_from(&result, "left"), "denied"), matched(&result, 300)), (5, 5));
        assert_eq!(matched(&result, 700), 0);
    }
}

/// From left to right, packets go out of the machine that the rules describe, so a rule with `in`
/// does not match them.
fn swapped(lab: &Lab) {
    let stream = Stream { count: 500, pps: 1000, size: 1000, ..Stream::default() };
    for (direction, warns) in [("in", true), ("out", false)] {
        let rules = format!(
            "pipe 1 config bw 100Mbit/s queue 1000\nadd 100 pipe 1 ip from any to any {direction}\n"
        );
        let (_, result) = through(lab, &[], &rules, &stream);
        let warnings = result["warnings"].to_string();
        let passed = warnings.contains("passed by no pipe");
        assert_eq!(passed, warns, "{direction}: {warnings}");
        assert!(!warns || warnings.contains("to-right: 5"), "{warnings}");
    }
}

fn refused(lab: &Lab) {
    let file =
        lab.file("bad.rules", "pipe 1 config bw 10Mbit/s\nadd 100 pype 1 ip from any to any\n");
    let mark = lab.path("ran").display().to_string();
    let done = lab.weir(["run", "--rules", &file, "--", "touch", &mark]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.stderr.contains("pype")
            && done.stderr.contains("bad.rules")
            && done.stderr.contains("pipe"),
        "{done:?}"
    );
    assert!(!lab.path("ran").exists());
    let done = lab.weir(["run", "--rules", "/nowhere/at/all", "--", "true"]);
    assert!(done.code == 2 && done.stderr.contains("/nowhere/at/all"), "{done:?}");
    let done = lab.weir(["run", "--rules", &file, "--link", "4M", "--", "true"]);
    assert!(
        done.code == 2 && done.stderr.contains("--rules") && done.stderr.contains("--link"),
        "{done:?}"
    );
    let good =
        lab.file("good.rules", "pipe 1 config bw 10Mbit/s\nadd 100 pipe 1 ip from any to any\n");
    let done = lab.weir(["run", "--rules", &good, "--", "true"]);
    assert!(done.code == 0 && done.stderr.contains("00100"), "{done:?}");
}

fn customers(lab: &Lab) {
    serve_customers(lab, "1");
}

fn two_workers(lab: &Lab) {
    serve_customers(lab, "2");
}

/// Ten thousand customers behind a bridge. Every two-hundredth customer is offered 1.5 times its
/// rate. The queue lasts 0.8 s, so that it does not run empty while a busy machine pauses the
/// sender.
fn serve_customers(lab: &Lab, workers: &str) {
    let _pairs = Pairs::make();
    let file = lab.file(
        "test.rules",
        "pipe 1 config bw 200Kbit/s queue 40 mask dst-ip 0xffffffff\n\
            add 100 pipe 1 ip from any to any in recv wlb\n",
    );
    let json = lab.path("weir.json").display().to_string();
    let sink = listen("wra");
    let bridge = lab.start([
        "bridge",
        "wlb",
        "wrb",
        "--rules",
        &file,
        "--workers",
        workers,
        "--json",
        &json,
    ]);
    let (out, to) = (raw(), address("wla"));
    let send = |customer: u32, size: usize| {
        let to_customer =
            PacketBuilder::udp([10, 1, 1, 1], Ipv4Addr::from(FIRST + customer), 1000, 2000);
        let frame = to_customer.payload(vec![0; size - 28]).frame();
        assert_eq!(sendto(out.as_raw_fd(), &frame, &to, MsgFlags::empty()), Ok(frame.len()));
    };
    until("the bridge carries frames", || {
        send(0, 28);
        std::thread::sleep(Duration::from_millis(20));
        received(&sink).is_some()
    });
    let counting = std::thread::spawn(move || count(&sink));
    // Each sampled customer is sent 300 kbit/s, which is 75 packets per second; each other customer
    // is sent one or two packets.
    let (start, mut others) = (Instant::now(), (1..CUSTOMERS).filter(|c| c % STEP != 0).cycle());
    for turn in 0..TURNS {
        while start.elapsed() < turn * TURN {
            std::thread::sleep(Duration::from_micros(200));
        }
        (STEP..CUSTOMERS).step_by(STEP as usize).for_each(|customer| send(customer, SIZE));
        (0..50).for_each(|_| send(others.next().unwrap_or(1), 40));
    }
    let seen = counting.join().expect("the receiver works");
    bridge.signal_group(nix::sys::signal::Signal::SIGINT);
    assert_eq!(bridge.finish().code, 0);
    let result = lab.document("weir.json");
    check_accounting(&result);
    assert!(seen.len() > 9_000, "{} customers had packets", seen.len());
    for customer in (STEP..CUSTOMERS).step_by(STEP as usize) {
        let (packets, span) = seen[&customer];
        let rate = (packets - 1) as f64 * (SIZE * 8) as f64 / span.as_secs_f64();
        assert!(
            (rate / 200_000.0 - 1.0).abs() < 0.02,
            "customer {customer}: {rate:.0} bit/s over {span:?}"
        );
    }
    let pipe = pipe(&result, 1);
    assert!(drops(pipe, "queue_full") > 1000 && pipe["balanced"] == true, "{pipe}");
}

/// Counts the packets of each customer until no packet arrives for a second. Also returns the time
/// from the first to the last packet of each customer.
fn count(sink: &OwnedFd) -> BTreeMap<u32, (u64, Duration)> {
    let mut seen: BTreeMap<u32, (u64, Instant, Instant)> = BTreeMap::new();
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_secs(1) {
        let Some(customer) = received(sink) else { continue };
        last = Instant::now();
        let entry = seen.entry(customer).or_insert((0, last, last));
        (entry.0, entry.2) = (entry.0 + 1, last);
    }
    seen.into_iter()
        .map(|(customer, (packets, first, last))| (customer, (packets, last - first)))
        .collect()
}

/// The customer of the next packet that arrives within 50 ms.
fn received(sink: &OwnedFd) -> Option<u32> {
    let mut room = [0; 2048];
    let len = recv(sink.as_raw_fd(), &mut room, MsgFlags::empty()).ok()?;
    let parsed = parse(&room[..len]).ok()?;
    u32::try_from(flow_key(&room[..len], &parsed).dst)
        .ok()?
        .checked_sub(FIRST)
        .filter(|&customer| customer < CUSTOMERS)
}

fn raw() -> OwnedFd {
    socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None::<SockProtocol>)
        .expect("a raw socket")
}

/// A socket that receives all frames of an interface.
fn listen(interface: &str) -> OwnedFd {
    let all =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
            .expect("a raw socket");
    setsockopt(&all, sockopt::RcvBufForce, &(16 << 20)).expect("root may");
    setsockopt(&all, sockopt::ReceiveTimeout, &TimeVal::new(0, 50_000)).expect("a time limit");
    bind(all.as_raw_fd(), &address(interface)).expect("bind to the interface");
    all
}

fn address(interface: &str) -> LinkAddr {
    let mut interfaces = nix::ifaddrs::getifaddrs().expect("interfaces");
    let address = interfaces
        .find_map(|i| i.address.filter(|_| i.interface_name == interface)?.as_link_addr().copied());
    address.expect("the interface has a link address")
}

/// The address of customer 0: 10.2.0.0.
const FIRST: u32 = 0x0a02_0000;
const CUSTOMERS: u32 = 10_000;
/// Customers with a number that is a multiple of this are sampled.
const STEP: u32 = 200;
/// Length of a packet to a sampled customer, bytes.
const SIZE: usize = 500;
/// Number of packets for each sampled customer.
const TURNS: u32 = 300;
/// Time between two packets of a sampled customer.
const TURN: Duration = Duration::from_micros(13_333);

/// Rate in bit/s of the link that two flows share by weight.
const LINK: f64 = 10_000_000.0;
