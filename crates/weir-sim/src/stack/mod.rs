//! Real stacks as hosts: transport protocols that were written for real networks, driven by the
//! simulation's clock.
//!
//! A stack is a pair of endpoints: one sends a stream of bytes, the other receives it. Packets
//! carry the stack's own bytes in [`crate::packet::Extra::bytes`]. The fields of the packet give
//! the length and the ECN field, which queues use, and for TCP the numbers that a trace shows. The
//! ECN field of the packet is authoritative, because it holds the marks that were set on the path.
//! It is copied into the IP header for smoltcp, and given to quinn-proto beside the datagram.
//!
//! | feature | stack | description |
//! |---|---|---|
//! | `smoltcp` | [`smoltcp`] | TCP over IPv4: no SACK, no ECN, retransmission timeout of at least 1 s |
//! | `quic` | [`quic`] | QUIC version 1 by quinn-proto, with a handshake and packet protection that do not encrypt |
//!
//! Features select the stacks at build time; [`ends`] reports a missing one.
//!
//! **Payload.** The sender writes a pattern that depends on the position in the stream, and the
//! receiver compares: a stack that delivers anything else ends the simulation with a panic.

#[cfg(any(feature = "smoltcp", feature = "quic"))]
mod application;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "quic")]
mod quic_crypto;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;

mod options;

use crate::endpoint::Endpoint;
use crate::packet::FlowId;

pub use options::{Control, Load, Options};

/// A stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// TCP of smoltcp.
    Smoltcp,
    /// QUIC of quinn-proto.
    Quic,
}

impl Stack {
    /// All stacks.
    pub const ALL: [Self; 2] = [Self::Smoltcp, Self::Quic];

    /// The stack's name in scenarios, which is also the name of the feature.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoltcp => "smoltcp",
            Self::Quic => "quic",
        }
    }

    /// The stack with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stack| stack.name() == name)
    }

    /// Whether this build includes the stack.
    pub fn is_built(self) -> bool {
        match self {
            Self::Smoltcp => cfg!(feature = "smoltcp"),
            Self::Quic => cfg!(feature = "quic"),
        }
    }
}

/// This build does not include the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this weir was built without the stack `{0}`: build it with `cargo build --release -p \
     weir-cli --features weir-sim/{0}`"
)]
pub struct NotBuilt(&'static str);

/// Source and sink of a flow.
pub type Ends = (Box<dyn Endpoint>, Box<dyn Endpoint>);

/// The two ends of a connection of `stack`: source and sink of `flow`.
///
/// # Errors
/// [`NotBuilt`] if this build does not include the stack.
#[cfg_attr(
    not(any(feature = "smoltcp", feature = "quic")),
    expect(unused_variables, reason = "there is no stack to give it to")
)]
pub fn ends(stack: Stack, flow: FlowId, load: Load, options: Options) -> Result<Ends, NotBuilt> {
    match stack {
        #[cfg(feature = "smoltcp")]
        Stack::Smoltcp => {
            let (sender, receiver) = smoltcp::pair(flow, load, options);
            Ok((Box::new(sender), Box::new(receiver)))
        }
        #[cfg(feature = "quic")]
        Stack::Quic => {
            let (sender, receiver) = quic::pair(flow, load, options);
            Ok((Box::new(sender), Box::new(receiver)))
        }
        #[cfg(not(all(feature = "smoltcp", feature = "quic")))]
        missing => Err(NotBuilt(missing.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_found_by_name_and_missing_ones_are_reported() {
        for stack in Stack::ALL {
            assert_eq!(Stack::from_name(stack.name()), Some(stack));
            let made = ends(stack, FlowId(0), Load::Bulk, Options::default());
            assert_eq!(made.is_ok(), stack.is_built());
            if let Err(missing) = made {
                assert!(
                    missing
                        .to_string()
                        .ends_with(&format!("--features weir-sim/{}`", stack.name()))
                );
            }
        }
        assert_eq!(Stack::from_name("tcp"), None);
    }
}
