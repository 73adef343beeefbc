//! A plan: the flows, the order of arrivals, the backlog, the batches and the number of packets of
//! one measurement.
//!
//! The controller repeats a cycle: it enqueues until the backlog reaches the high threshold and
//! dequeues until the backlog reaches the low threshold. With equal thresholds it holds the
//! backlog: each enqueued batch is followed by a dequeued batch.

use std::fmt;

use crate::flows::FlowSet;
use crate::trace::Trace;

/// The order in which flows get packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// All flows in turn, one packet each, repeatedly.
    Ramp,
    /// A random flow, each equally likely.
    Random,
    /// A random flow, where the flow of rank r has a probability proportional to 1/r. The ranks are
    /// drawn once.
    Zipf,
    /// A random flow, which gets 1 to 31 consecutive packets.
    Bursty,
    /// The order and the times of a trace; the thresholds do not apply.
    Trace(Box<Trace>),
}

impl Order {
    /// The order of this name. A trace has no name.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMED
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, order)| order.clone())
    }

    /// The names of all orders except the trace.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// The default thresholds: for a ramp, from zero to twenty packets per flow and back; for other
    /// orders, a constant ten packets per flow.
    pub fn backlog(&self) -> Backlog {
        match self {
            Self::Ramp => Backlog { low: Amount::PerFlow(0), high: Amount::PerFlow(20) },
            _ => Backlog { low: Amount::PerFlow(10), high: Amount::PerFlow(10) },
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMED.iter().find(|(_, order)| order == self).map_or("trace", |(name, _)| name);
        f.write_str(name)
    }
}

/// A number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A total over all flows.
    Total(u32),
    /// A number for each flow.
    PerFlow(u32),
}

impl Amount {
    fn of(self, flows: u32) -> u64 {
        match self {
            Self::Total(packets) => packets.into(),
            Self::PerFlow(packets) => u64::from(packets) * u64::from(flows),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('n') {
            Some(digits) => digits.parse().ok().map(Self::PerFlow),
            None => text.parse().ok().map(Self::Total),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total(packets) => write!(f, "{packets}"),
            Self::PerFlow(packets) => write!(f, "{packets}n"),
        }
    }
}

/// The controller's thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The controller dequeues until the backlog is at most this.
    pub low: Amount,
    /// The controller enqueues until the backlog reaches this.
    pub high: Amount,
}

impl Backlog {
    /// Both thresholds in packets for a number of flows.
    ///
    /// # Errors
    /// [`PlanError`] when the low threshold is above the high one, or the high one exceeds
    /// [`MAX_BACKLOG`].
    pub fn of(&self, flows: u32) -> Result<(u64, u64), PlanError> {
        let (low, high) = (self.low.of(flows), self.high.of(flows));
        if low > high {
            return Err(PlanError::Crossed(*self));
        }
        if high > MAX_BACKLOG {
            return Err(PlanError::TooMuch(high, flows));
        }
        Ok((low, high))
    }
}

impl std::str::FromStr for Backlog {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let parts = text
            .split_once(':')
            .and_then(|(low, high)| Some((Amount::parse(low)?, Amount::parse(high)?)));
        let (low, high) = parts.ok_or_else(|| PlanError::Backlog(text.to_owned()))?;
        Ok(Self { low, high })
    }
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.low, self.high)
    }
}

/// A validated measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) flows: FlowSet,
    pub(crate) order: Order,
    /// The low threshold in packets.
    pub(crate) low: u64,
    /// The number of packets in a cycle.
    pub(crate) span: u64,
    /// The number of packets in a batch.
    pub(crate) batch: usize,
    /// The number of measured cycles.
    pub(crate) cycles: u64,
    /// The number of warm-up cycles.
    pub(crate) warm_up: u64,
    pub(crate) seed: u64,
}

impl Plan {
    /// A plan that drives at least `pairs` packets, in whole cycles, through the flows in this
    /// order of arrivals. A trace replaces `flows` by its own flows.
    ///
    /// # Errors
    /// [`PlanError`] when the thresholds, the batch or the number of packets is invalid, or when
    /// the trace has no arrivals.
    pub fn new(
        flows: FlowSet,
        order: Order,
        backlog: Option<Backlog>,
        batch: usize,
        pairs: u64,
        seed: u64,
    ) -> Result<Self, PlanError> {
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(PlanError::Batch(batch));
        }
        if !(1..=MAX_PAIRS).contains(&pairs) {
            return Err(PlanError::Pairs(pairs));
        }
        let (flows, low, span) = match &order {
            Order::Trace(trace) if trace.arrivals().is_empty() => {
                return Err(PlanError::EmptyTrace);
            }
            Order::Trace(trace) => (trace.flows().clone(), 0, trace.arrivals().len() as u64),
            _ => {
                let (low, high) = backlog.unwrap_or_else(|| order.backlog()).of(flows.len())?;
                (flows, low, (high - low).max(batch as u64))
            }
        };
        // The first cycle of a ramp allocates the memory. A constant backlog needs enough cycles to
        // mix its flows.
        let warm_up = if span > batch as u64 { 1 } else { (low + WARM_UP) / span };
        Ok(Self { flows, order, low, span, batch, cycles: pairs.div_ceil(span), warm_up, seed })
    }

    /// The flows.
    pub fn flows(&self) -> &FlowSet {
        &self.flows
    }

    /// The order of arrivals.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The number of measured packets: each is enqueued once and dequeued once.
    pub fn pairs(&self) -> u64 {
        self.cycles * self.span
    }

    /// The maximum number of packets in the scheduler at a time.
    pub fn most_inside(&self) -> u64 {
        self.low + self.span
    }

    /// The same plan with `pairs` measured packets, from 1 to [`MAX_PAIRS`], rounded up to whole
    /// cycles.
    #[must_use]
    pub fn with_pairs(&self, pairs: u64) -> Self {
        Self { cycles: pairs.clamp(1, MAX_PAIRS).div_ceil(self.span), ..self.clone() }
    }
}

/// The reason why a measurement is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text is not a pair of thresholds.
    #[error(
        "`{0}` is not a backlog: write LOW:HIGH in packets, with n for packets per flow; for \
         example 0:20n"
    )]
    Backlog(String),
    /// The low threshold is above the high one.
    #[error("the backlog {0} has its low threshold above the high one; for example 0:20n")]
    Crossed(Backlog),
    /// The high threshold exceeds [`MAX_BACKLOG`].
    #[error(
        "a backlog of {0} packets for {1} flows: at most {MAX_BACKLOG} packets are held; for \
         example --backlog 0:4n"
    )]
    TooMuch(u64, u32),
    /// The batch is empty or too large.
    #[error("a batch of {0} packets: allowed is 1..{MAX_BATCH}; for example --batch 32")]
    Batch(usize),
    /// The number of packets is zero or too large.
    #[error("{0} pairs: allowed is 1..{MAX_PAIRS}; for example --pairs 2000000")]
    Pairs(u64),
    /// The trace has no arrivals.
    #[error("the trace has no arrivals")]
    EmptyTrace,
}

const NAMED: [(&str, Order); 4] = [
    ("ramp", Order::Ramp),
    ("random", Order::Random),
    ("zipf", Order::Zipf),
    ("bursty", Order::Bursty),
];

/// The maximum number of packets in the scheduler at a time. Their descriptors take 512 MiB.
pub const MAX_BACKLOG: u64 = 32 << 20;
/// The maximum number of packets in a batch.
pub const MAX_BATCH: usize = 1024;
/// The maximum number of packets in a measurement.
pub const MAX_PAIRS: u64 = 1_000_000_000_000;
/// The number of packets that warm up a constant backlog, in addition to the packets of the
/// backlog.
const WARM_UP: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_packets_or_packets_a_flow() {
        let backlog: Backlog = "0:20n".parse().unwrap();
        assert_eq!(backlog.of(1000), Ok((0, 20_000)));
        assert_eq!(backlog.to_string(), "0:20n");
        assert_eq!("5:7".parse::<Backlog>().unwrap().of(1000), Ok((5, 7)));
        for text in ["", "5", "5:", ":5", "n:5", "-1:5", "5:5x", "5:99999999999"] {
            let message = text.parse::<Backlog>().unwrap_err().to_string();
            assert!(
                message.contains(&format!("`{text}`")) && message.contains("0:20n"),
                "{message}"
            );
        }
        assert!("9:5".parse::<Backlog>().unwrap().of(1).unwrap_err().to_string().contains("9:5"));
        assert!("0:64n".parse::<Backlog>().unwrap().of(1 << 20).is_err());
    }

    #[test]
    fn a_plan_has_whole_cycles() {
        let flows: FlowSet = "10:w1".parse().unwrap();
        let plan = |order, backlog, batch, pairs| {
            Plan::new(flows.clone(), order, backlog, batch, pairs, 1)
        };
        assert_eq!(plan(Order::Ramp, None, 1, 201).unwrap().pairs(), 400);
        assert_eq!(plan(Order::Random, None, 1, 201).unwrap().pairs(), 201);
        assert_eq!(plan(Order::Random, None, 32, 201).unwrap().pairs(), 224);
        assert_eq!(plan(Order::Random, None, 1, 0).unwrap_err(), PlanError::Pairs(0));
        assert_eq!(plan(Order::Random, None, 0, 1).unwrap_err(), PlanError::Batch(0));
        for name in Order::names() {
            assert_eq!(Order::from_name(name).unwrap().to_string(), name);
        }
    }
}
