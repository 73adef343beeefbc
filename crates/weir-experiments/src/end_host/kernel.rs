//! The kernel's TCP transfers. They pass three namespaces that veth pairs connect, and a `tbf` with
//! a `pfifo` as its inner queue.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_linux::netns::{NetNs, write_setting};
use weir_probe::{Method, Namespace, Plan, Tally, Target};

use super::case::{Case, PACKET, Place, QUEUE, RATE, Waiting};
use crate::namespaces::{address, batch, join, quiet};

/// Runs one case in namespaces that vanish when the case ends.
pub(super) fn run(case: &Case) -> io::Result<Waiting> {
    let network = Network::make(case)?;
    let stop = Arc::new(AtomicBool::new(false));
    let threads = network.transfer(case.flows, &stop);
    std::thread::sleep(WARM_UP);
    let sampled = network.holder().enter(|| sample(SPAN));
    stop.store(true, Ordering::Relaxed);
    for thread in threads? {
        let _ = thread.join();
    }
    sampled
}

struct Network {
    sender: NetNs,
    router: NetNs,
    receiver: NetNs,
    place: Place,
}

impl Network {
    fn make(case: &Case) -> io::Result<Self> {
        let network =
            Self { sender: quiet()?, router: quiet()?, receiver: quiet()?, place: case.place };
        // The device with the queue is called `out`, in the sender's namespace or in the router's.
        let [first, second] = match case.place {
            Place::EndHost => [OUT, "down"],
            Place::Router => ["up0", OUT],
        };
        join(&network.sender, (first, 10, MTU), &network.router, "near")?;
        join(&network.router, (second, 20, MTU), &network.receiver, "eth0")?;
        network.sender.enter(|| {
            address(first, SENDER, Some(NEAR))?;
            if !case.offload {
                batch("ip", &format!("link set dev {first} gso_max_segs 1\n"))?;
            }
            Ok::<_, io::Error>(())
        })?;
        network.router.enter(|| {
            address("near", NEAR, None)?;
            address(second, FAR, None)?;
            // The router forwards a train whole. If the queue is in the router, its token bucket
            // cuts the train.
            write_setting("ipv4/ip_forward", "1")
        })?;
        network.receiver.enter(|| address("eth0", RECEIVER, Some(FAR)).map(drop))?;
        let queue = format!(
            "qdisc add dev {OUT} root handle 1: tbf rate {RATE}bit burst {BURST} limit {LIMIT}\n\
             qdisc add dev {OUT} parent 1:1 handle 2: pfifo limit {QUEUE}\n"
        );
        network.holder().enter(|| batch("tc", &queue))?;
        Ok(network)
    }

    /// The namespace with the queue.
    const fn holder(&self) -> &NetNs {
        match self.place {
            Place::EndHost => &self.sender,
            Place::Router => &self.router,
        }
    }

    /// Starts `flows` transfers that end when `stop` is set.
    fn transfer(&self, flows: u32, stop: &Arc<AtomicBool>) -> io::Result<Vec<JoinHandle<()>>> {
        let listener = self.receiver.enter(|| TcpListener::bind((RECEIVER, PORT)))?;
        let mut threads = Vec::new();
        for _ in 0..flows {
            let to = SocketAddr::from((RECEIVER, PORT));
            let stream = self.sender.enter(|| TcpStream::connect_timeout(&to, PATIENCE))?;
            // Not every congestion control can be the default of a namespace, so the socket selects
            // its own.
            rustix::net::sockopt::set_tcp_congestion(&stream, "cubic")?;
            let (incoming, _) = listener.accept()?;
            stream.set_write_timeout(Some(TURN))?;
            incoming.set_read_timeout(Some(TURN))?;
            let own = Arc::clone(stop);
            threads.push(spawn("weir-sender", move || send(&stream, &own))?);
            let own = Arc::clone(stop);
            threads.push(spawn("weir-receiver", move || receive(&incoming, &own))?);
        }
        Ok(threads)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}

fn send(mut stream: &TcpStream, stop: &AtomicBool) {
    let data = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&data) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn receive(mut stream: &TcpStream, stop: &AtomicBool) {
    let mut data = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut data) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Reads the queue of this thread's namespace over netlink, about once a millisecond.
fn sample(span: Duration) -> io::Result<Waiting> {
    let plan = Plan {
        targets: vec![Target { device: OUT.into(), namespace: Namespace::Own }],
        method: Some(Method::Netlink),
        rate: None,
        children: true,
        bands: false,
        packets: false,
    };
    let mut source = weir_probe::open(&plan).map_err(io::Error::other)?.source;
    let mut tally = Tally::new();
    let began = Instant::now();
    while began.elapsed() < span {
        source.turn(&mut tally).map_err(io::Error::other)?;
        // The interval is not a multiple of the transmission time of a packet, 1.2 ms.
        std::thread::sleep(Duration::from_micros(970));
    }
    let queue = tally.queues().iter().find(|measured| measured.queue.kind == "pfifo");
    let queue = queue.ok_or_else(|| io::Error::other("the queue was not read"))?;
    let packets = |bytes: f64| bytes / (PACKET + 14) as f64;
    Ok(Waiting {
        mean: packets(queue.bytes().mean()),
        p99: packets(queue.bytes().quantile(0.99) as f64),
    })
}

/// The device with the queue.
const OUT: &str = "out";
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The router's addresses: on the sender's side, and on the receiver's side.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);
const PORT: u16 = 5001;
const MTU: u32 = 1500;
/// Bytes of the token bucket: one packet, so that a train is cut before it is queued.
const BURST: u32 = MTU + 114;
/// Bytes that may wait in the token bucket; its inner queue has its own limit.
const LIMIT: u32 = 10_000_000;
const WARM_UP: Duration = Duration::from_millis(1500);
/// How long the queue is sampled.
const SPAN: Duration = Duration::from_millis(1000);
/// The longest time to establish a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which a blocked thread checks whether it should stop.
const TURN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::may_make;

    #[test]
    fn the_kernels_queue_holds_packets_of_its_own_host() {
        if !may_make("the queue of the sending host") {
            return;
        }
        let case = Case { place: Place::EndHost, offload: false, flows: 1 };
        let waiting = run(&case).expect("a run");
        assert!(waiting.mean > 0.0 && waiting.p99 >= waiting.mean, "{waiting:?}");
        assert!(waiting.p99 <= f64::from(QUEUE), "{waiting:?}");
    }
}
