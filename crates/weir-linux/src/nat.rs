//! Rules in the machine's kernel, which only root may set. They connect a namespace to the
//! machine's networks by address translation and forwarding, and keep packets on the ports of a
//! bridge away from the machine's own IP stack.
//!
//! A socket of this process owns the tables in the machine's namespace, so the kernel removes them
//! when the process ends. Forwarding is switched on for single interfaces, not for all.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::netlink::{Link, Route};
use crate::netns::{NetNs, read_setting};
use crate::nftables::{Chain, Family, Hook, Nftables, Purpose, Rule, Table, priority};
use crate::process::find_tool;

/// A table of nftables rules, in force while this value lives.
#[derive(Debug)]
pub struct OwnedTable {
    #[expect(dead_code, reason = "held, not used: the kernel removes the table when it closes")]
    owner: Nftables,
}

/// Why rules could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses the nftables rules: {0}")]
pub struct NatError(#[from] pub io::Error);

impl OwnedTable {
    /// Translates the source addresses `ipv4` and `ipv6` to the machine's own addresses, in packets
    /// that leave the machine by an interface other than `interface`.
    ///
    /// # Errors
    /// The reason. No rule remains in force after an error.
    pub fn translating(
        interface: &str,
        ipv4: Ipv4Addr,
        ipv6: Option<Ipv6Addr>,
    ) -> Result<OwnedTable, NatError> {
        let mut table = Table::new(Family::Inet, &format!("{TABLE}{interface}"), true);
        let addresses = std::iter::once(IpAddr::from(ipv4)).chain(ipv6.map(IpAddr::from));
        let chain = Chain {
            name: "out",
            purpose: Purpose::Nat,
            hook: Hook::Postrouting,
            priority: priority::SRCNAT,
        };
        let masquerade =
            |address| Rule::default().source(address).leaves_not_by(interface).masquerade();
        table.chain(chain, addresses.map(masquerade));
        Self::create(table)
    }

    /// Drops ARP and IP packets that arrive on these interfaces (name and index) before the
    /// machine's own IP stack sees them. Packet sockets still receive the packets.
    ///
    /// # Errors
    /// The reason. No rule remains in force after an error.
    pub fn silencing(interfaces: &[(&str, u32)]) -> Result<OwnedTable, NatError> {
        let numbers = interfaces.iter().map(|(_, number)| format!("_{number}"));
        let name = format!("{TABLE}bridge{}", numbers.collect::<String>());
        let mut table = Table::new(Family::Netdev, &name, true);
        for (interface, number) in interfaces {
            let chain = Chain {
                name: &format!("port_{number}"),
                purpose: Purpose::Filter,
                hook: Hook::Ingress(interface),
                priority: BEFORE_ALL,
            };
            let protocols = [libc::ETH_P_ARP, libc::ETH_P_IP, libc::ETH_P_IPV6];
            let drop = |number: i32| Rule::default().ether_type(number as u16).drop();
            table.chain(chain, protocols.map(drop));
        }
        Self::create(table)
    }

    fn create(table: Table) -> Result<Self, NatError> {
        let mut owner = Nftables::open()?;
        owner.create(table)?;
        Ok(Self { owner })
    }
}

/// Creates a table in one of Weir's namespaces. The rules end with the namespace.
///
/// # Errors
/// The reason. No rule remains in force after an error.
pub(crate) fn load(netns: &NetNs, table: Table) -> Result<(), NatError> {
    netns.enter(|| Ok::<_, NatError>(Nftables::open()?.create(table)?))
}

/// The settings that let a link's packets pass through this machine, for the interfaces that exist.
#[must_use]
pub fn forwarding_settings(links: &[Link], routes: &[Route]) -> ForwardingPlan {
    let on = |setting: &str| read_setting(setting).is_ok_and(|value| value != "0");
    let by_routes = |ipv6: bool| {
        let used = |link: &&Link| {
            routes.iter().any(|route| {
                route.unicast && route.ipv6 == ipv6 && route.interface == Some(link.index)
            })
        };
        links
            .iter()
            .filter(|link| !link.loopback)
            .filter(used)
            .map(|link| link.name.clone())
            .collect::<Vec<_>>()
    };
    let mut plan = ForwardingPlan::default();
    if !on("ipv4/ip_forward") {
        plan.changes.extend(
            by_routes(false).into_iter().map(|name| format!("ipv4/conf/{name}/forwarding")),
        );
    }
    let leads_out = routes.iter().any(|route| route.ipv6 && route.to.is_none() && route.unicast);
    plan.ipv6 = if !leads_out {
        Ipv6Forwarding::NoRoute
    } else if on("ipv6/conf/all/forwarding") {
        Ipv6Forwarding::Possible
    } else if Path::new("/proc/sys/net/ipv6/conf/default/force_forwarding").exists() {
        plan.changes.extend(
            by_routes(true).into_iter().map(|name| format!("ipv6/conf/{name}/force_forwarding")),
        );
        Ipv6Forwarding::Possible
    } else {
        Ipv6Forwarding::Off
    };
    plan
}

/// The settings to switch on so that packets pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardingPlan {
    /// Settings to set to 1.
    pub changes: Vec<String>,
    /// Whether IPv6 passes after these changes.
    pub ipv6: Ipv6Forwarding,
}

/// Whether IPv6 packets can pass through this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Forwarding {
    /// The machine has no IPv6 route to other networks.
    #[default]
    NoRoute,
    /// IPv6 passes with the plan's changes.
    Possible,
    /// IPv6 passes only if the whole machine becomes a router, which then ignores router
    /// advertisements. That decision is left to the user.
    Off,
}

/// The chains of other tables that drop forwarded packets, or packets to the machine itself, unless
/// a rule accepts them.
#[must_use]
pub fn strict_chains() -> Vec<StrictChain> {
    let found = Nftables::open().and_then(|mut nftables| nftables.dropping_chains());
    let mut chains: Vec<StrictChain> = found
        .unwrap_or_default()
        .into_iter()
        .map(|chain| StrictChain {
            name: format!("{} {} {}", chain.family, chain.table, chain.name),
            forwards: chain.forwards,
            // Debian's iptables writes nftables chains: those of table `filter` of family `ip`,
            // under the names that iptables uses.
            iptables: chain.family == "ip"
                && chain.table == "filter"
                && (chain.name == "FORWARD" || chain.name == "INPUT"),
        })
        .collect();
    // nftables does not list the rules of the older kernel interface.
    let legacy = std::fs::read_to_string("/proc/net/ip_tables_names")
        .is_ok_and(|tables| tables.lines().any(|table| table == "filter"));
    if legacy && let Some(iptables) = find_tool("iptables-legacy") {
        let output =
            Command::new(iptables).arg("-S").stdin(Stdio::null()).stderr(Stdio::null()).output();
        let text = output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        for (policy, forwards) in [("-P FORWARD DROP", true), ("-P INPUT DROP", false)] {
            if text.lines().any(|line| line == policy) {
                chains.push(StrictChain {
                    name: policy[3..].replace(" DROP", ""),
                    forwards,
                    iptables: true,
                });
            }
        }
    }
    chains
}

/// A firewall chain with the policy to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictChain {
    /// Family, table and chain. For a chain of the older kernel interface, only the chain's name.
    pub name: String,
    /// Whether the chain filters forwarded packets; otherwise it filters packets to the machine.
    pub forwards: bool,
    /// Whether iptables manages the chain.
    pub iptables: bool,
}

impl StrictChain {
    /// The command that lets a link's packets pass this chain.
    #[must_use]
    pub fn remedy(&self, interface: &str) -> String {
        if self.iptables {
            format!(
                "iptables -I {} -i {interface} -j ACCEPT",
                if self.forwards { "FORWARD" } else { "INPUT" }
            )
        } else {
            format!("nft insert rule {} iifname {interface} accept", self.name)
        }
    }
}

/// Prefix of the tables' names. The interface's name follows, or `bridge` and the numbers of the
/// interfaces.
const TABLE: &str = "weir_";
/// The priority of a chain that sees a packet before all others.
const BEFORE_ALL: i32 = -500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_chain_has_its_remedy() {
        let chain =
            |name: &str, iptables| StrictChain { name: name.to_owned(), forwards: true, iptables };
        let remedy = chain("inet fw fwd", false).remedy("weir0");
        assert_eq!(remedy, "nft insert rule inet fw fwd iifname weir0 accept");
        let remedy = chain("ip filter FORWARD", true).remedy("weir0");
        assert_eq!(remedy, "iptables -I FORWARD -i weir0 -j ACCEPT");
    }
}
