//! A packet in words, such as `tcp 10.0.0.1:40000 192.0.2.1:80 flags syn`, to ask for its
//! [journey](crate::classify::Journey) through the rules.
//!
//! The words are a protocol, the source, the destination, and options. [`PacketSpec::frame`] makes
//! the bytes of an Ethernet frame, so that rules test real headers. Checksums are 0, because no
//! rule tests them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weir_core::quantity;

use crate::script::names::{self, TCP_FLAGS};
use crate::suggest::closest;

/// The headers of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSpec {
    /// The IP protocol.
    pub protocol: u8,
    /// Source address, of the same IP version as the destination.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port; 0 for a protocol without ports.
    pub src_port: u16,
    /// Destination port; 0 for a protocol without ports.
    pub dst_port: u16,
    /// Length of the IP packet, in bytes.
    pub len: u16,
    /// TCP flags, by the bits of the header.
    pub flags: u8,
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// VLAN identifier; 0 for a frame without a tag.
    pub vlan: u16,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// ICMP or ICMPv6 type.
    pub icmp_type: u8,
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
}

/// Why words do not describe a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PacketError {
    /// The error, what is allowed, and what to do.
    pub message: String,
    /// The wrong word's first byte, and the byte after its last one, as offsets in the text.
    pub place: (usize, usize),
}

/// A word with its place.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    /// The offset of the word in the text, in bytes.
    at: usize,
}

impl Word<'_> {
    fn wrong(self, message: impl Into<String>) -> PacketError {
        PacketError { message: message.into(), place: (self.at, self.at + self.text.len()) }
    }
}

fn words(text: &str) -> Vec<Word<'_>> {
    text.split_whitespace()
        .map(|word| Word { text: word, at: word.as_ptr() as usize - text.as_ptr() as usize })
        .collect()
}

impl FromStr for PacketSpec {
    type Err = PacketError;

    fn from_str(text: &str) -> Result<Self, PacketError> {
        let end = Word { text: "", at: text.len() };
        if text.len() > MOST_TEXT {
            return Err(end.wrong(format!("a packet has at most {MOST_TEXT} bytes of words")));
        }
        let words = words(text);
        let mut rest = words.iter().copied();
        let protocol = protocol(rest.next().ok_or_else(|| end.wrong(USAGE))?)?;
        let source = rest.next().ok_or_else(|| end.wrong(USAGE))?;
        let target = rest.next().ok_or_else(|| end.wrong(USAGE))?;
        let (src, src_port) = address(source, protocol)?;
        let (dst, dst_port) = address(target, protocol)?;
        if src.is_ipv6() != dst.is_ipv6() {
            return Err(target.wrong("source and destination are of different IP versions"));
        }
        let mut spec = Self {
            protocol,
            src,
            dst,
            src_port,
            dst_port,
            len: 0,
            flags: ACK,
            dscp: 0,
            ttl: 64,
            vlan: 0,
            flow_label: 0,
            icmp_type: if protocol == ICMP6 { 128 } else { 8 },
            src_mac: SRC_MAC,
            dst_mac: DST_MAC,
        };
        spec.len = if matches!(protocol, ICMP | ICMP6) { 84 } else { 1500 };
        let mut seen: Vec<&str> = Vec::new();
        while let Some(option) = rest.next() {
            let Some(value) = rest.next() else {
                return Err(if OPTIONS.contains(&option.text) {
                    option.wrong(format!("`{}` needs a value", option.text))
                } else {
                    unknown(option)
                });
            };
            if seen.contains(&option.text) {
                return Err(option.wrong(format!("`{}` is given twice", option.text)));
            }
            seen.push(option.text);
            spec.option(option, value)?;
        }
        let least = spec.headers();
        if usize::from(spec.len) < least {
            let message = format!("the headers of this packet alone have {least} bytes");
            let at = words.iter().position(|word| word.text == "len");
            return Err(at
                .and_then(|at| words.get(at + 1))
                .map_or(end, |word| *word)
                .wrong(message));
        }
        Ok(spec)
    }
}

impl PacketSpec {
    fn option(&mut self, option: Word<'_>, value: Word<'_>) -> Result<(), PacketError> {
        let number = |most: u32| {
            let read = value.text.parse::<u32>().ok().filter(|&n| n <= most);
            let wrong = || {
                let name = option.text;
                value.wrong(format!("`{}` is no {name}; allowed: 0 to {most}", value.text))
            };
            read.ok_or_else(wrong)
        };
        let only = |is: bool, of: &str| {
            if is { Ok(()) } else { Err(option.wrong(format!("only {of} has `{}`", option.text))) }
        };
        match option.text {
            "len" => self.len = length(value)?,
            "flags" => {
                only(self.protocol == TCP, "TCP")?;
                self.flags = flags(value)?;
            }
            "dscp" => {
                self.dscp = match names::dscp(value.text) {
                    Some(code) => code,
                    None => number(63)? as u8,
                };
            }
            "ttl" => self.ttl = number(255)? as u8,
            "vlan" => self.vlan = number(4094)? as u16,
            "flow-id" => {
                only(self.src.is_ipv6(), "IPv6")?;
                self.flow_label = number(0xf_ffff)?;
            }
            "type" => {
                only(matches!(self.protocol, ICMP | ICMP6), "ICMP")?;
                self.icmp_type = number(255)? as u8;
            }
            "src-mac" => self.src_mac = mac(value)?,
            "dst-mac" => self.dst_mac = mac(value)?,
            _ => return Err(unknown(option)),
        }
        Ok(())
    }

    /// The number of bytes of the headers, from the network layer on.
    fn headers(&self) -> usize {
        let network = if self.src.is_ipv6() { 40 } else { 20 };
        let transport = match self.protocol {
            TCP => 20,
            protocol if has_ports(protocol) => 8,
            ICMP | ICMP6 => 8,
            _ => 0,
        };
        network + transport
    }

    /// The Ethernet frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let ethertype: u16 = if self.src.is_ipv6() { 0x86dd } else { 0x0800 };
        let mut frame = Vec::with_capacity(18 + usize::from(self.len));
        frame.extend(self.dst_mac);
        frame.extend(self.src_mac);
        if self.vlan > 0 {
            frame.extend(0x8100u16.to_be_bytes());
            frame.extend(self.vlan.to_be_bytes());
        }
        frame.extend(ethertype.to_be_bytes());
        let network = frame.len();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                frame.extend([0x45, self.dscp << 2]);
                frame.extend(self.len.to_be_bytes());
                // No identification; "don't fragment"; no checksum.
                frame.extend([0, 0, 0x40, 0, self.ttl, self.protocol, 0, 0]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
            }
            (src, dst) => {
                let word = 6 << 28 | u32::from(self.dscp) << 22 | self.flow_label;
                frame.extend(word.to_be_bytes());
                frame.extend((self.len - 40).to_be_bytes());
                frame.extend([self.protocol, self.ttl]);
                for end in [src, dst] {
                    if let IpAddr::V6(end) = end {
                        frame.extend(end.octets());
                    }
                }
            }
        }
        let transport = frame.len();
        frame.resize(network + usize::from(self.len), 0);
        let body = &mut frame[transport..];
        if has_ports(self.protocol) {
            body[..2].copy_from_slice(&self.src_port.to_be_bytes());
            body[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        }
        match self.protocol {
            // Sequence and acknowledgement number 1, a header of five words, the largest window.
            TCP => {
                body[4..16]
                    .copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 0xff, 0xff]);
            }
            UDP => {
                let len = (self.len - if self.src.is_ipv6() { 40 } else { 20 }).to_be_bytes();
                body[4..6].copy_from_slice(&len);
            }
            ICMP | ICMP6 => body[0] = self.icmp_type,
            _ => {}
        }
        frame
    }
}

/// The words: always with `len`, for TCP with `flags`, for ICMP with `type`, and with each other
/// option that differs from its default.
impl fmt::Display for PacketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address: IpAddr, port: u16| match (address, has_ports(self.protocol)) {
            (address, false) => address.to_string(),
            (IpAddr::V4(address), true) => format!("{address}:{port}"),
            (IpAddr::V6(address), true) => format!("[{address}]:{port}"),
        };
        let protocol = names::write_protocol(self.protocol);
        let (src, dst) = (end(self.src, self.src_port), end(self.dst, self.dst_port));
        write!(f, "{protocol} {src} {dst} len {}B", self.len)?;
        if self.protocol == TCP {
            let all = TCP_FLAGS.iter().enumerate();
            let set = all.filter(|(bit, _)| self.flags >> bit & 1 == 1).map(|(_, name)| *name);
            let set: Vec<&str> = set.collect();
            write!(f, " flags {}", if set.is_empty() { "none".to_owned() } else { set.join(",") })?;
        }
        if matches!(self.protocol, ICMP | ICMP6) {
            write!(f, " type {}", self.icmp_type)?;
        }
        if self.dscp > 0 {
            write!(f, " dscp {}", names::write_dscp(self.dscp))?;
        }
        if self.ttl != 64 {
            write!(f, " ttl {}", self.ttl)?;
        }
        if self.vlan > 0 {
            write!(f, " vlan {}", self.vlan)?;
        }
        if self.flow_label > 0 {
            write!(f, " flow-id {}", self.flow_label)?;
        }
        let macs =
            [("src-mac", self.src_mac, SRC_MAC), ("dst-mac", self.dst_mac, DST_MAC)].into_iter();
        for (name, mac, _) in macs.filter(|(_, mac, usual)| mac != usual) {
            let bytes = mac.map(|byte| format!("{byte:02x}"));
            write!(f, " {name} {}", bytes.join(":"))?;
        }
        Ok(())
    }
}

fn unknown(option: Word<'_>) -> PacketError {
    let meant = closest(option.text, OPTIONS).map(|name| format!("; did you mean `{name}`?"));
    let list = OPTIONS.join(", ");
    option.wrong(format!(
        "a packet has no `{}`{}; options: {list}",
        option.text,
        meant.unwrap_or_default()
    ))
}

fn protocol(word: Word<'_>) -> Result<u8, PacketError> {
    let known = names::protocol(word.text).or_else(|| word.text.parse().ok());
    known.ok_or_else(|| {
        let usual = ["tcp", "udp", "icmp", "icmp6", "sctp", "gre", "esp"];
        let meant = closest(word.text, usual).map(|name| format!("; did you mean `{name}`?"));
        word.wrong(format!(
            "`{}` is no protocol{}; a packet begins with tcp, udp, icmp, icmp6 or the number of a \
             protocol",
            word.text,
            meant.unwrap_or_default()
        ))
    })
}

/// An address, with its port if the protocol has ports.
fn address(word: Word<'_>, protocol: u8) -> Result<(IpAddr, u16), PacketError> {
    let text = word.text;
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        if has_ports(protocol) {
            let shown = if address.is_ipv6() { format!("[{address}]") } else { text.to_owned() };
            return Err(word.wrong(format!("`{text}` needs a port, as in `{shown}:443`")));
        }
        return Ok((address, 0));
    }
    let split = text.rsplit_once(':').and_then(|(address, port)| {
        let address = match address.strip_prefix('[') {
            Some(inner) => IpAddr::V6(inner.strip_suffix(']')?.parse().ok()?),
            None => IpAddr::V4(address.parse().ok()?),
        };
        Some((address, port))
    });
    let Some((address, port)) = split else {
        return Err(word
            .wrong(format!("`{text}` is no address; give it as 10.0.0.1:80 or [2001:db8::1]:80")));
    };
    if !has_ports(protocol) {
        let name = names::write_protocol(protocol);
        return Err(word.wrong(format!("{name} has no ports; leave out `:{port}`")));
    }
    let known = port.parse().ok().or_else(|| names::service(port));
    let port = known.ok_or_else(|| word.wrong(format!("`{port}` is no port; 0 to 65535")))?;
    Ok((address, port))
}

fn length(word: Word<'_>) -> Result<u16, PacketError> {
    let wrong = |why: &str| {
        word.wrong(format!("`{}` is no length: {why}; for example 1500B, up to 65535B", word.text))
    };
    if word.text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("it needs its unit"));
    }
    let bytes = quantity::size(word.text).map_err(|error| wrong(&error.to_string()))?;
    u16::try_from(bytes).map_err(|_| wrong("too long"))
}

fn flags(word: Word<'_>) -> Result<u8, PacketError> {
    if word.text == "none" {
        return Ok(0);
    }
    word.text.split(',').try_fold(0, |set, name| {
        let bit = TCP_FLAGS.iter().position(|flag| *flag == name).ok_or_else(|| {
            let list = TCP_FLAGS.join(", ");
            word.wrong(format!("`{name}` is no TCP flag; flags: {list}, or `none`"))
        })?;
        Ok(set | 1 << bit)
    })
}

fn mac(word: Word<'_>) -> Result<[u8; 6], PacketError> {
    let wrong = || word.wrong(format!("`{}` is no MAC address, as 02:00:00:00:00:01", word.text));
    let bytes = word.text.split(':').map(|byte| match byte.len() {
        1 | 2 => u8::from_str_radix(byte, 16).map_err(|_| wrong()),
        _ => Err(wrong()),
    });
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
    bytes.try_into().map_err(|_| wrong())
}

fn has_ports(protocol: u8) -> bool {
    // TCP, UDP, DCCP, SCTP and UDP-Lite.
    matches!(protocol, TCP | UDP | 33 | 132 | 136)
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const ACK: u8 = 16;
/// The default MAC addresses of a packet, which are locally administered.
const SRC_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The options, which follow the addresses. Each has a value.
const OPTIONS: [&str; 9] =
    ["len", "flags", "dscp", "ttl", "vlan", "flow-id", "type", "src-mac", "dst-mac"];
const USAGE: &str = "a packet is a protocol, a source and a destination, such as `tcp \
                     10.0.0.1:40000 192.0.2.1:80`";
/// The longest text of a packet, in bytes.
const MOST_TEXT: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::{fields, flow_key, parse};

    fn read(text: &str) -> PacketSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_frame_has_the_headers_that_the_words_name() {
        let spec = read("tcp 10.0.0.1:40000 192.0.2.1:http len 60B flags syn dscp ef ttl 3 vlan 7");
        let frame = spec.frame();
        let parsed = parse(&frame).unwrap();
        let key = flow_key(&frame, &parsed);
        assert_eq!((key.src, key.dst), (0x0a00_0001, 0xc000_0201));
        assert_eq!((key.src_port, key.dst_port, key.proto), (40_000, 80, 6));
        assert_eq!((key.dscp, key.vlan, parsed.network_len), (46, 7, 60));
        assert_eq!(fields::tcp(&frame, &parsed).unwrap().flags, 2);
        assert_eq!(fields::ttl(&frame, &parsed), Some(3));
        let spec = read("udp [2001:db8::1]:53 [2001:db8::2]:5353 flow-id 77 dst-mac 2:0:0:0:0:9");
        let frame = spec.frame();
        let parsed = parse(&frame).unwrap();
        let key = flow_key(&frame, &parsed);
        assert!(key.ipv6 && key.src_port == 53 && key.dst_port == 5353);
        assert_eq!((key.flow_id, key.dst_mac, parsed.network_len), (77, 0x0200_0000_0009, 1500));
        let frame = read("icmp6 fe80::1 fe80::2 type 135").frame();
        assert_eq!(fields::icmp6_type(&frame, &parse(&frame).unwrap()), Some(135));
        let frame = read("icmp 10.0.0.1 10.0.0.2").frame();
        assert_eq!(fields::icmp_type(&frame, &parse(&frame).unwrap()), Some(8));
    }

    #[test]
    fn the_canonical_words_are_the_same_packet() {
        for text in [
            "tcp 10.0.0.1:40000 192.0.2.1:80",
            "tcp 10.0.0.1:1 192.0.2.1:80 flags none ttl 1",
            "udp [::1]:1 [::2]:2 dscp 3 flow-id 9 vlan 4094 len 64KB",
            "icmp 1.2.3.4 5.6.7.8 type 0",
            "47 10.0.0.1 10.0.0.2 len 20B",
            "udp 10.0.0.1:1 10.0.0.2:2 dst-mac ff:ff:ff:ff:ff:ff",
        ] {
            let text = text.replace("64KB", "64000B");
            assert_eq!(read(&read(&text).to_string()), read(&text), "{text}");
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_its_place_and_what_is_allowed() {
        for (text, word, part) in [
            ("", "", "a packet is a protocol"),
            ("tpc 10.0.0.1:1 10.0.0.2:2", "tpc", "did you mean `tcp`"),
            ("tcp 10.0.0.1 10.0.0.2:2", "10.0.0.1", "needs a port, as in `10.0.0.1:443`"),
            ("tcp 10.0.0.300:1 10.0.0.2:2", "10.0.0.300:1", "is no address"),
            ("tcp 10.0.0.1:99999 10.0.0.2:2", "10.0.0.1:99999", "is no port"),
            ("icmp 10.0.0.1:1 10.0.0.2", "10.0.0.1:1", "has no ports"),
            ("tcp 10.0.0.1:1 [::1]:2", "[::1]:2", "different IP versions"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 len 1500", "1500", "needs its unit"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 len 70KB", "70KB", "too long"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 len 39B", "39B", "alone have 40 bytes"),
            ("udp 10.0.0.1:1 10.0.0.2:2 flags syn", "flags", "only TCP has"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 flags sin", "sin", "is no TCP flag"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 dscq 3", "dscq", "did you mean `dscp`"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 ttl", "ttl", "needs a value"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 ttl 1 ttl 2", "ttl", "twice"),
            ("tcp 10.0.0.1:1 10.0.0.2:2 src-mac 1:2", "1:2", "is no MAC address"),
        ] {
            let error = text.parse::<PacketSpec>().unwrap_err();
            assert!(error.message.contains(part), "{text}: {error}");
            assert_eq!(&text[error.place.0..error.place.1], word, "{text}");
        }
        let long = "tcp ".repeat(10_000).parse::<PacketSpec>().unwrap_err();
        assert!(long.message.contains("at most 1000 bytes"), "{long}");
    }

    proptest! {
        #[test]
        fn any_words_are_refused_or_give_a_frame_that_can_be_parsed(
            text in "(tcp|udp|icmp|icmp6|sctp|[0-9]{1,3}) [0-9a-f:.\\[\\]]{1,16} \
                     (10\\.0\\.0\\.1|\\[::1\\]|::1)(:[0-9]{1,6})?\
                     ( (len|flags|dscp|ttl|vlan|type|flow-id|src-mac) [0-9a-zB,:]{1,6}){0,4}",
            other in "(tcp|udp|icmp|gre|[0-9]{1,3}) 10\\.0\\.0\\.[0-9](:[0-9]{1,4})? \
                      10\\.0\\.0\\.[0-9](:[0-9]{1,4})?( len [0-9]{1,5}B)?( ttl [0-9]{1,3})?",
        ) {
            for text in [text, other] {
                let Ok(spec) = text.parse::<PacketSpec>() else { continue };
                let frame = spec.frame();
                let parsed = parse(&frame).expect("its own headers are correct");
                prop_assert_eq!(parsed.network_len, u32::from(spec.len));
                prop_assert_eq!(spec.to_string().parse::<PacketSpec>(), Ok(spec));
            }
        }
    }
}
