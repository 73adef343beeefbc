//! The integration tests of weir-rig: one binary, so that the crate is linked once.

mod adversary;
mod conformance;
mod kernel;
mod replay;
mod service;
