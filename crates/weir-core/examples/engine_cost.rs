//! Passes packets through one or many links, for instruction counts: `valgrind --tool=callgrind engine_cost LINKS PACKETS`.
//!
//! The difference between two numbers of packets, divided by it, is the cost of one. A third argument `impaired` gives each
//! link loss and jitter. Prints the packets that left, and the nanoseconds a packet took on average and in the fastest of
//! [`PARTS`] parts of the run, which is the cost without what else the machine did.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use weir_core::config::{Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Probability, Rate};

/// Parts of a run that are timed each for itself.
const PARTS: u32 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<u32>().ok()).filter(|&n| n > 0);
    let impaired = arguments.get(2).map(String::as_str);
    let (Some(links), Some(packets), None | Some("impaired")) = (number(0), number(1), impaired) else {
        eprintln!("usage: engine_cost LINKS PACKETS [impaired]");
        return ExitCode::from(2);
    };
    let mask = if links == 1 { FlowMask::default() } else { FlowMask { dst_ip: u32::MAX, ..FlowMask::default() } };
    let queue = FlowsetConfig { mask, limit: Some(QueueLimit::Packets(100)), ..FlowsetConfig::default() };
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link: link(links, impaired.is_some()), queue });
    let (mut out, mut now, mut left, mut fastest) = (Vec::new(), 0, 0, f64::INFINITY);
    let start = Instant::now();
    for part in 0..PARTS {
        let (from, to) = (share(packets, part), share(packets, part + 1));
        let start = Instant::now();
        for n in from..to {
            now += 10_000;
            // A permutation, so that neighbours in time are not neighbours in memory.
            let customer = n.wrapping_mul(2_654_435_761) % links;
            let key = FlowKey { dst: customer.into(), ..FlowKey::default() };
            let arrival = Arrival { frame: n, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct };
            emulator.poll(Nanos(now), &mut out);
            let _ = emulator.submit(Nanos(now), arrival, &key, Action::Pipe(1));
            left += out.len();
            out.clear();
        }
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / f64::from(to - from));
    }
    let mean = start.elapsed().as_nanos() as f64 / f64::from(packets);
    println!("{left} packets left, {mean:.1} ns each, {fastest:.1} ns in the fastest part");
    ExitCode::SUCCESS
}

/// One of `links` links that share 1 Gbit/s, with 10 ms of delay.
fn link(links: u32, impaired: bool) -> LinkConfig {
    let capacity = Rate::new(1_000_000_000 / u64::from(links)).map_or(Capacity::Unlimited, Capacity::Constant);
    let plain = LinkConfig { capacity, delay: Nanos::from_millis(10), ..LinkConfig::default() };
    if !impaired {
        return plain;
    }
    let distribution = Arc::new(Distribution::normal());
    let jitter = Jitter { amount: Nanos::from_millis(1), distribution, correlation: Probability::ZERO, may_reorder: false };
    LinkConfig { jitter: Some(jitter), loss: Probability::new(0.01).map_or(Loss::None, Loss::Bernoulli), ..plain }
}

/// Where part `part` of `packets` begins.
fn share(packets: u32, part: u32) -> u32 {
    (u64::from(packets) * u64::from(part) / u64::from(PARTS)) as u32
}
