//! The sender's timers and the actions when they expire.

use weir_core::Nanos;

use super::super::cc::Control;
use super::undo::Probe;
use super::{Phase, Sender, State};
use crate::endpoint::Context;
use crate::packet::{Flags, Packet};

impl Sender {
    /// Runs the actions of all timers that have expired.
    pub(super) fn on_time(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        match self.phase {
            Phase::Waiting if self.deadlines.start <= now => self.begin(context),
            Phase::Connecting if self.deadlines.rto <= now => self.connect(context),
            Phase::Established => self.on_deadlines(context),
            Phase::Waiting | Phase::Connecting | Phase::Done => {}
        }
        self.deadlines.reschedule();
        if self.phase == Phase::Connecting {
            // During the handshake, only the timer of the SYN has an effect.
            self.deadlines.wake_at = self.deadlines.rto;
        }
    }

    fn on_deadlines(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        if self.deadlines.stop <= now {
            self.deadlines.stop = Nanos::MAX;
            self.cut = self.written > self.board.next();
            self.written = self.written.min(self.board.next());
            self.closed = true;
        }
        if self.deadlines.reorder <= now {
            self.deadlines.reorder = Nanos::MAX;
            self.give_up_reordered(now);
        }
        // If a probe is due together with the timeout, the probe is sent first and restarts the
        // timeout.
        if self.deadlines.probe <= now {
            self.deadlines.probe = Nanos::MAX;
            self.send_probe(context);
        } else if self.deadlines.rto <= now {
            self.time_out(now);
        }
        if self.deadlines.pace <= now {
            self.deadlines.pace = Nanos::MAX;
        }
        if self.deadlines.persist <= now {
            self.probe_window(context);
        }
        self.transmit(context);
        self.finish(context);
    }

    /// Sets the timers after an acknowledgement or a transmission: the tail loss probe anew, and
    /// the retransmission timeout if it is not running or if `restart` is true.
    #[inline]
    pub(super) fn set_timers(&mut self, now: Nanos, restart: bool) {
        if self.board.is_empty() {
            self.deadlines.rto = Nanos::MAX;
            self.deadlines.probe = Nanos::MAX;
            return;
        }
        if restart || self.deadlines.rto == Nanos::MAX {
            self.deadlines.rto = now.saturating_add(self.rtt.timeout());
        }
        self.deadlines.probe = self.probe_time(now);
        self.deadlines.hurry();
    }

    /// When the tail loss probe is due, RFC 8985 7.2.
    #[inline]
    fn probe_time(&self, now: Nanos) -> Nanos {
        let srtt = self.rtt.srtt().0;
        if !self.config.probe
            || self.state != State::Open
            || self.probe.is_some()
            || srtt == 0
            || self.board.sacked() > 0
        {
            return Nanos::MAX;
        }
        let alone = self.board.next() - self.board.una() <= u64::from(self.config.mss);
        let wait = 2 * srtt + if alone { PEER_DELAY } else { SLACK };
        now.saturating_add(Nanos(wait)).min(self.deadlines.rto)
    }

    /// Sends the tail loss probe. Its acknowledgement reports losses.
    fn send_probe(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let is_retransmission = if self.can_send_new(now) {
            self.send_new(context);
            false
        } else {
            let snapshot = self.rate.send(now, false);
            let Some(segment) = self.board.resend_last(now, snapshot) else { return };
            self.send_segment(segment.seq, segment.len, true, context);
            true
        };
        self.probe = Some(Probe { end: self.board.next(), is_retransmission });
        self.set_timers(now, true);
    }

    /// Handles the retransmission timeout: all outstanding data counts as lost.
    fn time_out(&mut self, now: Nanos) {
        self.deadlines.rto = Nanos::MAX;
        self.deadlines.probe = Nanos::MAX;
        self.deadlines.reorder = Nanos::MAX;
        if self.board.is_empty() {
            return;
        }
        // An earlier reduction for the same data remains in force (RFC 5681, equation 4).
        let first = match self.state {
            State::Open => true,
            State::Lost => self.rtt.backoff() == 0,
            State::Reducing | State::Repairing => self.board.una() >= self.high,
        };
        self.board.lose_all();
        self.rtt.back_off();
        self.probe = None;
        let path = self.path(now);
        self.control.timeout(&path, first);
        self.marks.confirm = self.marks.feedback.is_some();
        self.state = State::Lost;
        self.high = self.board.next();
        self.undo.begin(self.board.una());
    }

    /// Probes whether a closed window has opened. The probe contains as much data as fits into the
    /// window: less than a segment, or none.
    fn probe_window(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.deadlines.persist = Nanos::MAX;
        if !self.usage.closed {
            return;
        }
        self.rtt.back_off();
        let room = self.edge.saturating_sub(self.board.next());
        if room > 0 && self.written > self.board.next() {
            self.send_part(room, context);
            self.set_timers(now, true);
            return;
        }
        let header = self.config.header;
        let seq = self.board.una();
        context.send(Packet {
            flow: self.flow,
            len: header.into(),
            header,
            seq,
            stamp: now,
            flags: Flags::ACK,
            label: self.config.label,
            ..Packet::default()
        });
        self.deadlines.persist = now.saturating_add(self.rtt.timeout());
    }
}

/// The delay that senders assume for the acknowledgement of a single segment, ns.
const PEER_DELAY: u64 = 200_000_000;

/// The delay of a probe in addition to two round trips, ns.
const SLACK: u64 = 2_000_000;
