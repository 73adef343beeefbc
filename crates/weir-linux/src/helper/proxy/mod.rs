//! The proxy: a process that carries TCP connections between the link and the machine's network if
//! the user is not root.
//!
//! The kernel of the router's namespace terminates the connections that arrive over the link. For
//! each of them, the proxy opens a second connection from the machine's own namespace, as any
//! program of the user could. The router's kernel therefore sends into the emulated link, with real
//! congestion control. The proxy connects to the server before the client's connection is accepted
//! (see [`syn`]), so that the program sees a refusal as a refusal and a slow answer as a slow
//! answer.
//!
//! The proxy carries at most [`LIMIT`](super::limit::LIMIT) connections, or fewer if the process
//! may open fewer descriptors. Above the limit it ignores the first packets of further connections,
//! as a busy host does, and the clients send them again. In each direction of a connection, the
//! proxy reads at most 64 KiB that it has not yet written, and stores these bytes only while the
//! receiver is slow.

mod syn;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use self::syn::Flow;
pub(crate) use self::syn::{FIRST_PACKETS, NOTHING};
use super::limit::{RESERVED, raise_descriptor_limit};
use super::relay::{Relay, SCRATCH, Turn, reset_on_close};
use super::role::{Role, command, ignore_signals};
use crate::process::{receive, send, timespec};
use crate::sys::process::{drop_own_capabilities, inherited_descriptor, keep_open};
use crate::sys::redirect::original_destination;

/// The sockets of the proxy, in the router's namespace.
#[derive(Debug)]
pub(crate) struct ProxySockets {
    /// The sockets that accept translated connections, one for each address family.
    pub(crate) listeners: Vec<OwnedFd>,
    /// Receives the first packets on the link's interface, and sends refusals there.
    pub(crate) watch: OwnedFd,
    /// Sends on the loopback interface.
    pub(crate) inject: OwnedFd,
    /// The link's addresses that refer to this machine.
    pub(crate) host: Vec<IpAddr>,
}

/// The [`ProxySockets`] in the message that starts the proxy, as numbers of inherited descriptors.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    listeners: Vec<RawFd>,
    watch: RawFd,
    inject: RawFd,
    host: Vec<IpAddr>,
}

/// The proxy process, as the main process sees it. Dropping it ends the connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    child: Child,
    /// The proxy process ends when this socket closes.
    lifeline: Option<UnixStream>,
}

impl Proxy {
    /// Starts the proxy. It connects to servers in the calling thread's network namespace.
    pub(crate) fn start(sockets: &ProxySockets) -> io::Result<Proxy> {
        let (lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Proxy, helper_end.as_raw_fd());
        let order = Order {
            listeners: sockets.listeners.iter().map(|listener| listener.as_raw_fd()).collect(),
            watch: sockets.watch.as_raw_fd(),
            inject: sockets.inject.as_raw_fd(),
            host: sockets.host.clone(),
        };
        for &fd in order.listeners.iter().chain([&order.watch, &order.inject]) {
            keep_open(&mut command, fd);
        }
        // A separate process group, because ^C is meant for the user's program.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .current_dir("/");
        let child = command.spawn()?;
        drop(helper_end);
        let proxy = Proxy { child, lifeline: Some(lifeline) };
        if let Some(lifeline) = &proxy.lifeline {
            send(lifeline, &order)?;
        }
        Ok(proxy)
    }
}

impl Drop for Proxy {
    /// Gives the proxy a moment to forward its pending data, and waits for it to end.
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

/// Runs as the proxy until the main process has ended.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    let _ = rustix::thread::set_name(c"weir-proxy");
    let lifeline = UnixStream::from(socket);
    let work = || {
        let order: Order = receive(&lifeline)?;
        let sockets = ProxySockets {
            listeners: order
                .listeners
                .iter()
                .map(|&fd| inherited_descriptor(fd))
                .collect::<io::Result<_>>()?,
            watch: inherited_descriptor(order.watch)?,
            inject: inherited_descriptor(order.inject)?,
            host: order.host,
        };
        // All sockets that need a privilege are open, so the proxy gives up its capabilities.
        drop_own_capabilities()?;
        Connections::new(sockets, lifeline.try_clone()?.into())?.serve()
    };
    if work().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Parses `bytes` as the proxy's order, for the fuzz targets.
pub(crate) fn proxy_order(bytes: &[u8]) {
    let _ = receive::<Order>(bytes);
}

/// Treats a frame as the first packet of a connection, for the fuzz targets.
///
/// # Panics
/// The refusal of the packet is malformed or does not come from the server's port.
pub(crate) fn first_packet(frame: &[u8]) {
    let _ = syn::for_loopback(frame);
    let (Some(flow), Some(answer)) = (syn::opened_by(frame), syn::refusal(frame)) else { return };
    let parsed = weir_wire::parse(&answer).expect("the proxy sends valid packets");
    let ports = parsed.transport().and_then(|at| answer.get(at..at + 2));
    assert_eq!(ports, Some(&flow.server.port().to_be_bytes()[..]), "it comes from the server");
}

/// All connections of the proxy.
struct Connections {
    sockets: ProxySockets,
    /// The socket to the main process. It becomes readable when the main process closes it or ends.
    lifeline: OwnedFd,
    epoll: OwnedFd,
    /// The next connection number. Numbers are never reused, so a late event of a closed connection
    /// matches no other connection.
    next: u64,
    pending: HashMap<u64, Pending>,
    relays: HashMap<u64, (Flow, Relay)>,
    /// The number of each connection, by its addresses.
    flows: HashMap<Flow, u64>,
    /// Relays that need a turn without an event: new ones, and those that used up their reads of a
    /// turn.
    busy: Vec<u64>,
    scratch: Box<[u8; SCRATCH]>,
    /// Maximum number of connections.
    limit: usize,
}

/// A connection to the server; the connection from the client does not exist yet.
struct Pending {
    flow: Flow,
    socket: OwnedFd,
    /// The client's first packet, which requested the connection.
    frame: Vec<u8>,
    /// Time until which the client may claim the connection; `None` until it is established.
    claimable_until: Option<Instant>,
}

impl Connections {
    fn new(sockets: ProxySockets, lifeline: OwnedFd) -> io::Result<Connections> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let watch = |fd: &OwnedFd, token: u64| {
            epoll::add(&epoll, fd, EventData::new_u64(token), EventFlags::IN)
        };
        watch(&lifeline, LIFELINE)?;
        watch(&sockets.watch, WATCH)?;
        for listener in &sockets.listeners {
            watch(listener, LISTENERS)?;
        }
        let limit = raise_descriptor_limit(RESERVED);
        let scratch = Box::new([0; SCRATCH]);
        let (pending, relays, flows) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Connections {
            sockets,
            lifeline,
            epoll,
            next: FIRST_NUMBER,
            pending,
            relays,
            flows,
            busy: Vec::new(),
            scratch,
            limit,
        })
    }

    fn serve(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        // The end of the drain time; `None` while the main process runs. In the drain time, the
        // proxy still forwards data that programs have sent.
        let mut until: Option<Instant> = None;
        loop {
            let wait = if !self.busy.is_empty() {
                Some(Duration::ZERO)
            } else if until.is_some() {
                Some(QUIET)
            } else {
                (!self.pending.is_empty()).then_some(SWEEP)
            };
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                wait.map(timespec).as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if until.is_some_and(|until| {
                Instant::now() > until || (events.is_empty() && self.busy.is_empty())
            }) {
                return Ok(());
            }
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                match token {
                    LIFELINE => {
                        epoll::delete(&self.epoll, &self.lifeline)?;
                        until = Some(Instant::now() + DRAIN_TIME);
                    }
                    WATCH => self.take_first_packets(),
                    LISTENERS => self.accept(),
                    number if self.pending.contains_key(&number) => self.finish_connect(number),
                    number => self.advance(number, flags.contains(EventFlags::ERR)),
                }
            }
            for number in std::mem::take(&mut self.busy) {
                self.advance(number, false);
            }
            self.sweep();
        }
    }

    fn take_first_packets(&mut self) {
        let mut frame = vec![0; LARGEST_FRAME];
        while let Ok((length, _)) =
            rustix::net::recv(&self.sockets.watch, &mut frame[..], rustix::net::RecvFlags::DONTWAIT)
        {
            let frame = &frame[..length.min(LARGEST_FRAME)];
            let Some(flow) = syn::opened_by(frame) else { continue };
            match self.flows.get(&flow) {
                // The client sends the packet again if it gets no answer, for example because the
                // copy on loopback was lost.
                Some(number) => {
                    if let Some(pending) =
                        self.pending.get(number).filter(|pending| pending.claimable_until.is_some())
                    {
                        self.inject(&pending.frame);
                    }
                }
                None if self.flows.len() < self.limit => self.connect_onward(flow, frame),
                None => {}
            }
        }
    }

    /// Starts the connection to the server.
    fn connect_onward(&mut self, flow: Flow, frame: &[u8]) {
        let server = self.real_destination(flow.server);
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Without a descriptor the proxy ignores the packet, and the client sends it again.
        let Ok(socket) = rustix::net::socket_with(family, SocketType::STREAM, flags, None) else {
            return;
        };
        match rustix::net::connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(_) => return self.refuse(frame),
        }
        let number = self.next;
        self.next += 1;
        // A connection that is already established also raises this event.
        if epoll::add(&self.epoll, &socket, EventData::new_u64(number), EventFlags::OUT).is_ok() {
            self.flows.insert(flow, number);
            self.pending.insert(
                number,
                Pending { flow, socket, frame: frame.to_vec(), claimable_until: None },
            );
        }
    }

    /// Handles the event that a connection to a server was established or failed.
    fn finish_connect(&mut self, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        let _ = epoll::delete(&self.epoll, &pending.socket);
        let error = rustix::net::sockopt::socket_error(&pending.socket).unwrap_or(Err(Errno::IO));
        if error.is_ok() {
            pending.claimable_until = Some(Instant::now() + UNCLAIMED);
            let frame = pending.frame.clone();
            return self.inject(&frame);
        }
        if let Some(pending) = self.pending.remove(&number) {
            self.flows.remove(&pending.flow);
            // If the server does not answer in time, the client gets no answer either.
            if error != Err(Errno::TIMEDOUT) {
                self.refuse(&pending.frame);
            }
        }
    }

    fn inject(&self, frame: &[u8]) {
        if let Some(frame) = syn::for_loopback(frame) {
            // If the queue is full, the packet is lost, and the client sends it again.
            let _ = rustix::net::send(&self.sockets.inject, &frame, SendFlags::DONTWAIT);
        }
    }

    fn refuse(&self, frame: &[u8]) {
        if let Some(frame) = syn::refusal(frame) {
            let _ = rustix::net::send(&self.sockets.watch, &frame, SendFlags::DONTWAIT);
        }
    }

    /// Accepts clients and joins each with the connection to its server.
    fn accept(&mut self) {
        for index in 0..self.sockets.listeners.len() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            while let Ok((client, Some(peer))) =
                rustix::net::acceptfrom_with(&self.sockets.listeners[index], flags)
            {
                let pending =
                    SocketAddr::try_from(peer).ok().and_then(|peer| self.claim(&client, peer));
                match pending {
                    Some(pending) => self.relay(pending.flow, Relay::new(client, pending.socket)),
                    None => reset_on_close(&client),
                }
            }
        }
    }

    /// Removes and returns the connection to the server that belongs to a client.
    fn claim(&mut self, client: &OwnedFd, peer: SocketAddr) -> Option<Pending> {
        let server = original_destination(client.as_fd(), peer.is_ipv6()).ok()?;
        let flow = Flow { client: (peer.ip(), peer.port()).into(), server };
        let number = self.flows.get(&flow)?;
        let pending = self.pending.remove(number)?;
        self.flows.remove(&flow);
        Some(pending)
    }

    fn relay(&mut self, flow: Flow, relay: Relay) {
        let number = self.next;
        self.next += 1;
        let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if relay
            .ends()
            .iter()
            .any(|end| epoll::add(&self.epoll, end, EventData::new_u64(number), events).is_err())
        {
            return relay.abort();
        }
        self.flows.insert(flow, number);
        self.relays.insert(number, (flow, relay));
        // The first turn moves data that has already arrived.
        self.busy.push(number);
    }

    fn advance(&mut self, number: u64, failed: bool) {
        let Some((_, relay)) = self.relays.get_mut(&number) else { return };
        let turn = if failed {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            relay.turn(&mut self.scratch)
        };
        if matches!(turn, Ok(Turn::Waiting)) {
            return;
        }
        if matches!(turn, Ok(Turn::Busy)) {
            return self.busy.push(number);
        }
        if let Some((flow, relay)) = self.relays.remove(&number) {
            self.flows.remove(&flow);
            if turn.is_err() {
                relay.abort();
            }
        }
    }

    /// Closes connections to servers that no client claimed in time.
    fn sweep(&mut self) {
        let now = Instant::now();
        let flows = &mut self.flows;
        self.pending.retain(|_, pending| {
            let keep = pending.claimable_until.is_none_or(|until| now < until);
            if !keep {
                flows.remove(&pending.flow);
            }
            keep
        });
    }

    /// The real destination of a connection: for the link's addresses that refer to this machine,
    /// its loopback address, as with pasta.
    fn real_destination(&self, server: SocketAddr) -> SocketAddr {
        if !self.sockets.host.contains(&server.ip()) {
            return server;
        }
        let loopback: IpAddr =
            if server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        (loopback, server.port()).into()
    }
}

/// Maximum number of events that one wait returns.
const EVENTS: usize = 256;
/// Interval between two checks for unclaimed connections.
const SWEEP: Duration = Duration::from_secs(1);
/// How long a connection to a server waits for its client. A kernel repeats the answer to a first
/// packet for about a minute.
const UNCLAIMED: Duration = Duration::from_secs(70);
/// The longest time for which the proxy forwards data after the end of the session.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// After the end of the session, a pause of this length means that no more data will arrive.
const QUIET: Duration = Duration::from_millis(20);
/// The largest first packet. With data (TCP fast open) it may be as large as the link's MTU allows.
const LARGEST_FRAME: usize = 65_535;

/// The tokens in the events of epoll. Connections have the numbers from `FIRST_NUMBER` on as
/// tokens.
const LIFELINE: u64 = 0;
const WATCH: u64 = 1;
const LISTENERS: u64 = 2;
const FIRST_NUMBER: u64 = 3;
