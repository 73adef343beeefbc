//! Measures how many packets through the bottleneck of the experiment `s10` are simulated per
//! second of processor time. Usage:
//! `sim_s10 [congestion control] [queue] [simulated seconds] [no-device]`. The queue is `none` or
//! an AQM in the syntax of `weir rig --aqm`. A device that holds one packet follows the queue;
//! `no-device` removes this device.

use weir_experiments::s10;
use weir_rules::manager::Manager;

fn main() {
    let mut args = std::env::args().skip(1);
    let control = args.next().unwrap_or_else(|| "cubic".to_owned());
    let queue = args.next().unwrap_or_else(|| "fq_codel limit=1000".to_owned());
    let seconds = args.next().and_then(|n| n.parse().ok()).unwrap_or(600);
    let device = args.next().is_none();
    let manager = Manager::parse(&queue).unwrap_or_else(|error| panic!("{error}"));
    let start = on_processor();
    let m = s10::measure(&control, &manager, false, device, 1, seconds);
    let spent = on_processor() - start;
    println!(
        "{control}, {queue}: {} packets, {} events, {spent:.3} s: {:.2} million packets and {:.2} \
         million events a processor-second; {m:?}",
        m.packets,
        m.events,
        m.packets as f64 / spent / 1e6,
        m.events as f64 / spent / 1e6
    );
}

/// Processor time that the main thread has used, in seconds.
fn on_processor() -> f64 {
    let stat =
        std::fs::read_to_string("/proc/self/schedstat").expect("this example needs Linux's /proc");
    stat.split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .expect("its first number is in nanoseconds")
        / 1e9
}
