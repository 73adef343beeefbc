//! The integration tests of weir-report: one binary, so that the crate is linked once.

mod capture;
mod html;
mod sim;
mod watch;
