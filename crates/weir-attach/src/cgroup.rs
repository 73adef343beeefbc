//! Control groups of version 2: their paths, IDs and depths.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::error::AttachError;
use crate::selection::Owner;

/// A control group that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    pub(crate) directory: PathBuf,
    /// The owner that selects the sockets created in the group.
    pub(crate) owner: Owner,
}

/// The control group with this path, which may begin with the mount point.
///
/// # Errors
/// There is no such group, or it is the root of all groups.
pub(crate) fn at(path: &Path) -> Result<Cgroup, AttachError> {
    let mount = mount()?;
    let below = path.strip_prefix(&mount.point).or_else(|_| path.strip_prefix("/"));
    let below = below.unwrap_or(path);
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(missing(path));
    }
    let directory = mount.point.join(below);
    let found = fs::metadata(&directory).ok().filter(fs::Metadata::is_dir);
    let metadata = found.ok_or_else(|| missing(path))?;
    let level = mount.depth + below.components().count() as u64;
    if level == 0 {
        return Err(AttachError::Shared {
            what: "the root of all control groups".into(),
            advice: "it contains every program of the machine; use `weir host`".into(),
        });
    }
    let level = sees_all_groups().then_some(level);
    Ok(Cgroup { directory, owner: Owner::Cgroup { id: metadata.ino(), level } })
}

impl Cgroup {
    /// The number of processes in the group and the groups below it, as far as they can be read.
    pub(crate) fn processes(&self) -> usize {
        let mut waiting = vec![self.directory.clone()];
        let (mut count, mut seen) = (0, 0);
        while let Some(directory) = waiting.pop() {
            let listed = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            count += listed.lines().count();
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if seen < MOST_DIRECTORIES && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    seen += 1;
                    waiting.push(entry.path());
                }
            }
        }
        count
    }
}

/// Whether this process is in the initial control group namespace. In any other namespace, the path
/// of a group does not show its depth below the root of all groups.
fn sees_all_groups() -> bool {
    fs::metadata("/proc/self/ns/cgroup").is_ok_and(|file| file.ino() == FIRST_NAMESPACE)
}

/// The control group of a process; `None` if the group is the root, or if the process has no group
/// of version 2.
pub(crate) fn of_process(pid: u32) -> Result<Option<Cgroup>, AttachError> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|source| {
        AttachError::of(format!("reading the groups of process {pid}"), source)
    })?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    if path == "/" { Ok(None) } else { at(Path::new(path)).map(Some) }
}

/// The control group of a container with this first process; `None` if the group is the root. If
/// the first process is an init system, it has moved itself into the group `init.scope` below the
/// container's group.
pub(crate) fn of_container(pid: u32) -> Result<Option<Cgroup>, AttachError> {
    let Some(group) = of_process(pid)? else { return Ok(None) };
    match group.directory.parent() {
        Some(parent) if group.directory.ends_with("init.scope") => at(parent).map(Some),
        _ => Ok(Some(group)),
    }
}

/// The control group of a systemd unit: the directory with the unit's name. Several groups can have
/// this name, because systemd may also run in containers, and because a service that has ended can
/// leave its group. Groups with processes come before those without; among equals, groups nearer to
/// the root come first.
///
/// # Errors
/// There is no such group, or several groups with processes are equally near to the root.
pub(crate) fn of_unit(unit: &str) -> Result<Cgroup, AttachError> {
    let mount = mount()?;
    at(&unit_below(&mount.point, unit)?)
}

/// The directory below `root` that [`of_unit`] selects.
fn unit_below(root: &Path, unit: &str) -> Result<PathBuf, AttachError> {
    let mut waiting = VecDeque::from([root.to_owned()]);
    let (mut found, mut units, mut seen) = (Vec::new(), Vec::new(), 0);
    while let Some(directory) = waiting.pop_front() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            seen += 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == unit {
                let path = entry.path();
                found.push((!has_processes(&path), path.components().count(), path));
            } else if name.ends_with(".service") && units.len() < MOST_NAMES {
                units.push(name);
            }
            if seen < MOST_DIRECTORIES {
                waiting.push_back(entry.path());
            }
        }
    }
    found.sort();
    match found.as_slice() {
        [(false, first, one), (false, second, other), ..] if first == second => {
            Err(AttachError::Ambiguous {
                what: format!("unit {unit}"),
                one: one.display().to_string(),
                other: other.display().to_string(),
            })
        }
        [(_, _, path), ..] => Ok(path.clone()),
        [] => {
            let known = match units.len() {
                0 => "; no unit runs here (is systemd this machine's init?)".to_owned(),
                _ => format!("; `systemctl` lists them, for example {}", units.join(", ")),
            };
            Err(AttachError::Missing { what: format!("running unit {unit}"), known })
        }
    }
}

/// Whether processes are in the group or in groups below it.
fn has_processes(directory: &Path) -> bool {
    let events = fs::read_to_string(directory.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 1")
}

struct Mount {
    point: PathBuf,
    /// Depth of the mounted group below the root of all groups.
    depth: u64,
}

fn mount() -> Result<Mount, AttachError> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|source| AttachError::of("reading the mounts", source))?;
    mount_in(&text).ok_or_else(|| {
        AttachError::of(
            "looking for control groups of version 2 (a mount of type cgroup2)",
            io::ErrorKind::NotFound.into(),
        )
    })
}

/// The mount of the control groups in the text of `/proc/self/mountinfo`.
fn mount_in(text: &str) -> Option<Mount> {
    text.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = fields.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let depth = Path::new(root)
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .count() as u64;
        Some(Mount { point: point.into(), depth })
    })
}

fn missing(path: &Path) -> AttachError {
    AttachError::Missing {
        what: format!("control group {}", path.display()),
        known: "; `systemd-cgls` or `find /sys/fs/cgroup -type d` lists them".into(),
    }
}

/// The inode number of the initial control group namespace, which is fixed in the kernel.
const FIRST_NAMESPACE: u64 = 0xefff_fffb;
/// Maximum number of directories that a search reads.
const MOST_DIRECTORIES: usize = 100_000;
/// Maximum number of names of units in an error.
const MOST_NAMES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_version_2_is_found_beside_version_1() {
        let text = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                    31 30 0:27 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
                    40 30 0:36 / /sys/fs/cgroup/unified rw shared:3 master:1 - cgroup2 none rw\n";
        let mount = mount_in(text).expect("it is mounted");
        assert_eq!((mount.point, mount.depth), (PathBuf::from("/sys/fs/cgroup/unified"), 0));
        let inner = "40 30 0:36 /docker/abc /sys/fs/cgroup ro - cgroup2 none rw\n";
        assert_eq!(mount_in(inner).map(|mount| mount.depth), Some(2));
        assert!(mount_in("garbage\n - \n31 - cgroup2 x\n").is_none());
    }

    fn group(root: &Path, path: &str, has_processes: bool) -> PathBuf {
        let directory = root.join(path);
        fs::create_dir_all(&directory).unwrap();
        let events = format!("populated {}\nfrozen 0\n", u8::from(has_processes));
        fs::write(directory.join("cgroup.events"), events).unwrap();
        directory
    }

    #[test]
    fn a_group_with_processes_comes_before_one_without() {
        let name = format!("weir-attach-units-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let left = group(&root, "a/web.service", false);
        assert_eq!(unit_below(&root, "web.service").unwrap(), left);
        let inner = group(&root, "z/box/system.slice/web.service", true);
        assert_eq!(unit_below(&root, "web.service").unwrap(), inner);
        let nearer = group(&root, "system.slice/web.service", true);
        assert_eq!(unit_below(&root, "web.service").unwrap(), nearer);
        group(&root, "b/web.service", true);
        let refused = unit_below(&root, "web.service").unwrap_err().to_string();
        assert!(refused.contains("b/web.service") && refused.contains("cgroup:"), "{refused}");
        let missing = unit_below(&root, "db.service").unwrap_err().to_string();
        assert!(missing.contains("running unit db.service; `systemctl` lists"), "{missing}");
        fs::remove_dir_all(root).unwrap();
    }
}
