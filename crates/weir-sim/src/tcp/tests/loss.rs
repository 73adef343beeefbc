//! Losses, reordering, timeouts, and reductions of the window that are undone.

use super::*;

#[test]
fn a_lost_segment_is_sent_again_after_one_round_trip_and_the_window_is_halved() {
    let mut wire = Wire::new(&config(60), once(Fate::Drop, |p| is(p, 3)));
    wire.run(2000);
    wire.assert_done(60);
    // Segments 4 to 9 arrive at 10 ms, and their acknowledgements at 20 ms. After reports of three
    // later segments, segment 3 counts as lost.
    assert_eq!(wire.retransmissions(), [(3, 20)]);
    assert!(wire.states.contains(&State::Repairing) && !wire.states.contains(&State::Lost));
    assert_eq!(wire.sender.control().threshold(), 7000);
}

#[test]
fn a_lost_first_segment_is_repaired_like_any_other() {
    let mut wire = Wire::new(&config(40), once(Fate::Drop, |p| is(p, 0)));
    wire.run(2000);
    wire.assert_done(40);
    assert_eq!(wire.retransmissions(), [(0, 20)]);
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut wire = Wire::new(&config(10), once(Fate::Drop, |p| is(p, 9)));
    wire.run(2000);
    wire.assert_done(10);
    // Segments 0 to 7 are acknowledged at 20 ms. The acknowledgement of segment 8 is delayed and
    // arrives at 50 + 10 ms. The probe follows after two round trips of about 20 ms.
    let resent = wire.retransmissions();
    assert_eq!(resent.len(), 1);
    assert_eq!(resent[0].0, 9);
    assert!(resent[0].1 < 300, "{resent:?}");
    assert!(!wire.states.contains(&State::Lost));
}

#[test]
fn a_loss_that_the_probe_repairs_still_halves_the_window() {
    let mut options = config(0);
    options.data = Data::Written;
    let mut wire = Wire::new(&options, once(Fate::Drop, |p| is(p, 9)));
    wire.run(1);
    wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(10_000), context));
    wire.run(1000);
    let before = wire.window();
    // The acknowledgement of this data reports no duplicate, so the sender learns that the probe
    // repaired a loss.
    wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(5_000), context));
    wire.run(2000);
    assert_eq!(wire.receiver.delivered(), 15_000);
    assert!(wire.sender.control().threshold() <= before * 1000 / 2 + 1000, "{before}");
}

#[test]
fn without_probes_a_lost_tail_waits_for_the_timeout() {
    let mut options = config(10);
    options.probe = false;
    options.ack_every = 1;
    let mut wire = Wire::new(&options, once(Fate::Drop, |p| is(p, 9)));
    wire.run(2000);
    wire.assert_done(10);
    // The acknowledgements at 20 ms restart the timer.
    assert_eq!(wire.retransmissions(), [(9, 220)]);
    assert!(wire.states.contains(&State::Lost));
}

#[test]
fn a_lost_retransmission_is_detected_when_later_segments_are_acknowledged() {
    let mut drops = 0;
    let mut wire = Wire::new(&config(100), move |p| {
        if is(p, 3) && drops < 2 {
            drops += 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
    wire.run(3000);
    wire.assert_done(100);
    let resent = wire.retransmissions();
    assert_eq!(resent.iter().map(|s| s.0).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(resent[0].1, 20);
    assert!(resent[1].1 <= 50, "{resent:?}");
    assert!(!wire.states.contains(&State::Lost));
}

#[test]
fn after_the_loss_of_a_whole_window_the_timeout_leads_to_slow_start() {
    let options = Config { ack_every: 1, ..config(40) };
    let mut wire = Wire::new(&options, {
        let mut seen = 0;
        move |p: &Packet| {
            seen += u64::from(p.payload() > 0);
            if p.payload() > 0 && seen <= 10 { Fate::Drop } else { Fate::Pass }
        }
    });
    wire.run(1);
    assert_eq!(wire.window(), 10);
    wire.run(5000);
    wire.assert_done(40);
    let resent = wire.retransmissions();
    assert_eq!(resent[..3], [(0, 1000), (1, 1020), (2, 1020)]);
    assert_eq!(wire.states.iter().filter(|s| **s == State::Repairing).count(), 0);
}

#[test]
fn timeouts_back_off_but_reduce_the_threshold_only_once() {
    let mut options = config(4);
    options.probe = false;
    let mut wire = Wire::new(&options, |_| Fate::Drop);
    wire.run(20_000);
    let times: Vec<_> = wire.retransmissions().iter().map(|s| s.1).collect();
    assert_eq!(times, [1000, 3000, 7000, 15_000]);
    assert_eq!(wire.sender.control().threshold(), 5000);
    assert_eq!(wire.window(), 1);
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut options = config(400);
    options.probe = false;
    let mut wire = Wire::new(&options, |p| {
        // From 60 to 100 ms, segments are so late that their acknowledgements arrive just after
        // the timeout.
        let at = p.sent.0 / 1_000_000;
        if !p.flags.has(Flags::BACK) && (60..100).contains(&at) {
            Fate::Late(215)
        } else {
            Fate::Pass
        }
    });
    wire.run(60);
    let before = wire.window();
    wire.run(294);
    assert_eq!(wire.sender.state(), State::Lost);
    assert_eq!(wire.window(), 1);
    wire.run(310);
    assert_ne!(wire.sender.state(), State::Lost);
    assert!(wire.window() >= before, "{} after {before}", wire.window());
    wire.run(5000);
    wire.assert_done(400);
    // Only the timer retransmits.
    assert!(wire.retransmissions().len() <= 3, "{:?}", wire.retransmissions());
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_does_not_count_as_loss() {
    // Segment 1 is 4 ms late, and the reordering window is 5 ms. Only one later segment arrives
    // before segment 1. With three of them, segment 1 would count as lost at once.
    let mut options = config(3);
    options.ack_every = 1;
    let mut wire = Wire::new(&options, once(Fate::Late(4), |p| is(p, 1)));
    wire.run(2000);
    wire.assert_done(3);
    assert_eq!(wire.retransmissions(), []);
}

#[test]
fn after_reordering_beyond_the_reordering_window_a_reported_duplicate_undoes_the_reduction() {
    let mut wire = Wire::new(&config(300), once(Fate::Late(9), |p| is(p, 13)));
    wire.run(20);
    let before = wire.window();
    wire.run(60);
    assert_eq!(wire.retransmissions().len(), 1);
    wire.run(3000);
    wire.assert_done(300);
    assert!(wire.sender.control().threshold() > before * 1000, "the reduction was not undone");
}

#[test]
fn observed_reordering_widens_the_reordering_window() {
    let mut wire = Wire::new(&config(600), move |p| {
        // Every twentieth segment is 4 ms late, less than a quarter of the round trip.
        if !p.flags.has(Flags::BACK)
            && p.seq / 1000 % 20 == 5
            && !p.flags.has(Flags::RETRANSMISSION)
        {
            return Fate::Late(4);
        }
        Fate::Pass
    });
    wire.run(10_000);
    wire.assert_done(600);
    // The first late segment may count as lost, because three later segments are reported. After
    // that, the sender tolerates reordering.
    assert!(wire.retransmissions().len() <= 1, "{:?}", wire.retransmissions());
}

#[test]
fn a_lost_acknowledgement_costs_nothing() {
    let mut wire =
        Wire::new(&config(60), once(Fate::Drop, |p| p.flags.has(Flags::BACK) && p.ack == 4000));
    wire.run(2000);
    wire.assert_done(60);
    assert_eq!(wire.retransmissions(), []);
}

#[test]
fn the_loss_of_every_second_segment_of_a_window_is_repaired_without_a_timeout() {
    let mut wire = Wire::new(&config(200), |p| {
        let segment = p.seq / 1000;
        let original = !p.flags.has(Flags::RETRANSMISSION) && !p.flags.has(Flags::BACK);
        if original && (40..60).contains(&segment) && segment % 2 == 0 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    wire.run(5000);
    wire.assert_done(200);
    assert_eq!(
        wire.retransmissions().iter().map(|s| s.0).collect::<Vec<_>>(),
        (20..30).map(|n| n * 2).collect::<Vec<_>>()
    );
    assert!(!wire.states.contains(&State::Lost));
}
