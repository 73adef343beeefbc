//! Weir's simulator: the engine in virtual time, with hosts, transport protocols and traffic.
//!
//! One [`world::World`] is one run. A run is single-threaded, reads no clock, and gives the same
//! bytes for the same input on every machine. Runs of different seeds and of different points of a
//! sweep are independent worlds, which can run in parallel.

mod agenda;
pub mod build;
pub mod disk;
pub mod dumbbell;
pub mod endpoint;
pub mod measure;
pub mod network;
mod notice;
pub mod packet;
pub mod random;
pub mod run;
pub mod scenario;
pub mod stack;
pub mod switch;
pub mod tcp;
pub mod topology;
pub mod traffic;
pub mod units;
pub mod world;
