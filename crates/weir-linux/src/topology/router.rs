//! The machine's side of an ordinary user's link: a namespace with the kernel as the router, Weir's
//! proxy for TCP, and pasta for all other traffic.
//!
//! pasta terminates TCP connections itself and has no congestion control, so the sender into a slow
//! link would not behave like TCP. Here the kernel terminates the connections instead. The router's
//! address on the link answers pings, as the machine's address does in root's sessions. UDP packets
//! to that address go through pasta to the machine's loopback interface. pasta forwards all other
//! traffic with translated addresses.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use super::SetupError;
use super::address::Range;
use super::place::{best_effort, quiet_netns};
use crate::helper::{FIRST_PACKETS, NOTHING, Proxy, ProxySockets};
use crate::nat::{NatError, load};
use crate::netlink::Netlink;
use crate::netns::NetNs;
use crate::nftables::{Chain, Family, Hook, Purpose, Rule, TCP, Table, UDP, priority};
use crate::sys::packet;
use crate::sys::redirect::attach_filter;

/// Why the router could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum RouterError {
    #[error("there is no router behind the link: {0}")]
    Rules(#[from] NatError),
    #[error("there is no router behind the link: {0}")]
    System(#[from] io::Error),
}

/// A new namespace that forwards packets and has no interface yet.
pub(super) fn router_netns() -> Result<NetNs, SetupError> {
    let netns = quiet_netns()?;
    netns.enter(|| {
        // The first packets of connections re-enter through loopback, see `rules`. A check of
        // their source address would refuse them there.
        for name in ["all", "default", "lo"] {
            best_effort(&format!("ipv4/conf/{name}/rp_filter"), "0");
        }
        best_effort("ipv6/conf/all/forwarding", "1");
        best_effort("ipv4/ip_forward", "1");
        Ok::<_, SetupError>(())
    })?;
    Ok(netns)
}

/// Lets the namespace carry the connections that arrive on `interface`, which has the addresses of
/// side 1 of `range`. The connection to pasta has the addresses of `uplink`.
pub(super) fn start_router(
    netns: &NetNs,
    interface: &str,
    [range, uplink]: [Range; 2],
    ipv6: bool,
) -> Result<Proxy, RouterError> {
    let host: Vec<IpAddr> =
        range.addresses(1, ipv6).into_iter().map(|(address, _)| address).collect();
    let (listeners, ports, watch, inject) = netns.enter(|| {
        let (mut listeners, mut ports) = (Vec::new(), Vec::new());
        for &address in &host {
            let listener = TcpListener::bind((address, 0))?;
            listener.set_nonblocking(true)?;
            ports.push(listener.local_addr()?.port());
            // The standard library's listen queue is too short for hundreds of simultaneous
            // connections.
            rustix::net::listen(&listener, BACKLOG)?;
            listeners.push(OwnedFd::from(listener));
        }
        let mut netlink = Netlink::open().map_err(|error| error.source)?;
        let mut open = |name: &str, filter: &[_]| {
            let socket = packet::open()?;
            attach_filter(socket.as_fd(), filter)?;
            packet::set_option(&socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
            packet::bind(socket.as_fd(), netlink.link(name).map_err(|error| error.source)?.index)?;
            Ok::<_, io::Error>(socket)
        };
        Ok::<_, io::Error>((
            listeners,
            ports,
            open(interface, &FIRST_PACKETS)?,
            open("lo", &NOTHING)?,
        ))
    })?;
    load(netns, rules(interface, [range, uplink], &host, &ports))?;
    Ok(Proxy::start(&ProxySockets { listeners, watch, inject, host })?)
}

/// Sets the addresses and routes of the interface that leads to pasta.
pub(super) fn configure_uplink(range: Range, ipv6: bool) -> Result<(), SetupError> {
    let mut netlink = Netlink::open()?;
    let index = netlink.link(UPLINK)?.index;
    for (address, prefix) in range.addresses(0, ipv6) {
        netlink.add_address(index, address, prefix)?;
    }
    for (gateway, _) in range.addresses(1, ipv6) {
        netlink.add_default_route(index, gateway)?;
    }
    Ok(())
}

/// The namespace's nftables rules. They drop the first packet of each connection before connection
/// tracking. The proxy has a copy, which it sends through loopback once the server has accepted.
fn rules(interface: &str, [range, uplink]: [Range; 2], host: &[IpAddr], ports: &[u16]) -> Table {
    let rule = Rule::default;
    let filter = |name, hook, priority| Chain { name, purpose: Purpose::Filter, hook, priority };
    let nat = |name, hook, priority| Chain { name, purpose: Purpose::Nat, hook, priority };
    let mut screen = vec![rule().arrives_on(interface).opens_connection().drop()];
    if host.iter().any(IpAddr::is_ipv6) {
        // pasta of 2023 sends the answers of the machine's IPv6 loopback between link-local
        // addresses. This rule restores the addresses of the query.
        let answer = rule().arrives_on(UPLINK).link_local_source().transport(UDP);
        screen.push(answer.set_addresses(uplink.ipv6(1).0, uplink.ipv6(0).0));
    }
    let arrive = host.iter().zip(ports).flat_map(|(&address, &port)| {
        let (program, pasta) = match address {
            IpAddr::V4(_) => (IpAddr::from(range.ipv4(0).0), IpAddr::from(uplink.ipv4(1).0)),
            IpAddr::V6(_) => (range.ipv6(0).0.into(), uplink.ipv6(1).0.into()),
        };
        let connection = rule().arrives_on("lo").source(program).transport(TCP);
        let datagram = rule().arrives_on(interface).destination(address).transport(UDP);
        [connection.redirect_to(address, Some(port)), datagram.redirect_to(pasta, None)]
    });
    let mut table = Table::new(Family::Inet, "weir", false);
    table.chain(filter("screen", Hook::Prerouting, priority::RAW), screen);
    table.chain(nat("arrive", Hook::Prerouting, priority::DSTNAT), arrive);
    let reset = rule().arrives_on(interface).transport(TCP).reset();
    table.chain(filter("through", Hook::Forward, priority::FILTER), [reset]);
    let masquerade = rule().leaves_by(UPLINK).masquerade();
    table.chain(nat("leave", Hook::Postrouting, priority::SRCNAT), [masquerade]);
    table
}

/// The name of pasta's interface.
pub(super) const UPLINK: &str = "pasta0";
/// Maximum number of connections that wait for the proxy to accept them.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::find_tool;

    /// The kernel accepts the rules, and nft shows them as intended.
    #[test]
    fn rules_translate_each_family_to_its_own_port() {
        let Ok(netns) = quiet_netns() else {
            eprintln!("SKIPPED: root is needed for a network namespace");
            return;
        };
        let ranges = Range::choose_two(&[]);
        let host: Vec<IpAddr> =
            ranges[0].addresses(1, true).into_iter().map(|(address, _)| address).collect();
        load(&netns, rules("host0", ranges, &host, &[4001, 4002])).expect("the kernel takes it");
        let Some(nft) = find_tool("nft") else {
            eprintln!("SKIPPED: nft is not installed");
            return;
        };
        let listed = netns.enter(|| Command::new(nft).args(["list", "ruleset"]).output());
        let text = String::from_utf8(listed.expect("nft runs").stdout).expect("nft writes text");
        let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let answers = format!(
            "iifname \"pasta0\" ip6 saddr fe80::/10 meta l4proto udp ip6 saddr set {} ip6 daddr \
             set {}",
            ranges[1].ipv6(1).0,
            ranges[1].ipv6(0).0
        );
        for rule in [
            answers.as_str(),
            "type filter hook prerouting priority raw; policy accept; iifname \"host0\" tcp flags \
             syn / syn,ack drop",
            "iifname \"lo\" ip saddr 198.18.0.2 meta l4proto tcp dnat ip to 198.18.0.1:4001",
            "iifname \"host0\" ip daddr 198.18.0.1 meta l4proto udp dnat ip to 198.18.0.5",
            "meta l4proto tcp dnat ip6 to [fd77:6569:7248::1]:4002",
            "type filter hook forward priority filter; policy accept; iifname \"host0\" meta \
             l4proto tcp reject with tcp reset",
            "type nat hook postrouting priority srcnat; policy accept; oifname \"pasta0\" \
             masquerade",
        ] {
            assert!(words.contains(rule), "{rule}\n{text}");
        }
    }
}
