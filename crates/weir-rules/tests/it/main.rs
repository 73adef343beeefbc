//! The integration tests of weir-rules: one binary, so that the crate is linked once.

mod classify;
mod expansion;
mod predecessor;
mod properties;
mod reference;
mod ruleset;
mod scripts;
mod shared_files;
mod show;
mod spec;
