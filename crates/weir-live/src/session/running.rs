//! The thread of the live loop: starting it, ending it, and joining it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
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
    /// Ends the loop when it is set.
    stop: Arc<AtomicBool>,
    /// Set when the loop has ended. The thread may then still be freeing the memory of the engine
    /// and closing the ports.
    ended: Arc<AtomicBool>,
    /// Receives the report of the loop when it ends.
    report: Receiver<Result<LiveReport, LiveError>>,
    /// The thread; `None` once it is left behind or joined.
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts `live` on a new thread. If `starter` is given, its thread starts the new one, because
    /// a thread inherits the capabilities and the namespace of the thread that starts it. `stopper`
    /// is called when the loop has ended, with or without an error or a panic.
    pub(super) fn start(
        live: Live,
        stopper: Option<Stopper>,
        starter: Option<&Resident>,
    ) -> io::Result<Self> {
        let (handle, stop, ended) = (live.handle(), Arc::<AtomicBool>::default(), Arc::default());
        let (sender, report) = sync_channel(1);
        let work = {
            let (stop, ended) = (Arc::clone(&stop), Arc::<AtomicBool>::clone(&ended));
            let run = move |live: &mut Live| {
                let _end = End { ended, stopper };
                live.run(&stop)
            };
            move || use_and_free(live, run, &sender)
        };
        let spawn = move || std::thread::Builder::new().name("weir-link".to_owned()).spawn(work);
        let thread = match starter {
            Some(starter) => {
                starter.run(spawn).unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?
            }
            None => spawn()?,
        };
        Ok(Self { handle, stop, ended, report, thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &LiveHandle {
        &self.handle
    }

    /// The flag that ends the loop when it is set. The loop may notice it up to 0.1 s later.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    pub(super) fn has_ended(&self) -> bool {
        let is_finished = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        is_finished || self.ended.load(Ordering::Relaxed)
    }

    /// Ends the loop and returns its report. Waits for the end for at most `within`.
    pub(super) fn stop(mut self, within: Duration) -> Result<LiveReport, StopError> {
        self.request_stop();
        let report = self.report.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => StopError::Stuck { within },
            RecvTimeoutError::Disconnected => StopError::Panicked,
        });
        if report.is_err() {
            // The thread is left behind.
            self.thread = None;
        }
        Ok(report??)
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
        let Some(thread) = self.thread.take() else { return };
        self.request_stop();
        if !self.ended.load(Ordering::Relaxed) {
            // The report is not needed, but it shows that the loop has ended.
            let _ = self.report.recv_timeout(END_WITHIN);
        }
        // Wait for the thread, so that usually nothing of the loop remains.
        let deadline = Instant::now() + FREE_WITHIN;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        // A panic was reported when it happened.
        let _ = thread.join();
    }
}

/// Sends the result of `work` before `used` is freed: the kernel needs some 50 ms to remove each
/// TAP device on a busy machine, and a session may have two thousand.
fn use_and_free<U, R>(mut used: U, work: impl FnOnce(&mut U) -> R, result: &SyncSender<R>) {
    // The receiver may have stopped waiting.
    let _ = result.send(work(&mut used));
}

/// The longest wait for the loop's end. The loop ends after one turn, but an observer may still
/// write to a slow disk.
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);
/// The longest wait for the thread to end after the loop has ended. The thread usually ends within
/// a millisecond.
const FREE_WITHIN: Duration = Duration::from_secs(1);
/// Interval at which the end of the thread is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A value that is freed when the test permits it.
    struct Slow(Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.recv().expect("the test lets it end");
        }
    }

    #[test]
    fn the_result_does_not_wait_until_the_value_is_freed() {
        let (allow, allowed) = channel();
        let (sender, result) = sync_channel(1);
        let thread = std::thread::spawn(move || use_and_free(Slow(allowed), |_| 7, &sender));
        assert_eq!(result.recv_timeout(Duration::from_secs(60)), Ok(7));
        assert!(!thread.is_finished(), "it is still freeing");
        allow.send(()).expect("it waits");
        thread.join().expect("it ends");
    }
}
