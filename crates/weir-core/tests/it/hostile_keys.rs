//! Keys that a hostile sender of packets chooses: the engine finds flows with equal public hashes
//! as fast as any other flows.

use std::time::{Duration, Instant};

use weir_core::config::{FlowsetConfig, LinkConfig, PipeConfig, SchedulerConfig};
use weir_core::key::{FlowKey, FlowMask, stable_hash};
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::{Action, Arrival, Emulator, Limits, LookupKey, Nanos};

const FLOWS: u32 = 100_000;
/// The factor by which crafted flows may take longer than other flows. With a public hash, crafted
/// flows took thousands of times as long as other flows.
const FACTOR: u32 = 20;

/// Words that the public hash combines with the words of a key before it multiplies the results in
/// pairs. If one factor is 0, the product is 0 whatever the other factor is.
const SOURCE_WORD: u64 = 0x243f_6a88_85a3_08d3;
const DESTINATION_WORD: u64 = 0xa409_3822_299f_31d0;

/// IPv4 flows from 133.163.8.211 to 36.63.106.136. In the short form of such a key, the word with
/// both addresses equals [`SOURCE_WORD`], so a public hash of the short form would not depend on
/// the ports.
fn crafted_v4(n: u32) -> FlowKey {
    FlowKey {
        src: (SOURCE_WORD & 0xffff_ffff).into(),
        dst: (SOURCE_WORD >> 32).into(),
        src_port: n as u16,
        dst_port: (n >> 16) as u16,
        proto: 17,
        ..FlowKey::default()
    }
}

/// IPv6 flows. For the low half of each address, the public hash computes the factor 0, so the high
/// halves do not affect this hash.
fn crafted_v6(n: u32) -> FlowKey {
    FlowKey {
        src: u128::from(0x2001_0db8_0000_0000 + u64::from(n)) << 64 | u128::from(SOURCE_WORD),
        dst: u128::from(0x2001_0db8_0000_0000_u64) << 64 | u128::from(DESTINATION_WORD),
        proto: 17,
        ipv6: true,
        ..FlowKey::default()
    }
}

/// Flow `n` with addresses without a pattern. The other fields are those of the crafted flows.
fn random(n: u32, like: &FlowKey) -> FlowKey {
    let word = |salt: u64| (u64::from(n) ^ salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 5;
    if like.ipv6 {
        let address = |salt| u128::from(word(salt)) << 64 | u128::from(word(salt + 1));
        return FlowKey { src: address(1), dst: address(3), ..*like };
    }
    FlowKey {
        src: (word(1) as u32).into(),
        dst: (word(2) as u32).into(),
        src_port: n as u16,
        dst_port: (n >> 16) as u16,
        ..*like
    }
}

/// An engine that makes a pipe for each flow, or, with `queues`, a queue in front of one scheduler.
fn engine(queues: bool) -> (Emulator, Action) {
    let limits = Limits { instances: 2 * FLOWS, ..Limits::default() };
    let mut emulator = Emulator::new(1, limits).with_lookup_key(LookupKey::secret([3, 4]));
    let mask = FlowMask {
        src_ip: u32::MAX,
        dst_ip: u32::MAX,
        src_ip6: u128::MAX,
        dst_ip6: u128::MAX,
        src_port: u16::MAX,
        dst_port: u16::MAX,
        proto: u8::MAX,
        ..FlowMask::default()
    };
    let queue = FlowsetConfig { mask, ..FlowsetConfig::default() };
    if !queues {
        let pipe = PipeConfig { queue, link: LinkConfig::default(), scheduler: None };
        emulator.set_pipe(Nanos::ZERO, 1, &pipe);
        return (emulator, Action::Pipe(1));
    }
    let scheduler = SchedulerConfig {
        discipline: Kind::RoundRobin.into(),
        mask: FlowMask::default(),
        max_instances: None,
        parent: None,
    };
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler, &LinkConfig::default());
    emulator.set_queue(Nanos::ZERO, 1, 1, &queue);
    (emulator, Action::Queue(1))
}

/// The time for two packets of each flow: the first creates an instance, and the second finds it.
fn time(queues: bool, key: impl Fn(u32) -> FlowKey) -> Duration {
    let (mut emulator, action) = engine(queues);
    let mut out = Vec::new();
    let start = Instant::now();
    for n in (0..FLOWS).chain(0..FLOWS) {
        let arrival = Arrival {
            frame: n,
            len: 100,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        emulator.submit(Nanos::ZERO, arrival, &key(n), action).unwrap();
        emulator.poll(Nanos::ZERO, &mut out);
        out.clear();
    }
    start.elapsed()
}

fn assert_as_fast(queues: bool, crafted: fn(u32) -> FlowKey) {
    let like = crafted(0);
    let best = |key: &dyn Fn(u32) -> FlowKey| (0..2).map(|_| time(queues, key)).min().unwrap();
    let (hostile, usual) = (best(&crafted), best(&|n| random(n, &like)));
    assert!(
        hostile < usual * FACTOR,
        "{hostile:?} for crafted flows, {usual:?} for flows without a pattern"
    );
}

#[test]
fn instances_of_crafted_ipv4_flows_are_found_fast() {
    assert_as_fast(false, crafted_v4);
}

#[test]
fn instances_of_crafted_ipv6_flows_are_found_fast() {
    let public = stable_hash(&crafted_v6(0));
    assert!((1..FLOWS).all(|n| stable_hash(&crafted_v6(n)) == public), "the flows are crafted");
    assert_as_fast(false, crafted_v6);
}

#[test]
fn queues_of_crafted_ipv6_flows_are_found_fast() {
    assert_as_fast(true, crafted_v6);
}

/// Workers divide the instances among themselves by a hash that a sender cannot predict.
#[test]
fn only_engines_with_the_same_secret_agree() {
    let hashes = |lookup: LookupKey| {
        let (emulator, action) = engine(false);
        let emulator = emulator.with_lookup_key(lookup);
        (0..100).map(|n| emulator.instance_hash(&crafted_v4(n), action)).collect::<Vec<_>>()
    };
    let one = hashes(LookupKey::secret([5, 6]));
    assert_eq!(one, hashes(LookupKey::secret([5, 6])));
    let other = hashes(LookupKey::secret([5, 7]));
    assert!(one.iter().zip(&other).all(|(one, other)| one != other));
}
