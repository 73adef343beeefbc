//! The published network, in namespaces: clients (each in a separate subnet), a router, a switch
//! and a server. No namespace has a name, so all of them vanish with the process, however it ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_core::Nanos;
use weir_core::config::{LinkConfig, PipeConfig};
use weir_linux::live::{Realtime, Spin};
use weir_linux::netlink::Netlink;
use weir_linux::netns::{NetNs, write_setting};
use weir_linux::port::{AnyPort, PacketPort};
use weir_live::{Emulation, Link, LiveSession, Observation, OpenPorts, SessionConfig, Tuning};
use weir_rules::LinkSpec;

use crate::namespaces::{address, batch, join, quiet};

/// The router's device with the queue that is read.
pub(crate) const DEVICE: &str = "out";
/// Rate of the router's link, in bit/s.
pub(crate) const RATE: u64 = 10_000_000;
/// The delay that Weir adds behind the router.
pub(crate) const DELAY: Nanos = Nanos::from_millis(500);
/// Bytes of a packet on the wire, and bytes of its payload.
pub(crate) const FRAME: u64 = 142;
const PAYLOAD: usize = 100;
/// Packets per second of one client, and the maximum of all clients together.
pub(crate) const CLIENT_RATE: u32 = 4_000;
pub(crate) const MOST_RATE: u32 = 20_000;

/// The running network. Dropping the value ends it.
pub(crate) struct Testbed {
    router: NetNs,
    /// Kept because a namespace without a process or a socket vanishes.
    _switch: NetNs,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The live session between the router and the switch.
    links: Option<LiveSession<OpenPorts>>,
    traffic: Arc<Traffic>,
}

/// Counters of the packets.
#[derive(Debug, Default)]
struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
    /// The shortest time from a client to the server, ns; `u64::MAX` before the first packet.
    fastest: AtomicU64,
}

impl Testbed {
    /// Makes the network and starts all clients.
    ///
    /// # Errors
    /// The kernel refuses an operation. The network needs root.
    pub(crate) fn start(clients: u16) -> io::Result<Testbed> {
        let [router, weir, switch, server] = [quiet()?, quiet()?, quiet()?, quiet()?];
        join(&router, (DEVICE, OUT, SMALL_MTU), &weir, "in")?;
        join(&switch, ("p0", 11, MTU), &weir, "on")?;
        join(&switch, ("p1", 12, MTU), &server, "eth0")?;
        let lines = "link add sw0 type bridge stp_state 0\nlink set sw0 up\nlink set p0 master \
                     sw0 up\nlink set p1 master sw0 up\n";
        switch.enter(|| batch("ip", lines))?;
        let server_mac = server.enter(|| address("eth0", SERVER, Some(ROUTER)))?;
        router.enter(|| {
            address(DEVICE, ROUTER, None)?;
            write_setting("ipv4/ip_forward", "1")?;
            Netlink::open()
                .and_then(|mut net| net.add_neighbour(OUT, IpAddr::V4(SERVER), server_mac))
                .map_err(io::Error::other)?;
            batch(
                "tc",
                &format!(
                    "qdisc add dev {DEVICE} root handle 1: tbf rate {RATE}bit burst {BURST} limit {LIMIT}\n\
                qdisc add dev {DEVICE} parent 1:1 handle 2: pfifo_fast\n"
                ),
            )
        })?;
        let mut testbed = Testbed {
            router,
            _switch: switch,
            stop: Arc::default(),
            threads: Vec::new(),
            links: None,
            traffic: Arc::default(),
        };
        testbed.traffic.fastest.store(u64::MAX, Ordering::Relaxed);
        testbed.bridge(&weir)?;
        let socket = server.enter(|| UdpSocket::bind((SERVER, PORT)))?;
        testbed.receive(socket)?;
        for client in 0..clients {
            let socket = testbed.client(client)?;
            testbed.send(
                socket,
                client,
                f64::from(CLIENT_RATE.min(MOST_RATE / u32::from(clients))),
            );
        }
        Ok(testbed)
    }

    /// Runs `work` on a thread in the router's namespace.
    pub(crate) fn at_router<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, io::Error> + Send,
    ) -> io::Result<T> {
        self.router.enter(work)
    }

    /// Packets sent, packets received, and the shortest one-way delay in ns.
    pub(crate) fn passed(&self) -> (u64, u64, Option<u64>) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let fastest = read(&self.traffic.fastest);
        (
            read(&self.traffic.sent),
            read(&self.traffic.received),
            (fastest < u64::MAX).then_some(fastest),
        )
    }

    /// Starts the live session between the router and the switch.
    fn bridge(&mut self, place: &NetNs) -> io::Result<()> {
        let ports = place.enter(|| {
            let mut net = Netlink::open().map_err(io::Error::other)?;
            let mut open = |name| {
                let link = net.link(name).map_err(io::Error::other)?;
                net.set_up(link.index).map_err(io::Error::other)?;
                PacketPort::open(name).map(AnyPort::from).map_err(io::Error::other)
            };
            Ok::<_, io::Error>(vec![open("in")?, open("on")?])
        })?;
        let delayed = PipeConfig {
            link: LinkConfig { delay: DELAY, ..LinkConfig::default() },
            ..PipeConfig::default()
        };
        let delayed = LinkSpec { pipe: delayed, ..LinkSpec::default() };
        let links = [Link::new("to server", delayed), Link::new("back", LinkSpec::default())];
        // The processors are left to the methods under measurement.
        let tuning = Tuning { spin: Spin::Off, realtime: Realtime::Off, ..Tuning::default() };
        let config =
            SessionConfig::new(OpenPorts::new(vec![ports]), Emulation::Links(Box::new(links)))
                .observation(Observation::Nothing)
                .tuning(tuning);
        let prepared = LiveSession::build(config).map_err(io::Error::other)?;
        // If the session ends early, no more packets arrive, and the result shows how many did.
        self.links = Some(prepared.start().map_err(io::Error::other)?);
        Ok(())
    }

    fn receive(&mut self, socket: UdpSocket) -> io::Result<()> {
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (stop, traffic) = (Arc::clone(&self.stop), Arc::clone(&self.traffic));
        let began = epoch();
        self.spawn("weir-server", move || {
            let mut payload = [0; PAYLOAD];
            while !stop.load(Ordering::Relaxed) {
                let Ok(PAYLOAD) = socket.recv(&mut payload) else { continue };
                let sent = u64::from_ne_bytes(payload[..8].try_into().unwrap_or_default());
                traffic.fastest.fetch_min(
                    (began.elapsed().as_nanos() as u64).saturating_sub(sent),
                    Ordering::Relaxed,
                );
                traffic.received.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Makes a client's namespace, link and address. Returns its socket, which keeps the namespace
    /// alive.
    fn client(&self, number: u16) -> io::Result<UdpSocket> {
        let client = quiet()?;
        let [high, low] = number.to_be_bytes();
        let subnet = |host| Ipv4Addr::new(10, 1 + high, low, host);
        let index = 100 + u32::from(number);
        let near = format!("c{number}");
        join(&self.router, (&near, index, MTU), &client, "eth0")?;
        self.router.enter(|| address(&near, subnet(1), None).map(drop))?;
        client.enter(|| {
            address("eth0", subnet(2), Some(subnet(1)))?;
            let socket = UdpSocket::bind((subnet(2), 0))?;
            socket.connect((SERVER, PORT))?;
            Ok(socket)
        })
    }

    /// Sends packets with random gaps, `rate` per second on average.
    fn send(&mut self, socket: UdpSocket, number: u16, rate: f64) {
        let (stop, traffic) = (Arc::clone(&self.stop), Arc::clone(&self.traffic));
        let began = epoch();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(number) + 1);
        let work = move || {
            let mut payload = [0; PAYLOAD];
            let mut due = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let uniform = ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                due += Duration::from_secs_f64(-libm::log(uniform) / rate);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                payload[..8].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_ne_bytes());
                // A full queue drops packets, and some kernels report these drops as errors.
                if socket.send(&payload).is_ok() {
                    traffic.sent.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        // If the thread cannot start, there is one client less.
        let _ = self.spawn("weir-client", work);
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(work)?);
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The common origin of all times.
fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 2);
const PORT: u16 = 5001;
/// The device's index. It differs from the index of the veth pair's other end: with equal indices,
/// the kernel may take a second to bring the pair up.
const OUT: u32 = 10;
/// Bytes that an idle link transmits at once. The token bucket must hold the largest packet, so the
/// link has a small MTU.
const BURST: u32 = SMALL_MTU + 20;
const SMALL_MTU: u32 = 200;
const MTU: u32 = 1500;
/// Bytes that may wait. The inner discipline has its own limit: 1000 packets in each band.
const LIMIT: u32 = 1_000_000;
