//! What has arrived of a flow: counts, delays, and which packets have come before.

use weir_sim::measure::Tally;

use super::datagram::Stamp;
use super::order::EndReport;
use super::span::Span;

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When, on the monotonic clock, ns.
    pub(crate) at: u64,
    /// What it says of itself.
    pub(crate) stamp: Stamp,
    /// Bytes of payload.
    pub(crate) payload: u64,
    /// Network-layer bytes.
    pub(crate) len: u64,
    /// With congestion experienced.
    pub(crate) marked: bool,
}

/// The arrivals of a flow.
#[derive(Debug)]
pub(crate) struct Arrivals {
    report: EndReport,
    delays: Tally,
    kind: Kind,
    seen: Vec<u64>,
    /// Delay of the last one.
    last: Option<u64>,
}

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Packets.
    OneWay,
    /// Packets that are sent back.
    Requests,
    /// Packets that were sent back: delays are round trips, less what the other end took to turn
    /// round.
    Echoes,
}

impl Arrivals {
    /// None yet.
    pub(crate) fn new(flow: u32, kind: Kind) -> Self {
        Self {
            report: EndReport { flow, ..EndReport::default() },
            delays: Tally::default(),
            kind,
            seen: Vec::new(),
            last: None,
        }
    }

    /// Whether they are sent back.
    pub(crate) fn echoes(&self) -> bool {
        self.kind == Kind::Requests
    }

    /// Counts one.
    pub(crate) fn count(&mut self, span: &Span, arrival: &Arrival) {
        let Arrival { at, stamp, payload, len, marked } = *arrival;
        let again = !self.is_first(stamp.sequence);
        let report = &mut self.report;
        let early = !span.measured(stamp.sent_ns);
        report.came += u64::from(!early && !again);
        let turned = if self.kind == Kind::Echoes { u64::from(stamp.turned_ns) } else { 0 };
        let delay = at.saturating_sub(stamp.sent_ns).saturating_sub(turned);
        if span.running(at) {
            let point = span.point(&mut report.series, at);
            point.packets += 1;
            point.bytes += len;
            point.payload += payload;
            point.marked += u64::from(marked);
            point.delay_ns += delay;
        }
        if !span.measured(at) {
            return;
        }
        report.received += 1;
        report.received_bytes += len;
        report.goodput_bytes += payload;
        report.carried += u64::from(early && !again);
        report.duplicated += u64::from(again);
        report.marked += u64::from(marked);
        report.variation_ns += self.last.replace(delay).map_or(0, |last| last.abs_diff(delay));
        self.delays.record(delay);
    }

    /// The counts.
    pub(crate) fn finish(mut self) -> EndReport {
        self.report.delay_ns = self.delays.distribution();
        self.report
    }

    /// Whether this number has not come before.
    fn is_first(&mut self, sequence: u32) -> bool {
        let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::Point;
    use super::*;

    #[test]
    fn copies_late_and_early_packets_are_told_apart() {
        let span = Span { start: 0, warmup: 100, duration: 1_000, interval: 500 };
        let mut arrivals = Arrivals::new(3, Kind::OneWay);
        let mut come = |sequence, sent_ns, at| {
            let stamp = Stamp { sequence, sent_ns, turned_ns: 7 };
            arrivals
                .count(&span, &Arrival { at, stamp, payload: 12, len: 40, marked: sequence == 1 });
        };
        come(0, 90, 110);
        come(1, 200, 230);
        come(1, 200, 240);
        come(2, 900, 1_010);
        come(3, 50, 60);
        let report = arrivals.finish();
        assert_eq!(
            (report.flow, report.received, report.came, report.carried, report.duplicated),
            (3, 3, 2, 1, 1)
        );
        assert_eq!((report.received_bytes, report.goodput_bytes, report.marked), (120, 36, 2));
        assert_eq!(
            report.series,
            [Point { packets: 4, bytes: 160, payload: 48, marked: 2, delay_ns: 100 }]
        );
        assert_eq!(report.variation_ns, (30 - 20) + (40 - 30));
        assert_eq!((report.delay_ns.count, report.delay_ns.min, report.delay_ns.max), (3, 20, 40));
    }

    #[test]
    fn round_trips_are_without_the_time_at_the_other_end() {
        let span = Span { start: 0, warmup: 0, duration: 1_000, interval: 500 };
        let mut arrivals = Arrivals::new(0, Kind::Echoes);
        let stamp = Stamp { sequence: 0, sent_ns: 100, turned_ns: 30 };
        arrivals.count(&span, &Arrival { at: 200, stamp, payload: 56, len: 84, marked: false });
        assert_eq!(arrivals.finish().delay_ns.max, 70);
    }
}
