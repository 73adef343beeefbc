//! Any virtio-net header before any bytes: an accepted train is cut into valid packets, and a run
//! of several of these packets forms a train, which is cut into the same packets again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::train::run(data));
