//! One call of the engine does a bounded amount of work, whatever its configuration.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::link::{Schedule, ScheduleError, Step};
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos, Rate};

fn submit(emulator: &mut Emulator, now: Nanos, frame: u32, dst: u32) {
    let arrival =
        Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
    let key = FlowKey { dst: dst.into(), ..FlowKey::default() };
    emulator.submit(now, arrival, &key, Action::Pipe(1)).unwrap();
}

fn rate(bps: u64) -> Option<Capacity> {
    Rate::new(bps).map(Capacity::Constant)
}

/// A pipe with one instance for each destination. Its rate changes every `step`.
fn scheduled(step: Nanos, rates: [u64; 2], delay: Nanos) -> Emulator {
    let change = |n: usize| {
        let values = Step { capacity: rate(rates[n]), ..Step::default() };
        (Nanos(step.0 * n as u64), values)
    };
    let schedule = Schedule::new(vec![change(0), change(1)], Some(Nanos(2 * step.0))).unwrap();
    let link = LinkConfig { schedule: Some(schedule.into()), delay, ..LinkConfig::default() };
    let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
    let mut emulator = Emulator::new(1, Limits::default());
    let queue = FlowsetConfig { mask, ..FlowsetConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue, scheduler: None });
    emulator
}

#[test]
fn a_schedule_of_nanoseconds_is_refused() {
    let step = |ns| (Nanos(ns), Step { capacity: rate(1_000_000), ..Step::default() });
    let result = Schedule::new(vec![step(0), step(1)], Some(Nanos(2)));
    assert_eq!(result, Err(ScheduleError::TooClose(1)));
}

#[test]
fn a_poll_returns_before_all_due_events_are_handled() {
    let mut emulator = Emulator::new(1, Limits::default());
    let queue =
        FlowsetConfig { limit: Some(QueueLimit::Packets(1_000_000)), ..FlowsetConfig::default() };
    let link = LinkConfig { capacity: rate(1_000_000_000).unwrap(), ..LinkConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue, scheduler: None });
    (0..300_000).for_each(|frame| submit(&mut emulator, Nanos::ZERO, frame, 0));
    let (now, mut out) = (Nanos::from_secs(10), Vec::new());
    emulator.poll(now, &mut out);
    assert!((100_000..200_000).contains(&out.len()), "{} departures at once", out.len());
    assert!(emulator.next_event().is_some_and(|next| next <= now));
    let mut polls = 1;
    while emulator.next_event().is_some_and(|next| next <= now) {
        emulator.poll(now, &mut out);
        polls += 1;
    }
    assert!(polls < 10 && out.iter().map(|departure| departure.frame).eq(0..300_000));
}

/// Ten seconds of 1,000 links with steps of 1 us would be 10^10 steps. These steps would take
/// minutes, in which the driver would only fall further behind.
#[test]
fn schedules_that_are_far_behind_skip_to_the_values_in_force() {
    let mut emulator =
        scheduled(Nanos::from_micros(1), [1_000_000, 2_000_000], Nanos::from_secs(100));
    (0..1_000).for_each(|dst| submit(&mut emulator, Nanos::ZERO, dst, dst));
    let (mut out, mut now) = (Vec::new(), Nanos::from_secs(10));
    emulator.poll(now, &mut out);
    assert!(emulator.next_event().is_none_or(|next| next > now), "one poll catches up");
    assert!(emulator.skipped_steps() > 1_000_000);
    now = Nanos::from_secs(20);
    submit(&mut emulator, now, 1_000, 7);
    assert_eq!(emulator.stats(1).unwrap().counters.backlog_packets, 1_001);
    // A change of the configuration must be fast, too.
    emulator.set_pipe(Nanos::from_secs(50), 1, &PipeConfig::default());
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    assert_eq!(out.len(), 1_001);
    // 8,000 bits at 1 or 2 Mbit/s.
    let took = |departure: &Departure| departure.due.since(departure.arrived).0 - 100_000_000_000;
    assert!(out.iter().all(|departure| (3_999_000..=8_000_000).contains(&took(departure))));
}

/// Without a backlog of steps, the times of the polls make no difference.
#[test]
fn a_single_link_is_exact_although_its_driver_pauses() {
    let play = |every: u64| -> (Vec<Departure>, u64) {
        let mut emulator = scheduled(Nanos::from_micros(1), [3_000_000, 7_000_000], Nanos::ZERO);
        let mut out = Vec::new();
        for millisecond in 0..200u64 {
            if millisecond.is_multiple_of(every) {
                emulator.poll(Nanos::from_millis(millisecond), &mut out);
            }
            if millisecond.is_multiple_of(10) {
                submit(&mut emulator, Nanos::from_millis(millisecond), millisecond as u32, 1);
            }
        }
        emulator.poll(Nanos::from_millis(210), &mut out);
        (out, emulator.skipped_steps())
    };
    let (often, rarely) = (play(1), play(10));
    assert_eq!((often.1, rarely.1), (0, 0));
    assert_eq!(often.0, rarely.0);
    // 8,000 bits, half of the time at 3 Mbit/s and half at 7.
    assert!(often.0.iter().all(|d| d.due.since(d.arrived).0.abs_diff(1_600_000) < 1_000));
}
