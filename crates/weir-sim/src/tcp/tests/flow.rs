//! Set-up, acknowledgements, the receiver's window, pauses, pacing and trains.

use super::*;

#[test]
fn the_handshake_costs_a_round_trip_and_gives_the_first_sample() {
    let mut options = config(10);
    options.handshake = true;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(1000);
    wire.assert_done(10);
    assert!(wire.log[0].1.flags.has(Flags::SYN));
    assert_eq!(wire.segments()[0], (0, 20));
    // Ten segments are sent at 20 ms and acknowledged by 40 ms.
    assert_eq!(wire.network.count(FLOW).completion_ns.max(), 40_000_000);
}

#[test]
fn lost_syns_and_answers_are_sent_again_with_backoff() {
    let mut options = config(2);
    options.handshake = true;
    let mut seen = 0;
    let mut wire = Wire::new(&options, move |p| {
        // Loses the first SYN and the answer to the second.
        seen += u64::from(p.flags.has(Flags::SYN));
        if p.flags.has(Flags::SYN) && [1, 3].contains(&seen) { Fate::Drop } else { Fate::Pass }
    });
    wire.run(10_000);
    wire.assert_done(2);
    let syns: Vec<_> = wire
        .log
        .iter()
        .filter(|(_, p)| p.flags.has(Flags::SYN) && !p.flags.has(Flags::BACK))
        .map(|(at, _)| at.0 / 1_000_000)
        .collect();
    assert_eq!(syns, [0, 1000, 3000]);
}

#[test]
fn one_acknowledgement_for_two_segments_and_the_last_at_once() {
    let mut wire = Wire::new(&config(5), |_| Fate::Pass);
    wire.run(1000);
    wire.assert_done(5);
    assert_eq!(wire.acks(), [(2000, 10), (4000, 10), (5000, 10)]);
}

#[test]
fn an_odd_segment_is_acknowledged_after_the_delay() {
    let mut options = config(0);
    options.data = Data::Written;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(1);
    wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(3000), context));
    wire.run(1000);
    assert_eq!(wire.acks(), [(2000, 11), (3000, 51)]);
}

#[test]
fn a_segment_out_of_order_or_in_a_gap_is_acknowledged_at_once() {
    let mut wire = Wire::new(&config(7), once(Fate::Late(2), |p| is(p, 2)));
    wire.run(1000);
    wire.assert_done(7);
    let acks: Vec<_> = wire.acks().iter().map(|a| a.0).collect();
    assert_eq!(acks[..5], [2000, 2000, 2000, 2000, 2000]);
    assert_eq!(acks[5], 7000);
}

#[test]
fn a_receiver_that_does_not_read_closes_its_window_and_opens_it_again() {
    let mut options = config(100);
    options.receive_buffer = 8000;
    // One segment per 100 ms.
    options.read_rate = Some(80_000);
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(60_000);
    wire.assert_done(100);
    assert!(wire.ms() >= 9000);
    for (_, packet) in wire.log.iter().filter(|(_, p)| p.flags.has(Flags::BACK)) {
        assert!(packet.window <= 8000);
    }
    assert!(wire.log.iter().any(|(_, p)| p.flags.has(Flags::BACK) && p.window < 1000));
    assert_eq!(wire.retransmissions(), []);
}

#[test]
fn a_window_is_probed_if_the_acknowledgement_that_opens_it_was_lost() {
    let mut options = config(20);
    options.receive_buffer = 8000;
    options.read_rate = Some(800_000);
    let mut wire = Wire::new(&options, |p| {
        // For two seconds, every acknowledgement that would open the window is lost.
        let early = p.sent < Nanos::from_millis(2000)
            && p.flags.has(Flags::BACK)
            && p.window >= 1000
            && p.ack >= 8000;
        if early { Fate::Drop } else { Fate::Pass }
    });
    wire.run(30_000);
    wire.assert_done(20);
    let probes: Vec<_> = wire
        .log
        .iter()
        .filter(|(_, p)| !p.flags.has(Flags::BACK) && p.payload() == 0)
        .map(|(at, _)| at.0 / 1_000_000)
        .collect();
    assert!(probes.len() >= 2, "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{probes:?}");
}

#[test]
fn a_window_smaller_than_a_segment_is_used_bit_by_bit() {
    let mut options = config(3);
    options.receive_buffer = 400;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(30_000);
    wire.assert_done(3);
    assert!(wire.log.iter().all(|(_, p)| p.payload() <= 400));
}

#[test]
fn a_transfer_that_is_stopped_is_done_but_not_complete() {
    let mut options = config(10_000);
    options.stop = Nanos::from_millis(100);
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(1000);
    assert!(wire.notices.contains(&Notice::Done));
    assert_eq!(wire.network.count(FLOW).completed, 0);
}

#[test]
fn a_pause_shrinks_the_window_unless_configured_otherwise() {
    for (restart, expected) in [(true, 10), (false, 40)] {
        let mut options = config(0);
        options.data = Data::Written;
        options.idle_restart = restart;
        let mut wire = Wire::new(&options, |_| Fate::Pass);
        wire.run(1);
        wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(60_000), context));
        wire.run(200);
        let grown = wire.window();
        assert!(grown >= 40, "{grown}");
        wire.run(10_000);
        wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(200_000), context));
        let burst = wire.segments().iter().filter(|s| s.1 == 10_000).count() as u64;
        assert!(
            burst >= expected && (restart || burst == grown) && (!restart || burst == 10),
            "{burst} of {grown}"
        );
    }
}

#[test]
fn paced_segments_are_spread_over_the_round_trip() {
    let mut options = config(2000);
    options.pacing = Some(true);
    options.handshake = true;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(20);
    wire.run(40);
    let first: Vec<_> =
        wire.log.iter().filter(|(_, p)| p.payload() > 0).map(|(at, _)| at.0).collect();
    // Ten segments at twice the window per round trip of 20 ms: 1 ms apart.
    assert_eq!(first.len(), 10);
    assert!(first.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000), "{first:?}");
    wire.run(10_000);
    wire.assert_done(2000);
}

#[test]
fn trains_carry_several_segments_and_are_acknowledged_as_such() {
    let mut options = config(100);
    options.train = 4;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(2000);
    wire.assert_done(100);
    let (_, first) = wire.log[0];
    assert_eq!((first.segments, first.len, first.payload()), (4, 4 * 1052, 4000));
    assert_eq!(wire.acks()[0], (4000, 10));
    // The window of 10 segments allows two trains of four and one of two.
    assert_eq!(wire.segments().iter().filter(|s| s.1 == 0).count(), 3);
}

#[test]
fn small_queues_keep_little_in_the_host() {
    let mut options = config(100);
    options.small_queue = Some(3000);
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(1);
    assert_eq!(wire.log.len(), 2);
    assert!(wire.log[0].1.flags.has(Flags::TELL));
    let packet = wire.log[0].1;
    wire.with_sender(|sender, context| sender.left_host(&packet, context));
    assert_eq!(wire.log.len(), 3);
}

#[test]
fn a_stopped_sender_repairs_what_it_has_sent_and_is_done() {
    let mut options = config(0);
    options.data = Data::Unlimited;
    options.stop = Nanos::from_millis(100);
    let mut wire = Wire::new(
        &options,
        once(Fate::Drop, |p| p.sent >= Nanos::from_millis(80) && p.payload() > 0),
    );
    wire.run(2000);
    assert!(wire.notices.contains(&Notice::Done));
    assert!(
        wire.segments().iter().all(|s| s.1 < 100)
            || wire.retransmissions().iter().any(|s| s.1 >= 100)
    );
    assert_eq!(wire.retransmissions().len(), 1);
    assert_eq!(wire.sender.next_event(), Nanos::MAX);
}

#[test]
fn data_is_sent_when_written_and_closing_ends_the_connection() {
    let mut options = config(0);
    options.data = Data::Written;
    let mut wire = Wire::new(&options, |_| Fate::Pass);
    wire.run(5);
    assert!(wire.log.is_empty());
    for ms in [5, 100, 200] {
        wire.run(ms);
        wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(2000), context));
    }
    wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Close, context));
    wire.run(1000);
    wire.assert_done(6);
    assert_eq!(wire.segments().iter().map(|s| s.1).collect::<Vec<_>>(), [5, 5, 100, 100, 200, 200]);
}
