//! Tests of several workers on one link: order, rates and accounting must equal those of one
//! worker.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowMask;
use weir_core::{Nanos, Rate};
use weir_linux::live::StopReason;

use super::{Kind, Net};

#[test]
fn flows_stay_in_order_and_each_instance_lives_on_one_worker() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    net.add_worker();
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(RATE).unwrap()),
        delay: Nanos::from_millis(5),
        ..LinkConfig::default()
    };
    // One instance for each destination port; the flows of an instance arrive at different workers.
    let mask = FlowMask { dst_port: u16::MAX, ..FlowMask::default() };
    let queue = FlowsetConfig {
        mask,
        limit: Some(QueueLimit::Packets(100_000)),
        ..FlowsetConfig::default()
    };
    let running = net.start(&PipeConfig { link, queue, scheduler: None }, |_| {});
    let bind =
        |port| net.within("b", move || UdpSocket::bind(("10.77.0.2", FIRST_PORT + port)).unwrap());
    let sockets: Vec<_> = (0..PORTS).map(bind).collect();
    let receivers: Vec<_> =
        sockets.into_iter().map(|socket| std::thread::spawn(move || receive(&socket))).collect();
    net.within("a", send);
    let mut flows = BTreeSet::new();
    for receiver in receivers {
        let (counts, took) = receiver.join().unwrap();
        assert!(
            counts.values().all(|&n| n == PACKETS_EACH),
            "every packet of every flow arrives once and in order: {counts:?}"
        );
        flows.extend(counts.into_keys());
        let bits = u64::from(FLOWS) / u64::from(PORTS)
            * (u64::from(PACKETS_EACH) - 1)
            * (SIZE as u64 + 28)
            * 8;
        let least = Duration::from_secs_f64(bits as f64 / RATE as f64 * 0.98);
        assert!(
            took >= least,
            "an instance is one link, not one for each worker: {took:?} instead of at least \
             {least:?}"
        );
    }
    assert_eq!(flows.len(), usize::from(FLOWS));
    let instances = running.handle.with_engines(|engine, _| engine.instances()).unwrap();
    assert!(instances.iter().all(|&n| n > 0), "both workers have instances: {instances:?}");
    let during = running.handle.report().unwrap();
    assert!(
        during
            .lanes
            .iter()
            .all(|lane| lane.counters.balanced() && lane.counters.backlog_packets < 1 << 32),
        "{:?}",
        during.lanes
    );
    let report = running.stop();
    assert_eq!((report.workers, report.stopped), (2, Some(StopReason::Asked)));
    let up = &report.lanes[0].counters;
    assert!(
        up.packets_in >= u64::from(FLOWS) * u64::from(PACKETS_EACH) && up.total_drops() == 0,
        "{up:?}"
    );
}

#[test]
fn workers_that_share_ports_receive_every_frame_once() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    net.add_worker();
    net.add_worker();
    let running = net.start(&PipeConfig::default(), |_| {});
    let sink = net.within("b", || UdpSocket::bind(("10.77.0.2", FIRST_PORT)).unwrap());
    sink.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    net.within("a", || {
        for _ in 0..90 {
            UdpSocket::bind("10.77.0.1:0")
                .unwrap()
                .send_to(b"one of ninety", ("10.77.0.2", FIRST_PORT))
                .unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for _ in 0..90 {
        sink.recv(&mut [0; 100]).unwrap();
    }
    sink.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(sink.recv(&mut [0; 100]).is_err(), "nothing arrives twice");
    let report = running.stop();
    assert_eq!((report.workers, report.lanes[0].counters.total_drops()), (3, 0));
}

/// Sends the packets of all flows in turn. Each packet contains its flow and number.
fn send() {
    let sockets: Vec<_> = (0..FLOWS).map(|_| UdpSocket::bind("10.77.0.1:0").unwrap()).collect();
    let mut data = [0; SIZE];
    // Resolve the neighbour first, because a kernel queues only a few packets until then. Nothing
    // answers on port 9: an ICMP error or the timeout ends the loop.
    let (first, mut answer) = (UdpSocket::bind("10.77.0.1:0").unwrap(), [0; 1]);
    first.connect("10.77.0.2:9").unwrap();
    first.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while first.send(&[0]).and_then(|_| first.recv(&mut answer)).is_ok() {}
    for number in 0..PACKETS_EACH {
        for (flow, socket) in (0u16..).zip(&sockets) {
            data[..2].copy_from_slice(&flow.to_be_bytes());
            data[2..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&data, ("10.77.0.2", FIRST_PORT + flow % PORTS)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Receives on a port until all flows are complete. Returns the number of packets of each flow, and
/// the time from the first to the last packet.
fn receive(socket: &UdpSocket) -> (BTreeMap<u16, u16>, Duration) {
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut counts = BTreeMap::new();
    let mut room = [0; SIZE];
    let mut first = None;
    for _ in 0..u32::from(FLOWS / PORTS) * u32::from(PACKETS_EACH) {
        socket.recv(&mut room).unwrap();
        first.get_or_insert_with(Instant::now);
        let (flow, number) =
            (u16::from_be_bytes([room[0], room[1]]), u16::from_be_bytes([room[2], room[3]]));
        let expected = counts.entry(flow).or_insert(0);
        assert_eq!(number, *expected, "flow {flow}");
        *expected += 1;
    }
    (counts, first.map(|at| at.elapsed()).unwrap_or_default())
}

const FIRST_PORT: u16 = 9000;
/// Number of destination ports, each with one instance: so many that it is practically impossible
/// for all instances to live on the same worker.
const PORTS: u16 = 20;
/// Number of flows, which are divided equally among the ports.
const FLOWS: u16 = 40;
const PACKETS_EACH: u16 = 150;
/// Bytes of payload of a packet.
const SIZE: usize = 500;
/// Bits per second of each instance.
const RATE: u64 = 2_500_000;
