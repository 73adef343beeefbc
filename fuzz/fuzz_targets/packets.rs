//! Recordings of packets: no bytes make a replay panic, and an accepted recording accounts for
//! every packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::packets::run(data));
