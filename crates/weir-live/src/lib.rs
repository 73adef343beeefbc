//! Live links as a library: what `weir run`, `weir pair`, `weir bridge` and `weir serve` do, without
//! a command line.
//!
//! The packets themselves are moved by [`weir_linux::live`], which knows ports and an engine; this
//! crate adds rules, observation, results and the daemon's packet plane.

pub mod daemon;
pub mod observe;
pub mod rules;
