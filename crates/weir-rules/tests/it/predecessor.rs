//! Defects of dummynet that Weir must not have. Each test configures an engine by a script and
//! checks the fate of packets.
//!
//! The names of the tests state the behaviour of Weir. Two kinds of defects are tested elsewhere:
//! defects of locks in the tests of the live loop, and a defect of air-time profiles with many
//! points in the tests of `profile`.

use std::collections::BTreeMap;

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos};
use weir_rules::ruleset::{Changes, Ruleset};
use weir_rules::{NoFiles, script};

/// An engine with the configuration that all commands so far have created.
struct Bench {
    ruleset: Ruleset,
    emulator: Emulator,
    /// The number of the next frame.
    next: u32,
}

impl Bench {
    fn new(text: &str) -> Self {
        let mut bench = Self {
            ruleset: Ruleset::default(),
            emulator: Emulator::new(1, Limits::default()),
            next: 0,
        };
        bench.command(Nanos::ZERO, text);
        bench
    }

    /// Applies commands at `now`, as a daemon would.
    fn command(&mut self, now: Nanos, text: &str) {
        let parsed = script::parse(text, "script", &NoFiles);
        assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics);
        let old = self.ruleset.clone();
        self.ruleset.apply_all(&parsed.commands).unwrap();
        for change in Changes::between(&old, &self.ruleset).engine {
            change.apply(now, &mut self.emulator);
        }
    }

    /// Submits a packet of `len` bytes. Frames are numbered in the order of submission.
    fn packet(
        &mut self,
        now: Nanos,
        action: Action,
        len: u32,
        key: FlowKey,
    ) -> Result<(), DropReason> {
        let arrival = Arrival {
            frame: self.next,
            len,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        self.next += 1;
        self.emulator.submit(now, arrival, &key, action).map_err(|rejected| rejected.reason)
    }

    /// Submits a packet with this ECN field.
    fn with_ecn(&mut self, now: Nanos, len: u32, ecn: Ecn) -> Result<(), DropReason> {
        let arrival =
            Arrival { frame: self.next, len, link_header: 14, segments: 1, ecn, label: 0 };
        self.next += 1;
        self.emulator
            .submit(now, arrival, &FlowKey::default(), Action::Pipe(1))
            .map_err(|rejected| rejected.reason)
    }

    fn departures(&mut self, until: Nanos) -> Vec<Departure> {
        let mut out = Vec::new();
        self.emulator.poll(until, &mut out);
        out
    }
}

fn refused(text: &str) -> String {
    let parsed = script::parse(text, "script", &NoFiles);
    assert!(parsed.diagnostics.has_errors() && parsed.commands.is_empty(), "{text} is accepted");
    parsed.diagnostics.to_string()
}

fn customer(n: u128) -> FlowKey {
    FlowKey { dst: n, proto: 17, ..FlowKey::default() }
}

#[test]
fn rates_beyond_32_bits_are_exact_and_absurd_ones_are_refused() {
    let mut bench = Bench::new("pipe 1 config bw 400Gbit/s queue 100");
    for _ in 0..3 {
        bench.packet(Nanos(0), Action::Pipe(1), 1250, FlowKey::default()).unwrap();
    }
    let due: Vec<u64> = bench.departures(Nanos(1_000)).iter().map(|d| d.due.0).collect();
    assert_eq!(due, [25, 50, 75]);
    for rate in ["4294967297Gbit/s", "18446744073709551617bit/s", "-1Mbit/s"] {
        assert!(refused(&format!("pipe 1 config bw {rate}")).contains("bw"), "{rate}");
    }
}

#[test]
fn times_are_not_rounded_to_ticks() {
    let mut bench = Bench::new("pipe 1 config delay 0.25ms\npipe 2 config delay 1us");
    bench.packet(Nanos(100), Action::Pipe(1), 100, FlowKey::default()).unwrap();
    bench.packet(Nanos(100), Action::Pipe(2), 100, FlowKey::default()).unwrap();
    let due: Vec<u64> = bench.departures(Nanos::from_millis(1)).iter().map(|d| d.due.0).collect();
    assert_eq!(due, [1_100, 250_100]);
}

#[test]
fn one_pipe_has_jitter_reordering_duplicates_and_bit_errors() {
    let mut bench =
        Bench::new("pipe 1 config delay 10ms jitter 5ms reorder 20% dup 10% corrupt 10%");
    for n in 0..1_000u64 {
        bench
            .packet(Nanos::from_micros(100 * n), Action::Pipe(1), 1000, FlowKey::default())
            .unwrap();
    }
    let all = bench.departures(Nanos::from_secs(1));
    let count = |wanted: fn(Fate) -> bool| all.iter().filter(|d| wanted(d.fate)).count();
    assert!(count(|fate| matches!(fate, Fate::Deliver { duplicate: true, .. })) > 50);
    assert!(count(|fate| matches!(fate, Fate::Deliver { corrupt: Some(_), .. })) > 50);
    assert!(
        all.windows(2).filter(|pair| pair[0].frame > pair[1].frame).count() > 50,
        "some are overtaken"
    );
    let delays: std::collections::BTreeSet<u64> =
        all.iter().map(|d| d.due.0 - d.arrived.0).collect();
    assert!(delays.len() > 100, "delays differ");
}

#[test]
fn loss_before_the_queue_and_loss_on_the_link_have_separate_reasons() {
    let mut bench =
        Bench::new("pipe 1 config bw 1Mbit/s plr 1\npipe 2 config bw 1Mbit/s loss 100%");
    assert_eq!(
        bench.packet(Nanos(0), Action::Pipe(1), 1250, FlowKey::default()),
        Err(DropReason::LossBeforeQueue)
    );
    for _ in 0..2 {
        bench.packet(Nanos(0), Action::Pipe(2), 1250, FlowKey::default()).unwrap();
    }
    let lost = bench.departures(Nanos::from_secs(1));
    assert!(lost.iter().all(|d| d.fate == Fate::Drop(DropReason::LossOnLink)));
    assert_eq!(
        lost.iter().map(|d| d.due.0).collect::<Vec<_>>(),
        [10_000_000, 20_000_000],
        "a packet that is lost on the link has been transmitted"
    );
}

#[test]
fn queues_have_the_configured_size() {
    let mut bench =
        Bench::new("pipe 1 config bw 1Mbit/s queue 9000\npipe 2 config bw 1Mbit/s queue 50MB");
    // The queue holds 9000 packets, and one more is on the link.
    for _ in 0..=9000 {
        bench.packet(Nanos(0), Action::Pipe(1), 100, FlowKey::default()).unwrap();
    }
    assert_eq!(
        bench.packet(Nanos(0), Action::Pipe(1), 100, FlowKey::default()),
        Err(DropReason::QueueFull)
    );
    for _ in 0..33_000 {
        bench.packet(Nanos(0), Action::Pipe(2), 1500, FlowKey::default()).unwrap();
    }
}

#[test]
fn reconfiguration_keeps_what_is_queued_in_order() {
    let mut bench = Bench::new(
        "sched 5 config type wf2q+ bw 1Mbit/s\nqueue 1 config sched 5 weight 10 mask dst-ip 0xff",
    );
    for _ in 0..40 {
        bench.packet(Nanos(0), Action::Queue(1), 1250, customer(1)).unwrap();
    }
    let mut seen: Vec<u32> = Vec::new();
    for (ms, change) in [
        (15, "sched 5 config type wf2q+ bw 2Mbit/s"),
        (35, "queue 1 config sched 5 weight 3 mask dst-ip 0xff"),
        (55, "sched 5 config type rr bw 2Mbit/s"),
        (75, "queue 1 config sched 5 weight 3 queue 10 mask dst-ip 0xff"),
        (95, "queue 1 config sched 5 weight 3 queue 10 mask dst-ip 0xffff"),
    ] {
        seen.extend(bench.departures(Nanos::from_millis(ms)).iter().map(|d| d.frame));
        bench.command(Nanos::from_millis(ms), change);
    }
    seen.extend(bench.departures(Nanos::from_secs(10)).iter().map(|d| d.frame));
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

#[test]
fn shares_follow_the_weights_of_the_queues_with_packets() {
    let mut bench = Bench::new(
        "sched 5 config type wf2q+ bw 8Mbit/s\nqueue 1 config sched 5 weight 100\n\
         queue 2 config sched 5 weight 1 queue 1000\nqueue 3 config sched 5 weight 3 queue 1000",
    );
    // The heavy queue becomes idle. The two other queues then share the link in the ratio one to
    // three.
    bench.packet(Nanos(0), Action::Queue(1), 1000, customer(1)).unwrap();
    for _ in 0..800 {
        bench.packet(Nanos(0), Action::Queue(2), 1000, customer(2)).unwrap();
        bench.packet(Nanos(0), Action::Queue(3), 1000, customer(3)).unwrap();
    }
    let order: Vec<u32> = bench
        .departures(Nanos::from_millis(400))
        .iter()
        .map(|d| d.frame)
        .filter(|&frame| frame > 0)
        .collect();
    // Queue 2 has the frames with odd numbers.
    let light = order.iter().filter(|&&frame| frame % 2 == 1).count();
    assert!((order.len() / 4).abs_diff(light) <= 2, "{light} of {}", order.len());
    // The packets do not depart in blocks: any eight consecutive ones contain two of queue 2, plus
    // or minus one.
    for eight in order.windows(8) {
        let light = eight.iter().filter(|&&frame| frame % 2 == 1).count();
        assert!((1..=3).contains(&light), "{eight:?}");
    }
}

#[test]
fn a_separate_keyword_sets_the_priority() {
    let mut bench = Bench::new(
        "sched 5 config type prio bw 8Mbit/s\nqueue 1 config sched 5 pri 3\nqueue 2 config sched \
         5 pri 0",
    );
    bench.packet(Nanos(0), Action::Queue(1), 1000, customer(1)).unwrap();
    for queue in [1, 1, 2, 2] {
        bench.packet(Nanos(0), Action::Queue(queue), 1000, customer(1)).unwrap();
    }
    assert_eq!(
        bench.departures(Nanos::from_secs(1)).iter().map(|d| d.frame).collect::<Vec<_>>(),
        [0, 3, 4, 1, 2]
    );
}

#[test]
fn round_robin_shares_bytes_equally_for_all_packet_sizes() {
    let mut bench = Bench::new(
        "sched 5 config type rr bw 8Mbit/s\nqueue 1 config sched 5 lmax 100 queue 100000\nqueue 2 \
         config sched 5 lmax 1500 queue 10000",
    );
    for n in 0..15_000 {
        bench.packet(Nanos(0), Action::Queue(1), 100, customer(1)).unwrap();
        if n % 15 == 0 {
            bench.packet(Nanos(0), Action::Queue(2), 1500, customer(2)).unwrap();
        }
    }
    let mut bytes = BTreeMap::new();
    let sizes: BTreeMap<u32, u32> =
        (0..16_000u32).map(|frame| (frame, if frame % 16 == 1 { 1500 } else { 100 })).collect();
    for departure in bench.departures(Nanos::from_secs(1)) {
        *bytes.entry(sizes[&departure.frame]).or_insert(0u32) += sizes[&departure.frame];
    }
    assert!(bytes[&100].abs_diff(bytes[&1500]) <= 6_000, "{bytes:?}");
}

#[test]
fn masks_include_ipv6_and_the_link_layer() {
    let mut bench = Bench::new(
        "pipe 1 config bw 8Mbit/s mask dst-ip6 /128\npipe 2 config bw 8Mbit/s mask vlan 0xfff \
         dscp 0x3f src-mac 0xffffffffffff",
    );
    let link_local = FlowKey { dst: 0xfe80 << 112 | 1, ipv6: true, ..FlowKey::default() };
    for key in [link_local, FlowKey { dst: link_local.dst + 1, ..link_local }] {
        bench.packet(Nanos(0), Action::Pipe(1), 1000, key).unwrap();
    }
    for key in [
        FlowKey { vlan: 7, ..FlowKey::default() },
        FlowKey { dscp: 46, ..FlowKey::default() },
        FlowKey { src_mac: 5, ..FlowKey::default() },
    ] {
        bench.packet(Nanos(0), Action::Pipe(2), 1000, key).unwrap();
    }
    // Each packet had its own link, so all depart at the same time.
    assert!(bench.departures(Nanos::from_secs(1)).iter().all(|d| d.due == Nanos::from_millis(1)));
}

#[test]
fn documented_words_are_accepted_or_refused_with_a_reason() {
    assert!(refused("pipe 1 config bw tun0").contains("tun0"));
    // dummynet's manual and its program spell this word differently.
    let derandomised = |word: &str| {
        let bench = Bench::new(&format!("pipe 1 config bw 1Mbit/s pie target 15ms {word}"));
        bench.ruleset.pipes[&1].pipe.queue.aqm.unwrap().number("derand").unwrap()
    };
    assert_eq!(derandomised("drand"), derandomised("derand"));
    assert_eq!(derandomised("nodrand"), derandomised("noderand"));
    assert_ne!(derandomised("drand"), derandomised("nodrand"));
}

#[test]
fn red_with_ecn_marks_as_many_as_it_would_drop_and_not_everything_above_its_lower_threshold() {
    // A packet of 1250 bytes takes 1 ms. The queue stays between the thresholds because packets
    // arrive at the rate at which they depart.
    let count = |ecn: Ecn| {
        let mut bench = Bench::new("pipe 1 config bw 10Mbit/s queue 200 red 0.01/20/80/0.1 ecn");
        let (mut seen, mut chosen) = (0u32, 0u32);
        for ms in 0..5_000u64 {
            let now = Nanos::from_millis(ms);
            for departure in bench.departures(now) {
                seen += 1;
                chosen += u32::from(matches!(departure.fate, Fate::Deliver { mark: Some(_), .. }));
            }
            for _ in 0..if ms == 0 { 45 } else { 1 } {
                let refused = bench.with_ecn(now, 1250, ecn).is_err();
                chosen += u32::from(refused && ms > 0);
            }
            // Further packets replace the dropped ones, so that the queue length stays the same.
            while bench.emulator.queue_length(1).0 < 44 {
                chosen += u32::from(bench.with_ecn(now, 1250, ecn).is_err());
            }
        }
        (seen, chosen)
    };
    let (seen, marked) = count(Ecn::Ect0);
    let (_, dropped) = count(Ecn::NotEct);
    // The probability is 0.1 × (44 − 20) / 60, and slightly higher because of the spacing of drops.
    for chosen in [marked, dropped] {
        assert!((0.02..0.1).contains(&(f64::from(chosen) / f64::from(seen))), "{chosen} of {seen}");
    }
}
