//! The configuration of a TCP connection.

use weir_core::Nanos;

use super::cc::{Choice, Kind};
use crate::endpoint::EndpointId;

/// A connection: one sender, one receiver.
///
/// Defaults are those of Linux unless stated otherwise; `docs/tcp.md` has them in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Congestion control.
    pub control: Choice,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Headers of a segment in bytes: IP, TCP and its timestamps; also the length of an
    /// acknowledgement.
    pub header: u8,
    /// Initial window in segments.
    pub initial_window: u32,
    /// The data to send.
    pub data: Data,
    /// When the connection begins; one that is opened later begins at once.
    pub start: Nanos,
    /// When the sender stops sending new data; it still repairs losses of earlier data.
    pub stop: Nanos,
    /// SYN and SYN-ACK come before data, and cost a round trip.
    pub handshake: bool,
    /// Least retransmission timeout.
    pub min_rto: Nanos,
    /// Largest retransmission timeout.
    pub max_rto: Nanos,
    /// Whether packets are ECN-capable; `None`: the default of the congestion control.
    pub ecn: Option<bool>,
    /// Whether packets are paced; `None`: the default of the congestion control.
    pub pacing: Option<bool>,
    /// Segments that go to the device as one packet.
    pub train: u8,
    /// Most bytes in the queue and device of the sending host, the first port of the flow's path
    /// (TCP small queues); `None` for no limit. If the data of one millisecond is less, that is the
    /// limit, but not less than two packets.
    pub small_queue: Option<u32>,
    /// Receive buffer in bytes, all of which is advertised.
    pub receive_buffer: u32,
    /// Rate at which the receiving application reads, in bits/s; `None`: at once.
    pub read_rate: Option<u64>,
    /// Full segments for which one acknowledgement is sent.
    pub ack_every: u32,
    /// The longest delay of an acknowledgement.
    pub ack_delay: Nanos,
    /// Tail loss probes.
    pub probe: bool,
    /// The window shrinks after a pause.
    pub idle_restart: bool,
    /// The most that the reordering window of RACK grows to, in quarters of the least round-trip
    /// time.
    pub reordering: u32,
    /// Rank or deadline that packets carry as their label.
    pub label: u64,
    /// The endpoint that is notified of arrivals and of completion.
    pub owner: Option<EndpointId>,
    /// A connection that ends counts itself as completed in its group; otherwise its owner does so.
    pub counts: bool,
    /// The connection's flow is retired when all is done.
    pub retire: bool,
    /// The seed of the congestion control's draws.
    pub seed: u64,
}

/// The data that a connection has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Unlimited data.
    Unlimited,
    /// This many bytes; then it is closed.
    Bytes(u64),
    /// What [`crate::endpoint::Notice::Write`] says, until [`crate::endpoint::Notice::Close`].
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

    /// Largest payload that one packet carries.
    pub(super) fn most(&self) -> u32 {
        self.mss * u32::from(self.train.max(1))
    }

    /// Segments in a payload.
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
