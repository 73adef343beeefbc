//! The machine's settings that a session changes, and the process that restores them after the
//! session, even if the session was killed.
//!
//! The janitor of a session is a process in a separate terminal session. It ignores signals and
//! waits until the main process has ended. It receives the list of changes before the first change
//! and keeps the list in memory, so it needs no file. Each session with such changes also has a
//! state file in `/run/weir-sessions`, which shows the changes to other sessions. If the main
//! process and the janitor are both killed, the next session that starts does the janitor's work. A
//! setting that several sessions need is restored after the last of them. Each state file holds
//! the value that the setting had before the first session.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};

use rustix::fs::{Access, FlockOperation, access, flock};
use serde::{Deserialize, Serialize};

use super::role::{Role, command, ignore_signals};
use crate::netns::{read_setting, write_setting};
use crate::process::{receive, send};

/// A setting under `/proc/sys/net` that a session changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undo {
    /// The setting, as a path below `/proc/sys/net`.
    pub(crate) setting: String,
    /// The value before the first session changed it.
    pub(crate) before: String,
    /// The value during the session.
    pub(crate) during: String,
}

/// The changes that a session made to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) pid: u32,
    /// When the process with the number `pid` started, in clock ticks since boot. The time
    /// distinguishes processes with the same number, because the kernel reuses numbers.
    pub(crate) started: u64,
    /// The network namespace that the settings belong to, by its inode number.
    pub(crate) namespace: u64,
    /// The session's interface. Its name is a part of the state file's name.
    pub(crate) interface: String,
    pub(crate) undo: Vec<Undo>,
}

impl State {
    /// The state of this process, with nothing changed yet.
    pub(crate) fn of_this_process(interface: &str) -> io::Result<State> {
        let pid = std::process::id();
        Ok(State {
            pid,
            started: start_time(pid).unwrap_or(0),
            namespace: namespace()?,
            interface: interface.to_owned(),
            undo: vec![],
        })
    }

    /// Whether the session's process still exists.
    pub(crate) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}-{}.json", self.pid, self.interface))
    }

    /// Writes the state file that other sessions read. The caller holds the lock and has not
    /// changed a setting yet.
    pub(crate) fn save(&self, directory: &Path) -> io::Result<()> {
        let path = self.path(directory);
        let draft = path.with_extension(DRAFT);
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(&draft, &path)
    }

    /// Plans the change of `setting` to `value` and records the original value. The caller holds
    /// the lock and has not saved this state yet.
    pub(crate) fn plan(&mut self, setting: &str, value: &str, others: &[State]) -> io::Result<()> {
        let now = match read_setting(setting) {
            // The interface was deleted after it was listed, probably by the end of another
            // session.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            now => now?,
        };
        let known = others
            .iter()
            .filter(|state| state.namespace == self.namespace)
            .flat_map(|state| &state.undo);
        let first =
            known.into_iter().find(|undo| undo.setting == setting).map(|undo| undo.before.clone());
        if now == value && first.is_none() {
            return Ok(());
        }
        let before = first.unwrap_or(now);
        self.undo.push(Undo { setting: setting.to_owned(), before, during: value.to_owned() });
        Ok(())
    }

    /// Makes the planned changes; returns the settings that the kernel refused to change.
    pub(crate) fn apply(&self) -> Vec<(String, io::Error)> {
        let write = |undo: &Undo| {
            write_setting(&undo.setting, &undo.during)
                .err()
                .map(|error| (undo.setting.clone(), error))
        };
        self.undo.iter().filter_map(write).collect()
    }
}

/// The janitor process, as the main process sees it.
#[derive(Debug)]
pub(crate) struct Janitor {
    child: Child,
    /// The janitor starts its work when this socket closes.
    lifeline: Option<UnixStream>,
}

impl Janitor {
    /// Starts the janitor, which gets ready while the caller does other work.
    pub(crate) fn start() -> io::Result<Janitor> {
        let (lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Janitor, helper_end.as_raw_fd());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let child = command.spawn()?;
        drop(helper_end);
        Ok(Janitor { child, lifeline: Some(lifeline) })
    }

    /// Waits until the janitor is ready. Call this once, before any change, even before the state
    /// directory is created: this process can be killed between any two steps.
    pub(crate) fn wait_until_ready(&mut self) -> io::Result<()> {
        self.lifeline.as_mut().map_or(Ok(()), |lifeline| lifeline.read_exact(&mut [0]))
    }

    /// Gives the janitor the changes that it undoes at the end of this session. The janitor finds
    /// the changes of killed sessions without this call.
    pub(crate) fn entrust(&self, state: &State) -> io::Result<()> {
        self.lifeline.as_ref().map_or(Ok(()), |lifeline| send(lifeline, state))
    }
}

impl Drop for Janitor {
    /// Closes the socket, which starts the janitor's work, and waits for the janitor to end.
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

/// Runs as the janitor: waits until the main process has ended, then undoes its changes.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    // The two calls are optional. A separate session protects the janitor from signals to the
    // group, and a name shows it in process lists.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"weir-janitor");
    let mut socket = UnixStream::from(socket);
    if socket.write_all(&[1]).is_err() {
        return ExitCode::FAILURE;
    }
    let mut entrusted = Vec::new();
    // An error means that the main process has closed its end of the socket or has ended.
    while let Ok(state) = receive::<State>(&socket) {
        entrusted.push(state);
    }
    let mut released = 0;
    let done = with_lock(|directory| {
        for state in &entrusted {
            release(directory, state)?;
            released += 1;
        }
        clean_up(directory).map(|_| ())
    });
    if done.is_ok() {
        return ExitCode::SUCCESS;
    }
    // Without the directory, the janitor does not know other sessions, but it can still undo the
    // changes of its own session.
    entrusted[released..].iter().for_each(|state| restore(state, &[]));
    ExitCode::FAILURE
}

/// Removes the file of a session, if it still exists, and undoes the session's changes.
fn release(directory: &Path, state: &State) -> io::Result<()> {
    match fs::remove_file(state.path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    restore(state, &list_states(directory)?);
    Ok(())
}

/// Undoes the changes of a session, except those that other sessions still need.
fn restore(state: &State, others: &[State]) {
    for undo in &state.undo {
        let needed = others.iter().any(|other| {
            other.namespace == state.namespace
                && other.undo.iter().any(|theirs| theirs.setting == undo.setting)
        });
        // If the setting no longer has the session's value, another program or user changed it
        // deliberately.
        if !needed && read_setting(&undo.setting).is_ok_and(|now| now == undo.during) {
            // The write fails if the interface was deleted together with its settings.
            let _ = write_setting(&undo.setting, &undo.before);
        }
    }
}

/// Restores the settings of sessions in this network namespace that were killed together with their
/// janitors. Returns the number of these sessions.
pub(crate) fn clean_up(directory: &Path) -> io::Result<usize> {
    let here = namespace()?;
    let dead: Vec<State> = list_states(directory)?
        .into_iter()
        .filter(|state| state.namespace == here && !state.is_alive())
        .collect();
    for state in &dead {
        release(directory, state)?;
    }
    // No process writes while this one holds the lock, so unfinished files are leftovers.
    for draft in fs::read_dir(directory)?.filter_map(Result::ok).map(|entry| entry.path()) {
        if draft.extension().is_some_and(|extension| extension == DRAFT) {
            fs::remove_file(draft)?;
        }
    }
    Ok(dead.len())
}

/// The content of every readable state file.
pub(crate) fn list_states(directory: &Path) -> io::Result<Vec<State>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let files = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"));
    Ok(files.filter_map(|path| read_state(&path).ok()).collect())
}

fn read_state(path: &Path) -> io::Result<State> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// The directory of the state files of all sessions on the machine. It is not `/run/weir`, which a
/// service manager deletes when the daemon stops.
pub(crate) fn state_directory() -> &'static Path {
    Path::new("/run/weir-sessions")
}

/// Whether this process may create the state directory, or write to it if it exists. A process that
/// is root only in a user namespace may not: there the directory belongs to another user.
pub(crate) fn may_keep_state() -> bool {
    let directory = state_directory();
    let place = if directory.exists() { Some(directory) } else { directory.parent() };
    let own = rustix::process::geteuid().as_raw();
    place.is_some_and(|place| {
        fs::metadata(place).is_ok_and(|metadata| metadata.uid() == own)
            && access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// Runs `work` while this process holds the lock of the state directory. The function creates the
/// directory if necessary, and removes it afterwards if it is empty.
pub(crate) fn with_lock<T>(work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let directory = state_directory();
    let path = directory.join(LOCK);
    let lock = loop {
        match fs::DirBuilder::new().mode(0o755).create(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let file = match File::options().create(true).truncate(false).write(true).open(&path) {
            Ok(file) => file,
            // Another session has just removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        flock(file.as_fd(), FlockOperation::LockExclusive)?;
        // The previous holder of the lock may have removed the file. A lock on a removed file
        // excludes no other process.
        if fs::metadata(&path)
            .is_ok_and(|now| file.metadata().is_ok_and(|held| held.ino() == now.ino()))
        {
            break file;
        }
    };
    let result = work(directory);
    if list_states(directory).is_ok_and(|states| states.is_empty()) {
        let _ = fs::remove_file(&path);
        // If the directory is not empty, this fails, and the directory must stay.
        let _ = fs::remove_dir(directory);
    }
    drop(lock);
    result
}

/// The identity (inode number) of the calling thread's network namespace.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// When process `pid` started, in ticks since boot; `None` when it does not exist or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses. The name may itself contain parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(START_TIME_AFTER_STATE)?.parse().ok()
}

/// The name of the file that sessions lock.
const LOCK: &str = "lock";
/// Extension of a state file that is being written.
const DRAFT: &str = "tmp";
/// Number of fields between the state (field 3) and the start time (field 22) in proc(5).
const START_TIME_AFTER_STATE: usize = 22 - 3 - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_and_a_reused_number_does_not_count() {
        let mut state = State::of_this_process("test0").unwrap();
        assert!(state.is_alive());
        state.started += 1;
        assert!(!state.is_alive());
    }
}
