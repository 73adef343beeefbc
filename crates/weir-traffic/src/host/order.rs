//! The messages between a live scenario and the generator on a host, as lines of JSON.
//!
//! The generator reads an [`Order`], makes its sockets, writes an empty [`Ready`], reads its
//! [`Start`], and at the end writes a [`Report`].

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};
use weir_sim::measure::Distribution;

use crate::span::Point;

/// All traffic of one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The host's number in the scenario.
    pub host: usize,
    /// The text of the scenario, with the changes of the command line. The times and sizes of
    /// packets follow from it.
    pub scenario: String,
    /// The file's name.
    pub file: String,
    /// Seed of the run.
    pub seed: u64,
    /// From the start to the end, ns.
    pub duration_ns: u64,
    /// Time at the start that is not measured, ns.
    pub warmup_ns: u64,
    /// Distance of the points of time series, ns.
    pub interval_ns: u64,
    /// Whether the sending thread may ask for real-time priority.
    pub realtime: bool,
    /// What it sends and receives.
    pub tasks: Vec<Task>,
}

/// One end of a flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The flow's number in the scenario.
    pub flow: u32,
    /// Address and port that its packets come from.
    pub from: SocketAddrV4,
    /// Address and port that they go to.
    pub to: SocketAddrV4,
    /// Which end, and of what.
    pub role: Role,
}

/// Which end of a flow, and of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends datagrams when the scenario's source does, with this ECN field and DSCP.
    Send {
        /// The second byte of the IP header.
        tos: u8,
        /// Whether the receiver sends each back.
        echo: bool,
    },
    /// Receives datagrams.
    Receive {
        /// Whether to send each back.
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
    /// Congestion control, as the kernel calls it.
    pub congestion: String,
    /// Largest segment, bytes of payload.
    pub segment: u32,
    /// When it begins, ns after the start.
    pub start_ns: u64,
    /// When it ends, ns after the start.
    pub stop_ns: u64,
    /// How many bytes are sent; without it, as many as possible until the end.
    pub bytes: Option<u64>,
}

/// The generator's sockets exist.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {}

/// When to start.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Start {
    /// On the monotonic clock, ns.
    pub at_ns: u64,
}

/// The results of a generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// One for each task, in their order.
    pub ends: Vec<EndReport>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The results at one end of a flow, between the warm-up and the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// The flow's number.
    pub flow: u32,
    /// Packets sent.
    pub sent: u64,
    /// Their network-layer bytes.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Their network-layer bytes.
    pub received_bytes: u64,
    /// Payload bytes that arrived.
    pub goodput_bytes: u64,
    /// Those of them that were sent before the warm-up was over.
    pub carried: u64,
    /// Packets sent after the warm-up that arrived, also after the end; copies do not count.
    pub came: u64,
    /// Copies of packets that had arrived before.
    pub duplicated: u64,
    /// Packets that arrived with congestion experienced.
    pub marked: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// One-way delays, or round-trip times at the sending end of a ping, ns.
    pub delay_ns: Distribution,
    /// Sum of the differences between the delays of successive arrivals, ns.
    pub variation_ns: u64,
    /// What was sent or arrived in each interval since the start.
    pub series: Vec<Point>,
}
