//! Errors of the probe, with a remedy where there is one.

use std::io;

/// Why a watch cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The namespace does not exist, or the user may not enter it.
    #[error("cannot open {namespace}: {source}{hint}")]
    Namespace {
        /// The namespace in the user's notation.
        namespace: String,
        /// The kernel's error.
        source: io::Error,
        /// Alternatives, or the missing privilege.
        hint: String,
    },
    /// The device does not exist.
    #[error("there is no device '{device}' in {namespace}; it has: {}", list(there))]
    Device {
        /// The device in the user's notation.
        device: String,
        /// The namespace that was searched.
        namespace: String,
        /// The existing devices.
        there: Vec<String>,
    },
    /// The kernel refuses to run the BPF programs.
    #[error("the kernel does not let this process run BPF programs ({reason}); {hint}")]
    Rights {
        /// The failed operation.
        reason: String,
        /// The remedy.
        hint: &'static str,
    },
    /// The programs do not fit the kernel, or the kernel lacks a feature that they use.
    #[error(
        "the queue-reading program cannot be loaded: {reason}; `--method netlink` works without it"
    )]
    Load {
        /// The loader's message.
        reason: String,
    },
    /// This build or this machine does not have the method.
    #[error("{0}")]
    Unavailable(String),
    /// The plan is invalid: for example, its rate is out of bounds, or it names no device.
    #[error("{0}")]
    Plan(String),
    /// The system refused another operation.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

#[cfg(target_os = "linux")]
impl ProbeError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> ProbeError {
        let what = what.into();
        move |source| ProbeError::System { what, source }
    }
}

/// The first few names and the number of further names.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
