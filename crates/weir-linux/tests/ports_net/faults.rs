//! Tests of faults: ports that accept no frame, refused netlink requests, and workers that panic.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use weir_core::config::PipeConfig;
use weir_core::stats::DropReason;
use weir_linux::live::Spin;
use weir_linux::netlink::Netlink;
use weir_linux::port::{AnyPort, Message, PacketPort, SendError};

use super::{Kind, Net, Running};
use crate::{client, wait_for};

#[test]
fn a_port_that_accepts_no_frame_lets_the_loop_sleep() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    // While the far end of the veth pair is down, the kernel has no buffer for any frame.
    net.ip("b", &["link", "set", "x0", "down"]);
    let running = net.start(&PipeConfig::default(), |config| config.spin = Spin::Off);
    net.within("a", || client("0.0.0.0:0").send_to(&[1; 100], "10.77.0.2:4000").unwrap());
    wait_for(&running, |report| report.lanes[0].counters.drops(DropReason::SendFailed) > 0);
    // The loop tries a frame again for 10 ms, and then has nothing to send, unless the kernel sends
    // a frame of its own. A loop that keeps trying is never quiet.
    let end = Instant::now() + PATIENCE;
    loop {
        let before = sleeps(&running);
        std::thread::sleep(Duration::from_millis(200));
        let count = sleeps(&running) - before;
        if count < 40 {
            break;
        }
        assert!(Instant::now() < end, "the loop has slept {count} times in 200 ms");
    }
    running.stop();
}

#[test]
fn frames_without_a_kernel_buffer_are_counted_and_later_frames_pass() {
    let Some(mut net) = Net::new(Kind::Packet) else { return };
    // While the far end of the veth pair is down, `sendmmsg` fails with ENOBUFS.
    net.ip("b", &["link", "set", "x0", "down"]);
    let mut probe = net.within("e", || AnyPort::from(PacketPort::open("eb").unwrap()));
    let refused = probe.send(&[Message { vnet: [0; 10], head: &[0; 60], payload: &[] }]);
    assert_eq!(refused, (0, Some(SendError::Busy)));
    let running = net.start(&PipeConfig::default(), |_| {});
    net.within("a", || {
        let socket = client("0.0.0.0:0");
        // The broadcast address needs no neighbour resolution.
        socket.set_broadcast(true).unwrap();
        for _ in 0..BURST {
            socket.send_to(&[1; 100], "10.77.0.255:4000").unwrap();
        }
    });
    wait_for(&running, |report| {
        let up = &report.lanes[0].counters;
        up.drops(DropReason::SendFailed) >= BURST && up.backlog_packets == 0 && up.balanced()
    });
    net.ip("b", &["link", "set", "x0", "up"]);
    let sink = net.within("b", || client("0.0.0.0:4000"));
    let end = Instant::now() + PATIENCE;
    sink.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    loop {
        net.within("a", || {
            let socket = client("0.0.0.0:0");
            socket.set_broadcast(true).unwrap();
            socket.send_to(&[2; 100], "10.77.0.255:4000").unwrap();
        });
        if sink.recv(&mut [0; 200]).is_ok() {
            break;
        }
        assert!(Instant::now() < end, "nothing passes after the interface is up again");
    }
    assert_eq!(running.stop().events, [], "a lack of buffers is no fault of the port");
}

#[test]
fn a_refused_netlink_request_names_its_step_and_the_next_one_works() {
    let Some(net) = Net::new(Kind::Packet) else { return };
    net.within("a", || {
        let mut netlink = Netlink::open().unwrap();
        let index = netlink.link("x0").unwrap().index;
        let here = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        let mac = [2, 0, 0, 0, 0, 9];
        let taken =
            netlink.create_veth(("x0", 0), "far", here.as_fd(), mac, 1500).expect_err("x0 exists");
        let small = netlink.set_link(index, mac, 1).expect_err("an MTU of 1 is too small");
        let missing = netlink.set_up(NO_INDEX).expect_err("there is no such interface");
        let route = netlink
            .add_default_route(index, "192.0.2.1".parse().unwrap())
            .expect_err("that gateway cannot be reached");
        for (error, errno, word) in [
            (taken, libc::EEXIST, "x0, far"),
            (small, libc::EINVAL, "MTU of 1"),
            (missing, libc::ENODEV, "switch interface"),
            (route, libc::ENETUNREACH, "192.0.2.1"),
        ] {
            assert_eq!(error.source.raw_os_error(), Some(errno), "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
        // The answers to refused requests do not disturb later requests.
        assert_eq!(netlink.link("x0").unwrap().index, index);
        netlink.set_up(index).unwrap();
    });
}

#[test]
fn a_worker_that_panics_ends_the_other_workers() {
    for is_second in [false, true] {
        let Some(mut net) = Net::new(Kind::Packet) else { return };
        net.add_worker();
        let mut running = net.start(&PipeConfig::default(), |_| {});
        // Workers that did not panic may have ended before they answer.
        let _ = running.handle.with_engines(move |_, _| {
            let name = std::thread::current().name().map(str::to_owned);
            let panics = (name.as_deref() == Some("weir-link-1")) == is_second;
            assert!(!panics, "this test makes worker {name:?} panic");
        });
        let thread = running.thread.take().unwrap();
        let end = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            assert!(Instant::now() < end, "the worker that did not panic still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(thread.join().is_err(), "a worker's panic is a panic of the loop");
    }
}

/// How often the thread of the first worker has gone to sleep.
fn sleeps(running: &Running) -> u64 {
    let path = format!("/proc/self/task/{}/status", running.thread_id);
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

const BURST: u64 = 20;
const NO_INDEX: u32 = 1 << 30;
/// The longest wait for an event, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);
