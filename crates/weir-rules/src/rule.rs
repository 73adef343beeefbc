//! A rule of the classifier in checked form: its tests on a packet, and its action.
//!
//! The parser, the printer and the classifier share this form. Each value in it is valid on its
//! own: numbers are in range and masks fit. The ruleset, which contains all rules, warns if a pipe,
//! queue or table to which a rule refers does not exist.

use std::sync::Arc;

use weir_core::units::Probability;

/// The name of a table, an interface or a state.
pub type Name = Arc<str>;

/// A rule. It matches with its `probability`, and only if every clause of `body` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The number, 1 to 65534; 0 until one is assigned.
    pub number: u16,
    /// The set, 0 to 31.
    pub set: u8,
    /// The probability that the rule matches a packet that passes all tests; `None` means always.
    pub probability: Option<Probability>,
    /// The action for a packet that matches.
    pub action: RuleAction,
    /// The tag that is added to a matching packet.
    pub tag: Option<Target>,
    /// The tag that is removed from a matching packet.
    pub untag: Option<Target>,
    /// Whether the rule has the word `log`, which is kept and has no effect.
    pub log: bool,
    /// The clauses, all of which must hold.
    pub body: Vec<Clause>,
    /// The text after `//`.
    pub comment: Option<Arc<str>>,
}

/// The action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// The packet passes; the search ends.
    Allow,
    /// The packet is dropped.
    Deny,
    /// The packet is counted; the search continues.
    Count,
    /// The packet goes through a pipe.
    Pipe(Target),
    /// The packet goes into a queue.
    Queue(Target),
    /// The search continues at the first later rule with this number or a larger one.
    SkipTo(Target),
    /// The search continues at the first rule with this number or a larger one, which may be before
    /// this rule; a `return` continues after this rule.
    Call(Target),
    /// The search continues after the last `call` or, without one, at the next rule.
    Return,
    /// The packet's DSCP is rewritten; the search continues.
    SetDscp(Target),
    /// The dynamic rules with this name are checked, or all of them for the name `any`; `None` is
    /// the default name.
    CheckState(Option<Name>),
}

/// A number, or the value that the rule's table look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A number.
    Number(u16),
    /// The value that the rule's last table look-up found. If there is none, the rule does not
    /// match.
    TableArg,
}

/// An or-block or a single test: terms, at least one of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause(pub Vec<Term>);

/// A test or its negation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Whether the term is negated, so that the test must fail.
    pub not: bool,
    /// The test.
    pub test: Test,
}

/// A test on a packet. The test fails if the packet does not have the tested field, such as the
/// ports of a later fragment or the TCP flags of a UDP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// IPv4 (`ip4`, `ipv4`, `ipversion 4`).
    Ip4,
    /// IPv6.
    Ip6,
    /// The transport protocol, after any IPv6 extension headers.
    Protocol(u8),
    /// The source address is in this list.
    SrcAddress(Vec<Address>),
    /// The destination address is in this list.
    DstAddress(Vec<Address>),
    /// The source port is in one of these ranges.
    SrcPort(Vec<Span16>),
    /// The destination port is in one of these ranges.
    DstPort(Vec<Span16>),
    /// The packet comes in.
    In,
    /// The packet goes out.
    Out,
    /// The interface through which an arriving packet came in or a departing packet goes out.
    Via(Interface),
    /// The interface through which the packet came in.
    Recv(Interface),
    /// The interface through which the packet goes out; fails for a packet that comes in.
    Xmit(Interface),
    /// The packet has a link-layer header. In Weir this test always holds.
    Layer2,
    /// The packet goes over a bridge.
    Bridged,
    /// The MAC addresses.
    Mac {
        /// The destination address.
        dst: MacMatch,
        /// The source address.
        src: MacMatch,
    },
    /// The EtherType after VLAN tags.
    MacType(Vec<Span16>),
    /// The VLAN identifier of the outermost tag; 0 for an untagged frame.
    Vlan(Vec<Span16>),
    /// The total length of the IP packet in bytes.
    IpLength(Vec<Span16>),
    /// The IPv4 identification.
    IpId(Vec<Span16>),
    /// The TTL or hop limit.
    IpTtl(Vec<Span16>),
    /// The IPv4 TOS byte.
    IpTos {
        /// Bits that must be 1.
        set: u8,
        /// Bits that must be 0.
        clear: u8,
    },
    /// The three precedence bits.
    IpPrecedence(u8),
    /// The DSCP: bit n allows code point n.
    Dscp(u64),
    /// A later fragment (`frag`), or an IPv4 packet, fragmented or not, with these flags in the
    /// fragment field.
    Fragment(FragmentMatch),
    /// IPv4 options, by the bits of [`IP_OPTIONS`].
    IpOptions {
        /// Options that must be present.
        set: u8,
        /// Options that must be absent.
        clear: u8,
    },
    /// ICMP types: bit n allows type n, 0 to 63.
    IcmpTypes(u64),
    /// ICMPv6 types: bit n of word n/64 allows type n.
    Icmp6Types([u64; 4]),
    /// IPv6 extension headers, by the bits of [`EXT6_HEADERS`]; at least one must be present.
    Ext6Header(u8),
    /// The IPv6 flow label is in this list.
    FlowId(Vec<u32>),
    /// TCP flags, by the header's bits (fin 1, syn 2, rst 4, psh 8, ack 16, urg 32).
    TcpFlags {
        /// Flags that must be 1.
        set: u8,
        /// Flags that must be 0.
        clear: u8,
    },
    /// TCP with ACK or RST.
    Established,
    /// The TCP acknowledgement number.
    TcpAck(u32),
    /// The TCP sequence number.
    TcpSeq(u32),
    /// The TCP window field.
    TcpWindow(Vec<Span16>),
    /// The TCP maximum segment size option.
    TcpMss(Vec<Span16>),
    /// TCP options, by the bits of [`TCP_OPTIONS`].
    TcpOptions {
        /// Options that must be present.
        set: u8,
        /// Options that must be absent.
        clear: u8,
    },
    /// The number of TCP payload bytes.
    TcpDataLength(Vec<Span16>),
    /// The packet carries a tag in these ranges; without ranges, any tag. `tagged tablearg` is not
    /// accepted.
    Tagged(Vec<Span16>),
    /// A field is found in a table.
    Lookup {
        /// The field.
        field: LookupField,
        /// The table.
        table: TableMatch,
    },
    /// The packet's flow is found in a table of type `flow`.
    Flow(TableMatch),
    /// Dynamic rules are checked. If none of them matches and this rule does, a dynamic rule is
    /// created for the packet's flow, in both directions.
    KeepState(Option<Name>),
    /// Like `KeepState`, but only for a limited number of flows that share these fields; further
    /// flows are denied.
    Limit {
        /// The shared fields.
        mask: LimitMask,
        /// The maximum number of flows, or the table's value.
        most: Target,
        /// The state name.
        name: Option<Name>,
    },
    /// A dynamic rule is created, but none is checked.
    RecordState(Option<Name>),
}

/// An address or a set of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Any address.
    Any,
    /// An address of the machine on which the rules apply.
    Me,
    /// An IPv6 address of the machine on which the rules apply.
    Me6,
    /// IPv4 addresses that equal `address` under the mask. The mask need not be a prefix.
    V4 {
        /// The address, with 0 in the bits outside the mask.
        address: u32,
        /// The mask.
        mask: u32,
    },
    /// IPv6 addresses that equal `address` under the mask.
    V6 {
        /// The address, with 0 in the bits outside the mask.
        address: u128,
        /// The mask.
        mask: u128,
    },
    /// The IPv4 addresses `base + n` for each bit n that is set: `10.1.2.0/24{1,3-5}`.
    Set {
        /// The first address.
        base: u32,
        /// Bit n allows `base + n`.
        members: [u64; 4],
    },
    /// An address that is found in a table.
    Table(TableMatch),
}

/// A table, and the value that the found entry must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableMatch {
    /// The name of the table; for a numbered table, the number as text.
    pub table: Name,
    /// The required value; `None` accepts any.
    pub value: Option<u32>,
}

/// A field that `lookup` looks up in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupField {
    /// Source address.
    SrcIp,
    /// Destination address.
    DstIp,
    /// Source port.
    SrcPort,
    /// Destination port.
    DstPort,
    /// DSCP.
    Dscp,
}

/// The numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span16 {
    /// The first number.
    pub first: u16,
    /// The last number, at least `first`.
    pub last: u16,
}

impl Span16 {
    /// Whether `number` is in the range.
    #[inline]
    pub fn contains(self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// A set of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Any interface (`any`); fails if the packet has none.
    Any,
    /// Interfaces by name, with the wildcards `*` and `?`.
    Name(Name),
    /// The interface with this IPv4 address.
    V4(u32),
    /// The interface with this IPv6 address.
    V6(u128),
    /// Interfaces by name, in a table of type `iface`.
    Table(TableMatch),
}

/// A MAC address under a mask, both in the low 48 bits; the default matches any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacMatch {
    /// The address, with 0 in the bits outside the mask.
    pub address: u64,
    /// The mask.
    pub mask: u64,
}

/// A test of the fragment field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentMatch {
    /// All fragments except the first, which is the traditional meaning of `frag`.
    Later,
    /// IPv4 packets by flags: bit 0 is `df`, 1 `mf`, 2 `rf`, 3 `offset` (not 0).
    Flags {
        /// Flags that must be set.
        set: u8,
        /// Flags that must be clear.
        clear: u8,
    },
}

/// The fields that flows under one `limit` share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitMask {
    /// Source address.
    pub src_addr: bool,
    /// Source port.
    pub src_port: bool,
    /// Destination address.
    pub dst_addr: bool,
    /// Destination port.
    pub dst_port: bool,
}

/// Names of the IPv4 options that rules can test, from bit 0 up.
pub const IP_OPTIONS: [&str; 4] = ["ssrr", "lsrr", "rr", "ts"];
/// Names of the IPv6 extension headers, from bit 0 up.
pub const EXT6_HEADERS: [&str; 7] = ["frag", "hopopt", "route", "dstopt", "ah", "esp", "rthdr0"];
/// Names of the TCP options, from bit 0 up.
pub const TCP_OPTIONS: [&str; 5] = ["mss", "window", "sack", "ts", "cc"];
/// The number of the default rule, which always exists.
pub const DEFAULT_RULE: u16 = 65_535;
/// Number of sets of rules.
pub const SETS: u8 = 32;
/// The set that `flush` does not delete.
pub const RESERVED_SET: u8 = 31;
