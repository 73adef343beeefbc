//! The kinds of container engines.

use std::fmt;

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        })
    }
}
