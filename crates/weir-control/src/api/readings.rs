//! Readings of a session's counters, and what happened between two of them.
//!
//! The counters of a session start with the session. Each client subtracts two of its own readings,
//! so the session keeps nothing for its clients, however many there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_measure::distribution::Distribution;
use weir_measure::histogram::{Bin, Histogram};
use weir_measure::latency::Latency;
use weir_measure::stats::{DropCounts, DropReason, LinkCounters};

/// The counters of all links of a session at one moment, since the links started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Readings {
    /// Time since the links started, ns.
    pub at_ns: u64,
    /// The links, then the paths over several links.
    pub links: Vec<LinkReading>,
}

/// The counters of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkReading {
    /// The link's name.
    #[schema(example = "down")]
    pub name: String,
    /// Whether this is a path over the links of a scenario, from one host to another.
    pub path: bool,
    /// The counters.
    pub counters: LinkCounters,
    /// Queueing delay.
    pub queue_ns: TimeCounts,
    /// Lateness; null for a link inside a scenario, because packets depart at the end of their
    /// path.
    pub lateness_ns: Option<TimeCounts>,
}

/// Counted times, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimeCounts {
    /// The sum of all times, modulo 2⁶⁴.
    pub sum: u64,
    /// The filled bins, ascending: the least time of the bin, the greatest one, and the number of
    /// times.
    pub bins: Vec<[u64; 3]>,
}

/// What the links of a session did in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The name of the session.
    pub session: String,
    /// The end of the interval: time since the links started, ns.
    pub at_ns: u64,
    /// The length of the interval, ns.
    pub duration_ns: u64,
    /// The links, then the paths over several links.
    pub links: Vec<LinkInterval>,
}

/// What a link did in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkInterval {
    /// The link's name.
    pub name: String,
    /// Whether this is a path over the links of a scenario, from one host to another.
    pub path: bool,
    /// The mean rate of departures, bit/s.
    pub out_bps: u64,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes of the packets that arrived.
    pub bytes_in: u64,
    /// Packets that departed.
    pub packets_out: u64,
    /// Bytes of the packets that departed.
    pub bytes_out: u64,
    /// Packets inside at the end of the interval.
    pub backlog_packets: u64,
    /// Packets that were dropped, by reason.
    pub drops: DropCounts,
    /// Queueing delay of the packets that departed, ns, to within 3.1 %.
    pub queue_ns: Latency,
    /// Lateness of the packets that departed, ns, to within 3.1 %; null for a link inside a
    /// scenario.
    pub lateness_ns: Option<Latency>,
}

impl Interval {
    /// The difference between the reading `before` and the later reading `now` of a session.
    #[must_use]
    pub fn between(session: &str, before: &Readings, now: &Readings) -> Self {
        let duration_ns = now.at_ns.saturating_sub(before.at_ns);
        let nothing = LinkReading::default();
        let of = |link: &LinkReading| {
            let same = |other: &&LinkReading| (&other.name, other.path) == (&link.name, link.path);
            let known = before.links.iter().find(same);
            // A scenario resets its counters at the end of the warm-up. An earlier reading then
            // counts as zero.
            let known = known.filter(|old| old.counters.packets_in <= link.counters.packets_in);
            LinkInterval::between(known.unwrap_or(&nothing), link, duration_ns)
        };
        let links = now.links.iter().map(of).collect();
        Self { session: session.to_owned(), at_ns: now.at_ns, duration_ns, links }
    }
}

impl LinkInterval {
    fn between(before: &LinkReading, now: &LinkReading, duration_ns: u64) -> Self {
        let more = |count: fn(&LinkCounters) -> u64| {
            count(&now.counters).saturating_sub(count(&before.counters))
        };
        let bytes_out = more(|counters| counters.bytes_out);
        let bits = u128::from(bytes_out) * 8 * 1_000_000_000 / u128::from(duration_ns.max(1));
        let dropped = |reason: DropReason| {
            let drops = now.counters.drops(reason).saturating_sub(before.counters.drops(reason));
            (drops > 0).then_some((reason, drops))
        };
        let late = now
            .lateness_ns
            .as_ref()
            .map(|now| now.since(before.lateness_ns.as_ref().unwrap_or(&TimeCounts::default())));
        Self {
            name: now.name.clone(),
            path: now.path,
            out_bps: u64::try_from(bits).unwrap_or(u64::MAX),
            packets_in: more(|counters| counters.packets_in),
            bytes_in: more(|counters| counters.bytes_in),
            packets_out: more(|counters| counters.packets_out),
            bytes_out,
            backlog_packets: now.counters.backlog_packets,
            drops: DropReason::ALL.into_iter().filter_map(dropped).collect(),
            queue_ns: Latency::from(&now.queue_ns.since(&before.queue_ns)),
            lateness_ns: late.as_ref().map(Latency::from),
        }
    }
}

impl From<&Histogram> for TimeCounts {
    fn from(histogram: &Histogram) -> Self {
        let bins = histogram.bins().map(|bin| [bin.low, bin.high, bin.count]).collect();
        // Sums wrap at 2⁶⁴; their difference is right nevertheless.
        Self { sum: histogram.sum() as u64, bins }
    }
}

impl TimeCounts {
    /// The times that were counted after `before`. The least and the greatest time are the limits
    /// of their bins.
    fn since(&self, before: &Self) -> Distribution {
        let mut old = before.bins.iter().peekable();
        let mut bins = Vec::new();
        for &[low, high, count] in &self.bins {
            while old.next_if(|bin| bin[0] < low).is_some() {}
            let known = old.next_if(|bin| bin[0] == low).map_or(0, |bin| bin[2]);
            let count = count.saturating_sub(known);
            if count > 0 {
                bins.push(Bin { low, high, count });
            }
        }
        Distribution {
            count: bins.iter().fold(0, |sum: u64, bin| sum.saturating_add(bin.count)),
            sum: self.sum.wrapping_sub(before.sum).into(),
            min: bins.first().map_or(0, |bin| bin.low),
            max: bins.last().map_or(0, |bin| bin.high),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: u64, packets: u64, times: &Histogram) -> Readings {
        let mut counters = LinkCounters {
            packets_in: packets + 7,
            packets_out: packets,
            bytes_out: packets * 1000,
            backlog_packets: 4,
            ..LinkCounters::default()
        };
        (0..packets / 100).for_each(|_| counters.count_drop(DropReason::QueueFull));
        let link = LinkReading {
            name: "down".to_owned(),
            path: false,
            counters,
            queue_ns: TimeCounts::from(times),
            lateness_ns: Some(TimeCounts::default()),
        };
        Readings { at_ns, links: vec![link] }
    }

    #[test]
    fn an_interval_has_only_what_happened_in_it() {
        let mut times = Histogram::default();
        times.record_many(90_000_000, 1000);
        let before = reading(5_000_000_000, 1000, &times);
        times.record_many(1_000_000, 98);
        times.record_many(90_000_000, 2);
        let now = reading(6_000_000_000, 1500, &times);
        let interval = Interval::between("curl", &before, &now);
        assert_eq!((interval.at_ns, interval.duration_ns), (6_000_000_000, 1_000_000_000));
        let link = &interval.links[0];
        assert_eq!((link.packets_in, link.packets_out, link.backlog_packets), (500, 500, 4));
        assert_eq!((link.out_bps, link.drops.get(DropReason::QueueFull)), (4_000_000, 5));
        let queue = &link.queue_ns;
        assert_eq!((queue.count, queue.mean), (100, 2_780_000));
        let near = |value: u64, exact: u64| value.abs_diff(exact) <= exact / 31;
        assert!(near(queue.p50, 1_000_000) && near(queue.p99, 90_000_000), "{queue:?}");
        assert!(near(queue.min, 1_000_000) && near(queue.max, 90_000_000), "{queue:?}");
        assert_eq!(link.lateness_ns, Some(Latency::default()));
    }

    #[test]
    fn counters_that_were_reset_or_are_new_count_from_zero() {
        let mut times = Histogram::default();
        times.record_many(1_000_000, 100);
        let (before, now) = (reading(1, 1000, &times), reading(2, 100, &times));
        let whole = Interval::between("scene", &Readings::default(), &now);
        let reset = Interval::between("scene", &before, &now);
        assert_eq!(reset.links[0].packets_out, 100);
        assert_eq!(reset.links[0].queue_ns, whole.links[0].queue_ns);
        let same = Interval::between("scene", &now, &now);
        assert_eq!((same.links[0].packets_in, same.links[0].queue_ns.count), (0, 0));
        assert_eq!(same.links[0].out_bps, 0);
    }

    #[test]
    fn readings_pass_through_json_also_with_sums_beyond_a_word() {
        let mut times = Histogram::default();
        times.record_many(u64::MAX, 3);
        let before = reading(1, 300, &times);
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Readings>(&text).unwrap(), before);
        times.record_many(5, 10);
        let interval = Interval::between("x", &before, &reading(2, 310, &times));
        assert_eq!(interval.links[0].queue_ns.mean, 5);
    }
}
