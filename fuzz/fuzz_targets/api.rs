//! Bodies of `POST /v1/commands`: no body makes the daemon panic, a check changes nothing, and an
//! accepted configuration is the same after a restart.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::api::run(data));
