//! All methods that read lengths agree with `tc`, to the packet and the byte, on queues that do not
//! change: a rate of one byte per second lets the first packets pass and then no packet for
//! minutes. Most of the tests need root.

mod agreement_net;

use std::fmt::Write as _;

use agreement_net::{Place, watch};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use weir_probe::{Handle, Method, Namespace, Plan, Target};

/// The methods that read lengths.
const METHODS: [Method; 4] = [Method::Loop, Method::Timer, Method::Netlink, Method::Tc];

/// Compares every method with `tc`. Then checks that the state according to `tc` is still the same.
fn assert_agreement(place: &Place, device: &str) {
    let truth = place.truth(device);
    for method in METHODS {
        let Some(seen) = place.seen(&place.plan(device, method)) else { continue };
        assert_eq!(seen.disciplines(), truth, "{}", method.name());
        for (id, queue) in &seen.queues {
            assert_eq!(
                seen.counts[id],
                seen.readings,
                "{}: every reading of {} is reported",
                method.name(),
                queue.label()
            );
        }
    }
    assert_eq!(
        place.truth(device),
        truth,
        "the queues did not stand still: this test shows nothing"
    );
}

#[test]
fn full_token_bucket_filters_agree() {
    for (leaf, limit) in [("", ""), ("pfifo", "limit 10"), ("bfifo", "limit 3000")] {
        let Some(place) = Place::new() else { return };
        place.tc("qdisc add dev x0 root handle 1: tbf rate 8bit burst 2000 limit 6000\n");
        if !leaf.is_empty() {
            place.tc(&format!("qdisc add dev x0 parent 1:1 handle 2: {leaf} {limit}\n"));
        }
        place.send(100, 0);
        let truth = place.truth("x0");
        assert!(
            truth.values().any(|(qlen, _, counters)| *qlen > 5 && counters.drops > 20),
            "{leaf} is not full: {truth:?}"
        );
        assert_agreement(&place, "x0");
    }
}

#[test]
fn a_hundred_leaves_of_htb_agree_including_hidden_ones() {
    let Some(place) = Place::new() else { return };
    let mut lines = String::from("qdisc add dev x0 root handle 1: htb default 0\n");
    for class in 1..=100 {
        let _ = writeln!(
            lines,
            "class add dev x0 parent 1: classid 1:{class:x} htb rate 8bit ceil 8bit burst 1 \
             cburst 1 quantum 1514"
        );
        // A third of the classes have a queue with a limit in packets, a third have a queue with a
        // limit in bytes, and the other classes have the kernel's hidden default queue.
        match class % 3 {
            0 => writeln!(
                lines,
                "qdisc add dev x0 parent 1:{class:x} handle {:x}: pfifo limit {}",
                class + 1,
                2 + class % 7
            ),
            1 => writeln!(
                lines,
                "qdisc add dev x0 parent 1:{class:x} handle {:x}: bfifo limit {}",
                class + 1,
                300 + 100 * (class % 5)
            ),
            _ => Ok(()),
        }
        .expect("a string takes all");
    }
    place.tc(&lines);
    for class in 1..=100 {
        place.send(2 + class as u32 % 9, 0x1_0000 + class);
    }
    let truth = place.truth("x0");
    let hidden: Vec<u32> = truth
        .iter()
        .filter(|((_, handle, ..), _)| *handle == Handle(0))
        .map(|(_, (qlen, ..))| *qlen)
        .collect();
    assert_eq!((truth.len(), hidden.len()), (101, 33));
    assert!(hidden.iter().any(|&qlen| qlen > 3), "the hidden ones hold nothing: {hidden:?}");
    assert!(truth.values().any(|(.., counters)| counters.drops > 0), "no leaf was full");
    assert_agreement(&place, "x0");
}

#[test]
fn bands_of_pfifo_fast_hold_the_packets_of_their_priority() {
    let Some(place) = Place::new() else { return };
    place
        .tc("qdisc add dev x0 root handle 1: tbf rate 8bit burst 2000 limit 60000\nqdisc add dev \
              x0 parent 1:1 handle 2: pfifo_fast\n");
    // Best effort packets enter band 1 and use up the burst. Interactive packets enter band 0, and
    // bulk packets enter band 2.
    place.send(40, 0);
    place.send(3, 6);
    place.send(7, 2);
    let truth = place.truth("x0");
    let (_, (_, _, counters)) = truth.first_key_value().expect("the device has disciplines");
    let passed = u32::try_from(counters.packets).expect("the count is small");
    assert!((1..40).contains(&passed), "{truth:?}");
    assert_agreement(&place, "x0");
    for method in [Method::Loop, Method::Timer] {
        let Some(seen) = place.seen(&place.plan("x0", method)) else { continue };
        assert_eq!(seen.bands(), [3, 40 - passed, 7], "{}", method.name());
    }
    for method in [Method::Netlink, Method::Tc] {
        let seen = place.seen(&place.plan("x0", method)).expect("the method is available");
        assert!(
            seen.bands().is_empty() && seen.remarks.iter().any(|remark| remark.contains("bands")),
            "{:?}",
            seen.remarks
        );
    }
}

#[test]
fn counters_of_several_processors_are_summed() {
    let Some(place) = Place::new() else { return };
    place.tc("qdisc replace dev x0 root handle 7: pfifo_fast\n");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for processor in 0..processors {
        place.within(|| {
            // If the thread may not choose its processor, the kernel does.
            let _ = weir_linux::sys::thread::pin(processor);
            place.send(50, 0);
        });
    }
    let truth = place.truth("x0");
    let (_, (qlen, _, counters)) = truth.first_key_value().expect("the discipline exists");
    assert_eq!((*qlen, counters.packets, truth.len()), (0, 50 * processors as u64, 1));
    assert_agreement(&place, "x0");
}

#[test]
fn a_device_without_a_queue_agrees() {
    let Some(place) = Place::new() else { return };
    assert_eq!(
        place.truth("x0").first_key_value().expect("the device has a discipline").0.0,
        "noqueue"
    );
    assert_agreement(&place, "x0");
}

#[test]
fn only_roots_are_read_if_the_plan_excludes_children() {
    let Some(place) = Place::new() else { return };
    place.tc("qdisc add dev x0 root handle 1: tbf rate 8bit burst 2000 limit 6000\n");
    place.send(30, 0);
    let mut truth = place.truth("x0");
    truth.retain(|(.., is_root), _| *is_root);
    for method in METHODS {
        let Some(seen) = place.seen(&Plan { children: false, ..place.plan("x0", method) }) else {
            continue;
        };
        assert_eq!(seen.disciplines(), truth, "{}", method.name());
        assert!(seen.readings > 0);
    }
}

#[test]
fn new_and_vanished_disciplines_and_devices_are_reported() {
    for method in METHODS {
        let Some(place) = Place::new() else { return };
        place.tc("qdisc add dev x0 root handle 1: tbf rate 8bit burst 2000 limit 6000\n");
        let plan = Plan {
            targets: vec![Target {
                device: "x*".into(),
                namespace: Namespace::Name(place.name().into()),
            }],
            ..place.plan("", method)
        };
        let seen = watch(&plan, |source, seen| {
            let mut until = |what: &str, done: &dyn Fn(&agreement_net::Seen) -> bool| {
                for _ in 0..10_000 {
                    source.turn(seen).expect("the source continues");
                    if done(seen) {
                        return;
                    }
                }
                panic!("{}: {what} was not seen: {seen:?}", method.name());
            };
            let is_there = |seen: &agreement_net::Seen, kind: &str| {
                seen.queues.iter().any(|(id, queue)| {
                    queue.kind == kind && seen.counts.contains_key(id) && !seen.gone.contains(id)
                })
            };
            until("tbf", &|seen| is_there(seen, "tbf") && is_there(seen, "noqueue"));
            place.tc("qdisc replace dev x0 root handle 2: htb\n");
            until("htb", &|seen| is_there(seen, "htb") && !is_there(seen, "tbf"));
            place.ip("link del x0");
            until("the end of the devices", &|seen| seen.gone.len() == seen.queues.len());
        });
        let Some(seen) = seen else { continue };
        for device in ["x0", "x1"] {
            assert!(
                seen.remarks.contains(&format!("{device} is gone")),
                "{}: {:?}",
                method.name(),
                seen.remarks
            );
        }
    }
}

#[test]
fn netlink_needs_no_privileges_and_is_chosen_without_them() {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    for method in [Some(Method::Netlink), None] {
        let target = Target { device: "lo".into(), namespace: Namespace::Own };
        let plan = Plan {
            targets: vec![target],
            method,
            rate: None,
            children: true,
            bands: true,
            packets: false,
        };
        let seen = watch(&plan, |_, _| {});
        assert!(seen.is_some());
        // Privileges belong to threads, so dropping them affects only the new thread.
        let seen = std::thread::scope(|scope| {
            let read = || {
                set_capabilities(None, none).expect("giving up is allowed");
                let mut opened = weir_probe::open(&plan).expect("the method is available");
                assert_eq!(opened.source.method(), Method::Netlink);
                let mut seen = agreement_net::Seen::default();
                opened.source.turn(&mut seen).expect("the source reads");
                seen.remarks = opened.remarks;
                seen
            };
            scope.spawn(read).join().expect("no panic")
        });
        assert_eq!(seen.disciplines().len(), 1);
        assert_eq!(
            seen.remarks.iter().any(|remark| remark.starts_with("read over netlink, since")),
            method.is_none(),
            "{:?}",
            seen.remarks
        );
    }
}

#[test]
fn transmission_queues_with_a_limit_are_reported() {
    let limit = |device: &str| {
        let text = std::fs::read_to_string(format!(
            "/sys/class/net/{device}/queues/tx-0/byte_queue_limits/limit"
        ))
        .ok()?;
        text.trim().parse().ok().filter(|&limit: &u64| limit > 0)
    };
    let devices = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let Some(device) = devices
        .filter_map(|entry| entry.file_name().into_string().ok())
        .find(|name| limit(name).is_some())
    else {
        println!("SKIPPED: no device here has dynamic queue limits");
        return;
    };
    let target = Target { device: device.clone(), namespace: Namespace::Own };
    let plan = Plan {
        targets: vec![target],
        method: Some(Method::Netlink),
        rate: Some(100),
        children: true,
        bands: false,
        packets: false,
    };
    let seen = watch(&plan, |source, seen| {
        (0..3).for_each(|_| source.turn(seen).expect("the source reads"));
    })
    .expect("the method is available");
    assert!(
        seen.transmission
            .iter()
            .any(|(name, queue, limit)| *name == device && *queue == 0 && *limit > 0),
        "{seen:?}"
    );
}
