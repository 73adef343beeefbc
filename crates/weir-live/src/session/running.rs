//! The thread of the live loop: started, asked to end, joined.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_linux::live::{Live, LiveError, LiveHandle, LiveReport};
use weir_linux::process::Stopper;
use weir_linux::resident::Resident;

use super::error::StopError;

/// A live loop on a thread of its own. Dropping it ends the loop.
#[derive(Debug)]
pub(super) struct Running {
    handle: LiveHandle,
    stop: Arc<AtomicBool>,
    /// Set when the loop has ended; its thread then still frees the memory of the engine.
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<LiveReport, LiveError>>>,
}

impl Running {
    /// Starts `live`, from the thread of `starter` where one is given: a thread has the
    /// capabilities and the namespace of the thread that starts it. `stopper` is used when the loop
    /// ends, for whatever reason.
    pub(super) fn start(
        mut live: Live,
        stopper: Option<Stopper>,
        starter: Option<&Resident>,
    ) -> io::Result<Self> {
        let (handle, stop, ended) = (live.handle(), Arc::<AtomicBool>::default(), Arc::default());
        let work = {
            let (stop, ended) = (Arc::clone(&stop), Arc::<AtomicBool>::clone(&ended));
            move || {
                let report = live.run(&stop);
                ended.store(true, Ordering::Relaxed);
                if let Some(stopper) = stopper {
                    stopper.stop();
                }
                report
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

    /// What ends the loop when it is set; the loop may take a tenth of a second to see it.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether the loop has ended.
    pub(super) fn has_ended(&self) -> bool {
        let panicked = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        panicked || self.ended.load(Ordering::Relaxed)
    }

    /// Ends the loop and returns its report.
    pub(super) fn stop(mut self) -> Result<LiveReport, StopError> {
        self.ask();
        let thread = self.thread.take().ok_or(StopError::Panicked)?;
        Ok(thread.join().map_err(|_| StopError::Panicked)??)
    }

    fn ask(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // The loop may have ended already.
        let _ = self.handle.stop();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.ask();
            // A report that nobody asked for is lost with the session.
            let _ = thread.join();
        }
    }
}
