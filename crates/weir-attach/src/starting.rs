//! Finds a container that an engine is starting: after the setup of its network, and before its
//! program begins.
//!
//! While a container starts, the engine's API does not answer requests about it. But the runtime
//! has already put a process into the container's control group. The path of the group contains the
//! container's identifier, which is known since the container was created. Between the setup of the
//! network and the start of the container's program, Weir has some tens of milliseconds to stop the
//! process.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::AttachError;
use crate::find::Site;

/// A container that may start at any time.
#[derive(Clone, Debug, Default)]
pub struct Starting {
    /// The possible paths of the file that lists the processes of the container's control group.
    /// The path depends on the version of the groups and on the program that manages them (the
    /// engine or systemd). Some of these files, or all, may not exist.
    lists: Vec<PathBuf>,
}

/// A container that has a network namespace.
#[derive(Debug)]
pub struct Started {
    /// The container.
    pub site: Site,
    /// Tells whether the container's program has begun.
    pub begun: Begun,
}

/// Tells whether the program of a container has begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// The first process of the container.
    pid: u32,
}

impl Starting {
    /// The container with the identifier `id`. `parent` is the parent of its control group; empty
    /// for the engine's default.
    pub(crate) fn new(id: &str, parent: &str) -> Starting {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Starting { lists: lists(&mounts, id, parent) }
    }

    /// The container as a site with the name `name`; `None` while the container does not run, has
    /// no interface `interface`, or has no known control group.
    ///
    /// # Errors
    /// The container's namespace cannot be opened.
    pub fn find(&self, name: &str, interface: &str) -> Result<Option<Started>, AttachError> {
        let Some(pid) = self.lists.iter().find_map(|list| first_inside(list)) else {
            return Ok(None);
        };
        if !has_interface(pid, interface) {
            return Ok(None);
        }
        let begun = Begun { pid };
        Ok(Site::of_started(name, pid)?.map(|site| Started { site, begun }))
    }
}

impl Begun {
    /// The number of the container's first process.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Whether the program has begun. Until then, the process executes the runtime.
    #[must_use]
    pub fn has_begun(self) -> bool {
        let comm = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        !RUNTIMES.iter().any(|runtime| comm.starts_with(runtime))
    }
}

/// The process with the lowest number in a control group, among those that are in another network
/// namespace than this process.
fn first_inside(list: &Path) -> Option<u32> {
    let text = fs::read_to_string(list).ok()?;
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = namespace("self");
    let inside = text.lines().take(MOST_PROCESSES).filter_map(|line| {
        let pid: u32 = line.trim().parse().ok()?;
        let theirs = namespace(line.trim())?;
        (Some(theirs) != own).then_some(pid)
    });
    inside.min()
}

fn has_interface(pid: u32, name: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    text.lines().any(|line| line.split_once(':').is_some_and(|(own, _)| own.trim() == name))
}

/// The lists of processes for a container, in the text of `/proc/self/mountinfo`.
fn lists(mounts: &str, id: &str, parent: &str) -> Vec<PathBuf> {
    let mut lists = Vec::new();
    let mut has_v1 = false;
    for line in mounts.lines() {
        let Some((fields, kind)) = line.split_once(" - ") else { continue };
        let is_v2 = kind.starts_with("cgroup2 ");
        // Except for systemd's, the hierarchies of version 1 have the same groups, so one is
        // enough.
        let is_v1 = !has_v1 && kind.starts_with("cgroup ") && !kind.contains("name=");
        let Some(point) = fields.split(' ').nth(4).filter(|_| is_v2 || is_v1) else {
            continue;
        };
        has_v1 |= is_v1;
        let parents = if parent.is_empty() { vec!["docker", "system.slice"] } else { vec![parent] };
        for parent in parents {
            let parent = Path::new(point).join(parent.trim_start_matches('/'));
            for group in [id.to_owned(), format!("docker-{id}.scope")] {
                lists.push(parent.join(group).join("cgroup.procs"));
            }
        }
    }
    lists
}

/// The beginnings of the names that a process has before it executes the container's program.
const RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];
/// Maximum number of processes of a container that a search examines.
const MOST_PROCESSES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_a_process_list_in_each_version_of_groups() {
        let v2 = "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let v1 = "32 23 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                  33 23 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                  34 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let shown = |mounts: &str, parent| -> Vec<String> {
            lists(mounts, "ab12", parent).iter().map(|path| path.display().to_string()).collect()
        };
        assert!(shown(v2, "").contains(&"/sys/fs/cgroup/docker/ab12/cgroup.procs".to_owned()));
        let scope = "/sys/fs/cgroup/system.slice/docker-ab12.scope/cgroup.procs".to_owned();
        assert!(shown(v2, "").contains(&scope));
        let both = shown(&(v2.to_owned() + v1), "/jobs");
        assert!(both.contains(&"/sys/fs/cgroup/pids/jobs/ab12/cgroup.procs".to_owned()));
        assert!(both.iter().all(|path| !path.contains("systemd") && !path.contains("cpu")));
        assert_eq!(both.len(), 4);
        assert!(shown("", "").is_empty() && shown("x - cgroup2 \n1 - cgroup", "").is_empty());
    }

    #[test]
    fn a_container_without_a_group_does_not_run() {
        let starting = Starting::new("no-such-container", "");
        assert!(starting.find("web", "eth0").expect("no error").is_none());
        assert!(Starting::default().find("web", "eth0").expect("no error").is_none());
    }

    #[test]
    fn interfaces_of_a_process_are_found_by_their_whole_names() {
        let pid = std::process::id();
        assert!(has_interface(pid, "lo"));
        assert!(!has_interface(pid, "l") && !has_interface(pid, ""));
    }
}
