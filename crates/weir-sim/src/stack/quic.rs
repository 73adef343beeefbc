//! QUIC of quinn-proto: its endpoint and connection, with one stream from a client to a server.
//!
//! **Model.** quinn-proto does no I/O and reads no clock; the simulation gives it datagrams and
//! times. Its `Instant` can only be made by reading a clock, so each side reads the clock once and
//! uses the result as the origin of its times. Only differences from the origin have an effect. All
//! random draws of the stack come from one seed, including connection identifiers. The cryptography
//! is [`super::quic_crypto`], with the flights and lengths of TLS but without secret keys.
//!
//! **Reference.** The crate `quinn-proto`; RFC 9000 and 9002. Relevant for comparisons: pacing; ECN
//! with ECT(0); packets of 1200 bytes of UDP payload until path MTU discovery finds that larger
//! ones arrive; one acknowledgement for two packets.
//!
//! **Parameters.** [`super::Options`].
//!
//! **Differences from quinn's defaults.** No idle timeout, so that an outage in a scenario does not
//! end the connection; no segmentation offload, because packets are simulated one by one; no spin
//! bit. Its BBR is not available, because it draws from the machine's randomness.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::congestion::{CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    Dir, EcnCodepoint, Endpoint as Quinn, EndpointConfig, Event, MtuDiscoveryConfig, ServerConfig,
    StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use weir_core::Nanos;
use weir_core::rng::{Purpose, Stream};

use super::application::{Life, Supply, check, ecn_bits, ecn_from_bits, send_bytes};
use super::quic_crypto::Unprotected;
use super::{Control, Load, Options};
use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{Flags, FlowId, Packet};

/// The client, which sends.
#[derive(Debug)]
pub struct Sender {
    host: Host,
    client: ClientConfig,
    supply: Supply,
    life: Life,
    stream: Option<StreamId>,
    /// Whether the end of the stream has been passed to the stack.
    finished: bool,
    /// Number of lost packets that the stack has reported.
    lost: u64,
}

/// The server, which receives.
#[derive(Debug)]
pub struct Receiver {
    host: Host,
    life: Life,
    stream: Option<StreamId>,
    received: u64,
}

/// The two ends of a connection that sends `load`.
pub fn pair(flow: FlowId, load: Load, options: Options) -> (Sender, Receiver) {
    let life = Life::new(flow, &options);
    let unprotected = Arc::new(Unprotected);
    let transport = Arc::new(transport(&options));
    let mut server = ServerConfig::new(unprotected.clone(), unprotected.clone());
    server.transport_config(transport.clone());
    let mut client = ClientConfig::new(unprotected);
    client.transport_config(transport);
    let seed = options.seed;
    client.initial_dst_cid_provider(Arc::new(move || Identifiers::new(seed, 2).generate_cid()));
    let sender = Sender {
        host: Host::new(flow, false, &options, None),
        client,
        supply: Supply::new(load),
        life: life.clone(),
        stream: None,
        finished: false,
        lost: 0,
    };
    let host = Host::new(flow, true, &options, Some(Arc::new(server)));
    (sender, Receiver { host, life, stream: None, received: 0 })
}

fn transport(options: &Options) -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(max_payload(options));
    let mut config = TransportConfig::default();
    config
        .mtu_discovery_config(Some(discovery))
        .max_idle_timeout(None)
        .enable_segmentation_offload(false)
        .allow_spin(false)
        .stream_receive_window(VarInt::from_u32(options.window))
        .send_window(u64::from(options.window) * 8);
    match options.control {
        Control::NewReno => {
            config.congestion_controller_factory(Arc::new(NewRenoConfig::default()))
        }
        Control::Cubic => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
    };
    config
}

/// Largest UDP payload, in bytes.
fn max_payload(options: &Options) -> u16 {
    options.mtu.clamp(1280, 9000) - u16::from(HEADERS)
}

impl Sender {
    fn connect(&mut self, now: Nanos) {
        if self.host.connection.is_none() {
            let opened = self.host.quinn.connect(
                self.host.instant(now),
                self.client.clone(),
                REMOTE,
                "server",
            );
            self.host.connection = Some(opened.expect("a new endpoint has identifiers left"));
        }
    }

    /// Writes as much as the stack accepts and runs the stack, until there is nothing left to do.
    fn work(&mut self, context: &mut Context<'_>) {
        loop {
            let wrote = self.write();
            let mut done = false;
            self.host.drive(context, |event| {
                done |= matches!(event, Event::Stream(StreamEvent::Finished { .. }));
            });
            if done {
                self.host.deadline = Nanos::MAX;
                self.life.finish(context);
            }
            if done || !wrote {
                break;
            }
        }
        if let Some((_, connection)) = &self.host.connection {
            let lost = connection.stats().path.lost_packets;
            context.count(self.host.flow).retransmitted +=
                lost - std::mem::replace(&mut self.lost, lost);
        }
    }

    /// Writes to the stream. Returns whether there is new data to send.
    fn write(&mut self) -> bool {
        let Some((_, connection)) = &mut self.host.connection else { return false };
        if connection.is_handshaking() || self.finished {
            return false;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.stream else { return false };
        let mut stream = connection.send_stream(id);
        let before = self.supply.written;
        while let Ok(bytes @ 1..) = stream.write(self.supply.next(usize::MAX)) {
            self.supply.wrote(bytes);
        }
        if self.supply.ended() {
            self.finished = stream.finish().is_ok();
        }
        self.supply.written > before || self.finished
    }
}

impl Endpoint for Sender {
    fn start(&mut self, context: &mut Context<'_>) {
        self.host.deadline = self.life.start.max(context.now());
    }

    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.receive(packet, context);
            self.work(context);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.connect(context.now());
            self.host.time_out(context.now());
            self.work(context);
        }
    }

    fn next_event(&self) -> Nanos {
        self.host.deadline
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        match notice {
            Notice::Write(bytes) => self.supply.add(bytes),
            Notice::Close => self.supply.closed = true,
            Notice::Delivered(_) | Notice::Done => return,
        }
        if context.now() >= self.life.start && !self.host.has_ended(&self.life, context.now()) {
            self.connect(context.now());
            self.work(context);
        }
    }
}

impl Receiver {
    fn work(&mut self, context: &mut Context<'_>) {
        self.host.drive(context, |_| ());
        let before = self.received;
        if self.read() {
            // Flow control may have to announce the free space.
            self.host.drive(context, |_| ());
        }
        self.life.deliver(self.received - before, context);
    }

    /// Reads the data that arrived in order. Returns whether the sender needs an update.
    fn read(&mut self) -> bool {
        let Some((_, connection)) = &mut self.host.connection else { return false };
        if self.stream.is_none() {
            self.stream = connection.streams().accept(Dir::Uni);
        }
        let Some(id) = self.stream else { return false };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return false };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            check(chunk.offset, &chunk.bytes);
            self.received += chunk.bytes.len() as u64;
        }
        chunks.finalize().should_transmit()
    }
}

impl Endpoint for Receiver {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.receive(packet, context);
            self.work(context);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.time_out(context.now());
            self.work(context);
        }
    }

    fn next_event(&self) -> Nanos {
        self.host.deadline
    }
}

/// One end of the connection with its stack.
struct Host {
    flow: FlowId,
    /// Whether packets go from the flow's sink to its source.
    back: bool,
    /// The `Instant` at time zero of the simulation.
    origin: Instant,
    quinn: Quinn,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Room for one datagram.
    buffer: Vec<u8>,
    /// The time at which the stack must be woken.
    deadline: Nanos,
    /// The label of the packets.
    label: u64,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("flow", &self.flow)
            .field("back", &self.back)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl Host {
    fn new(flow: FlowId, back: bool, options: &Options, server: Option<Arc<ServerConfig>>) -> Self {
        let seed = options.seed;
        let mut stream = Stream::new(seed, u64::from(back), Purpose::Generator);
        let mut rng_seed = [0; 32];
        for chunk in rng_seed.chunks_exact_mut(8) {
            chunk.copy_from_slice(&stream.bits().to_le_bytes());
        }
        let mut config = EndpointConfig::new(Arc::new(Unprotected));
        config
            .rng_seed(Some(rng_seed))
            .cid_generator(move || Box::new(Identifiers::new(seed, 3 + u64::from(back))));
        config
            .max_udp_payload_size(max_payload(options))
            .expect("QUIC takes any size from 1200 bytes on");
        let quinn = Quinn::new(Arc::new(config), server, true, None);
        Self {
            flow,
            back,
            origin: Instant::now(),
            quinn,
            connection: None,
            buffer: Vec::new(),
            deadline: Nanos::MAX,
            label: options.label,
        }
    }

    /// Whether the connection is over. If so, also cancels the stack's timeout.
    fn has_ended(&mut self, life: &Life, now: Nanos) -> bool {
        let is_over = life.is_over(now);
        if is_over {
            self.deadline = Nanos::MAX;
        }
        is_over
    }

    fn instant(&self, now: Nanos) -> Instant {
        self.origin + Duration::from_nanos(now.0)
    }

    /// Passes an arriving packet to the stack.
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let Some(extra) = context.extra(packet) else { return };
        let bytes = BytesMut::from(&extra.bytes[..]);
        let ecn = EcnCodepoint::from_bits(ecn_bits(packet.ecn));
        let now = self.instant(context.now());
        self.buffer.clear();
        match self.quinn.handle(now, REMOTE, None, ecn, bytes, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                self.connection = self.quinn.accept(incoming, now, &mut self.buffer, None).ok();
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.quinn.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, context),
            None => {}
        }
    }

    /// Tells the stack that its timeout has expired.
    fn time_out(&mut self, now: Nanos) {
        let now = self.instant(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }

    /// Passes events to the application and between the parts of the stack, sends the stack's
    /// datagrams, and schedules its next timeout.
    fn drive(&mut self, context: &mut Context<'_>, mut on_event: impl FnMut(Event)) {
        let now = self.instant(context.now());
        let Some((handle, mut connection)) = self.connection.take() else { return };
        loop {
            while let Some(event) = connection.poll() {
                on_event(event);
            }
            let mut idle = true;
            while let Some(event) = connection.poll_endpoint_events() {
                idle = false;
                if let Some(answer) = self.quinn.handle_event(handle, event) {
                    connection.handle_event(answer);
                }
            }
            self.buffer.clear();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut self.buffer) {
                idle = false;
                self.send(&transmit, context);
                self.buffer.clear();
            }
            if idle {
                break;
            }
        }
        self.deadline = match connection.poll_timeout() {
            None => Nanos::MAX,
            // An `Instant` may be coarser than a nanosecond. The lower bound makes the time
            // advance.
            Some(at) => Nanos(u64::try_from((at - self.origin).as_nanos()).unwrap_or(u64::MAX))
                .max(context.now().saturating_add(Nanos(1))),
        };
        self.connection = Some((handle, connection));
    }

    /// Sends the datagram in the buffer.
    fn send(&mut self, transmit: &Transmit, context: &mut Context<'_>) {
        let bytes = self.buffer[..transmit.size].to_vec();
        let flags = if self.back { Flags::BACK } else { Flags::default() };
        let ecn = ecn_from_bits(transmit.ecn.map_or(0, |ecn| ecn as u8));
        let len = HEADERS as u32 + u32::try_from(bytes.len()).unwrap_or(0);
        let packet = Packet {
            flow: self.flow,
            len,
            header: HEADERS,
            ecn,
            flags,
            label: self.label,
            ..Packet::default()
        };
        send_bytes(context, packet, bytes);
    }
}

/// Generates connection identifiers from a seed.
struct Identifiers(Stream);

impl Identifiers {
    fn new(seed: u64, path: u64) -> Self {
        Self(Stream::new(seed, path, Purpose::Generator))
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.bits().to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Each side has one peer, so both sides may have the same address.
const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4433);
/// Bytes of the IPv4 and UDP headers.
const HEADERS: u8 = 28;
