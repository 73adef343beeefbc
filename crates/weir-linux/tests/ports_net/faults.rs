//! Faults that a loop must survive without using the processor, or must end with.

use std::time::{Duration, Instant};

use weir_core::config::PipeConfig;
use weir_core::stats::DropReason;
use weir_linux::live::Spin;

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
    // The loop tries a frame again for 10 ms, and then has nothing to send. A frame of the kernel's
    // own may follow; a loop that keeps trying never has a quiet time.
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
        assert!(thread.join().is_err(), "the panic of a worker is one of the loop");
    }
}

/// How often the thread of the first worker has gone to sleep.
fn sleeps(running: &Running) -> u64 {
    let path = format!("/proc/self/task/{}/status", running.number);
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// The longest wait for anything, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);
