//! Words of an operating system's firewall that Weir refuses, with an alternative for each.

use crate::diagnostic::{Code, Diagnostic};
use crate::lex::Word;

use super::cursor::Cursor;

/// A word of `ipfw` that is refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The word.
    pub name: &'static str,
    /// Why it is refused.
    pub reason: &'static str,
    /// The alternative.
    pub instead: &'static str,
}

/// The diagnostic for a refused word; `None` for other words.
pub(crate) fn refusal(cursor: &Cursor<'_>, word: &Word) -> Option<Box<Diagnostic>> {
    let row = REFUSED.iter().find(|row| row.name == word.text && !word.quoted)?;
    let error = cursor.error(
        Code::KernelOnly,
        &word.span,
        format!("`{}` is not possible here: {}", row.name, row.reason),
    );
    Some(Box::new(
        error.label("only an operating system's own firewall can do this").help(row.instead),
    ))
}

const fn refused(name: &'static str, reason: &'static str, instead: &'static str) -> Refused {
    Refused { name, reason, instead }
}

const NO_SOCKETS: &str = "packets come from a wire, and their sockets are not known";
const BY_ADDRESS: &str =
    "match addresses and ports, or let the program run in a network of its own (`weir run`)";
const NO_ANSWERS: &str = "an emulated link sends no packets of its own";
const JUST_DENY: &str = "use `deny`";
const NO_ROUTES: &str = "a link has no routing table";
const ROUTER: &str = "let a router behind the link do it";
const NO_HANDOVER: &str = "packets are not handed to other programs";
const CAPTURE: &str =
    "use `--pcap FILE` to see packets, and a `pipe` to change what becomes of them";
const NO_NAT: &str = "addresses are not rewritten";
const HOST_NAT: &str = "let the host's own firewall translate, in front of the link or behind it";
const NO_MARKS: &str = "only tags are kept with a packet";
const USE_TAG: &str = "use `tag N` and `tagged N`";

/// All refused words.
pub const REFUSED: &[Refused] = &[
    refused("uid", NO_SOCKETS, BY_ADDRESS),
    refused("gid", NO_SOCKETS, BY_ADDRESS),
    refused("jail", NO_SOCKETS, BY_ADDRESS),
    refused("sockarg", NO_SOCKETS, BY_ADDRESS),
    refused("fib", NO_ROUTES, "match the interface or the address instead"),
    refused("setfib", NO_ROUTES, ROUTER),
    refused("verrevpath", NO_ROUTES, "deny foreign source addresses with `not src-ip` or a table"),
    refused("versrcreach", NO_ROUTES, "deny foreign source addresses with `not src-ip` or a table"),
    refused("antispoof", NO_ROUTES, "deny foreign source addresses with `not src-ip` or a table"),
    refused("fwd", NO_ROUTES, ROUTER),
    refused("forward", NO_ROUTES, ROUTER),
    refused("divert", NO_HANDOVER, CAPTURE),
    refused("tee", NO_HANDOVER, CAPTURE),
    refused("diverted", NO_HANDOVER, "leave it out: no packet is ever diverted"),
    refused("diverted-loopback", NO_HANDOVER, "leave it out: no packet is ever diverted"),
    refused("diverted-output", NO_HANDOVER, "leave it out: no packet is ever diverted"),
    refused("netgraph", NO_HANDOVER, CAPTURE),
    refused("ngtee", NO_HANDOVER, CAPTURE),
    refused("nat", NO_NAT, HOST_NAT),
    refused("nat64lsn", NO_NAT, HOST_NAT),
    refused("nat64stl", NO_NAT, HOST_NAT),
    refused("nat64clat", NO_NAT, HOST_NAT),
    refused("nptv6", NO_NAT, HOST_NAT),
    refused("reset", NO_ANSWERS, JUST_DENY),
    refused("reset6", NO_ANSWERS, JUST_DENY),
    refused("reject", NO_ANSWERS, JUST_DENY),
    refused("unreach", NO_ANSWERS, JUST_DENY),
    refused("unreach6", NO_ANSWERS, JUST_DENY),
    refused("abort", NO_ANSWERS, JUST_DENY),
    refused("abort6", NO_ANSWERS, JUST_DENY),
    refused("reass", "fragments are carried one by one", "match them with `frag`"),
    refused(
        "tcp-setmss",
        "only a packet's ECN and DSCP are rewritten",
        "set the MSS on a router behind the link",
    ),
    refused("eaction", "there are no loadable actions", "use one of the built-in actions"),
    refused(
        "ipsec",
        "a wire does not show whether a packet was in an IPsec tunnel",
        "match `proto esp`, or the addresses inside",
    ),
    refused("altq", "ALTQ belongs to the kernel's drivers", "use `queue N` with a scheduler"),
    refused("mark", NO_MARKS, USE_TAG),
    refused("setmark", NO_MARKS, USE_TAG),
    refused(
        "defer-immediate-action",
        "dynamic rules act at once",
        "put the action into a separate rule behind `check-state`",
    ),
    refused(
        "defer-action",
        "dynamic rules act at once",
        "put the action into a separate rule behind `check-state`",
    ),
    refused("set-limit", "a limit always checks its states first", "use `limit`"),
    refused("internal", "it shows the kernel's own structures", "use `list` and `show`"),
];
