//! Answers of the kernel about interfaces, routes, addresses, queues and nftables: no bytes make a
//! reader panic, and a reader finds no more answers than fit into the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::netlink::run(data));
