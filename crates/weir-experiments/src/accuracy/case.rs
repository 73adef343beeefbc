//! The cases of the experiment, and their results.

use std::io;

/// Why the experiment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AccuracyError {
    /// The process does not have root privileges.
    #[error("emulation-accuracy makes namespaces and sets timers, which needs root: use sudo")]
    NotRoot,
    /// An operation of the measurement failed, such as the set-up of the network.
    #[error("emulation-accuracy: cannot {what}: {source}")]
    Setup {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// No probe arrived.
    #[error("emulation-accuracy: no probe arrived ({0})")]
    Silent(String),
}

/// How the live loop waits for a packet to become due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Whether the loop spins for the last microseconds.
    pub(super) spins: bool,
    /// Whether the loop's thread has real-time priority.
    pub(super) is_realtime: bool,
    /// The timer slack of the loop's thread in ns. Real-time threads have none.
    pub(super) slack_ns: u64,
}

/// The other work of the machine during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Idle,
    /// Two threads for each processor compute without a pause, with ordinary priority.
    Hogs,
    /// Other packets pass the same link.
    Traffic,
}

/// The errors of one run, us: the delay of each probe, less the configured delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errors {
    pub(super) median: f64,
    pub(super) p99: f64,
    /// The largest error.
    pub(super) most: f64,
    /// The 99th percentile of the lateness that the live loop reports.
    pub(super) lateness_p99: f64,
}

/// The runs of one case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) wait: Wait,
    pub(super) load: Load,
    pub(super) runs: Vec<Errors>,
}

pub(super) const LOADS: [Load; 3] = [Load::Idle, Load::Hogs, Load::Traffic];
/// The modes of waiting: the default of the live loop, and modes without parts of the default.
pub(super) const WAITS: [Wait; 6] = [
    SPINS,
    Wait { is_realtime: false, ..SPINS },
    Wait { spins: false, ..SPINS },
    SLEEPS,
    Wait { slack_ns: 50_000, ..SLEEPS },
    COARSE,
];
/// The default of the live loop.
pub(super) const SPINS: Wait = Wait { spins: true, is_realtime: true, slack_ns: 1 };
/// An ordinary thread that sleeps, with an exact timer.
pub(super) const SLEEPS: Wait = Wait { spins: false, is_realtime: false, slack_ns: 1 };
/// Like [`SLEEPS`], but with a timer that is exact only to a millisecond, as kernels had in 2010.
pub(super) const COARSE: Wait = Wait { slack_ns: 1_000_000, ..SLEEPS };
