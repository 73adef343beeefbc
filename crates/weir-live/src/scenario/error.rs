//! Why a scenario could not be run live.

use std::io;
use std::time::Duration;

use weir_linux::live::NoAnswer;
use weir_linux::topology::SpawnError;
use weir_rules::Diagnostics;
use weir_sim::topology::PathError;

use crate::lab::{EngineError, LabError};
use crate::session::{BuildError, StartError, StopError};

/// Why a live run did not take place or has no results.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// There is no path between the ends of a flow.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A lab has too many hosts.
    #[error("{count} hosts are too many for a lab: allowed are up to {most}")]
    Hosts {
        /// The number of hosts.
        count: usize,
        /// Maximum number of hosts.
        most: usize,
    },
    /// The programs or containers of a lab could not be started.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The links of the scenario cannot be built.
    #[error(transparent)]
    Scenario(#[from] weir_sim::build::BuildError),
    /// The rules for the packets' paths are not valid.
    #[error("the scenario's routes are no rules; please report this as a bug: {0}")]
    Rules(Diagnostics),
    /// The hosts could not be set up.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The session could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The live loop failed.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The generator of a host could not be started.
    #[error("cannot start the traffic of {host}: {source}")]
    Generator {
        /// The host.
        host: String,
        /// The reason.
        source: io::Error,
    },
    /// The generator of a host could not be started in its namespace.
    #[error(transparent)]
    GeneratorSpawn(SpawnError),
    /// The generator of a host failed.
    #[error("the traffic of {host} failed: {source}")]
    Traffic {
        /// The host.
        host: String,
        /// The reason.
        source: TrafficError,
    },
    /// The generator of a host ended before the start.
    #[error("the traffic of {host} has ended: {source}")]
    TrafficEnded {
        /// The host.
        host: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The output of a program cannot be stored.
    #[error("cannot keep what {command} prints: {source}")]
    Output {
        /// The program.
        command: String,
        /// The reason.
        source: io::Error,
    },
    /// A program could not be started.
    #[error(transparent)]
    Program(SpawnError),
    /// The links or a generator ended before the end of the run.
    #[error("{0} before the end of the run")]
    Early(#[from] Gone),
    /// The live loop did not answer.
    #[error("{0}; the run was given up")]
    Stuck(#[source] NoAnswer),
    /// Waiting failed.
    #[error("cannot wait: {0}")]
    Wait(#[source] io::Error),
}

/// Why a generator sent no valid message.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The message cannot be read.
    #[error(transparent)]
    Message(#[from] serde_json::Error),
    /// The process has ended; it has written the reason to standard error.
    #[error("its process has ended")]
    Ended,
    /// No message arrived in this time.
    #[error("it has sent no message for {} seconds", .0.as_secs())]
    Silent(Duration),
}

/// The part of the run that ended too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The live loop.
    #[error("the links have ended")]
    Links,
    /// A generator.
    #[error("the traffic of a host has ended")]
    Traffic,
}

impl From<EngineError> for ScenarioError {
    fn from(error: EngineError) -> Self {
        Self::Lab(error.into())
    }
}

impl From<NoAnswer> for ScenarioError {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Ended => Self::Early(Gone::Links),
            NoAnswer::Late => Self::Stuck(error),
        }
    }
}
