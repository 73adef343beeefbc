//! The classifier: what rules do, one kind at a time, and all of them against a naive reading of
//! the same rules.

mod actions;
mod behaviour;
mod common;
mod options;
mod oracle;
mod random;
mod states;
