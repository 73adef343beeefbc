//! The scheduling priority of a worker's thread.
//!
//! A link with a rate or a delay keeps time and runs with real-time priority, where that is
//! allowed. A link that only forwards frames has no time to keep. With priority it would run on the
//! processor where it is woken and displace the very programs that it serves, and a round trip
//! would take 60 us longer and more. But when frames arrive faster than it handles them, it must
//! not lose its processor to the programs that send them.

use weir_core::Nanos;

use super::config::Realtime;
use crate::sys::thread::{self, Policy};

/// The priority that the thread may have, and the one that it has.
#[derive(Debug)]
pub(super) struct Priority {
    wanted: Realtime,
    /// The thread's ordinary policy, where it may have real-time priority.
    usual: Option<Policy>,
    is_realtime: bool,
    /// Some pipe has a rate or a delay.
    keeps_time: bool,
    /// Since when a frame has always been waiting, if one has.
    busy_since: Option<Nanos>,
}

impl Priority {
    pub(super) fn new(wanted: Realtime) -> Self {
        Self { wanted, usual: None, is_realtime: false, keeps_time: false, busy_since: None }
    }

    /// Whether the thread has real-time priority.
    pub(super) fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// Takes note that some pipe has a rate or a delay. It has an effect when the loop starts, and
    /// when a load ends.
    pub(super) fn keep_time(&mut self) {
        self.keeps_time = true;
    }

    /// Prepares the calling thread, which becomes the worker's, as far as that is allowed. Returns
    /// whether it may make requests that cost other programs.
    pub(super) fn prepare_thread(&mut self, cpu: Option<usize>) -> bool {
        // Without these packets leave somewhat later, and the result says how late.
        let _ = thread::exact_timers();
        if let Some(cpu) = cpu {
            let _ = thread::pin(cpu);
        }
        if self.wanted == Realtime::Off {
            return false;
        }
        self.usual = Policy::current().ok().filter(|_| Policy::realtime(LEAST).apply().is_ok());
        self.is_realtime = self.usual.is_some();
        self.set(self.keeps_time);
        true
    }

    /// Gives real-time priority up.
    pub(super) fn give_up(&mut self) {
        self.set(false);
    }

    /// Takes note at `now` of whether there were frames.
    pub(super) fn note_load(&mut self, now: Nanos, busy: bool) {
        if !busy {
            return;
        }
        let since = *self.busy_since.get_or_insert(now);
        if now.since(since) >= OVERLOADED {
            self.set(true);
        }
    }

    /// Takes note of a sleep: a short one is a pause, a long one the end of the load.
    pub(super) fn note_sleep(&mut self, slept: Nanos) {
        if slept >= PAUSE {
            self.busy_since = None;
        }
        if slept >= UNLOADED && !self.keeps_time {
            self.set(false);
        }
    }

    fn set(&mut self, on: bool) {
        let Some(usual) = self.usual.filter(|_| on != self.is_realtime) else { return };
        let policy = if on { Policy::realtime(LEAST) } else { usual };
        if policy.apply().is_ok() {
            self.is_realtime = on;
        }
    }
}

/// The least real-time priority: above every ordinary thread, below every other real-time one.
const LEAST: i32 = 1;
/// A loop in which frames have been waiting for this long without a pause does not keep up.
const OVERLOADED: Nanos = Nanos::from_micros(300);
/// A sleep as long as this is one: falling asleep and waking take less.
const PAUSE: Nanos = Nanos::from_micros(10);
/// After a sleep of this length the load is over.
const UNLOADED: Nanos = Nanos::from_millis(1);
