//! Recordings of packets: no bytes make a replay panic, and an accepted recording accounts for
//! every packet.

use weir_core::config::QueueLimit;
use weir_measure::packets::{Decoder, ENTRY, Head};
use weir_rig::Manager;
use weir_rig::replay::{Link, Recording, ReplayError, replay};

/// The bytes are a recording.
pub fn run(data: &[u8]) {
    entries(data);
    let managers = ["none", "codel", "fq_codel"].map(|name| Manager::parse(name).expect("a name"));
    let link = |_: &Head| Ok::<_, ReplayError>(Link::new(1_000_000, 3000, QueueLimit::Packets(20)));
    let Ok(result) = replay(&Recording::Bytes(data.to_vec()), &managers, 1, link) else { return };
    for row in &result.rows {
        let all = row.delivered + row.dropped + row.left + row.unknown;
        assert_eq!(all, result.content.packets, "{}", row.name);
        assert_eq!(row.delay_ns.count, row.delivered, "{}", row.name);
    }
}

/// Reads entries even after an error, although no caller does this.
fn entries(data: &[u8]) {
    let line = data.iter().position(|&byte| byte == b'\n').map_or(data.len(), |at| at + 1);
    let Ok((_, mut decoder)) = Decoder::begin(&data[..line]) else { return };
    for part in data[line..].as_chunks::<ENTRY>().0 {
        // An invalid entry is an error, never a panic.
        let _ = decoder.entry(part);
    }
    let _ = decoder.finish();
}
