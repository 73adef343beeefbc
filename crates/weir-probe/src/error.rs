//! What can go wrong when the kernel is asked, each with what to do about it.

use std::io;

/// Why watching cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A namespace that is not there, or that the user may not enter.
    #[error("cannot open {namespace}: {source}{hint}")]
    Namespace {
        /// As it was asked for.
        namespace: String,
        /// What the kernel answered.
        source: io::Error,
        /// What else there is, or what is needed.
        hint: String,
    },
    /// A device that is not there.
    #[error("there is no device '{device}' in {namespace}; it has: {}", list(there))]
    Device {
        /// As it was asked for.
        device: String,
        /// Where it was looked for.
        namespace: String,
        /// The devices there.
        there: Vec<String>,
    },
    /// The kernel refuses to run the programs.
    #[error("the kernel does not let this process run BPF programs ({reason}); {hint}")]
    Rights {
        /// What failed.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// The programs do not fit the kernel, or it lacks something that they use.
    #[error(
        "the queue-reading program cannot be loaded: {reason}; `--method netlink` works without it"
    )]
    Load {
        /// What the loader said.
        reason: String,
    },
    /// A method that this build or this machine does not have.
    #[error("{0}")]
    Unavailable(String),
    /// A rate or number out of bounds.
    #[error("{0}")]
    Plan(String),
    /// The system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

#[cfg(target_os = "linux")]
impl ProbeError {
    pub(crate) fn namespace(namespace: &crate::Namespace, source: io::Error) -> ProbeError {
        use crate::Namespace;

        let hint = match (namespace, source.kind()) {
            (_, io::ErrorKind::PermissionDenied) => {
                "; looking into it takes CAP_SYS_ADMIN: try with sudo".to_owned()
            }
            (Namespace::Name(_), _) => match named_namespaces() {
                names if names.is_empty() => "; `ip netns` lists none".to_owned(),
                names => format!("; `ip netns` lists: {}", list(&names)),
            },
            (Namespace::Process(_), io::ErrorKind::NotFound) => {
                "; there is no such process".to_owned()
            }
            _ => String::new(),
        };
        ProbeError::Namespace { namespace: namespace.to_string(), source, hint }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> ProbeError {
        let what = what.into();
        move |source| ProbeError::System { what, source }
    }
}

#[cfg(target_os = "linux")]
fn named_namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The first few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
