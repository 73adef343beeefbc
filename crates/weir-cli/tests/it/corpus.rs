//! The inputs of the fuzz corpora, run without a fuzzer, so that a fixed defect does not return.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[expect(unreachable_pub, reason = "the fuzz targets use it from another crate")]
#[path = "../../../../fuzz/src/lib.rs"]
mod bodies;

use bodies::{
    api, capture, engine, frame, helper, netlink, packets, rig, scenario, script, spec, target,
    train,
};

#[test]
fn bodies_of_api_requests_are_executed_or_refused() {
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

#[test]
fn frames_are_read_and_marked_inside_their_bounds() {
    replay("frame", frame::run);
}

#[test]
fn trains_are_cut_into_valid_packets_or_refused() {
    replay("train", train::run);
}

#[test]
fn specifications_are_printed_as_they_are_read() {
    replay("spec", spec::run);
}

#[test]
fn targets_of_attachments_are_printed_as_they_are_read() {
    replay("target", target::run);
}

#[test]
fn scripts_are_printed_and_formatted_as_they_are_read() {
    replay("script", script::run);
}

#[test]
fn scenarios_are_built_or_refused() {
    replay("scenario", scenario::run);
}

#[test]
fn plans_of_the_rig_run_to_their_end_or_are_refused() {
    replay("rig", rig::run);
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
