//! Restores the terminal's foreground group. An interactive shell makes its own group the
//! foreground group, and cannot restore the previous group from inside a PID namespace.

use std::fs::File;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::sys;

/// The controlling terminal of this process. The process is in the terminal's foreground group.
#[derive(Debug)]
pub(crate) struct Terminal {
    file: File,
    group: Pid,
}

impl Terminal {
    /// The controlling terminal; `None` without one, or if this process is in the background.
    pub(crate) fn in_foreground() -> Option<Terminal> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let group = getpgrp();
        (tcgetpgrp(&file).ok()? == group).then_some(Terminal { file, group })
    }

    /// Makes this process's group the foreground group again. The group that the shell created is
    /// empty by now.
    pub(crate) fn take_back(&self) {
        if tcgetpgrp(&self.file).is_ok_and(|group| group == self.group) {
            return;
        }
        // SIGTTOU stops a background process that changes the foreground group, unless the process
        // blocks the signal. The signal stays blocked, so this thread may also write to the
        // terminal from the background.
        if sys::process::signal_descriptor(&[libc::SIGTTOU]).is_ok() {
            // This fails if the terminal was hung up, and then it has no foreground group.
            let _ = tcsetpgrp(&self.file, self.group);
        }
    }
}
