//! Rules of nftables as the kernel knows them: lists of expressions.
//!
//! An expression loads a part of the packet into register 1, compares the register, or acts on the
//! packet. Each method of [`Rule`] appends the expressions for one phrase of nft's language.

use std::net::{IpAddr, Ipv6Addr};

use super::message::Attributes;

/// A rule: conditions, then an action.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule(pub(super) Attributes);

impl Rule {
    /// `iifname "NAME"`.
    pub(crate) fn arrives_on(self, interface: &str) -> Self {
        self.meta(META_IIFNAME).compare(EQUAL, &padded(interface))
    }

    /// `oifname "NAME"`.
    pub(crate) fn leaves_by(self, interface: &str) -> Self {
        self.meta(META_OIFNAME).compare(EQUAL, &padded(interface))
    }

    /// `oifname != "NAME"`.
    pub(crate) fn leaves_not_by(self, interface: &str) -> Self {
        self.meta(META_OIFNAME).compare(NOT_EQUAL, &padded(interface))
    }

    /// `meta protocol NUMBER`, an EtherType.
    pub(crate) fn ether_type(self, number: u16) -> Self {
        self.meta(META_PROTOCOL).compare(EQUAL, &number.to_be_bytes())
    }

    /// `meta l4proto NUMBER`.
    pub(crate) fn transport(self, number: u8) -> Self {
        self.meta(META_L4PROTO).compare(EQUAL, &[number])
    }

    /// `ip saddr ADDRESS` or `ip6 saddr ADDRESS`.
    pub(crate) fn source(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.family(address).network(12, 4).compare(EQUAL, &v4.octets()),
            IpAddr::V6(v6) => self.family(address).network(8, 16).compare(EQUAL, &v6.octets()),
        }
    }

    /// `ip daddr ADDRESS` or `ip6 daddr ADDRESS`.
    pub(crate) fn destination(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.family(address).network(16, 4).compare(EQUAL, &v4.octets()),
            IpAddr::V6(v6) => self.family(address).network(24, 16).compare(EQUAL, &v6.octets()),
        }
    }

    /// `ip6 saddr fe80::/10`.
    pub(crate) fn link_local_source(self) -> Self {
        let [prefix, mask] = ["fe80::", "ffc0::"]
            .map(|address| address.parse::<Ipv6Addr>().map(|a| a.octets()).unwrap_or_default());
        self.family(Ipv6Addr::UNSPECIFIED.into()).network(8, 16).mask(&mask).compare(EQUAL, &prefix)
    }

    /// `tcp flags & (syn|ack) == syn`.
    pub(crate) fn opens_connection(self) -> Self {
        self.transport(TCP).load(TRANSPORT_HEADER, 13, 1).mask(&[SYN | ACK]).compare(EQUAL, &[SYN])
    }

    /// `ip6 saddr set SOURCE ip6 daddr set DESTINATION`.
    pub(crate) fn set_addresses(self, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        self.value(REGISTER_1, &source.octets())
            .store_network(8, 16)
            .value(REGISTER_1, &destination.octets())
            .store_network(24, 16)
    }

    /// `drop`.
    pub(crate) fn drop(self) -> Self {
        self.expression("immediate", |data| {
            data.number(IMMEDIATE_REGISTER, REGISTER_VERDICT).nest(IMMEDIATE_DATA, |data| {
                data.nest(DATA_VERDICT, |verdict| {
                    verdict.number(VERDICT_CODE, DROP);
                });
            });
        })
    }

    /// `masquerade`.
    pub(crate) fn masquerade(self) -> Self {
        self.expression("masq", |_| ())
    }

    /// `dnat to ADDRESS` or `dnat to ADDRESS:PORT`.
    pub(crate) fn redirect_to(self, address: IpAddr, port: Option<u16>) -> Self {
        let (family, rule) = match address {
            IpAddr::V4(address) => (IPV4, self.value(REGISTER_1, &address.octets())),
            IpAddr::V6(address) => (IPV6, self.value(REGISTER_1, &address.octets())),
        };
        let rule = match port {
            Some(port) => rule.value(REGISTER_2, &port.to_be_bytes()),
            None => rule,
        };
        rule.expression("nat", |data| {
            data.number(NAT_TYPE, NAT_DESTINATION)
                .number(NAT_FAMILY, family.into())
                .number(NAT_ADDRESS, REGISTER_1);
            if port.is_some() {
                data.number(NAT_PORT, REGISTER_2);
            }
        })
    }

    /// `reject with tcp reset`.
    pub(crate) fn reset(self) -> Self {
        self.expression("reject", |data| {
            data.number(REJECT_TYPE, REJECT_TCP_RESET);
        })
    }

    /// `meta nfproto ipv4` or `ipv6`. The offset of an address depends on the family, so a rule in
    /// a table of both families checks the family first.
    fn family(self, of: IpAddr) -> Self {
        let family = if of.is_ipv4() { IPV4 } else { IPV6 };
        self.meta(META_NFPROTO).compare(EQUAL, &[family])
    }

    fn meta(self, key: u32) -> Self {
        self.expression("meta", |data| {
            data.number(META_REGISTER, REGISTER_1).number(META_KEY, key);
        })
    }

    fn network(self, offset: u32, length: u32) -> Self {
        self.load(NETWORK_HEADER, offset, length)
    }

    fn load(self, header: u32, offset: u32, length: u32) -> Self {
        self.expression("payload", |data| {
            data.number(PAYLOAD_REGISTER, REGISTER_1)
                .number(PAYLOAD_HEADER, header)
                .number(PAYLOAD_OFFSET, offset)
                .number(PAYLOAD_LENGTH, length);
        })
    }

    /// Writes the register to an address in the IPv6 header, and corrects the checksums of the
    /// transport layer.
    fn store_network(self, offset: u32, length: u32) -> Self {
        self.expression("payload", |data| {
            data.number(PAYLOAD_SOURCE_REGISTER, REGISTER_1)
                .number(PAYLOAD_HEADER, NETWORK_HEADER)
                .number(PAYLOAD_OFFSET, offset)
                .number(PAYLOAD_LENGTH, length)
                .number(PAYLOAD_CHECKSUM_TYPE, NO_CHECKSUM)
                .number(PAYLOAD_CHECKSUM_OFFSET, 0)
                .number(PAYLOAD_CHECKSUM_FLAGS, IN_PSEUDO_HEADER);
        })
    }

    fn mask(self, mask: &[u8]) -> Self {
        self.expression("bitwise", |data| {
            data.number(BITWISE_SOURCE, REGISTER_1)
                .number(BITWISE_REGISTER, REGISTER_1)
                .number(BITWISE_LENGTH, mask.len() as u32);
            nest_value(data, BITWISE_MASK, mask);
            nest_value(data, BITWISE_XOR, &vec![0; mask.len()]);
        })
    }

    fn compare(self, operator: u32, value: &[u8]) -> Self {
        self.expression("cmp", |data| {
            data.number(COMPARE_REGISTER, REGISTER_1).number(COMPARE_OPERATOR, operator);
            nest_value(data, COMPARE_VALUE, value);
        })
    }

    fn value(self, register: u32, value: &[u8]) -> Self {
        self.expression("immediate", |data| {
            data.number(IMMEDIATE_REGISTER, register);
            nest_value(data, IMMEDIATE_DATA, value);
        })
    }

    fn expression(mut self, name: &str, fill: impl FnOnce(&mut Attributes)) -> Self {
        self.0.nest(LIST_ELEMENT, |element| {
            element.text(EXPRESSION_NAME, name).nest(EXPRESSION_DATA, fill);
        });
        self
    }
}

fn nest_value(list: &mut Attributes, kind: u16, value: &[u8]) {
    list.nest(kind, |data| {
        data.bytes(DATA_VALUE, value);
    });
}

/// An interface's name as the kernel compares it.
fn padded(name: &str) -> [u8; IFNAMSIZ] {
    let mut bytes = [0; IFNAMSIZ];
    // The kernel has no interface with a longer name.
    bytes.iter_mut().zip(name.bytes().take(IFNAMSIZ - 1)).for_each(|(to, from)| *to = from);
    bytes
}

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

// The families (`NFPROTO_*`) within a table for both families.
const IPV4: u8 = 2;
const IPV6: u8 = 10;

// Numbers of `linux/netfilter/nf_tables.h`, by expression.
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const REGISTER_VERDICT: u32 = 0;
const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;
const META_REGISTER: u16 = 1;
const META_KEY: u16 = 2;
const META_PROTOCOL: u32 = 1;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const COMPARE_REGISTER: u16 = 1;
const COMPARE_OPERATOR: u16 = 2;
const COMPARE_VALUE: u16 = 3;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const PAYLOAD_REGISTER: u16 = 1;
const PAYLOAD_HEADER: u16 = 2;
const PAYLOAD_OFFSET: u16 = 3;
const PAYLOAD_LENGTH: u16 = 4;
const PAYLOAD_SOURCE_REGISTER: u16 = 5;
const PAYLOAD_CHECKSUM_TYPE: u16 = 6;
const PAYLOAD_CHECKSUM_OFFSET: u16 = 7;
const PAYLOAD_CHECKSUM_FLAGS: u16 = 8;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const NO_CHECKSUM: u32 = 0;
const IN_PSEUDO_HEADER: u32 = 1;
const BITWISE_SOURCE: u16 = 1;
const BITWISE_REGISTER: u16 = 2;
const BITWISE_LENGTH: u16 = 3;
const BITWISE_MASK: u16 = 4;
const BITWISE_XOR: u16 = 5;
const IMMEDIATE_REGISTER: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
const NAT_TYPE: u16 = 1;
const NAT_FAMILY: u16 = 2;
const NAT_ADDRESS: u16 = 3;
const NAT_PORT: u16 = 5;
const NAT_DESTINATION: u32 = 1;
const REJECT_TYPE: u16 = 1;
const REJECT_TCP_RESET: u32 = 1;
/// `NF_DROP`.
const DROP: u32 = 0;
/// The size of an interface's name with its final zero byte.
const IFNAMSIZ: usize = 16;
