//! The scheduler rig's inputs: flow sets, algorithms, backlogs and traces. No text makes a parser
//! panic, printed values parse to themselves, and an accepted small plan runs to its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_rig::flows::{FlowSet, sweep};
use weir_rig::plan::Backlog;
use weir_rig::trace::Trace;
use weir_rig::{Algorithm, Order, Plan, cost};

fuzz_target!(|data: (&str, &str, &str, &str, u8, u8)| {
    let (flows, algorithm, backlog, trace, batch, pairs) = data;
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
    let Some(set) = sets.first().filter(|set| set.len() <= 64) else { return };
    let orders = Order::names()
        .filter_map(Order::from_name)
        .chain(trace.ok().map(|trace| Order::Trace(Box::new(trace))));
    for order in orders {
        let plan = Plan::new(set.clone(), order, backlog, batch.into(), pairs.into(), 1);
        let (Ok(plan), Ok(algorithm)) = (plan, &algorithm) else { continue };
        if plan.most_inside() <= 10_000 && plan.flows().len() <= 64 {
            let (_, counts) = cost::order_hash(algorithm, &plan);
            assert_eq!(counts.enqueued, counts.dequeued + counts.refused);
        }
    }
});
