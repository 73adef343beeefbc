//! The integration tests of weir-report: one binary, so that the crate is linked once.

mod capture;
#[path = "../../../weir-measure/tests/check/mod.rs"]
mod check;
mod html;
mod sim;
mod watch;
