//! Link specifications and the files that they name: no text makes the parser panic, and each
//! printed specification parses to the same specification.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::spec::run(data));
