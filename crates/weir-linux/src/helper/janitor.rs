//! Settings of the machine that a session changes, and the process that restores them when the
//! session is over, however it ended.
//!
//! Each session with such changes has a state file in `/run/weir`, written before the first change.
//! Its janitor is a process in a session of its own that ignores signals and waits until the main
//! process is gone. If both are killed, the next session that starts does the janitor's work. A
//! setting that several sessions need is restored with the last of them: each file holds the value
//! from before the first.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::role::{Role, command, ignore_signals};
use crate::netns::{read_setting, write_setting};
use crate::process::{receive, send};

/// A setting under `/proc/sys/net` that a session changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undo {
    pub(crate) setting: String,
    pub(crate) before: String,
    pub(crate) during: String,
}

/// What a session changed on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) pid: u32,
    /// When that process started, in clock ticks since boot, because process numbers are reused.
    pub(crate) started: u64,
    /// The network namespace that the settings belong to.
    pub(crate) namespace: u64,
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

    /// Whether its process still exists.
    pub(crate) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}-{}.json", self.pid, self.interface))
    }

    /// Writes the file that the janitor and later sessions read. Call it under the lock, before the
    /// changes.
    pub(crate) fn save(&self, directory: &Path) -> io::Result<PathBuf> {
        let path = self.path(directory);
        let draft = path.with_extension(DRAFT);
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }

    /// Changes `setting` to `value` and remembers what it was; under the lock, on an unsaved state.
    pub(crate) fn plan(&mut self, setting: &str, value: &str, others: &[State]) -> io::Result<()> {
        let now = match read_setting(setting) {
            // The interface has vanished since it was listed, probably with another session.
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

    /// Makes the planned changes; returns those that were refused.
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
    leash: Option<UnixStream>,
}

impl Janitor {
    /// Starts the janitor; it is ready when this returns. Start it before anything is changed, the
    /// state directory included: a process can be killed between any two of its steps.
    pub(crate) fn start() -> io::Result<Janitor> {
        let (mut leash, theirs) = UnixStream::pair()?;
        let mut command = command(Role::Janitor, theirs.as_raw_fd());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let child = command.spawn()?;
        drop(theirs);
        let mut ready = [0];
        leash.read_exact(&mut ready)?;
        Ok(Janitor { child, leash: Some(leash) })
    }

    /// Names the state file to restore when the session closes. Those of killed processes are found
    /// without this.
    pub(crate) fn entrust(&self, path: &Path) -> io::Result<()> {
        self.leash.as_ref().map_or(Ok(()), |leash| send(leash, &path))
    }
}

impl Drop for Janitor {
    /// Lets the janitor do its work, and waits for it.
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.child.wait();
    }
}

/// Runs as the janitor: waits until the main process is gone, then undoes what its state file
/// lists.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    // Both only make it harder to hit the janitor by accident, and easier to find it.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"weir-janitor");
    let mut socket = UnixStream::from(socket);
    if socket.write_all(&[1]).is_err() {
        return ExitCode::FAILURE;
    }
    let mut entrusted = Vec::new();
    // Whatever ends this loop, even an error, means that the session is over.
    while let Ok(path) = receive::<PathBuf>(&socket) {
        entrusted.push(path);
    }
    let done = with_lock(|directory| {
        for path in &entrusted {
            release(directory, path)?;
        }
        clean_up(directory).map(|_| ())
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Restores what the state file at `path` lists, except what other sessions still need, and removes
/// it.
fn release(directory: &Path, path: &Path) -> io::Result<()> {
    let Ok(state) = read_state(path) else { return Ok(()) };
    fs::remove_file(path)?;
    let others = list_states(directory)?;
    for undo in &state.undo {
        let needed = others.iter().any(|other| {
            other.namespace == state.namespace
                && other.undo.iter().any(|theirs| theirs.setting == undo.setting)
        });
        // A value other than the session's was set deliberately by another program or user.
        if !needed && read_setting(&undo.setting).is_ok_and(|now| now == undo.during) {
            // The interface may have vanished, and its settings with it.
            let _ = write_setting(&undo.setting, &undo.before);
        }
    }
    Ok(())
}

/// Does the work of janitors that were killed, as far as it concerns this network namespace;
/// returns how many there were.
pub(crate) fn clean_up(directory: &Path) -> io::Result<usize> {
    let here = namespace()?;
    let dead: Vec<State> = list_states(directory)?
        .into_iter()
        .filter(|state| state.namespace == here && !state.is_alive())
        .collect();
    for state in &dead {
        release(directory, &state.path(directory))?;
    }
    // Under the lock no process is writing, so an unfinished file stays unfinished.
    for draft in fs::read_dir(directory)?.filter_map(Result::ok).map(|entry| entry.path()) {
        if draft.extension().is_some_and(|extension| extension == DRAFT) {
            fs::remove_file(draft)?;
        }
    }
    Ok(dead.len())
}

/// Every readable state file.
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

/// Where state files are. They belong to the machine, since only root changes it.
pub(crate) fn state_directory() -> &'static Path {
    Path::new("/run/weir")
}

/// Runs `work` while no other session reads or changes the state directory. The directory exists
/// meanwhile, and is removed when it is empty.
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
            // The last session has just removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        flock(file.as_fd(), FlockOperation::LockExclusive)?;
        // The process that held the lock may have removed the file; a lock on it then excludes no
        // process.
        if fs::metadata(&path)
            .is_ok_and(|now| file.metadata().is_ok_and(|held| held.ino() == now.ino()))
        {
            break file;
        }
    };
    let result = work(directory);
    if list_states(directory).is_ok_and(|states| states.is_empty()) {
        let _ = fs::remove_file(&path);
        // This fails when the directory holds another program's file, which must stay.
        let _ = fs::remove_dir(directory);
    }
    drop(lock);
    result
}

/// Identity of the calling thread's network namespace.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// When process `pid` started, in ticks since boot; `None` when it does not exist or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain any character, parentheses
    // too.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(START_TIME_AFTER_STATE)?.parse().ok()
}

const LOCK: &str = "lock";
/// Extension of a state file that is being written.
const DRAFT: &str = "tmp";
/// proc(5): field 22 is the start time, field 3 the state.
const START_TIME_AFTER_STATE: usize = 22 - 3 - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_a_reused_number_is_not() {
        let mut state = State::of_this_process("test0").unwrap();
        assert!(state.is_alive());
        state.started += 1;
        assert!(!state.is_alive());
    }
}
