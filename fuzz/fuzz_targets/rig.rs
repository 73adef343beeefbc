//! The scheduler rig's inputs: flow sets, algorithms, backlogs and traces. No text makes a parser
//! panic, each printed value parses to the same value, and an accepted small plan runs to its end.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::rig::run(data));
