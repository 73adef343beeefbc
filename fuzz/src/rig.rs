//! The scheduler rig's inputs: flow sets, algorithms, backlogs and traces. No text makes a parser
//! panic, printed values parse to themselves, and an accepted small plan runs to its end.

use weir_rig::flows::{FlowSet, sweep};
use weir_rig::plan::Backlog;
use weir_rig::trace::Trace;
use weir_rig::{Algorithm, Order, Plan, cost};

use super::parts;

/// The bytes are a flow set, an algorithm, a backlog, a trace, and a byte each for the batch and the
/// number of pairs.
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
    let backlog = backlog.parse::<Backlog>().ok();
    let trace = Trace::read(trace);
    if let Ok(trace) = &trace {
        assert_eq!(Trace::read(&trace.to_string()).as_ref(), Ok(trace));
    }
    let Some(set) = sets.first().filter(|set| set.len() <= MOST_FLOWS) else { return };
    let orders = Order::names()
        .filter_map(Order::from_name)
        .chain(trace.ok().map(|trace| Order::Trace(Box::new(trace))));
    for order in orders {
        let plan = Plan::new(set.clone(), order, backlog, batch.into(), pairs.into(), 1);
        let (Ok(plan), Ok(algorithm)) = (plan, &algorithm) else { continue };
        if plan.most_inside() <= MOST_PACKETS && plan.flows().len() <= MOST_FLOWS {
            let (_, counts) = cost::order_hash(algorithm, &plan);
            assert_eq!(counts.enqueued, counts.dequeued + counts.refused);
        }
    }
}

/// Bounds the time of an input.
const MOST_FLOWS: u32 = 64;
/// Bounds the time of an input.
const MOST_PACKETS: u64 = 10_000;
