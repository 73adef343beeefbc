//! Suites: many experiments on one queue under test, whose results stand side by side.

pub mod rfc7928;
