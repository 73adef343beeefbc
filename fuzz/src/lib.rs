//! The bodies of the fuzz targets. An ordinary test (`crates/weir-cli/tests/it/corpus.rs`) also
//! runs them over their corpora; it needs no nightly toolchain.

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
pub mod target;
pub mod train;
