//! The trace of one packet through the rules: the question of a client, and the answer.

use serde::Serialize;

/// A packet to trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceQuestion {
    /// The packet in words, such as `tcp 10.0.0.1:40000 192.0.2.1:80`.
    pub packet: String,
    /// The lane that the packet takes; `None` for the first lane.
    pub lane: Option<String>,
    /// Whether rules with `prob` count as matching.
    pub lucky: bool,
}

/// The path of a packet through the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traced {
    /// The packet in canonical words.
    pub packet: String,
    /// The lane that the packet takes.
    pub lane: String,
    /// The searches through the rules, in order.
    pub legs: Vec<TracedLeg>,
    /// Rules that the packet meets and that are not listed, because there are too many.
    pub unlisted: u64,
    /// The end: `sent`, `denied`, `loop`, `no_object` or `unfinished`.
    pub end: &'static str,
    /// The whole path in a sentence.
    pub what: String,
}

/// One search through the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedLeg {
    /// Where the rules examine the packet, such as `in recv eth1`.
    pub place: String,
    /// The rules that the packet meets.
    pub rules: Vec<TracedRule>,
    /// The objects that the packet enters after this search: a pipe, or a queue with its
    /// schedulers.
    pub enters: Vec<TracedObject>,
}

/// A rule that a packet meets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedRule {
    /// The number of the rule.
    pub number: u16,
    /// Its identity.
    pub id: u32,
    /// The command that creates the rule.
    pub command: String,
    /// Whether the rule matches.
    pub matched: bool,
    /// What the rule does, or why it does not match.
    pub what: String,
}

/// A pipe, queue or scheduler that a packet enters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedObject {
    /// The object as text, such as `pipe:1`.
    pub object: String,
    /// The name for people.
    pub name: String,
    /// Its configuration in the command language; empty if there is no such object.
    pub spec: String,
    /// What distinguishes the instance, as in lists of instances; none without a mask.
    pub instance: Option<String>,
}

/// Why there is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The words do not describe a packet.
    #[error("{message}")]
    Packet {
        /// What is wrong.
        message: String,
        /// The first byte of the wrong word.
        start: usize,
        /// The byte after the wrong word.
        end: usize,
    },
    /// There is no such lane.
    #[error("there is no direction {name}; {known}")]
    NoLane {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Nothing can be traced here.
    #[error("{0}")]
    Impossible(String),
    /// The loop did not answer.
    #[error(transparent)]
    NoAnswer(#[from] crate::plane::NoAnswer),
}
