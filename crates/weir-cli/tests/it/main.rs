//! The integration tests of weir-cli: one binary, so that the crate is linked once.

mod architecture;
#[path = "../../../weir-measure/tests/check/mod.rs"]
mod check;
mod compare;
mod convert;
mod corpus;
mod docs;
mod help;
mod imports;
mod rig;
mod schema;
mod sim;
mod soak;
mod sweep;
mod untrusted;
