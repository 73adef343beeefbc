//! The sender's scoreboard: all data that was sent and is not yet acknowledged.
//!
//! # Model
//! A ring holds the segments in sequence order, from `una` to `next`. Each segment is in flight,
//! selectively acknowledged, or lost. A lost segment is in flight again after its retransmission.
//!
//! **Invariant:** `in_flight = (next − una) − sacked − lost + resent`, in bytes. `lost` counts all
//! segments that were found lost and are not selectively acknowledged. `resent` counts those among
//! them that have a retransmission in flight.
//!
//! # Complexity
//! An acknowledgement that only moves the left edge removes segments from the front, in O(1) each.
//! A selective acknowledgement costs a binary search, and O(1) for each segment that it newly
//! reports; ranges that the previous acknowledgement also reported are skipped. Two cursors find
//! losses: one over the segments sent once, in sequence order, and one over the retransmissions, in
//! order of time. Each cursor passes a segment once, unless a repair is undone.

use std::collections::VecDeque;

use weir_core::Nanos;

use super::intervals::Range;
use super::rate::Snapshot;

/// A segment, or a train of segments, that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Sequence number of the first byte.
    pub(super) seq: u64,
    /// Time of the last transmission.
    pub(super) sent: Nanos,
    /// Index of the last transmission of this segment among all transmissions of the connection.
    pub(super) order: u64,
    /// State of the connection at the last transmission.
    pub(super) snapshot: Snapshot,
    /// Bytes.
    pub(super) len: u32,
    /// Number of transmissions.
    pub(super) times: u16,
    pub(super) sacked: bool,
    pub(super) lost: bool,
    /// Whether the segment was retransmitted after it was found lost, and this retransmission was
    /// not itself found lost.
    pub(super) resent: bool,
}

const _: () = assert!(size_of::<Segment>() == 64);

impl Segment {
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// The segments in the ring, and the sums over them.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    ring: VecDeque<Segment>,
    /// Index of the first segment in the ring. Earlier segments are acknowledged. A segment keeps
    /// its index.
    first: u64,
    una: u64,
    next: u64,
    /// Number of transmissions until now.
    orders: u64,
    sacked: u64,
    lost: u64,
    resent: u64,
    /// The ranges of the last acknowledgement. All segments in them are marked as selectively
    /// acknowledged.
    known: [Range; 4],
    known_len: usize,
    /// Index of a segment: all earlier segments are selectively acknowledged, lost, or were sent
    /// more than once.
    scanned: u64,
    /// Index of a segment: every earlier lost segment has a retransmission in flight.
    repaired: u64,
    /// Retransmissions in order of time.
    resends: VecDeque<Resend>,
    /// End of the highest segment that has arrived.
    highest: u64,
    /// Index of the segment after the one that was last selectively acknowledged. A search begins
    /// at this index, because most ranges grow there.
    hint: u64,
}

/// A retransmission: the index of the segment, and the index of the transmission.
type Resend = (u64, u64);

/// The arrivals that one acknowledgement reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    /// Bytes that are newly reported.
    pub(super) bytes: u64,
    /// The segment with the latest transmission, for the delivery rate and for RACK.
    pub(super) newest: Option<Segment>,
    /// The first and the last time of transmission of segments that were sent once.
    pub(super) once: Option<(Nanos, Nanos)>,
    /// Whether a segment that was sent once arrived after a segment with a higher sequence number.
    pub(super) reordered: bool,
    /// A retransmission after this time is too recent to be acknowledged already: the
    /// acknowledgement is for the original.
    pub(super) latest: Nanos,
}

impl Report {
    #[inline]
    fn add(&mut self, segment: &Segment, highest: u64) {
        self.bytes += u64::from(segment.len);
        if segment.times == 1 {
            self.reordered |= segment.end() < highest;
            self.once = Some(self.once.map_or((segment.sent, segment.sent), |(first, last)| {
                (first.min(segment.sent), last.max(segment.sent))
            }));
        } else if segment.sent > self.latest {
            return;
        }
        if self.newest.is_none_or(|newest| newest.order < segment.order) {
            self.newest = Some(*segment);
        }
    }
}

impl Scoreboard {
    #[inline]
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.next - self.una - self.sacked - self.lost + self.resent
    }

    #[inline]
    pub(super) fn sacked(&self) -> u64 {
        self.sacked
    }

    #[inline]
    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    /// Whether there are gaps or retransmissions, so that losses may be found.
    #[inline]
    pub(super) fn has_gaps(&self) -> bool {
        self.sacked > 0 || self.lost > 0 || !self.resends.is_empty()
    }

    /// Whether a lost segment has no retransmission in flight.
    #[inline]
    pub(super) fn has_lost(&self) -> bool {
        self.lost > self.resent
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Records the first transmission of a segment.
    #[inline]
    pub(super) fn push(&mut self, len: u32, now: Nanos, snapshot: Snapshot) {
        self.orders += 1;
        let order = self.orders;
        let segment = Segment {
            seq: self.next,
            sent: now,
            order,
            snapshot,
            len,
            times: 1,
            sacked: false,
            lost: false,
            resent: false,
        };
        self.ring.push_back(segment);
        self.next += u64::from(len);
    }

    /// Records that everything below `ack` has arrived.
    #[inline]
    pub(super) fn acknowledge(&mut self, ack: u64, report: &mut Report) {
        while let Some(&segment) = self.ring.front() {
            if segment.end() > ack {
                // Receivers acknowledge whole segments.
                break;
            }
            self.ring.pop_front();
            self.first += 1;
            self.una = segment.end();
            if segment.sacked {
                self.sacked -= u64::from(segment.len);
                continue;
            }
            self.uncount(&segment);
            report.add(&segment, self.highest);
            self.highest = self.highest.max(segment.end());
        }
    }

    /// Removes the segment, which has arrived, from the sums of lost and resent bytes.
    #[inline]
    fn uncount(&mut self, segment: &Segment) {
        if segment.lost {
            self.lost -= u64::from(segment.len);
            if segment.resent {
                self.resent -= u64::from(segment.len);
            }
        }
    }

    /// Records that the last acknowledgement reported no ranges.
    #[inline]
    pub(super) fn forget_ranges(&mut self) {
        self.known_len = 0;
    }

    /// Records that these ranges above the left edge have arrived.
    pub(super) fn sack(&mut self, ranges: &[Range], report: &mut Report) {
        let (known, known_len) = (self.known, self.known_len);
        self.known_len = 0;
        let mut sorted = [(0, 0); 4];
        let sorted = &mut sorted[..ranges.len().min(4)];
        sorted.copy_from_slice(&ranges[..sorted.len()]);
        sorted.sort_unstable();
        // The ranges of one acknowledgement come in any order, so reordering is judged by the state
        // before it.
        let highest = self.highest;
        for &mut (start, end) in sorted {
            let (start, end) = (start.max(self.una), end.min(self.next));
            if start >= end {
                continue;
            }
            self.known[self.known_len] = (start, end);
            self.known_len += 1;
            self.sack_new(start, end, &known[..known_len], highest, report);
        }
    }

    /// Records the part of a range that is not in `known`.
    fn sack_new(
        &mut self,
        start: u64,
        end: u64,
        known: &[Range],
        highest: u64,
        report: &mut Report,
    ) {
        if start >= end {
            return;
        }
        match known.split_first() {
            None => self.sack_range(start, end, highest, report),
            Some((&(s, e), rest)) => {
                if e <= start || end <= s {
                    self.sack_new(start, end, rest, highest, report);
                } else {
                    self.sack_new(start, s, rest, highest, report);
                    self.sack_new(e, end, rest, highest, report);
                }
            }
        }
    }

    fn sack_range(&mut self, start: u64, end: u64, highest: u64, report: &mut Report) {
        let hint = self.at(self.hint);
        let grows = self.ring.get(hint).is_some_and(|segment| segment.seq == start);
        let mut position =
            if grows { hint } else { self.ring.partition_point(|segment| segment.seq < start) };
        while let Some(segment) = self.ring.get_mut(position).filter(|segment| segment.end() <= end)
        {
            position += 1;
            if segment.sacked {
                continue;
            }
            segment.sacked = true;
            let segment = *segment;
            self.uncount(&segment);
            self.sacked += u64::from(segment.len);
            self.highest = self.highest.max(segment.end());
            report.add(&segment, highest);
        }
        self.hint = self.first + position as u64;
    }

    /// Position in the ring of the segment with index `number`; 0 if the segment is acknowledged.
    #[inline]
    fn at(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }

    /// Marks as lost each segment that was transmitted before transmission `newest` and at least
    /// `patience` ago. Returns the bytes found lost and the time at which the next segment can
    /// become lost.
    pub(super) fn find_lost(&mut self, now: Nanos, newest: u64, patience: Nanos) -> (u64, Nanos) {
        let (first, next) = self.find_lost_once(now, newest, patience);
        let (again, later) = self.find_lost_again(now, newest, patience);
        (first + again, next.min(later))
    }

    /// Finds losses among segments that were sent once, in sequence order.
    fn find_lost_once(&mut self, now: Nanos, newest: u64, patience: Nanos) -> (u64, Nanos) {
        let mut found = 0;
        let mut position = self.at(self.scanned);
        while let Some(segment) = self.ring.get_mut(position) {
            if !segment.sacked && !segment.lost && segment.times == 1 {
                if segment.order > newest {
                    break;
                }
                let due = segment.sent.saturating_add(patience);
                if due > now {
                    return (found, due);
                }
                segment.lost = true;
                found += u64::from(segment.len);
                self.lost += u64::from(segment.len);
                self.repaired = self.repaired.min(self.first + position as u64);
            }
            position += 1;
            self.scanned = self.first + position as u64;
        }
        (found, Nanos::MAX)
    }

    /// Finds losses among retransmissions, in order of transmission.
    fn find_lost_again(&mut self, now: Nanos, newest: u64, patience: Nanos) -> (u64, Nanos) {
        let mut found = 0;
        while let Some(&(number, order)) = self.resends.front() {
            let position = self.at(number);
            let segment = self
                .ring
                .get_mut(position)
                .filter(|segment| segment.order == order && !segment.sacked);
            // `None`: the segment has arrived or was sent once more.
            if let Some(segment) = segment {
                if order > newest {
                    break;
                }
                let due = segment.sent.saturating_add(patience);
                if due > now {
                    return (found, due);
                }
                let len = u64::from(segment.len);
                if !segment.lost {
                    segment.lost = true;
                    self.lost += len;
                    found += len;
                } else if segment.resent {
                    segment.resent = false;
                    self.resent -= len;
                    found += len;
                }
                self.repaired = self.repaired.min(number);
            }
            self.resends.pop_front();
        }
        (found, Nanos::MAX)
    }

    /// Marks as lost all data that has not arrived. Returns the bytes that were in flight.
    pub(super) fn lose_all(&mut self) -> u64 {
        let before = self.in_flight();
        for segment in self.ring.iter_mut().filter(|segment| !segment.sacked) {
            if !segment.lost {
                segment.lost = true;
                self.lost += u64::from(segment.len);
            }
            segment.resent = false;
        }
        self.resent = 0;
        self.resends.clear();
        self.scanned = self.first + self.ring.len() as u64;
        self.repaired = self.first;
        before
    }

    /// Marks as in flight the lost segments without a retransmission in flight.
    pub(super) fn lose_none(&mut self) {
        for (number, segment) in (self.first..).zip(&mut self.ring) {
            if !segment.lost || segment.resent || segment.sacked {
                continue;
            }
            segment.lost = false;
            self.lost -= u64::from(segment.len);
            if segment.times > 1 {
                self.resends.push_back((number, segment.order));
            }
        }
        self.scanned = self.first;
    }

    /// Records a retransmission of the first lost segment without a retransmission in flight.
    pub(super) fn resend_lost(&mut self, now: Nanos, snapshot: Snapshot) -> Option<Segment> {
        let mut position = self.at(self.repaired);
        loop {
            let segment = self.ring.get_mut(position)?;
            let number = self.first + position as u64;
            self.repaired = number + 1;
            if segment.lost && !segment.resent && !segment.sacked {
                segment.resent = true;
                segment.times = segment.times.saturating_add(1);
                self.orders += 1;
                (segment.sent, segment.order, segment.snapshot) = (now, self.orders, snapshot);
                self.resent += u64::from(segment.len);
                self.resends.push_back((number, self.orders));
                return Some(*segment);
            }
            position += 1;
        }
    }

    /// The first segment to retransmit.
    pub(super) fn first_lost(&mut self) -> Option<&Segment> {
        let mut position = self.at(self.repaired);
        while self
            .ring
            .get(position)
            .is_some_and(|segment| !segment.lost || segment.resent || segment.sacked)
        {
            position += 1;
        }
        self.repaired = self.first + position as u64;
        self.ring.get(position)
    }

    /// Records a retransmission of the last segment as a probe. The segment does not count as lost.
    pub(super) fn resend_last(&mut self, now: Nanos, snapshot: Snapshot) -> Option<Segment> {
        let segment = self.ring.back_mut().filter(|segment| !segment.sacked)?;
        segment.times = segment.times.saturating_add(1);
        self.orders += 1;
        (segment.sent, segment.order, segment.snapshot) = (now, self.orders, snapshot);
        let segment = *segment;
        self.resends.push_back((self.first + self.ring.len() as u64 - 1, self.orders));
        Some(segment)
    }

    /// Recomputes the sums from the segments and compares them with the stored ones.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let sum = |what: fn(&Segment) -> bool| -> u64 {
            self.ring.iter().filter(|s| what(s)).map(|s| u64::from(s.len)).sum()
        };
        assert_eq!(self.sacked, sum(|s| s.sacked));
        assert_eq!(self.lost, sum(|s| s.lost && !s.sacked));
        assert_eq!(self.resent, sum(|s| s.lost && s.resent && !s.sacked));
        assert_eq!(self.in_flight(), sum(|s| !s.sacked && (!s.lost || s.resent)));
        assert_eq!(self.next - self.una, sum(|_| true));
        assert!(
            (self.first..)
                .zip(&self.ring)
                .all(|(number, s)| !s.lost || s.resent || s.sacked || number >= self.repaired)
        );
        let in_order =
            self.ring.iter().zip(self.ring.iter().skip(1)).all(|(a, b)| a.end() == b.seq);
        assert!(in_order && self.ring.front().is_none_or(|s| s.seq == self.una));
    }
}
