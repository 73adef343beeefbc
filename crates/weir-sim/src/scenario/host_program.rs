//! Programs and containers on hosts, as a checked scenario describes them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_core::Nanos;

/// The program of a host, and the environment in which it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// The file system in which the program runs.
    pub root: Root,
    /// The program; `None` for the program of an image.
    pub command: Option<Words>,
    /// Variables that are added to the program's environment.
    pub env: BTreeMap<String, String>,
    /// Directories and files of the machine that appear in the program's file system.
    pub volumes: Vec<Volume>,
    /// The hosts for which the program waits before it starts.
    pub after: Vec<After>,
    /// Whether the program has a defined end: the run is over when all such programs have ended.
    pub ends: bool,
    /// The check that determines whether the host is up; without a check, it is up when its program
    /// has started.
    pub health: Option<Health>,
}

/// The file system of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The file system of the machine.
    Machine,
    /// A directory, as it is written in the file.
    Directory {
        /// The directory.
        path: String,
        /// Whether writes fail; otherwise they go to memory.
        read_only: bool,
    },
    /// A container of an image.
    Image {
        /// The name of the image.
        name: String,
        /// The engine; `None` for the installed one.
        engine: Option<EngineName>,
        /// Whether writes fail.
        read_only: bool,
    },
}

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl EngineName {
    /// The engine's command, which is also its name in files.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// The program and its arguments; at least one word.
    List(Vec<String>),
    /// A text for the shell.
    Shell(String),
}

impl Words {
    /// The words to execute: those of the list, or a shell with the text.
    #[must_use]
    pub fn to_execute(&self) -> Vec<String> {
        match self {
            Self::List(words) => words.clone(),
            Self::Shell(text) => vec!["/bin/sh".into(), "-c".into(), text.clone()],
        }
    }
}

/// A directory or file of the machine that appears in the file system of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The path on the machine, as it is written in the file.
    pub host: String,
    /// The absolute path inside.
    pub inside: String,
    /// Whether the program cannot write to it.
    pub read_only: bool,
}

/// A host for which another host waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The index of the node.
    pub node: usize,
    /// Whether the program of this host must have ended with exit code 0; otherwise the host must
    /// be up.
    pub ended: bool,
}

/// The check that determines whether a host is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The command that performs the check. Exit code 0 means success.
    pub command: Words,
    /// Time from the end of a check to the next one.
    pub interval: Nanos,
    /// The longest time that a check may take.
    pub timeout: Nanos,
    /// Number of failed checks after which the host counts as failed.
    pub retries: u32,
}
