//! The content of `/etc/hosts` and `/etc/resolv.conf` that programs see.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{End, Note};

/// The hosts file of the programs at the end `own`: the names of the link's ends, then the content
/// of this process's hosts file.
///
/// This process may itself be at the end of a link. Each machine then has one name, see
/// [`seen_from_inside`].
pub(super) fn hosts(ends: &[&End], own: &str) -> String {
    hosts_over(ends, own, &fs::read_to_string("/etc/hosts").unwrap_or_default())
}

fn hosts_over(ends: &[&End], own: &str, machine: &str) -> String {
    let mut text = format!("{LINK_NAMES}\n");
    for end in ends {
        let mark = if end.name == own { OWN } else { "" };
        for address in
            [end.ipv4.map(IpAddr::from), end.ipv6.map(IpAddr::from)].into_iter().flatten()
        {
            text.push_str(&format!("{address}\t{}{mark}\n", end.name));
        }
    }
    let taken: Vec<&str> = ends.iter().map(|end| end.name.as_str()).collect();
    text.push_str(&seen_from_inside(machine, &taken));
    text
}

/// Adapts `machine`, this process's hosts file, for a program behind a link with the names `taken`.
/// If this process is itself at the end of an outer link, its own name is left out, because `host`
/// refers to it. A name of the outer link that is in `taken` gets the prefix `outer-`, so that
/// `host`, `outer-host`, `outer-outer-host` are the machines from the inside out.
fn seen_from_inside(machine: &str, taken: &[&str]) -> String {
    let Some(names) = machine.strip_prefix(LINK_NAMES) else {
        return format!("{MACHINE_NAMES}\n{machine}");
    };
    let (links, rest) = names.split_once(MACHINE_NAMES).unwrap_or((names, ""));
    let mut text = format!("{OUTER_NAMES}\n");
    let entries = links.lines().filter(|line| !line.ends_with(OWN));
    for (address, name) in entries.filter_map(|line| line.split_once('\t')) {
        let inner = name.trim_start_matches(OUTER);
        let outer = if taken.contains(&inner) { OUTER } else { "" };
        text.push_str(&format!("{address}\t{outer}{name}\n"));
    }
    format!("{text}{MACHINE_NAMES}{rest}")
}

/// The machine's resolver file, adapted for a program with its own loopback interface.
/// `forwarder` is an address that forwards queries to the machine's resolver. `None` when the file
/// needs no change, or, with a note, when no change would help.
pub(super) fn resolver(forwarder: Option<IpAddr>) -> (Option<String>, Option<Note>) {
    let resolv = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let upstream = fs::read_to_string("/run/systemd/resolve/resolv.conf").ok();
    resolver_for(&resolv, upstream.as_deref(), forwarder)
}

/// The loopback address of the resolver that programs of the machine use; `None` if they only use
/// other addresses. Without any name server in the file, the C library asks 127.0.0.1.
pub(super) fn loopback_server() -> Option<IpAddr> {
    loopback_server_of(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

fn loopback_server_of(resolv: &str) -> Option<IpAddr> {
    let mut addresses = servers(resolv).filter_map(|address| address.parse::<IpAddr>().ok());
    if servers(resolv).next().is_none() {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let local = addresses.find(|address| address.is_loopback() || address.is_unspecified())?;
    Some(match local {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    })
}

/// A resolver file for a link without access to other networks, so that look-ups fail at once
/// instead of after a timeout.
pub(super) fn no_resolver() -> String {
    "# This link leads to no name server.\noptions timeout:1 attempts:1\n".into()
}

/// The given resolver file, or the machine's, changed for a link that passes only TCP.
pub(super) fn over_tcp(resolv: Option<String>) -> String {
    let text = resolv.unwrap_or_else(|| fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    format!("{}\noptions use-vc\n", text.trim_end())
}

fn resolver_for(
    own: &str,
    upstream: Option<&str>,
    forwarder: Option<IpAddr>,
) -> (Option<String>, Option<Note>) {
    if servers(own).any(is_reachable) {
        let unreachable =
            own.lines().any(|line| server(line).is_some_and(|address| !is_reachable(address)));
        return (unreachable.then(|| without_unreachable(own, None)), None);
    }
    if let Some(upstream) = upstream
        && servers(upstream).any(is_reachable)
    {
        return (Some(without_unreachable(upstream, None)), None);
    }
    if forwarder.is_some() {
        return (Some(without_unreachable(own, forwarder)), None);
    }
    let note = Note::with_remedy(
        "names do not resolve inside: the machine's resolver has a loopback address, and no program \
         listens there",
        "put a name server that the network can reach into /etc/resolv.conf",
    );
    (None, Some(note))
}

fn without_unreachable(text: &str, instead: Option<IpAddr>) -> String {
    let mut out = String::new();
    if let Some(address) = instead {
        out.push_str(&format!("nameserver {address}\n"));
    }
    for line in text.lines().filter(|line| server(line).is_none_or(is_reachable)) {
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn servers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(server)
}

fn server(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    (words.next()? == "nameserver").then(|| words.next()).flatten()
}

/// Whether programs behind the links can reach a name server at this address. An address with a
/// zone refers to an interface that the program does not have.
fn is_reachable(address: &str) -> bool {
    address
        .parse::<IpAddr>()
        .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
}

/// The first line of the hosts file that a program behind a link sees.
const LINK_NAMES: &str = "# Names of this emulated link";
/// The line before the names of the links outside.
const OUTER_NAMES: &str = "# Names of the links outside";
/// The line before the content of the machine's own hosts file.
const MACHINE_NAMES: &str = "# Names of the machine";
/// Follows the name of the end at which the program runs.
const OWN: &str = " # this end";
/// Precedes a name of an outer link that the inner link has too.
const OUTER: &str = "outer-";

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, address: &str) -> End {
        let ipv4 = Some(address.parse().unwrap());
        End { name: name.into(), interface: "eth0".into(), ipv4, ipv6: None }
    }

    /// The names in a hosts file, with their addresses.
    fn names(text: &str) -> Vec<(&str, &str)> {
        let entries = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = entries.map(|line| line.split_whitespace());
        words.filter_map(|mut words| Some((words.next()?, words.next()?))).collect()
    }

    #[test]
    fn every_machine_has_one_name_at_every_depth() {
        let nested = |machine: &str, number: u8| {
            let (host, inside) = (format!("10.{number}.0.1"), format!("10.{number}.0.2"));
            hosts_over(&[&end("host", &host), &end("inside", &inside)], "inside", machine)
        };
        let machine = "127.0.0.1\tlocalhost\n192.0.2.1 server\n";
        let one = nested(machine, 1);
        assert_eq!(
            names(&one),
            [
                ("10.1.0.1", "host"),
                ("10.1.0.2", "inside"),
                ("127.0.0.1", "localhost"),
                ("192.0.2.1", "server")
            ]
        );
        let two = nested(&one, 2);
        assert_eq!(
            names(&two),
            [
                ("10.2.0.1", "host"),
                ("10.2.0.2", "inside"),
                ("10.1.0.1", "outer-host"),
                ("127.0.0.1", "localhost"),
                ("192.0.2.1", "server")
            ]
        );
        let three = names(&nested(&two, 3))
            .into_iter()
            .map(|(a, n)| format!("{n} {a}"))
            .collect::<Vec<_>>();
        assert_eq!(
            three[..4],
            [
                "host 10.3.0.1",
                "inside 10.3.0.2",
                "outer-host 10.2.0.1",
                "outer-outer-host 10.1.0.1"
            ]
        );
    }

    #[test]
    fn names_of_an_outer_pair_are_kept_behind_an_inner_link() {
        let pair = [end("left", "10.1.0.2"), end("right", "10.1.0.1")];
        let outer = hosts_over(&[&pair[0], &pair[1]], "left", "");
        let inner =
            hosts_over(&[&end("host", "10.2.0.1"), &end("inside", "10.2.0.2")], "inside", &outer);
        assert_eq!(
            names(&inner),
            [("10.2.0.1", "host"), ("10.2.0.2", "inside"), ("10.1.0.1", "right")]
        );
    }

    #[test]
    fn a_file_with_reachable_servers_stays_unchanged() {
        assert_eq!(resolver_for("nameserver 9.9.9.9\n", None, None), (None, None));
    }

    #[test]
    fn the_loopback_server_is_the_first_one_in_the_file() {
        let of = |text: &str| loopback_server_of(text).map(|address| address.to_string());
        assert_eq!(of("nameserver 127.0.0.53\nnameserver ::1\n").as_deref(), Some("127.0.0.53"));
        assert_eq!(of("nameserver 9.9.9.9\nnameserver ::1\n").as_deref(), Some("::1"));
        assert_eq!(of("nameserver 0.0.0.0\n").as_deref(), Some("127.0.0.1"));
        assert_eq!(of("search example.org\n").as_deref(), Some("127.0.0.1"));
        assert_eq!(of("nameserver 9.9.9.9\n"), None);
    }

    #[test]
    fn unreachable_servers_are_left_out() {
        let (text, note) = resolver_for(
            "search a\nnameserver 127.0.0.1\nnameserver fe80::1%eth0\nnameserver 9.9.9.9\n",
            None,
            None,
        );
        assert_eq!((text.as_deref(), note), (Some("search a\nnameserver 9.9.9.9\n"), None));
    }

    #[test]
    fn a_stub_resolver_is_replaced_by_its_upstream_or_the_forwarder_or_a_note() {
        let stub = "nameserver 127.0.0.53\noptions edns0\n";
        let forwarder = Some("198.18.0.1".parse().unwrap());
        assert_eq!(
            resolver_for(stub, Some("nameserver 192.0.2.9\n"), forwarder).0.unwrap(),
            "nameserver 192.0.2.9\n"
        );
        assert_eq!(
            resolver_for(stub, None, forwarder).0.unwrap(),
            "nameserver 198.18.0.1\noptions edns0\n"
        );
        let (text, note) = resolver_for(stub, None, None);
        assert!(text.is_none() && note.is_some());
    }
}
