//! The scheduling priority of a worker's thread.
//!
//! A worker with a rate or a delay has due times to keep, and runs with real-time priority where
//! that is permitted. A worker that only forwards frames has no due times to keep. With priority it
//! would run on the processor where it is woken and displace the programs that it serves, and a
//! round trip would take at least 60 us longer. However, when frames arrive faster than such a
//! worker handles them, the worker must not lose its processor to the programs that send them. It
//! then runs with priority, too.

use weir_core::Nanos;

use super::config::Realtime;
use crate::sys::thread::{self, Policy};

/// The priority that is permitted, and the priority that is in force.
#[derive(Debug)]
pub(super) struct Priority {
    wanted: Realtime,
    /// The thread's ordinary policy; `None` if real-time priority is not permitted.
    usual: Option<Policy>,
    is_realtime: bool,
    /// Whether some pipe may have a rate or a delay.
    keeps_time: bool,
    /// When frames were first waiting after the last sleep of at least [`PAUSE`].
    busy_since: Option<Nanos>,
}

impl Priority {
    pub(super) fn new(wanted: Realtime) -> Self {
        Self { wanted, usual: None, is_realtime: false, keeps_time: false, busy_since: None }
    }

    pub(super) fn is_realtime(&self) -> bool {
        self.is_realtime
    }

    /// Records that some pipe may have a rate or a delay. The thread gets real-time priority when
    /// the loop starts. In a running loop, it gets the priority at the next overload and keeps it.
    pub(super) fn keep_time(&mut self) {
        self.keeps_time = true;
    }

    /// Prepares the calling thread as the worker's thread, as far as that is permitted. Returns
    /// whether the worker may also ask for awake processors: `false` with [`Realtime::Off`].
    pub(super) fn prepare_thread(&mut self, cpu: Option<usize>) -> bool {
        // Without exact timers packets are somewhat later, and the results show by how much.
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

    /// Returns to the ordinary policy.
    pub(super) fn give_up(&mut self) {
        self.set(false);
    }

    /// Records whether frames were waiting at `now`.
    pub(super) fn note_load(&mut self, now: Nanos, busy: bool) {
        if !busy {
            return;
        }
        let since = *self.busy_since.get_or_insert(now);
        if now.since(since) >= OVERLOADED {
            self.set(true);
        }
    }

    /// Records a sleep of the length `slept`. A sleep of at least [`PAUSE`] interrupts the load. A
    /// sleep of at least [`UNLOADED`] ends it.
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

/// The lowest real-time priority: above every ordinary thread, but above no other real-time thread.
const LEAST: i32 = 1;
/// A loop in which frames have waited without a pause for this long is overloaded.
const OVERLOADED: Nanos = Nanos::from_micros(300);
/// A sleep of at least this length counts as a pause; falling asleep and waking take less.
const PAUSE: Nanos = Nanos::from_micros(10);
/// After a sleep of this length the load is over.
const UNLOADED: Nanos = Nanos::from_millis(1);
