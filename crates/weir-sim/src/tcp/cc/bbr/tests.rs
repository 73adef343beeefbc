//! Tests of the states of BBR, and of its estimates on a modelled path.

use super::super::model::{Model, setup};
use super::super::{AnyControl, Kind};
use super::*;

const MSS: u64 = 1000;
const RATE: u64 = 10_000_000;

fn model() -> Model {
    // 10 Mbit/s and 40 ms: 50 segments propagate while one more is transmitted.
    Model::new(AnyControl::new(&Choice::new(Kind::Bbr), &setup(MSS)), RATE, Nanos::from_millis(40))
}

fn bbr(model: &Model) -> &Bbr {
    match &model.control {
        AnyControl::Bbr(control) => control,
        other => panic!("{other:?} is not BBR"),
    }
}

/// The sequence of modes, with the time at which each begins.
fn modes(model: &mut Model, end: Nanos) -> Vec<(Mode, Nanos)> {
    let mut seen = Vec::new();
    model.run_with(end, |model| {
        let mode = bbr(model).mode;
        if seen.last().is_none_or(|&(last, _)| last != mode) {
            seen.push((mode, model.now()));
        }
    });
    seen
}

#[test]
fn states_follow_each_other_as_in_the_draft() {
    let mut model = model();
    let seen = modes(&mut model, Nanos::from_secs(25));
    let order: Vec<Mode> = seen.iter().map(|&(mode, _)| mode).collect();
    use Mode::{Drain, ProbeBandwidth, ProbeRtt, Startup};
    assert_eq!(
        order,
        [Startup, Drain, ProbeBandwidth, ProbeRtt, ProbeBandwidth, ProbeRtt, ProbeBandwidth]
    );
    let spans: Vec<u64> =
        seen.windows(2).map(|pair| pair[1].1.since(pair[0].1).0 / 1_000_000).collect();
    assert!(spans[0] < 1000, "start-up takes {} ms", spans[0]);
    assert!(
        (200..400).contains(&spans[3]),
        "the probe for the round-trip time takes {} ms",
        spans[3]
    );
    assert!((9_000..11_000).contains(&spans[4]), "the next probe begins after {} ms", spans[4]);
}

#[test]
fn the_estimates_are_those_of_the_path() {
    let mut model = model();
    model.run(Nanos::from_secs(5));
    let control = bbr(&model);
    assert_eq!(control.rt_prop, Nanos(40_000_000 + 800_000));
    let bandwidth = control.bandwidth.value();
    assert!(bandwidth.abs_diff(RATE) < RATE / 100, "{bandwidth} bits/s");
}

#[test]
fn the_link_is_full_and_the_queue_below_a_bandwidth_delay_product() {
    let mut model = model();
    model.run(Nanos::from_secs(2));
    let product = 50 * MSS;
    let startup_queue = model.forget();
    assert!(startup_queue < 3 * product, "start-up queues {startup_queue} bytes");
    model.run(Nanos::from_secs(9));
    assert!(model.utilisation() > 0.98, "{}", model.utilisation());
    assert!(model.longest_queue() < product, "{} bytes wait", model.longest_queue());
    model.forget();
    model.run(Nanos::from_secs(40));
    assert!(
        model.utilisation() > 0.95,
        "share of the link, with probes for the round-trip time: {}",
        model.utilisation()
    );
}

#[test]
fn phases_take_a_round_trip_each_and_repeat_in_order() {
    let mut model = model();
    model.run(Nanos::from_secs(3));
    let mut seen: Vec<(usize, Nanos)> = Vec::new();
    model.run_with(Nanos::from_secs(8), |model| {
        let phase = bbr(model).phase;
        if seen.last().is_none_or(|&(last, _)| last != phase) {
            seen.push((phase, model.now()));
        }
    });
    assert!(seen.len() > 80, "{} phases", seen.len());
    for pair in seen[1..].windows(2) {
        assert_eq!(pair[1].0, (pair[0].0 + 1) % CYCLE.len());
        let ms = pair[1].1.since(pair[0].1).0 / 1_000_000;
        // The phase above the measured rate also waits until the data in flight has grown by the
        // same factor.
        let longest = if pair[0].0 == 0 { 150 } else { 60 };
        assert!(ms <= longest, "phase {} takes {ms} ms", pair[0].0);
    }
}

#[test]
fn a_lower_rate_is_accepted_after_ten_rounds_and_a_higher_one_found_by_probing() {
    let mut model = model();
    model.run(Nanos::from_secs(3));
    model.set_rate(RATE / 2);
    model.run(Nanos::from_secs(8));
    let lower = bbr(&model).bandwidth.value();
    assert!(lower.abs_diff(RATE / 2) < RATE / 50, "{lower}");
    model.set_rate(RATE);
    model.run(Nanos::from_secs(20));
    let higher = bbr(&model).bandwidth.value();
    assert!(higher.abs_diff(RATE) < RATE / 50, "{higher}");
}

#[test]
fn the_maximum_of_the_last_rounds_is_exact() {
    let mut stream = setup(MSS).stream;
    let mut filter = Highest::new(10);
    let mut all: Vec<Vec<u64>> = vec![vec![]];
    for _ in 0..3000 {
        if stream.below(4) == 0 {
            filter.next_round();
            all.push(vec![]);
        } else {
            let value = stream.below(1000).into();
            filter.note(value);
            all.last_mut().unwrap().push(value);
        }
        let naive = all.iter().rev().take(10).flatten().copied().max().unwrap_or(0);
        assert_eq!(filter.value(), naive);
    }
}

#[test]
fn a_recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
    let mut model = model();
    model.run(Nanos::from_secs(3));
    let AnyControl::Bbr(control) = &mut model.control else { panic!("it is BBR") };
    let before = control.window;
    let path = Path {
        mss: MSS as u32,
        in_flight: 40 * MSS,
        delivered: control.next_round,
        now: Nanos::from_secs(3),
        ..Path::default()
    };
    control.reduce(&path, Signal::Marks);
    assert_eq!(control.window, before, "marks do not change the window");
    control.reduce(&path, Signal::Loss);
    assert_eq!(control.window, 41 * MSS);
    let sample =
        Sample { acked: MSS, lost: 2 * MSS, prior_in_flight: 42 * MSS, ..Sample::default() };
    control.acked(&Path { in_flight: 39 * MSS, ..path }, &sample);
    assert_eq!(control.window, 40 * MSS, "the window is the data in flight plus the arrivals");
    control.recovered(&path);
    assert_eq!(control.window, before);
    control.timeout(&path, true);
    assert_eq!(control.window, MSS);
    control.recovered(&path);
    assert_eq!(control.window, before);
}
