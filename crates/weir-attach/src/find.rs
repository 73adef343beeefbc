//! Finds targets: the network namespaces of each target, and the owner of the sockets to select.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use weir_linux::netns::NetNs;

use crate::cgroup::{self, Cgroup};
use crate::engine::{self, Container};
use crate::error::AttachError;
use crate::selection::Owner;
use crate::target::Target;

/// A target that exists.
#[derive(Debug)]
pub struct Site {
    /// A name or a description of the target.
    name: String,
    netns: NetNs,
    /// The owner of the selected sockets; `None` for all packets of the namespace.
    owner: Option<Owner>,
    /// Whether `netns` is the namespace of this process.
    on_host: bool,
    /// The control group of a process or container without a network of its own.
    group: Option<Cgroup>,
    anchor: Anchor,
}

/// Evidence that a site still exists.
#[derive(Debug)]
enum Anchor {
    /// The file of a namespace, in an open directory, and the identity of that namespace. An open
    /// directory in `/proc` stays that of its process, even if another process gets the same
    /// number.
    Namespace { directory: File, name: PathBuf, id: (u64, u64) },
    /// A control group.
    Cgroup(Cgroup),
    /// The site always exists.
    Permanent,
}

impl Site {
    /// A new namespace without traffic.
    pub(crate) fn new_namespace() -> Result<Site, AttachError> {
        Ok(Site {
            name: "a new namespace".to_owned(),
            netns: NetNs::create()
                .map_err(|source| AttachError::of("making a network namespace", source))?,
            owner: None,
            on_host: false,
            group: None,
            anchor: Anchor::Permanent,
        })
    }

    /// The network of a container, as a site with the container's name. Unlike [`Target::find`],
    /// this refuses a container in the machine's network, because otherwise the user who starts the
    /// container would decide about traffic on the machine's own interfaces.
    ///
    /// # Errors
    /// The container is in the machine's network, has ended, or refuses this user access.
    pub fn of_container(container: &Container) -> Result<Site, AttachError> {
        let found = if container.on_host { None } else { Site::in_container(container)? };
        found.ok_or_else(|| AttachError::Shared {
            what: format!("container {}", container.name),
            advice: "it uses the machine's network; `weir attach` shapes it by its control group"
                .into(),
        })
    }

    /// The network of a container; `None` if the container is in the namespace of this process.
    fn in_container(container: &Container) -> Result<Option<Site>, AttachError> {
        let what = format!("container {}", container.name);
        let (netns, anchor, is_own) =
            of_process(container.pid).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    AttachError::Missing { what: format!("{what} any more"), known: String::new() }
                }
                _ => AttachError::of(format!("opening the namespace of {what}"), source),
            })?;
        let name = container.name.clone();
        let site = Site { name, netns, owner: None, on_host: false, group: None, anchor };
        Ok((!is_own).then_some(site))
    }

    /// The network namespace at a path, as a site with this name.
    ///
    /// # Errors
    /// The namespace does not exist, belongs to this process, or refuses this user access.
    pub fn of_namespace(name: &str, path: &Path) -> Result<Site, AttachError> {
        let target = Target::Namespace(path.display().to_string());
        let site = target.find()?.into_iter().next();
        site.map(|site| Site { name: name.to_owned(), ..site }).ok_or_else(|| {
            AttachError::Missing {
                what: format!("network namespace of {name}"),
                known: String::new(),
            }
        })
    }

    /// The network namespace of a process in a container; `None` if the process has ended, or is in
    /// the namespace of this process.
    pub(crate) fn of_started(name: &str, pid: u32) -> Result<Option<Site>, AttachError> {
        match of_process(pid) {
            Ok((netns, anchor, false)) => {
                let name = name.to_owned();
                Ok(Some(Site { name, netns, owner: None, on_host: false, group: None, anchor }))
            }
            Ok((_, _, true)) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => {
                Err(AttachError::of(format!("opening the namespace of container {name}"), source))
            }
        }
    }

    /// The site's name in results: the name of the container or pod, or the target as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the control group on which the site's existence depends: for the targets
    /// `cgroup:` and `unit:`, and for a container in the machine's network. `None` for other sites,
    /// also for a process.
    #[must_use]
    pub fn control_group(&self) -> Option<&Path> {
        match &self.anchor {
            Anchor::Cgroup(group) => Some(&group.directory),
            _ => None,
        }
    }

    /// The network namespace.
    #[must_use]
    pub fn netns(&self) -> &NetNs {
        &self.netns
    }

    /// The owner of the sockets to select; `None` for all packets of the namespace.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Whether the namespace is that of this process.
    #[must_use]
    pub fn is_on_host(&self) -> bool {
        self.on_host
    }

    /// The control group that selects the packets of a process or a container without a network of
    /// its own, and the number of processes in the group. The packets of all these processes are
    /// shaped. `None` for every other site.
    #[must_use]
    pub fn group(&self) -> Option<(&Path, usize)> {
        self.group.as_ref().map(|group| (&*group.directory, group.processes()))
    }

    /// Whether the site still exists, in the same namespace.
    #[must_use]
    pub fn exists(&self) -> bool {
        match &self.anchor {
            Anchor::Namespace { directory, name, id } => {
                open_in(directory, name).and_then(|file| id_of(&file)).is_ok_and(|now| now == *id)
            }
            Anchor::Cgroup(group) => {
                cgroup::at(&group.directory).is_ok_and(|now| now.owner == group.owner)
            }
            Anchor::Permanent => true,
        }
    }
}

impl Target {
    /// Finds the target. A pattern may have several sites.
    ///
    /// # Errors
    /// The target does not exist, has no network of its own and cannot be selected by a control
    /// group, or refuses this user access.
    pub fn find(&self) -> Result<Vec<Site>, AttachError> {
        let one = match self {
            Target::Container(kind, pattern) => {
                let containers = engine::running(*kind, pattern)?;
                return containers.iter().map(|container| self.contained(container)).collect();
            }
            Target::Process(pid) => self.process(*pid)?,
            Target::Namespace(name) => self.namespace(name)?,
            Target::Cgroup(path) => self.in_group(cgroup::at(path)?)?,
            Target::Unit(name) => self.in_group(cgroup::of_unit(name)?)?,
            Target::User(name) => {
                let owner = Owner::User(user(name)?);
                Site { owner: Some(owner), ..self.on_host()? }
            }
            Target::Host => self.on_host()?,
        };
        Ok(vec![one])
    }

    fn contained(&self, container: &Container) -> Result<Site, AttachError> {
        if let Some(site) = Site::in_container(container)? {
            return Ok(site);
        }
        let group = cgroup::of_container(container.pid)?.ok_or_else(|| AttachError::Shared {
            what: format!("container {}", container.name),
            advice:
                "it uses the machine's network, and has no control group of version 2 either; use \
                 `weir host` with --port or --to"
                    .into(),
        })?;
        Ok(Site { name: container.name.clone(), ..self.by_group(group)? })
    }

    fn process(&self, pid: u32) -> Result<Site, AttachError> {
        let (netns, anchor, is_own) = of_process(pid).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AttachError::Missing {
                what: format!("process {pid}"),
                known: "; `ps` lists them".into(),
            },
            _ => AttachError::of(format!("opening the namespace of process {pid}"), source),
        })?;
        if !is_own {
            let name = self.to_string();
            return Ok(Site { name, netns, owner: None, on_host: false, group: None, anchor });
        }
        let group = cgroup::of_process(pid)?.ok_or_else(|| AttachError::Shared {
            what: format!("process {pid}"),
            advice: "it shares the machine's network with all programs, and has no control group \
                     either; use `weir host` with --port or --to, or user:NAME"
                .into(),
        })?;
        // The site ends with the process, even if other processes of the group go on.
        Ok(Site { anchor, ..self.by_group(group)? })
    }

    fn namespace(&self, name: &str) -> Result<Site, AttachError> {
        let path = if name.contains('/') { name.into() } else { Path::new(NAMED).join(name) };
        let missing = |_| AttachError::Missing {
            what: format!("network namespace {name}"),
            known: known_namespaces(),
        };
        let opened = File::open(path.parent().unwrap_or(Path::new("/")))
            .and_then(|directory| {
                let last = PathBuf::from(path.file_name().ok_or(io::ErrorKind::NotFound)?);
                let file = open_in(&directory, &last)?;
                // While `ip netns` deletes a namespace, its name is that of an empty file.
                if rustix::fs::fstatfs(&file)?.f_type != NSFS_MAGIC {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let id = id_of(&file)?;
                Ok((file, Anchor::Namespace { directory, name: last, id }, id))
            })
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => missing(()),
                _ => AttachError::of(format!("opening the namespace {name}"), source),
            });
        let (file, anchor, id) = opened?;
        if id == own_id()? {
            return Err(AttachError::Shared {
                what: format!("namespace {name}"),
                advice: "it is the namespace of this process; use `weir host`".into(),
            });
        }
        let netns = NetNs::of(file.into());
        let name = self.to_string();
        Ok(Site { name, netns, owner: None, on_host: false, group: None, anchor })
    }

    /// The site of a process or container in the machine's network, selected by its control group.
    fn by_group(&self, group: Cgroup) -> Result<Site, AttachError> {
        Ok(Site { group: Some(group.clone()), ..self.in_group(group)? })
    }

    fn in_group(&self, group: Cgroup) -> Result<Site, AttachError> {
        let owner = Some(group.owner);
        Ok(Site { owner, anchor: Anchor::Cgroup(group), ..self.on_host()? })
    }

    fn on_host(&self) -> Result<Site, AttachError> {
        Ok(Site {
            name: self.to_string(),
            netns: NetNs::current()?,
            owner: None,
            on_host: true,
            group: None,
            anchor: Anchor::Permanent,
        })
    }
}

/// The namespace of a process, its anchor, and whether this process is in the same namespace.
fn of_process(pid: u32) -> io::Result<(NetNs, Anchor, bool)> {
    let directory = File::open(format!("/proc/{pid}"))?;
    let name = PathBuf::from("ns/net");
    let file = open_in(&directory, &name)?;
    let id = id_of(&file)?;
    let is_own = id == own_id()?;
    Ok((NetNs::of(file.into()), Anchor::Namespace { directory, name, id }, is_own))
}

fn open_in(directory: &File, name: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        // The process has ended.
        Err(rustix::io::Errno::SRCH) => Err(io::ErrorKind::NotFound.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// The device and inode numbers of a namespace's file, which identify the namespace.
fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

fn own_id() -> io::Result<(u64, u64)> {
    id_of(&File::open("/proc/self/ns/net")?)
}

fn user(name: &str) -> Result<u32, AttachError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = User::from_name(name).ok().flatten();
    found.map(|user| user.uid.as_raw()).ok_or_else(|| AttachError::Missing {
        what: format!("user {name}"),
        known: "; `getent passwd` lists them".into(),
    })
}

fn known_namespaces() -> String {
    let entries = std::fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).take(MOST_NAMES).collect();
    names.sort();
    match names.len() {
        0 => "; `ip netns` lists none".into(),
        _ => format!("; `ip netns` lists {}", names.join(", ")),
    }
}

/// The directory of named namespaces.
const NAMED: &str = "/run/netns";
/// The type of the file system of namespaces (`include/uapi/linux/magic.h` of Linux).
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
/// Maximum number of names in an error.
const MOST_NAMES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_targets_are_named_with_a_remedy() {
        for (text, words) in [
            ("pid:4194304", "process 4194304"),
            ("netns:no-such-place", "ip netns"),
            ("netns:../../proc/no-such/ns/net", "no-such"),
            ("netns:/proc/version", "there is no network namespace /proc/version"),
            ("user:no-such-user", "getent"),
        ] {
            let error = text.parse::<Target>().unwrap().find().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_namespace_of_this_process_is_refused() {
        let error = "netns:/proc/self/ns/net".parse::<Target>().unwrap().find().unwrap_err();
        assert!(error.to_string().contains("weir host"), "{error}");
    }
}
