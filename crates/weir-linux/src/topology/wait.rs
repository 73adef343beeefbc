//! Waits for signals when there are no programs.

use std::io;
use std::time::Instant;

use super::network::Happened;
use crate::process::{Program, Signals, Stopper, Wake, wait_any};

/// Waits until a signal asks this process to end, `stopper` is used, or the time `until` is
/// reached.
///
/// # Errors
/// Waiting itself fails.
pub fn wait(signals: &Signals, stopper: &Stopper, until: Option<Instant>) -> io::Result<Happened> {
    loop {
        match wait_any::<Program>(&[], Some(signals), Some(stopper), until)? {
            Wake::Signal(signal)
                if signal.number == libc::SIGUSR1 || signal.number == libc::SIGUSR2 => {}
            Wake::Signal(signal) => return Ok(Happened::Signal(signal.number)),
            Wake::Stopped => return Ok(Happened::Stopped),
            Wake::Timeout | Wake::Program(_) => return Ok(Happened::Time),
        }
    }
}
