//! Tests the image `weir-sim` with a Docker engine that the test starts: a client and a server in
//! the two networks of the QUIC interop runner reach each other through the link of the scenario.

use std::path::PathBuf;

use libtest_mimic::Trial;

use crate::common::{Done, Lab, Need, check_accounting, link, number, skipped, trial, until, weir};
use crate::containers::Engine;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[
        Need::Root,
        Need::Program("dockerd"),
        Need::Program("docker"),
        Need::Program("busybox"),
        Need::Program("tcpdump"),
    ];
    vec![trial("sim_image_forwards_between_the_networks_of_a_scenario", needs, image)]
}

fn image(lab: &Lab) {
    let name = "sim_image_forwards_between_the_networks_of_a_scenario";
    let docker = match Engine::docker(lab) {
        Ok(docker) => docker,
        Err(words) => {
            let _ = skipped(name, &format!("dockerd does not start here: {words}"));
            return;
        }
    };
    let build = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/sim/build");
    docker.must(&format!("bash {} --weir {}", build.display(), weir()));
    docker.must(
        "docker network create --subnet 193.167.0.0/24 leftnet &&
         docker network create --subnet 193.167.100.0/24 rightnet",
    );
    start(&docker, "server", "rightnet", 100);
    start(&docker, "client", "leftnet", 0);

    // Each direction has the delay of the link, and /logs has the simulator's files.
    let logs = lab.path("logs").display().to_string();
    simulate(&docker, "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25", &logs);
    let times = pings(&docker, 5);
    assert_eq!(times.len(), 5, "{times:?}");
    assert!(times.iter().all(|ms| *ms >= 30.0), "{times:?}");
    docker.must("docker stop sim");
    for file in ["trace_node_left.pcap", "trace_node_right.pcap"] {
        let read = docker.must(&format!("tcpdump -n -r {logs}/{file} icmp"));
        assert_eq!(read.stdout.matches("echo request").count(), 5, "{read:?}");
        assert_eq!(read.stdout.matches("echo reply").count(), 5, "{read:?}");
    }
    let result = lab.document("logs/weir.json");
    check_accounting(&result);
    for direction in ["to-right", "to-left"] {
        // The kernel may add packets of its own, such as router solicitations.
        assert!(number(link(&result, direction), "packets_out") >= 5, "{result}");
    }

    // All packets to the server are lost.
    let lossy = "drop-rate --delay=5ms --bandwidth=10Mbps --queue=25";
    simulate(&docker, &format!("{lossy} --rate_to_client=0 --rate_to_server=100"), &logs);
    assert!(pings(&docker, 3).is_empty());
    docker.must("docker stop sim");
    let result = lab.document("logs/weir.json");
    assert!(crate::common::drops(link(&result, "to-right"), "loss_on_link") >= 3, "{result}");

    // The link is cut from the start, and is restored later.
    let cut = "blackhole --delay=5ms --bandwidth=10Mbps --queue=25 --on=0s --off=3s";
    simulate(&docker, cut, &logs);
    assert!(pings(&docker, 1).is_empty());
    until("the link is back", || !pings(&docker, 1).is_empty());

    refused(&docker);
}

/// Starts a container with a route to the other network. `third` is the third byte of its address.
fn start(docker: &Engine<'_>, name: &str, network: &str, third: u8) {
    docker.must(&format!(
        "docker run -d --name {name} --cap-add NET_ADMIN --network {network} \
         --ip 193.167.{third}.100 box /bin/sleep 1000 &&
         docker exec {name} ip route add 193.167.0.0/16 via 193.167.{third}.2"
    ));
}

/// Starts the simulator in both networks, and waits until it is ready.
fn simulate(docker: &Engine<'_>, scenario: &str, logs: &str) {
    docker.call("docker rm -f sim");
    docker.must(&format!(
        "rm -rf {logs} && mkdir {logs} &&
         docker create --name sim --cap-add NET_ADMIN --sysctl net.ipv4.ip_forward=1 \
         -e SCENARIO='{scenario}' -v {logs}:/logs --network leftnet --ip 193.167.0.2 weir-sim &&
         docker network connect --ip 193.167.100.2 rightnet sim && docker start sim"
    ));
    until("the endpoints may begin", || {
        docker.call("docker exec client /bin/busybox nc -w1 193.167.0.2 57832 </dev/null").code == 0
    });
    until("the link is there", || {
        docker.call("docker exec sim /bin/weir ps").stdout.contains("sim")
    });
}

/// The times of the answered pings from the client to the server, in ms.
fn pings(docker: &Engine<'_>, count: u32) -> Vec<f64> {
    let line = format!("docker exec client ping -i 0.2 -W 1 -c {count} 193.167.100.100");
    let done: Done = docker.call(&line);
    let after = done.stdout.split("time=").skip(1);
    after.map(|text| text.split(' ').next().and_then(|ms| ms.parse().ok()).expect("ms")).collect()
}

/// Scenarios that Weir does not support are refused by name, with exit code 127, as the runner
/// expects. Wrong parameters give exit code 1.
fn refused(docker: &Engine<'_>) {
    for (scenario, code, part) in [
        ("rebind --first-rebind=1s", 127, "does not translate addresses"),
        ("droplist --drops_to_client=1", 127, "not by their numbers"),
        ("corrupt-rate", 127, "mends the checksum"),
        ("tcp-cross-traffic", 127, "no source of other traffic"),
        ("teleport", 127, "there are simple-p2p"),
        ("", 1, "SCENARIO is empty"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbps", 1, "needs --queue"),
        ("simple-p2p --delay=15 --bandwidth=10Mbps --queue=25", 1, "'15' is no time"),
        ("simple-p2p --delay=$(reboot) --bandwidth=1Mbps --queue=1", 1, "is no time"),
        ("simple-p2p --delay=1ms --bandwidth=10 --queue=25", 1, "'10' is no rate"),
        ("simple-p2p --delay=1ms --bandwidth=1Mbps --queue=25 --x=1", 1, "--x is not supported"),
        ("drop-rate --rate_to_client=101 --rate_to_server=0", 1, "no percentage"),
    ] {
        let done = docker.call(&format!("docker run --rm -e SCENARIO='{scenario}' weir-sim"));
        assert_eq!(done.code, code, "{scenario}: {done:?}");
        assert!(done.stderr.contains(part), "{scenario}: {done:?}");
        assert_eq!(done.stderr.matches("sim: ").count(), 1, "{scenario}: {done:?}");
    }
}
