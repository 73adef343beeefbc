//! The user and the files that the daemon keeps after its start.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use weir_linux::process::{Confinement, User};

use crate::args::ServeArgs;
use crate::output::{Failure, USAGE, say};

/// The user that the daemon becomes; `None` if it stays the one that started it.
pub(super) fn user(args: &ServeArgs) -> Result<Option<User>, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    match &args.user {
        _ if args.keep_privileges => Ok(None),
        Some(name) if !is_root => Err(Failure::new(
            USAGE,
            format!("--user {name}: only root can become another user; start the daemon as {name}"),
        )),
        Some(name) => named(name)?.map(Some).ok_or_else(|| {
            Failure::new(
                USAGE,
                format!(
                    "--user {name}: there is no such user; 'useradd --system {name}' makes it, or give a number"
                ),
            )
        }),
        None if !is_root => Ok(None),
        None => {
            let user = named(USUAL)?;
            if user.is_none() && !args.quiet {
                say(format_args!(
                    "weir: note: the daemon stays root, because there is no user {USUAL}; 'useradd --system {USUAL}' makes it, --user names another\n"
                ));
            }
            Ok(user)
        }
    }
}

fn named(name: &str) -> Result<Option<User>, Failure> {
    let failed = |error| Failure::own(format!("cannot look up the user {name}: {error}"));
    let found = match name.parse::<u32>() {
        Ok(uid) => {
            let known = nix::unistd::User::from_uid(uid.into()).map_err(failed)?;
            return Ok(Some(known.map_or(User { uid, gid: uid }, |known| numbers(&known))));
        }
        Err(_) => nix::unistd::User::from_name(name).map_err(failed)?,
    };
    Ok(found.map(|known| numbers(&known)))
}

fn numbers(user: &nix::unistd::User) -> User {
    User { uid: user.uid.as_raw(), gid: user.gid.as_raw() }
}

/// What the daemon's threads keep: the state, the removal of the socket, the rules to read again,
/// and the kernel's information about processors.
pub(super) fn confinement(
    args: &ServeArgs,
    user: Option<User>,
    state: &Path,
    socket: &Path,
) -> Confinement {
    let mut confinement = Confinement::default()
        .write(state)
        .remove(parent(socket))
        .read("/proc")
        .read("/sys/devices/system/cpu")
        .read("/sys/fs/cgroup");
    if let Some(rules) = &args.rules {
        // The directory, because an editor replaces the file, and because rules name files there.
        confinement = confinement.read(parent(rules));
        if let Ok(target) = std::fs::canonicalize(rules) {
            confinement = confinement.read(parent(&target));
        }
    }
    match user {
        Some(user) => confinement.user(user),
        None => confinement,
    }
}

fn parent(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Checks that the daemon's user reaches the state directory. Without this check, the first change
/// would fail.
pub(super) fn check_state(state: &Path) -> Result<(), Failure> {
    access(state, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        let uid = rustix::process::getuid().as_raw();
        Failure::own(format!(
            "user {uid} cannot use the state directory {}: {errno}; this user must be able to enter every directory above it (chmod o+x), or name another with --state",
            state.display()
        ))
    })
}

/// The user that the daemon becomes if root starts it and the user exists.
const USUAL: &str = "weir";
