//! Tests the configurations in `examples/talk` on real frames: each behaves as its first lines
//! state.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{Lab, Need, check_accounting, check_count, load, number, trial, weir};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("talk_a_dsl_line_has_its_rate_each_way", &[], dsl),
        trial("talk_queues_share_a_link_by_weight", &[Need::Root], flowsets),
        trial("talk_two_pipes_and_chance_reorder", &[], reorder),
        trial("talk_every_customer_has_a_link_by_one_rule", &[Need::Root], customers),
        trial("talk_a_profile_takes_air_time", &[], profile),
        trial("talk_netconfig_sets_a_link_for_one_service", &[], netconfig),
    ]
}

fn dsl(lab: &Lab) {
    // Both directions are offered more than their rates.
    let (load, dir) = (load(), lab.path("").display().to_string());
    let recv = |port: u16, name: &str| {
        format!("{load} recv --bind 0.0.0.0:{port} --idle 1 --json --out {dir}/{name}")
    };
    let send = |to: &str, rate: &str| {
        format!("{load} send --to {to} -4 --rate {rate} --seconds 3 --size 1000 > /dev/null")
    };
    let left =
        format!("{} & sleep 0.5; {}; wait", recv(9001, "down.json"), send("right:9000", "512k"));
    let right = format!("{} & sleep 1; {}; wait", recv(9000, "up.json"), send("left:9001", "6M"));
    pair(lab, "dsl.ipfw", &left, &right);
    for (name, rate) in [("up.json", 256e3), ("down.json", 4e6)] {
        let r = lab.reception(name);
        assert!(
            (r.bits_per_second / rate - 1.0).abs() < 0.03,
            "{name}: {} bit/s instead of {rate}",
            r.bits_per_second
        );
        assert!(r.delay_ns.min >= 10_000_000, "{name}: {:?}", r.delay_ns);
    }
}

fn flowsets(lab: &Lab) {
    // Each stream offers the rate of the whole link.
    let streams = [("10.77.0.2", 10.0), ("10.77.0.3", 1.0), ("10.77.0.4", 1.0)];
    let rates = offered(lab, "flowsets.ipfw", &streams.map(|(address, _)| address), "4M");
    for ((address, weight), rate) in streams.iter().zip(rates) {
        let expected = 4e6 * weight / 12.0;
        assert!(
            (rate / expected - 1.0).abs() < 0.06,
            "{address}: {rate} bit/s instead of {expected:.0}"
        );
    }
}

fn customers(lab: &Lab) {
    // Two flows of one customer share its 2 Mbit/s; the other customer has 2 Mbit/s of its own.
    let rates = offered(lab, "customers.ipfw", &["10.77.0.2", "10.77.0.2", "10.77.0.3"], "3M");
    for (rate, expected) in rates.iter().zip([1e6, 1e6, 2e6]) {
        assert!((rate / expected - 1.0).abs() < 0.05, "{rates:?}");
    }
}

fn reorder(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let left = format!(
        "sleep 1; {load} send --to right:9000 -4 --count 2000 --pps 500 --size 200 > /dev/null"
    );
    let right = format!(
        "{load} recv --bind 0.0.0.0:9000 --idle 1 --sent 2000 --json --out {dir}/recv.json"
    );
    let result = pair(lab, "reorder.ipfw", &left, &right);
    let r = lab.reception("recv.json");
    assert_eq!(r.lost, 0);
    // Ten packets are sent in the 20 ms between the two delays. A packet with the longer delay is
    // overtaken, unless all ten have the longer delay too.
    check_count("overtaken by a later packet", r.reordered, r.received, 0.3);
    assert!(r.delay_ns.p50 < 20_000_000 && r.delay_ns.p99 >= 30_000_000, "{:?}", r.delay_ns);
    let rules = result["rules"].as_array().expect("rules");
    let [slow, fast] = [0, 1].map(|n: usize| number(&rules[n], "packets"));
    check_count("on the slow pipe", slow, slow + fast, 0.3);
}

fn profile(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let left = format!(
        "sleep 1; {load} send --to right:9000 -4 --seconds 8 --rate 1M --size 1000 > /dev/null"
    );
    let right = format!("{load} recv --bind 0.0.0.0:9000 --idle 1 --json --out {dir}/recv.json");
    pair(lab, "profile.ipfw", &left, &right);
    let r = lab.reception("recv.json");
    // Each packet takes 8 ms, plus an extra time of 4.4 ms on average; there are about 650 draws
    // with a standard deviation of 7.6 ms.
    let each_ns = r.span_ns as f64 / (r.received - 1) as f64;
    assert!((each_ns / 12.4e6 - 1.0).abs() < 0.1, "{each_ns} ns for a packet");
}

fn netconfig(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let ask = |to: &str, out: &str| {
        format!("{load} ping --to {to} -4 --count 20 --interval 0.02 --json --out {dir}/{out}.json")
    };
    let echo = |port: u16| format!("{load} echo --bind 0.0.0.0:{port} --seconds 30");
    // The clients of port 80 and the server of port 8080 are on the left. No rule matches the echo
    // on port 7.
    let left =
        format!("{} & {} & sleep 1; {}; sleep 30", echo(8080), echo(7), ask("right:80", "client"));
    let right = format!(
        "{} & sleep 3; {}; {}; kill %1",
        echo(80),
        ask("left:8080", "server"),
        ask("left:7", "other")
    );
    pair(lab, "netconfig.ipfw", &left, &right);
    for (name, least, most) in
        [("client", 100.0, 104.0), ("server", 40.0, 44.0), ("other", 0.0, 4.0)]
    {
        let answers = lab.json(&format!("{name}.json"));
        assert_eq!(number(&answers, "lost"), 0, "{name}: {answers}");
        let p50_ms = number(&answers["rtt_ns"], "p50") as f64 / 1e6;
        assert!((least..most).contains(&p50_ms), "{name}: {p50_ms} ms");
    }
}

/// Offers one stream of `rate` to each of these addresses on the right side, all at the same time.
/// Returns the received rates in bit/s.
fn offered(lab: &Lab, rules: &str, addresses: &[&str], rate: &str) -> Vec<f64> {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let mut left = "ip route add 10.77.0.0/24 dev eth0; sleep 1; ".to_owned();
    let mut right: String = ["2", "3", "4"]
        .iter()
        .map(|last| format!("ip addr add 10.77.0.{last}/32 dev eth0; "))
        .collect();
    for (n, address) in addresses.iter().enumerate() {
        let port = 9000 + n;
        right += &format!(
            "{load} recv --bind {address}:{port} --idle 1 --list-arrivals --json --out \
             {dir}/recv{n}.json & "
        );
        left += &format!(
            "{load} send --to {address}:{port} --rate {rate} --seconds 5 --size 1000 > /dev/null & "
        );
    }
    pair(lab, rules, &(left + "wait"), &(right + "wait"));
    (0..addresses.len()).map(|n| steady(lab, n)).collect()
}

/// The rate of stream `n` in bit/s while all streams run. After the senders have ended, the backlog
/// of the light queues would have the link to itself.
fn steady(lab: &Lab, n: usize) -> f64 {
    let second = 1_000_000_000;
    let arrivals = lab.reception(&format!("recv{n}.json")).arrivals;
    let within = arrivals.iter().filter(|&&(_, at)| (second..4 * second).contains(&at)).count();
    within as f64 * 8_000.0 / 3.0
}

/// Runs two programs with a configuration between them. File names in the configuration are
/// relative to its directory. The left program is on the machine that the rules describe.
fn pair(lab: &Lab, rules: &str, left: &str, right: &str) -> Value {
    let json = lab.path("weir.json");
    let mut command = Command::new(weir());
    command
        .current_dir(examples())
        .args(["pair", "--seed", "7", "--rules", rules, "--json"])
        .arg(&json);
    let done = lab.launch(command.args(["--left", left, "--right", right])).finish();
    assert!(json.exists(), "weir pair wrote no result: {done:?}");
    let result = lab.document("weir.json");
    check_accounting(&result);
    result
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/talk")
}
