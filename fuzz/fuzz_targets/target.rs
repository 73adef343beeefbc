//! Targets of attachments and the selections of their packets: no text makes a parser panic, and
//! each printed target parses to the same target.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::target::run(data));
