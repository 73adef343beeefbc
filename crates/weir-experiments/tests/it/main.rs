//! The integration tests of weir-experiments: one binary, so that the crate is linked once.

mod experiments;
