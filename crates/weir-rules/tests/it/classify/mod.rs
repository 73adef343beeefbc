//! The classifier: the effect of each kind of rule, and all kinds together against a naive
//! interpreter of the same rules.

mod actions;
mod behaviour;
mod common;
mod journeys;
mod options;
mod oracle;
mod random;
mod states;
