//! The record of events is complete, or its gaps are flagged. The tests also cover the behaviour of
//! all methods but `tc` when devices, disciplines, namespaces, privileges or the process itself
//! disappear. They need root.

mod events_net;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use events_net::{Log, Place, watch};
use weir_probe::{Event, EventKind, Method, PacketEvent, PacketEventKind, QueueId};

/// Records events while `work` sends packets. Returns the number of packets and the log.
fn record(place: &Place, work: impl FnOnce() -> u64 + Send) -> Option<(u64, Log)> {
    let done = AtomicBool::new(false);
    let mut sent = 0;
    let log = watch(&place.plan("x0", Method::Events), |source, log| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sent = work();
                place.drain();
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                source.turn(log).expect("the devices stay");
            }
        });
    })?;
    Some((sent, log))
}

/// Checks the order of times, and that only flagged events have a length that does not follow from
/// the previous one. Returns for each queue the sum of the differences from the expected lengths.
fn unexplained(events: &[Event]) -> BTreeMap<QueueId, i64> {
    let mut last: BTreeMap<QueueId, Event> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    for event in events {
        if let Some(before) = last.insert(event.queue, *event) {
            assert!(before.time <= event.time, "{before:?} {event:?}");
            let step = if event.kind == EventKind::Enqueue {
                i64::from(event.packets)
            } else {
                -i64::from(event.packets)
            };
            let difference = i64::from(event.qlen) - i64::from(before.qlen) - step;
            assert!(
                difference == 0 || event.after_gap,
                "{difference} packets between {before:?} and {event:?}"
            );
            *sums.entry(event.queue).or_default() += difference;
        }
    }
    sums
}

#[test]
fn every_packet_through_a_token_bucket_is_recorded_or_its_loss_reported() {
    let Some(place) = Place::new() else { return };
    // With the first discipline, the sender's buffer fills before the queue does. With the second,
    // the queue fills first.
    place.discipline("add dev x0 root handle 1: tbf rate 300mbit burst 20k limit 200k");
    let work = || {
        let sent = place.send(|sent| sent < 210_000);
        place.discipline("replace dev x0 root handle 1: tbf rate 20mbit burst 20k limit 10k");
        sent + place.send(|sent| sent < 40_000)
    };
    let Some((sent, log)) = record(&place, work) else { return };
    let (qlen, truth) = place.truth();
    assert!(
        sent == 250_000 && qlen == 0 && truth.drops > 0 && log.queues.len() == 1,
        "{truth:?} {:?}",
        log.remarks
    );
    let (enqueued, dequeued) = (log.packets(EventKind::Enqueue), log.packets(EventKind::Dequeue));
    let missing = unexplained(&log.events).values().sum::<i64>();
    // The queue is empty when the recording begins and when it ends, but the last dequeues may not
    // have been reported.
    let last = log.events.last().map_or(0, |event| event.qlen);
    assert_eq!(enqueued.cast_signed() - dequeued.cast_signed() + missing, i64::from(last));
    assert!(log.empty_at.is_some(), "the last scan finds the queue empty");
    let gaps = log.events.iter().filter(|event| event.after_gap).count();
    println!(
        "{sent} sent, {enqueued} in, {dequeued} out, {} dropped, {gaps} gaps with {missing} \
         packets",
        truth.drops
    );
    assert!(
        log.has_remark(&format!("{gaps} of {} events after a gap", log.events.len())),
        "{:?}",
        log.remarks
    );
    assert_eq!(log.counters.values().copied().collect::<Vec<_>>(), [truth]);
    if gaps == 0 {
        assert_eq!((enqueued, dequeued), (truth.packets, truth.packets));
        assert_eq!(
            sent,
            enqueued + truth.drops,
            "packets that were not enqueued were dropped on arrival"
        );
        let bytes = |kind| {
            log.events
                .iter()
                .filter(|event| event.kind == kind)
                .map(|event| u64::from(event.bytes))
                .sum::<u64>()
        };
        assert_eq!(
            (bytes(EventKind::Enqueue), bytes(EventKind::Dequeue)),
            (truth.bytes, truth.bytes)
        );
    }
    assert!(enqueued <= truth.packets && dequeued <= truth.packets, "no packet is recorded twice");
    // Most events are recorded: gaps are exceptions.
    assert!(
        enqueued + dequeued > 2 * truth.packets * 9 / 10,
        "{enqueued} in and {dequeued} out of {}",
        truth.packets
    );
    assert!(
        log.events.iter().all(|event| event.backlog == event.qlen * 142),
        "every packet has 142 bytes"
    );
}

/// A filter drops most packets before they reach the device. Their sender then frees them, and may
/// be interrupted while the program records a freed packet. The timer of the token bucket is such
/// an interrupt: it sends packets, which are recorded too. Neither record may damage the other.
#[test]
fn records_of_an_interrupt_and_of_the_interrupted_packet_are_both_whole() {
    let Some(place) = Place::new() else { return };
    place.discipline("add dev x0 root handle 1: tbf rate 60mbit burst 2k limit 40k");
    let rules = "table ip t { chain c { type filter hook postrouting priority 0; \
                 udp dport 10 drop; }; }";
    if place.nft(rules).is_none() {
        return;
    }
    let mut plan = place.plan("x0", Method::Events);
    plan.packets = true;
    // The packets that the filter drops are longer than those that pass, and have no Ethernet
    // header yet.
    let (passes, dropped) = ([0; 100], [0; 200]);
    let (pass_bytes, dropped_bytes) = (142, 228);
    let done = AtomicBool::new(false);
    let log = watch(&plan, |source, log| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_to_this_processor();
                let socket = place.within(|| UdpSocket::bind("10.9.0.1:0").expect("an address"));
                socket.set_nonblocking(true).expect("sockets can be non-blocking");
                for count in 0..FREED {
                    if count % 8 == 0 {
                        // A full queue refuses the packet.
                        let _ = socket.send_to(&passes, "10.9.0.2:9");
                    }
                    let refused = socket.send_to(&dropped, "10.9.0.2:10");
                    assert!(refused.is_err(), "the filter drops every packet to port 10");
                }
                place.drain();
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                source.turn(log).expect("the devices stay");
            }
        });
    });
    let Some(log) = log else { return };
    let (_, truth) = place.truth();
    let of = |kind, bytes| {
        let found = |seen: &&PacketEvent| seen.kind == kind && seen.bytes == bytes;
        log.packets_seen.iter().filter(found).count() as u64
    };
    let (sent, freed) =
        (of(PacketEventKind::Sent, pass_bytes), of(PacketEventKind::Free, dropped_bytes));
    let remark = log.remarks.last();
    println!("{sent} of {} sent and {freed} of {FREED} freed: {remark:?}", truth.packets);
    assert_eq!((sent, freed), (truth.packets, FREED), "{remark:?}");
    assert!(sent > FREED / 100, "too few packets passed: {sent}");
    let whole = |seen: &PacketEvent| [pass_bytes, dropped_bytes].contains(&seen.bytes);
    let damaged: Vec<_> = log.packets_seen.iter().filter(|seen| !whole(seen)).collect();
    assert!(
        damaged.is_empty(),
        "{} of {}: {:?}",
        damaged.len(),
        log.packets_seen.len(),
        damaged[0]
    );
}

/// Packets that the filter drops in one recording.
const FREED: u64 = 1_000_000;

/// Keeps the calling thread on its processor, so that the timers that it starts interrupt it.
fn pin_to_this_processor() {
    let here = nix::sched::sched_getcpu().expect("the kernel knows the processor");
    let mut set = nix::sched::CpuSet::new();
    set.set(here).expect("the set has room for the processor");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)
        .expect("a thread may choose its processors");
}

#[test]
fn a_queue_with_packets_is_not_reported_as_empty() {
    let Some(place) = Place::new() else { return };
    place.discipline("add dev x0 root handle 1: tbf rate 8kbit burst 2k limit 200k");
    let log = watch(&place.plan("x0", Method::Events), |source, log| {
        place.send(|sent| sent < 100);
        source.turn(log).expect("the device stays");
    });
    let Some(log) = log else { return };
    // The burst lets 14 packets of 142 bytes pass, and each further packet takes 142 ms.
    assert!(log.most.0 > 50 && log.empty_at.is_none(), "{:?} {:?}", log.most, log.empty_at);
}

#[test]
fn a_lock_free_discipline_is_recorded_on_all_processors() {
    let Some(place) = Place::new() else { return };
    place.discipline("add dev x0 root handle 1: pfifo_fast");
    let work = || {
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| place.send(|sent| sent < 50_000)));
            threads.into_iter().map(|thread| thread.join().expect("sending does not panic")).sum()
        })
    };
    let Some((sent, log)) = record(&place, work) else { return };
    let (qlen, truth) = place.truth();
    assert_eq!((qlen, truth.packets + truth.drops), (0, sent));
    // A packet that finds the queue empty and the device idle bypasses the queue.
    let (enqueued, dequeued) = (log.packets(EventKind::Enqueue), log.packets(EventKind::Dequeue));
    let gaps = log.events.iter().filter(|event| event.after_gap).count();
    println!("{sent} sent, {enqueued} in, {dequeued} out, {} dropped, {gaps} gaps", truth.drops);
    assert!(enqueued <= truth.packets && dequeued <= truth.packets);
    for pair in log.events.windows(2) {
        assert!(pair[0].time <= pair[1].time, "{pair:?}");
    }
    if gaps == 0 {
        assert!(
            enqueued.abs_diff(dequeued) <= 16,
            "the queue is empty at the start and at the end: {enqueued} in, {dequeued} out"
        );
    }
}

#[test]
fn an_offload_train_counts_as_the_packets_it_is_cut_into() {
    // Some kernels call no program for a dequeue that interrupts certain threads. Such a dequeue is
    // missing, but a train never counts as too many packets.
    let mut counted = Vec::new();
    for _ in 0..5 {
        let Some(log) = train_through_a_small_bucket() else { return };
        let packets = (log.packets(EventKind::Enqueue), log.packets(EventKind::Dequeue));
        assert!(packets.0 <= 10 && packets.1 <= 10, "{log:?}");
        if packets == (10, 10) {
            assert!(unexplained(&log.events).values().all(|sum| *sum == 0), "{log:?}");
            // Ten packets of 1000 bytes with the headers of UDP, IP and Ethernet. The kernel
            // reports the train after the discipline has cut and freed it.
            let enqueued = log.events.iter().filter(|event| event.kind == EventKind::Enqueue);
            assert_eq!(enqueued.map(|event| u64::from(event.bytes)).sum::<u64>(), 10_420);
            return;
        }
        counted.push(packets);
    }
    panic!("packets in and out in each run: {counted:?}");
}

/// Sends an offload train of ten packets through a discipline, and records its events.
fn train_through_a_small_bucket() -> Option<Log> {
    let place = Place::new()?;
    // The bucket is smaller than the train, so the discipline must cut the train.
    place.discipline("add dev x0 root handle 1: tbf rate 50mbit burst 3000 limit 200k");
    watch(&place.plan("x0", Method::Events), |source, log| {
        let socket =
            place.within(|| std::net::UdpSocket::bind("10.9.0.1:0").expect("the address is there"));
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGsoSegment, &1000)
            .expect("kernels since 4.18 do this");
        socket.send_to(&[0; 10_000], "10.9.0.2:9").expect("the socket has room");
        place.drain();
        for _ in 0..10 {
            source.turn(log).expect("the devices stay");
        }
    })
}
