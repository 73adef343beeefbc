//! The configuration of a TCP connection.

use weir_core::Nanos;

use super::cc::{Choice, Kind};
use crate::endpoint::EndpointId;

/// The parameters of a connection: one sender and one receiver.
///
/// Defaults are those of Linux unless stated otherwise; a table in `docs/tcp.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Congestion control.
    pub control: Choice,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Bytes of the headers of a segment: IP, TCP and its timestamps. Also the length of an
    /// acknowledgement without ranges.
    pub header: u8,
    /// Initial window in segments.
    pub initial_window: u32,
    /// The data to send.
    pub data: Data,
    /// When the connection begins; at once if this time has passed.
    pub start: Nanos,
    /// When the sender stops sending new data. It still repairs losses of earlier data.
    pub stop: Nanos,
    /// Whether SYN and SYN-ACK precede the data, which costs a round trip.
    pub handshake: bool,
    /// Smallest retransmission timeout.
    pub min_rto: Nanos,
    /// Largest retransmission timeout.
    pub max_rto: Nanos,
    /// Whether packets are ECN-capable; `None` for the default of the congestion control.
    pub ecn: Option<bool>,
    /// Whether packets are paced; `None` for the default of the congestion control.
    pub pacing: Option<bool>,
    /// Maximum number of segments that the sender gives to the device as one packet.
    pub train: u8,
    /// TCP small queues: the largest number of bytes in the queue and device of the sending host
    /// (the first port of the flow's path); `None` for no limit. At a low pacing rate, the limit
    /// falls to a millisecond of data, but not below two packets. One packet is always allowed.
    pub small_queue: Option<u32>,
    /// Receive buffer in bytes. The receiver advertises all of it if the application reads at once,
    /// and otherwise the free part.
    pub receive_buffer: u32,
    /// Rate at which the receiving application reads, in bits/s; `None` if it reads at once.
    pub read_rate: Option<u64>,
    /// Number of segments, of any length, per acknowledgement.
    pub ack_every: u32,
    /// The longest delay of an acknowledgement.
    pub ack_delay: Nanos,
    /// Whether the sender uses tail loss probes.
    pub probe: bool,
    /// Whether the window shrinks after a pause.
    pub idle_restart: bool,
    /// The largest reordering window of RACK, in quarters of the smallest round-trip time.
    pub reordering: u32,
    /// The label of packets: a rank or a deadline.
    pub label: u64,
    /// The endpoint that is notified of arrivals and of completion.
    pub owner: Option<EndpointId>,
    /// Whether a connection that ends counts itself as completed in its group. If not, its owner
    /// does so.
    pub counts: bool,
    /// Whether the connection's flow is retired when all is done.
    pub retire: bool,
    /// The seed of the congestion control's random draws.
    pub seed: u64,
}

/// The data that a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Unlimited data.
    Unlimited,
    /// This many bytes, after which the connection is closed.
    Bytes(u64),
    /// The data that [`crate::endpoint::Notice::Write`] announces, until
    /// [`crate::endpoint::Notice::Close`].
    Written,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            control: Choice::new(Kind::Cubic),
            mss: 1448,
            header: 52,
            initial_window: 10,
            data: Data::Unlimited,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            handshake: true,
            min_rto: Nanos::from_millis(200),
            max_rto: Nanos::from_secs(120),
            ecn: None,
            pacing: None,
            train: 1,
            small_queue: None,
            receive_buffer: 4 << 20,
            read_rate: None,
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            probe: true,
            idle_restart: true,
            reordering: 16,
            label: 0,
            owner: None,
            counts: true,
            retire: false,
            seed: 0,
        }
    }
}

impl Config {
    /// Whether packets are ECN-capable.
    pub fn uses_ecn(&self) -> bool {
        self.ecn.unwrap_or(self.control.kind().row().traits.ecn)
    }

    /// Whether packets are paced.
    pub fn paces(&self) -> bool {
        self.pacing.unwrap_or(self.control.kind().row().traits.paces)
    }

    /// The largest payload that one packet carries.
    pub(super) fn most(&self) -> u32 {
        self.mss * u32::from(self.train.max(1))
    }

    /// Number of segments in a payload.
    #[inline]
    pub(super) fn segments(&self, payload: u32) -> u8 {
        if payload <= self.mss { 1 } else { payload.div_ceil(self.mss) as u8 }
    }

    /// Network-layer bytes of a packet.
    #[inline]
    pub(super) fn len(&self, payload: u32) -> u32 {
        payload + u32::from(self.header) * u32::from(self.segments(payload))
    }
}
