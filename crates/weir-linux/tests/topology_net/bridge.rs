//! Tests of a bridge between two interfaces of the machine: the packets that pass, the events that
//! end it, its refusals and its warnings.

use std::io::Read as _;
use std::process::{Child, Stdio};

use super::{Machine, PATIENCE, POLL, kill, skip, with_surround};

/// A machine between two others, `left` and `right`, with the interfaces `to-left` and `to-right`.
fn machine_in_between(name: &str) -> Option<Machine> {
    let machine = Machine::new(name)?;
    let script = "set -e; for side in left right; do
            ip netns add $side; ip link add to-$side type veth peer name eth0 netns $side
            ip link set to-$side up
            ip -n $side link set lo up; ip -n $side link set eth0 up; done
        ip -n left address add 10.9.9.1/24 dev eth0; ip -n right address add 10.9.9.2/24 dev eth0";
    let made = machine.output(&["sh", "-c", script]);
    if !made.status.success() {
        skip(
            name,
            &format!("no namespaces for the neighbours: {}", String::from_utf8_lossy(&made.stderr)),
        );
        return None;
    }
    machine.settle();
    Some(machine)
}

/// Starts a bridge and waits until it forwards packets.
fn start(machine: &Machine) -> Child {
    let bridge = machine
        .command(&with_surround(&["bridge", "to-left", "to-right"]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ping = ["ip", "netns", "exec", "left", "ping", "-q", "-c1", "-W1", "10.9.9.2"];
    let passes = (0..PATIENCE.as_secs()).any(|_| machine.output(&ping).status.success());
    assert!(passes, "no ping came through the bridge");
    bridge
}

fn words_of(mut bridge: Child) -> String {
    let mut words = String::new();
    bridge.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    bridge.wait().unwrap();
    words
}

#[test]
fn pings_and_connections_pass_and_nothing_is_left() {
    let Some(machine) = machine_in_between("bridge") else { return };
    if !machine.output(&["python3", "-c", ""]).status.success() {
        return skip("bridge", "python3 is not installed");
    }
    let before = machine.snapshot();
    let mut bridge = start(&machine);
    let server = "import socket; s = socket.create_server(('10.9.9.2', 7000))
print('ready', flush=True); c = s.accept()[0]
while b := c.recv(65536): c.sendall(b)";
    let mut serving = machine
        .command(&["ip", "netns", "exec", "right", "python3", "-c", server])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serving.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let client = "import socket, threading
c = socket.create_connection(('10.9.9.2', 7000), 10); n = 0; size = 3000000
def send(): c.sendall(bytes(size)); c.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
while b := c.recv(65536): n += len(b)
assert n == size, n";
    let output = machine.output(&["ip", "netns", "exec", "left", "python3", "-c", client]);
    let _ = serving.kill();
    serving.wait().unwrap();
    kill(bridge.id(), "TERM");
    assert_eq!(bridge.wait().unwrap().code(), Some(128 + 15));
    assert!(output.status.success(), "{output:?}");
    machine.assert_as_before(&before, "after a bridge");
}

#[test]
fn deleted_interface_ends_the_bridge() {
    let Some(machine) = machine_in_between("bridge_deleted") else { return };
    let mut bridge = start(&machine);
    assert!(machine.output(&["ip", "link", "delete", "to-right"]).status.success());
    let deadline = std::time::Instant::now() + PATIENCE;
    while bridge.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > deadline {
            kill(bridge.id(), "KILL");
            panic!("the bridge goes on: {}", words_of(bridge));
        }
        std::thread::sleep(POLL);
    }
}

#[test]
fn killed_bridge_leaves_nothing() {
    let Some(machine) = machine_in_between("bridge_killed") else { return };
    let before = machine.snapshot();
    let mut bridge = start(&machine);
    kill(bridge.id(), "KILL");
    bridge.wait().unwrap();
    machine.assert_as_before(&before, "after a killed bridge");
}

#[test]
fn an_unsuitable_interface_is_refused_by_name() {
    let Some(machine) = machine_in_between("bridge_refused") else { return };
    let before = machine.snapshot();
    let refused = |left: &str, right: &str, expected: &str| {
        let output = machine.surround(&["bridge", left, right]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(125) && words.contains(expected),
            "{left} {right}: {words}"
        );
    };
    refused("to-left", "to-nowhere", "there is no interface to-nowhere here: 'ip link' lists lo, ");
    refused("to-left", "to-left", "both ends of the bridge are to-left");
    machine.assert_as_before(&before, "after refusals");
    let enslave = "ip link add br0 type bridge && ip link set to-right master br0";
    if machine.output(&["sh", "-c", enslave]).status.success() {
        refused("to-left", "to-right", "'ip link set to-right nomaster'");
    } else {
        skip(
            "bridge_refused",
            "the kernel has no bridge device; an enslaved interface was not tried",
        );
    }
}

#[test]
fn addresses_of_the_machine_on_a_bridged_interface_are_reported() {
    let Some(machine) = machine_in_between("bridge_address") else { return };
    assert!(
        machine.output(&["ip", "address", "add", "10.8.8.1/24", "dev", "to-left"]).status.success()
    );
    let bridge = start(&machine);
    kill(bridge.id(), "TERM");
    let words = words_of(bridge);
    assert!(words.contains("the machine itself has 10.8.8.1/24 on to-left"), "{words}");
    assert!(words.contains("ip address flush dev to-left"), "{words}");
    assert!(!words.contains("on to-right"), "{words}");
}
