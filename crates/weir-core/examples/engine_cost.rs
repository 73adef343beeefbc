//! Passes packets through one or many links, for instruction counts: `valgrind --tool=callgrind engine_cost LINKS PACKETS`.
//!
//! The difference between two numbers of packets, divided by it, is the cost of one. Prints the packets that left, and the
//! nanoseconds of CPU time a packet took.

use std::process::ExitCode;
use std::time::Instant;

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Rate};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u32>().ok());
    let (Some(Some(links)), Some(Some(packets))) = (numbers.next(), numbers.next()) else {
        eprintln!("usage: engine_cost LINKS PACKETS");
        return ExitCode::from(2);
    };
    let mask = if links == 1 { FlowMask::default() } else { FlowMask { dst_ip: u32::MAX, ..FlowMask::default() } };
    let rate = Rate::new(1_000_000_000 / u64::from(links.max(1))).map_or(Capacity::Unlimited, Capacity::Constant);
    let link = LinkConfig { capacity: rate, delay: Nanos::from_millis(10), ..LinkConfig::default() };
    let queue = FlowsetConfig { mask, limit: Some(QueueLimit::Packets(100)), ..FlowsetConfig::default() };
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue });
    let (mut out, mut now, mut left) = (Vec::new(), 0, 0);
    let start = Instant::now();
    for n in 0..packets {
        now += 10_000;
        let customer = n.wrapping_mul(2_654_435_761) % links.max(1);
        let key = FlowKey { dst: customer.into(), ..FlowKey::default() };
        let arrival = Arrival { frame: n, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct };
        emulator.poll(Nanos(now), &mut out);
        let _ = emulator.submit(Nanos(now), arrival, &key, Action::Pipe(1));
        left += out.len();
        out.clear();
    }
    println!("{left} packets left, {:.1} ns each", start.elapsed().as_nanos() as f64 / f64::from(packets));
    ExitCode::SUCCESS
}
