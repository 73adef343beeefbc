//! Why a session could not be built, started, changed or stopped.

use std::time::Duration;

use weir_linux::live::{LiveError, NoAnswer};
use weir_linux::port::OpenError;
use weir_linux::topology::SetupError;
use weir_report::CaptureError;

/// Why the surroundings of a session could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The processor that the loop should run on does not exist.
    #[error("there is no such processor; there are {online}")]
    NoProcessor {
        /// The requested number.
        number: usize,
        /// The processors that are online, as the kernel lists them.
        online: String,
    },
    /// The machine refuses the setup.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Why the links of a session could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port cannot be opened once for each worker.
    #[error(transparent)]
    Share(#[from] OpenError),
    /// The capture file cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The live loop could not start.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The thread of the live loop could not be started.
    #[error("cannot start the link's thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Why a change was refused. Nothing has changed, except perhaps after [`ChangeError::NoAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// No link has the requested name.
    #[error("there is no link {name}; there are {known}")]
    NoSuchLink {
        /// The requested name.
        name: String,
        /// The names of all links, separated by commas.
        known: String,
    },
    /// A link cannot change its handling of offload trains while it runs.
    #[error("link {name} cannot change its handling of offload trains (gso) while it runs")]
    Offloads {
        /// The link.
        name: String,
    },
    /// The session was built without rules.
    #[error("this session has links and no rules")]
    NoRules,
    /// The live loop has ended or did not answer in time. A loop that works again later takes the
    /// change.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// Why a stopped session has no results.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The live loop failed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The thread of the live loop did not end in time. The thread is left behind, and the results
    /// are lost.
    #[error("the loop that forwards packets did not end within {} s; its results are lost, please \
             report this as a bug", .within.as_secs())]
    Stuck {
        /// The time that the thread was given.
        within: Duration,
    },
    /// The thread of the live loop panicked.
    #[error("the link's thread panicked; please report this as a bug")]
    Panicked,
}
