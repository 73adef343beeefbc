//! The daemon's privileges after its start: the user that it becomes, and the files that it may
//! still use.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use weir_linux::process::{Confinement, User};

use crate::args::ServeArgs;
use crate::output::{Failure, USAGE, say};

/// The user that the daemon becomes; `None` if it keeps the user that started it.
pub(super) fn user(args: &ServeArgs) -> Result<Option<User>, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    match &args.user {
        _ if args.keep_privileges => Ok(None),
        Some(name) if !is_root => Err(Failure::new(
            USAGE,
            format!("--user {name}: only root can become another user; start the daemon as {name}"),
        )),
        Some(name) => look_up(name)?.map(Some).ok_or_else(|| {
            Failure::new(
                USAGE,
                format!(
                    "--user {name}: there is no such user; 'useradd --system {name}' makes it, or \
                     give a number"
                ),
            )
        }),
        None if !is_root => Ok(None),
        None => {
            let user = look_up(DEFAULT_USER)?;
            if user.is_none() && !args.quiet {
                say(format_args!(
                    "weir: note: the daemon stays root, because there is no user {DEFAULT_USER}; \
                     'useradd --system {DEFAULT_USER}' makes it, --user names another\n"
                ));
            }
            Ok(user)
        }
    }
}

/// Looks up a user by name or number. A number may have no entry in the user database.
fn look_up(name: &str) -> Result<Option<User>, Failure> {
    let failed = |error| Failure::of_weir(format!("cannot look up the user {name}: {error}"));
    let found = match name.parse::<u32>() {
        Ok(uid) => {
            let known = nix::unistd::User::from_uid(uid.into()).map_err(failed)?;
            return Ok(Some(known.map_or(User { uid, gid: uid }, |known| ids(&known))));
        }
        Err(_) => nix::unistd::User::from_name(name).map_err(failed)?,
    };
    Ok(found.map(|known| ids(&known)))
}

fn ids(user: &nix::unistd::User) -> User {
    User { uid: user.uid.as_raw(), gid: user.gid.as_raw() }
}

/// The access that the daemon's threads keep: to write the state, to remove the socket, to read the
/// rules and the page's certificate again, and to read what the kernel reports about processes,
/// processors and control groups.
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
    // The whole directory of each file stays readable, because an editor or the renewal of a
    // certificate may replace the file, and because rules may name other files in their directory.
    for file in [&args.rules, &args.web.web_cert, &args.web.web_key].into_iter().flatten() {
        confinement = confinement.read(parent(file));
        if let Ok(target) = std::fs::canonicalize(file) {
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

/// Checks that the daemon's user can use the state directory. Otherwise the first change of the
/// configuration would fail.
pub(super) fn check_state(state: &Path) -> Result<(), Failure> {
    access(state, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        let uid = rustix::process::getuid().as_raw();
        Failure::of_weir(format!(
            "user {uid} cannot use the state directory {}: {errno}; this user must be able to \
             enter every directory above it (chmod o+x), or name another with --state",
            state.display()
        ))
    })
}

/// The user that the daemon becomes without --user, if root starts it and the user exists.
const DEFAULT_USER: &str = "weir";
