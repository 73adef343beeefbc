//! TCP of smoltcp: its socket, interface and IPv4 packets, with one connection between a pair of
//! endpoints.
//!
//! **Model.** Each endpoint owns an interface without a link layer (medium IP), with one socket and
//! a device that exchanges packets with the simulation. The endpoint polls the stack when a packet
//! arrives, when the stack's timer expires, and when the application writes. The stack's clock has
//! a resolution of microseconds and shows the simulation's time, rounded down.
//!
//! **Reference.** The unmodified crate `smoltcp`; its README lists the differences from other TCPs.
//! Relevant for comparisons: no selective acknowledgements (a fast retransmission repairs one
//! segment, a timeout resends all unacknowledged data), a retransmission timeout of at least one
//! second, an acknowledgement delayed by at most 10 ms, no pacing, no ECN.
//!
//! **Parameters.** [`super::Options`].

use std::collections::VecDeque;
use std::fmt;

use ::smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use ::smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use ::smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use ::smoltcp::time::Instant;
use ::smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Packet, TcpPacket};
use weir_core::Nanos;
use weir_core::rng::{Purpose, Stream};

use super::application::{Life, Supply, check, ecn_bits, ecn_from_bits, send_bytes};
use super::{Control, Load, Options};
use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{Flags, FlowId, Packet};

/// The end that connects and sends.
#[derive(Debug)]
pub struct Sender {
    host: Host,
    supply: Supply,
    life: Life,
}

/// The end that listens and receives.
#[derive(Debug)]
pub struct Receiver {
    host: Host,
    life: Life,
    received: u64,
}

/// The two ends of a connection that sends `load`.
pub fn pair(flow: FlowId, load: Load, options: Options) -> (Sender, Receiver) {
    let life = Life::new(flow, &options);
    let sender = Sender {
        host: Host::new(flow, false, &options),
        supply: Supply::new(load),
        life: life.clone(),
    };
    let mut host = Host::new(flow, true, &options);
    host.socket().listen(PORT).expect("a new socket can listen");
    (sender, Receiver { host, life, received: 0 })
}

impl Sender {
    /// Writes and sends until the socket takes no more data or there is none.
    fn work(&mut self, context: &mut Context<'_>) {
        loop {
            self.write();
            self.host.poll(context);
            let socket = self.host.socket();
            if !socket.can_send() || self.supply.next(1).is_empty() {
                break;
            }
        }
        let fin_is_acknowledged =
            matches!(self.host.socket().state(), State::FinWait2 | State::TimeWait | State::Closed);
        if fin_is_acknowledged && self.supply.ended() {
            self.host.deadline = Nanos::MAX;
            self.life.finish(context);
        }
    }

    fn write(&mut self) {
        let socket = self.host.socket();
        while socket.can_send() {
            match socket.send_slice(self.supply.next(usize::MAX)) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => self.supply.wrote(bytes),
            }
        }
        if self.supply.ended() && socket.may_send() {
            socket.close();
        }
    }
}

impl Endpoint for Sender {
    fn start(&mut self, context: &mut Context<'_>) {
        self.host.deadline = self.life.start.max(context.now());
    }

    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.take(packet, context);
            self.work(context);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.connect(context.now());
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
            self.host.connect(context.now());
            self.work(context);
        }
    }
}

impl Receiver {
    fn work(&mut self, context: &mut Context<'_>) {
        self.host.poll(context);
        let before = self.received;
        let socket = self.host.socket();
        while socket.can_recv() {
            let at = self.received;
            let taken = socket.recv(|bytes| {
                check(at, bytes);
                (bytes.len(), bytes.len())
            });
            self.received += taken.unwrap_or(0) as u64;
        }
        // In this state, all data has arrived and the sender has closed the stream.
        let ended = socket.state() == State::CloseWait;
        if ended {
            socket.close();
        }
        if self.received > before || ended {
            // The stack announces the larger window, or sends its FIN.
            self.host.poll(context);
        }
        self.life.deliver(self.received - before, context);
    }
}

impl Endpoint for Receiver {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
            self.host.take(packet, context);
            self.work(context);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        if !self.host.has_ended(&self.life, context.now()) {
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
    /// Whether this end is the flow's sink, so that its packets go back to the source.
    back: bool,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Wire,
    /// The time at which the stack must be woken.
    deadline: Nanos,
    label: u64,
    /// The first sequence number that was not yet sent.
    highest: Option<u32>,
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
    fn new(flow: FlowId, back: bool, options: &Options) -> Self {
        let mut wire = Wire { mtu: options.mtu.clamp(1280, 9000).into(), ..Wire::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = Stream::new(options.seed, u64::from(back), Purpose::Generator).bits();
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        let own = ADDRESSES[usize::from(back)];
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(own, 24)).expect("there is room for one address");
        });
        // Only the sender needs a large send buffer, and only the receiver needs a large receive
        // buffer.
        let buffer = |large: bool| {
            SocketBuffer::new(vec![0; if large { options.window.max(1) as usize } else { 1 }])
        };
        let mut socket = Socket::new(buffer(back), buffer(!back));
        socket.set_congestion_control(match options.control {
            Control::NewReno => CongestionControl::Reno,
            Control::Cubic => CongestionControl::Cubic,
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self {
            flow,
            back,
            interface,
            sockets,
            handle,
            wire,
            deadline: Nanos::MAX,
            label: options.label,
            highest: None,
        }
    }

    /// Whether the connection is over. If so, the stack is never woken again.
    fn has_ended(&mut self, life: &Life, now: Nanos) -> bool {
        let is_over = life.is_over(now);
        if is_over {
            self.deadline = Nanos::MAX;
        }
        is_over
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Opens the connection, unless it was opened before.
    fn connect(&mut self, now: Nanos) {
        if self.highest.is_some() || self.socket().is_open() {
            return;
        }
        self.interface.poll_maintenance(instant(now));
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        let remote = (ADDRESSES[usize::from(!self.back)], PORT);
        socket
            .connect(self.interface.context(), remote, CLIENT_PORT)
            .expect("a closed socket with a route can connect");
    }

    /// Passes a packet's bytes to the device.
    fn take(&mut self, packet: &Packet, context: &Context<'_>) {
        let Some(extra) = context.extra(packet) else { return };
        let mut bytes = extra.bytes.clone();
        if let Some(class) = bytes.get_mut(1) {
            *class = *class & 0xfc | ecn_bits(packet.ecn);
        }
        self.wire.incoming.push_back(bytes);
    }

    /// Runs the stack, sends its packets, and schedules its next deadline.
    fn poll(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.interface.poll(instant(now), &mut self.wire, &mut self.sockets);
        while let Some(bytes) = self.wire.outgoing.pop_front() {
            self.send(bytes, context);
        }
        self.deadline = match self.interface.poll_at(instant(now), &self.sockets) {
            None => Nanos::MAX,
            // The stack may leave work undone that is due. The endpoint retries at a later time,
            // because it could otherwise retry forever at the same time.
            Some(at) => Nanos((at.total_micros().max(0) as u64).saturating_mul(1000))
                .max(now.saturating_add(TICK)),
        };
    }

    fn send(&mut self, bytes: Vec<u8>, context: &mut Context<'_>) {
        let (Ok(ip), Ok(len)) = (Ipv4Packet::new_checked(&bytes[..]), u32::try_from(bytes.len()))
        else {
            return;
        };
        let mut packet = Packet {
            flow: self.flow,
            len,
            ecn: ecn_from_bits(bytes[1]),
            label: self.label,
            ..Packet::default()
        };
        if self.back {
            packet.flags = packet.flags.with(Flags::BACK);
        }
        if let Ok(tcp) = TcpPacket::new_checked(ip.payload()) {
            packet.header = ip.header_len().saturating_add(tcp.header_len());
            packet.seq = tcp.seq_number().0 as u32 as u64;
            packet.ack = tcp.ack_number().0 as u32 as u64;
            packet.window = u32::from(tcp.window_len());
            for (is, flag) in
                [(tcp.syn(), Flags::SYN), (tcp.ack(), Flags::ACK), (tcp.fin(), Flags::FIN)]
            {
                packet.flags = packet.flags.with(if is { flag } else { Flags::default() });
            }
            let occupied = tcp.segment_len() as u32;
            let end = (packet.seq as u32).wrapping_add(occupied);
            let known = *self.highest.get_or_insert(packet.seq as u32);
            if occupied > 0 && (end.wrapping_sub(known) as i32) <= 0 {
                packet.flags = packet.flags.with(Flags::RETRANSMISSION);
                if !self.back {
                    context.count(self.flow).retransmitted += 1;
                }
            } else if (end.wrapping_sub(known) as i32) > 0 {
                self.highest = Some(end);
            }
        }
        send_bytes(context, packet, bytes);
    }
}

/// The stack's clock at a time of the simulation.
fn instant(now: Nanos) -> Instant {
    Instant::from_micros((now.0 / 1000) as i64)
}

/// A device that exchanges whole packets.
#[derive(Debug, Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Incoming(Vec<u8>);

struct Outgoing<'a>(&'a mut VecDeque<Vec<u8>>);

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _timestamp: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        Some((Incoming(self.incoming.pop_front()?), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // The network does not damage packets, and `Host::take` does not update the checksum when
        // it sets the ECN field.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}

/// The addresses of sender and receiver. Every pair has a separate network, so all pairs may share
/// these addresses.
const ADDRESSES: [IpAddress; 2] = [IpAddress::v4(192, 0, 2, 1), IpAddress::v4(192, 0, 2, 2)];
const PORT: u16 = 5001;
const CLIENT_PORT: u16 = 49_152;
/// The resolution of the stack's clock.
const TICK: Nanos = Nanos::from_micros(1);
