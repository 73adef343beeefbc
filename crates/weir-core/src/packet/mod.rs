//! Packets inside an engine: their descriptors, the pool that holds them, and lists of them.
//!
//! A descriptor has 40 bytes and is addressed by a `u32`. Frames never enter the engine:
//! [`Packet::frame`] is the driver's own handle.

mod fields;
mod list;
mod pool;
mod store;

pub(crate) use fields::NONE;
pub use fields::{Ecn, Header, LabelThenStart, Packet, PacketId};
pub(crate) use list::Chain;
pub use list::PacketList;
pub use pool::Pool;
pub(crate) use pool::{Corruption, Crossed};
pub use store::Store;
