//! Frames on the wire: their headers, flow keys, checksums and offload trains.
//!
//! Frames come from untrusted sources. Every function except those of the packet builder therefore
//! accepts any bytes and any [`Parsed`], returns a value or a typed error, and does not panic.
//! Offsets are bytes from the start of the frame.
//!
//! The usual order of calls: [`parse`] (or [`parse_ip`] for a layer-3 device) → [`Train::plan`] if
//! the frame is an offload train → [`flow_key`] → the engine → [`Train::headers`] for packets of a
//! train → [`set_ce`] if the engine marks the packet.
#![no_std]

#[cfg(any(test, feature = "builder"))]
extern crate alloc;

#[cfg(feature = "builder")]
pub mod builder;
pub mod checksum;
mod corrupt;
mod dscp;
mod ecn;
pub mod fields;
mod header;
mod key;
mod segment;
mod view;
mod vnet;

pub use corrupt::invert_bit;
pub use dscp::set_dscp;
pub use ecn::{ecn, set_ce};
pub use header::{Fragment, IpVersion, ParseError, Parsed, ethertype, parse, parse_ip, protocol};
pub use key::flow_key;
pub use segment::{ChecksumMode, MAX_HEADER_LEN, Run, SegmentError, Train};
pub use vnet::{Gso, VNET_HEADER_LEN, VnetError, VnetHeader};
