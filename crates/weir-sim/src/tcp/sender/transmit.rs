//! Transmission: retransmissions first, then new data, as far as the windows, the pacing and the
//! sending host's limit allow.

use weir_core::Nanos;
use weir_core::packet::Ecn;

use super::super::cc::{Control, Feedback};
use super::{Sender, State};
use crate::endpoint::Context;
use crate::packet::{Flags, Packet};

impl Sender {
    /// The congestion window in force, in bytes.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        match self.state {
            State::Reducing | State::Repairing if !self.owned => self.prr.window(),
            _ => self.control.window(),
        }
    }

    /// Whether so much of the window is in use that it may grow (RFC 7661; as in Linux).
    #[inline]
    pub(super) fn window_limited(&self) -> bool {
        let window = self.control.window();
        self.usage.limited || window < self.control.threshold() && window < 2 * self.usage.most
    }

    /// Sends all packets that may be sent now.
    #[inline]
    pub(super) fn transmit(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        if self.board.is_empty() && self.board.next() > 0 && self.can_send_new(now) {
            self.resume(now);
        }
        let window = self.window();
        let (mut sent, mut limited) = (false, false);
        self.usage.host_full = false;
        self.usage.closed = false;
        loop {
            let in_flight = self.board.in_flight();
            let lost = self.board.has_lost();
            let len = if lost {
                self.lost_len()
            } else {
                self.new_len(now, window.saturating_sub(in_flight))
            };
            if len == 0 {
                if in_flight < window {
                    self.rate.limit(in_flight);
                }
                break;
            }
            if in_flight + u64::from(len) > window && in_flight > 0 {
                limited = true;
                break;
            }
            if !lost && self.board.next() + u64::from(len) > self.edge {
                self.on_full_window(now);
                break;
            }
            if self.is_paced(now) || self.is_host_full(len) {
                break;
            }
            if lost {
                self.send_again(context);
            } else {
                self.send_len(len, context);
            }
            sent = true;
        }
        self.note_usage(limited);
        if sent {
            self.set_timers(now, false);
        }
    }

    /// Bytes of the next retransmission; 0 if there is none.
    #[cold]
    fn lost_len(&mut self) -> u32 {
        self.board.first_lost().map_or(0, |segment| segment.len)
    }

    /// Bytes of the next new packet; 0 if there is none. A train is limited to the free part of the
    /// window.
    #[inline]
    fn new_len(&self, now: Nanos, room: u64) -> u32 {
        let available = self.written - self.board.next();
        if now >= self.config.stop {
            return 0;
        }
        let most = u64::from(self.config.most());
        let len = available.min(most);
        if len <= u64::from(self.config.mss) {
            return len as u32;
        }
        let mss = u64::from(self.config.mss);
        len.min((room / mss).max(1) * mss) as u32
    }

    /// Whether there is a segment of new data that fits into the receiver's window.
    pub(super) fn can_send_new(&self, now: Nanos) -> bool {
        let len = u64::from(self.new_len(now, 0));
        len > 0 && self.board.next() + len <= self.edge
    }

    pub(super) fn send_new(&mut self, context: &mut Context<'_>) {
        let len = self.new_len(context.now(), 0);
        self.send_len(len, context);
    }

    /// Sends at most `room` bytes.
    pub(super) fn send_part(&mut self, room: u64, context: &mut Context<'_>) {
        let len = self.new_len(context.now(), 0).min(u32::try_from(room).unwrap_or(u32::MAX));
        if len > 0 {
            self.send_len(len, context);
        }
    }

    #[inline]
    fn send_len(&mut self, len: u32, context: &mut Context<'_>) {
        let now = context.now();
        let seq = self.board.next();
        let snapshot = self.rate.send(now, self.board.in_flight() == 0);
        self.board.push(len, now, snapshot);
        self.send_segment(seq, len, false, context);
    }

    #[cold]
    fn send_again(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let snapshot = self.rate.send(now, self.board.in_flight() == 0);
        if let Some(segment) = self.board.resend_lost(now, snapshot) {
            self.send_segment(segment.seq, segment.len, true, context);
        }
    }

    #[inline]
    pub(super) fn send_segment(
        &mut self,
        seq: u64,
        payload: u32,
        is_retransmission: bool,
        context: &mut Context<'_>,
    ) {
        let now = context.now();
        let mut flags = Flags::ACK;
        let mut ecn = self.marks.codepoint;
        let segments = self.config.segments(payload);
        if is_retransmission {
            flags = flags.with(Flags::RETRANSMISSION);
            self.undo.resent(now);
            context.count(self.flow).retransmitted += u64::from(segments);
            if !matches!(self.marks.feedback, Some(Feedback::Accurate | Feedback::Scalable)) {
                ecn = Ecn::NotEct;
            }
        } else if self.marks.confirm {
            self.marks.confirm = false;
            flags = flags.with(Flags::CWR);
        }
        if self.closed && seq + u64::from(payload) == self.written {
            flags = flags.with(Flags::FIN);
        }
        let len = self.config.len(payload);
        if self.config.small_queue.is_some() {
            flags = flags.with(Flags::TELL);
            self.in_host += u64::from(len);
        }
        if self.state != State::Open {
            self.prr.sent(payload.into());
        }
        if self.config.paces() {
            self.pace(now, payload);
        }
        self.last_sent = now;
        context.send(Packet {
            flow: self.flow,
            len,
            header: self.config.header,
            seq,
            stamp: now,
            segments,
            ecn,
            flags,
            label: self.config.label,
            ..Packet::default()
        });
    }

    /// Tells the congestion control of a pause, with the time since the last transmission.
    #[cold]
    fn resume(&mut self, now: Nanos) {
        let timeout = if self.config.idle_restart { self.rtt.timeout() } else { Nanos::MAX };
        let path = self.path(now);
        self.control.resume(&path, now.since(self.last_sent), timeout);
        self.last_sent = now;
    }

    /// Handles a full window of the receiver. When nothing is outstanding, the sender starts to
    /// probe the window.
    #[cold]
    fn on_full_window(&mut self, now: Nanos) {
        if !self.board.is_empty() {
            return;
        }
        self.usage.closed = true;
        if self.deadlines.persist == Nanos::MAX {
            self.deadlines.persist = now.saturating_add(self.rtt.timeout());
            self.deadlines.wake_at = self.deadlines.wake_at.min(self.deadlines.persist);
        }
    }

    #[inline]
    fn is_host_full(&mut self, payload: u32) -> bool {
        let Some(limit) = self.config.small_queue else { return false };
        let len = u64::from(self.config.len(payload));
        // The data of one millisecond, but at least two packets, and at most the configured limit.
        let most = (self.rate_now() / 8 / 1000).max(2 * len).min(u64::from(limit).max(len));
        self.usage.host_full = self.in_host > 0 && self.in_host + len > most;
        self.usage.host_full
    }

    /// Whether pacing forbids sending now. If so, sets the wake-up to the time at which pacing
    /// permits it.
    #[inline]
    fn is_paced(&mut self, now: Nanos) -> bool {
        if now >= self.pace_at {
            return false;
        }
        self.deadlines.pace = self.pace_at;
        self.deadlines.hurry();
        true
    }

    /// The pacing rate in payload bits/s: that of the congestion control, or else one computed from
    /// the window and the round-trip time. The latter rate is `u64::MAX` before the first sample.
    fn rate_now(&self) -> u64 {
        if let Some(rate) = self.control.pacing_rate() {
            return rate.max(1);
        }
        let srtt = u128::from(self.rtt.srtt().0);
        let window = self.control.window();
        // The rate is so high that the window is the limit, as in Linux.
        let percent = if window < self.control.threshold() / 2 { 200 } else { 120 };
        let bits = u128::from(window) * percent * 8 * 10_000_000;
        bits.checked_div(srtt)
            .map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
            .max(1)
    }

    fn pace(&mut self, now: Nanos, payload: u32) {
        let wait = u128::from(payload) * 8_000_000_000 / u128::from(self.rate_now());
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        self.pace_at = self.pace_at.max(now).saturating_add(Nanos(wait));
    }

    /// Measures how much of the window is used during a round trip.
    #[inline]
    fn note_usage(&mut self, limited: bool) {
        let in_flight = self.board.in_flight();
        let usage = &mut self.usage;
        if limited || self.board.una() >= usage.until || !usage.limited && in_flight > usage.most {
            usage.limited = limited;
            usage.most = in_flight;
            usage.until = self.board.next();
        }
    }
}
