//! The thread that checks the workers and tells the service manager that the daemon is alive.
//!
//! The thread takes no lock and waits for no other thread. It can therefore report a worker that
//! hangs even if all other threads wait for that worker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;
use weir_linux::live::LiveHandle;
use weir_live::daemon::{CHECKS, Watchdog};

use crate::output::say;

/// Dropping this value stops the checks. The thread continues to notify the service manager,
/// because the daemon takes a moment to end.
pub(super) struct Checks {
    ending: Arc<AtomicBool>,
}

/// Starts the thread. Without `engine` there are no workers, and the daemon counts as alive.
pub(super) fn start(engine: Option<LiveHandle>) -> io::Result<Checks> {
    let pause = sd_notify::watchdog_enabled().unwrap_or(DEFAULT_PERIOD) / PAUSES;
    let ending = Arc::<AtomicBool>::default();
    let checks = Checks { ending: Arc::clone(&ending) };
    std::thread::Builder::new()
        .name("weir-watchdog".to_owned())
        .spawn(move || run(engine.as_ref(), pause.max(SHORTEST_PAUSE), &ending))?;
    Ok(checks)
}

fn run(engine: Option<&LiveHandle>, pause: Duration, ending: &AtomicBool) {
    let mut watchdog = Watchdog::default();
    let mut reported = Vec::new();
    loop {
        std::thread::sleep(pause);
        let turns = engine.map(LiveHandle::turns).unwrap_or_default();
        let mut hanging = watchdog.check(&turns);
        if ending.load(Ordering::Relaxed) {
            hanging.clear();
        }
        if hanging.is_empty() {
            // Without a service manager there is nothing to notify.
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
        if hanging != reported {
            report(&hanging);
            reported = hanging;
        }
    }
}

fn report(hanging: &[usize]) {
    if hanging.is_empty() {
        return say("weir: all workers forward packets again\n");
    }
    for worker in hanging {
        say(format_args!(
            "weir: worker {worker} hangs and forwards no packets; please report this as a bug\n"
        ));
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

/// The period if the service manager requests none.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);
/// Number of pauses in a period. A worker that hangs is reported after [`CHECKS`] checks, which
/// take about half a period.
const PAUSES: u32 = 2 * CHECKS;
/// The shortest pause between two checks: [`Watchdog::check`] requires 200 ms.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
