//! Why a scenario could not be run live.

use std::io;
use std::time::Duration;

use weir_linux::topology::SpawnError;
use weir_rules::Diagnostics;
use weir_sim::topology::PathError;

use crate::session::{BuildError, StartError, StopError};

/// Why a live run was not made, or has no results.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// There is no path between the ends of a flow.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The scenario cannot be built.
    #[error(transparent)]
    Scenario(#[from] weir_sim::build::BuildError),
    /// The rules that lead packets along their paths are not accepted.
    #[error("the scenario's routes are no rules; please report this as a bug: {0}")]
    Rules(Diagnostics),
    /// The hosts could not be set up.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The links could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The links failed.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The generator of a host could not be started.
    #[error("cannot start the traffic of {host}: {source}")]
    Generator {
        /// The host.
        host: String,
        /// Why.
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
        /// Why.
        source: TrafficError,
    },
    /// The generator of a host ended before the start.
    #[error("the traffic of {host} has ended: {source}")]
    TrafficEnded {
        /// The host.
        host: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The output of a program cannot be kept.
    #[error("cannot keep what {command} prints: {source}")]
    Output {
        /// The program.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started.
    #[error(transparent)]
    Program(SpawnError),
    /// Something ended before the run did.
    #[error("{0} before the run")]
    Early(#[from] Gone),
    /// Waiting failed.
    #[error("cannot wait: {0}")]
    Wait(#[source] io::Error),
}

/// Why there is no message of a generator.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The message cannot be read.
    #[error(transparent)]
    Message(#[from] serde_json::Error),
    /// The process has ended; its reason is on standard error.
    #[error("its process has ended")]
    Ended,
    /// There was no message.
    #[error("it has said nothing for {} seconds", .0.as_secs())]
    Silent(Duration),
}

/// What ended before the run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The live loop.
    #[error("the links have ended")]
    Links,
    /// A generator.
    #[error("the traffic of a host has ended")]
    Traffic,
}

impl From<weir_linux::live::Gone> for ScenarioError {
    fn from(_: weir_linux::live::Gone) -> Self {
        Self::Early(Gone::Links)
    }
}
