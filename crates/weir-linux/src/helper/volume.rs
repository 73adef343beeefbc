//! Mounts directories and files of the machine at other paths, and `/sys`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::process::VolumeOrder;
use crate::sys::process::make_read_only;

/// The attempted step, and the kernel's error.
pub(super) type Failure = (String, io::Error);

/// A directory or file of the machine that will appear at another path, its place.
pub(super) struct Volume<'a> {
    order: &'a VolumeOrder,
    tree: OwnedFd,
    is_directory: bool,
}

impl<'a> Volume<'a> {
    /// Opens all sources, so that no mounted volume can hide the source of another.
    pub(super) fn open_all(orders: &'a [VolumeOrder]) -> Result<Vec<Self>, Failure> {
        orders.iter().map(Self::open).collect()
    }

    fn open(order: &'a VolumeOrder) -> Result<Self, Failure> {
        let path = Path::new(OsStr::from_bytes(&order.from));
        let failed = |error: io::Error| (format!("opening the volume {}", path.display()), error);
        let tree = clone_tree(path).map_err(failed)?;
        if order.read_only {
            make_read_only(tree.as_fd()).map_err(failed)?;
        }
        let is_directory = fs::metadata(path).map_err(failed)?.is_dir();
        Ok(Self { order, tree, is_directory })
    }

    /// Mounts the volume at its place, which already exists.
    pub(super) fn show(&self) -> Result<(), Failure> {
        show_tree(&self.tree, &self.order.to).map_err(|error| {
            let from = String::from_utf8_lossy(&self.order.from);
            (format!("mounting the volume {from} on {}", self.order.to), error)
        })
    }

    /// Creates an empty place for the volume below a directory.
    pub(super) fn make_place(&self, below: &Path) -> io::Result<()> {
        let place = below.join(self.order.to.trim_start_matches('/'));
        if self.is_directory {
            return fs::create_dir_all(place);
        }
        place.parent().map_or(Ok(()), fs::create_dir_all)?;
        File::create(place).map(drop)
    }
}

/// Mounts a `/sys` that shows the namespace's interfaces, and mounts the machine's control groups
/// inside it.
pub(super) fn mount_sys(at: &str, flags: MountFlags) {
    let tree_flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let groups = open_tree(CWD, "/sys/fs/cgroup", tree_flags);
    // In a container, this mount may fail. /sys/class/net then lists the machine's interfaces;
    // everything else works.
    if mount("sysfs", at, "sysfs", flags, None).is_ok()
        && let Ok(groups) = groups
    {
        // Without control groups, programs that look for their resource limits would find none.
        let _ = show_tree(&groups, &format!("{at}/fs/cgroup"));
    }
}

/// A detached copy of what is mounted at a path.
pub(super) fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Mounts a detached copy at a path.
pub(super) fn show_tree(tree: &impl AsFd, at: &str) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// A directory that every system has, for mounts during the setup. No program runs yet, so no
/// program misses the directory's content.
pub(super) const SCRATCH: &str = "/tmp";
