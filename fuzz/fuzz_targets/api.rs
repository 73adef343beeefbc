//! Bodies of `POST /v1/commands`: no body makes the daemon panic, a check changes nothing, and a
//! configuration that was accepted is read back as the same one after a restart.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::api::run(data));
