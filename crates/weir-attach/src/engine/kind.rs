//! The kinds of container engines.

use std::fmt;
use std::path::PathBuf;

use super::api::{Api, usual_socket};
use crate::error::AttachError;

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl Engine {
    /// The engine's socket: the one that the environment names, or the usual one.
    ///
    /// # Errors
    /// The environment names an address that is no Unix socket.
    pub fn socket(self) -> Result<PathBuf, AttachError> {
        Api::of(self).map(Api::into_socket)
    }

    /// The engine's socket where the environment names no other.
    #[must_use]
    pub fn usual_socket(self) -> PathBuf {
        usual_socket(self)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        })
    }
}
