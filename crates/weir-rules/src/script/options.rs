//! The table of a rule's options, which are tests on a packet.

use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::lex::Word;
use crate::rule::{
    Address, EXT6_HEADERS, FragmentMatch, IP_OPTIONS, LimitMask, LookupField, Name, Span16,
    TCP_OPTIONS, TableMatch, Target, Test,
};

use super::actions::dscp;
use super::cursor::{Cursor, Read};
use super::names::{self, FRAGMENT_FLAGS, TCP_FLAGS, TOS_FLAGS};
use super::row::{Row, row};
use super::values::{integer, protocol};

/// Reads the words after the name of an option.
type Take = fn(&mut Cursor<'_>) -> Read<Test>;

impl Cursor<'_> {
    /// Reads `:NAME`, if it follows.
    pub(crate) fn state_name(&mut self) -> Read<Option<Name>> {
        let Some(word) = self.peek().filter(|w| w.text.starts_with(':')).cloned() else {
            return Ok(None);
        };
        self.at += 1;
        match &word.text[1..] {
            "default" => Ok(None),
            name => self.name_in(&word, name, "state").map(Some),
        }
    }

    fn number_up_to(&mut self, what: &str, most: u64, example: &str) -> Read<u64> {
        self.number(what, 0, most, example)
    }

    /// Reads the addresses that must follow. If `only_v6` is set, IPv4 addresses and `me` are
    /// refused.
    fn addresses(&mut self, only_v6: bool, example: &str) -> Read<Vec<Address>> {
        let word = self.expect("an address", example)?;
        let all = self.addresses_in(&word)?;
        let foreign =
            all.iter().any(|a| matches!(a, Address::V4 { .. } | Address::Set { .. } | Address::Me));
        if only_v6 && foreign {
            return Err(self.bad(
                &word.span,
                format!("`{}` is not IPv6", shorten(&word.text)),
                "IPv6 addresses, or `me6`",
            ));
        }
        Ok(all)
    }

    fn ports(&mut self, example: &str) -> Read<Vec<Span16>> {
        self.spans("port", u16::MAX, names::service, example)
    }

    /// Reads a list of numbers and sets one bit for each.
    fn bits(&mut self, what: &str, most: u16, example: &str) -> Read<[u64; 4]> {
        let mut bits = [0u64; 4];
        for span in self.spans(what, most, |_| None, example)? {
            (span.first..=span.last).for_each(|n| bits[usize::from(n / 64)] |= 1 << (n % 64));
        }
        Ok(bits)
    }

    fn named_flags(&mut self, what: &str, known: &[&str], example: &str) -> Read<(u8, u8)> {
        let word = self.expect(what, example)?;
        self.flag_list(&word, what, known)
    }
}

fn frag(cursor: &mut Cursor<'_>) -> Read<Test> {
    let is_flags = |w: &Word| {
        w.text
            .split(',')
            .all(|f| FRAGMENT_FLAGS.contains(&f.trim_start_matches('!')) || f.starts_with("0x"))
    };
    let Some(word) = cursor.peek().filter(|w| is_flags(w)).cloned() else {
        return Ok(Test::Fragment(FragmentMatch::Later));
    };
    cursor.at += 1;
    let (set, clear) = cursor.flag_list(&word, "fragment flag", &FRAGMENT_FLAGS)?;
    Ok(Test::Fragment(FragmentMatch::Flags { set, clear }))
}

fn dscps(cursor: &mut Cursor<'_>) -> Read<Test> {
    let word = cursor.expect("DSCPs", "add queue 1 dscp ef,cs5")?;
    let (mut bits, mut at) = (0u64, 0);
    for item in word.text.split(',') {
        let part = Word { text: item.to_owned(), span: word.part(at, item.len()), quoted: false };
        at += item.len() + 1;
        bits |= 1 << dscp(cursor, &part)?;
    }
    Ok(Test::Dscp(bits))
}

fn flow_id(cursor: &mut Cursor<'_>) -> Read<Test> {
    let word = cursor.expect("flow labels", "add count flow-id 5,6")?;
    let mut all = Vec::new();
    for item in word.text.split(',') {
        let part = Word { text: item.to_owned(), ..word.clone() };
        all.push(cursor.number_in(&part, "flow label", 0, 0xf_ffff)? as u32);
    }
    Ok(Test::FlowId(all))
}

fn ip_version(cursor: &mut Cursor<'_>) -> Read<Test> {
    let word = cursor.expect("an IP version", "add count ipversion 6")?;
    match word.text.as_str() {
        "4" => Ok(Test::Ip4),
        "6" => Ok(Test::Ip6),
        text => {
            Err(cursor.bad(&word.span, format!("`{}` is no IP version", shorten(text)), "4 or 6"))
        }
    }
}

fn proto(cursor: &mut Cursor<'_>) -> Read<Test> {
    let word = cursor.expect("a protocol", "add pipe 1 proto tcp out")?;
    match protocol(&word.text) {
        Some(Some(test)) => Ok(test),
        _ => Err(cursor.unknown(&word, "protocol", names::PROTOCOLS.iter().map(|(name, _)| *name))),
    }
}

fn mac(cursor: &mut Cursor<'_>) -> Read<Test> {
    let example = "add pipe 1 MAC any 00:11:22:33:44:55";
    Ok(Test::Mac { dst: cursor.mac(example)?, src: cursor.mac(example)? })
}

fn vlan(cursor: &mut Cursor<'_>) -> Read<Test> {
    cursor.spans("VLAN", 4095, |_| None, "add pipe 1 vlan 100").map(Test::Vlan)
}

fn tagged(cursor: &mut Cursor<'_>) -> Read<Test> {
    if cursor.take("any") {
        return Ok(Test::Tagged(Vec::new()));
    }
    if let Some(word) = cursor.peek().filter(|w| w.text == "tablearg") {
        let error =
            cursor.error(Code::BadValue, &word.span.clone(), "`tagged tablearg` is not possible");
        return Err(Box::new(
            error
                .label("expected tags")
                .help("look the packet up with `lookup` or `table(NAME,VALUE)` instead"),
        ));
    }
    cursor.spans("tag", u16::MAX, |_| None, "add pipe 1 tagged 7").map(Test::Tagged)
}

/// Reads `NAME`, `NAME,VALUE` or `table(NAME[,VALUE])`.
fn table(cursor: &mut Cursor<'_>, example: &str) -> Read<TableMatch> {
    let word = cursor.expect("a table", example)?;
    match cursor.table_match(&word, &word.text)? {
        Some(table) => Ok(table),
        None => cursor.table_and_value(&word, &word.text),
    }
}

fn lookup(cursor: &mut Cursor<'_>) -> Read<Test> {
    let example = "add pipe tablearg lookup dst-ip customers";
    let word = cursor.expect("a field", example)?;
    let field = LOOKUP_FIELDS
        .iter()
        .find(|(name, _)| *name == word.text && !word.quoted)
        .map(|&(_, field)| field);
    match field {
        Some(field) => Ok(Test::Lookup { field, table: table(cursor, example)? }),
        None => Err(super::refused::refusal(cursor, &word).unwrap_or_else(|| {
            cursor.unknown(&word, "field of `lookup`", LOOKUP_FIELDS.iter().map(|(name, _)| *name))
        })),
    }
}

fn limit(cursor: &mut Cursor<'_>) -> Read<Test> {
    let example = "add allow tcp from any to me 80 limit src-addr 4";
    let mut mask = LimitMask::default();
    while let Some(flag) = cursor.plain().and_then(|w| limit_field(&mut mask, w)) {
        *flag = true;
        cursor.at += 1;
    }
    if mask == LimitMask::default() {
        return Err(match cursor.peek() {
            Some(word) => cursor.unknown(word, "field of `limit`", LIMIT_FIELDS.into_iter()),
            None => cursor.missing("a field", example),
        });
    }
    let most = cursor.target("a number of flows", 1, u16::MAX, example)?;
    Ok(Test::Limit { mask, most, name: cursor.state_name()? })
}

fn limit_field<'m>(mask: &'m mut LimitMask, name: &str) -> Option<&'m mut bool> {
    Some(match name {
        "src-addr" => &mut mask.src_addr,
        "src-port" => &mut mask.src_port,
        "dst-addr" => &mut mask.dst_addr,
        "dst-port" => &mut mask.dst_port,
        _ => return None,
    })
}

fn tcp_number(cursor: &mut Cursor<'_>, what: &str) -> Read<u32> {
    Ok(cursor.number(what, 0, u32::MAX.into(), "add count tcp from any to any tcpseq 1")? as u32)
}

/// The fields that `lookup` looks up in a table.
pub(crate) const LOOKUP_FIELDS: &[(&str, LookupField)] = &[
    ("src-ip", LookupField::SrcIp),
    ("dst-ip", LookupField::DstIp),
    ("src-port", LookupField::SrcPort),
    ("dst-port", LookupField::DstPort),
    ("dscp", LookupField::Dscp),
];
pub(crate) const LIMIT_FIELDS: [&str; 4] = ["src-addr", "src-port", "dst-addr", "dst-port"];

pub(crate) const OPTIONS: &[Row<Take>] = &[
    row("in", &[], "", "The packet comes in.", "add pipe 1 ip from any to any in", |_| {
        Ok(Test::In)
    }),
    row("out", &[], "", "The packet goes out.", "add pipe 1 ip from any to any out", |_| {
        Ok(Test::Out)
    }),
    row(
        "via",
        &[],
        "IF",
        "The interface on which the packet arrived if it comes in (`recv`), or through which it \
         departs if it goes out (`xmit`).",
        "add pipe 1 out via eth*",
        |c| c.interface("add pipe 1 out via eth0").map(Test::Via),
    ),
    row(
        "recv",
        &[],
        "IF",
        "The interface on which the packet arrived.",
        "add pipe 1 recv eth0",
        |c| c.interface("add pipe 1 recv eth0").map(Test::Recv),
    ),
    row(
        "xmit",
        &[],
        "IF",
        "The interface through which the packet goes out.",
        "add pipe 1 out xmit eth1",
        |c| c.interface("add pipe 1 xmit eth1").map(Test::Xmit),
    ),
    row("src-ip", &[], "ADDRESSES", "Source address.", "add pipe 1 src-ip 10.0.0.0/8", |c| {
        c.addresses(false, "add pipe 1 src-ip 10.0.0.0/8").map(Test::SrcAddress)
    }),
    row(
        "dst-ip",
        &[],
        "ADDRESSES",
        "Destination address.",
        "add pipe 1 dst-ip 10.0.0.0/24{1,3-5}",
        |c| c.addresses(false, "add pipe 1 dst-ip 10.0.0.0/8").map(Test::DstAddress),
    ),
    row(
        "src-ip6",
        &["src-ipv6"],
        "ADDRESSES",
        "IPv6 source address.",
        "add pipe 1 src-ip6 2001:db8::/32",
        |c| c.addresses(true, "add pipe 1 src-ip6 2001:db8::/32").map(Test::SrcAddress),
    ),
    row(
        "dst-ip6",
        &["dst-ipv6"],
        "ADDRESSES",
        "IPv6 destination address.",
        "add pipe 1 dst-ip6 me6",
        |c| c.addresses(true, "add pipe 1 dst-ip6 2001:db8::/32").map(Test::DstAddress),
    ),
    row("src-port", &[], "PORTS", "Source port.", "add pipe 1 src-port 80,443", |c| {
        c.ports("add pipe 1 src-port 80,443").map(Test::SrcPort)
    }),
    row("dst-port", &[], "PORTS", "Destination port.", "add pipe 1 dst-port 5000-5999", |c| {
        c.ports("add pipe 1 dst-port http").map(Test::DstPort)
    }),
    row(
        "proto",
        &["protocol"],
        "PROTO",
        "Protocol, by name or number.",
        "add pipe 1 proto tcp out",
        proto,
    ),
    row("ipversion", &["ipver"], "4|6", "IP version.", "add count ipversion 6", ip_version),
    row("ip4", &["ipv4"], "", "IPv4.", "add count ip4", |_| Ok(Test::Ip4)),
    row("ip6", &["ipv6"], "", "IPv6.", "add count ip6", |_| Ok(Test::Ip6)),
    row(
        "layer2",
        &[],
        "",
        "The packet has a link-layer header, as all packets do here. The rule also matches frames \
         that are not IP.",
        "add pipe 1 ip from any to any layer2",
        |_| Ok(Test::Layer2),
    ),
    row(
        "MAC",
        &["mac"],
        "DST SRC",
        "MAC addresses, destination first: `any`, an address, `ADDRESS/BITS` or `ADDRESS&MASK`.",
        "add pipe 1 MAC any 00:11:22:33:44:55",
        mac,
    ),
    row(
        "mac-type",
        &[],
        "TYPES",
        "EtherType, by name or number.",
        "add allow mac-type arp,0x86dd",
        |c| {
            c.spans("EtherType", u16::MAX, names::ether_type, "add allow mac-type arp")
                .map(Test::MacType)
        },
    ),
    row(
        "vlan",
        &[],
        "IDS",
        "VLAN of the outermost tag; 0 is untagged.",
        "add pipe 1 vlan 100-199",
        vlan,
    ),
    row(
        "bridged",
        &[],
        "",
        "The packet goes over a bridge.",
        "add pipe 1 ip from any to any bridged",
        |_| Ok(Test::Bridged),
    ),
    row(
        "iplen",
        &[],
        "LENGTHS",
        "Length of the IP packet in bytes.",
        "add pipe 1 iplen 0-100",
        |c| c.spans("length", u16::MAX, |_| None, "add pipe 1 iplen 0-100").map(Test::IpLength),
    ),
    row("ipid", &[], "IDS", "IPv4 identification.", "add count ipid 0", |c| {
        c.spans("identification", u16::MAX, |_| None, "add count ipid 0").map(Test::IpId)
    }),
    row("ipttl", &[], "TTLS", "TTL or hop limit.", "add deny ipttl 0-1", |c| {
        c.spans("TTL", 255, |_| None, "add deny ipttl 0-1").map(Test::IpTtl)
    }),
    row(
        "iptos",
        &[],
        "FLAGS",
        "Bits of the IPv4 TOS byte: `lowdelay`, `throughput`, `reliability`, `mincost`, \
         `congestion` or a number; `!` before one that must be clear.",
        "add queue 1 iptos lowdelay,!throughput",
        |c| {
            c.named_flags("TOS flag", &TOS_FLAGS, "add queue 1 iptos lowdelay")
                .map(|(set, clear)| Test::IpTos { set, clear })
        },
    ),
    row(
        "ipprecedence",
        &[],
        "N",
        "The three precedence bits.",
        "add queue 1 ipprecedence 5",
        |c| {
            let number = c.number_up_to("precedence", 7, "add queue 1 ipprecedence 5")?;
            Ok(Test::IpPrecedence(number as u8))
        },
    ),
    row("dscp", &[], "DSCPS", "DSCPs, by name or number.", "add queue 1 dscp ef,cs5", dscps),
    row(
        "frag",
        &[],
        "[FLAGS]",
        "A fragment other than the first; or fragment flags of `df`, `mf`, `rf`, `offset`, with \
         `!` before those that must be clear.",
        "add pipe 1 frag !df,offset",
        frag,
    ),
    row(
        "ipoptions",
        &["ipopt"],
        "OPTIONS",
        "IPv4 options of `ssrr`, `lsrr`, `rr`, `ts`; `!` before those that must be absent.",
        "add deny ipoptions lsrr,!ts",
        |c| {
            c.named_flags("IP option", &IP_OPTIONS, "add deny ipoptions lsrr")
                .map(|(set, clear)| Test::IpOptions { set, clear })
        },
    ),
    row(
        "icmptypes",
        &["icmptype"],
        "TYPES",
        "ICMP types, 0 to 63.",
        "add allow icmp from any to any icmptypes 0,8",
        |c| Ok(Test::IcmpTypes(c.bits("ICMP type", 63, "add allow icmptypes 0,8")?[0])),
    ),
    row(
        "icmp6types",
        &["icmp6type"],
        "TYPES",
        "ICMPv6 types.",
        "add allow icmp6 from any to any icmp6types 128,129",
        |c| c.bits("ICMPv6 type", 255, "add allow icmp6types 128,129").map(Test::Icmp6Types),
    ),
    row(
        "ext6hdr",
        &[],
        "HEADERS",
        "One of these IPv6 extension headers: `frag`, `hopopt`, `route`, `dstopt`, `ah`, `esp`, \
         `rthdr0`.",
        "add count ext6hdr frag,route",
        |c| {
            let (set, clear) =
                c.named_flags("extension header", &EXT6_HEADERS, "add count ext6hdr frag")?;
            if clear != 0 {
                let span = c.words[c.at - 1].span.clone();
                return Err(c.bad(
                    &span,
                    "`ext6hdr` takes no `!`".to_owned(),
                    "`not ext6hdr …` instead",
                ));
            }
            Ok(Test::Ext6Header(set))
        },
    ),
    row("flow-id", &["flowid"], "LABELS", "IPv6 flow labels.", "add count flow-id 5,6", flow_id),
    row(
        "tcpflags",
        &["tcpflgs"],
        "FLAGS",
        "TCP flags of `fin`, `syn`, `rst`, `psh`, `ack`, `urg`; `!` before those that must be \
         clear.",
        "add count tcp from any to any tcpflags syn,!ack",
        |c| {
            c.named_flags("TCP flag", &TCP_FLAGS, "add count tcpflags syn,!ack")
                .map(|(set, clear)| Test::TcpFlags { set, clear })
        },
    ),
    row(
        "setup",
        &[],
        "",
        "The first segment of a connection: `tcpflags syn,!ack`.",
        "add pipe 1 tcp from any to any setup",
        |_| Ok(Test::TcpFlags { set: 2, clear: 16 }),
    ),
    row(
        "established",
        &["estab"],
        "",
        "TCP with ACK or RST.",
        "add allow tcp from any to any established",
        |_| Ok(Test::Established),
    ),
    row(
        "tcpack",
        &[],
        "N",
        "TCP acknowledgement number.",
        "add count tcp from any to any tcpack 1",
        |c| tcp_number(c, "acknowledgement number").map(Test::TcpAck),
    ),
    row(
        "tcpseq",
        &[],
        "N",
        "TCP sequence number.",
        "add count tcp from any to any tcpseq 0",
        |c| tcp_number(c, "sequence number").map(Test::TcpSeq),
    ),
    row(
        "tcpwin",
        &[],
        "WINDOWS",
        "TCP window field.",
        "add count tcp from any to any tcpwin 0",
        |c| c.spans("window", u16::MAX, |_| None, "add count tcpwin 0").map(Test::TcpWindow),
    ),
    row(
        "tcpmss",
        &[],
        "SIZES",
        "TCP maximum segment size option.",
        "add count tcp from any to any tcpmss 0-536",
        |c| c.spans("segment size", u16::MAX, |_| None, "add count tcpmss 0-536").map(Test::TcpMss),
    ),
    row(
        "tcpoptions",
        &["tcpopts"],
        "OPTIONS",
        "TCP options of `mss`, `window`, `sack`, `ts`, `cc`; `!` before those that must be absent.",
        "add count tcp from any to any tcpoptions mss,!sack",
        |c| {
            c.named_flags("TCP option", &TCP_OPTIONS, "add count tcpoptions mss,!sack")
                .map(|(set, clear)| Test::TcpOptions { set, clear })
        },
    ),
    row(
        "tcpdatalen",
        &[],
        "LENGTHS",
        "TCP payload bytes.",
        "add pipe 1 tcp from any to any tcpdatalen 0",
        |c| {
            c.spans("length", u16::MAX, |_| None, "add pipe 1 tcpdatalen 0")
                .map(Test::TcpDataLength)
        },
    ),
    row(
        "tagged",
        &[],
        "TAGS|any",
        "The packet carries one of these tags.",
        "add pipe 1 tagged 7",
        tagged,
    ),
    row(
        "lookup",
        &[],
        "FIELD TABLE",
        "The field `src-ip`, `dst-ip`, `src-port`, `dst-port` or `dscp` is in a table; the \
         entry's value is `tablearg`.",
        "add pipe tablearg lookup dst-ip customers",
        lookup,
    ),
    row(
        "flow",
        &[],
        "table(NAME[,VALUE])",
        "The packet's flow is in a table of type `flow`.",
        "add pipe 1 flow table(calls)",
        |c| table(c, "add pipe 1 flow table(calls)").map(Test::Flow),
    ),
    row(
        "keep-state",
        &[],
        "[:NAME]",
        "A match creates a dynamic rule, which matches later packets of the flow in both \
         directions.",
        "add allow tcp from me to any setup keep-state",
        |c| c.state_name().map(Test::KeepState),
    ),
    row(
        "limit",
        &[],
        "FIELD… N|tablearg [:NAME]",
        "As `keep-state`, for up to N flows that share the given fields: `src-addr`, `src-port`, \
         `dst-addr`, `dst-port`. Packets of further flows are dropped.",
        "add allow tcp from any to me 80 limit src-addr 4",
        limit,
    ),
    row(
        "record-state",
        &[],
        "[:NAME]",
        "As `keep-state`, but only creates the dynamic rule.",
        "add allow tcp from me to any record-state :web",
        |c| c.state_name().map(Test::RecordState),
    ),
];

/// Whether a text is a whole number.
pub(crate) fn is_number(text: &str) -> bool {
    integer(text).is_some()
}

pub(crate) fn write_number_or_tablearg(target: Target) -> String {
    match target {
        Target::Number(number) => number.to_string(),
        Target::TableArg => "tablearg".to_owned(),
    }
}
