//! Links with schedules, traces and profiles in the engine: any accepted link passes any arrivals
//! at any times, in finite work, and accounts for every packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::engine::run(data));
