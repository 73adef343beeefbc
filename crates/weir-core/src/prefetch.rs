//! Asks the processor for memory that will be needed soon. The only place of the core that is not
//! safe Rust; elsewhere than on x86-64 it does nothing.

#![expect(unsafe_code, reason = "a hint to the processor has no safe form")]

/// Asks for the cache line in which the element `index` of `slice` begins. No such element: nothing
/// happens.
#[inline(always)]
pub(crate) fn read<T>(slice: &[T], index: u32) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index as usize) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64; it reads nothing that a program could
        // see, and the address is that of an element of a live slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
