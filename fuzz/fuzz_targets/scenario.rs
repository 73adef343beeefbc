//! Scenario files: no text makes the parser or a change of a key panic, and a small scenario that
//! can be built runs to its end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::scenario::run(data));
