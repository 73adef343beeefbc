//! What a specification says, word for word: the form between the parser and the checks.

use std::sync::Arc;

use weir_core::aqm::Policy;
use weir_core::config::{Loss, QueueLimit, Reorder};
use weir_core::device::{Completion, Done, DqlConfig};
use weir_core::key::FlowMask;
use weir_core::link::Overhead;
use weir_core::units::{Nanos, Probability, Rate};

use crate::Gso;
use crate::diagnostic::Span;

/// A value and where it, or its keyword, stands.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// What a specification says, before files are read.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) rate: Option<At<Option<Rate>>>,
    pub(crate) trace: Option<At<String>>,
    pub(crate) schedule: Option<At<(String, bool)>>,
    pub(crate) burst: Option<At<u64>>,
    pub(crate) overhead: Option<Overhead>,
    pub(crate) profile: Option<At<String>>,
    pub(crate) delay: Option<At<Nanos>>,
    pub(crate) jitter: Option<RawJitter>,
    pub(crate) reorder: Option<At<Reorder>>,
    pub(crate) loss: Option<At<Loss>>,
    pub(crate) plr: Option<Loss>,
    pub(crate) duplicate: Probability,
    pub(crate) corrupt: Probability,
    pub(crate) queue: Option<At<QueueLimit>>,
    /// `None` for drop tail.
    pub(crate) aqm: Option<At<Option<Policy>>>,
    /// Its thresholds are counted as the queue's size is, as dummynet has it.
    pub(crate) thresholds_as_queue: bool,
    pub(crate) mask: FlowMask,
    pub(crate) max_flows: Option<u32>,
    pub(crate) weight: Option<u32>,
    pub(crate) max_packet: Option<u32>,
    pub(crate) priority: Option<u32>,
    pub(crate) flow_rate: Option<Rate>,
    pub(crate) flow_ceil: Option<Rate>,
    pub(crate) flow_burst: Option<u64>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) gso: Gso,
    /// The card's ring, and when its places become free.
    pub(crate) ring: Option<At<(QueueLimit, Done)>>,
    pub(crate) dql: Option<DqlConfig>,
    /// How reports are coalesced; what they are of is said with the ring.
    pub(crate) coalesce: Option<Completion>,
    pub(crate) cpu: Option<Nanos>,
    /// It has a link, not only a queue.
    pub(crate) of_link: bool,
}

/// Jitter before its table is read.
#[derive(Debug)]
pub(crate) struct RawJitter {
    pub(crate) amount: Nanos,
    pub(crate) shape: Shape,
    pub(crate) correlation: Probability,
    pub(crate) may_reorder: bool,
}

/// Distribution of the jitter.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Uniform,
    Normal,
    Pareto,
    ParetoNormal,
    File(At<Arc<str>>),
}
