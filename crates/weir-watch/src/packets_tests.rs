//! Tests of the combination of events: whole and cut trains, drops, reused numbers, and bounds.

use weir_probe::PacketEventKind::{Arrive, Free, Leave, Sent};

use super::*;

fn event(time: u64, kind: PacketEventKind, packet: u64) -> PacketEvent {
    PacketEvent { time, kind, packet, flow: 9, bytes: 1000, packets: 1, segment: 0, tos: 2 }
}

fn train(time: u64, kind: PacketEventKind, packet: u64) -> PacketEvent {
    PacketEvent { bytes: 2500, packets: 3, segment: 1000, ..event(time, kind, packet) }
}

/// Bytes, outcome and sojourn time of each packet, in the order of arrival, and the number of
/// strays.
fn outcomes(events: &[PacketEvent]) -> (Vec<(u32, Fate, Option<u64>)>, u32) {
    outcomes_when_empty(events, None)
}

/// The same as [`outcomes`], if the queue was found empty at this time.
fn outcomes_when_empty(
    events: &[PacketEvent],
    empty_at: Option<u64>,
) -> (Vec<(u32, Fate, Option<u64>)>, u32) {
    let (mut trail, mut ready) = (Trail::default(), Vec::new());
    events.iter().for_each(|event| trail.take(event, &mut ready));
    let end = trail.finish(empty_at, &mut ready);
    let packet = |entry: &Entry| match entry {
        Entry::Packet(packet) => (packet.bytes, packet.fate, packet.wait),
        other => panic!("{other:?}"),
    };
    (ready.iter().map(packet).collect(), end.strays)
}

#[test]
fn packets_have_their_own_outcomes_in_the_order_of_arrival() {
    let events = [
        event(100, Arrive, 1),
        event(110, Arrive, 2),
        event(120, Arrive, 3),
        event(121, Free, 3),
        event(130, Leave, 2),
        event(131, Sent, 2),
        event(140, Leave, 1),
        event(150, Arrive, 4),
        event(151, Sent, 4),
        event(160, Arrive, 5),
    ];
    let expected = [
        (1000, Fate::Departed, Some(40)),
        (1000, Fate::Departed, Some(20)),
        (1000, Fate::Dropped, Some(1)),
        (1000, Fate::Bypassed, Some(1)),
        (1000, Fate::Inside, None),
    ];
    assert_eq!(outcomes(&events), (expected.to_vec(), 0));
}

#[test]
fn the_packets_of_an_uncut_train_depart_with_it() {
    let (all, strays) = outcomes(&[train(0, Arrive, 1), train(7, Leave, 1)]);
    let expected = [1000, 1000, 500].map(|bytes| (bytes, Fate::Departed, Some(7)));
    assert_eq!((all, strays), (expected.to_vec(), 0));
}

#[test]
fn the_parts_of_a_cut_train_are_found_by_their_flow() {
    // Both trains are cut. The first train's parts get new numbers, and two parts of the second
    // train get the numbers that the trains had.
    let events = [
        train(0, Arrive, 1),
        event(10, Leave, 50),
        train(11, Arrive, 2),
        event(12, Free, 53),
        event(20, Leave, 51),
        event(30, Leave, 52),
        event(40, Leave, 1),
        event(50, Leave, 2),
    ];
    let (all, strays) = outcomes(&events);
    let waits: Vec<Option<u64>> = all.iter().map(|packet| packet.2).collect();
    assert_eq!(waits, [10, 20, 30, 29, 39, 1].map(Some));
    assert_eq!((all[5].1, strays), (Fate::Dropped, 0));
}

#[test]
fn departures_without_an_arrival_are_strays_and_other_drops_are_not() {
    let events = [event(0, Arrive, 1), event(1, Leave, 8), event(2, Free, 7), event(3, Leave, 1)];
    assert_eq!(outcomes(&events), (vec![(1000, Fate::Departed, Some(3))], 1));
}

#[test]
fn a_packet_whose_number_is_reused_has_an_unknown_outcome() {
    let events = [event(0, Arrive, 1), event(5, Arrive, 1), event(9, Leave, 1)];
    let expected = vec![(1000, Fate::Unknown, None), (1000, Fate::Departed, Some(4))];
    assert_eq!(outcomes(&events), (expected, 0));
}

#[test]
fn a_packet_is_not_inside_a_queue_that_was_empty_later() {
    let events = [event(100, Arrive, 1), event(150, Arrive, 2), event(200, Arrive, 3)];
    let fates = |empty_at| {
        let (packets, _) = outcomes_when_empty(&events, empty_at);
        packets.iter().map(|packet| packet.1).collect::<Vec<_>>()
    };
    assert_eq!(fates(Some(150)), [Fate::Unknown, Fate::Unknown, Fate::Inside]);
    assert_eq!(fates(Some(99)), [Fate::Inside; 3]);
    assert_eq!(fates(None), [Fate::Inside; 3]);
}

#[test]
fn marks_are_recorded_and_losses_counted_once() {
    let (mut trail, mut ready) = (Trail::default(), Vec::new());
    trail.take(&event(0, Arrive, 1), &mut ready);
    trail.take(&PacketEvent { tos: 3, ..event(1, Leave, 1) }, &mut ready);
    trail.lost(2, 10, &mut ready);
    trail.lost(3, 25, &mut ready);
    assert!(matches!(ready[0], Entry::Packet(packet) if packet.marked));
    let lost = |entry: &Entry| if let Entry::Lost { events, .. } = entry { *events } else { 0 };
    assert_eq!(ready.iter().map(lost).collect::<Vec<_>>(), [0, 10, 15]);
}

#[test]
fn memory_is_bounded_when_an_outcome_never_comes() {
    let (mut trail, mut ready) = (Trail::default(), Vec::new());
    for number in 0..(3 * MAX_WAITING as u64) {
        trail.take(&event(number, Arrive, number), &mut ready);
        assert!(trail.waiting.len() <= MAX_WAITING + 1 && trail.queued.len() <= 2 * MAX_WAITING);
    }
    assert!(
        ready
            .iter()
            .all(|entry| matches!(entry, Entry::Packet(packet) if packet.fate == Fate::Unknown))
    );
    assert_eq!(ready.len(), 2 * MAX_WAITING);
}

#[test]
fn the_packets_of_impossible_trains_have_possible_lengths() {
    for (bytes, packets, segment) in
        [(0, 0, 0), (5, 9, 1000), (u32::MAX, 2, u32::MAX), (10, 65_535, 1)]
    {
        let odd = PacketEvent { bytes, packets, segment, ..event(0, Arrive, 1) };
        let (all, _) = outcomes(&[odd]);
        assert_eq!(all.len(), packets.max(1) as usize);
        assert!(all.iter().all(|packet| (1..=1 << 20).contains(&packet.0)));
    }
}
