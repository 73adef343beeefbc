//! Why a lab could not be run.

use std::io;

use weir_linux::topology::SpawnError;

use super::engine::EngineError;

/// Why the hosts of a lab could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A container engine is missing, does not answer, or failed to execute a command.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The namespaces of a host cannot be made, or its program cannot be executed.
    #[error("{host}: {source}")]
    Start {
        /// The host.
        host: String,
        /// The reason.
        source: SpawnError,
    },
    /// The log of a host could not be started: the system has no thread or pipe left.
    #[error("cannot keep what {host} prints: {source}")]
    Log {
        /// The host.
        host: String,
        /// The reason.
        source: io::Error,
    },
    /// A container could not be started.
    #[error("{host}: the container did not start: {reason}")]
    Container {
        /// The host.
        host: String,
        /// The engine's message.
        reason: String,
    },
    /// A program ended before its host was up.
    #[error("{host} ended with exit code {code} before it was healthy{}", quoted(.printed))]
    Died {
        /// The host.
        host: String,
        /// The exit code.
        code: u8,
        /// The last lines that the program printed.
        printed: String,
    },
    /// All health checks failed.
    #[error(
        "{host} is not healthy after {checks} checks; the last one {last}{}",
        quoted(.printed)
    )]
    Unhealthy {
        /// The host.
        host: String,
        /// The number of checks.
        checks: u32,
        /// How the last check ended.
        last: String,
        /// The last lines that the check printed.
        printed: String,
    },
    /// A host waits for another host, which has already ended.
    #[error("{host} cannot start: {other} has ended with exit code {code}{}", quoted(.printed))]
    Never {
        /// The host that waits.
        host: String,
        /// The host that has ended.
        other: String,
        /// The exit code of the ended host's program.
        code: u8,
        /// The last lines that this program printed.
        printed: String,
    },
}

impl LabError {
    /// The exit code of the command: 126 or 127 if a program cannot be executed or found, and
    /// otherwise 125.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } => source.exit_code(),
            _ => 125,
        }
    }
}

fn quoted(lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("; it printed\n  {lines}") }
}
