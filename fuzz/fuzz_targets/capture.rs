//! Packet captures and tables as traffic of a scenario: no bytes make a reader panic, and the times
//! of an accepted trace never decrease and its lengths are possible.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::capture::run(data));
