//! Rules of the machine's kernel, for root: the connection of a namespace to the machine's networks
//! by address translation and forwarding, and ports of a bridge without the machine's own IP stack.
//!
//! The nftables table is owned by a process (`flags owner`), so the kernel removes the table when
//! that process ends. The process, an interactive `nft`, ends when its standard input closes.
//! Forwarding is switched on for single interfaces, never for the whole machine.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::netlink::{Link, Route};
use crate::netns::{NetNs, read_setting};
use crate::process::find_tool;
use crate::sys::process::keep_capabilities;

/// A table of nftables rules, in force while this value lives.
#[derive(Debug)]
pub struct OwnedTable {
    nft: Child,
    input: Option<ChildStdin>,
}

/// Why rules could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum NatError {
    /// `nft` is not installed.
    #[error("nft is not installed")]
    NoNft,
    /// `nft` could not be started.
    #[error("nft does not start: {0}")]
    Start(#[from] io::Error),
    /// An interface's name cannot be written in a rule.
    #[error("nft has no rules for an interface of this name")]
    Name,
    /// `nft` refused the rules.
    #[error("nft refuses the rules: {answer}")]
    Refused {
        /// The message of `nft`.
        answer: String,
    },
}

impl OwnedTable {
    /// Translates the two inside addresses to the machine's own addresses, in packets that leave
    /// the machine by an interface other than `interface`.
    ///
    /// # Errors
    /// The reason. No rule remains in force after an error.
    pub fn translating(
        interface: &str,
        ipv4: Ipv4Addr,
        ipv6: Option<Ipv6Addr>,
    ) -> Result<OwnedTable, NatError> {
        let table = format!("{TABLE}{interface}");
        Self::load(&rules(&table, interface, ipv4, ipv6), ["inet", &table, "out"])
    }

    /// Keeps ARP and IP packets that arrive on these interfaces (names and numbers) from the
    /// machine's own IP stack. Packet sockets still receive them.
    ///
    /// # Errors
    /// The reason. No rule remains in force after an error.
    pub fn silencing(interfaces: &[(&str, u32)]) -> Result<OwnedTable, NatError> {
        let numbers = interfaces.iter().map(|(_, number)| format!("_{number}"));
        let table = format!("{TABLE}bridge{}", numbers.collect::<String>());
        let mut chains = String::new();
        for (name, number) in interfaces {
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                return Err(NatError::Name);
            }
            chains.push_str(&format!(
                "chain port_{number} {{ type filter hook ingress device \"{name}\" priority \
                 -500; meta protocol {{ arp, ip, ip6 }} drop; }}; "
            ));
        }
        let Some((_, first)) = interfaces.first() else { return Err(NatError::Name) };
        let rules = format!("table netdev {table} {{ flags owner; {chains}}}\n");
        Self::load(&rules, ["netdev", &table, &format!("port_{first}")])
    }

    /// Loads the rules, which are one line: nft applies a line as one transaction. Then the chain
    /// (family, table and name) exists.
    fn load(rules: &str, chain: [&str; 3]) -> Result<OwnedTable, NatError> {
        let program = find_tool("nft").ok_or(NatError::NoNft)?;
        let mut command = Command::new(&program);
        // A separate process group, because ^C is meant for the user's program.
        command
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .current_dir("/");
        let mut nft = command.spawn()?;
        let mut owned = OwnedTable { input: nft.stdin.take(), nft };
        if let Some(input) = &mut owned.input {
            input.write_all(rules.as_bytes())?;
            input.flush()?;
        }
        let deadline = Instant::now() + START_TIME;
        while Instant::now() < deadline && owned.nft.try_wait()?.is_none() {
            let mut list = Command::new(&program);
            list.args(["list", "chain"])
                .args(chain)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if list.status()?.success() {
                return Ok(owned);
            }
            thread::sleep(POLL);
        }
        drop(owned.input.take());
        let mut answer = String::new();
        // The process ends because its input is closed, so reading its messages ends too.
        if let Some(errors) = &mut owned.nft.stderr {
            errors.read_to_string(&mut answer)?;
        }
        Err(NatError::Refused { answer: answer.trim().to_owned() })
    }
}

impl Drop for OwnedTable {
    fn drop(&mut self) {
        drop(self.input.take());
        // nft ends because its input is closed; the kill is a precaution. The kernel removes the
        // table before the wait returns.
        let _ = self.nft.kill();
        let _ = self.nft.wait();
    }
}

/// Loads a ruleset into one of Weir's namespaces. The rules end with the namespace.
///
/// # Errors
/// The reason. No rule remains in force after an error.
pub(crate) fn load(netns: &NetNs, rules: &str) -> Result<(), NatError> {
    let program = find_tool("nft").ok_or(NatError::NoNft)?;
    netns.enter(|| {
        let mut command = Command::new(program);
        command
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .current_dir("/");
        if !rustix::process::geteuid().is_root() {
            keep_capabilities(&mut command);
        }
        let mut nft = command.spawn()?;
        // nft reads its whole input before it writes a message, so this cannot block.
        let written =
            nft.stdin.take().map_or(Ok(()), |mut input| input.write_all(rules.as_bytes()));
        let output = nft.wait_with_output()?;
        if output.status.success() {
            return Ok(written?);
        }
        Err(NatError::Refused { answer: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
    })
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
    let mut chains = find_tool("nft").map_or_else(Vec::new, |nft| {
        let output = Command::new(nft)
            .args(["-j", "list", "chains"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        output.map_or_else(|_| Vec::new(), |output| strict_nft_chains(&output.stdout))
    });
    // nft does not show the rules of the older kernel interface.
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
    /// Family, table and chain.
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

fn strict_nft_chains(json: &[u8]) -> Vec<StrictChain> {
    let Ok(answer) = serde_json::from_slice::<Value>(json) else { return vec![] };
    let chains = answer["nftables"].as_array().into_iter().flatten().map(|item| &item["chain"]);
    let strict = chains.filter(|chain| {
        chain["policy"] == "drop" && (chain["hook"] == "forward" || chain["hook"] == "input")
    });
    strict
        .map(|chain| {
            let word = |key: &str| chain[key].as_str().unwrap_or_default();
            let (family, table, name) = (word("family"), word("table"), word("name"));
            // nft and iptables use the same chain names; Debian's iptables writes nftables chains.
            let iptables =
                family == "ip" && table == "filter" && (name == "FORWARD" || name == "INPUT");
            StrictChain {
                name: format!("{family} {table} {name}"),
                forwards: word("hook") == "forward",
                iptables,
            }
        })
        .collect()
}

/// The rules of a translating table, on one line.
fn rules(table: &str, interface: &str, ipv4: Ipv4Addr, ipv6: Option<Ipv6Addr>) -> String {
    let mut rules = format!("ip saddr {ipv4} oifname != \"{interface}\" masquerade; ");
    if let Some(ipv6) = ipv6 {
        rules.push_str(&format!("ip6 saddr {ipv6} oifname != \"{interface}\" masquerade; "));
    }
    format!(
        "table inet {table} {{ flags owner; chain out {{ type nat hook postrouting priority \
         srcnat; {rules}}}; }}\n"
    )
}

/// Prefix of the tables' names; the interface's name follows.
const TABLE: &str = "weir_";
/// The longest time that nft may take to start; it needs some ten milliseconds.
const START_TIME: Duration = Duration::from_secs(3);
/// Interval between two checks of nft.
const POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_one_line_and_name_both_families() {
        let text = rules(
            "weir_weir0",
            "weir0",
            Ipv4Addr::new(198, 18, 0, 2),
            Some("fd77::2".parse().unwrap()),
        );
        assert_eq!(text.matches('\n').count(), 1);
        assert!(
            text.contains("ip saddr 198.18.0.2 oifname")
                && text.contains("ip6 saddr fd77::2 oifname")
        );
    }

    #[test]
    fn dropping_chains_are_found_and_accepting_ones_are_not() {
        let json = br#"{"nftables":[{"metainfo":{}},
            {"chain":{"family":"inet","table":"fw","name":"fwd","hook":"forward","policy":"drop"}},
            {"chain":{"family":"inet","table":"fw","name":"in","hook":"input","policy":"accept"}},
            {"chain":{"family":"ip","table":"filter","name":"FORWARD","hook":"forward","policy":"drop"}}]}"#;
        let chains = strict_nft_chains(json);
        assert_eq!(chains.len(), 2);
        assert_eq!(chains[0].remedy("weir0"), "nft insert rule inet fw fwd iifname weir0 accept");
        assert_eq!(chains[1].remedy("weir0"), "iptables -I FORWARD -i weir0 -j ACCEPT");
    }
}
