//! Any bytes as a frame: every function on headers returns, stays within the frame, and satisfies
//! its contract.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::frame::run(data));
