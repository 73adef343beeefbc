//! Memory that the kernel writes while this process reads it.

use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping shared with the kernel. Each word is read and written atomically, whatever the kernel
/// writes meanwhile.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is plain memory that any thread may access, and every access is atomic.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `words` words behind a descriptor, for reading and writing.
    ///
    /// # Errors
    /// The error of `mmap`; `EINVAL` when `words` is 0.
    pub fn map(descriptor: impl AsFd, words: usize) -> Result<SharedWords, Errno> {
        let bytes =
            NonZeroUsize::new(words.checked_mul(8).ok_or(Errno::INVAL)?).ok_or(Errno::INVAL)?;
        // SAFETY: the kernel chooses an unused address, so no existing mapping is replaced.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes.get(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                descriptor.as_fd(),
                0,
            )
        }?;
        // A mapping begins at a page boundary, so it is aligned, and never at address zero.
        let start = NonNull::new(address.cast()).ok_or(Errno::FAULT)?;
        Ok(SharedWords { start, words, bytes })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `words` aligned words are mapped until drop, and any bits are a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: this unmaps exactly the mapped range, and no reference to it outlives `self`. A
        // failure cannot be handled.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::SharedWords;

    #[test]
    fn two_mappings_of_one_file_see_the_same_words() {
        let file = memfd_create("words", MemfdFlags::CLOEXEC).expect("a memory file");
        ftruncate(&file, 4096).expect("the file can be extended");
        let (one, other) = (
            SharedWords::map(&file, 512).expect("a mapping"),
            SharedWords::map(&file, 512).expect("a mapping"),
        );
        one[511].store(0x0123_4567_89ab_cdef, Relaxed);
        assert_eq!(other[511].load(Relaxed), 0x0123_4567_89ab_cdef);
        assert!(SharedWords::map(&file, 0).is_err(), "nothing to map");
    }
}
