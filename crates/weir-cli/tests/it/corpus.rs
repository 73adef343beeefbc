//! The inputs of the fuzz corpora, run without a fuzzer: a mended finding stays mended.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/api.rs"]
mod api;
#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/capture.rs"]
mod capture;
#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/engine.rs"]
mod engine;
#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/helper.rs"]
mod helper;
#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/netlink.rs"]
mod netlink;
#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/packets.rs"]
mod packets;

#[test]
fn bodies_of_the_api_are_answered_and_change_nothing() {
    replay("api", api::run);
}

#[test]
fn captures_and_tables_are_read_or_refused() {
    replay("capture", capture::run);
}

#[test]
fn links_with_schedules_account_for_every_packet() {
    replay("engine", engine::run);
}

#[test]
fn messages_of_helpers_are_read_or_refused() {
    replay("helper", helper::run);
}

#[test]
fn answers_of_the_kernel_are_read_or_refused() {
    replay("netlink", netlink::run);
}

#[test]
fn recordings_of_packets_are_replayed_or_refused() {
    replay("packets", packets::run);
}

/// Runs a target's body on each input of its corpus.
fn replay(target: &str, body: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs = fs::read_dir(&directory).expect("every target has a corpus").flatten();
    let mut count = 0;
    for path in inputs.map(|entry| entry.path()) {
        let data = fs::read(&path).expect("an input can be read");
        assert!(catch_unwind(|| body(&data)).is_ok(), "fuzz target {target}: {}", path.display());
        count += 1;
    }
    assert!(count > 0, "{} is empty", directory.display());
}
