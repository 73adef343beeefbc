//! Many links in one engine, compared with an engine for each link and with engines that share the
//! instances: links must not affect each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit, Reorder,
    SchedulerConfig,
};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::stats::{DropReason, LinkCounters};
use weir_core::{Action, Arrival, Bytes, Departure, Emulator, Limits, Nanos, Probability, Rate};

const PIPES: u16 = 3;
/// The number of the scheduler, which has queues 1 and 2.
const SCHEDULER: u16 = 4;
/// Number of engines that share the instances.
const ENGINES: u64 = 3;

/// The configuration of an engine: links, queues, and the mask of the scheduler.
#[derive(Clone, Debug)]
struct Setup {
    /// The link of the scheduler, and then those of the pipes.
    links: Vec<LinkConfig>,
    /// Queue 1 of the scheduler, the queues of the pipes, and queue 2 of the scheduler.
    queues: Vec<FlowsetConfig>,
    scheduler_mask: FlowMask,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    frame: u32,
    at: Nanos,
    len: u32,
    key: FlowKey,
    action: Action,
}

/// The outcome of a frame: a refusal at submission, or a departure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Refused(u32, DropReason),
    Departed(Departure),
}

impl Setup {
    /// An engine with only pipe or scheduler `only`; with `None`, an engine with all pipes and the
    /// scheduler.
    fn emulator(&self, only: Option<u16>) -> Emulator {
        let mut emulator = Emulator::new(7, Limits::default());
        for id in (1..=PIPES).filter(|&id| only.is_none_or(|only| only == id)) {
            let (link, queue) =
                (self.links[usize::from(id)].clone(), self.queues[usize::from(id)].clone());
            emulator.set_pipe(Nanos::ZERO, id, &PipeConfig { link, queue, scheduler: None });
        }
        if only.is_some_and(|only| only != SCHEDULER) {
            return emulator;
        }
        let scheduler = SchedulerConfig { mask: self.scheduler_mask, ..SchedulerConfig::default() };
        emulator.set_scheduler(Nanos::ZERO, SCHEDULER, &scheduler, &self.links[0]);
        emulator.set_queue(Nanos::ZERO, 1, SCHEDULER, &self.queues[0]);
        emulator.set_queue(Nanos::ZERO, 2, SCHEDULER, &self.queues[4]);
        emulator
    }

    /// The link of a packet: the number of the pipe or scheduler, and the masked key.
    fn link_of(&self, sent: &Sent) -> (u16, String) {
        let (id, mask) = match sent.action {
            Action::Pipe(id) => (id, self.queues[usize::from(id)].mask),
            Action::Queue(_) => (SCHEDULER, self.scheduler_mask),
        };
        (id, format!("{:?}", mask.apply(&sent.key)))
    }

    /// Submits packets; returns the outcomes in order, and the counters of each pipe and of the
    /// scheduler.
    fn play(&self, only: Option<u16>, traffic: &[Sent]) -> (Vec<Outcome>, Vec<LinkCounters>) {
        let mut emulator = self.emulator(only);
        let (mut outcomes, mut out) = (Vec::new(), Vec::new());
        for sent in traffic {
            emulator.poll(sent.at, &mut out);
            outcomes.extend(out.drain(..).map(Outcome::Departed));
            let arrival = Arrival {
                frame: sent.frame,
                len: sent.len,
                link_header: 14,
                segments: 1,
                ecn: Ecn::NotEct,
                label: 0,
            };
            if let Err(refused) = emulator.submit(sent.at, arrival, &sent.key, sent.action) {
                outcomes.push(Outcome::Refused(sent.frame, refused.reason));
            }
        }
        while let Some(at) = emulator.next_event() {
            emulator.poll(at, &mut out);
        }
        outcomes.extend(out.drain(..).map(Outcome::Departed));
        let counters = (1..=SCHEDULER)
            .filter_map(|id| emulator.stats(id))
            .map(|stats| stats.counters.clone())
            .collect();
        (outcomes, counters)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn links_are_independent_and_runs_repeatable(setup in setups(), traffic in traffic()) {
        let (together, counters) = setup.play(None, &traffic);
        let again = setup.play(None, &traffic);
        prop_assert_eq!((&together, &counters), (&again.0, &again.1));
        prop_assert!(counters.iter().all(|c| c.balanced() && c.backlog_packets == 0));

        let mut links: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
        for sent in &traffic {
            links.entry(setup.link_of(sent)).or_default().push(*sent);
        }
        for (link, own) in links {
            let of_link = |outcome: &&Outcome| {
                let (Outcome::Refused(frame, _) | Outcome::Departed(Departure { frame, .. })) =
                    outcome;
                setup.link_of(&traffic[*frame as usize]) == link
            };
            let expected: Vec<Outcome> = together.iter().filter(of_link).copied().collect();
            // Refusals are known at submission, departures only after a poll. Each kind is compared
            // in its own order.
            let by_kind = |outcomes: Vec<Outcome>| -> (Vec<_>, Vec<_>) {
                outcomes.into_iter().partition(|o| matches!(o, Outcome::Refused(..)))
            };
            prop_assert_eq!(
                by_kind(setup.play(Some(link.0), &own).0),
                by_kind(expected),
                "{:?}",
                link
            );
        }
    }

    #[test]
    fn engines_that_share_the_instances_act_like_one(setup in setups(), traffic in traffic()) {
        let (alone, counters) = setup.play(None, &traffic);
        let reference = setup.emulator(None);
        let mut together = Vec::new();
        let mut merged = vec![LinkCounters::default(); counters.len()];
        let mut peaks = vec![Vec::new(); counters.len()];
        for engine in 0..ENGINES {
            let is_mine = |sent: &&Sent| {
                reference.instance_hash(&sent.key, sent.action).unwrap() % ENGINES == engine
            };
            let own: Vec<Sent> = traffic.iter().filter(is_mine).copied().collect();
            let (outcomes, parts) = setup.play(None, &own);
            together.extend(outcomes);
            merged.iter_mut().zip(&parts).for_each(|(sum, part)| sum.merge(part));
            peaks.iter_mut().zip(&parts).for_each(|(own, part)| own.push(part.peak_queue_packets));
        }
        let in_order = |outcomes: Vec<Outcome>| {
            let mut texts: Vec<String> = outcomes.iter().map(|o| format!("{o:?}")).collect();
            texts.sort_unstable();
            texts
        };
        prop_assert_eq!(in_order(together), in_order(alone));
        for ((mut sum, one), peaks) in merged.into_iter().zip(counters).zip(peaks) {
            prop_assert!(sum.balanced());
            // The peaks of several engines may occur at different times, so the true peak lies
            // between their maximum and their sum.
            prop_assert_eq!(Some(sum.peak_queue_packets), peaks.iter().copied().max());
            let bounds = sum.peak_queue_packets..=peaks.iter().sum();
            prop_assert!(bounds.contains(&one.peak_queue_packets));
            sum.peak_queue_packets = one.peak_queue_packets;
            prop_assert_eq!(sum, one);
        }
    }
}

fn traffic() -> impl Strategy<Value = Vec<Sent>> {
    let packet = (0u64..2_000_000, any::<bool>(), 40u32..1501, 0u32..5, 0u16..4, 0u16..5);
    proptest::collection::vec(packet, 1..200).prop_map(|packets| {
        let mut at = Nanos::ZERO;
        let sent = |(frame, (gap, together, len, dst, src_port, target)): (
            usize,
            (u64, bool, u32, u32, u16, u16),
        )| {
            at += Nanos(if together { 0 } else { gap });
            let action = if target < PIPES {
                Action::Pipe(target + 1)
            } else {
                Action::Queue(target - PIPES + 1)
            };
            Sent {
                frame: frame as u32,
                at,
                len,
                key: FlowKey { dst: dst.into(), src_port, ..FlowKey::default() },
                action,
            }
        };
        packets.into_iter().enumerate().map(sent).collect()
    })
}

fn setups() -> impl Strategy<Value = Setup> {
    let links = proptest::collection::vec(links(), 4);
    let queues = proptest::collection::vec((masks(), 1u32..20, small()), 5);
    (links, queues, masks()).prop_map(|(links, queues, scheduler_mask)| {
        let queue = |(mask, limit, loss)| FlowsetConfig {
            mask,
            limit: Some(QueueLimit::Packets(limit)),
            loss: Loss::Bernoulli(loss),
            ..FlowsetConfig::default()
        };
        Setup { links, queues: queues.into_iter().map(queue).collect(), scheduler_mask }
    })
}

fn masks() -> impl Strategy<Value = FlowMask> {
    (prop_oneof![Just(0u32), Just(1), Just(u32::MAX)], prop_oneof![Just(0u16), Just(3)])
        .prop_map(|(dst_ip, src_port)| FlowMask { dst_ip, src_port, ..FlowMask::default() })
}

fn small() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), 0.0f64..0.3].prop_map(|x| Probability::new(x).unwrap())
}

fn links() -> impl Strategy<Value = LinkConfig> {
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        (10_000u64..50_000_000).prop_map(|bps| Capacity::Constant(Rate::new(bps).unwrap())),
    ];
    let correlation = prop_oneof![3 => Just(Probability::ZERO), 1 => small()];
    let jitter = (0u64..3_000_000, correlation, any::<bool>()).prop_map(
        |(amount, correlation, may_reorder)| Jitter {
            amount: Nanos(amount),
            distribution: Arc::new(Distribution::normal()),
            correlation,
            may_reorder,
        },
    );
    let reorder = (small(), 1u32..4).prop_map(|(probability, gap)| Reorder {
        probability,
        gap,
        correlation: Probability::ZERO,
    });
    let impaired =
        (proptest::option::of(jitter), small(), small(), small(), proptest::option::of(reorder));
    (capacity, 0u64..3000, 0u64..20_000_000, proptest::option::of(impaired)).prop_map(
        |(capacity, burst, delay, impaired)| {
            let plain = LinkConfig {
                capacity,
                burst: Bytes(burst),
                delay: Nanos(delay),
                ..LinkConfig::default()
            };
            match impaired {
                None => plain,
                Some((jitter, loss, duplicate, corrupt, reorder)) => LinkConfig {
                    jitter,
                    loss: Loss::Bernoulli(loss),
                    duplicate,
                    corrupt,
                    reorder,
                    ..plain
                },
            }
        },
    )
}
