//! The canonical form of a rule's body.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::lex::quote;
use crate::rule::{
    Address, Clause, EXT6_HEADERS, FragmentMatch, IP_OPTIONS, Interface, LimitMask, MacMatch, Name,
    Span16, TCP_OPTIONS, TableMatch, Term, Test,
};
use crate::script::address::MAC_BITS;
use crate::script::body::{about_frames, is_any};
use crate::script::names::{FRAGMENT_FLAGS, TCP_FLAGS, TOS_FLAGS, write_dscp, write_protocol};
use crate::script::options::{LIMIT_FIELDS, LOOKUP_FIELDS, write_number_or_tablearg};

/// The body with `from … to …` if its first clauses allow this, otherwise as options.
pub(super) fn write(body: &[Clause]) -> String {
    let (mut out, rest) = match long_form(body) {
        Some((text, used)) => (vec![text], &body[used..]),
        None => (Vec::new(), body),
    };
    out.extend(rest.iter().map(|clause| write_clause(clause, option)));
    out.join(" ")
}

/// Whether a test fits into one place of `PROTO from A PORTS to B PORTS`.
type Fits = fn(&Test) -> bool;

/// The clauses at the beginning of a body as `PROTO from A PORTS to B PORTS`, and their number;
/// `None` if this form does not fit.
fn long_form(body: &[Clause]) -> Option<(String, usize)> {
    let all = |clause: &Clause, fits: Fits| {
        !clause.0.is_empty() && clause.0.iter().all(|term| fits(&term.test))
    };
    let is_single = |at: usize, fits: Fits| {
        body.get(at).is_some_and(|clause| clause.0.len() == 1 && all(clause, fits))
    };
    let mut at = 0;
    let mut text = "ip".to_owned();
    if all(body.first()?, |t| matches!(t, Test::Ip4 | Test::Ip6 | Test::Protocol(_))) {
        text = write_clause(&body[0], protocol);
        at = 1;
    }
    let start = at;
    let ends: [(Fits, Fits, &str); 2] = [
        (|t| matches!(t, Test::SrcAddress(_)), |t| matches!(t, Test::SrcPort(_)), "from"),
        (|t| matches!(t, Test::DstAddress(_)), |t| matches!(t, Test::DstPort(_)), "to"),
    ];
    for (address, port, word) in ends {
        if !all(body.get(at)?, address) {
            return None;
        }
        text += &format!(" {word} {}", write_clause(&body[at], value));
        at += 1;
        if is_single(at, port) {
            text += &format!(" {}", write_clause(&body[at], value));
            at += 1;
        }
    }
    // The parser drops `ip from any to any` before an option about frames, so this form would not
    // give the same body again.
    let any_to_any = start == 0 && at == 2 && body[..2].iter().all(is_any);
    let is_dropped = any_to_any && body[2..].iter().any(about_frames);
    (!is_dropped).then_some((text, at))
}

fn write_clause(clause: &Clause, write: fn(&Test) -> String) -> String {
    let term = |term: &Term| format!("{}{}", if term.not { "not " } else { "" }, write(&term.test));
    match clause.0.as_slice() {
        [one] => term(one),
        many => format!("{{ {} }}", many.iter().map(term).collect::<Vec<_>>().join(" or ")),
    }
}

fn protocol(test: &Test) -> String {
    match test {
        Test::Ip4 => "ip4".to_owned(),
        Test::Ip6 => "ip6".to_owned(),
        Test::Protocol(number) => write_protocol(*number),
        other => option(other),
    }
}

/// The addresses or ports of a test, without the option's name.
fn value(test: &Test) -> String {
    match test {
        Test::SrcAddress(all) | Test::DstAddress(all) => addresses(all),
        Test::SrcPort(ports) | Test::DstPort(ports) => spans(ports),
        other => option(other),
    }
}

fn option(test: &Test) -> String {
    match test {
        Test::Ip4 => "ipversion 4".to_owned(),
        Test::Ip6 => "ipversion 6".to_owned(),
        Test::Protocol(number) => format!("proto {}", write_protocol(*number)),
        Test::SrcAddress(all) => format!("src-ip{} {}", family(all), addresses(all)),
        Test::DstAddress(all) => format!("dst-ip{} {}", family(all), addresses(all)),
        Test::SrcPort(ports) => format!("src-port {}", spans(ports)),
        Test::DstPort(ports) => format!("dst-port {}", spans(ports)),
        Test::In => "in".to_owned(),
        Test::Out => "out".to_owned(),
        Test::Via(interface) => format!("via {}", write_interface(interface)),
        Test::Recv(interface) => format!("recv {}", write_interface(interface)),
        Test::Xmit(interface) => format!("xmit {}", write_interface(interface)),
        Test::Layer2 => "layer2".to_owned(),
        Test::Bridged => "bridged".to_owned(),
        Test::Mac { dst, src } => format!("MAC {} {}", mac(*dst), mac(*src)),
        Test::MacType(types) => {
            format!("mac-type {}", write_spans(types, |n| format!("0x{n:04x}")))
        }
        Test::Vlan(ids) => format!("vlan {}", spans(ids)),
        Test::IpLength(lengths) => format!("iplen {}", spans(lengths)),
        Test::IpId(ids) => format!("ipid {}", spans(ids)),
        Test::IpTtl(ttls) => format!("ipttl {}", spans(ttls)),
        Test::IpTos { set, clear } => format!("iptos {}", flags(*set, *clear, &TOS_FLAGS)),
        Test::IpPrecedence(n) => format!("ipprecedence {n}"),
        Test::Dscp(bits) => format!("dscp {}", bit_list(&[*bits], |n| write_dscp(n as u8))),
        Test::Fragment(FragmentMatch::Later) => "frag".to_owned(),
        Test::Fragment(FragmentMatch::Flags { set, clear }) => {
            format!("frag {}", flags(*set, *clear, &FRAGMENT_FLAGS))
        }
        Test::IpOptions { set, clear } => format!("ipoptions {}", flags(*set, *clear, &IP_OPTIONS)),
        Test::IcmpTypes(bits) => format!("icmptypes {}", bit_list(&[*bits], |n| n.to_string())),
        Test::Icmp6Types(bits) => format!("icmp6types {}", bit_list(bits, |n| n.to_string())),
        Test::Ext6Header(bits) => format!("ext6hdr {}", flags(*bits, 0, &EXT6_HEADERS)),
        Test::FlowId(labels) => {
            format!("flow-id {}", labels.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
        }
        Test::TcpFlags { set: 2, clear: 16 } => "setup".to_owned(),
        Test::TcpFlags { set, clear } => format!("tcpflags {}", flags(*set, *clear, &TCP_FLAGS)),
        Test::Established => "established".to_owned(),
        Test::TcpAck(n) => format!("tcpack {n}"),
        Test::TcpSeq(n) => format!("tcpseq {n}"),
        Test::TcpWindow(windows) => format!("tcpwin {}", spans(windows)),
        Test::TcpMss(sizes) => format!("tcpmss {}", spans(sizes)),
        Test::TcpOptions { set, clear } => {
            format!("tcpoptions {}", flags(*set, *clear, &TCP_OPTIONS))
        }
        Test::TcpDataLength(lengths) => format!("tcpdatalen {}", spans(lengths)),
        Test::Tagged(tags) if tags.is_empty() => "tagged any".to_owned(),
        Test::Tagged(tags) => format!("tagged {}", spans(tags)),
        Test::Lookup { field, table } => {
            let name =
                LOOKUP_FIELDS.iter().find(|(_, f)| f == field).map_or("dst-ip", |(name, _)| name);
            format!("lookup {name} {}", table_and_value(table))
        }
        Test::Flow(table) => format!("flow table({})", table_and_value(table)),
        Test::KeepState(name) => format!("keep-state{}", state(name.as_ref())),
        Test::Limit { mask, most, name } => {
            format!(
                "limit{} {}{}",
                limit_fields(*mask),
                write_number_or_tablearg(*most),
                state(name.as_ref())
            )
        }
        Test::RecordState(name) => format!("record-state{}", state(name.as_ref())),
    }
}

/// ` :NAME`, or an empty text for the default name.
pub(super) fn state(name: Option<&Name>) -> String {
    name.map_or_else(String::new, |name| format!(" :{name}"))
}

/// Numbers and ranges, separated by commas.
pub(super) fn spans(spans: &[Span16]) -> String {
    write_spans(spans, |n| n.to_string())
}

fn write_spans(spans: &[Span16], number: fn(u16) -> String) -> String {
    let one = |s: &Span16| {
        if s.first == s.last {
            number(s.first)
        } else {
            format!("{}-{}", number(s.first), number(s.last))
        }
    };
    spans.iter().map(one).collect::<Vec<_>>().join(",")
}

/// `6` if all addresses are IPv6, so that `ipfw`, too, can read the option; otherwise empty.
fn family(all: &[Address]) -> &'static str {
    let v6 = |a: &Address| matches!(a, Address::V6 { .. } | Address::Me6);
    if all.iter().all(v6) { "6" } else { "" }
}

pub(super) fn addresses(all: &[Address]) -> String {
    all.iter().map(address).collect::<Vec<_>>().join(",")
}

fn address(address: &Address) -> String {
    match address {
        Address::Any => "any".to_owned(),
        Address::Me => "me".to_owned(),
        Address::Me6 => "me6".to_owned(),
        Address::V4 { address, mask } => {
            let (text, len) = (Ipv4Addr::from(*address), mask.leading_ones());
            match len {
                32 => text.to_string(),
                len if mask.count_ones() == len => format!("{text}/{len}"),
                _ => format!("{text}:{}", Ipv4Addr::from(*mask)),
            }
        }
        Address::V6 { address, mask } => {
            let (text, len) = (Ipv6Addr::from(*address), mask.leading_ones());
            match len {
                128 => text.to_string(),
                len if mask.count_ones() == len => format!("{text}/{len}"),
                _ => format!("{text}/{}", Ipv6Addr::from(*mask)),
            }
        }
        Address::Set { base, members } => {
            format!("{}/24{{{}}}", Ipv4Addr::from(*base), bit_list(members, |n| n.to_string()))
        }
        Address::Table(table) => format!("table({})", table_and_value(table)),
    }
}

fn table_and_value(table: &TableMatch) -> String {
    format!("{}{}", table.table, table.value.map_or_else(String::new, |value| format!(",{value}")))
}

fn write_interface(interface: &Interface) -> String {
    match interface {
        Interface::Any => "any".to_owned(),
        Interface::Name(name) => quote(name, |word| ["any", "*"].contains(&word)),
        Interface::V4(address) => Ipv4Addr::from(*address).to_string(),
        Interface::V6(address) => Ipv6Addr::from(*address).to_string(),
        Interface::Table(table) => format!("table({})", table_and_value(table)),
    }
}

fn mac(mac: MacMatch) -> String {
    let bytes = |bits: u64| {
        bits.to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
    };
    let bits = (mac.mask << 16).leading_ones();
    match mac.mask {
        0 => "any".to_owned(),
        MAC_BITS => bytes(mac.address),
        mask if mask.count_ones() == bits => format!("{}/{bits}", bytes(mac.address)),
        mask => format!("{}&{}", bytes(mac.address), bytes(mask)),
    }
}

/// The bits that are set, as `name` writes them. Three or more consecutive numbers become a range.
fn bit_list(words: &[u64], name: fn(u32) -> String) -> String {
    let bits: Vec<u32> = (0..words.len() as u32 * 64)
        .filter(|n| words[*n as usize / 64] >> (n % 64) & 1 == 1)
        .collect();
    let mut parts = Vec::new();
    let mut rest = bits.as_slice();
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(bit, n)| **bit == *n).count();
        let last = rest[run - 1];
        let digits = name(first).starts_with(|c: char| c.is_ascii_digit())
            && name(last).starts_with(|c: char| c.is_ascii_digit());
        if run > 2 && digits {
            parts.push(format!("{}-{}", name(first), name(last)));
        } else {
            parts.extend(rest[..run].iter().map(|&n| name(n)));
        }
        rest = &rest[run..];
    }
    parts.join(",")
}

/// Flags that must be set, and flags after `!` that must be clear. A bit without a name is a
/// hexadecimal number.
fn flags(set: u8, clear: u8, names: &[&str]) -> String {
    let part = |bits: u8, sign: &str| {
        (0..8u8)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| {
                let name = names
                    .get(usize::from(bit))
                    .map_or_else(|| format!("0x{:02x}", 1u8 << bit), |name| (*name).to_owned());
                format!("{sign}{name}")
            })
            .collect::<Vec<_>>()
    };
    let mut all = part(set, "");
    all.extend(part(clear, "!"));
    if all.is_empty() { "0x00".to_owned() } else { all.join(",") }
}

fn limit_fields(mask: LimitMask) -> String {
    let used = [mask.src_addr, mask.src_port, mask.dst_addr, mask.dst_port];
    LIMIT_FIELDS
        .iter()
        .zip(used)
        .filter(|(_, used)| *used)
        .map(|(name, _)| format!(" {name}"))
        .collect()
}
