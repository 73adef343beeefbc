//! Plain pipes compared with pipes of the engine: the same arrivals must give the same departures
//! and drops, to the nanosecond.

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::packet::Ecn;
use weir_core::plain::PlainPipe;
use weir_core::stats::LinkStats;
use weir_core::{Action, Arrival, Bytes, Emulator, Fate, Limits, Nanos, Rate};

/// Configurations that a plain pipe supports.
fn config() -> impl Strategy<Value = PipeConfig> {
    let limit = prop_oneof![
        (0u32..20).prop_map(|p| Some(QueueLimit::Packets(p))),
        (1u64..30_000).prop_map(|b| Some(QueueLimit::Bytes(b))),
        Just(None)
    ];
    let parts = (
        1_000u64..2_000_000_000,
        0u64..20_000_000,
        0u64..10_000,
        limit,
        any::<bool>(),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(rate, delay, burst, limit, framing, unlimited)| {
        let capacity = if unlimited {
            Capacity::Unlimited
        } else {
            Capacity::Constant(Rate::new(rate).unwrap())
        };
        let overhead = if framing { Overhead::ETHERNET } else { Overhead::NONE };
        PipeConfig {
            link: LinkConfig {
                capacity,
                delay: Nanos(delay),
                burst: Bytes(burst),
                overhead,
                ..LinkConfig::default()
            },
            queue: FlowsetConfig { limit, ..FlowsetConfig::default() },
            scheduler: None,
        }
    })
}

/// Lengths of packets, many of them equal.
fn len() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..1600, Just(52), Just(1500)]
}

proptest! {
    #[test]
    fn plain_pipes_and_the_engine_give_the_same_departures(
        config in config(),
        arrivals in prop::collection::vec((0u64..3_000_000, len()), 1..200),
    ) {
        let mut engine = Emulator::new(1, Limits::default());
        engine.set_pipe(Nanos::ZERO, 1, &config);
        let mut plain = PlainPipe::new(&config).expect("the configuration is plain");
        let (mut theirs, mut ours, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut now = Nanos::ZERO;
        for (number, &(gap, len)) in arrivals.iter().enumerate() {
            now += Nanos(gap);
            let frame = number as u32;
            let arrival =
                Arrival { frame, len, link_header: 0, segments: 1, ecn: Ecn::NotEct, label: 0 };
            let engine_accepts =
                engine.submit(now, arrival, &FlowKey::default(), Action::Pipe(1)).is_ok();
            let taken = plain.submit(now, len, 1, now);
            prop_assert_eq!(taken.is_ok(), engine_accepts);
            ours.extend(taken.map(|due| (frame, due)));
            plain.catch_up(now);
            prop_assert_eq!(plain.queue_length(now), engine.queue_length(1));
        }
        engine.poll(Nanos(u64::MAX - 1), &mut out);
        for departure in out {
            prop_assert_eq!(
                departure.fate,
                Fate::Deliver { mark: None, corrupt: None, duplicate: false }
            );
            theirs.push((departure.frame, departure.due));
        }
        prop_assert_eq!(&ours, &theirs);
        plain.catch_up(Nanos(u64::MAX - 1));
        let stats = engine.stats(1).unwrap();
        prop_assert_eq!(&stats.counters, &plain.stats().counters);
        let peak = stats.counters.peak_queue_packets;
        prop_assert_eq!(
            (engine.queue_peak(1).0, plain.take_peak(Nanos(u64::MAX - 1))),
            (peak, peak)
        );
        engine.restart_peak(1);
        prop_assert_eq!(engine.queue_peak(1), (0, 0));
        prop_assert_eq!(plain.take_peak(Nanos(u64::MAX - 1)), 0);
        let stats = engine.stats(1).unwrap();
        prop_assert_eq!(stats.queue_ns.mean(), plain.stats().queue_ns.mean());
        prop_assert_eq!(stats.total_ns.max(), plain.stats().total_ns.max());
        prop_assert!(plain.stats().counters.balanced());
    }

    /// One pipe receives packets when they arrive, the other up to 3 ms ahead of time. At every
    /// observation, both have the same state.
    #[test]
    fn submissions_ahead_of_time_do_not_change_counters_and_queues(
        config in config(),
        arrivals in prop::collection::vec((0u64..1_000_000, len(), 0u64..3_000_000), 1..100),
        observations in prop::collection::vec((1u64..5_000_000, any::<bool>(), 0u8..4), 1..40),
    ) {
        let (mut ahead, mut prompt) =
            (PlainPipe::new(&config).unwrap(), PlainPipe::new(&config).unwrap());
        let mut arrival = Nanos::ZERO;
        // The time at which a packet arrives, and the time at which its arrival is known. Packets
        // become known in the order of their arrivals.
        let mut known = Nanos::ZERO;
        let packets: Vec<(Nanos, Nanos, u32)> = arrivals
            .iter()
            .map(|&(gap, len, early)| {
                arrival += Nanos(gap);
                known = known.max(arrival.saturating_sub(Nanos(early)));
                (arrival, known, len)
            })
            .collect();
        let (mut early, mut late) = (packets.iter().peekable(), packets.iter().peekable());
        let (mut early_dues, mut dues) = (Vec::new(), Vec::new());
        let mut now = Nanos::ZERO;
        for &(gap, before, what) in &observations {
            now += Nanos(gap);
            // An observation precedes the events at `now` (as by a meter) or follows them (as at
            // the end of a run).
            let done = if before { Nanos(now.0 - 1) } else { now };
            while let Some(&(arrival, _, len)) = early.next_if(|packet| packet.1 <= done) {
                early_dues.push(ahead.submit(arrival, len, 1, now));
            }
            while let Some(&(arrival, _, len)) = late.next_if(|packet| packet.0 <= done) {
                dues.push(prompt.submit(arrival, len, 1, arrival));
                prompt.catch_up(arrival);
            }
            ahead.catch_up(done);
            prompt.catch_up(done);
            prop_assert_eq!(&early_dues[..dues.len()], &dues[..]);
            prop_assert_eq!(ahead.queue_length(now), prompt.queue_length(now));
            match what {
                0 => {
                    ahead.zero(now);
                    prompt.zero(now);
                }
                1 => prop_assert_eq!(ahead.take_peak(now), prompt.take_peak(now)),
                _ => {}
            }
            let (ours, theirs) = (ahead.stats(), prompt.stats());
            prop_assert_eq!(&ours.counters, &theirs.counters);
            prop_assert!(ours.counters.balanced());
            let summary = |stats: &LinkStats| {
                [&stats.queue_ns, &stats.total_ns]
                    .map(|h| (h.count(), h.sum(), h.max(), h.quantile(0.5)))
            };
            prop_assert_eq!(summary(ours), summary(theirs));
        }
    }
}

#[test]
fn a_plain_pipe_refuses_unsupported_configurations() {
    let mut config = PipeConfig::default();
    assert!(PlainPipe::new(&config).is_some());
    config.link.duplicate = weir_core::Probability::new(0.1).unwrap();
    assert!(PlainPipe::new(&config).is_none());
}
