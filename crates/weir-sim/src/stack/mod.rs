//! Real stacks as hosts: transport protocols that others wrote for real networks, driven by the
//! simulation's clock.
//!
//! A stack is a pair of endpoints, one that sends a stream of bytes and one that receives it.
//! Packets carry the stack's own bytes in [`Extra::bytes`]; the fields beside them say the length
//! and the ECN field, which queues go by, and for TCP the numbers that a trace shows. The ECN field
//! of the packet is the one that counts: marks made on the way are put back before the stack sees
//! it.
//!
//! | feature | stack | what it is |
//! |---|---|---|
//! | `smoltcp` | [`smoltcp`] | TCP over IPv4: no SACK, no ECN, retransmission timeout of at least 1 s |
//! | `quic` | [`quic`] | QUIC version 1 by quinn-proto, with a handshake and packet protection that do not encrypt |
//!
//! Which are there is decided when Weir is built; [`ends`] says what is missing.
//!
//! **Payload.** The sender writes a pattern that depends on the place in the stream, and the
//! receiver compares: a stack that delivers anything but what was written ends the simulation with
//! a panic.

#[cfg(any(feature = "smoltcp", feature = "quic"))]
mod application;
#[cfg(feature = "quic")]
pub mod quic;
#[cfg(feature = "quic")]
mod quic_crypto;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;

use weir_core::Nanos;

use crate::endpoint::{Endpoint, EndpointId};
use crate::packet::FlowId;

/// A stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// TCP of smoltcp.
    Smoltcp,
    /// QUIC of quinn-proto.
    Quic,
}

impl Stack {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Smoltcp, Self::Quic];

    /// Its name in scenarios, which is that of the feature, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoltcp => "smoltcp",
            Self::Quic => "quic",
        }
    }

    /// The stack of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stack| stack.name() == name)
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Smoltcp => cfg!(feature = "smoltcp"),
            Self::Quic => cfg!(feature = "quic"),
        }
    }
}

/// The stack is not in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this weir was built without the stack `{0}`: build it with `--features weir-sim/{0}`")]
pub struct NotBuilt(&'static str);

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which of the stack's congestion controls.
    pub control: Control,
    /// Most bytes under way or unread: the receiver's window.
    pub window: u32,
    /// Largest packet, IPv4 header included, 1280 to 9000. QUIC begins with 1228 and searches for
    /// larger ones up to it.
    pub mtu: u16,
    /// When the connection is opened.
    pub start: Nanos,
    /// When both ends fall silent, whatever they have still to say.
    pub stop: Nanos,
    /// Rank or deadline that packets carry as their label.
    pub label: u64,
    /// Of all that the stack draws.
    pub seed: u64,
    /// Who hears [`crate::endpoint::Notice::Delivered`] from the sink and
    /// [`crate::endpoint::Notice::Done`] from the source when everything is acknowledged, and
    /// counts; without one the connection counts itself. Both ends are silent from then on.
    pub owner: Option<EndpointId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            control: Control::NewReno,
            window: 1 << 20,
            mtu: 1500,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            label: 0,
            seed: 1,
            owner: None,
        }
    }
}

/// A congestion control that both stacks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Reno, in integers.
    NewReno,
    /// CUBIC, whose last bits may differ between machines: both stacks compute it with
    /// floating-point powers and roots.
    Cubic,
}

/// Source and sink of a flow.
pub type Ends = (Box<dyn Endpoint>, Box<dyn Endpoint>);

/// The two ends of a connection of `stack`: source and sink of `flow`.
///
/// # Errors
/// [`NotBuilt`] when this build is without the stack.
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

/// How much a sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Always more.
    Bulk,
    /// So many bytes, and then the end of the stream.
    Bytes(u64),
    /// What [`crate::endpoint::Notice::Write`] says, until [`crate::endpoint::Notice::Close`].
    Told,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_found_by_its_name_and_says_when_it_is_missing() {
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
