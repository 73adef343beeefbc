//! Names of protocols, services, DSCPs, EtherTypes and flags.

pub(crate) fn protocol(name: &str) -> Option<u8> {
    PROTOCOLS.iter().find(|(n, _)| *n == name).map(|&(_, number)| number)
}

/// The name of a protocol, or its number.
pub(crate) fn write_protocol(number: u8) -> String {
    PROTOCOLS
        .iter()
        .find(|(_, n)| *n == number)
        .map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

pub(crate) fn service(name: &str) -> Option<u16> {
    SERVICES.iter().find(|(n, _)| *n == name).map(|&(_, port)| port)
}

pub(crate) fn dscp(name: &str) -> Option<u8> {
    DSCPS.iter().find(|(n, _)| *n == name).map(|&(_, code)| code)
}

/// The name of a code point, or its number.
pub(crate) fn write_dscp(code: u8) -> String {
    DSCPS
        .iter()
        .find(|(_, c)| *c == code)
        .map_or_else(|| code.to_string(), |(name, _)| (*name).to_owned())
}

pub(crate) fn ether_type(name: &str) -> Option<u16> {
    ETHER_TYPES.iter().find(|(n, _)| *n == name).map(|&(_, number)| number)
}

/// Protocols. If a number has several names, the first one is printed.
pub(crate) const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("udp", 17),
    ("dccp", 33),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("carp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];
pub(crate) const SERVICES: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("ldap", 389),
    ("https", 443),
    ("submissions", 465),
    ("isakmp", 500),
    ("syslog", 514),
    ("printer", 515),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("rsync", 873),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("l2tp", 1701),
    ("radius", 1812),
    ("nfs", 2049),
    ("mysql", 3306),
    ("rdp", 3389),
    ("sip", 5060),
    ("postgresql", 5432),
    ("http-alt", 8080),
];
pub(crate) const DSCPS: &[(&str, u8)] = &[
    ("be", 0),
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];
const ETHER_TYPES: &[(&str, u16)] = &[
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("ip4", 0x0800),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("ip6", 0x86dd),
    ("mpls", 0x8847),
    ("pppoe-disc", 0x8863),
    ("pppoe-sess", 0x8864),
    ("lldp", 0x88cc),
];
/// TCP flags, from bit 0 up.
pub(crate) const TCP_FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];
/// Bits of the TOS byte, from bit 0 up. The two lowest bits are the ECN field today.
pub(crate) const TOS_FLAGS: [&str; 5] =
    ["congestion", "mincost", "reliability", "throughput", "lowdelay"];
/// Fragment flags, from bit 0 up.
pub(crate) const FRAGMENT_FLAGS: [&str; 4] = ["df", "mf", "rf", "offset"];
