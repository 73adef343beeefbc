//! The capacity and the loss of a link, and a step of a schedule, which changes them or the delay.

use alloc::sync::Arc;

use super::trace::Trace;
use crate::units::{Nanos, Probability, Rate};

/// The rate at which a link serialises packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Capacity {
    /// Packets take no time to serialise.
    #[default]
    Unlimited,
    /// A constant rate.
    Constant(Rate),
    /// Delivery opportunities over time, as in Mahimahi's trace files.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// Mean rate in bit/s; 0 if there is no limit.
    pub fn mean_bps(&self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Constant(rate) => rate.bps(),
            Self::Trace(trace) => trace.mean_bps(),
        }
    }
}

/// Random loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost with this probability, independently.
    Bernoulli(Probability),
    /// Gilbert-Elliott: a good and a bad state, each with a loss probability.
    GilbertElliott {
        /// `K`: loss probability in the good state.
        loss_in_good: Probability,
        /// `p`: probability of moving from good to bad, drawn for each packet.
        good_to_bad: Probability,
        /// `H`: loss probability in the bad state.
        loss_in_bad: Probability,
        /// `r`: probability of moving from bad to good, drawn for each packet.
        bad_to_good: Probability,
    },
}

impl Loss {
    /// The long-run share of packets that are lost; `None` without loss. For Gilbert-Elliott, the
    /// losses of both states, weighted by the share of packets in each: p/(p+r) in the bad one.
    #[must_use]
    pub fn mean(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Bernoulli(probability) => Some(probability.as_f64()),
            Self::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
                let (leave, back) = (good_to_bad.as_f64(), bad_to_good.as_f64());
                let bad = if leave + back > 0.0 { leave / (leave + back) } else { 0.0 };
                Some((1.0 - bad) * loss_in_good.as_f64() + bad * loss_in_bad.as_f64())
            }
        }
    }
}

/// The changes at one time; `None` keeps the previous value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Step {
    /// New capacity.
    pub capacity: Option<Capacity>,
    /// New propagation delay, for packets that enter the delay line from now on.
    pub delay: Option<Nanos>,
    /// New loss on the link.
    pub loss: Option<Loss>,
}
