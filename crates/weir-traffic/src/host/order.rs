//! The messages that the runner of a live scenario and the generator on a host exchange, as lines
//! of JSON.
//!
//! The generator reads an [`Order`], opens its sockets, writes an empty [`Ready`] and reads its
//! [`Start`]. At the end it writes a [`Report`].

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};
use weir_sim::measure::Distribution;

use crate::span::Point;

/// The traffic that the generator on one host sends and receives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Index of the host in the scenario.
    pub host: usize,
    /// The text of the scenario after the changes that the command line makes. It determines the
    /// times and sizes of the packets.
    pub scenario: String,
    /// The name of the scenario's file.
    pub file: String,
    /// The seed of the run.
    pub seed: u64,
    /// Time from the start to the end, ns.
    pub duration_ns: u64,
    /// Length of the warm-up, which is not measured, ns.
    pub warmup_ns: u64,
    /// Length of the interval that each point of a time series covers, ns.
    pub interval_ns: u64,
    /// Whether the sending thread may ask for real-time priority.
    pub realtime: bool,
    /// The ends of flows on this host.
    pub tasks: Vec<Task>,
}

/// One end of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Number of the flow in the scenario.
    pub flow: u32,
    /// Source address and port of the flow's packets.
    pub from: SocketAddrV4,
    /// Destination address and port of the flow's packets.
    pub to: SocketAddrV4,
    /// What this end does.
    pub role: Role,
}

/// Whether an end of a flow sends or receives, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends datagrams at the times that the scenario's source gives.
    Send {
        /// The TOS byte of the IP header: DSCP and ECN field.
        tos: u8,
        /// Whether the receiver sends each datagram back.
        echo: bool,
    },
    /// Receives datagrams.
    Receive {
        /// Whether to send each datagram back.
        echo: bool,
    },
    /// Sends over the kernel's TCP.
    Write(Transfer),
    /// Receives over the kernel's TCP.
    Read,
}

/// A transfer over the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Name of the congestion control in the kernel.
    pub congestion: String,
    /// Largest segment, in bytes of payload.
    pub segment: u32,
    /// Whether the connection negotiates ECN. All transfers that a host sends have the same value,
    /// because the kernel has one setting for each network namespace.
    pub ecn: bool,
    /// The second byte of the IP header. The kernel adds the ECN field.
    pub tos: u8,
    /// When the transfer begins, ns after the start of the run.
    pub start_ns: u64,
    /// When the transfer ends, ns after the start of the run.
    pub stop_ns: u64,
    /// The number of bytes to send. If absent, the transfer sends as much as possible until its
    /// end.
    pub bytes: Option<u64>,
}

/// Tells the runner that the generator's sockets are open.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {}

/// Tells the generator when to start.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The start of the run, ns on the monotonic clock.
    pub at_ns: u64,
}

/// The results of a generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// One report for each task, in the order of the tasks.
    pub ends: Vec<EndReport>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The results of one end of a flow. Unless stated otherwise, they cover the time from the end of
/// the warm-up to the end of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// The flow's number.
    pub flow: u32,
    /// Packets sent.
    pub sent: u64,
    /// Network-layer bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Network-layer bytes of the packets that arrived.
    pub received_bytes: u64,
    /// Payload bytes that arrived.
    pub goodput_bytes: u64,
    /// Packets sent or received before the end of the warm-up, without copies.
    pub early: u64,
    /// Packets received after the end of the run, without copies.
    pub late: u64,
    /// Copies of packets that had already arrived.
    pub duplicated: u64,
    /// Packets that arrived with congestion experienced.
    pub marked: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// One-way delays, ns; at the sending end of a ping, round-trip times.
    pub delay_ns: Distribution,
    /// Sum of the absolute differences between the delays of consecutive arrivals, ns.
    pub variation_ns: u64,
    /// Packets sent or received in each interval since the start.
    pub series: Vec<Point>,
}
