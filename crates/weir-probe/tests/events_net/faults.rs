//! Tests with devices, disciplines and namespaces that appear and vanish while they are being read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_probe::{Handle, Method, Namespace, Target};

use super::{Log, Place, run, turn_until, watch};

const METHODS: [Method; 4] = [Method::Loop, Method::Timer, Method::Events, Method::Netlink];
/// Capacity of the disciplines in these tests: 100 packets of 142 bytes.
const LIMIT: u32 = 14_200;

fn bucket(handle: u32) -> String {
    format!("replace dev x0 root handle {handle:x}: tbf rate 20mbit burst 2000 limit {LIMIT}")
}

#[test]
fn a_deleted_device_and_its_namesake_are_different_queues() {
    for method in METHODS {
        let Some(place) = Place::new() else { return };
        place.discipline(&bucket(1));
        let _ = watch(&place.plan("x0", method), |source, log| {
            let before: BTreeSet<u32> = log.queues.keys().copied().collect();
            assert!(!before.is_empty(), "{}: nothing there", method.name());
            place.ip("link del x0");
            turn_until(source, log, "the end of all queues", |log| {
                log.there().is_empty() && log.has_remark("x0 is gone")
            });
            place.add_device();
            place.discipline(&bucket(1));
            turn_until(source, log, "the new device", |log| {
                log.has_remark("x0 is there")
                    && log.there().iter().any(|queue| queue.ends_with("tbf 1:"))
            });
            assert!(before.iter().all(|id| log.gone.contains(id)), "{}: {log:?}", method.name());
        });
    }
}

/// Replaces the discipline under traffic: 150 times in quick succession, then 20 times with a wait
/// until the source has scanned.
fn replace(place: &Place, turns: &AtomicU64, handles: &mut BTreeSet<Handle>) {
    for round in 2..172u32 {
        place.discipline(&bucket(round));
        handles.insert(Handle(round << 16));
        let seen = turns.load(Ordering::Acquire);
        std::thread::sleep(Duration::from_millis(6));
        while round >= 152 && turns.load(Ordering::Acquire) < seen + SCAN_TURNS {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn disciplines_replaced_a_hundred_times_a_second_are_distinguished() {
    for method in [Method::Loop, Method::Netlink, Method::Events] {
        let Some(place) = Place::new() else { return };
        place.discipline(&bucket(1));
        let (turns, done) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut made = BTreeSet::from([Handle(1 << 16)]);
        let log = watch(&place.plan("x0", method), |source, log| {
            std::thread::scope(|scope| {
                let sender = scope.spawn(|| place.send(|_| !done.load(Ordering::Acquire)));
                scope.spawn(|| {
                    replace(&place, &turns, &mut made);
                    done.store(true, Ordering::Release);
                });
                while !done.load(Ordering::Acquire) {
                    source.turn(log).expect("a change is not an error");
                    turns.fetch_add(1, Ordering::AcqRel);
                }
                assert!(sender.join().expect("sending does not panic") > 0);
            });
        });
        let Some(log) = log else { continue };
        let roots: Vec<Handle> = log
            .queues
            .values()
            .filter(|queue| queue.root && queue.kind == "tbf")
            .map(|queue| queue.handle)
            .collect();
        let seen: BTreeSet<Handle> = roots.iter().copied().collect();
        println!(
            "{}: {} of {} disciplines seen, longest {:?}",
            method.name(),
            seen.len(),
            made.len(),
            log.most
        );
        assert_eq!(seen.len(), roots.len(), "{}: each was there once", method.name());
        assert!(seen.is_subset(&made), "{}: {:?}", method.name(), seen.difference(&made));
        // Each of the last 20 disciplines existed during a scan.
        let slow: BTreeSet<Handle> = (152..172).map(|round| Handle(round << 16)).collect();
        assert!(slow.is_subset(&seen), "{}: not seen: {:?}", method.name(), slow.difference(&seen));
        assert_eq!(
            log.there().iter().filter(|queue| queue.contains("tbf")).count(),
            1,
            "{}: {:?}",
            method.name(),
            log.there()
        );
        assert!(
            log.there().contains(&format!("x0@{} tbf ab:", place.name)),
            "{}: {:?}",
            method.name(),
            log.there()
        );
        assert!(
            log.most.0 <= LIMIT / 142 && log.most.1 <= LIMIT,
            "{}: longer than it can be: {:?}",
            method.name(),
            log.most
        );
    }
}

#[test]
fn a_namespace_without_a_name_is_read_until_the_end_and_then_released() {
    for method in METHODS {
        let (Some(place), Some(other)) = (Place::new(), Place::new()) else { return };
        // The device in `other` vanishes with its peer, when the namespace of `place` ends.
        place.ip(&format!("link add witness type veth peer name witness netns {}", other.name));
        let log = watch(&place.plan("x0", method), |source, log| {
            assert!(run("ip", &["netns", "del", &place.name]));
            for _ in 0..20 {
                source.turn(log).expect("the namespace still exists");
            }
            assert!(!log.there().is_empty(), "{}: {log:?}", method.name());
        });
        if log.is_none() {
            continue;
        }
        let there = || other.has_link("witness");
        let end = std::time::Instant::now() + super::PATIENCE;
        while there() {
            assert!(std::time::Instant::now() < end, "{}: the namespace is kept", method.name());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn patterns_select_devices_in_several_namespaces() {
    for method in METHODS {
        let (Some(one), Some(two)) = (Place::new(), Place::new()) else { return };
        one.discipline(&bucket(1));
        two.discipline(&bucket(2));
        let mut plan = one.plan("x*", method);
        plan.targets
            .push(Target { device: "x0".into(), namespace: Namespace::Name(two.name.clone()) });
        let queue = |place: &Place, rest: &str| format!("x0@{} {rest}", place.name);
        let _ = watch(&plan, |source, log| {
            let (first, second) = (queue(&one, "tbf 1:"), queue(&two, "tbf 2:"));
            turn_until(source, log, "both namespaces", |log| {
                log.there().contains(&first) && log.there().contains(&second)
            });
            one.send(|sent| sent < 50);
            two.send(|sent| sent < 50);
            turn_until(source, log, "what was sent", |log| log.both_have_data());
            one.ip("link add x7 type veth peer name other");
            turn_until(source, log, "a new device that fits", |log| log.has_remark("x7 is there"));
            one.ip("link set x7 name y7");
            turn_until(source, log, "word of another name", |log| {
                (log.has_remark("x7 is gone") || log.has_remark("x7 is called"))
                    && !log.there().iter().any(|queue| queue.starts_with("x7"))
            });
            assert!(
                !log.there()
                    .iter()
                    .any(|queue| queue.starts_with("other") || queue.starts_with("lo")),
                "{:?}",
                log.there()
            );
        });
    }
}

impl Log {
    /// Whether readings or events came from at least two roots of the test.
    fn both_have_data(&self) -> bool {
        let roots = self.queues.iter().filter(|(_, queue)| queue.kind == "tbf");
        roots
            .filter(|(id, _)| {
                self.readings.contains_key(id)
                    || self.events.iter().any(|event| event.queue == **id)
            })
            .count()
            >= 2
    }
}

/// Number of turns after which every method has scanned the disciplines.
const SCAN_TURNS: u64 = 12;
