//! The directory in which the sessions of a user have their sockets, and the sessions in it.
//!
//! A session `curl` listens on `curl.sock`. A directory is used only if it belongs to the user and
//! no other user may enter it. A session that is killed leaves its socket without a listener; the
//! next command that lists the sessions removes that socket.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use crate::server::{ControlSocket, SocketError, is_listening};

/// The name of a session: 1 to 64 letters, digits, `.`, `_` and `-`, of which the first is a letter
/// or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// The text is not a name of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has 1 to {MOST_NAME} letters, digits, `.`, `_` and `-`, and begins with a letter or \
     digit"
)]
pub struct NameError;

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let good = (1..=MOST_NAME).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(is_name_byte);
        if good { Ok(Self(text.to_owned())) } else { Err(NameError) }
    }
}

impl Name {
    /// The name for a program or file: up to 32 characters of the last part of its path, with `-`
    /// in place of each character that a name must not contain; `link` if nothing is left.
    #[must_use]
    pub fn of_program(program: &OsStr) -> Self {
        let last = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let plain: String = last
            .chars()
            .map(|c| if c.is_ascii() && is_name_byte(c as u8) { c } else { '-' })
            .take(MOST_DERIVED)
            .collect();
        let plain = plain.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        plain.trim_end_matches('-').parse().unwrap_or_else(|_| Self("link".to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name `NAME-n`, or the name itself for 1.
    fn numbered(&self, n: u32) -> Self {
        if n == 1 { self.clone() } else { Self(format!("{}-{n}", self.0)) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a directory cannot hold sockets of sessions.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The path is a symbolic link, or is not a directory.
    #[error("{} is no directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory belongs to another user.
    #[error("{} belongs to user {owner}", path.display())]
    Owner {
        /// The directory.
        path: PathBuf,
        /// The user that owns it.
        owner: u32,
    },
    /// Other users have access to the directory.
    #[error("other users have access to {}; 'chmod 700' it", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    System {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A directory that holds sockets of sessions. It belongs to this user, and no other user may enter
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

/// A session that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of the session.
    pub name: Name,
    /// Its socket.
    pub path: PathBuf,
}

impl Directory {
    /// The directory for new sessions of this user, created if necessary: the first usable place of
    /// those that [`Self::all`] searches.
    ///
    /// # Errors
    /// No place can be used; there is an error for each.
    pub fn for_new() -> Result<Self, Vec<DirectoryError>> {
        let mut errors = Vec::new();
        for path in places() {
            match Self::create(&path) {
                Ok(directory) => return Ok(directory),
                Err(error) => errors.push(error),
            }
        }
        Err(errors)
    }

    /// The usable directories of this user that exist. If `WEIR_LINKS_DIR` is an absolute path,
    /// only this directory is considered. Otherwise the candidates are `/run/weir-links` for root,
    /// `weir` in `XDG_RUNTIME_DIR` and in `/run/user/UID`, and `/tmp/weir-links-UID`.
    #[must_use]
    pub fn all() -> Vec<Self> {
        places().iter().filter_map(|path| Self::open(path).ok()).collect()
    }

    /// Opens a directory, and checks that only this user may enter it.
    ///
    /// # Errors
    /// See [`DirectoryError`].
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let system = |source: io::Error| match source.raw_os_error() {
            // Depending on the kernel, a symbolic link gives either error.
            Some(number) if NO_DIRECTORY.contains(&number) => {
                DirectoryError::NotADirectory { path: path.to_owned() }
            }
            _ => DirectoryError::System { path: path.to_owned(), source },
        };
        let file = open(path, flags, Mode::empty()).map_err(|errno| system(errno.into()))?;
        let meta = File::from(file).metadata().map_err(system)?;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(DirectoryError::Owner { path: path.to_owned(), owner: meta.uid() });
        }
        if meta.mode() & ACCESS_OF_OTHERS != 0 {
            return Err(DirectoryError::Open { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Creates a directory if it does not exist, and opens it.
    ///
    /// # Errors
    /// See [`DirectoryError`].
    pub fn create(path: &Path) -> Result<Self, DirectoryError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(DirectoryError::System { path: path.to_owned(), source })
            }
            _ => Self::open(path),
        }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Binds the socket of a session with exactly this name.
    ///
    /// # Errors
    /// [`SocketError::InUse`] if a session has this name, or the system refuses.
    pub fn bind(&self, name: &Name) -> Result<ControlSocket, SocketError> {
        ControlSocket::bind_private(&self.socket(name))
    }

    /// Binds the socket of a session with this name or, if it is taken, the first free one of
    /// `NAME-2`, `NAME-3` and so on. Returns the name as well.
    ///
    /// # Errors
    /// [`SocketError::InUse`] if [`MOST_ALIKE`] sessions have such names, or the system refuses.
    pub fn bind_free(&self, name: &Name) -> Result<(Name, ControlSocket), SocketError> {
        let mut n = 1;
        loop {
            let numbered = name.numbered(n);
            match self.bind(&numbered) {
                Ok(socket) => return Ok((numbered, socket)),
                Err(SocketError::InUse { .. } | SocketError::NotASocket { .. })
                    if n < MOST_ALIKE =>
                {
                    n += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The sessions that listen, in the order of their names, among the first [`MOST_LISTED`]
    /// entries of the directory. Removes sockets without a listener.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn sessions(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)?.take(MOST_LISTED) {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).and_then(|file| {
                file.strip_suffix(SUFFIX).and_then(|name| name.parse::<Name>().ok())
            });
            let Some(name) = name.filter(|_| is_socket(&path)) else { continue };
            if is_listening(&path) {
                found.push(Found { name, path });
            } else {
                self.remove_stale(&path)?;
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn socket(&self, name: &Name) -> PathBuf {
        self.path.join(format!("{name}{SUFFIX}"))
    }

    /// Removes a socket without a listener. Holds the lock of [`ControlSocket::bind`], so that a
    /// session that has just replaced the socket keeps it.
    fn remove_stale(&self, path: &Path) -> io::Result<()> {
        let directory = File::open(&self.path)?;
        flock(&directory, FlockOperation::LockExclusive)?;
        if is_socket(path) && !is_listening(path) {
            // Another process may have removed it before the lock.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

/// The possible paths of the directory, in the order of preference.
fn places() -> Vec<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(only) = absolute(VARIABLE) {
        return vec![only];
    }
    let uid = rustix::process::geteuid();
    let mut places = Vec::new();
    if uid.is_root() {
        places.push(PathBuf::from("/run/weir-links"));
    }
    places.extend(absolute("XDG_RUNTIME_DIR").map(|directory| directory.join("weir")));
    places.push(PathBuf::from(format!("/run/user/{uid}/weir")));
    places.push(PathBuf::from(format!("/tmp/weir-links-{uid}")));
    places.dedup();
    places
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// The environment variable that names the directory.
pub const VARIABLE: &str = "WEIR_LINKS_DIR";
/// Maximum number of sessions with a name and its numbered forms.
pub const MOST_ALIKE: u32 = 1000;
/// Maximum number of entries of a directory that are examined.
pub const MOST_LISTED: usize = 10_000;
/// The longest name. The path of a socket can have about 100 bytes.
const MOST_NAME: usize = 64;
/// The longest name that is derived from a program or file, without the number that may follow.
const MOST_DERIVED: usize = 32;
/// The end of a socket's file name.
const SUFFIX: &str = ".sock";
/// The mode bits that give other users access.
const ACCESS_OF_OTHERS: u32 = 0o077;
/// The errors of `open` for a path that is not a directory.
const NO_DIRECTORY: [i32; 2] =
    [rustix::io::Errno::NOTDIR.raw_os_error(), rustix::io::Errno::LOOP.raw_os_error()];

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::testing::Scratch;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let long = "x".repeat(65);
        for bad in ["", "a/b", "../a", ".hidden", "-x", "a b", "ä", "a\n", "a\0", &long] {
            assert_eq!(bad.parse::<Name>(), Err(NameError), "{bad:?}");
        }
        for good in ["curl", "curl-2", "a.b_c", "7z", &long[1..]] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for (program, derived) in [
            ("/usr/bin/curl", "curl"),
            ("./my client!", "my-client"),
            ("..", "link"),
            ("/", "link"),
            ("--", "link"),
            (".profile", "profile"),
            (&long, &long[..32]),
        ] {
            assert_eq!(Name::of_program(OsStr::new(program)).as_str(), derived, "{program}");
        }
    }

    #[test]
    fn only_a_directory_that_others_cannot_enter_is_used() {
        let scratch = Scratch::new();
        let path = scratch.path().join("links");
        let directory = Directory::create(&path).unwrap();
        assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(Directory::create(&path).unwrap(), directory);
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Directory::open(&path), Err(DirectoryError::Open { .. })), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        let link = scratch.path().join("elsewhere");
        symlink(&path, &link).unwrap();
        assert!(matches!(Directory::create(&link), Err(DirectoryError::NotADirectory { .. })));
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(Directory::create(&file), Err(DirectoryError::NotADirectory { .. })));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(
                Directory::open(&path),
                Err(DirectoryError::Owner { owner: 65_534, .. })
            ));
        }
    }

    #[test]
    fn a_taken_name_gets_a_number_and_a_stale_one_is_used_again() {
        let scratch = Scratch::new();
        let directory = Directory::create(&scratch.path().join("links")).unwrap();
        let (first, kept) = directory.bind_free(&name("curl")).unwrap();
        let (second, _kept) = directory.bind_free(&name("curl")).unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("curl", "curl-2"));
        assert!(matches!(directory.bind(&name("curl")), Err(SocketError::InUse { .. })));
        assert_eq!(fs::metadata(directory.socket(&first)).unwrap().mode() & 0o777, 0o600);
        drop(kept);
        assert_eq!(directory.bind_free(&name("curl")).unwrap().0, first);
    }

    #[test]
    fn sockets_of_killed_sessions_are_removed_and_other_files_stay() {
        let scratch = Scratch::new();
        let directory = Directory::create(&scratch.path().join("links")).unwrap();
        let (_, _live) = directory.bind_free(&name("live")).unwrap();
        // A listener that is dropped leaves its name, as a killed process does.
        drop(UnixListener::bind(directory.path().join("dead.sock")).unwrap());
        drop(UnixListener::bind(directory.path().join(".half.sock")).unwrap());
        fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        fs::write(directory.path().join("notes.sock"), "mine").unwrap();
        let names = || -> Vec<String> {
            directory.sessions().unwrap().into_iter().map(|found| found.name.0).collect()
        };
        assert_eq!(names(), ["live"]);
        assert!(!directory.path().join("dead.sock").exists());
        assert!(directory.path().join("notes.txt").exists());
        assert!(directory.path().join("notes.sock").exists(), "it is no socket");
        assert!(directory.path().join(".half.sock").exists(), "a start that is under way");
    }
}
