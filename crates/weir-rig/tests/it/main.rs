//! The integration tests of weir-rig: one binary, so that the crate is linked once.

mod adversary;
mod conformance;
mod replay;
mod service;
