//! Reactions of the sender to marks.

use super::*;

fn ecn() -> Config {
    Config { ecn: Some(true), ..config(200) }
}

#[test]
fn a_mark_halves_the_window_once_in_a_round_trip_and_nothing_is_sent_again() {
    let mut wire = Wire::new(&ecn(), |p| {
        if is(p, 15) || is(p, 18) || is(p, 21) { Fate::Mark } else { Fate::Pass }
    });
    wire.run(35);
    let before = wire.window();
    wire.run(41);
    assert_eq!(wire.sender.state(), State::Reducing);
    let threshold = wire.sender.control().threshold();
    assert!(threshold >= before * 500, "{threshold} of {before}");
    wire.run(5000);
    wire.assert_done(200);
    assert_eq!(wire.retransmissions(), []);
    assert_eq!(
        wire.sender.control().threshold(),
        threshold,
        "reduced again for the same round trip"
    );
}

#[test]
fn the_echo_continues_until_the_sender_confirms() {
    let mut wire = Wire::new(&ecn(), once(Fate::Mark, |p| is(p, 15)));
    wire.run(5000);
    wire.assert_done(200);
    let confirm = wire.log.iter().position(|(_, p)| p.flags.has(Flags::CWR)).unwrap();
    let (sent, _) = wire.log[confirm];
    let echoes: Vec<_> =
        wire.log.iter().filter(|(_, p)| p.flags.has(Flags::ECE)).map(|(at, _)| *at).collect();
    assert!(echoes.len() > 2);
    assert!(echoes.iter().all(|at| *at <= sent.saturating_add(Nanos::from_millis(10))));
    assert_eq!(wire.log.iter().filter(|(_, p)| p.flags.has(Flags::CWR)).count(), 1);
}

#[test]
fn retransmissions_and_acknowledgements_are_not_ecn_capable() {
    let mut wire = Wire::new(&ecn(), once(Fate::Drop, |p| is(p, 15)));
    wire.run(5000);
    wire.assert_done(200);
    for (_, packet) in &wire.log {
        let data = !packet.flags.has(Flags::BACK) && !packet.flags.has(Flags::RETRANSMISSION);
        assert_eq!(packet.ecn == Ecn::Ect0, data);
    }
}

#[test]
fn a_loss_in_a_round_trip_with_a_mark_causes_no_second_reduction() {
    let mut wire = Wire::new(&ecn(), |p| match () {
        () if is(p, 15) => Fate::Mark,
        () if is(p, 17) && !p.flags.has(Flags::RETRANSMISSION) => Fate::Drop,
        () => Fate::Pass,
    });
    wire.run(45);
    assert_eq!(wire.sender.state(), State::Repairing);
    let threshold = wire.sender.control().threshold();
    wire.run(5000);
    wire.assert_done(200);
    assert_eq!(wire.sender.control().threshold(), threshold);
    assert_eq!(wire.retransmissions().len(), 1);
}
