//! Packet captures and tables as traffic of a scenario: no bytes make a reader panic, and an
//! accepted trace has times that never decrease and only possible lengths.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::capture::run(data));
