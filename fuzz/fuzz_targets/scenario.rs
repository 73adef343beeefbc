//! Scenario files: no text makes the parser or a change of a key panic, an accepted scenario can be
//! built, and a small one can be run.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::scenario::run(data));
