//! Tests of the statistics that a tally keeps.

use alloc::vec::Vec;
use proptest::prelude::*;
use serde_json::json;

use super::model::{EventKind, Handle};
use super::pace::{Method, Pace};
use super::*;

/// A discipline, not a band; its parent is the device or a class.
pub(crate) fn queue(device: &str, kind: &str, handle: u32, root: bool) -> Queue {
    let parent = if root { Handle::ROOT } else { Handle(0x1_0001) };
    Queue {
        device: device.into(),
        netns: None,
        kind: kind.into(),
        handle: Handle(handle),
        parent,
        band: None,
        root,
    }
}

fn run(queue: QueueId, first: u64, last: u64, count: u32, qlen: u32) -> Run {
    Run { queue, first, last, count, qlen, backlog: qlen * 1514 }
}

fn event(time: u64, kind: EventKind, qlen: u32, after_gap: bool) -> Event {
    Event {
        queue: 0,
        time,
        kind,
        packets: 1,
        bytes: 1514,
        qlen,
        backlog: qlen * 1514,
        drops: 0,
        cpu: 0,
        after_gap,
    }
}

#[test]
fn a_watch_becomes_the_published_document() {
    let mut tally = Tally::new();
    tally.appeared(1_000_000_000, 0, &queue("eth0", "tbf", 0x8001_0000, true));
    tally.counters(1_000_000_000, 0, &Counters { drops: 40, ..Counters::default() });
    tally.runs(&[
        run(0, 1_000_000_000, 1_400_000_000, 90, 0),
        run(0, 1_400_000_010, 1_500_000_000, 9, 1),
    ]);
    tally.runs(&[run(0, 1_500_000_010, 1_500_000_010, 1, 8)]);
    tally.counters(2_000_000_000, 0, &Counters { drops: 47, packets: 3, ..Counters::default() });
    tally.remark(1_250_000_000, "eth1 is gone");
    let mut pace = Pace { asked: Some(100), readings: 100, missed: 2, ..Pace::default() };
    pace.gaps.record(5000);
    let document =
        serde_json::to_value(Summary::of(&tally, Method::Loop, 1.0, &pace)).expect("plain data");
    assert_eq!(document["device"], "eth0");
    assert_eq!(document["netns"], json!(null));
    assert_eq!((&document["method"], &document["samples"]), (&json!("loop"), &json!(100)));
    assert_eq!(
        (&document["samples_per_s"], &document["asked_per_s"], &document["missed"]),
        (&json!(100.0), &json!(100), &json!(2))
    );
    assert_eq!(document["gap_ns"], json!({"p50": 5000, "p99": 5000, "max": 5000}));
    // There are 99 differences. The 89 and 8 differences within the runs are 0; the two differences
    // between the runs are 1 and 7.
    assert_eq!(document["variance"]["0"], json!(97.0 / 99.0));
    assert_eq!(
        (&document["variance"]["1"], &document["variance"]["max"]),
        (&json!(1.0 / 99.0), &json!(7))
    );
    let qdisc = &document["qdiscs"][0];
    assert_eq!(
        (&qdisc["kind"], &qdisc["handle"], &qdisc["parent"]),
        (&json!("tbf"), &json!("8001:"), &json!("root"))
    );
    assert_eq!(qdisc["qlen"], json!({"mean": 0.17, "p50": 0, "p99": 8, "max": 8}));
    assert_eq!(qdisc["backlog_bytes"]["max"], 8 * 1514);
    assert_eq!((&qdisc["drops"], &qdisc["drops_per_s"]), (&json!(7), &json!(7.0)));
    assert_eq!(document["notes"], json!(["0.250 s: eth1 is gone"]));
}

#[test]
fn several_devices_are_a_list_with_the_samples_of_their_roots() {
    let mut tally = Tally::new();
    for (id, device, root) in [(0, "a", true), (1, "a", false), (2, "b", true), (3, "a", true)] {
        tally.appeared(0, id, &queue(device, "fq", 0, root));
        tally.runs(&[run(id, 0, 9, 10 + id, 0)]);
    }
    let document =
        serde_json::to_value(Summary::of(&tally, Method::Netlink, 1.0, &Pace::default()))
            .expect("plain data");
    assert_eq!((&document[0]["device"], &document[0]["samples"]), (&json!("a"), &json!(10 + 13)));
    assert_eq!(
        (&document[1]["device"], document[0]["qdiscs"].as_array().map(Vec::len)),
        (&json!("b"), Some(3))
    );
    let empty = Summary::of(&Tally::new(), Method::Loop, 0.0, &Pace::default());
    assert_eq!(empty.to_json(), "[]\n");
}

#[test]
fn events_weigh_lengths_by_time() {
    let mut tally = Tally::new();
    tally.appeared(0, 0, &queue("eth0", "tbf", 0x1_0000, true));
    let (enqueue, dequeue) = (EventKind::Enqueue, EventKind::Dequeue);
    tally.events(&[
        event(1000, enqueue, 1, false),
        event(1300, enqueue, 2, false),
        event(1300, dequeue, 1, false),
    ]);
    tally.events(&[event(1900, dequeue, 0, true)]);
    tally.remark(2000, "the end");
    tally.finish();
    let queue = &tally.queues()[0];
    assert_eq!(
        (queue.packets().weight_at(1), queue.packets().weight_at(0), queue.packets().max()),
        (900, 100, 2)
    );
    assert_eq!(
        queue.periods().as_slice().iter().map(|period| period.packets.max()).max(),
        Some(2),
        "a length that lasts 0 ns counts as a peak"
    );
    let document = serde_json::to_value(Summary::of(&tally, Method::Events, 1.0, &Pace::default()))
        .expect("plain data");
    let expected = json!({"enqueues": 2, "dequeues": 2, "dequeued_packets": 2, "empty_dequeues": 0, "gaps": 1, "gap_share": 0.25});
    assert_eq!(
        (&document["events"], &document["samples"], &document["variance"]),
        (&expected, &json!(4), &json!(null))
    );
}

#[test]
fn the_device_sends_from_the_children_of_an_mq() {
    let mut tally = Tally::new();
    let child = |parent, band| Queue {
        parent: Handle(parent),
        band,
        ..queue("eth0", "pfifo_fast", 0, false)
    };
    tally.appeared(0, 0, &queue("eth0", "mq", 0, true));
    tally.appeared(0, 1, &child(1, None));
    tally.appeared(0, 2, &child(2, None));
    tally.appeared(0, 3, &child(1, Some(0)));
    tally.appeared(0, 4, &child(0x8001_0001, None));
    for id in 0..5 {
        tally.runs(&[run(id, 0, 9, 10, 0), run(id, 10, 19, 10, id)]);
    }
    let summary = Summary::of(&tally, Method::Loop, 1.0, &Pace::default());
    let variance = summary.devices[0].variance.expect("there are differences");
    assert_eq!(
        (variance.count, variance.one, variance.max, summary.devices[0].samples),
        (38, 1.0 / 38.0, 2, 20)
    );
}

#[test]
fn counters_that_wrap_or_are_reset_lose_nothing() {
    let mut tally = Tally::new();
    tally.appeared(0, 0, &queue("eth0", "tbf", 0x1_0000, true));
    for (time, drops) in [(1, u64::from(u32::MAX) - 2), (2, 4), (3, 9), (4, 1)] {
        tally.counters(time, 0, &Counters { drops, ..Counters::default() });
    }
    let queue = &tally.queues()[0];
    assert_eq!(queue.counted().drops, 7 + 5 + 1);
    for (time, requeues) in [(5, 9), (6, u64::from(u32::MAX)), (7, 4)] {
        tally.counters(time, 0, &Counters { drops: 1, requeues, ..Counters::default() });
    }
    let requeues = tally.queues()[0].counted().requeues;
    assert_eq!(requeues, u64::from(u32::MAX) + 5, "another counter wraps");
    let drops = tally.queues()[0].periods().as_slice().iter().map(|period| period.drops);
    assert_eq!(drops.sum::<u64>(), 13);
}

proptest! {
    #[test]
    fn statistics_equal_those_of_the_single_readings(
        lengths in prop::collection::vec(0u32..6, 1..300),
    ) {
        let mut runs: Vec<Run> = Vec::new();
        for (time, &qlen) in (0u64..).zip(&lengths) {
            match runs.last_mut().filter(|last| last.qlen == qlen && time % 17 != 0) {
                Some(last) => (last.last, last.count) = (time, last.count + 1),
                None => runs.push(run(0, time, time, 1, qlen)),
            }
        }
        let mut tally = Tally::new();
        tally.appeared(0, 0, &queue("eth0", "tbf", 0x1_0000, true));
        runs.chunks(3).for_each(|runs| tally.runs(runs));
        let measured = &tally.queues()[0];
        prop_assert_eq!(measured.packets().total(), lengths.len() as u64);
        prop_assert_eq!(
            measured.packets().mean(),
            lengths.iter().map(|&n| u64::from(n)).sum::<u64>() as f64 / lengths.len() as f64
        );
        for step in 0..6 {
            let expected =
                lengths.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == step).count();
            prop_assert_eq!(measured.steps().weight_at(step.into()), expected as u64);
        }
        prop_assert_eq!(measured.current().map(|level| level.0), lengths.last().copied());
    }
}

#[test]
fn a_tee_passes_everything_on() {
    #[derive(Default)]
    struct Calls(Vec<&'static str>);
    impl Sink for Calls {
        fn appeared(&mut self, _: u64, _: QueueId, _: &Queue) {
            self.0.push("appeared");
        }
        fn vanished(&mut self, _: u64, _: QueueId) {
            self.0.push("vanished");
        }
        fn runs(&mut self, _: &[Run]) {
            self.0.push("runs");
        }
        fn events(&mut self, _: &[Event]) {
            self.0.push("events");
        }
        fn packets(&mut self, _: &[PacketEvent]) {
            self.0.push("packets");
        }
        fn lost(&mut self, _: u64, _: u64) {
            self.0.push("lost");
        }
        fn empty(&mut self, _: u64) {
            self.0.push("empty");
        }
        fn counters(&mut self, _: u64, _: QueueId, _: &Counters) {
            self.0.push("counters");
        }
        fn transmission(&mut self, _: u64, _: &[Transmission]) {
            self.0.push("transmission");
        }
        fn remark(&mut self, _: u64, _: &str) {
            self.0.push("remark");
        }
    }
    let mut calls = [Calls::default(), Calls::default()];
    let mut tee = Tee(calls.iter_mut().map(|sink| sink as &mut dyn Sink).collect());
    tee.appeared(0, 0, &queue("eth0", "tbf", 0x8001_0000, true));
    tee.runs(&[run(0, 0, 1, 2, 0)]);
    tee.events(&[event(0, EventKind::Enqueue, 1, false)]);
    tee.packets(&[]);
    tee.lost(0, 1);
    tee.empty(0);
    tee.counters(0, 0, &Counters::default());
    tee.transmission(0, &[]);
    tee.remark(0, "a remark");
    tee.vanished(0, 0);
    let all = [
        "appeared",
        "runs",
        "events",
        "packets",
        "lost",
        "empty",
        "counters",
        "transmission",
        "remark",
        "vanished",
    ];
    for sink in &calls {
        assert_eq!(sink.0, all);
    }
}
