//! Waits for several descriptors at once, without an allocation for each wait.
//!
//! `rustix::event::poll` takes a slice of entries that borrow their descriptors. A struct that owns
//! the descriptors therefore cannot keep that slice between two calls. A [`PollSet`] keeps the
//! memory of the entries and fills them again from borrowed descriptors for each call.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use weir_core::Nanos;

use super::check;

/// The entries of a `ppoll` call, and their readiness after the call.
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// Waits for at most `timeout`, which may be zero, until a descriptor can be read or has an
    /// error to report. A `None` keeps its index and is never ready. Returns the number of ready
    /// descriptors; [`PollSet::is_ready`] tells which are ready.
    ///
    /// # Errors
    /// `EINTR` when a signal arrived; no descriptor is ready in this case.
    pub fn wait<'a>(
        &mut self,
        descriptors: impl Iterator<Item = Option<BorrowedFd<'a>>>,
        timeout: Nanos,
    ) -> Result<usize, Errno> {
        self.entries.clear();
        // The kernel ignores a negative descriptor.
        self.entries.extend(descriptors.map(|descriptor| libc::pollfd {
            fd: descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd()),
            events: libc::POLLIN,
            revents: 0,
        }));
        let timeout = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout.0 % 1_000_000_000) as _,
        };
        // SAFETY: the kernel writes only the `revents` of the entries, which are ours for the call
        // and as many as stated, and reads a timespec that lives for the call; no signal mask is
        // given. The descriptors are borrowed for 'a, which outlives the call.
        let ready = check(unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        })?;
        Ok(ready as usize)
    }

    /// Whether the descriptor at `index` of the last successful wait is ready: it can be read, or
    /// has an error to report.
    pub fn is_ready(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(|entry| entry.revents != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn only_descriptors_with_something_to_read_are_ready() {
        let quiet = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let ready = eventfd(1, EventfdFlags::CLOEXEC).expect("a descriptor");
        let mut set = PollSet::default();
        let order = [Some(quiet.as_fd()), None, Some(ready.as_fd())];
        assert_eq!(set.wait(order.into_iter(), Nanos::from_secs(10)), Ok(1));
        assert_eq!([0, 1, 2, 3].map(|index| set.is_ready(index)), [false, false, true, false]);
        assert_eq!(set.wait(order[..2].iter().copied(), Nanos::ZERO), Ok(0));
        assert!(!set.is_ready(0) && !set.is_ready(2), "the last wait counts");
    }
}
