//! Counts the packets of a flow that arrive at one of its ends.

use weir_sim::measure::Tally;

use super::order::EndReport;
use crate::arrival::Arrival;
use crate::span::Span;
use crate::stats::Sequences;

/// The counted arrivals of one flow.
#[derive(Debug)]
pub(super) struct Arrivals {
    report: EndReport,
    delays: Tally,
    kind: Kind,
    sequences: Sequences,
    /// Delay of the previous arrival, ns.
    last: Option<u64>,
}

/// The kind of packets that arrive at an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Packets that are not answered.
    OneWay,
    /// Packets that this end sends back.
    Requests,
    /// Packets that the other end sent back. Their delays are round-trip times without the time
    /// that the other end took to send them back.
    Echoes,
}

impl Arrivals {
    pub(super) fn new(flow: u32, kind: Kind) -> Self {
        Self {
            report: EndReport { flow, ..EndReport::default() },
            delays: Tally::default(),
            kind,
            sequences: Sequences::default(),
            last: None,
        }
    }

    /// Whether this end sends the packets back.
    pub(super) fn is_echoed(&self) -> bool {
        self.kind == Kind::Requests
    }

    pub(super) fn count(&mut self, span: &Span, arrival: &Arrival) {
        let Arrival { at_ns: at, stamp, marked, .. } = *arrival;
        let (len, payload) = (u64::from(arrival.bytes), arrival.payload());
        let is_copy = !self.sequences.note(stamp.sequence);
        let report = &mut self.report;
        let turned = if self.kind == Kind::Echoes { u64::from(stamp.turned_ns) } else { 0 };
        let delay = at.saturating_sub(stamp.sent_ns).saturating_sub(turned);
        if span.is_running(at) {
            let point = span.point(&mut report.series, at);
            point.packets += 1;
            point.bytes += len;
            point.payload += payload;
            point.marked += u64::from(marked);
            point.delay_ns += delay;
        }
        if !span.is_measured(at) {
            let counter = if at < span.end() { &mut report.early } else { &mut report.late };
            *counter += u64::from(!is_copy);
            return;
        }
        report.received += 1;
        report.received_bytes += len;
        report.goodput_bytes += payload;
        report.duplicated += u64::from(is_copy);
        report.marked += u64::from(marked);
        report.variation_ns += self.last.replace(delay).map_or(0, |last| last.abs_diff(delay));
        self.delays.record(delay);
    }

    pub(super) fn finish(mut self) -> EndReport {
        self.report.delay_ns = self.delays.distribution();
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Stamp;
    use crate::span::Point;

    #[test]
    fn duplicates_and_early_and_late_packets_are_counted_separately() {
        let span = Span { start: 0, warmup: 100, duration: 1_000, interval: 500 };
        let mut arrivals = Arrivals::new(3, Kind::OneWay);
        let mut arrive = |sequence, sent_ns, at| {
            let stamp = Stamp { sequence, sent_ns, turned_ns: 7 };
            arrivals.count(
                &span,
                &Arrival { at_ns: at, stamp, bytes: 40, headers: 28, marked: sequence == 1 },
            );
        };
        arrive(0, 90, 110);
        arrive(1, 200, 230);
        arrive(1, 200, 240);
        arrive(2, 900, 1_010);
        arrive(3, 50, 60);
        let report = arrivals.finish();
        assert_eq!(
            (report.flow, report.received, report.early, report.late, report.duplicated),
            (3, 3, 1, 1, 1)
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
    fn round_trip_times_exclude_the_time_at_the_other_end() {
        let span = Span { start: 0, warmup: 0, duration: 1_000, interval: 500 };
        let mut arrivals = Arrivals::new(0, Kind::Echoes);
        let stamp = Stamp { sequence: 0, sent_ns: 100, turned_ns: 30 };
        arrivals
            .count(&span, &Arrival { at_ns: 200, stamp, bytes: 84, headers: 28, marked: false });
        assert_eq!(arrivals.finish().delay_ns.max, 70);
    }
}
