//! Prefetches memory. This is the only module of the crate with unsafe code. On processors other
//! than x86-64 it does nothing.

#![expect(unsafe_code, reason = "a hint to the processor has no safe form")]

/// Prefetches the cache line in which element `index` of `slice` begins. Does nothing if there is
/// no such element.
#[inline(always)]
pub(crate) fn read<T>(slice: &[T], index: u32) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index as usize) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64. It has no effect that a program can
        // observe, and the address is that of an element of a live slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
