//! Settings of the live loop's thread: exact timers, priority, processor.

use std::num::NonZeroU64;

use rustix::io::Errno;

use super::check;

/// The thread's scheduling policy and priority.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Policy {
    /// First-in first-out real-time scheduling at `priority` (1 is the lowest).
    pub const fn realtime(priority: i32) -> Self {
        Self { policy: libc::SCHED_FIFO, priority }
    }

    /// The calling thread's policy.
    pub fn current() -> Result<Self, Errno> {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: sched_getscheduler takes a thread id, 0 for the caller.
        let policy = check(unsafe { libc::sched_getscheduler(0) })?;
        // SAFETY: the kernel writes one sched_param, which is valid and ours for the call.
        check(unsafe { libc::sched_getparam(0, &raw mut param) })?;
        Ok(Self { policy, priority: param.sched_priority })
    }

    /// Makes this the calling thread's policy. Threads that the caller starts later do not
    /// inherit a real-time policy.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_NICE or a sufficient RLIMIT_RTPRIO.
    pub fn apply(self) -> Result<(), Errno> {
        let param = libc::sched_param { sched_priority: self.priority };
        let reset = if self.policy == libc::SCHED_FIFO { libc::SCHED_RESET_ON_FORK } else { 0 };
        // SAFETY: the kernel reads one sched_param, which lives for the call.
        check(unsafe { libc::sched_setscheduler(0, self.policy | reset, &raw const param) })?;
        Ok(())
    }
}

/// Makes the calling thread's timers exact: the kernel may delay them by 1 ns instead of 50 us.
pub fn exact_timers() -> Result<(), Errno> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
}

/// Keeps the calling thread on one processor.
pub fn pin(cpu: usize) -> Result<(), Errno> {
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}
