//! Targets of an attachment, as users write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::engine::Engine;
use crate::pattern::Pattern;

/// A target: the container, process, group or user that is put behind the emulated link.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The containers of an engine with matching names.
    Container(Engine, Pattern),
    /// A process, by number. The target is its network namespace, or its control group if it is in
    /// the same network namespace as Weir.
    Process(u32),
    /// A network namespace, by name (of `ip netns`) or path.
    Namespace(String),
    /// A control group of this machine, by path.
    Cgroup(PathBuf),
    /// A systemd unit.
    Unit(String),
    /// A user of this machine, by name or number.
    User(String),
    /// This process's own network namespace.
    Host,
}

impl Target {
    /// Whether the target may return after it has vanished.
    #[must_use]
    pub fn returns(&self) -> bool {
        !matches!(self, Target::Process(_))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let Some((kind, name)) = text.split_once(':') else {
            return Err(format!("'{text}' has no kind: {FORMS}"));
        };
        if name.is_empty() {
            return Err(format!("'{text}' has no name after the colon: {FORMS}"));
        }
        if name.contains(['\n', '\0']) || name.len() > LONGEST {
            return Err(format!("the name of a {kind} has at most {LONGEST} bytes in one line"));
        }
        Ok(match kind {
            "docker" => Target::Container(Engine::Docker, name.parse()?),
            "podman" => Target::Container(Engine::Podman, name.parse()?),
            "pid" => match name.parse() {
                Ok(pid) if pid > 0 => Target::Process(pid),
                _ => return Err(format!("'{name}' is no process number")),
            },
            "netns" => Target::Namespace(name.to_owned()),
            "cgroup" => Target::Cgroup(name.into()),
            "unit" => Target::Unit(if name.contains('.') {
                name.to_owned()
            } else {
                format!("{name}.service")
            }),
            "user" => Target::User(name.to_owned()),
            _ => return Err(format!("'{kind}' is no kind of target: {FORMS}")),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Container(engine, pattern) => write!(f, "{engine}:{pattern}"),
            Target::Process(pid) => write!(f, "pid:{pid}"),
            Target::Namespace(name) => write!(f, "netns:{name}"),
            Target::Cgroup(path) => write!(f, "cgroup:{}", path.display()),
            Target::Unit(name) => write!(f, "unit:{name}"),
            Target::User(name) => write!(f, "user:{name}"),
            Target::Host => write!(f, "host"),
        }
    }
}

const FORMS: &str = "a target is docker:NAME, podman:NAME, pid:N, netns:NAME, cgroup:PATH, \
                     unit:NAME or user:NAME";
/// Maximum length of a name in bytes.
const LONGEST: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_targets_are_parsed_and_printed() {
        for text in [
            "docker:web",
            "docker:re:^web-",
            "podman:db",
            "pid:4711",
            "netns:left",
            "netns:/proc/7/ns/net",
            "cgroup:/system.slice/ssh.service",
            "unit:ssh.service",
            "user:bob",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("unit:ssh".parse::<Target>(), Ok(Target::Unit("ssh.service".into())));
    }

    #[test]
    fn invalid_targets_are_refused_with_the_valid_forms() {
        for text in ["web", "docker:", "pid:web", "pid:0", "pid:-1", "lxc:web", ":", "", "user:a\n"]
        {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        assert!(format!("netns:{}", "n".repeat(5000)).parse::<Target>().is_err());
        assert!("web".parse::<Target>().unwrap_err().contains("docker:NAME"));
    }
}
