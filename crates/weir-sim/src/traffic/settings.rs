//! Words and tables that settings of traffic are made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{RateText, Time};

/// ECN field that packets are sent with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    None,
    /// ECT(0): congestion may be marked.
    Ect0,
    /// ECT(1): the packet asks for low latency (RFC 9331).
    Ect1,
}

impl From<Ecn> for weir_core::packet::Ecn {
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::None => Self::NotEct,
            Ecn::Ect0 => Self::Ect0,
            Ecn::Ect1 => Self::Ect1,
        }
    }
}

/// Distances of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// All the same.
    #[default]
    Constant,
    /// Exponentially distributed.
    Exponential,
}

/// Lengths of periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Periods {
    /// Exponentially distributed.
    #[default]
    Exponential,
    /// Pareto-distributed: with a shape below 2, many sources together are self-similar.
    Pareto,
    /// All the same.
    Constant,
}

/// A state of a Markov chain.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkovState {
    /// Network-layer bits a second in the mean; silent by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateText>,
    /// Mean time in the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Time>,
    /// With `hold`: weight of each state to come next; by default all others have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<f64>>,
    /// Instead of `hold` and `next`: how often a second it changes to each state. The entry of the state itself does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Vec<f64>>,
}

/// What a trace file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceFormat {
    /// Lines `time_s,bytes`: seconds from the start, network-layer bytes.
    Csv,
    /// A capture, pcap or pcapng.
    Pcap,
}

/// A speech codec. IP, UDP and RTP headers are 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// ITU-T G.711, 64 kbit/s: 160 bytes every 20 ms.
    #[default]
    G711,
    /// ITU-T G.722, 64 kbit/s: 160 bytes every 20 ms.
    G722,
    /// ITU-T G.726, 32 kbit/s: 80 bytes every 20 ms.
    G726,
    /// ITU-T G.729, 8 kbit/s: 20 bytes every 20 ms.
    G729,
    /// ITU-T G.723.1, 6.3 kbit/s: 24 bytes every 30 ms.
    G723,
}

impl Codec {
    /// Distance of packets, and payload bytes of one.
    pub fn frame(self) -> (Time, u32) {
        match self {
            Self::G711 | Self::G722 => (Time::millis(20), 160),
            Self::G726 => (Time::millis(20), 80),
            Self::G729 => (Time::millis(20), 20),
            Self::G723 => (Time::millis(30), 24),
        }
    }
}
