//! Traffic that needs no transport protocol: sources that send by a clock or by chance, and sinks that count.

mod cbr;

pub use cbr::{Cbr, Sink};
