//! A flood of packets with spoofed addresses, for which the engine makes links on demand. The test
//! measures the memory of its process, so its binary contains no other test.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Rate, Rejected};

/// Bytes of anonymous memory in use; `None` if the system does not provide the number.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|k| k * 1024)
}

fn submit(emulator: &mut Emulator, now: Nanos, address: u32, len: u32) -> Result<(), Rejected> {
    let key = FlowKey { dst: address.into(), src_port: 80, ..FlowKey::default() };
    emulator.submit(
        now,
        Arrival { frame: address, len, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 },
        &key,
        Action::Pipe(1),
    )
}

/// Memory stays within the limit, existing customers lose no packet, and new customers are served
/// after the flood's links have expired.
#[test]
fn a_flood_of_spoofed_addresses_neither_grows_the_engine_nor_harms_existing_customers() {
    let limits = Limits { idle: Nanos::from_secs(2), instances: 10_000, ..Limits::default() };
    let mut emulator = Emulator::new(1, limits);
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(1_000_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
    emulator.set_pipe(
        Nanos::ZERO,
        1,
        &PipeConfig {
            link,
            queue: FlowsetConfig { mask, ..FlowsetConfig::default() },
            scheduler: None,
        },
    );
    let before = resident();
    let (mut out, mut now, mut refused) = (Vec::new(), Nanos::ZERO, 0u64);
    for number in 0..1_000_000u32 {
        now += Nanos(1_000);
        // One of the hundred customers sends a packet before each packet of the flood.
        submit(&mut emulator, now, number % 100, 1000).unwrap();
        refused += u64::from(submit(&mut emulator, now, 1_000 + number, 40).is_err());
        emulator.poll(now, &mut out);
        out.clear();
        assert!(emulator.instances() <= 10_000);
    }
    let counters = &emulator.stats(1).unwrap().counters;
    // The flood got the instances that the customers did not use.
    assert_eq!((refused, counters.total_drops()), (1_000_000 - 9_900, 1_000_000 - 9_900));
    assert!(
        emulator.instances_of(1, None, usize::MAX).filter(|i| i.key.dst < 100).all(|i| i
            .totals
            .packets
            == 10_000
            && i.totals.drops == 0)
    );
    // At most 2 KiB for each of the 10,000 links.
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after.saturating_sub(before) < 10_000 * 2048, "{} bytes", after - before);
    }
    now += Nanos::from_secs(5);
    emulator.poll(now, &mut out);
    assert_eq!(emulator.instances(), 0);
    submit(&mut emulator, now, 77_777, 1000).unwrap();
}
