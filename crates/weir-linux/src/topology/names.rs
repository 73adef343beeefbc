//! The content of `/etc/hosts` and `/etc/resolv.conf` that programs see.

use std::fs;
use std::net::IpAddr;

use super::{End, Note};

/// The machine's hosts file after the ends' names, because the first match wins.
pub(super) fn hosts(ends: &[&End]) -> String {
    let mut text = String::from("# Names of this emulated link\n");
    for end in ends {
        for address in
            [end.ipv4.map(IpAddr::from), end.ipv6.map(IpAddr::from)].into_iter().flatten()
        {
            text.push_str(&format!("{address}\t{}\n", end.name));
        }
    }
    text.push_str(&fs::read_to_string("/etc/hosts").unwrap_or_default());
    text
}

/// The machine's resolver file, adapted for a program with its own loopback interface.
/// `forwarder` is an address that forwards queries to the machine's resolver. `None` when the file
/// needs no change.
pub(super) fn resolver(forwarder: Option<IpAddr>) -> (Option<String>, Option<Note>) {
    let resolv = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let upstream = fs::read_to_string("/run/systemd/resolve/resolv.conf").ok();
    resolver_for(&resolv, upstream.as_deref(), forwarder)
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
        "names do not resolve inside: the machine's resolver listens on loopback only, which the \
         program does not share",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_reachable_servers_stays_unchanged() {
        assert_eq!(resolver_for("nameserver 9.9.9.9\n", None, None), (None, None));
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
    fn stub_resolver_is_replaced_by_its_upstream_then_to_the_forwarder_then_to_a_note() {
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
