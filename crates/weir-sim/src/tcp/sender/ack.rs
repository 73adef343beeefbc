//! Processing of acknowledgements: arrivals, losses and marks.

use weir_core::Nanos;

use super::super::cc::{Control, Feedback, Sample};
use super::super::intervals::Range;
use super::super::scoreboard::Report;
use super::{Sender, State};
use crate::endpoint::Context;
use crate::packet::{Extra, Flags, Packet};

impl Sender {
    #[inline]
    pub(super) fn acknowledged(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let now = context.now();
        let ack = packet.ack;
        let una = self.board.una();
        let prior_in_flight = self.board.in_flight();
        self.take_window(packet);
        let mut report =
            Report { latest: now.saturating_sub(self.least_rtt()), ..Report::default() };
        self.board.acknowledge(ack, &mut report);
        let advanced = self.board.una() > una;
        let (mut duplicate, mut marked) = (false, 0);
        match context.extra(packet) {
            None => self.board.forget_ranges(),
            Some(extra) => {
                duplicate = self.take_ranges(ack, extra, &mut report);
                marked = self.count_marks(extra);
            }
        }
        if packet.flags.has(Flags::ECE) {
            marked = self.echoed(report.bytes);
        }
        let rtt = self.measure(now, &report);
        if advanced {
            self.rtt.progress();
            self.undo_by_stamp(now, packet.stamp);
        }
        let newest = report.newest.as_ref().map(|segment| (segment.snapshot, segment.sent));
        let rated = self.rate.acknowledge(now, report.bytes, newest, self.rtt.min());
        let lost = if self.board.has_gaps() { self.find_lost(now) } else { 0 };
        self.end_reduction(now);
        if self.probe.is_some() {
            self.account_probe(now, ack, advanced, duplicate);
        }
        if duplicate {
            self.undo_by_duplicates(now);
        }
        if lost > 0 {
            self.repair(now, prior_in_flight);
        }
        if marked > 0 {
            self.reduce_for_marks(now, prior_in_flight);
        }
        let reducing = matches!(self.state, State::Reducing | State::Repairing);
        if reducing {
            let safe = advanced && lost == 0;
            self.prr.acknowledge(
                report.bytes,
                self.board.in_flight(),
                self.control.threshold(),
                self.config.mss.into(),
                safe,
            );
        }
        if report.bytes > 0 || lost > 0 || marked > 0 {
            let sample = Sample {
                acked: report.bytes,
                lost,
                prior_in_flight,
                rtt,
                one_way: Some(packet.sent.since(packet.stamp)),
                ce: marked,
                prior_delivered: rated.prior_delivered,
                interval_delivered: rated.delivered,
                interval: rated.interval,
                app_limited: rated.app_limited,
                window_limited: self.window_limited(),
                // If only selective acknowledgements report data, the data is out of order, and a
                // loss is possible.
                reducing: reducing || !advanced,
            };
            let path = self.path(now);
            self.control.acked(&path, &sample);
        }
        if advanced {
            self.set_timers(now, true);
        }
        self.transmit(context);
        if self.closed {
            self.finish(context);
        }
    }

    /// Takes the receiver's window from an acknowledgement.
    #[inline]
    fn take_window(&mut self, packet: &Packet) {
        let edge = packet.ack + u64::from(packet.window);
        if edge > self.edge {
            self.edge = edge;
            if self.usage.closed {
                // The window has opened. Retransmissions must not use the backoff of the window
                // probes.
                self.rtt.progress();
                self.deadlines.persist = Nanos::MAX;
            }
        }
    }

    /// The shortest possible time from a retransmission to its acknowledgement.
    #[inline]
    fn least_rtt(&self) -> Nanos {
        let min = self.rtt.min();
        if min == Nanos::MAX { Nanos::ZERO } else { min }
    }

    /// Processes selective acknowledgements. Returns whether one of them reports a duplicate.
    #[cold]
    fn take_ranges(&mut self, ack: u64, extra: &Extra, report: &mut Report) -> bool {
        let ranges = &extra.sack[..usize::from(extra.sacks).min(extra.sack.len())];
        let within = |outer: &Range, inner: &Range| outer.0 <= inner.0 && inner.1 <= outer.1;
        let duplicate = match ranges {
            [first, ..] if first.1 <= ack => true,
            [first, second, ..] => within(second, first),
            _ => false,
        };
        if duplicate {
            self.undo.duplicate(ranges[0].0);
            self.rack.saw_duplicate(self.board.una(), self.board.next());
        }
        self.board.sack(&ranges[usize::from(duplicate)..], report);
        duplicate
    }

    /// The number of bytes that accurate ECN newly reports as marked.
    fn count_marks(&mut self, extra: &Extra) -> u64 {
        let new = extra.ce_bytes.saturating_sub(self.marks.seen);
        self.marks.seen += new;
        new
    }

    /// The number of bytes that count as marked if the receiver echoes a mark.
    fn echoed(&self, acked: u64) -> u64 {
        match self.marks.feedback {
            Some(Feedback::Classic) => acked.max(1),
            Some(Feedback::Exact) => acked,
            _ => 0,
        }
    }

    /// Takes round-trip times from segments that were sent once. The timeout uses the first
    /// segment, so that it includes the receiver's delay; the congestion control uses the last.
    #[inline]
    fn measure(&mut self, now: Nanos, report: &Report) -> Option<Nanos> {
        if report.reordered {
            self.rack.saw_reordering();
        }
        if let Some(newest) = &report.newest {
            self.rack.arrived(now, newest);
        }
        let (first, last) = report.once?;
        self.rtt.sample(now.since(first), now.since(last));
        Some(now.since(last))
    }

    /// Finds losses, and sets the timer for data that may become lost later.
    #[cold]
    fn find_lost(&mut self, now: Nanos) -> u64 {
        let repairing = matches!(self.state, State::Repairing | State::Lost);
        let eager = repairing || self.board.sacked() >= 3 * u64::from(self.config.mss);
        let patience = self.rack.patience(&self.rtt, eager);
        let (lost, next) = self.board.find_lost(now, self.rack.newest(), patience);
        self.deadlines.reorder = next;
        self.deadlines.wake_at = self.deadlines.wake_at.min(next);
        lost
    }

    /// Handles the end of the reordering window: reordered data now counts as lost.
    pub(super) fn give_up_reordered(&mut self, now: Nanos) {
        let flight = self.board.in_flight();
        let lost = self.find_lost(now);
        if lost == 0 {
            return;
        }
        self.repair(now, flight);
        if matches!(self.state, State::Reducing | State::Repairing) {
            self.prr.acknowledge(
                0,
                self.board.in_flight(),
                self.control.threshold(),
                self.config.mss.into(),
                false,
            );
        }
        let path = self.path(now);
        let reducing = self.state != State::Lost;
        let sample = Sample {
            lost,
            prior_in_flight: flight,
            prior_delivered: path.delivered,
            reducing,
            ..Sample::default()
        };
        self.control.acked(&path, &sample);
    }
}
