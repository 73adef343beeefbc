//! Why a job cannot be run.

use std::io;
use std::path::PathBuf;

use weir_attach::AttachError;

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// Compose is not installed.
    #[error(
        "neither `docker compose` nor `docker-compose` can be run; install one of them (Debian: \
         apt install docker-compose)"
    )]
    NoTool,
    /// A file cannot be read.
    #[error("--compose {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Compose refuses the file.
    #[error("--compose {}: {tool} refuses it:\n{}", path.display(), reason.trim_end())]
    Refused {
        /// The first file.
        path: PathBuf,
        /// The command of Compose.
        tool: String,
        /// The command's message.
        reason: String,
    },
    /// An option of `compose up` cannot be used for a job.
    #[error(
        "`compose up {option}` cannot be used: the job lasts until `compose up` ends, and is then \
         removed"
    )]
    Option {
        /// The option.
        option: String,
    },
    /// The file describes no service with this name.
    #[error("there is no service {name}; {known}")]
    NoService {
        /// The name.
        name: String,
        /// The services that exist.
        known: String,
    },
    /// The containers cannot be shaped.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A process cannot be started.
    #[error("{what}: {source}")]
    System {
        /// The attempted step.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}
