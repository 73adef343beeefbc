//! The numbers that a worker publishes at each round of housekeeping, for the thread that looks for
//! the causes of lateness.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_core::Nanos;

/// The numbers of one worker, described at [`Published`].
#[derive(Debug, Default)]
pub(super) struct Progress {
    rounds: AtomicU64,
    late: AtomicU64,
    spun_ns: AtomicU64,
    longest_ns: AtomicU64,
    realtime: AtomicBool,
    /// The kernel's accounting of the worker's thread.
    schedstat: OnceLock<File>,
}

/// The numbers of one worker at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Rounds of housekeeping.
    pub(super) rounds: u64,
    /// Packets that were more than 1 ms late.
    pub(super) late: u64,
    /// Time spent spinning.
    pub(super) spun: Nanos,
    /// Longest turn since the numbers were last taken.
    pub(super) longest: Nanos,
    /// Whether the worker has real-time priority.
    pub(super) realtime: bool,
}

impl Progress {
    /// Opens the kernel's accounting of the calling thread, which must be the worker's thread.
    pub(super) fn of_this_thread(&self) {
        if let Ok(file) = File::open("/proc/thread-self/schedstat") {
            // A worker that runs a second time keeps the file of its first run.
            let _ = self.schedstat.set(file);
        }
    }

    /// Publishes the numbers of a round.
    pub(super) fn publish(&self, late: u64, spun: Nanos, longest: Nanos, realtime: bool) {
        self.late.store(late, Ordering::Relaxed);
        self.spun_ns.store(spun.0, Ordering::Relaxed);
        self.longest_ns.fetch_max(longest.0, Ordering::Relaxed);
        self.realtime.store(realtime, Ordering::Relaxed);
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// The latest numbers. The measurement of the longest turn begins anew.
    pub(super) fn take(&self) -> Published {
        Published {
            rounds: self.rounds.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            spun: Nanos(self.spun_ns.load(Ordering::Relaxed)),
            longest: Nanos(self.longest_ns.swap(0, Ordering::Relaxed)),
            realtime: self.realtime.load(Ordering::Relaxed),
        }
    }

    /// The kernel's accounting of the worker's thread, if the kernel has one.
    pub(super) fn schedstat(&self) -> Option<&File> {
        self.schedstat.get()
    }
}
