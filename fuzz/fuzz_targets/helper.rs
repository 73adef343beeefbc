//! Messages between Weir's processes, and the frames that reach the proxy: no bytes make a reader
//! panic, and an accepted message stays the same when it is sent again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::helper::run(data));
