//! The terminal's foreground group. An interactive shell takes it, and inside a PID namespace
//! cannot give it back.

use std::fs::File;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::sys;

/// The terminal whose foreground group this process belongs to.
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

    /// Puts this process's group into the foreground again. The group that the shell made is empty
    /// by now, and its number means nothing.
    pub(crate) fn take_back(&self) {
        if tcgetpgrp(&self.file).is_ok_and(|group| group == self.group) {
            return;
        }
        // A background process that does this is stopped by SIGTTOU unless it blocks the signal. It
        // stays blocked: the thread writes to the terminal like one in the foreground.
        if sys::process::signal_descriptor(&[libc::SIGTTOU]).is_ok() {
            // A terminal that was hung up refuses, and has no foreground group.
            let _ = tcsetpgrp(&self.file, self.group);
        }
    }
}
