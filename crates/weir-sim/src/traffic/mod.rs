//! Traffic that needs no transport protocol: sources that send by a clock or by chance, and sinks that count.

mod cbr;
pub mod settings;
pub mod spec;

pub use cbr::{Cbr, Sink};
pub use spec::{COMMON, Common, KINDS, Kind, Spec};
