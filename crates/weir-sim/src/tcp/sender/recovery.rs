//! Reductions, repairs, and what is undone when no loss was true.

use weir_core::Nanos;

use super::super::cc::{Control, Signal};
use super::{Sender, State};

/// A tail loss probe that is not accounted for yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// What was sent when it was.
    pub(super) end: u64,
    /// It was a segment sent again.
    pub(super) again: bool,
}

/// What it takes to find out that a reduction was for nothing.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// There is something to undo: the left edge when it began.
    marker: Option<u64>,
    /// When the first segment was sent again.
    first: Option<Nanos>,
    /// Segments sent again that no duplicate was reported of.
    pending: u32,
}

impl Undo {
    pub(super) fn begin(&mut self, una: u64) {
        *self = Self { marker: Some(una), first: None, pending: 0 };
    }

    #[inline]
    pub(super) fn resent(&mut self, now: Nanos) {
        self.first.get_or_insert(now);
        self.pending += 1;
    }

    /// The receiver had the bytes from `start` on already.
    pub(super) fn duplicate(&mut self, start: u64) {
        if self.marker.is_some_and(|marker| start >= marker) {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// Every segment that was sent again had arrived before.
    fn all_needless(&self) -> bool {
        self.marker.is_some() && self.first.is_some() && self.pending == 0
    }

    /// What moved the left edge was sent before anything was sent again.
    fn is_original(&self, stamp: Nanos) -> bool {
        self.marker.is_some() && self.first.is_some_and(|first| stamp < first)
    }
}

impl Sender {
    /// Marks are reported: the window is reduced, once in a round trip.
    pub(super) fn reduce_for_marks(&mut self, now: Nanos, flight: u64) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Reducing;
        self.undo = Undo::default();
        self.begin_reduction(now, flight, Signal::Marks);
    }

    /// Losses were found: they are repaired.
    pub(super) fn repair(&mut self, now: Nanos, flight: u64) {
        match self.state {
            State::Open => {
                self.state = State::Repairing;
                self.undo.begin(self.board.una());
                self.begin_reduction(now, flight, Signal::Loss);
            }
            // The window is being reduced already.
            State::Reducing => {
                self.state = State::Repairing;
                self.owned = self.control.owns_window(Signal::Loss);
                self.high = self.board.next();
            }
            State::Repairing | State::Lost => {}
        }
        self.probe = None;
        self.deadlines.probe = Nanos::MAX;
    }

    fn begin_reduction(&mut self, now: Nanos, flight: u64, signal: Signal) {
        let path = self.path(now);
        self.control.reduce(&path, signal);
        self.owned = self.control.owns_window(signal);
        self.high = self.board.next();
        self.prr.begin(flight);
        self.marks.confirm = self.marks.feedback.is_some();
    }

    /// Looks whether the reduction or repair is over.
    #[inline]
    pub(super) fn end_reduction(&mut self, now: Nanos) {
        let una = self.board.una();
        let over = match self.state {
            State::Open => return,
            // Something sent after the reduction must have arrived, with its confirmation.
            State::Reducing => una > self.high || una == self.board.next(),
            State::Repairing | State::Lost => una >= self.high,
        };
        if over {
            if self.state != State::Reducing {
                self.rack.recovered();
            }
            self.open(now);
        }
    }

    fn open(&mut self, now: Nanos) {
        self.state = State::Open;
        let path = self.path(now);
        self.control.recovered(&path);
    }

    /// The left edge has moved, with this stamp: perhaps what was sent again had not been lost.
    pub(super) fn undo_by_stamp(&mut self, now: Nanos, stamp: Nanos) {
        if matches!(self.state, State::Repairing | State::Lost) && self.undo.is_original(stamp) {
            // In a repair, others that were sent again may still be on their way: then it is left
            // at keeping what is lost.
            if self.state == State::Lost || self.board.resent() == 0 {
                self.take_back(now);
            }
        }
    }

    /// Duplicates were reported: perhaps all that was sent again had not been lost.
    pub(super) fn undo_by_duplicates(&mut self, now: Nanos) {
        if self.state != State::Reducing && self.undo.all_needless() {
            self.take_back(now);
        }
    }

    fn take_back(&mut self, now: Nanos) {
        self.undo = Undo::default();
        self.board.lose_none();
        let path = self.path(now);
        self.control.undo(&path);
        if self.state != State::Open {
            self.open(now);
        }
    }

    /// Accounts for a tail loss probe, RFC 8985 7.4: when its own arrival repaired the loss, nobody
    /// else would notice it.
    pub(super) fn account_probe(&mut self, now: Nanos, ack: u64, advanced: bool, duplicate: bool) {
        let Some(Probe { end, again }) = self.probe else { return };
        if ack < end {
            return;
        }
        if again && !duplicate && ack > end {
            self.probe = None;
            if self.state == State::Open {
                let path = self.path(now);
                self.control.reduce(&path, Signal::Loss);
                self.control.recovered(&path);
                self.undo = Undo::default();
            }
        } else if !again || duplicate || !advanced {
            self.probe = None;
        }
    }
}
