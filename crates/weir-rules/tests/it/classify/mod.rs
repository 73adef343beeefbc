//! The classifier: the effect of rules, one kind at a time, and all of them against a naive
//! interpreter of the same rules.

mod actions;
mod behaviour;
mod common;
mod options;
mod oracle;
mod random;
mod states;
