//! Plain pipes beside the engine's: the same arrivals must give the same departures and drops, to the nanosecond.

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::packet::Ecn;
use weir_core::plain::PlainPipe;
use weir_core::{Action, Arrival, Bytes, Emulator, Fate, Limits, Nanos, Rate};

proptest! {
    #[test]
    fn plain_pipes_and_the_engine_give_the_same_departures(
        rate in 1_000u64..2_000_000_000,
        delay in 0u64..20_000_000,
        burst in 0u64..10_000,
        limit in prop_oneof![
            (0u32..20).prop_map(|p| Some(QueueLimit::Packets(p))),
            (1u64..30_000).prop_map(|b| Some(QueueLimit::Bytes(b))),
            Just(None)
        ],
        framing in any::<bool>(),
        unlimited in prop::bool::weighted(0.1),
        arrivals in prop::collection::vec((0u64..3_000_000, 1u32..1600), 1..200),
    ) {
        let capacity = if unlimited { Capacity::Unlimited } else { Capacity::Constant(Rate::new(rate).unwrap()) };
        let overhead = if framing { Overhead::ETHERNET } else { Overhead::NONE };
        let config = PipeConfig {
            link: LinkConfig { capacity, delay: Nanos(delay), burst: Bytes(burst), overhead, ..LinkConfig::default() },
            queue: FlowsetConfig { limit, ..FlowsetConfig::default() },
        };
        let mut engine = Emulator::new(1, Limits::default());
        engine.set_pipe(Nanos::ZERO, 1, &config);
        let mut plain = PlainPipe::new(&config).expect("it is plain");
        let (mut theirs, mut ours, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut now = Nanos::ZERO;
        for (number, &(gap, len)) in arrivals.iter().enumerate() {
            now += Nanos(gap);
            let frame = number as u32;
            while let Some((frame, due)) = plain.pop(now) {
                ours.push((frame, due));
            }
            let arrival = Arrival { frame, len, link_header: 0, segments: 1, ecn: Ecn::NotEct, label: 0 };
            let engine_takes = engine.submit(now, arrival, &FlowKey::default(), Action::Pipe(1)).is_ok();
            prop_assert_eq!(plain.submit(now, frame, len, 1).is_ok(), engine_takes);
            prop_assert_eq!(plain.queue_length(now), engine.queue_length(1));
        }
        engine.poll(Nanos(u64::MAX - 1), &mut out);
        for departure in out {
            prop_assert_eq!(departure.fate, Fate::Deliver { mark: None, corrupt: None, duplicate: false });
            theirs.push((departure.frame, departure.due));
        }
        while let Some((frame, due)) = plain.pop(Nanos(u64::MAX - 1)) {
            ours.push((frame, due));
        }
        prop_assert_eq!(&ours, &theirs);
        let stats = engine.stats(1).unwrap();
        prop_assert_eq!(&stats.counters, &plain.stats().counters);
        let peak = stats.counters.peak_queue_packets;
        prop_assert_eq!((engine.take_peak(1), plain.take_peak(Nanos(u64::MAX - 1))), (peak, peak));
        prop_assert_eq!((engine.take_peak(1), plain.take_peak(Nanos(u64::MAX - 1))), (0, 0));
        let stats = engine.stats(1).unwrap();
        prop_assert_eq!(stats.queue_ns.mean(), plain.stats().queue_ns.mean());
        prop_assert_eq!(stats.total_ns.max(), plain.stats().total_ns.max());
        prop_assert!(plain.stats().counters.balanced());
    }
}

#[test]
fn what_a_plain_pipe_does_not_have_is_left_to_the_engine() {
    let mut config = PipeConfig::default();
    assert!(PlainPipe::new(&config).is_some());
    config.link.duplicate = weir_core::Probability::new(0.1).unwrap();
    assert!(PlainPipe::new(&config).is_none());
}
