//! Link specifications and the files they name: no text makes the parser panic, and printed
//! specifications parse to themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::spec::run(data));
