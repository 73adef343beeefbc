//! The scheduler rig's inputs: flow sets, algorithms, backlogs and traces. No text makes a parser
//! panic, each printed value parses to the same value, and an accepted small plan runs to its end.

use weir_rig::flows::{FlowSet, sweep};
use weir_rig::plan::{Amount, Backlog};
use weir_rig::trace::Trace;
use weir_rig::{Algorithm, Order, Plan, cost};

use super::parts;

/// The bytes are a flow set, an algorithm, a backlog, a trace, and a byte each for the batch and
/// the number of pairs.
pub fn run(data: &[u8]) {
    let Some(([flows, algorithm, backlog, trace], numbers)) = parts::split(data) else { return };
    let [batch, pairs] = [0, 1].map(|at| numbers.get(at).copied().unwrap_or(1));
    let sets = sweep(flows).unwrap_or_default();
    for set in &sets {
        assert_eq!(set.to_string().parse::<FlowSet>().as_ref(), Ok(set));
    }
    let algorithm = Algorithm::parse(algorithm);
    if let Ok(algorithm) = &algorithm {
        assert_eq!(Algorithm::parse(&algorithm.to_string()).as_ref(), Ok(algorithm));
    }
    // Without a default, some orders would have a constant backlog, which needs a long warm-up.
    let backlog =
        backlog.parse().unwrap_or(Backlog { low: Amount::Total(0), high: Amount::Total(20) });
    let trace = Trace::read(trace);
    if let Ok(trace) = &trace {
        assert_eq!(Trace::read(&trace.to_string()).as_ref(), Ok(trace));
    }
    let (Some(set), Ok(algorithm)) = (sets.first(), &algorithm) else { return };
    // Orders other than these two draw a million packets first.
    let order = trace.map_or(Order::Ramp, |trace| Order::Trace(Box::new(trace)));
    let batch = usize::from(batch % MOST_IN_BATCH);
    let Ok(plan) = Plan::new(set.clone(), order, Some(backlog), batch, pairs.into(), 1) else {
        return;
    };
    if plan.flows().len() <= MOST_FLOWS && plan.most_inside() <= MOST_PACKETS {
        let (_, counts) = cost::order_hash(algorithm, &plan);
        assert_eq!(counts.enqueued, counts.dequeued + counts.refused);
    }
}

/// Bounds the time that an input takes.
const MOST_FLOWS: u32 = 64;
/// Bounds the time that an input takes.
const MOST_PACKETS: u64 = 1000;
/// Bounds the time that an input takes.
const MOST_IN_BATCH: u8 = 16;
