//! The integration tests of weir-sim: one binary, so that the crate is linked once.

mod accounting;
mod controls;
mod measure;
mod scenario;
mod stacks;
mod switch;
mod tcp_dumbbell;
mod traffic;
mod workloads;
mod world;
