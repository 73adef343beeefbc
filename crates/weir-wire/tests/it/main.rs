//! The integration tests of weir-wire: one binary, so that the crate is linked once.

mod fields;
mod header;
mod segment;
