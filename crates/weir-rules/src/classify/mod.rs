//! The classifier: decides the path of a packet through the engine.
//!
//! The caller asks for a [`Verdict`] and acts on it. Where packets come back after a pipe
//! (`one_pass` off), it asks again from the place that the verdict names.
//!
//! # Model
//! [`Classifier::compile`] turns a [`Ruleset`](crate::ruleset::Ruleset) into programs, one for each
//! [`Pass`] of packets through the [`Place`] where the rules apply. A classifier never changes, and
//! all workers share it; its memory is the [`State`] of each worker.
//!
//! A rule matches IP packets only, unless it is about the link layer (`layer2`, `MAC`, `mac-type`,
//! `vlan`) and demands nothing of IP. Rules see a packet over a bridge when it comes in; when it
//! goes out, only rules with `out` or `xmit` see it.
//!
//! # Differences from ipfw
//! `prob` is drawn when all other tests hold, from a stream of the rule's own, so that the draws of
//! a rule do not depend on other rules; with `keep-state` and `limit` it is drawn first, as in
//! ipfw. A rule does not match if its `tablearg` has no value, or a value that is not valid for its
//! purpose. After [`JUMPS`] jumps a packet is dropped and counted.

mod classifier;
mod compile;
mod demand;
mod dynamic;
mod index;
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
pub use place::{Place, PlaceInterface};
pub use run::JUMPS;
pub use state::{RuleCounters, State};

use weir_core::key::FlowKey;
use weir_core::units::Nanos;
use weir_wire::Parsed;

/// A packet as rules see it.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The frame from its link-layer header on.
    pub frame: &'a [u8],
    /// Where its headers are; `None` for a frame with invalid headers, for which only link-layer
    /// tests hold.
    pub parsed: Option<&'a Parsed>,
    /// Its flow key; empty without `parsed`.
    pub key: &'a FlowKey,
    /// Network-layer bytes of the wire packet; of an offload train, those of one of its segments.
    pub len: u32,
    /// The pass.
    pub pass: Pass,
    /// Its tags.
    pub tags: &'a mut Tags,
    /// The current time.
    pub now: Nanos,
}

/// The point on its path at which a packet is classified. The caller numbers the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Whether it goes out; else it comes in.
    pub out: bool,
    /// It goes over a bridge.
    pub bridged: bool,
    /// The interface through which it came in.
    pub recv: Option<u16>,
    /// The interface through which it goes out.
    pub xmit: Option<u16>,
}

/// Tags of a packet, in the order in which they were set. Few packets have any.
pub type Tags = Vec<u16>;

/// The classifier's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to do with the packet.
    pub fate: Fate,
    /// DSCP to write into it first.
    pub dscp: Option<u8>,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes.
    Allow,
    /// It is dropped, and counted.
    Deny,
    /// Through pipe N; then the rules continue at `resume`, if any.
    Pipe(u16, Option<Resume>),
    /// Into queue N; then the rules continue at `resume`, if any.
    Queue(u16, Option<Resume>),
}

/// A place at which the search continues: behind the rule with this identity, or, if that was
/// deleted, at the first rule behind its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The rule's number.
    pub number: u16,
    /// The rule's identity, which is never reused.
    pub id: u32,
}

/// The identity of the default rule.
pub const DEFAULT_ID: u32 = 0;
