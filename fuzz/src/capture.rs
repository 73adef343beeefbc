//! Packet captures and tables as traffic of a scenario: no bytes make a reader panic, and an
//! accepted trace has times that never decrease and only possible lengths.

use weir_sim::traffic::replay::Trace;

/// The bytes are read as a capture (pcap or pcapng) and, if they are text, also as a table.
pub fn run(data: &[u8]) {
    let capture = Trace::capture(data);
    let table = std::str::from_utf8(data).ok().map(Trace::csv);
    for trace in [Some(capture), table].into_iter().flatten().flatten() {
        let packets = trace.packets();
        assert!(!packets.is_empty());
        assert!(packets.is_sorted_by_key(|&(time, _)| time), "{packets:?}");
        assert!(packets.iter().all(|&(_, len)| (20..=65_535).contains(&len)), "{packets:?}");
    }
}
