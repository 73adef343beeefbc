//! The receiving end of a connection: it puts bytes in order and sends acknowledgements.
//!
//! # Acknowledgements
//! The receiver sends one acknowledgement for every `ack_every` segments of any length, or after
//! `ack_delay`. It immediately acknowledges a segment that is out of order, fills a gap, is a
//! duplicate, ends the data, or contains no data (a probe of the window). With ECN, except with
//! classic feedback, it also acknowledges immediately when the ECN mark of a segment differs from
//! that of the previous segment. An acknowledgement contains up to three ranges. The first one is a
//! duplicate that has just arrived (RFC 2883), if there is one; then come the ranges that grew
//! last, the latest first. Timestamps leave room for three of TCP's four ranges.
//!
//! # Timestamps
//! As in RFC 7323, an acknowledgement carries the timestamp of the segment that last moved the left
//! edge. A delayed acknowledgement carries the timestamp of the first segment that it covers.

use weir_core::Nanos;
use weir_core::packet::Ecn;

use super::cc::Feedback;
use super::config::Config;
use super::intervals::{Intervals, Range};
use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{Extra, Flags, FlowId, Packet};

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    flow: FlowId,
    config: Config,
    /// The next byte in sequence order.
    next: u64,
    ahead: Intervals,
    /// Number of segments that have arrived since the last acknowledgement.
    pending: u32,
    /// When the delayed acknowledgement is due; [`Nanos::MAX`] if there is none.
    ack_at: Nanos,
    /// The next wake-up, not later than `ack_at` or the opening of a closed window.
    wake_at: Nanos,
    /// The timestamp to send back.
    stamp: Nanos,
    /// The left edge that the last acknowledgement reported.
    last_ack: u64,
    /// A segment that arrived twice, to be reported by the next acknowledgement.
    duplicate: Option<Range>,
    marks: Option<Marks>,
    reader: Reader,
    /// End of the data, when known.
    end: u64,
}

/// Counters of the marks that arrived, if ECN is in use.
#[derive(Debug)]
struct Marks {
    feedback: Feedback,
    /// Whether acknowledgements ask the sender for a reduction.
    echo: bool,
    /// Whether the last packet was marked.
    last: bool,
    /// The counters of accurate ECN: marked packets, marked bytes, and bytes with ECT(0) and
    /// ECT(1).
    packets: u64,
    bytes: u64,
    ect0: u64,
    ect1: u64,
}

/// The application that reads the data.
#[derive(Debug)]
struct Reader {
    /// Rate in bits/s; `None` if the application reads at once.
    rate: Option<u64>,
    /// Number of bytes read.
    read: u64,
    /// The part of the next byte that is already read, in units of 1 / 8e9 byte.
    rest: u64,
    /// The time until which `read` and `rest` are computed.
    at: Nanos,
    /// The right edge that was last advertised.
    edge: u64,
}

impl Receiver {
    /// Makes the receiving end of `flow`.
    pub fn new(flow: FlowId, config: &Config) -> Self {
        let feedback = config.control.kind().row().traits.feedback;
        let marks = config.uses_ecn().then_some(Marks {
            feedback,
            echo: false,
            last: false,
            packets: 0,
            bytes: 0,
            ect0: 0,
            ect1: 0,
        });
        Self {
            flow,
            config: *config,
            next: 0,
            ahead: Intervals::default(),
            pending: 0,
            ack_at: Nanos::MAX,
            wake_at: Nanos::MAX,
            stamp: Nanos::ZERO,
            last_ack: 0,
            duplicate: None,
            marks,
            reader: Reader { rate: config.read_rate, read: 0, rest: 0, at: Nanos::ZERO, edge: 0 },
            end: u64::MAX,
        }
    }

    /// Number of bytes that have arrived in order.
    pub fn delivered(&self) -> u64 {
        self.next
    }

    fn acknowledge(&mut self, flags: Flags, context: &mut Context<'_>) {
        self.pending = 0;
        self.ack_at = Nanos::MAX;
        self.last_ack = self.next;
        let window = self.window(context.now());
        let mut packet = Packet {
            flow: self.flow,
            len: self.config.header.into(),
            header: self.config.header,
            ack: self.next,
            stamp: self.stamp,
            window,
            flags: flags.with(Flags::ACK).with(Flags::BACK),
            ..Packet::default()
        };
        let counters = self
            .marks
            .as_ref()
            .filter(|marks| matches!(marks.feedback, Feedback::Accurate | Feedback::Scalable));
        if let Some(marks) = &self.marks
            && marks.echo
        {
            packet.flags = packet.flags.with(Flags::ECE);
        }
        let has_ranges = self.duplicate.is_some() || !self.ahead.is_empty();
        if !has_ranges && counters.is_none() {
            context.send(packet);
            return;
        }
        let mut extra = Extra::default();
        if has_ranges {
            let all = self.duplicate.take().into_iter().chain(self.ahead.latest()).take(SACKS);
            for (range, slot) in all.zip(&mut extra.sack) {
                *slot = range;
                extra.sacks += 1;
            }
            // The ranges are an option of 4 bytes plus 8 per range. `header` already includes the
            // timestamps.
            packet.len += 4 + 8 * u32::from(extra.sacks);
            packet.header += 4 + 8 * extra.sacks;
        }
        if let Some(marks) = counters {
            (extra.ce_packets, extra.ce_bytes) = (marks.packets, marks.bytes);
            (extra.ect0_bytes, extra.ect1_bytes) = (marks.ect0, marks.ect1);
        }
        context.send_with(packet, extra);
    }

    /// Returns the window to advertise, in bytes, and records its right edge.
    fn window(&mut self, now: Nanos) -> u32 {
        let buffer = u64::from(self.config.receive_buffer);
        if self.reader.rate.is_none() {
            return self.config.receive_buffer;
        }
        self.reader.advance(now, self.next);
        let free = buffer.saturating_sub(self.next - self.reader.read);
        // The window never shrinks, and growth by less than a segment is not advertised (RFC 1122
        // 4.2.3.3).
        let edge = self.next + free;
        if edge >= self.reader.edge + u64::from(self.config.mss).min(buffer / 2) {
            self.reader.edge = edge;
        }
        u32::try_from(self.reader.edge.saturating_sub(self.next)).unwrap_or(u32::MAX)
    }

    /// Inserts a range. Returns whether to acknowledge at once.
    #[inline]
    fn place(&mut self, start: u64, end: u64, context: &mut Context<'_>) -> bool {
        if start == self.next && self.ahead.is_empty() {
            self.next = end;
            self.hand_over(end - start, context);
            return false;
        }
        self.place_slowly(start, end, context);
        true
    }

    /// Inserts a range that is out of order, fills a gap, or is a duplicate.
    #[cold]
    fn place_slowly(&mut self, start: u64, end: u64, context: &mut Context<'_>) {
        if end <= self.next || self.ahead.contains(start, end) {
            self.duplicate = Some((start, end));
        } else if start > self.next {
            self.ahead.insert(start, end);
        } else {
            let before = self.next;
            self.next = self.ahead.take(end);
            self.hand_over(self.next - before, context);
        }
    }

    #[inline]
    fn hand_over(&mut self, bytes: u64, context: &mut Context<'_>) {
        context.count(self.flow).goodput_bytes += bytes;
        if let Some(owner) = self.config.owner {
            context.tell(owner, self.flow, Notice::Delivered(bytes));
        }
    }

    /// Counts the mark of a packet. Returns whether to acknowledge at once.
    fn mark(&mut self, packet: &Packet, payload: u32, context: &mut Context<'_>) -> bool {
        let Some(marks) = &mut self.marks else { return false };
        let ce = packet.ecn == Ecn::Ce;
        match packet.ecn {
            Ecn::Ce => {
                marks.packets += u64::from(packet.segments);
                marks.bytes += u64::from(payload);
            }
            Ecn::Ect0 => marks.ect0 += u64::from(payload),
            Ecn::Ect1 => marks.ect1 += u64::from(payload),
            Ecn::NotEct => {}
        }
        let changed = std::mem::replace(&mut marks.last, ce) != ce;
        match marks.feedback {
            Feedback::Classic => {
                if packet.flags.has(Flags::CWR) {
                    marks.echo = false;
                }
                marks.echo |= ce;
                false
            }
            Feedback::Exact => {
                // The acknowledgement of the earlier packets reports their mark.
                if changed && self.pending > 0 {
                    self.acknowledge(Flags::default(), context);
                }
                if let Some(marks) = &mut self.marks {
                    marks.echo = ce;
                }
                changed
            }
            Feedback::Accurate | Feedback::Scalable => changed,
        }
    }
}

impl Endpoint for Receiver {
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let now = context.now();
        if packet.flags.has(Flags::SYN) {
            self.stamp = packet.stamp;
            self.acknowledge(Flags::SYN, context);
            return;
        }
        // Until now, the application can have read only data of earlier packets.
        self.reader.advance(now, self.next);
        let (start, payload) = (packet.seq, packet.payload());
        let end = start + u64::from(payload);
        let mut at_once = payload == 0;
        if packet.flags.has(Flags::FIN) {
            self.end = end;
            at_once = true;
        }
        if self.marks.is_some() {
            at_once |= self.mark(packet, payload, context);
        }
        // A segment that begins at or before the left edge of the last acknowledgement is the first
        // one that the next acknowledgement covers.
        if start <= self.last_ack && packet.stamp >= self.stamp {
            self.stamp = packet.stamp;
        }
        if payload > 0 {
            at_once |= self.place(start, end, context);
        }
        self.pending += u32::from(packet.segments);
        if at_once || self.pending >= self.config.ack_every {
            self.acknowledge(Flags::default(), context);
        } else if self.ack_at == Nanos::MAX {
            self.ack_at = now.saturating_add(self.config.ack_delay);
            self.wake_at = self.wake_at.min(self.ack_at);
        }
        if self.reader.rate.is_some() {
            self.watch_window(now);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.wake_at = Nanos::MAX;
        let closed =
            self.reader.rate.is_some() && self.reader.edge < self.next + u64::from(self.config.mss);
        if self.ack_at <= now {
            self.acknowledge(Flags::default(), context);
        } else if closed {
            let before = self.reader.edge;
            self.window(now);
            if self.reader.edge > before {
                self.acknowledge(Flags::default(), context);
            }
        }
        self.wake_at = self.wake_at.min(self.ack_at);
        if self.reader.rate.is_some() {
            self.watch_window(now);
        }
    }

    fn next_event(&self) -> Nanos {
        self.wake_at
    }
}

impl Receiver {
    /// Sets a wake-up for the time at which the application has read enough to open a closed
    /// window.
    fn watch_window(&mut self, now: Nanos) {
        let Some(rate) = self.reader.rate else { return };
        let mss = u64::from(self.config.mss);
        if self.reader.edge >= self.next + mss || self.next >= self.end {
            return;
        }
        let buffer = u64::from(self.config.receive_buffer);
        let wanted = (self.reader.edge + mss.min(buffer / 2))
            .saturating_sub(buffer)
            .saturating_sub(self.reader.read);
        let wait = u128::from(wanted + 1) * BYTE / u128::from(rate.max(1));
        let at = Nanos(self.reader.at.0.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)));
        self.wake_at = self.wake_at.min(at.max(now.saturating_add(Nanos(1))));
    }
}

impl Reader {
    /// Reads the data that has arrived, until `now`.
    fn advance(&mut self, now: Nanos, arrived: u64) {
        let Some(rate) = self.rate else { return };
        let sum = u128::from(now.since(self.at).0) * u128::from(rate) + u128::from(self.rest);
        let bytes = u64::try_from(sum / BYTE).unwrap_or(u64::MAX);
        self.at = now;
        if bytes >= arrived - self.read {
            (self.read, self.rest) = (arrived, 0);
        } else {
            self.read += bytes;
            self.rest = (sum % BYTE) as u64;
        }
    }
}

/// The product of nanoseconds and bits/s that makes one byte.
const BYTE: u128 = 8_000_000_000;

/// Number of ranges in one acknowledgement: as many as fit next to the timestamps.
const SACKS: usize = 3;
