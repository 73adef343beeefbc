//! The classifier: it decides the path of a packet through the engine.
//!
//! The caller requests a [`Verdict`] and acts on it. If packets return to the rules after a pipe
//! (`one_pass` is off), the caller classifies them again from the [`Resume`] point that the verdict
//! contains.
//!
//! # Model
//! [`Classifier::compile`] turns a [`Ruleset`](crate::ruleset::Ruleset) into programs, one for each
//! [`Pass`] of packets through the [`Place`] where the rules apply. A classifier is immutable and
//! shared by all workers; each worker has its own [`State`].
//!
//! A rule matches IP packets only, unless it is about the link layer (`layer2`, `MAC`, `mac-type`,
//! `vlan`) and demands nothing of IP. All rules are applied to a bridged packet when it comes in.
//! When the packet goes out, only rules with `out`, `xmit` or `not in` are applied.
//!
//! # Differences from ipfw
//! The random number for `prob` is drawn when all other tests of the rule hold. If the rule has
//! `keep-state` or `limit`, the number is drawn first, as in ipfw. Each rule draws from a random
//! stream of its own, so that its draws do not depend on other rules. A rule does not match if its
//! `tablearg` has no value, or a value that is not valid for its purpose. After [`JUMPS`] jumps a
//! packet is dropped and counted.

mod classifier;
mod compile;
mod demand;
mod dynamic;
mod index;
mod journey;
mod lookup;
mod place;
mod prefixes;
mod program;
mod run;
mod state;
mod tables;
mod view;

pub use classifier::Classifier;
pub use dynamic::{Dynamic, DynamicEntry, MOST as MOST_DYNAMIC};
pub use journey::{
    End, Journey, Leg, MOST_HOPS, MOST_LISTED, MOST_TRIED, Missed, Question, Reaction, Visit,
};
pub use place::{Place, PlaceInterface};
pub use run::JUMPS;
pub use state::{RuleCounters, State};

use weir_core::key::FlowKey;
use weir_core::units::Nanos;
use weir_wire::Parsed;

/// The input of the classifier: a packet with its context.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The frame from its link-layer header on.
    pub frame: &'a [u8],
    /// The offsets of the packet's headers; `None` for a frame with invalid headers, on which tests
    /// of header fields fail.
    pub parsed: Option<&'a Parsed>,
    /// The packet's flow key; empty if `parsed` is `None`.
    pub key: &'a FlowKey,
    /// Network-layer bytes of the wire packet; for an offload train, those of one of its segments.
    pub len: u32,
    /// The pass in which the packet is classified.
    pub pass: Pass,
    /// The packet's tags.
    pub tags: &'a mut Tags,
    /// The current time.
    pub now: Nanos,
}

/// The point on its path at which a packet is classified. The caller assigns numbers to interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Whether the packet goes out; otherwise it comes in.
    pub out: bool,
    /// Whether the packet goes over a bridge.
    pub bridged: bool,
    /// The interface through which the packet came in.
    pub recv: Option<u16>,
    /// The interface through which the packet goes out.
    pub xmit: Option<u16>,
}

/// The tags of a packet, in the order in which they were set. Few packets have tags.
pub type Tags = Vec<u16>;

/// The classifier's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The action for the packet.
    pub fate: Fate,
    /// The DSCP to write into the packet first, if any.
    pub dscp: Option<u8>,
}

/// The action for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet passes.
    Allow,
    /// The packet is dropped and counted.
    Deny,
    /// The packet goes through this pipe. With a [`Resume`], the search continues from there when
    /// the packet departs from the pipe.
    Pipe(u16, Option<Resume>),
    /// The packet goes into this queue. With a [`Resume`], the search continues from there when
    /// the packet departs from the queue's link.
    Queue(u16, Option<Resume>),
}

/// The point from which the search continues: after the rule with this identity or, if that rule
/// was deleted, at the first rule with a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The rule's number.
    pub number: u16,
    /// The rule's identity, which is never reused.
    pub id: u32,
}

/// The identity of the default rule.
pub const DEFAULT_ID: u32 = 0;
