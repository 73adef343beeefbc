//! Why a program could not be started.

use std::io;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such command.
    #[error("{command}: there is no such command; check its spelling and PATH")]
    NotFound {
        /// The command's first word.
        command: String,
    },
    /// The file exists but cannot be executed.
    #[error("{command}: cannot be executed ({source}); 'chmod +x' makes a script executable")]
    NotExecutable {
        /// The command's first word.
        command: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel has no memory, or the host's process 1 has ended. The kernel reports both with
    /// the same error.
    #[error("{command}: cannot be started, because its host has ended or no memory is free")]
    Ended {
        /// The command's first word.
        command: String,
    },
    /// The list of words is empty.
    #[error("there is no command to run: give one after '--'")]
    Empty,
    /// This side of the session is the machine's own network, or a bridged interface.
    #[error("programs cannot be started on the {name} side of this session")]
    NoPlace {
        /// Name of the side.
        name: String,
    },
    /// The namespaces of a host cannot be set up.
    #[error("cannot set up the host {name}: {source}")]
    Host {
        /// The host.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The init process, which holds the program's namespaces, failed.
    #[error("cannot set up the namespaces of {command}: {source}")]
    Namespace {
        /// The command's first word.
        command: String,
        /// The reason.
        source: io::Error,
    },
}

impl SpawnError {
    /// The exit code for this error: 127 when the command is missing and 126 when it cannot be
    /// executed, as in a shell; otherwise 125.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            SpawnError::NotFound { .. } => 127,
            SpawnError::NotExecutable { .. } => 126,
            SpawnError::Ended { .. }
            | SpawnError::Empty
            | SpawnError::NoPlace { .. }
            | SpawnError::Host { .. }
            | SpawnError::Namespace { .. } => 125,
        }
    }
}
