//! Scripts: no text makes the parser panic, each printed command parses to the same command, and
//! formatting changes no meaning.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::script::run(data));
