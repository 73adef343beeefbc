//! Targets of a watch: devices by name or pattern, each in a network namespace.

use std::fmt;
#[cfg(target_os = "linux")]
use std::io;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(target_os = "linux")]
use weir_linux::netns::NetNs;

#[cfg(target_os = "linux")]
use crate::error::{ProbeError, list};

/// A network namespace in the user's notation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// The caller's namespace.
    #[default]
    Own,
    /// A namespace of `ip netns`: the file of that name in `/run/netns`.
    Name(String),
    /// The namespace of a process.
    Process(u32),
}

#[cfg(target_os = "linux")]
impl Namespace {
    /// Opens the namespace, which exists at least as long as the returned value.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if the namespace does not exist or may not be accessed.
    pub fn open(&self) -> Result<NetNs, ProbeError> {
        let path = match self {
            Namespace::Own => PathBuf::from("/proc/thread-self/ns/net"),
            Namespace::Name(name) => {
                if name.is_empty() || name.contains('/') || name.starts_with('.') {
                    return Err(self.refused(io::ErrorKind::InvalidInput.into()));
                }
                PathBuf::from("/run/netns").join(name)
            }
            Namespace::Process(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        };
        let file = std::fs::File::open(path).map_err(|source| self.refused(source))?;
        Ok(NetNs::of(file.into()))
    }

    /// The error for a namespace that could not be opened because of `source`, with a hint.
    pub(crate) fn refused(&self, source: io::Error) -> ProbeError {
        let hint = match (self, source.kind()) {
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
        ProbeError::Namespace { namespace: self.to_string(), source, hint }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Namespace::Own => write!(f, "this namespace"),
            Namespace::Name(name) => write!(f, "namespace {name}"),
            Namespace::Process(pid) => write!(f, "the namespace of process {pid}"),
        }
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

/// The devices of one namespace with matching names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of a device, in which `*` matches any characters and `?` matches one.
    pub device: String,
    /// The namespace.
    pub namespace: Namespace,
}

impl Target {
    /// Whether the target is one device, which must exist, and not a pattern, which may match none.
    #[must_use]
    pub fn is_name(&self) -> bool {
        !self.device.contains(['*', '?'])
    }

    /// Whether a device of this name matches.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        fits(self.device.as_bytes(), name.as_bytes())
    }
}

/// Parses `DEVICE`, `DEVICE@NAMESPACE` or `DEVICE@PID`. A number after the `@` is always a process,
/// so a namespace whose name is a number requires `--netns`.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let (device, place) = text.split_once('@').unwrap_or((text, ""));
        if device.is_empty()
            || device.len() > 15
            || device.contains(|c: char| c == '/' || c.is_whitespace())
        {
            return Err(format!(
                "'{device}' is no name of a device: it has 1 to 15 characters without `/` and \
                 spaces; `*` matches any characters, and `?` matches one"
            ));
        }
        let namespace = match (place, place.parse()) {
            ("", _) if !text.contains('@') => Namespace::Own,
            ("", _) => {
                return Err(format!(
                    "'{text}': the part after the @ is a namespace: its name, or a process in it"
                ));
            }
            (_, Ok(pid)) => Namespace::Process(pid),
            (name, Err(_)) => Namespace::Name(name.to_owned()),
        };
        Ok(Target { device: device.to_owned(), namespace })
    }
}

/// Whether a name matches a pattern. Names are short, so backtracking is cheap.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            fits(rest, name) || (!name.is_empty() && fits(pattern, &name[1..]))
        }
        (Some((b'?', rest)), Some((_, name))) => fits(rest, name),
        (Some((letter, rest)), Some((first, name))) => letter == first && fits(rest, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Namespace, Target};

    #[test]
    fn valid_targets_are_parsed_and_others_refused() {
        let read = |text: &str| text.parse::<Target>();
        assert_eq!(read("eth0"), Ok(Target { device: "eth0".into(), namespace: Namespace::Own }));
        assert_eq!(read("veth*@left").expect("a target").namespace, Namespace::Name("left".into()));
        assert_eq!(read("eth0@4711").expect("a target").namespace, Namespace::Process(4711));
        for wrong in ["", "@left", "eth0@", "a name", "a/b", "sixteen-letters-"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        let fits = |pattern: &str, name: &str| {
            Target { device: pattern.into(), namespace: Namespace::Own }.fits(name)
        };
        assert!(
            fits("eth0", "eth0")
                && fits("*", "lo")
                && fits("veth*", "veth")
                && fits("v*0", "veth10")
                && fits("eth?", "eth1")
        );
        assert!(
            !fits("eth0", "eth01")
                && !fits("eth?", "eth")
                && !fits("v*1", "veth10")
                && !fits("", "x")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_error_names_a_missing_namespace() {
        let error = Namespace::Name("no-such-place".into())
            .open()
            .expect_err("the namespace does not exist");
        assert!(error.to_string().contains("no-such-place"), "{error}");
        let error =
            Namespace::Name("../../proc/1/ns/net".into()).open().expect_err("a path is no name");
        assert!(error.to_string().contains("../../proc"), "{error}");
    }
}
