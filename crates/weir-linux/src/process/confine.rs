//! Gives up the rights that a daemon needs only at its start: capabilities, the right to gain
//! privileges, the user root, and access to most files.
//!
//! All of these rights belong to threads: each thread gives up its own rights, and the threads that
//! it starts later inherit the reduced set. Afterwards,
//! [`filter_system_calls`](super::filter_system_calls) applies to all threads at once.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};
pub use rustix::thread::CapabilitySet;
use rustix::thread::CapabilitySets;
use rustix::thread::{Gid, Uid};

/// Why the process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused to remove capabilities.
    #[error("cannot give up capabilities: {0}")]
    Capabilities(io::Error),
    /// The kernel refused to change the user.
    #[error("cannot become the user {uid} of the group {gid}: {source}")]
    User {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused to restrict the files.
    #[error("cannot give up the access to files: {0}")]
    Files(#[from] landlock::RulesetError),
    /// The filter could not be compiled.
    #[error("the filter of system calls cannot be made: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel refused the filter.
    #[error(
        "the kernel does not take the filter of system calls: {0}; it needs \
         CONFIG_SECCOMP_FILTER, or --no-seccomp goes without"
    )]
    Install(#[from] seccompiler::Error),
}

/// A user with its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

/// The user and the access to files that a thread keeps. The default keeps the user and no access.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    user: Option<User>,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    removable: Vec<PathBuf>,
}

impl Confinement {
    /// Changes to this user, without supplementary groups.
    #[must_use]
    pub fn user(self, user: User) -> Self {
        Self { user: Some(user), ..self }
    }

    /// Keeps the right to read this file or everything in this directory.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// Keeps the right to read, write, create and remove files in this directory.
    #[must_use]
    pub fn write(mut self, directory: impl Into<PathBuf>) -> Self {
        self.writable.push(directory.into());
        self
    }

    /// Keeps the right to remove files in this directory.
    #[must_use]
    pub fn remove(mut self, directory: impl Into<PathBuf>) -> Self {
        self.removable.push(directory.into());
        self
    }

    /// Confines the calling thread: it keeps the capabilities in `keep`, and the user and the files
    /// of this confinement. Open files stay open. From Linux 6.7 on, TCP sockets can no longer be
    /// bound or connected. All of this is permanent, and no program that the thread starts can
    /// regain anything. Returns whether the files are restricted, which needs a kernel with
    /// Landlock (5.13 or newer).
    ///
    /// # Errors
    /// The kernel's error. After an error the thread may have lost a part of its rights.
    pub fn apply(&self, keep: CapabilitySet) -> Result<bool, ConfineError> {
        // The rules are made first, because the new user might not reach the files in them.
        let files = Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .create()?
            .add_rules(path_beneath_rules(&self.readable, reading()))?
            .add_rules(path_beneath_rules(&self.writable, writing()))?
            .add_rules(path_beneath_rules(&self.removable, AccessFs::RemoveFile))?;
        keep_only(keep, self.user)?;
        Ok(files.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }
}

/// Removes all capabilities from the calling thread except those in `keep`, and changes its user.
fn keep_only(keep: CapabilitySet, user: Option<User>) -> Result<(), ConfineError> {
    let failed = |errno: rustix::io::Errno| ConfineError::Capabilities(errno.into());
    let held = rustix::thread::capabilities(None).map_err(failed)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for capability in
            CapabilitySet::all().iter().filter(|capability| !keep.contains(*capability))
        {
            // This fails for a capability that this kernel does not know, which cannot be regained
            // either.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    // This fails on kernels without ambient capabilities.
    let _ = rustix::thread::clear_ambient_capability_set();
    if let Some(user) = user {
        change_user(user).map_err(|errno| ConfineError::User {
            uid: user.uid,
            gid: user.gid,
            source: errno.into(),
        })?;
    }
    let kept = held.permitted & keep;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    rustix::thread::set_no_new_privs(true).map_err(failed)
}

/// Changes the user of the calling thread. The thread's permitted capabilities stay.
fn change_user(user: User) -> rustix::io::Result<()> {
    rustix::thread::set_keep_capabilities(true)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::set_keep_capabilities(false)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn writing() -> BitFlags<AccessFs> {
    let create = AccessFs::MakeReg | AccessFs::MakeDir;
    let remove = AccessFs::RemoveFile | AccessFs::RemoveDir;
    reading() | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::Refer | create | remove
}

/// Removes these capabilities permanently from the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn give_up(capabilities: CapabilitySet) -> Result<(), ConfineError> {
    let reduce = || {
        let held = rustix::thread::capabilities(None)?;
        rustix::thread::set_capabilities(
            None,
            CapabilitySets {
                effective: held.effective - capabilities,
                permitted: held.permitted - capabilities,
                inheritable: held.inheritable - capabilities,
            },
        )
    };
    reduce().map_err(|errno: rustix::io::Errno| ConfineError::Capabilities(errno.into()))
}

/// The newest rights that Weir knows. An older kernel restricts only the rights that it knows.
const LANDLOCK: ABI = ABI::V5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::filter_system_calls;

    /// The filter is permanent and applies to the whole process, so this test runs itself again as
    /// a separate process.
    #[test]
    fn a_confined_process_works_and_can_start_no_program() {
        let own_name = "process::confine::tests::a_confined_process_works_and_can_start_no_program";
        let Some(scratch) = std::env::var_os("WEIR_TEST_CONFINED").map(PathBuf::from) else {
            let name = format!("weir-confined-{}", std::process::id());
            let scratch = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&scratch).unwrap();
            let program = std::env::current_exe().unwrap();
            let run = std::process::Command::new(program)
                .args([own_name, "--exact", "--nocapture"])
                .env("WEIR_TEST_CONFINED", &scratch)
                // The leak sanitizer would start a process at the end of the program, which the
                // filter refuses.
                .env("ASAN_OPTIONS", "detect_leaks=0")
                .output();
            std::fs::remove_dir_all(&scratch).unwrap();
            let run = run.unwrap();
            assert!(
                run.status.success(),
                "{}{}",
                String::from_utf8_lossy(&run.stdout),
                String::from_utf8_lossy(&run.stderr)
            );
            return;
        };
        let mut confinement = Confinement::default().read("/proc").write(&scratch);
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&scratch, Some(OTHER), Some(OTHER)).unwrap();
            confinement = confinement.user(User { uid: OTHER, gid: OTHER });
        }
        let restricted = confinement.apply(CapabilitySet::NET_RAW).unwrap();
        let kept = rustix::thread::capabilities(None).unwrap().permitted;
        assert_eq!(kept.contains(CapabilitySet::NET_RAW), is_root, "kept for the new user");
        assert!((kept - CapabilitySet::NET_RAW).is_empty(), "{kept:?}");
        give_up(CapabilitySet::NET_RAW).unwrap();
        let own = scratch.join("file");
        std::fs::write(&own, "text").unwrap();
        std::fs::rename(&own, scratch.join("other")).unwrap();
        if restricted {
            let denied = std::fs::read("/etc/passwd").map_err(|error| error.kind());
            assert_eq!(denied, Err(io::ErrorKind::PermissionDenied), "no other file can be read");
            assert!(std::net::TcpListener::bind("127.0.0.1:0").is_err());
        }
        std::fs::remove_file(scratch.join("other")).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let early = std::thread::spawn(move || {
            wait.recv().unwrap();
            std::process::Command::new("true").status().map_err(|error| error.kind())
        });
        filter_system_calls().unwrap();
        go.send(()).unwrap();
        let refused = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(early.join().unwrap().map(|_| ()), refused, "a thread from before the filter");
        assert_eq!(
            std::process::Command::new("true").status().map(|_| ()).map_err(|e| e.kind()),
            refused
        );
        // Threads, files, sockets and time remain permitted.
        let file = std::thread::spawn(|| std::fs::read_to_string("/proc/thread-self/status"))
            .join()
            .unwrap()
            .unwrap();
        let uid = if is_root { OTHER } else { rustix::process::getuid().as_raw() };
        assert!(file.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")), "{file}");
        assert!(file.contains("Seccomp:\t2") && file.contains("NoNewPrivs:\t1"), "{file}");
        let (left, _right) = std::os::unix::net::UnixStream::pair().unwrap();
        left.shutdown(std::net::Shutdown::Both).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(crate::sys::process::unshare(rustix::thread::UnshareFlags::NEWUSER).is_err());
        // Calls with other arguments than the daemon's are refused.
        assert_eq!(crate::sys::process::map_executable().unwrap_err().kind(), REFUSED);
        let (terminal, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(rustix::termios::tcgetwinsize(&terminal), Err(rustix::io::Errno::PERM));
        let dumpable = rustix::process::DumpableBehavior::Dumpable;
        assert_eq!(rustix::process::set_dumpable_behavior(dumpable), Err(rustix::io::Errno::PERM));
        rustix::thread::set_name(c"renamed").unwrap();
    }

    const REFUSED: io::ErrorKind = io::ErrorKind::PermissionDenied;
    /// A user that is not root.
    const OTHER: u32 = 64_999;
}
