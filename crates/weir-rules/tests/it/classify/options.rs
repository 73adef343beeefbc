//! Each option of a rule in its written form: which of the prepared frames match a rule with this
//! option.

use super::common::{Bench, PASSES, UP, place, script};
use weir_rules::classify::{Fate, Place};
use weir_wire::builder::{PacketBuilder, Transport};
use weir_wire::{parse, protocol};

struct Frames(Vec<(&'static str, Vec<u8>)>);

impl Frames {
    /// Checks that a rule with this body matches exactly these frames, in every form in which rules
    /// are compiled.
    #[track_caller]
    fn matched(&self, body: &str, expected: &[&str]) {
        let filler: String = (0..60)
            .map(|n| format!("add {} count ip from 10.99.{n}.0/24 to any\n", 100 + n))
            .collect();
        let alone = format!("add 90 deny {body}");
        for (rules, place, form) in [
            (&alone, place(), "with a program for the pass of the frames"),
            (&alone, Place { passes: Vec::new(), ..place() }, "with the program for all passes"),
            (&(alone.clone() + "\n" + &filler), place(), "among many"),
        ] {
            let mut bench = Bench::at(&script(rules), &place);
            let matched: Vec<&str> = self
                .0
                .iter()
                .filter(|(_, frame)| bench.frame(frame, UP, None).fate == Fate::Deny)
                .map(|(name, _)| *name)
                .collect();
            assert_eq!(matched, expected, "`{body}` {form}");
        }
    }
}

fn udp() -> PacketBuilder {
    PacketBuilder::udp(A4, B4, 1000, 53)
}

fn udp6() -> PacketBuilder {
    PacketBuilder::udp(A6, B6, 1000, 53)
}

fn tcp(flags: u8, options: &[u8]) -> PacketBuilder {
    PacketBuilder::new(
        A4,
        B4,
        Transport::Tcp {
            src_port: 1000,
            dst_port: 80,
            sequence: 7,
            flags,
            options: options.to_vec(),
        },
    )
}

/// A frame in which these bytes replace those at offset `at` of the transport header.
fn patched(packet: &PacketBuilder, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = packet.frame();
    let at = parse(&frame).unwrap().transport().unwrap() + at;
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

#[test]
fn ipv4_options() {
    let with = |options: &[u8]| PacketBuilder { options: options.to_vec(), ..udp() }.frame();
    let frames = Frames(vec![
        ("none", with(&[])),
        ("rr", with(&[7, 3, 4])),
        ("lsrr", with(&[1, 131, 3, 4])),
        ("ssrr", with(&[137, 3, 4])),
        ("ts", with(&[68, 4, 5, 0])),
        ("rr+ts", with(&[7, 3, 4, 68, 4, 5, 0])),
        ("other", with(&[148, 4, 0, 0])),
        ("v6", udp6().frame()),
        ("arp", PacketBuilder::arp(A4, B4).frame()),
    ]);
    frames.matched("ipoptions rr", &["rr", "rr+ts"]);
    frames.matched("ipoptions rr,!ts", &["rr"]);
    frames.matched("ipoptions rr,ts", &["rr+ts"]);
    frames.matched("ipopt !rr,!ts", &["none", "lsrr", "ssrr", "other"]);
    frames.matched("{ ipoptions ssrr or ipoptions lsrr }", &["lsrr", "ssrr"]);
    frames.matched("not ipoptions !rr", &["rr", "rr+ts", "v6"]);
}

#[test]
fn tcp_options_and_segment_size() {
    let with = |options: &[u8]| tcp(2, options).frame();
    let frames = Frames(vec![
        ("none", with(&[])),
        ("mss 1460", with(&[2, 4, 5, 180])),
        ("mss 500+sack", with(&[4, 2, 2, 4, 1, 244])),
        ("window", with(&[1, 3, 3, 7])),
        ("blocks", with(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2])),
        ("ts", with(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2])),
        ("cc", with(&[11, 6, 0, 0, 0, 1])),
        ("cut", with(&[2, 40, 5, 180])),
        ("udp", udp().frame()),
        (
            "later fragment",
            PacketBuilder::new(A4, B4, Transport::Raw(6))
                .payload([2; 60])
                .fragment(5, false)
                .frame(),
        ),
    ]);
    frames.matched("tcpmss 1460", &["mss 1460"]);
    frames.matched("tcpmss 0-536", &["mss 500+sack"]);
    frames.matched("tcpmss 0-65535", &["mss 1460", "mss 500+sack"]);
    frames.matched("tcpoptions mss", &["mss 1460", "mss 500+sack"]);
    frames.matched("tcpopts mss,!sack", &["mss 1460"]);
    frames.matched("tcpoptions sack", &["mss 500+sack", "blocks"]);
    frames.matched("tcpoptions window", &["window"]);
    frames.matched("tcpoptions ts", &["ts"]);
    frames.matched("tcpoptions cc", &["cc"]);
    frames.matched("tcpoptions !mss,!sack,!ts,!cc,!window", &["none", "cut"]);
}

#[test]
fn tcp_numbers_flags_and_lengths() {
    let mut padded = tcp(16, &[]);
    padded.padding = 6;
    let v6 = PacketBuilder::tcp(A6, B6, 1000, 80)
        .extension(protocol::DESTINATION, &[1, 4])
        .payload([1; 3]);
    let frames = Frames(vec![
        ("syn", tcp(2, &[2, 4, 5, 180]).frame()),
        ("ack", patched(&padded, 8, &[0, 0, 0, 9])),
        ("rst", patched(&tcp(4, &[]), 14, &[0, 0])),
        ("data", tcp(0x18, &[1, 1]).payload([1; 100]).frame()),
        ("cwr", tcp(0x80, &[]).frame()),
        ("v6", v6.frame()),
        ("udp", udp().payload([0; 20]).frame()),
    ]);
    frames.matched("tcpseq 7", &["syn", "ack", "rst", "data", "cwr"]);
    frames.matched("tcpseq 1", &["v6"]);
    frames.matched("tcpack 9", &["ack"]);
    frames.matched("tcpack 0", &["syn", "rst", "data", "cwr", "v6"]);
    frames.matched("tcpwin 0", &["rst"]);
    frames.matched("tcpwin 1-8191,8192", &["syn", "ack", "data", "cwr", "v6"]);
    frames.matched("tcpdatalen 0", &["syn", "ack", "rst", "cwr"]);
    frames.matched("tcpdatalen 3,100", &["data", "v6"]);
    frames.matched("not tcpdatalen 0-65535", &["udp"]);
    frames.matched("setup", &["syn"]);
    frames.matched("established", &["ack", "rst", "data", "v6"]);
    frames.matched("tcpflags psh,ack,!urg", &["data"]);
    frames.matched("tcpflags 0x80", &["cwr"]);
}

#[test]
fn icmp_types() {
    let v4 = |kind: u8| patched(&PacketBuilder::echo(A4, B4, 1, 2), 0, &[kind]);
    let v6 = |kind: u8| patched(&PacketBuilder::echo(A6, B6, 1, 2), 0, &[kind]);
    let frames = Frames(vec![
        ("reply", v4(0)),
        ("echo", v4(8)),
        ("63", v4(63)),
        ("64", v4(64)),
        ("128", v4(128)),
        ("6:0", v6(0)),
        ("6:63", v6(63)),
        ("6:64", v6(64)),
        ("6:128", v6(128)),
        ("6:255", v6(255)),
        (
            "later fragment",
            PacketBuilder::new(A4, B4, Transport::Raw(1))
                .payload([8; 16])
                .fragment(1, false)
                .frame(),
        ),
        ("icmp6 over v4", PacketBuilder::new(A4, B4, Transport::Raw(58)).payload([128; 8]).frame()),
        ("udp", udp().frame()),
    ]);
    frames.matched("icmptypes 0,8", &["reply", "echo"]);
    frames.matched("icmptypes 9-63", &["63"]);
    frames.matched("icmp6types 0,64", &["6:0", "6:64"]);
    frames.matched("icmp6types 63,128-254", &["6:63", "6:128"]);
    frames.matched("icmp6types 255", &["6:255"]);
    frames.matched("icmp from any to any not icmptypes 0-63", &["64", "128", "later fragment"]);
}

#[test]
fn extension_headers() {
    let with = |kind: u8, body: &[u8]| udp6().extension(kind, body);
    let esp = |src: &str, dst: &str| {
        let [src, dst] = [src, dst].map(|a| a.parse::<std::net::IpAddr>().unwrap());
        PacketBuilder::new(src, dst, Transport::Raw(50)).payload([0; 16])
    };
    let frames = Frames(vec![
        ("none", udp6().frame()),
        ("hop", with(protocol::HOP_BY_HOP, &[1, 4]).frame()),
        ("route 0", with(protocol::ROUTING, &[0, 0]).frame()),
        ("route 4", with(protocol::ROUTING, &[4, 0]).frame()),
        ("dst", with(protocol::DESTINATION, &[1, 4]).frame()),
        (
            "ah+dst",
            with(protocol::AUTHENTICATION, &[0; 22])
                .extension(protocol::DESTINATION, &[1, 4])
                .frame(),
        ),
        ("frag", with(protocol::FRAGMENT, &[0, 1, 0, 0, 0, 1]).frame()),
        ("later fragment", with(protocol::FRAGMENT, &[0, 8, 0, 0, 0, 1]).frame()),
        ("esp", esp("fd00::1", "fd00::2").extension(protocol::HOP_BY_HOP, &[1, 4]).frame()),
        ("esp over v4", esp("10.0.0.1", "10.0.0.2").frame()),
    ]);
    frames.matched("ext6hdr hopopt", &["hop", "esp"]);
    frames.matched("ext6hdr route", &["route 0", "route 4"]);
    frames.matched("ext6hdr rthdr0", &["route 0"]);
    frames.matched("ext6hdr dstopt", &["dst", "ah+dst"]);
    frames.matched("ext6hdr ah", &["ah+dst"]);
    frames.matched("ext6hdr frag", &["frag", "later fragment"]);
    frames.matched("ext6hdr esp,rthdr0", &["route 0", "esp"]);
    frames.matched("ip6 from any to any not ext6hdr hopopt,route,dstopt,ah,frag,esp", &["none"]);
}

#[test]
fn fragments() {
    let part = |offset, more| udp().payload([0; 24]).fragment(offset, more).frame();
    let mut reserved = part(0, false);
    reserved[20] |= 0x80;
    let v6 = |field: [u8; 2]| {
        udp6().extension(protocol::FRAGMENT, &[field[0], field[1], 0, 0, 0, 1]).frame()
    };
    let frames = Frames(vec![
        ("df", udp().frame()),
        ("first", part(0, true)),
        ("middle", part(3, true)),
        ("last", part(3, false)),
        ("rf", reserved),
        ("6 first", v6([0, 1])),
        ("6 last", v6([0, 8])),
    ]);
    frames.matched("frag", &["middle", "last", "6 last"]);
    frames.matched("frag df", &["df"]);
    frames.matched("frag mf", &["first", "middle"]);
    frames.matched("frag mf,!offset", &["first"]);
    frames.matched("frag offset", &["middle", "last"]);
    frames.matched("frag rf", &["rf"]);
    frames.matched("frag !df,!mf,!offset", &["rf"]);
    frames.matched("dst-port 53", &["df", "first", "rf", "6 first"]);
    frames.matched("udp from any to any not dst-port 53", &["middle", "last", "6 last"]);
}

#[test]
fn fields_of_the_ip_header() {
    let v4 = |dscp, id, ttl| PacketBuilder { dscp, id, ttl, ..udp() };
    let mut padded = v4(0, 3, 64);
    padded.padding = 18;
    let label = PacketBuilder { flow_label: 0xf_0001, ttl: 1, ..udp6() };
    let frames = Frames(vec![
        ("plain", padded.frame()),
        ("lowdelay", v4(4, 500, 1).payload([0; 80]).frame()),
        ("cs5+ce", v4(40, 0, 255).ecn(weir_core::packet::Ecn::Ce).frame()),
        ("v6", label.dscp(4).frame()),
        ("arp", PacketBuilder::arp(A4, B4).frame()),
    ]);
    frames.matched("iptos lowdelay", &["lowdelay"]);
    frames.matched("iptos !lowdelay", &["plain", "cs5+ce"]);
    frames.matched("iptos 0xa0,0x03,!0x40", &["cs5+ce"]);
    frames.matched("ipprecedence 5", &["cs5+ce"]);
    frames.matched("ipprecedence 0", &["plain", "lowdelay"]);
    frames.matched("dscp 4", &["lowdelay", "v6"]);
    frames.matched("dscp be,cs5", &["plain", "cs5+ce"]);
    frames.matched("ipid 0-3", &["plain", "cs5+ce"]);
    frames.matched("ipid 500", &["lowdelay"]);
    frames.matched("ipttl 0-1", &["lowdelay", "v6"]);
    frames.matched("iplen 28", &["plain", "cs5+ce"]);
    frames.matched("iplen 48,100-200", &["lowdelay", "v6"]);
    frames.matched("flow-id 5,983041", &["v6"]);
    frames.matched("flow-id 0", &[]);
    frames.matched("ipversion 6", &["v6"]);
    frames.matched("proto udp ip4", &["plain", "lowdelay", "cs5+ce"]);
}

#[test]
fn fields_of_the_frame() {
    let mut other = udp();
    (other.src_mac, other.dst_mac) = ([2, 0, 0, 0, 0xff, 9], [2, 0x11, 0, 0, 0, 7]);
    let frames = Frames(vec![
        ("plain", udp().frame()),
        ("other", other.frame()),
        ("tagged", udp().vlan(5).frame()),
        ("stacked", udp6().service_vlan(100).vlan(5).frame()),
        ("arp", PacketBuilder::arp(A4, B4).frame()),
    ]);
    frames.matched("MAC any 02:00:00:00:00:01", &["plain", "tagged", "stacked", "arp"]);
    frames.matched("MAC 02:00:00:00:00:02 any", &["plain", "tagged", "stacked"]);
    frames.matched("MAC ff:ff:ff:ff:ff:ff 02:00:00:00:00:01", &["arp"]);
    frames.matched("MAC 02:11:00:00:00:00/16 any", &["other"]);
    frames.matched("MAC any 00:00:00:00:ff:00&00:00:00:00:ff:00", &["other"]);
    frames.matched("not MAC any 02:00:00:00:00:00/40", &["other"]);
    frames.matched("MAC any any", &["plain", "other", "tagged", "stacked", "arp"]);
    frames.matched("mac-type arp", &["arp"]);
    frames.matched("mac-type ip", &["plain", "other", "tagged"]);
    frames.matched("mac-type arp,0x86dd", &["stacked", "arp"]);
    frames.matched("vlan 0", &["plain", "other", "arp"]);
    frames.matched("vlan 5", &["tagged"]);
    frames.matched("vlan 6-4095", &["stacked"]);
    frames.matched("udp from any to any vlan 0-4095", &["plain", "other", "tagged", "stacked"]);
    frames.matched("ip from any to any layer2", &["plain", "other", "tagged", "stacked", "arp"]);
    frames.matched("ip from any to any", &["plain", "other", "tagged", "stacked"]);
}

#[test]
fn directions_and_interfaces() {
    let rule = |body: &str| {
        let mut bench = Bench::new(&script(&format!("add deny {body}")));
        let frame = udp().frame();
        PASSES.map(|pass| bench.frame(&frame, pass, None).fate == Fate::Deny)
    };
    // The four passes are: out through eth0, in through eth0, in through eth0 of a bridge, and out
    // over this bridge from eth0 to wlan1.
    for (body, matched) in [
        ("ip from any to any", [true, true, true, false]),
        ("out", [true, false, false, true]),
        ("in", [false, true, true, false]),
        ("not in", [true, false, false, true]),
        ("bridged", [false, false, true, false]),
        ("bridged out", [false, false, false, true]),
        ("recv eth0", [false, true, true, false]),
        ("out recv eth0", [false, false, false, true]),
        ("recv any", [false, true, true, false]),
        ("xmit wlan*", [false, false, false, true]),
        ("xmit eth0", [true, false, false, false]),
        ("out via eth?", [true, false, false, false]),
        ("via 10.0.0.254", [true, true, true, false]),
        ("out via 10.0.0.255", [false, false, false, true]),
        ("in via fd00::fe", [false, true, true, false]),
    ] {
        assert_eq!(rule(body), matched, "{body}");
    }
}

const A4: [u8; 4] = [10, 0, 0, 1];
const B4: [u8; 4] = [192, 0, 2, 7];
const A6: [u16; 8] = [0xfd00, 0, 0, 0, 0, 0, 0, 1];
const B6: [u16; 8] = [0xfd00, 0, 0, 0, 0, 0, 0, 2];
