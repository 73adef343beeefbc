//! Tests of the ports and the live loop with real network stacks on both sides, in namespaces made
//! for each test.

mod ports_net;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use ports_net::{Kind, Net, Running};
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::stats::DropReason;
use weir_core::{Nanos, Probability, Rate};
use weir_linux::arena::BufferPool;
use weir_linux::live::{
    ArrivalEvent, DepartureEvent, Gso, LiveEvent, LiveReport, Observer, Outcome, StopReason,
};
use weir_linux::port::{AnyPort, Fault, Message, PacketPort};
use weir_wire::builder::PacketBuilder;
use weir_wire::{Train, VnetHeader};

#[test]
fn a_round_trip_takes_both_delays() {
    for kind in [Kind::Packet, Kind::Tap] {
        let Some(mut net) = Net::new(kind) else { return };
        let delay = Nanos::from_millis(20);
        let link = net.start(&pipe(LinkConfig { delay, ..LinkConfig::default() }), |_| {});
        for (address, any) in [("10.77.0.2:7", "0.0.0.0:0"), ("[fd77::2]:7", "[::]:0")] {
            let echo = net.within("b", move || UdpSocket::bind(address).unwrap());
            let answer = std::thread::spawn(move || {
                let mut room = [0; 2000];
                let (len, from) = echo.recv_from(&mut room).unwrap();
                echo.send_to(&room[..len], from).unwrap();
            });
            let took = net.within("a", move || {
                let socket = client(any);
                let start = Instant::now();
                socket.send_to(b"are you there", address).unwrap();
                let mut room = [0; 2000];
                let len = socket.recv(&mut room).unwrap();
                assert_eq!(&room[..len], b"are you there");
                start.elapsed()
            });
            answer.join().unwrap();
            assert!(took >= Duration::from_millis(40), "{kind:?} {took:?}");
        }
        let report = link.stop();
        assert_eq!(report.stopped, Some(StopReason::Asked));
        assert!(
            report
                .lanes
                .iter()
                .all(|lane| lane.counters.total_drops() == 0 && lane.total_ns.min() >= delay.0)
        );
    }
}

#[test]
fn a_stream_arrives_intact_with_whole_and_with_cut_trains() {
    let slow = LinkConfig {
        capacity: Capacity::Constant(Rate::new(200_000_000).unwrap()),
        ..LinkConfig::default()
    };
    for (kind, link, gso) in [
        (Kind::Packet, LinkConfig::default(), Gso::Split),
        (Kind::Packet, LinkConfig::default(), Gso::Whole),
        (Kind::Packet, slow.clone(), Gso::Split),
        (Kind::Tap, LinkConfig::default(), Gso::Split),
        (Kind::Tap, LinkConfig::default(), Gso::Whole),
        (Kind::Tap, slow, Gso::Split),
    ] {
        let Some(mut net) = Net::new(kind) else { return };
        let running = net
            .start(&pipe(link), |config| config.lanes.iter_mut().for_each(|lane| lane.gso = gso));
        for address in ["10.77.0.2:5000", "[fd77::2]:5000"] {
            transfer(&net, address, 10_000_000);
        }
        let report = running.stop();
        let up = &report.lanes[0].counters;
        // A wire packet holds at most 1460 bytes of a TCP stream.
        assert!(up.packets_out >= 20_000_000 / 1460, "{kind:?} {gso:?} {up:?}");
        assert!(up.bytes_out <= up.packets_out * 1500, "{kind:?} {gso:?} {up:?}");
    }
}

#[test]
fn vlan_tags_pass_with_trains_behind_them() {
    let slow = LinkConfig {
        capacity: Capacity::Constant(Rate::new(10_000_000).unwrap()),
        ..LinkConfig::default()
    };
    for (kind, link) in [
        (Kind::Packet, LinkConfig::default()),
        (Kind::Packet, slow),
        (Kind::Tap, LinkConfig::default()),
    ] {
        let Some(mut net) = Net::new(kind) else { return };
        let running = net.start(&pipe(link), |_| {});
        let mut sink = net.within("b", || AnyPort::from(PacketPort::open("x0").unwrap()));
        let payload: Vec<u8> = (0..14_000u32).map(|i| (i % 251) as u8).collect();
        let packet = PacketBuilder::tcp([10, 77, 0, 1], [10, 77, 0, 2], 1000, 2000)
            .vlan(5)
            .payload(payload.clone());
        let (vnet, train) = packet.train(1400);
        net.within("a", move || {
            let mut port = AnyPort::from(PacketPort::open("x0").unwrap());
            assert_eq!(
                port.send(&[Message { vnet: vnet.encode(), head: &train, payload: &[] }]),
                (1, None)
            );
        });
        let mut arrived = Vec::new();
        let (mut pool, mut frames) = (BufferPool::default(), Vec::new());
        let end = Instant::now() + Duration::from_secs(10);
        while arrived.len() < payload.len() {
            assert!(Instant::now() < end, "{kind:?}: {} bytes arrived", arrived.len());
            sink.receive(&mut pool, &mut frames).unwrap();
            for frame in frames.drain(..) {
                let mut bytes = frame.buffer.bytes()[frame.start..frame.start + frame.len].to_vec();
                let parsed = weir_wire::parse(&bytes).unwrap();
                if parsed.vlan != 5 || parsed.protocol != 6 {
                    continue;
                }
                let mut vnet = VnetHeader::decode(&frame.vnet);
                if vnet.gso_type == 0 {
                    vnet.complete(&mut bytes).unwrap();
                    assert!(verified(&bytes));
                } else {
                    Train::plan(&bytes, &vnet, &parsed).unwrap();
                }
                arrived.extend_from_slice(&bytes[parsed.payload().unwrap()..parsed.network_end()]);
            }
        }
        assert_eq!(arrived, payload, "{kind:?}");
        assert!(running.stop().lanes[0].counters.packets_out >= 10);
    }
}

#[test]
fn captured_packets_are_as_on_the_wire() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let (seen, frames) = channel();
    let running = net.start(&pipe(LinkConfig::default()), |config| {
        config.observer = Some(Box::new(Watcher(seen)));
    });
    transfer(&net, "10.77.0.2:5000", 2_000_000);
    let report = running.stop();
    let frames: Vec<Vec<u8>> = frames.try_iter().collect();
    let out: u64 = report.lanes.iter().map(|lane| lane.counters.packets_out).sum();
    assert_eq!(frames.len() as u64, out);
    assert!(frames.iter().all(|frame| frame.len() <= 1514 && verified(frame)));
}

#[test]
fn a_slow_observer_delays_no_packet_and_sees_them_all() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let (seen, frames) = channel();
    let running = net.start(&pipe(LinkConfig::default()), |config| {
        config.observer = Some(Box::new(Slow(Watcher(seen))));
    });
    let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
    let began = Instant::now();
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        for _ in 0..10 {
            socket.send_to(&[7; 100], "10.77.0.2:9").unwrap();
        }
    });
    (0..10).for_each(|_| assert_eq!(receive(&sink), Some(100)));
    let took = began.elapsed();
    let report = running.stop();
    assert!(took < Duration::from_secs(1), "ten packets took {took:?}");
    let out: u64 = report.lanes.iter().map(|lane| lane.counters.packets_out).sum();
    assert_eq!((frames.try_iter().count() as u64, report.unobserved), (out, 0));
}

#[test]
fn a_frame_above_the_far_mtu_is_dropped_and_counted() {
    for kind in [Kind::Packet, Kind::Tap] {
        let Some(mut net) = Net::new(kind) else { return };
        net.ip("a", &["link", "set", "x0", "mtu", "9000"]);
        if kind == Kind::Packet {
            net.ip("e", &["link", "set", "ea", "mtu", "9000"]);
        }
        let running = net.start(&pipe(LinkConfig::default()), |_| {});
        let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
        net.within("a", || {
            let socket = client("0.0.0.0:0");
            socket.send_to(&[7; 100], "10.77.0.2:9").unwrap();
            socket.send_to(&[7; 5000], "10.77.0.2:9").unwrap();
            socket.send_to(&[7; 1000], "10.77.0.2:9").unwrap();
        });
        assert_eq!((receive(&sink), receive(&sink)), (Some(100), Some(1000)));
        let report = running.stop();
        assert_eq!(report.lanes[0].counters.drops(DropReason::TooLong), 1, "{kind:?}");
    }
}

#[test]
fn jumbo_frames_pass_where_the_mtu_allows() {
    for kind in [Kind::Packet, Kind::Tap] {
        let Some(mut net) = Net::new(kind) else { return };
        for side in ["a", "b"] {
            net.ip(side, &["link", "set", "x0", "mtu", "9000"]);
        }
        if kind == Kind::Packet {
            for name in ["ea", "eb"] {
                net.ip("e", &["link", "set", name, "mtu", "9000"]);
            }
        }
        let running = net.start(&pipe(LinkConfig::default()), |_| {});
        let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
        net.within("a", || client("0.0.0.0:0").send_to(&[7; 8900], "10.77.0.2:9").unwrap());
        assert_eq!(receive(&sink), Some(8900), "{kind:?}");
        transfer(&net, "10.77.0.2:5000", 3_000_000);
        running.stop();
    }
}

#[test]
fn an_interface_deleted_under_traffic_ends_the_run_and_the_accounting_balances() {
    for kind in [Kind::Packet, Kind::Tap] {
        let Some(mut net) = Net::new(kind) else { return };
        let running = net.start(
            &pipe(LinkConfig { delay: Nanos::from_millis(2), ..LinkConfig::default() }),
            |_| {},
        );
        let sender = net.spawn("a", || {
            let socket = client("0.0.0.0:0");
            // The number of packets is bounded, and the pause bounds their rate. Sending ends early
            // when the link is gone.
            (0..20_000)
                .take_while(|_| {
                    std::thread::sleep(Duration::from_micros(20));
                    socket.send_to(&[1; 500], "10.77.0.2:9").is_ok()
                })
                .count()
        });
        wait_for(&running, |report| report.lanes[0].counters.packets_out > 200);
        net.ip("b", &["link", "del", "x0"]);
        let report = running.wait();
        assert_eq!(
            report.stopped,
            Some(StopReason::PortVanished(1)),
            "{kind:?} {:?}",
            report.events
        );
        assert!(
            report.events.iter().any(|event| event.port == 1 && event.fault == Fault::Vanished)
        );
        net.ip("a", &["link", "set", "lo", "down"]);
        sender.join().unwrap();
    }
}

#[test]
fn an_interface_that_is_down_is_reported_and_works_again_when_up() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let running = net.start(&pipe(LinkConfig::default()), |_| {});
    let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
    // Each time that the interface goes down is a separate event.
    for times in 1..=2 {
        net.ip("e", &["link", "set", "eb", "down"]);
        net.within("a", || client("0.0.0.0:0").send_to(&[1; 10], "10.77.0.2:9").unwrap());
        wait_for(&running, |report| {
            let down = |event: &&LiveEvent| event.port == 1 && event.fault == Fault::Down;
            report.events.iter().filter(down).count() == times
        });
        net.ip("e", &["link", "set", "eb", "up"]);
        let size = 20 + times;
        net.within("a", move || {
            let socket = client("0.0.0.0:0");
            for _ in 0..5 {
                socket.send_to(&[1; 30][..size], "10.77.0.2:9").unwrap();
            }
        });
        while receive(&sink).expect("a datagram arrives") != size {}
    }
    running.stop();
}

#[test]
fn hostile_frames_neither_stop_the_loop_nor_break_the_accounting() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let running = net.start(&pipe(LinkConfig::default()), |config| {
        config.observer = Some(Box::new(Watcher(channel().0)));
    });
    let sent = net.within("a", || {
        let mut port = AnyPort::from(PacketPort::open("x0").unwrap());
        let mut state = 1u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let types = [[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0], [0x88, 0xa8], [0, 1]];
        let mut taken = 0;
        for round in 0..3000 {
            let len = 14 + random() % if round % 10 == 0 { 1500 } else { 80 };
            let mut frame: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            frame[12..14].copy_from_slice(&types[random() % types.len()]);
            if len > 14 && random() % 2 == 0 {
                frame[14] = [0x45, 0x60, 0x4f, 0x41][random() % 4];
            }
            let mut vnet = [0; 10];
            if random() % 3 == 0 {
                vnet = std::array::from_fn(|_| random() as u8);
                (vnet[0], vnet[1]) = (vnet[0] & 1, [0, 1, 4, 5][random() % 4]);
            }
            taken += port.send(&[Message { vnet, head: &frame, payload: &[] }]).0;
        }
        taken
    });
    assert!(sent > 1000, "{sent}");
    transfer(&net, "10.77.0.2:5000", 100_000);
    let report = running.stop();
    assert!(report.lanes[0].counters.packets_in > 1000);
}

#[test]
fn an_inverted_bit_is_seen_by_the_receiver() {
    for kind in [Kind::Packet, Kind::Tap] {
        let Some(mut net) = Net::new(kind) else { return };
        let running = net.start(&pipe(LinkConfig::default()), |_| {});
        let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
        // This resolves the neighbour before any packet is corrupted.
        net.within("a", || client("0.0.0.0:0").send_to(&[1; 10], "10.77.0.2:9").unwrap());
        assert_eq!(receive(&sink), Some(10));
        let corrupt = LinkConfig { corrupt: Probability::ONE, ..LinkConfig::default() };
        running.handle.set_pipe(1, &pipe(corrupt)).unwrap();
        net.within("a", || {
            let socket = client("0.0.0.0:0");
            // All datagrams must fit into the socket's buffer, because the kernel verifies their
            // checksums only when they are read.
            for _ in 0..50 {
                socket.send_to(&[1; 300], "10.77.0.2:9").unwrap();
            }
        });
        settle(&running, 50);
        running.handle.set_pipe(1, &pipe(LinkConfig::default())).unwrap();
        assert!(running.handle.report().unwrap().lanes[0].counters.corrupted >= 50);
        net.within("a", || client("0.0.0.0:0").send_to(&[1; 20], "10.77.0.2:9").unwrap());
        let next = receive(&sink);
        assert_eq!(
            next,
            Some(20),
            "{kind:?}: a corrupted datagram arrived, or no datagram: {:?}",
            running.handle.report()
        );
        running.stop();
    }
}

#[test]
fn duplication_delivers_packets_twice_and_keeps_streams_intact() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let running = net
        .start(&pipe(LinkConfig { duplicate: Probability::ONE, ..LinkConfig::default() }), |_| {});
    let sink = net.within("b", || UdpSocket::bind("10.77.0.2:9").unwrap());
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        for i in 0..50u8 {
            socket.send_to(&[i; 100], "10.77.0.2:9").unwrap();
        }
    });
    let mut counts = [0; 50];
    let mut room = [0; 200];
    for _ in 0..100 {
        sink.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        sink.recv(&mut room).unwrap();
        counts[usize::from(room[0])] += 1;
    }
    assert_eq!(counts, [2; 50]);
    transfer(&net, "10.77.0.2:5000", 1_000_000);
    let report = running.stop();
    assert!(report.lanes[0].counters.duplicated > 700);
}

#[test]
fn corrupted_duplicated_and_lost_segments_of_trains_leave_streams_intact() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let some = Probability::new(0.01).unwrap();
    let link = LinkConfig {
        duplicate: some,
        corrupt: some,
        loss: Loss::Bernoulli(some),
        ..LinkConfig::default()
    };
    let running = net.start(&pipe(link), |_| {});
    transfer(&net, "10.77.0.2:5000", 2_000_000);
    let report = running.stop();
    let up = &report.lanes[0].counters;
    assert!(
        up.corrupted > 0 && up.duplicated > 0 && up.drops(DropReason::LossOnLink) > 0,
        "{up:?}"
    );
}

#[test]
fn a_full_memory_drops_with_its_own_reason() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    let slow = LinkConfig { delay: Nanos::from_millis(200), ..LinkConfig::default() };
    let running = net.start(&pipe(slow), |config| config.memory = 64 * 1024);
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        // 255 is the broadcast address, which needs no neighbour resolution.
        socket.set_broadcast(true).unwrap();
        for _ in 0..100 {
            socket.send_to(&[1; 100], "10.77.0.255:9").unwrap();
        }
    });
    wait_for(&running, |report| report.lanes[0].counters.packets_in >= 100);
    let report = running.stop();
    // 64 KiB hold at most 32 small buffers of 2 KiB.
    assert!(
        report.lanes[0].counters.drops(DropReason::NoMemory) >= 68,
        "{:?}",
        report.lanes[0].counters
    );
}

#[test]
fn a_handle_stops_the_loop_and_then_has_no_answer() {
    let Some(mut net) = Net::new(Kind::Tap) else { return };
    let running = net.start(&pipe(LinkConfig::default()), |_| {});
    let handle = running.handle.clone();
    assert!(handle.engine_stats(1).unwrap().is_some());
    assert!(handle.engine_stats(9).unwrap().is_none());
    handle.stop().unwrap();
    assert_eq!(running.wait().stopped, Some(StopReason::Asked));
    assert!(handle.report().is_err());
}

/// An observer that passes every delivered frame to the test.
pub(crate) struct Watcher(pub(crate) Sender<Vec<u8>>);

impl Observer for Watcher {
    fn wants_frames(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        assert!(event.segments > 0 && event.frame.len() >= 14);
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        if matches!(event.outcome, Outcome::Delivered { .. }) {
            // This fails if the test no longer listens.
            let _ = self.0.send(event.frame.to_vec());
        }
    }
}

/// An observer that takes a tenth of a second for each packet.
struct Slow(Watcher);

impl Observer for Slow {
    fn wants_frames(&self) -> bool {
        true
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        std::thread::sleep(Duration::from_millis(100));
        self.0.on_departure(event);
    }
}

fn pipe(link: LinkConfig) -> PipeConfig {
    PipeConfig {
        link,
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(5000)), ..FlowsetConfig::default() },
        scheduler: None,
    }
}

/// A UDP socket with the local address `any`, which waits at most five seconds.
pub(crate) fn client(any: &str) -> UdpSocket {
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// The length of the next datagram; `None` when none arrives within five seconds.
pub(crate) fn receive(socket: &UdpSocket) -> Option<usize> {
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    loop {
        match socket.recv(&mut [0; 10_000]) {
            Ok(len) => return Some(len),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends `len` bytes over TCP from A to B and compares them.
pub(crate) fn transfer(net: &Net, address: &'static str, len: usize) {
    let byte = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    let listener = net.within("b", move || TcpListener::bind(address).unwrap());
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut all = Vec::with_capacity(len);
        stream.read_to_end(&mut all).unwrap();
        all
    });
    net.within("a", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let data: Vec<u8> = (0..len).map(byte).collect();
        stream.write_all(&data).unwrap();
    });
    let all = reader.join().unwrap();
    assert!(
        all.len() == len && all.iter().enumerate().all(|(i, &b)| b == byte(i)),
        "{} of {len} bytes arrived intact",
        all.len()
    );
}

/// Waits until the report of the loop satisfies `what`; more than ten seconds is a failure.
pub(crate) fn wait_for(running: &Running, mut what: impl FnMut(&LiveReport) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !what(&running.handle.report().unwrap()) {
        assert!(
            Instant::now() < end,
            "the report is not as expected: {:?}",
            running.handle.report()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until at least `packets` have arrived on the lane up, no more arrive, and none is inside.
pub(crate) fn settle(running: &Running, packets: u64) {
    let mut before = 0;
    wait_for(running, |report| {
        let now = &report.lanes[0].counters;
        let still = now.packets_in == std::mem::replace(&mut before, now.packets_in);
        still && now.packets_in >= packets && now.backlog_packets == 0
    });
}

/// Whether a frame's IPv4 header and transport checksums are correct (a frame without them counts
/// as correct).
pub(crate) fn verified(frame: &[u8]) -> bool {
    let parsed = weir_wire::parse(frame).unwrap();
    weir_wire::checksum::verify_ipv4_header(frame, &parsed) != Some(false)
        && weir_wire::checksum::verify_transport(frame, &parsed) != Some(false)
}
