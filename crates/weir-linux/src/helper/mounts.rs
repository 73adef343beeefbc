//! The file system that a program sees: its own `/etc/hosts`, `/etc/resolv.conf`, `/proc` and
//! `/sys`.
//!
//! All mounts belong to the program's mount namespace and end with it. Weir never writes to the
//! machine's files.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use super::volume::{Failure, SCRATCH, Volume, mount_sys};
use crate::process::{NETNS_FILE, Order};

/// Sets up the mounts. Returns one sentence for each step that failed and is not essential.
pub(super) fn set_up(order: &Order) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    // Mounts made in this namespace do not appear outside. Later mounts outside appear in it.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| ("detaching the mounts".to_owned(), error.into()))?;
    if let Some(fd) = order.netns {
        return show_netns(fd).map(|()| warnings);
    }
    if let Some(root) = &order.root {
        return super::root::enter(order, root);
    }
    let files = [(&order.hosts, "/etc/hosts"), (&order.resolv, "/etc/resolv.conf")];
    if files.iter().any(|(text, _)| text.is_some()) {
        scratch()?;
        for (text, path) in files {
            if let Some(text) = text
                && let Err(error) = replace_file(path, text)
            {
                warnings.push(format!(
                    "{path} is the machine's own: it could not be replaced ({error})"
                ));
            }
        }
        // The files stay mounted at their targets; only the scratch directory is unmounted.
        unmount(SCRATCH, UnmountFlags::DETACH)
            .map_err(|error| (format!("unmounting {SCRATCH}"), error.into()))?;
    }
    if order.own_proc {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        if let Err(error) = mount("proc", "/proc", "proc", flags, None) {
            warnings.push(format!(
                "/proc shows the machine's processes, not the namespace's ({error})"
            ));
        }
        mount_sys("/sys", flags);
    }
    let volumes = Volume::open_all(&order.volumes)?;
    volumes.iter().try_for_each(Volume::show)?;
    Ok(warnings)
}

/// Makes the network namespace behind descriptor `fd` available as a file, for programs that take a
/// path.
fn show_netns(fd: i32) -> Result<(), Failure> {
    scratch()?;
    let show = || {
        fs::write(NETNS_FILE, "")?;
        Ok(mount_bind(format!("/proc/self/fd/{fd}"), NETNS_FILE)?)
    };
    show().map_err(|error: io::Error| ("mounting the network namespace".to_owned(), error))
}

/// Mounts an empty directory that is visible in this mount namespace only.
fn scratch() -> Result<(), Failure> {
    mount(
        "tmpfs",
        SCRATCH,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c"mode=0755,size=1m"),
    )
    .map_err(|error| (format!("mounting a temporary directory on {SCRATCH}"), error.into()))
}

fn replace_file(path: &str, text: &str) -> io::Result<()> {
    let copy = Path::new(SCRATCH).join(Path::new(path).file_name().unwrap_or_default());
    fs::write(&copy, text)?;
    // Every user of the namespace reads this file, so its mode must not depend on the caller's
    // umask.
    fs::set_permissions(&copy, Permissions::from_mode(0o644))?;
    Ok(mount_bind(&copy, path)?)
}
