//! Packets that are submitted together are served like packets that are submitted one after the
//! other, with any scheduler and link.

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, QueueLimit, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos, Probability, Rate};

/// Packets of one flow that arrive at one time: nanoseconds since the previous train, number of the
/// queue, lengths.
type Train = (u64, u16, Vec<u32>);

fn trains() -> impl Strategy<Value = Vec<Train>> {
    let lengths = proptest::collection::vec(40u32..1501, 1..20);
    proptest::collection::vec((0u64..400_000, 1u16..5, lengths), 1..40)
}

fn links() -> impl Strategy<Value = LinkConfig> {
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        (1_000_000u64..1_000_000_000).prop_map(|bps| Capacity::Constant(Rate::new(bps).unwrap()))
    ];
    let loss = prop_oneof![Just(Loss::None), Just(Loss::Bernoulli(Probability::new(0.2).unwrap()))];
    (capacity, loss, 0u64..3_000_000).prop_map(|(capacity, loss, delay)| LinkConfig {
        capacity,
        loss,
        delay: Nanos(delay),
        ..LinkConfig::default()
    })
}

/// Departures, refused frames, and the statistics of the link as text.
type Outcome = (Vec<Departure>, Vec<(u32, DropReason)>, String);

/// Submits trains, with one call for each train (`together`) or for each packet.
fn play(kind: Kind, link: &LinkConfig, limit: u32, trains: &[Train], together: bool) -> Outcome {
    let mut emulator = Emulator::new(7, Limits { packets: 300, ..Limits::default() });
    emulator.set_scheduler(
        Nanos::ZERO,
        9,
        &SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() },
        link,
    );
    for queue in 1..4 {
        let limit = Some(QueueLimit::Packets(limit));
        let config = FlowsetConfig {
            weight: queue.into(),
            priority: queue.into(),
            limit,
            ..FlowsetConfig::default()
        };
        emulator.set_queue(Nanos::ZERO, queue, 9, &config);
    }
    let (mut out, mut refused, mut now, mut frame) = (Vec::new(), Vec::new(), Nanos::ZERO, 0);
    for (gap, queue, lengths) in trains {
        now += Nanos(*gap);
        emulator.poll(now, &mut out);
        let first = frame;
        frame += lengths.len() as u32;
        let arrivals = (first..).zip(lengths).map(|(frame, &len)| Arrival {
            frame,
            len,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        });
        // Queue 4 does not exist.
        let (key, action) = (FlowKey::default(), Action::Queue(*queue));
        if together {
            emulator.submit_train(now, arrivals, &key, action, |frame, rejected| {
                refused.push((frame, rejected.reason));
            });
        } else {
            for arrival in arrivals {
                if let Err(rejected) = emulator.submit(now, arrival, &key, action) {
                    refused.push((arrival.frame, rejected.reason));
                }
            }
        }
    }
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    (out, refused, format!("{:?} {}", emulator.stats(9), emulator.unrouted()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_train_is_served_like_its_packets(link in links(), limit in 1u32..30, trains in trains()) {
        for kind in Kind::ALL {
            let (together, alone) =
                (play(kind, &link, limit, &trains, true), play(kind, &link, limit, &trains, false));
            prop_assert_eq!(format!("{:?}", together.0), format!("{:?}", alone.0), "{:?}", kind);
            prop_assert_eq!((together.1, together.2), (alone.1, alone.2), "{:?}", kind);
        }
    }
}
