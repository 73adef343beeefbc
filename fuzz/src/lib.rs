//! The bodies of the fuzz targets. A plain test runs them over their corpora too
//! (`crates/weir-cli/tests/it/corpus.rs`), without a nightly toolchain.

pub mod api;
pub mod capture;
pub mod engine;
pub mod frame;
pub mod helper;
pub mod netlink;
pub mod packets;
mod parts;
pub mod rig;
pub mod scenario;
pub mod script;
pub mod spec;
pub mod train;
