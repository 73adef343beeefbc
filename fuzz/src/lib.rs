//! The bodies of those fuzz targets that a plain test also runs over their corpora
//! (`crates/weir-cli/tests/it/corpus`), without a nightly toolchain.

pub mod api;
pub mod capture;
pub mod engine;
pub mod helper;
pub mod netlink;
pub mod packets;
