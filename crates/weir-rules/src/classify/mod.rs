//! The classifier: which way through the engine a packet takes.
//!
//! Whoever has the packet asks, acts on the [`Verdict`], and, where packets come back after a pipe
//! (`one_pass` off), asks again from where the verdict says.
//!
//! # Model
//! [`Classifier::compile`] turns a [`Ruleset`](crate::ruleset::Ruleset) into programs, one for each
//! [`Pass`] that packets make through the [`Place`] where the rules apply. A classifier never
//! changes and is shared by all workers; what it remembers is each worker's [`State`].
//!
//! A rule matches IP packets only, unless it is about the link layer (`layer2`, `MAC`, `mac-type`,
//! `vlan`) and asks for nothing of IP. A packet over a bridge is judged coming in; going out, only
//! by rules that say `out` or `xmit`.
//!
//! # Differences from ipfw
//! `prob` is drawn when all else holds, from a stream of the rule's own, so that a rule's luck does
//! not depend on other rules; in front of `keep-state` and `limit` it is drawn first, as there. A
//! rule whose `tablearg` has no value, or one that cannot be what it is for, does not match. After
//! [`JUMPS`] jumps a packet is dropped, and counted.

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
    /// Where its headers are; `None` for a frame whose headers make no sense, of which only
    /// link-layer tests hold.
    pub parsed: Option<&'a Parsed>,
    /// Its flow key; empty without `parsed`.
    pub key: &'a FlowKey,
    /// Network-layer bytes of the wire packet; of an offload train, those of one of its segments.
    pub len: u32,
    /// Where it is.
    pub pass: Pass,
    /// Its tags.
    pub tags: &'a mut Tags,
    /// When.
    pub now: Nanos,
}

/// Where on its way a packet is looked at. Interfaces are numbered by whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Going out; else coming in.
    pub out: bool,
    /// It goes over a bridge.
    pub bridged: bool,
    /// The interface it came in by.
    pub recv: Option<u16>,
    /// The interface it goes out by.
    pub xmit: Option<u16>,
}

/// Tags of a packet, in the order in which they were given. Few packets have any.
pub type Tags = Vec<u16>;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to do with it.
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
    /// Through pipe N; then the rules from `resume` on, if any.
    Pipe(u16, Option<Resume>),
    /// Into queue N; then the rules from `resume` on, if any.
    Queue(u16, Option<Resume>),
}

/// A place in the rules at which the search goes on: behind the rule with this identity, or, where
/// that was deleted, at the first rule behind its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The rule's number.
    pub number: u16,
    /// The rule's identity, which is never given to another.
    pub id: u32,
}

/// The identity of the default rule.
pub const DEFAULT_ID: u32 = 0;
