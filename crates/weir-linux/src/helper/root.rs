//! A root file system for one program, made of a directory and of further directories of the
//! machine that appear in it.
//!
//! The root is an overlay of up to four layers, from top to bottom: the files that the program
//! writes, which are in memory; Weir's own files (such as `/etc/hosts`); the directory; and empty
//! directories as mount points. The program never writes to the directory itself. All mounts belong
//! to the program's mount namespace and end with it.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::pivot_root;

use super::volume::{Failure, SCRATCH, Volume, clone_tree, mount_sys, show_tree};
use crate::process::{Order, RootOrder};

/// Makes the directory of `root` the root file system of this process, with Weir's own `/etc/hosts`
/// and `/etc/resolv.conf`, with `/proc`, `/sys` and `/dev`, and with the volumes.
pub(super) fn enter(order: &Order, root: &RootOrder) -> Result<Vec<String>, Failure> {
    let path = Path::new(OsStr::from_bytes(&root.path));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lower = open(path, flags, Mode::empty()).map_err(|error| {
        (format!("opening the root file system {}", path.display()), error.into())
    })?;
    let volumes = Volume::open_all(&order.volumes)?;
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .iter()
        .filter_map(|name| Some((*name, clone_tree(&Path::new("/dev").join(name)).ok()?)))
        .collect();
    let prepare = || {
        let memory = MountFlags::NOSUID | MountFlags::NODEV;
        mount("weir", SCRATCH, "tmpfs", memory, Some(c"mode=0755,size=25%"))?;
        layers(order, &volumes)
    };
    let new_root =
        prepare().map_err(|error| ("preparing the root file system".to_owned(), error))?;
    let options = options(&lower, root.read_only);
    let options = CString::new(options).unwrap_or_default();
    mount("weir", &new_root, "overlay", MountFlags::empty(), Some(options.as_c_str()))
        .map_err(|error| (format!("making an overlay of {}", path.display()), error.into()))?;
    let mut warnings = Vec::new();
    // A user namespace permits a new /proc only while the machine's /proc is still visible.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(error) = mount("proc", new_root.join("proc"), "proc", flags, None) {
        warnings.push(format!("there is no /proc in {}: {error}", path.display()));
    }
    mount_sys(&new_root.join("sys").to_string_lossy(), flags);
    let enter = || {
        rustix::process::chdir(&new_root)?;
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")?;
        Ok::<_, io::Error>(())
    };
    enter().map_err(|error| (format!("entering {}", path.display()), error))?;
    if let Err(error) = devices_in(&devices) {
        warnings.push(format!("/dev is incomplete in {}: {error}", path.display()));
    }
    volumes.iter().try_for_each(Volume::show)?;
    Ok(warnings)
}

/// Creates the layers above and below the directory; returns the path of the new root.
fn layers(order: &Order, volumes: &[Volume<'_>]) -> io::Result<PathBuf> {
    let scratch = Path::new(SCRATCH);
    for part in ["upper", "work", "root", "above/etc", "below/etc"] {
        fs::create_dir_all(scratch.join(part))?;
    }
    for part in ["proc", "sys", "dev", "tmp"] {
        fs::create_dir(scratch.join("below").join(part))?;
    }
    fs::set_permissions(scratch.join("below/tmp"), Permissions::from_mode(0o1777))?;
    for part in ["upper", "above", "above/etc", "below"] {
        // The mode must not depend on the caller's umask.
        fs::set_permissions(scratch.join(part), Permissions::from_mode(0o755))?;
    }
    for (text, name) in [(&order.hosts, "hosts"), (&order.resolv, "resolv.conf")] {
        if let Some(text) = text {
            let path = scratch.join("above/etc").join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        }
    }
    volumes.iter().try_for_each(|volume| volume.make_place(&scratch.join("below")))?;
    Ok(scratch.join("root"))
}

/// The options of the overlay. They name the directory by the link of its descriptor in `/proc`, so
/// that the directory's path may contain any character.
fn options(lower: &OwnedFd, read_only: bool) -> String {
    let number = lower.as_raw_fd();
    let mut options = format!("lowerdir={SCRATCH}/above:/proc/self/fd/{number}:{SCRATCH}/below");
    if !read_only {
        options += &format!(",upperdir={SCRATCH}/upper,workdir={SCRATCH}/work");
    }
    // An overlay usually keeps its metadata in attributes that only root may use.
    if is_in_user_namespace() {
        options += ",userxattr";
    }
    options
}

fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}

/// Fills `/dev` with the machine's harmless devices and with terminals.
fn devices_in(devices: &[(&str, OwnedFd)]) -> io::Result<()> {
    mount("weir", "/dev", "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, Some(c"mode=0755"))?;
    for (name, tree) in devices {
        let path = format!("/dev/{name}");
        File::create(&path)?;
        show_tree(tree, &path)?;
    }
    for directory in ["/dev/pts", "/dev/shm"] {
        fs::create_dir(directory)?;
    }
    let links = [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ];
    for (to, name) in links {
        symlink(to, Path::new("/dev").join(name))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("weir", "/dev/shm", "tmpfs", flags, Some(c"mode=1777"))?;
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("devpts", "/dev/pts", "devpts", flags, Some(options))?)
}

/// Devices that every program may use.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
