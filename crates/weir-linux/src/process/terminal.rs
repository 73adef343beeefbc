//! The terminal's foreground group: an interactive shell takes it, and inside a PID namespace
//! cannot give it back.

use std::fs::File;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::sys;

/// The terminal that this process's group is in the foreground of.
#[derive(Debug)]
pub(crate) struct Terminal {
    file: File,
    group: Pid,
}

impl Terminal {
    /// The controlling terminal; `None` without one, or for a process in its background.
    pub(crate) fn in_front() -> Option<Terminal> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let group = getpgrp();
        (tcgetpgrp(&file).ok()? == group).then_some(Terminal { file, group })
    }

    /// Puts this process's group in front again. The group that the shell made is empty by now, and
    /// its number means nothing.
    pub(crate) fn take_back(&self) {
        if tcgetpgrp(&self.file).is_ok_and(|group| group == self.group) {
            return;
        }
        // A process in the background that does this is stopped by SIGTTOU unless it blocks it.
        // Blocked it stays: the thread writes to the terminal as one in the foreground.
        if sys::process::signal_descriptor(&[libc::SIGTTOU]).is_ok() {
            // A terminal that was hung up refuses, and is nobody's then.
            let _ = tcsetpgrp(&self.file, self.group);
        }
    }
}
