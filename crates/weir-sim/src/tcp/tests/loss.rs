//! Losses, reordering, timeouts and undone reductions.

use super::*;

#[test]
fn one_lost_segment_is_sent_again_a_round_trip_later_and_halves_the_window() {
    let mut wire = Wire::new(&config(60), once(Fate::Drop, |p| is(p, 3)));
    wire.run(2000);
    wire.assert_done(60);
    // Segments 4 to 9 arrive at 10 ms. Reports of three later segments mean that segment 3 is lost.
    assert_eq!(wire.sent(true), [(3, 20)]);
    assert!(wire.states.contains(&State::Repairing) && !wire.states.contains(&State::Lost));
    assert_eq!(wire.sender.control().threshold(), 7000);
}

#[test]
fn the_first_segment_lost_is_like_any_other() {
    let mut wire = Wire::new(&config(40), once(Fate::Drop, |p| is(p, 0)));
    wire.run(2000);
    wire.assert_done(40);
    assert_eq!(wire.sent(true), [(0, 20)]);
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut wire = Wire::new(&config(10), once(Fate::Drop, |p| is(p, 9)));
    wire.run(2000);
    wire.assert_done(10);
    // Segments up to 8 are acknowledged at 20 ms, and the last one, after the delay of its
    // acknowledgement, at 50 + 10 ms. The probe follows after two round trips of about 20 ms.
    let again = wire.sent(true);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].0, 9);
    assert!(again[0].1 < 300, "{again:?}");
    assert!(!wire.states.contains(&State::Lost));
}

#[test]
fn a_probe_that_repairs_the_loss_halves_the_window_all_the_same() {
    let mut options = config(0);
    options.data = Data::Written;
    let mut wire = Wire::new(&options, once(Fate::Drop, |p| is(p, 9)));
    wire.run(1);
    wire.with_sender(|sender, context| sender.notice(FLOW, Notice::Write(10_000), context));
    wire.run(1000);
    let before = wire.window();
    // Data beyond the probe is acknowledged without a report of a duplicate.
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
    assert_eq!(wire.sent(true), [(9, 220)]);
    assert!(wire.states.contains(&State::Lost));
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
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
    let again = wire.sent(true);
    assert_eq!(again.iter().map(|s| s.0).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(again[0].1, 20);
    assert!(again[1].1 <= 50, "{again:?}");
    assert!(!wire.states.contains(&State::Lost));
}

#[test]
fn a_whole_window_lost_waits_for_the_timeout_and_starts_slowly() {
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
    let again = wire.sent(true);
    assert_eq!(again[..3], [(0, 1000), (1, 1020), (2, 1020)]);
    assert_eq!(wire.states.iter().filter(|s| **s == State::Repairing).count(), 0);
}

#[test]
fn timeouts_back_off_and_the_threshold_falls_once() {
    let mut options = config(4);
    options.probe = false;
    let mut wire = Wire::new(&options, |_| Fate::Drop);
    wire.run(20_000);
    let times: Vec<_> = wire.sent(true).iter().map(|s| s.1).collect();
    assert_eq!(times, [1000, 3000, 7000, 15_000]);
    assert_eq!(wire.sender.control().threshold(), 5000);
    assert_eq!(wire.window(), 1);
}

#[test]
fn a_timeout_that_was_only_a_delay_is_taken_back() {
    let mut options = config(400);
    options.probe = false;
    let mut wire = Wire::new(&options, |p| {
        // For a while, everything takes so long that acknowledgements arrive just after the
        // timeout.
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
    assert!(wire.sent(true).len() <= 3, "{:?}", wire.sent(true));
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_is_no_loss() {
    // Segment 1 is 4 ms late, and the window is 5 ms. Only one later segment arrives before it;
    // three would end the wait.
    let mut options = config(3);
    options.ack_every = 1;
    let mut wire = Wire::new(&options, once(Fate::Late(4), |p| is(p, 1)));
    wire.run(2000);
    wire.assert_done(3);
    assert_eq!(wire.sent(true), []);
}

#[test]
fn a_reported_duplicate_undoes_the_reduction_after_reordering_beyond_the_window() {
    let mut wire = Wire::new(&config(300), once(Fate::Late(9), |p| is(p, 13)));
    wire.run(20);
    let before = wire.window();
    wire.run(60);
    assert_eq!(wire.sent(true).len(), 1);
    wire.run(3000);
    wire.assert_done(300);
    assert!(wire.sender.control().threshold() > before * 1000, "the reduction was not undone");
}

#[test]
fn reordering_that_is_seen_widens_the_window_for_what_follows() {
    let mut wire = Wire::new(&config(600), move |p| {
        // Every twentieth segment takes 4 ms longer, which is less than a quarter of the round
        // trip.
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
    // The first one may count as lost, because three later ones are reported. After that, the
    // sender knows about the reordering.
    assert!(wire.sent(true).len() <= 1, "{:?}", wire.sent(true));
}

#[test]
fn a_lost_acknowledgement_costs_nothing() {
    let mut wire =
        Wire::new(&config(60), once(Fate::Drop, |p| p.flags.has(Flags::BACK) && p.ack == 4000));
    wire.run(2000);
    wire.assert_done(60);
    assert_eq!(wire.sent(true), []);
}

#[test]
fn half_of_a_window_lost_is_repaired_without_a_timeout() {
    let mut wire = Wire::new(&config(200), |p| {
        let segment = p.seq / 1000;
        let first = !p.flags.has(Flags::RETRANSMISSION) && !p.flags.has(Flags::BACK);
        if first && (40..60).contains(&segment) && segment % 2 == 0 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    wire.run(5000);
    wire.assert_done(200);
    assert_eq!(
        wire.sent(true).iter().map(|s| s.0).collect::<Vec<_>>(),
        (20..30).map(|n| n * 2).collect::<Vec<_>>()
    );
    assert!(!wire.states.contains(&State::Lost));
}
