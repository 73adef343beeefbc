//! The token buckets of a link and of a class keep their rates over ten seconds, at 400 and 800
//! Mbit/s.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::{Action, Arrival, Bytes, Emulator, Limits, Nanos, Rate};

/// Sends 1 Gbit/s in packets of 1500 bytes for ten seconds. Returns the rate of the departures in
/// bit/s.
fn carried(link: &LinkConfig, queue: &FlowsetConfig) -> f64 {
    let mut emulator = Emulator::new(1, Limits::default());
    let scheduler = SchedulerConfig { discipline: Kind::Htb.into(), ..SchedulerConfig::default() };
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler, link);
    emulator.set_queue(Nanos::ZERO, 1, 1, queue);
    let (mut out, mut bytes) = (Vec::new(), 0u64);
    for n in 0.. {
        let now = Nanos(u64::from(n) * 12_000);
        emulator.poll(now, &mut out);
        out.clear();
        if now >= Nanos::from_secs(SECONDS) {
            break;
        }
        let arrival = Arrival {
            frame: n,
            len: 1500,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        // An arrival at a full queue is dropped, as intended in an overload.
        let _ = emulator.submit(now, arrival, &FlowKey::default(), Action::Queue(1));
        bytes = emulator.stats(1).unwrap().counters.bytes_out;
    }
    bytes as f64 * 8.0 / SECONDS as f64
}

#[test]
fn link_and_class_keep_400_and_800_mbit_within_a_thousandth() {
    let limit = Some(QueueLimit::Packets(1000));
    for mbit in [400, 800] {
        let rate = Rate::new(mbit * 1_000_000).unwrap();
        let link = LinkConfig {
            capacity: Capacity::Constant(rate),
            burst: Bytes(50_000),
            ..LinkConfig::default()
        };
        let bucket = FlowsetConfig {
            limit,
            ceil: Some(rate),
            burst: Bytes(50_000),
            ..FlowsetConfig::default()
        };
        for (what, bps) in [
            ("the link", carried(&link, &FlowsetConfig { limit, ..FlowsetConfig::default() })),
            ("the class", carried(&LinkConfig::default(), &bucket)),
        ] {
            let off = bps / (mbit as f64 * 1e6) - 1.0;
            assert!(off.abs() < 0.001, "{what}: {:.3} Mbit/s of {mbit}", bps / 1e6);
        }
    }
}

const SECONDS: u64 = 10;
