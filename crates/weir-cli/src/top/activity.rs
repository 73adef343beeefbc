//! The activity of a link, path, lane, pipe, scheduler or queue between two readings.

use std::collections::BTreeMap;

use weir_control::api::{Interval, LengthView, LengthsView, LinkInterval, Readings};
use weir_measure::latency::Latency;

/// The kind of object that a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// A link of a session.
    Link,
    /// A path over several links of a scenario, from one host to another.
    Path,
    /// A direction of a daemon's bridge.
    Lane,
    /// A pipe of a daemon.
    Pipe,
    /// A scheduler of a daemon.
    Sched,
    /// A queue of a daemon.
    Queue,
}

impl Kind {
    /// The word before the name; links of sessions have none.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Link => "",
            Self::Path => "path ",
            Self::Lane => "lane ",
            Self::Pipe => "pipe ",
            Self::Sched => "sched ",
            Self::Queue => "queue ",
        }
    }

    /// The list of the daemon's API with objects of this kind.
    pub(super) const fn list(self) -> Option<&'static str> {
        match self {
            Self::Pipe => Some("pipes"),
            Self::Sched => Some("scheds"),
            Self::Queue => Some("queues"),
            Self::Link | Self::Path | Self::Lane => None,
        }
    }
}

/// The activity of one object in an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Activity {
    pub(super) kind: Kind,
    /// The name of the link, path or lane, or the number of the daemon's object.
    pub(super) name: String,
    /// The mean rate of arrivals, bit/s.
    pub(super) offered: f64,
    /// The mean rate of departures, bit/s; `None` for a queue, because the bytes of its departures
    /// are not counted.
    pub(super) carried: Option<f64>,
    /// Packets inside at the end of the interval. A pipe, scheduler or queue of the daemon counts
    /// the packets in its queue; a link, path or lane also counts those that are on the link.
    pub(super) inside: u64,
    /// Dropped packets per second.
    pub(super) drops: f64,
    /// Dropped packets by reason, in words; empty for a pipe, scheduler or queue.
    pub(super) reasons: Vec<(&'static str, u64)>,
    /// Queueing delay.
    pub(super) delay: Delay,
    /// Lateness of departures.
    pub(super) late: Option<Latency>,
    /// Packets that arrived, and packets that departed.
    pub(super) packets: [u64; 2],
}

/// A queueing delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Delay {
    /// No packet departed, or the delay is not known.
    #[default]
    Unknown,
    /// The delays of the packets that departed.
    Measured(Latency),
    /// The queue's bytes divided by the rate of departures, ns. The delay is not measured, because
    /// reading the histograms of thousands of pipes would delay packets.
    Estimated(f64),
}

impl Delay {
    /// The delay by which rows are compared, ns: the 99th percentile, or the estimate.
    pub(super) fn ns(&self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Measured(latency) => Some(latency.p99 as f64),
            Self::Estimated(ns) => Some(*ns),
        }
    }
}

impl Activity {
    /// The 99th percentile of the lateness, ns.
    pub(super) fn late_ns(&self) -> Option<f64> {
        self.late.filter(|late| late.count > 0).map(|late| late.p99 as f64)
    }
}

/// The activity of a session's links between two readings or, with `lanes`, of a daemon's lanes.
pub(super) fn of_session(before: &Readings, now: &Readings, lanes: bool) -> Vec<Activity> {
    let interval = Interval::between("", before, now);
    let seconds = interval.duration_ns.max(1) as f64 / 1e9;
    interval.links.into_iter().map(|link| of_link(link, seconds, lanes)).collect()
}

fn of_link(link: LinkInterval, seconds: f64, lane: bool) -> Activity {
    Activity {
        kind: if lane {
            Kind::Lane
        } else if link.path {
            Kind::Path
        } else {
            Kind::Link
        },
        name: link.name,
        offered: link.bytes_in as f64 * 8.0 / seconds,
        carried: Some(link.out_bps as f64),
        inside: link.backlog_packets,
        drops: link.drops.total() as f64 / seconds,
        reasons: link.drops.in_words().collect(),
        delay: if link.queue_ns.count > 0 {
            Delay::Measured(link.queue_ns)
        } else {
            Delay::Unknown
        },
        late: link.lateness_ns,
        packets: [link.packets_in, link.packets_out],
    }
}

/// The activity of a daemon's pipes, schedulers and queues between two readings.
pub(super) fn of_daemon(before: &LengthsView, now: &LengthsView) -> Vec<Activity> {
    let seconds = now.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
    let of = |kind, before: &BTreeMap<u16, LengthView>, now: &BTreeMap<u16, LengthView>| {
        let mut all = Vec::with_capacity(now.len());
        for (number, length) in now {
            // An object that is new, or has restarted its counters, counts from zero.
            let known = before.get(number).filter(|old| old.received <= length.received);
            all.push(of_object(
                kind,
                *number,
                &known.copied().unwrap_or_default(),
                length,
                seconds,
            ));
        }
        all
    };
    let mut all = of(Kind::Pipe, &before.pipes, &now.pipes);
    all.extend(of(Kind::Sched, &before.scheds, &now.scheds));
    all.extend(of(Kind::Queue, &before.queues, &now.queues));
    all
}

fn of_object(
    kind: Kind,
    number: u16,
    before: &LengthView,
    now: &LengthView,
    seconds: f64,
) -> Activity {
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let carried =
        (kind != Kind::Queue).then(|| 8.0 * per_second(now.sent_bytes, before.sent_bytes));
    Activity {
        kind,
        name: number.to_string(),
        offered: 8.0 * per_second(now.received_bytes, before.received_bytes),
        carried,
        inside: now.packets,
        drops: per_second(now.drops, before.drops),
        reasons: Vec::new(),
        delay: match carried {
            Some(rate) if rate > 0.0 => Delay::Estimated(now.bytes as f64 * 8e9 / rate),
            _ => Delay::Unknown,
        },
        late: None,
        packets: [
            now.received.saturating_sub(before.received),
            now.sent.saturating_sub(before.sent),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(at_ns: u64, [received, sent, waiting, drops]: [u64; 4]) -> LengthsView {
        let length = LengthView {
            packets: waiting,
            bytes: waiting * 1000,
            received,
            received_bytes: received * 1000,
            sent,
            sent_bytes: sent * 1000,
            drops,
        };
        LengthsView {
            at_ns,
            pipes: [(7, length)].into(),
            queues: [(3, length)].into(),
            ..LengthsView::default()
        }
    }

    #[test]
    fn a_pipes_delay_is_its_queue_divided_by_its_rate() {
        let before = lengths(1_000_000_000, [1000, 900, 50, 50]);
        let now = lengths(3_000_000_000, [1500, 1150, 100, 250]);
        let all = of_daemon(&before, &now);
        let [pipe, queue] = &all[..] else { panic!("{all:?}") };
        assert_eq!((pipe.kind, pipe.name.as_str()), (Kind::Pipe, "7"));
        assert_eq!((pipe.offered, pipe.carried), (2e6, Some(1e6)));
        assert_eq!((pipe.inside, pipe.drops, pipe.packets), (100, 100.0, [500, 250]));
        // 100,000 bytes at 1 Mbit/s.
        assert_eq!(pipe.delay, Delay::Estimated(8e8));
        assert_eq!((queue.carried, queue.delay), (None, Delay::Unknown));
    }

    #[test]
    fn counters_that_began_again_count_from_zero() {
        let (before, now) =
            (lengths(0, [5000, 5000, 0, 0]), lengths(1_000_000_000, [10, 10, 0, 0]));
        assert_eq!(of_daemon(&before, &now)[0].packets, [10, 10]);
        let still = of_daemon(&now, &LengthsView { at_ns: 2_000_000_000, ..now.clone() });
        assert_eq!((still[0].offered, still[0].delay), (0.0, Delay::Unknown));
    }
}
