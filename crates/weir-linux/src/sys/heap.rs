//! Settings of the C library's allocator.

/// Keeps the memory of a long-running process in a few regions. Call this before threads start.
///
/// glibc gives threads their own regions, up to eight for each processor, and keeps the memory that
/// a region once used. In a daemon, each burst of clients may therefore leave behind regions that
/// keep their memory. glibc also raises the size from which it returns memory at once. This
/// function fixes that size. With other C libraries, it does nothing.
pub fn keep_compact() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in [
        (libc::M_ARENA_MAX, REGIONS),
        (libc::M_MMAP_THRESHOLD, RETURNED_AT_ONCE),
        (libc::M_TRIM_THRESHOLD, RETURNED_AT_ONCE),
    ] {
        // SAFETY: mallopt takes two numbers. At worst, mallopt refuses a number.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// One region for the thread that forwards and one for the other threads. A thread uses the other
/// region when its own is in use.
#[cfg(target_env = "gnu")]
const REGIONS: libc::c_int = 2;
/// glibc's initial value, in bytes.
#[cfg(target_env = "gnu")]
const RETURNED_AT_ONCE: libc::c_int = 128 << 10;

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn many_threads_share_a_few_regions() {
        keep_compact();
        let before = address_space();
        let together = Barrier::new(THREADS);
        let after = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    std::thread::Builder::new()
                        .stack_size(256 << 10)
                        .spawn_scoped(scope, || {
                            let kept = vec![1u8; 10_000];
                            together.wait();
                            let space = address_space();
                            together.wait();
                            drop(kept);
                            space
                        })
                        .expect("a thread")
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
        });
        // A region reserves 64 MiB of addresses. Without the setting, two processors have 16
        // regions.
        let grown = after.expect("threads").saturating_sub(before);
        assert!(grown < 512 << 20, "{} MiB of addresses", grown >> 20);
    }

    /// Bytes of address space that this process uses.
    fn address_space() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
        let line = text.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a line");
        let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    const THREADS: usize = 40;
}
