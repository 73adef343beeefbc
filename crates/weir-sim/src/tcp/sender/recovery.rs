//! Reductions of the window, repairs of losses, and the undoing of both if no loss was real.

use weir_core::Nanos;

use super::super::cc::{Control, Signal};
use super::undo::{Probe, Undo};
use super::{Sender, State};

impl Sender {
    /// Handles reported marks: reduces the window, at most once per round trip.
    pub(super) fn reduce_for_marks(&mut self, now: Nanos, flight: u64) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Reducing;
        self.undo = Undo::default();
        self.begin_reduction(now, flight, Signal::Marks);
    }

    /// Begins to repair losses.
    pub(super) fn repair(&mut self, now: Nanos, flight: u64) {
        match self.state {
            State::Open => {
                self.state = State::Repairing;
                self.undo.begin(self.board.una());
                self.begin_reduction(now, flight, Signal::Loss);
            }
            // The window is already being reduced because of marks.
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

    /// Ends the reduction or repair if its data is acknowledged.
    #[inline]
    pub(super) fn end_reduction(&mut self, now: Nanos) {
        let una = self.board.una();
        let over = match self.state {
            State::Open => return,
            // The segment with CWR, which is the first one sent after the reduction began, must
            // have arrived.
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

    /// Undoes the repair if the segment that moved the left edge was an original: the retransmitted
    /// segment was then not lost. `stamp` is the timestamp of the segment that moved the edge.
    pub(super) fn undo_by_stamp(&mut self, now: Nanos, stamp: Nanos) {
        if matches!(self.state, State::Repairing | State::Lost) && self.undo.is_original(stamp) {
            // A repair with retransmissions in flight is kept, because other losses may be real.
            if self.state == State::Lost || self.board.resent() == 0 {
                self.take_back(now);
            }
        }
    }

    /// Undoes the repair if the receiver reported every retransmitted segment as a duplicate.
    pub(super) fn undo_by_duplicates(&mut self, now: Nanos) {
        if self.state != State::Reducing && self.undo.all_originals_arrived() {
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

    /// Handles the outcome of a tail loss probe, RFC 8985 7.4. If the probe itself repaired the
    /// loss, no other signal reports the loss.
    pub(super) fn account_probe(&mut self, now: Nanos, ack: u64, advanced: bool, duplicate: bool) {
        let Some(Probe { end, is_retransmission }) = self.probe else { return };
        if ack < end {
            return;
        }
        if is_retransmission && !duplicate && ack > end {
            self.probe = None;
            if self.state == State::Open {
                let path = self.path(now);
                self.control.reduce(&path, Signal::Loss);
                self.control.recovered(&path);
                self.undo = Undo::default();
            }
        } else if !is_retransmission || duplicate || !advanced {
            self.probe = None;
        }
    }
}
