//! Reductions, repairs, and undoing them when no loss was real.

use weir_core::Nanos;

use super::super::cc::{Control, Signal};
use super::undo::{Probe, Undo};
use super::{Sender, State};

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

    /// Losses were found: begins a repair.
    pub(super) fn repair(&mut self, now: Nanos, flight: u64) {
        match self.state {
            State::Open => {
                self.state = State::Repairing;
                self.undo.begin(self.board.una());
                self.begin_reduction(now, flight, Signal::Loss);
            }
            // The window is already being reduced.
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

    /// Checks whether the reduction or repair has ended.
    #[inline]
    pub(super) fn end_reduction(&mut self, now: Nanos) {
        let una = self.board.una();
        let over = match self.state {
            State::Open => return,
            // A segment sent after the reduction must have arrived, with its confirmation.
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

    /// The left edge has moved, with this stamp: the retransmitted segments may not have been lost.
    pub(super) fn undo_by_stamp(&mut self, now: Nanos, stamp: Nanos) {
        if matches!(self.state, State::Repairing | State::Lost) && self.undo.is_original(stamp) {
            // During a repair, other retransmitted segments may still be in flight: losses are then
            // kept.
            if self.state == State::Lost || self.board.resent() == 0 {
                self.take_back(now);
            }
        }
    }

    /// Duplicates were reported: the retransmitted segments may not have been lost.
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

    /// Handles the outcome of a tail loss probe, RFC 8985 7.4: when the probe itself repaired the
    /// loss, there is no other signal of it.
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
