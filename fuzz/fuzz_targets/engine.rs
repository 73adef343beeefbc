//! Links with schedules, traces and profiles in the engine: an accepted link handles arrivals at
//! any time with finite work, and accounts for every packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::engine::run(data));
