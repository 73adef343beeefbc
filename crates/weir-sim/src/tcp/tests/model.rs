//! Runs against closed forms: the response functions of congestion controls, in long runs with a
//! deterministic schedule of losses, and the duration of slow start.

use super::*;

/// The mean window in segments, with a round trip of 100 ms and the loss of every `period`-th new
/// segment; measured from `warm` s to `end` s.
fn mean_window(kind: Kind, period: u64, warm: u64, end: u64) -> f64 {
    let options = Config {
        control: kind.into(),
        data: Data::Unlimited,
        owner: None,
        ack_every: 1,
        receive_buffer: 64 << 20,
        ..config(0)
    };
    let mut wire = Wire::new(&options, move |packet: &Packet| {
        let new = packet.payload() > 0 && !packet.flags.has(Flags::RETRANSMISSION);
        if new && packet.seq / 1000 % period == period - 1 { Fate::Drop } else { Fate::Pass }
    });
    (wire.delay, wire.quiet) = (50, true);
    wire.run(warm * 1000);
    let before = wire.receiver.delivered();
    wire.run(end * 1000);
    (wire.receiver.delivered() - before) as f64 / 1000.0 / ((end - warm) as f64 * 10.0)
}

#[test]
fn newreno_has_the_window_of_the_square_root_law() {
    for period in [1000, 10_000] {
        // The saw-tooth between w/2 and w contains 3/8 w² segments, and its mean is 3/4 w. This
        // formula ignores the round trip of the repair.
        let law = (1.5 * period as f64).sqrt();
        let mean = mean_window(Kind::NewReno, period, 100, 300);
        assert!((mean / law - 1.0).abs() < 0.08, "{period}: {mean:.1} against {law:.1}");
    }
}

#[test]
fn cubic_has_the_window_of_its_response_function() {
    for (period, warm, end) in [(10_000, 60, 200), (100_000, 40, 80)] {
        // RFC 9438, equation 5: (C (3 + β) / (4 (1 − β)))^¼ · RTT^¾ / p^¾. Its table gives 187 and
        // 1054.
        let law = (0.4_f64 * 3.7 / 1.2).sqrt().sqrt()
            * (0.1_f64 * period as f64).sqrt()
            * (0.1_f64 * period as f64).sqrt().sqrt();
        let mean = mean_window(Kind::Cubic, period, warm, end);
        assert!((mean / law - 1.0).abs() < 0.05, "{period}: {mean:.1} against {law:.1}");
    }
}

#[test]
fn a_transfer_takes_the_round_trips_of_slow_start() {
    // Rounds of 10, 20 and 40 segments: 70 segments take three round trips, 71 take four. The
    // handshake takes one more.
    for (segments, ms) in [(10, 200), (11, 300), (30, 300), (31, 400), (70, 400), (71, 500)] {
        let options = Config { handshake: true, ack_every: 1, ..config(segments) };
        let mut wire = Wire::new(&options, |_| Fate::Pass);
        wire.delay = 50;
        wire.run(5000);
        wire.assert_done(segments);
        assert_eq!(wire.network.count(FLOW).completion_ns.max(), ms * 1_000_000, "{segments}");
    }
}
