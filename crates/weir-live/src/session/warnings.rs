//! The warnings, in words, about the validity of the results in a report of the live loop.

use std::collections::BTreeSet;

use weir_linux::live::{LaneReport, LiveReport, StopReason};
use weir_linux::port::Fault;
use weir_linux::topology::End;
use weir_measure::stats::DropReason;
use weir_report::format::{count, percent};

/// Warnings about faults of ports, frames that were not read or sent, steps that were skipped, and
/// traffic that no pipe shaped. `ends` has the end of each port.
pub(super) fn of(report: &LiveReport, ends: &[End]) -> Vec<String> {
    let mut warnings = faults(report, ends);
    for lane in &report.lanes {
        if lane.rx_kernel_drops > 0 {
            warnings.push(format!(
                "link {}: the kernel dropped {} frames before they could be read",
                lane.name, lane.rx_kernel_drops
            ));
        }
        if lane.rx_unreadable > 0 {
            warnings.push(format!(
                "link {}: {} frames could not be read with their offloads",
                lane.name, lane.rx_unreadable
            ));
        }
        warnings.extend(unsent(lane));
    }
    warnings.extend(report.lanes.iter().filter_map(|lane| unshaped(report, lane)));
    if report.skipped_steps > 0 {
        warnings.push(format!(
            "{} steps of schedules were skipped: the machine was too slow for them; use longer \
             steps, or fewer links with a schedule",
            report.skipped_steps
        ));
    }
    warnings
}

/// An interface in words. If its end, for example a target, has a name of its own, the words
/// include that name.
fn named(interface: &str, port: usize, ends: &[End]) -> String {
    // Both ports of an attachment have the target's interface. Only one of them has the target's
    // name.
    let end = ends.get(port).map(|end| match (&*end.name, ends.get(port ^ 1)) {
        (NETWORK, Some(other)) if other.interface == end.interface => other,
        _ => end,
    });
    match end {
        Some(end) if end.name != interface && end.interface == interface => {
            format!("interface {interface} of {}", end.name)
        }
        _ => format!("interface {interface}"),
    }
}

/// The faults of each interface. Only a fault of the port that ended the loop is described as the
/// end of the run.
fn faults(report: &LiveReport, ends: &[End]) -> Vec<String> {
    let mut ports: Vec<usize> = report.events.iter().map(|event| event.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let mut warnings = Vec::new();
    for port in ports {
        let events = || report.events.iter().filter(|event| event.port == port);
        let downs = events().filter(|event| event.fault == Fault::Down).count();
        if let (Some(first), 1..) = (events().find(|event| event.fault == Fault::Down), downs) {
            let often = if downs == 1 { "once".to_owned() } else { format!("{downs} times") };
            let at = first.at.since(report.started).0 as f64 / 1e9;
            warnings.push(format!(
                "{}: it was down {often}, first {at:.1} s after the start; no frame could pass it \
                 meanwhile",
                named(&first.interface, port, ends)
            ));
        }
        let mut others: Vec<(String, u32)> = Vec::new();
        for event in events().filter(|event| event.fault != Fault::Down) {
            let end = match report.stopped {
                Some(StopReason::PortVanished(which)) if which == port => "; the run ended there",
                _ => "",
            };
            let text = format!("{}: {}{end}", named(&event.interface, port, ends), event.fault);
            match others.iter_mut().find(|(known, _)| *known == text) {
                Some((_, times)) => *times += 1,
                None => others.push((text, 1)),
            }
        }
        let often = |(text, times)| match times {
            1 => text,
            _ => format!("{text} ({times} times)"),
        };
        warnings.extend(others.into_iter().map(often));
    }
    // Both ports of an attachment report the same faults.
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

/// A warning about the packets of a lane that could not be sent, if they are too many to be an
/// accident.
fn unsent(lane: &LaneReport) -> Option<String> {
    let unsent = lane.counters.drops(DropReason::SendFailed);
    let all = lane.counters.packets_in + lane.counters.duplicated;
    let share = unsent as f64 / all.max(1) as f64;
    (unsent >= UNSENT_PACKETS && share >= UNSENT_SHARE).then(|| {
        format!(
            "link {}: {} of {} packets ({}) could not be sent to {}: it was down, or accepted no \
             frame for 10 ms",
            lane.name,
            count(unsent),
            count(all),
            percent(share),
            lane.to
        )
    })
}

/// A warning if a lane carried most of the traffic although rules sent none of its packets into a
/// pipe or queue. A direction with less traffic, such as acknowledgements, is often left alone on
/// purpose.
fn unshaped(report: &LiveReport, lane: &LaneReport) -> Option<String> {
    let counters = &lane.counters;
    // All other arrivals have entered a pipe or queue.
    let outside = lane.passed
        + [DropReason::Denied, DropReason::BadFrame].map(|r| counters.drops(r)).iter().sum::<u64>();
    let all: u64 = report.lanes.iter().map(|lane| lane.counters.bytes_in).sum();
    let most = counters.bytes_in > BULK_TO_REST * (all - counters.bytes_in);
    (lane.passed > 0 && outside >= counters.packets_in && most && !report.pipes.is_empty()).then(
        || {
            format!(
                "{}: {} packets passed by no pipe, and most of the traffic went in this direction; \
                 check `in` and `out` in the rules",
                lane.name,
                count(lane.passed)
            )
        },
    )
}

/// The name of an end that is not a target.
const NETWORK: &str = "network";
/// A direction carries most of the traffic if it has more than this many times the bytes of all
/// other directions. A ping has equally many bytes in both directions.
const BULK_TO_REST: u64 = 2;
/// The least share of unsent packets that is worth a warning. A queue of the kernel may be full for
/// a moment.
const UNSENT_SHARE: f64 = 0.01;
/// The least number of unsent packets that is worth a warning.
const UNSENT_PACKETS: u64 = 5;

#[cfg(test)]
mod tests {
    use weir_core::Nanos;
    use weir_linux::live::LiveEvent;
    use weir_measure::stats::LinkCounters;

    use super::*;

    fn lane(name: &str, to: &str, counters: LinkCounters) -> LaneReport {
        LaneReport {
            name: name.to_owned(),
            from: "x".to_owned(),
            to: to.to_owned(),
            pipe: 1,
            counters,
            queue_ns: Default::default(),
            total_ns: Default::default(),
            lateness: Default::default(),
            late_1ms: 0,
            rx_kernel_drops: 0,
            rx_unreadable: 0,
            passed: 0,
        }
    }

    fn report(lanes: Vec<LaneReport>) -> LiveReport {
        LiveReport {
            started: Nanos::from_secs(10),
            at: Nanos::from_secs(20),
            lanes,
            events: Vec::new(),
            realtime: false,
            spin_margin: Nanos::ZERO,
            stopped: Some(StopReason::Asked),
            workers: 1,
            rules: Vec::new(),
            pipes: Vec::new(),
            unrouted: 0,
            strays: Default::default(),
            unobserved: 0,
            skipped_steps: 0,
            late_causes: Default::default(),
        }
    }

    fn event(seconds: u64, port: usize, fault: Fault) -> LiveEvent {
        LiveEvent { at: Nanos::from_secs(seconds), port, interface: format!("eth{port}"), fault }
    }

    #[test]
    fn an_interface_that_came_back_did_not_end_the_run() {
        let mut report = report(Vec::new());
        report.events = vec![
            event(12, 1, Fault::Down),
            event(15, 1, Fault::Down),
            event(18, 0, Fault::Vanished),
        ];
        report.stopped = Some(StopReason::PortVanished(0));
        let warnings = of(&report, &[]);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("interface eth0: the interface is gone"));
        assert!(warnings[0].ends_with("; the run ended there"));
        assert!(
            warnings[1].starts_with("interface eth1: it was down 2 times, first 2.0 s after"),
            "{warnings:?}"
        );
        assert!(!warnings[1].contains("ended"));
    }

    #[test]
    fn a_target_that_vanishes_several_times_is_one_warning_with_its_name() {
        let mut report = report(Vec::new());
        let vanished = |seconds, port| LiveEvent {
            interface: "eth0".to_owned(),
            ..event(seconds, port, Fault::Vanished)
        };
        report.events = [11, 12, 13].map(|at| [vanished(at, 2), vanished(at, 3)]).concat();
        let end = |name: &str| End {
            name: name.to_owned(),
            interface: "eth0".to_owned(),
            ipv4: None,
            ipv6: None,
        };
        let ends = ["db", "network", "web", "network"].map(end);
        let warnings = of(&report, &ends);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("interface eth0 of web: the interface is gone"));
        assert!(warnings[0].ends_with(" (3 times)"), "{warnings:?}");
    }

    #[test]
    fn bulk_that_no_pipe_shaped_is_a_warning_and_its_acknowledgements_are_not() {
        let counters = |packets_in, bytes_in| LinkCounters {
            packets_in,
            bytes_in,
            packets_out: packets_in,
            ..LinkCounters::default()
        };
        let between = |left: u64, right: u64, pipes: bool| {
            let mut bulk = lane("to-left", "x", counters(12_034, 18_000_000));
            let mut acks = lane("to-right", "y", counters(6_000, 312_000));
            (bulk.passed, acks.passed) = (left, right);
            let mut report = report(vec![acks, bulk]);
            report.pipes = pipes.then(|| (1, Default::default())).into_iter().collect();
            of(&report, &[])
        };
        let warnings = between(12_034, 0, true);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("to-left: 12,034 packets passed by no pipe"));
        // A few packets beside the pipes are no sign of a mistake, nor is a set of rules without
        // pipes, nor a direction that carries little.
        for (left, right, pipes) in [(40, 0, true), (12_034, 6_000, false), (0, 6_000, true)] {
            assert_eq!(between(left, right, pipes), [] as [String; 0], "{left} {right} {pipes}");
        }
        // A ping has as much traffic in both directions.
        let (mut there, mut back) = (
            lane("to-right", "y", counters(100, 104_800)),
            lane("to-left", "x", counters(100, 104_800)),
        );
        (there.passed, back.passed) = (0, 100);
        let mut ping = report(vec![there, back]);
        ping.pipes = vec![(1, Default::default())];
        assert_eq!(of(&ping, &[]), [] as [String; 0]);
    }

    #[test]
    fn packets_that_could_not_be_sent_are_a_warning_from_one_percent_on() {
        for (unsent, warns) in [(0, false), (4, false), (9, false), (10, true), (240, true)] {
            let mut counters = LinkCounters { packets_in: 1000, ..LinkCounters::default() };
            (0..unsent).for_each(|_| counters.count_drop(DropReason::SendFailed));
            let warnings = of(&report(vec![lane("up", "eth1", counters)]), &[]);
            assert_eq!(warnings.len(), usize::from(warns), "{warnings:?}");
            let words = format!("link up: {unsent} of 1,000 packets");
            assert!(warnings.iter().all(|warning| warning.starts_with(&words)), "{warnings:?}");
        }
    }
}
