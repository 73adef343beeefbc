//! Tests of the growth of the window against its equations.

use super::super::Kind;
use super::*;
use weir_core::rng::{Purpose, Stream};

const MSS: u64 = 1000;
const RTT: Nanos = Nanos::from_millis(100);

fn fresh(settings: &[(&str, &str)]) -> Cubic {
    let mut choice = Choice::new(Kind::Cubic);
    for (name, text) in settings {
        choice.set(name, text).unwrap();
    }
    Cubic::new(
        &choice,
        &Setup {
            mss: MSS as u32,
            initial_window: 10 * MSS,
            stream: Stream::new(1, 1, Purpose::Generator),
        },
    )
}

fn path(now: Nanos) -> Path {
    Path { now, mss: MSS as u32, srtt: RTT, min_rtt: RTT, ..Path::default() }
}

/// Acknowledges a window per round trip, evenly, from `from` for `rounds` round trips. Returns
/// the window at the end of each.
fn rounds(control: &mut Cubic, from: Nanos, rounds: u64) -> Vec<f64> {
    let mut windows = Vec::new();
    for round in 0..rounds {
        let segments = control.window() / MSS;
        for n in 0..segments {
            let now = Nanos(from.0 + round * RTT.0 + n * RTT.0 / segments);
            control.acked(
                &path(now),
                &Sample { acked: MSS, window_limited: true, ..Sample::default() },
            );
        }
        windows.push(control.window() as f64 / MSS as f64);
    }
    windows
}

#[test]
fn the_window_follows_the_curve_through_its_plateau() {
    let mut control = fresh(&[("friendly", "off")]);
    (control.window, control.threshold) = (1000 * MSS, 1000 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Loss);
    assert_eq!(control.window(), 700 * MSS);
    let windows = rounds(&mut control, Nanos::ZERO, 150);
    let k = (300.0_f64 / 0.4).cbrt();
    for (round, window) in windows.iter().enumerate().skip(3) {
        // At the end of a round, the target is one round trip ahead of the window.
        let t = (round + 1) as f64 * 0.1;
        let curve = |t: f64| 0.4 * (t - k) * (t - k) * (t - k) + 1000.0;
        let (low, high) = (curve(t - 0.15), curve(t + 0.15));
        assert!(
            low * 0.995 <= *window && *window <= high * 1.005 + 1.0,
            "round {round}: {window} not in {low}..{high}"
        );
    }
    assert!((windows[(k * 10.0) as usize] - 1000.0).abs() < 5.0);
}

#[test]
fn the_window_grows_as_newreno_where_newreno_would_be_faster() {
    let mut control = fresh(&[]);
    (control.window, control.threshold) = (20 * MSS, 20 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Loss);
    // 3 (1 − β) / (1 + β) = 0.529 segments per round trip up to 20, then 1. The curve rises by
    // 6 segments in 2.5 s.
    let windows = rounds(&mut control, Nanos::ZERO, 30);
    assert!((windows[9] - (14.0 + 0.529 * 10.0)).abs() <= 1.0, "{}", windows[9]);
    assert!((windows[29] - (20.0 + 30.0 - 11.3)).abs() <= 1.5, "{}", windows[29]);
}

#[test]
fn linux_keeps_the_slower_growth_above_the_last_window() {
    let mut control = fresh(&[("variant", "linux")]);
    (control.window, control.threshold) = (25 * MSS, 25 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Loss);
    // 17.5 segments, in whole segments.
    assert_eq!(control.window(), 17 * MSS);
    // The estimate grows by 8/15 of a segment per round trip, and the window follows it one round
    // trip later. RFC 9438 grows by a segment per round trip from 25 segments on, and reaches 40.
    let windows = rounds(&mut control, Nanos::ZERO, 30);
    assert!((31.0..=33.0).contains(&windows[29]), "{}", windows[29]);
    assert!(rounds(&mut control, Nanos::from_secs(3), 1)[0] - windows[29] <= 1.0);
}

#[test]
fn linux_forgets_the_plateau_at_a_timeout() {
    let mut control = fresh(&[("variant", "linux")]);
    (control.window, control.threshold) = (100 * MSS, 100 * MSS);
    control.timeout(&path(Nanos::ZERO), true);
    assert_eq!((control.window(), control.threshold(), control.w_max), (MSS, 70 * MSS, 0));
    let mut rfc = fresh(&[]);
    (rfc.window, rfc.threshold) = (100 * MSS, 100 * MSS);
    rfc.timeout(&path(Nanos::ZERO), true);
    assert_eq!(rfc.w_max, 100 * MSS);
}

#[test]
fn a_flow_that_meets_congestion_earlier_leaves_room() {
    let mut control = fresh(&[]);
    (control.window, control.threshold) = (100 * MSS, 100 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Loss);
    assert_eq!((control.window(), control.w_max), (70 * MSS, 100 * MSS));
    control.reduce(&path(RTT), Signal::Loss);
    assert_eq!((control.window(), control.w_max), (49 * MSS, 59_500));
    let mut plain = fresh(&[("fast_convergence", "off")]);
    (plain.window, plain.w_max) = (70 * MSS, 100 * MSS);
    plain.reduce(&path(RTT), Signal::Loss);
    assert_eq!(plain.w_max, 70 * MSS);
}

#[test]
fn marks_and_losses_have_different_factors_and_undo_restores_the_window() {
    let mut control = fresh(&[("beta_ecn", "0.85")]);
    (control.window, control.threshold) = (100 * MSS, 100 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Marks);
    assert_eq!(control.window(), 85 * MSS);
    control.undo(&path(RTT));
    assert_eq!((control.window(), control.threshold()), (100 * MSS, 100 * MSS));
    control.timeout(&path(RTT), true);
    assert_eq!((control.window(), control.threshold()), (MSS, 70 * MSS));
}

#[test]
fn the_curve_stops_while_the_window_is_not_used() {
    let mut control = fresh(&[("friendly", "off")]);
    (control.window, control.threshold) = (100 * MSS, 100 * MSS);
    control.reduce(&path(Nanos::ZERO), Signal::Loss);
    rounds(&mut control, Nanos::ZERO, 2);
    let before = control.window();
    for n in 0..1000 {
        control.acked(
            &path(Nanos::from_millis(200 + 100 * n)),
            &Sample { acked: MSS, ..Sample::default() },
        );
    }
    rounds(&mut control, Nanos::from_secs(100), 1);
    assert!(control.window() < before + 10 * MSS, "{before} to {}", control.window());
}
