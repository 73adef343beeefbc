//! A rule of the classifier, as checked text: what a packet must be, and what then becomes of it.
//!
//! This is the common form between the parser, the printer and the classifier. Everything in it is
//! valid by itself: numbers are in range and masks fit. Whether the pipe, table or rule that it
//! names exists is decided where all rules are known.

use std::sync::Arc;

use weir_core::units::Probability;

/// A name of a table, an interface or a state.
pub type Name = Arc<str>;

/// A rule. It matches when `probability` says so and every clause of `body` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// 1 to 65534; 0 until a number is given out.
    pub number: u16,
    /// Set, 0 to 31.
    pub set: u8,
    /// How often a packet that fits matches; `None` is always.
    pub probability: Option<Probability>,
    /// What becomes of a packet that matches.
    pub action: RuleAction,
    /// Tag that a matching packet gets.
    pub tag: Option<Target>,
    /// Tag that a matching packet loses.
    pub untag: Option<Target>,
    /// Matches are written to the log.
    pub log: bool,
    /// All clauses must hold.
    pub body: Vec<Clause>,
    /// Text after `//`.
    pub comment: Option<Arc<str>>,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// It passes; no further rule is looked at.
    Allow,
    /// It is dropped.
    Deny,
    /// It is counted; the next rule is looked at.
    Count,
    /// It goes through a pipe.
    Pipe(Target),
    /// It goes into a queue.
    Queue(Target),
    /// The search goes on at the first rule with this number or a larger one.
    SkipTo(Target),
    /// The same, and `return` comes back behind this rule.
    Call(Target),
    /// The search goes on behind the last `call`; without one, at the next rule.
    Return,
    /// Its DSCP is rewritten; the next rule is looked at.
    SetDscp(Target),
    /// The dynamic rules are looked at, of this name or the default one.
    CheckState(Option<Name>),
}

/// A number, or the value that the rule's table look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A number.
    Number(u16),
    /// The value of the last table look-up of the rule that matched. Without one the rule does not
    /// match.
    TableArg,
}

/// Terms of which one must hold: an or-block, or a single test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause(pub Vec<Term>);

/// A test or its negation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Holds when the test does not.
    pub not: bool,
    /// The test.
    pub test: Test,
}

/// A test on a packet. A packet that lacks what is tested (ports of a later fragment, TCP flags of
/// UDP) does not pass it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// IPv4 (`ip4`, `ipv4`, `ipversion 4`).
    Ip4,
    /// IPv6.
    Ip6,
    /// Transport protocol, behind any IPv6 extension headers.
    Protocol(u8),
    /// Source address in one of these.
    SrcAddress(Vec<Address>),
    /// Destination address in one of these.
    DstAddress(Vec<Address>),
    /// Source port in one of these spans.
    SrcPort(Vec<Span16>),
    /// Destination port in one of these spans.
    DstPort(Vec<Span16>),
    /// The packet is coming in.
    In,
    /// The packet is going out.
    Out,
    /// The interface it came in by, for a packet coming in; the one it goes out by, for one going
    /// out.
    Via(Interface),
    /// The interface it came in by.
    Recv(Interface),
    /// The interface it goes out by; fails for a packet coming in.
    Xmit(Interface),
    /// The packet is looked at as a frame, with its link-layer header. All of Weir's packets are.
    Layer2,
    /// The packet goes over a bridge.
    Bridged,
    /// MAC addresses: destination and source.
    Mac {
        /// Destination.
        dst: MacMatch,
        /// Source.
        src: MacMatch,
    },
    /// EtherType behind VLAN tags.
    MacType(Vec<Span16>),
    /// VLAN identifier of the outermost tag; 0 is an untagged frame.
    Vlan(Vec<Span16>),
    /// Total length of the IP packet in bytes.
    IpLength(Vec<Span16>),
    /// IPv4 identification.
    IpId(Vec<Span16>),
    /// TTL or hop limit.
    IpTtl(Vec<Span16>),
    /// The IPv4 TOS byte: bits that must be set, and bits that must not.
    IpTos {
        /// Bits that must be 1.
        set: u8,
        /// Bits that must be 0.
        clear: u8,
    },
    /// The three precedence bits.
    IpPrecedence(u8),
    /// DSCP: bit n allows code point n.
    Dscp(u64),
    /// A fragment: any (`frag`), or with these bits of the fragment field.
    Fragment(FragmentMatch),
    /// IPv4 options that must be and must not be there, by [`IP_OPTIONS`]'s bits.
    IpOptions {
        /// Options that must be there.
        set: u8,
        /// Options that must not.
        clear: u8,
    },
    /// ICMP types: bit n allows type n, 0 to 63.
    IcmpTypes(u64),
    /// ICMPv6 types: bit n of word n/64 allows type n.
    Icmp6Types([u64; 4]),
    /// IPv6 extension headers that must be there, by [`EXT6_HEADERS`]'s bits; any of them.
    Ext6Header(u8),
    /// IPv6 flow label in this list.
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
    /// TCP acknowledgement number.
    TcpAck(u32),
    /// TCP sequence number.
    TcpSeq(u32),
    /// TCP window field.
    TcpWindow(Vec<Span16>),
    /// TCP maximum segment size option.
    TcpMss(Vec<Span16>),
    /// TCP options, by [`TCP_OPTIONS`]'s bits.
    TcpOptions {
        /// Options that must be there.
        set: u8,
        /// Options that must not.
        clear: u8,
    },
    /// TCP payload bytes.
    TcpDataLength(Vec<Span16>),
    /// Carries one of these tags; with no span, any of the tags (`tagged tablearg` is not
    /// accepted).
    Tagged(Vec<Span16>),
    /// A field looked up in a table.
    Lookup {
        /// The field.
        field: LookupField,
        /// The table.
        table: TableMatch,
    },
    /// The packet's flow looked up in a table of type `flow`.
    Flow(TableMatch),
    /// Dynamic rules are looked at; when nothing is found and the rule matches, one is made for the
    /// packet's flow, both directions.
    KeepState(Option<Name>),
    /// The same, but only for so many flows at once with these fields in common: a flow too many is
    /// denied.
    Limit {
        /// Fields in common.
        mask: LimitMask,
        /// Most flows, or the table's value.
        most: Target,
        /// Name of the states.
        name: Option<Name>,
    },
    /// A dynamic rule is made, but none is looked at.
    RecordState(Option<Name>),
}

/// An address or a set of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Any.
    Any,
    /// An address of the machine that the rules stand for.
    Me,
    /// An IPv6 address of it.
    Me6,
    /// IPv4 addresses whose bits under the mask are these; the mask need not be a prefix.
    V4 {
        /// The bits, already under the mask.
        address: u32,
        /// The mask.
        mask: u32,
    },
    /// IPv6 addresses.
    V6 {
        /// The bits, already under the mask.
        address: u128,
        /// The mask.
        mask: u128,
    },
    /// IPv4 addresses `base + n` for the bits n that are set: `10.1.2.0/24{1,3-5}`.
    Set {
        /// The first address.
        base: u32,
        /// Bit n allows `base + n`.
        members: [u64; 4],
    },
    /// An address found in a table.
    Table(TableMatch),
}

/// A table, and the value that an entry must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableMatch {
    /// Its name; a numbered table has the number's digits.
    pub table: Name,
    /// The value that is wanted; `None` takes any.
    pub value: Option<u32>,
}

/// A field that `lookup` takes to a table.
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

/// Numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span16 {
    /// First.
    pub first: u16,
    /// Last; not below first.
    pub last: u16,
}

impl Span16 {
    /// Whether `number` is inside.
    #[inline]
    pub fn contains(self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// Which interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Any (`any`); fails where there is none.
    Any,
    /// By name; `*` and `?` are wildcards.
    Name(Name),
    /// That has this IPv4 address.
    V4(u32),
    /// That has this IPv6 address.
    V6(u128),
    /// Found by name in a table of type `iface`.
    Table(TableMatch),
}

/// A MAC address under a mask, both in the low 48 bits; the default is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacMatch {
    /// The bits, already under the mask.
    pub address: u64,
    /// The mask.
    pub mask: u64,
}

/// Which fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentMatch {
    /// Fragments but the first: what `frag` has always meant.
    Later,
    /// By flags: bit 0 `df`, 1 `mf`, 2 `rf`, 3 `offset`.
    Flags {
        /// Flags that must be set.
        set: u8,
        /// Flags that must not.
        clear: u8,
    },
}

/// The fields that flows under one `limit` have in common.
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
/// The number of the rule that is always there.
pub const DEFAULT_RULE: u16 = 65_535;
/// Sets of rules.
pub const SETS: u8 = 32;
/// The set that `flush` leaves alone.
pub const KEPT_SET: u8 = 31;
