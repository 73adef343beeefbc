//! Tests that the ports of a bridge are silent: the machine's own IP stack answers nothing there,
//! unless the machine itself uses the interface.

use libtest_mimic::Trial;

use crate::common::{Lab, Need, Pairs, Running, must, output_of, trial, until};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("the_machine_is_silent_behind_the_ports_of_a_bridge", NEEDS, silent),
        trial("an_interface_that_the_machine_uses_keeps_its_stack", NEEDS, used),
    ]
}

/// Two hosts behind the ports of a bridge: namespaces that are deleted when this is dropped.
struct Hosts {
    _pairs: Pairs,
}

impl Hosts {
    fn make() -> Self {
        let pairs = Pairs::make();
        must(
            "for i in l r; do ip netns add host$i; ip link set w${i}a netns host$i; done
             ip -n hostl address add 10.9.0.1/24 dev wla; ip -n hostl link set wla up
             ip -n hostr address add 10.9.0.2/24 dev wra; ip -n hostr link set wra up",
        );
        Self { _pairs: pairs }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The kernel deletes the interfaces of a namespace some time after the namespace. The
        // interfaces are deleted here first, because the next test makes them again.
        let _ =
            output_of("ip link del wlb; ip link del wrb; ip netns del hostl; ip netns del hostr");
    }
}

fn bridge(lab: &Lab) -> Running {
    let run = lab.start(["bridge", "wlb", "wrb", "--link", "delay 1ms"]);
    until("packets pass the bridge", || pings("hostl", "10.9.0.2"));
    run
}

/// Whether a host gets an answer from an address.
fn pings(host: &str, address: &str) -> bool {
    output_of(&format!("ip netns exec {host} ping -c1 -W0.5 {address}")).contains(" 0% packet loss")
}

/// The link-local address of a port. Its zone is `device`, the interface of the host behind it.
fn own_address(port: &str, device: &str) -> String {
    let show = format!("ip -6 -o address show dev {port} scope link");
    until("the port has its address", || {
        let text = output_of(&show);
        text.contains("fe80") && !text.contains("tentative")
    });
    let text = output_of(&show);
    let address =
        text.split_whitespace().find(|word| word.starts_with("fe80")).expect("an address");
    format!("{}%{device}", address.split('/').next().unwrap_or_default())
}

fn silent(lab: &Lab) {
    let _hosts = Hosts::make();
    // A machine answers ARP for its addresses on all its interfaces.
    must("ip address replace 10.9.0.77/32 dev lo");
    let (left, right) = (own_address("wlb", "wla"), own_address("wrb", "wra"));
    until("the machine answers", || pings("hostl", &left) && pings("hostr", &right));
    let run = bridge(lab);
    for (host, address) in [("hostl", &*left), ("hostr", &right), ("hostl", "10.9.0.77")] {
        assert!(!pings(host, address), "{host} gets an answer from the machine at {address}");
    }
    let neighbours = output_of("ip -n hostl neigh show 10.9.0.77");
    assert!(!neighbours.contains("lladdr"), "the machine answers ARP: {neighbours}");
    until("packets still pass", || pings("hostr", "10.9.0.1"));
    run.signal_group(nix::sys::signal::Signal::SIGKILL);
    drop(run);
    until("the machine answers again", || pings("hostl", &left) && pings("hostr", &right));
    must("ip address del 10.9.0.77/32 dev lo");
}

fn used(lab: &Lab) {
    let _hosts = Hosts::make();
    must("ip address add 10.9.0.3/24 dev wlb; ip link add link wrb name wupper type macvlan");
    let run = bridge(lab);
    until("the machine's address on a port is reached", || pings("hostl", "10.9.0.3"));
    let right = own_address("wrb", "wra");
    until("a port under another interface answers", || pings("hostr", &right));
    let words = run.stderr();
    assert!(words.contains("10.9.0.3/24 on wlb") && words.contains("wupper uses wrb"), "{words}");
}

const NEEDS: &[Need] =
    &[Need::Root, Need::Program("ip"), Need::Program("ping"), Need::Program("nft")];
