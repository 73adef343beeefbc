//! A rule of the classifier, as checked text: what a packet must be, and the action for it.
//!
//! This is the common form between the parser, the printer and the classifier. Everything in it is
//! valid on its own: numbers are in range and masks fit. Whether the pipe, table or rule that it
//! names exists is checked where all rules are known.

use std::sync::Arc;

use weir_core::units::Probability;

/// A name of a table, an interface or a state.
pub type Name = Arc<str>;

/// A rule. It matches with its `probability`, and only if every clause of `body` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// 1 to 65534; 0 until a number is assigned.
    pub number: u16,
    /// Set, 0 to 31.
    pub set: u8,
    /// Probability with which a fitting packet matches; `None` for always.
    pub probability: Option<Probability>,
    /// Action for a packet that matches.
    pub action: RuleAction,
    /// Tag that is added to a matching packet.
    pub tag: Option<Target>,
    /// Tag that is removed from a matching packet.
    pub untag: Option<Target>,
    /// Matches are written to the log.
    pub log: bool,
    /// All clauses must hold.
    pub body: Vec<Clause>,
    /// Text after `//`.
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
    /// The search continues at the first rule with this number or a larger one.
    SkipTo(Target),
    /// The same, and `return` comes back behind this rule.
    Call(Target),
    /// The search continues behind the last `call`; without one, at the next rule.
    Return,
    /// The packet's DSCP is rewritten; the search continues.
    SetDscp(Target),
    /// The dynamic rules with this name, or the default one, are checked.
    CheckState(Option<Name>),
}

/// A number, or the result of the rule's table look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A number.
    Number(u16),
    /// The result of the last table look-up of the rule that matched. Without one the rule does not
    /// match.
    TableArg,
}

/// Terms of which one must hold: an or-block, or a single test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause(pub Vec<Term>);

/// A test or its negation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Whether the test must fail.
    pub not: bool,
    /// The test.
    pub test: Test,
}

/// A test on a packet. A packet without the tested field (ports of a later fragment, TCP flags of
/// UDP) fails it.
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
    /// The packet comes in.
    In,
    /// The packet goes out.
    Out,
    /// The interface through which it came in, for a packet that comes in; the one through which it
    /// goes out, for a packet that goes out.
    Via(Interface),
    /// The interface through which it came in.
    Recv(Interface),
    /// The interface through which it goes out; fails for a packet that comes in.
    Xmit(Interface),
    /// Rules see the packet as a frame with its link-layer header. All of Weir's packets are
    /// frames.
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
    /// The IPv4 TOS byte: bits that must be set, and bits that must be clear.
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
    /// IPv4 options that must be present and absent, by the bits of [`IP_OPTIONS`].
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
    /// IPv6 extension headers, by the bits of [`EXT6_HEADERS`]; one of them must be present.
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
    /// TCP options, by the bits of [`TCP_OPTIONS`].
    TcpOptions {
        /// Options that must be present.
        set: u8,
        /// Options that must be absent.
        clear: u8,
    },
    /// TCP payload bytes.
    TcpDataLength(Vec<Span16>),
    /// The packet carries one of these tags; without spans, any tag. `tagged tablearg` is not
    /// accepted.
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
    /// Dynamic rules are checked; if none is found and the rule matches, one is created for the
    /// packet's flow, in both directions.
    KeepState(Option<Name>),
    /// The same, but only for a limited number of flows that share these fields; further flows are
    /// denied.
    Limit {
        /// Shared fields.
        mask: LimitMask,
        /// Most flows, or the table's value.
        most: Target,
        /// Name of the states.
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
    /// An IPv6 address of it.
    Me6,
    /// IPv4 addresses with these bits under the mask; the mask need not be a prefix.
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
    /// Its name; the name of a numbered table is the number.
    pub table: Name,
    /// The wanted value; `None` accepts any.
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

/// A set of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Any interface (`any`); fails without one.
    Any,
    /// By name, with the wildcards `*` and `?`.
    Name(Name),
    /// The interface with this IPv4 address.
    V4(u32),
    /// The interface with this IPv6 address.
    V6(u128),
    /// Found by name in a table of type `iface`.
    Table(TableMatch),
}

/// A MAC address under a mask, both in the low 48 bits; the default matches any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacMatch {
    /// The bits, already under the mask.
    pub address: u64,
    /// The mask.
    pub mask: u64,
}

/// A set of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentMatch {
    /// All fragments except the first: the traditional meaning of `frag`.
    Later,
    /// By flags: bit 0 `df`, 1 `mf`, 2 `rf`, 3 `offset`.
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
pub const KEPT_SET: u8 = 31;
