//! A plan: flows, order of arrivals, backlog, batches and number of packets that are driven through
//! a scheduler.
//!
//! The controller repeats a cycle: it enqueues until the high threshold is reached and dequeues
//! until the low one is. With equal thresholds it holds the backlog there, one packet in and one
//! out.

use std::fmt;

use crate::flows::FlowSet;
use crate::trace::Trace;

/// In which order flows get packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// One flow after the other, over and over.
    Ramp,
    /// Any flow, each as likely.
    Random,
    /// The flow of rank r gets a share in proportion to 1/r; ranks are drawn once.
    Zipf,
    /// Any flow, and then 1 to 31 packets in a row.
    Bursty,
    /// As in a trace, at its times: the thresholds do not apply.
    Trace(Box<Trace>),
}

impl Order {
    /// The order of this name; a trace has none.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMED
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, order)| order.clone())
    }

    /// The names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Thresholds where none are given: from nothing to twenty packets a flow and back for a ramp,
    /// ten packets a flow for others.
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
    /// In all.
    Total(u32),
    /// For each flow.
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
    /// It dequeues until no more than this is left.
    pub low: Amount,
    /// It enqueues until this is reached.
    pub high: Amount,
}

impl Backlog {
    /// Both thresholds in packets for so many flows.
    ///
    /// # Errors
    /// [`PlanError`] when the low one is above the high one, or the high one is more than fits.
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

/// One measurement's work, validated.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) flows: FlowSet,
    pub(crate) order: Order,
    pub(crate) low: u64,
    /// Packets of a cycle.
    pub(crate) span: u64,
    pub(crate) batch: usize,
    /// Cycles that count.
    pub(crate) cycles: u64,
    /// Cycles before these.
    pub(crate) warm_up: u64,
    pub(crate) seed: u64,
}

impl Plan {
    /// Drives at least `pairs` packets, whole cycles of them, through flows that get packets in
    /// this order. A trace brings its own flows.
    ///
    /// # Errors
    /// [`PlanError`] when thresholds, batch or number of packets cannot be.
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
        // A ramp's first cycle takes the memory; a backlog that is held is shuffled first.
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

    /// Packets that count: each is enqueued once and dequeued once.
    pub fn pairs(&self) -> u64 {
        self.cycles * self.span
    }

    /// The most packets inside at a time.
    pub fn most_inside(&self) -> u64 {
        self.low + self.span
    }

    /// The same with another number of packets that count.
    #[must_use]
    pub fn with_pairs(&self, pairs: u64) -> Self {
        Self { cycles: pairs.clamp(1, MAX_PAIRS).div_ceil(self.span), ..self.clone() }
    }
}

/// Why a measurement cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not two thresholds.
    #[error(
        "`{0}` is no backlog: write LOW:HIGH in packets, with n for packets a flow; for example 0:20n"
    )]
    Backlog(String),
    /// The low threshold is above the high one.
    #[error("the backlog {0} has its low threshold above the high one; for example 0:20n")]
    Crossed(Backlog),
    /// The high threshold is beyond the limit.
    #[error(
        "a backlog of {0} packets for {1} flows: at most {MAX_BACKLOG} packets are held; for example --backlog 0:4n"
    )]
    TooMuch(u64, u32),
    /// A batch of no packets, or of too many.
    #[error("a batch of {0} packets: allowed is 1..{MAX_BATCH}; for example --batch 32")]
    Batch(usize),
    /// No packets, or too many.
    #[error("{0} pairs: allowed is 1..{MAX_PAIRS}; for example --pairs 2000000")]
    Pairs(u64),
    /// A trace without arrivals.
    #[error("the trace has no arrivals")]
    EmptyTrace,
}

const NAMED: [(&str, Order); 4] = [
    ("ramp", Order::Ramp),
    ("random", Order::Random),
    ("zipf", Order::Zipf),
    ("bursty", Order::Bursty),
];

/// Most packets inside at a time: their descriptors take 512 MiB.
pub const MAX_BACKLOG: u64 = 32 << 20;
/// Most packets of a batch.
pub const MAX_BATCH: usize = 1024;
/// Most packets of a measurement.
pub const MAX_PAIRS: u64 = 1_000_000_000_000;
/// Packets before a held backlog is measured, besides as many as it has.
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
