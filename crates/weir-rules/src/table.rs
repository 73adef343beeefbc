//! Tables: rules look up addresses, interfaces, numbers and flows in them.

use std::collections::BTreeMap;

use crate::rule::Name;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The type of the table's keys.
    pub kind: TableKind,
    /// Whether the table refuses changes.
    pub locked: bool,
    /// The maximum number of entries; `None` if only memory limits it.
    pub limit: Option<u32>,
    /// The entries. An entry without a value has the value 0.
    pub entries: BTreeMap<TableKey, u32>,
}

/// The type of a table's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Prefixes. A look-up finds the longest prefix that contains an address.
    #[default]
    Address,
    /// Names of interfaces.
    Interface,
    /// Numbers.
    Number,
    /// Flows, distinguished by these fields.
    Flow(FlowFields),
}

/// The fields that distinguish the flows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowFields {
    /// Source address.
    pub src_ip: bool,
    /// Protocol.
    pub proto: bool,
    /// Source port.
    pub src_port: bool,
    /// Destination address.
    pub dst_ip: bool,
    /// Destination port.
    pub dst_port: bool,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableKey {
    /// An IPv4 prefix. The bits after the first `len` are 0.
    V4 {
        /// Address.
        address: u32,
        /// Prefix length, 0 to 32.
        len: u8,
    },
    /// An IPv6 prefix.
    V6 {
        /// Address.
        address: u128,
        /// Prefix length, 0 to 128.
        len: u8,
    },
    /// An interface.
    Interface(Name),
    /// A number.
    Number(u32),
    /// A flow; fields that the table does not use are 0. IPv4 addresses are in the low 32 bits.
    Flow {
        /// Whether the addresses are IPv6.
        ipv6: bool,
        /// Source address.
        src: u128,
        /// Destination address.
        dst: u128,
        /// Protocol.
        proto: u8,
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
    },
}
