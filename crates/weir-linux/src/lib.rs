//! Weir on Linux: sending and receiving frames, namespaces, and the live loop.
//!
//! `sys` holds every system call that needs `unsafe`, and `port` the sockets and devices that
//! receive and send frames. `live` is the loop that drives the engine with these ports. `topology`
//! and the modules that it uses set up the namespaces, addresses and routes for a program.

pub mod arena;
pub mod clock;
#[doc(hidden)]
pub mod fuzzing;
mod journey;
pub mod live;
pub mod port;

pub mod sys;

pub mod helper;
pub mod nat;
pub mod netlink;
pub mod netns;
mod nftables;
pub mod probe;
pub mod process;
pub mod resident;
pub mod tcp;
pub mod topology;
