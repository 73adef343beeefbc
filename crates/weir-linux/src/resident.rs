//! A thread that stays in a network namespace and runs work there. The process may meanwhile give
//! up the right to enter namespaces.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use crate::netns::NetNs;

/// A thread in a network namespace. Clones refer to the same thread, which ends when the last clone
/// is dropped.
#[derive(Clone, Debug)]
pub struct Resident {
    work: Sender<Box<dyn FnOnce() + Send>>,
    thread: Arc<JoinHandle<()>>,
}

impl Resident {
    /// Starts a thread in the namespace that `ip netns add NAME` created, or in the caller's own
    /// namespace.
    ///
    /// # Errors
    /// `NotFound` when no namespace has this name, `InvalidInput` when the name is not permitted;
    /// otherwise the kernel's error.
    pub fn start(name: Option<&str>) -> io::Result<Resident> {
        let netns = name.map(named).transpose()?;
        let (work, inbox) = channel::<Box<dyn FnOnce() + Send>>();
        let (entered, answer) = channel();
        let thread = thread::Builder::new().name("weir-netns".into()).spawn(move || {
            let joined = netns.map_or(Ok(()), |netns| netns.join());
            let failed = joined.is_err();
            // This cannot fail, because the starting thread waits for the answer.
            let _ = entered.send(joined);
            if !failed {
                inbox.iter().for_each(|work| work());
            }
        })?;
        answer.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Resident { work, thread: Arc::new(thread) })
    }

    /// Whether the thread has ended, which only a panic causes while this value exists.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.thread.is_finished()
    }

    /// Runs `work` in the namespace and returns its result; `None` when the thread has panicked.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, result) = channel();
        let work = Box::new(move || {
            // This cannot fail, because the calling thread waits for the answer.
            let _ = done.send(work());
        });
        self.work.send(work).ok()?;
        result.recv().ok()
    }
}

fn named(name: &str) -> io::Result<NetNs> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(NetNs::of(File::open(format!("/run/netns/{name}"))?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_the_resident_thread() {
        let resident = Resident::start(None).unwrap();
        let there = resident.run(|| thread::current().id()).unwrap();
        assert_ne!(there, thread::current().id());
        assert_eq!(resident.run(|| thread::current().id()), Some(there));
    }

    #[test]
    fn a_panic_is_noticed() {
        let resident = Resident::start(None).unwrap();
        assert!(!resident.has_panicked());
        assert_eq!(resident.run::<()>(|| panic!("this test makes the thread panic")), None);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !resident.has_panicked() {
            assert!(std::time::Instant::now() < deadline, "the panic is not noticed");
            thread::yield_now();
        }
    }

    #[test]
    fn an_impossible_namespace_is_refused() {
        for name in ["", "..", "a/b", "weir-there-is-none"] {
            assert!(Resident::start(Some(name)).is_err(), "{name}");
        }
    }
}
