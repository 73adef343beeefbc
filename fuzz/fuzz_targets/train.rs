//! Any virtio-net header before any bytes: an accepted train is cut into valid packets, and a run
//! of several of these packets is a train that is cut into the same packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::train::run(data));
