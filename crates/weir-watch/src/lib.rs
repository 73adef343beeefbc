//! Watches queues. One thread for each source reads the queues of the kernel or of Weir; a further
//! thread records the readings in files and in statistics. A [`Watch`] runs all of these threads.

mod daemon;
mod files;
mod packets;
mod reader;
mod record;
mod session;

pub use reader::Progress;
pub use record::Record;
pub use session::{Source, Sources, Watch, Watched};

/// Why queues cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A source cannot be opened or read.
    #[error(transparent)]
    Source(#[from] weir_probe::ProbeError),
    /// A file of readings cannot be created.
    #[error(transparent)]
    File(#[from] weir_report::watch::RecordError),
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A thread panicked.
    #[error("the {0} thread panicked; please report this as a bug")]
    Panicked(&'static str),
}
