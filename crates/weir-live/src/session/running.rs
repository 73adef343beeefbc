//! The thread of the live loop: starting it, ending it, and joining it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_linux::live::{Live, LiveError, LiveHandle, LiveReport};
use weir_linux::process::Stopper;
use weir_linux::resident::Resident;

use super::error::StopError;

/// A live loop on its own thread. Dropping it ends the loop. A loop that does not end within
/// [`END_WITHIN`] is left behind, so that a stuck loop does not keep the process from ending.
#[derive(Debug)]
pub(super) struct Running {
    handle: LiveHandle,
    stop: Arc<AtomicBool>,
    /// Set when the loop has ended. The thread may then still be freeing the memory of the engine.
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<LiveReport, LiveError>>>,
}

impl Running {
    /// Starts `live` on a new thread. If `starter` is given, its thread starts the new one, because
    /// a thread inherits the capabilities and the namespace of the thread that starts it. `stopper`
    /// is called when the loop has ended, with or without an error or a panic.
    pub(super) fn start(
        mut live: Live,
        stopper: Option<Stopper>,
        starter: Option<&Resident>,
    ) -> io::Result<Self> {
        let (handle, stop, ended) = (live.handle(), Arc::<AtomicBool>::default(), Arc::default());
        let work = {
            let (stop, ended) = (Arc::clone(&stop), Arc::<AtomicBool>::clone(&ended));
            move || {
                let _end = End { ended, stopper };
                live.run(&stop)
            }
        };
        let spawn = move || std::thread::Builder::new().name("weir-link".to_owned()).spawn(work);
        let thread = match starter {
            Some(starter) => {
                starter.run(spawn).unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?
            }
            None => spawn()?,
        };
        Ok(Self { handle, stop, ended, thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &LiveHandle {
        &self.handle
    }

    /// The flag that ends the loop when it is set. The loop may notice it up to 0.1 s later.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether the loop has ended.
    pub(super) fn has_ended(&self) -> bool {
        let panicked = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        panicked || self.ended.load(Ordering::Relaxed)
    }

    /// Ends the loop and returns its report. Waits for the end for at most `within`.
    pub(super) fn stop(mut self, within: Duration) -> Result<LiveReport, StopError> {
        self.request_stop();
        let thread = self.thread.take().ok_or(StopError::Panicked)?;
        if !finishes(&thread, within) {
            return Err(StopError::Stuck { within });
        }
        Ok(thread.join().map_err(|_| StopError::Panicked)??)
    }

    fn request_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // This fails if the loop has already ended, which has the desired effect.
        let _ = self.handle.stop();
    }
}

/// Reports the end of the loop when it is dropped, so that a panic of the loop also ends the
/// session's wait.
struct End {
    ended: Arc<AtomicBool>,
    stopper: Option<Stopper>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.request_stop();
            // The session was dropped without a call of `stop`, so its report is not needed.
            if finishes(&thread, END_WITHIN) {
                let _ = thread.join();
            }
        }
    }
}

/// Waits until a thread finishes, for at most `within`; returns whether it has finished.
fn finishes(thread: &JoinHandle<Result<LiveReport, LiveError>>, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}

/// The longest wait for the loop's end. The loop ends after one turn; the rest is for an observer
/// that still writes to a slow disk.
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which the end of the loop is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
